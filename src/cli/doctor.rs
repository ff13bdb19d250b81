//! `delegate doctor`: what this kernel and this user can enforce, guarantee by
//! guarantee, and what to change where that is not all.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use jail::{Enforcement, Form, Guarantee, ProfileSet, Request, Survey};
use serde::Serialize;
use serde_json::json;

use super::exit::Exit;
use super::host::print;
use super::jail::{launcher, this_host, user_profiles};
use super::text::plain;

/// How long the trial may take before it counts as failed.
const TRIAL: Duration = Duration::from_secs(10);

/// Flags of `delegate doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 when a jail can be made, 1 when none can.")]
pub struct Args {
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

/// What a profile can have on this machine.
#[derive(Debug, Serialize)]
struct ProfileState {
    name: String,
    /// The strongest form that keeps its floor.
    form: Option<Form>,
    /// What is missing, when no form does.
    missing: Option<String>,
}

/// Examines this machine.
pub fn main(args: Args) -> ExitCode {
    let set = user_profiles()
        .into_iter()
        .fold(ProfileSet::builtin(), ProfileSet::with_dir);
    let survey = survey(&set);
    let profiles = profiles(&set, &survey);
    let (toolchains, trial) = trial(&set);
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/path/to/delegate"));
    let text = if args.json {
        let object = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "survey": survey,
            "form": form(&survey),
            "profiles": profiles,
            "toolchains": toolchains,
            "trial": match &trial {
                Ok(time) => json!({ "ok": true, "ms": u64::try_from(time.as_millis()).unwrap_or(u64::MAX) }),
                Err(error) => json!({ "ok": false, "error": error }),
            },
            "apparmor_profile": apparmor(&program),
        });
        format!("{object}\n")
    } else {
        plain(&screen(&survey, &profiles, &toolchains, &trial, &program))
    };
    print(&text);
    if trial.is_ok() {
        Exit::Done.into()
    } else {
        Exit::Failed.into()
    }
}

/// What this machine can enforce of a policy as people use them: with limits,
/// and with something to protect, which not every form can.
fn survey(set: &ProfileSet) -> Survey {
    let mut survey = jail::survey();
    let mut policy = jail::Policy::empty();
    if let Ok(profile) = set.load("bash") {
        policy.limits = profile.limits;
    }
    policy.protect.push(jail::Protect {
        path: PathBuf::from("/"),
        pin_only: true,
        origin: jail::Origin {
            source: "doctor".to_owned(),
            line: 0,
            reason: String::new(),
        },
    });
    for form in [Form::Full, Form::Narrow] {
        if let Ok(plan) = jail::prepare_form(&policy, form) {
            let answer = plan.enforcement().clone();
            survey.answers.insert(form.to_string(), answer);
        }
    }
    survey
}

/// The form that is used when nobody asks for one.
fn form(survey: &Survey) -> Option<Form> {
    if survey.full.is_ok() {
        Some(Form::Full)
    } else if survey.narrow.is_ok() {
        Some(Form::Narrow)
    } else {
        None
    }
}

fn answer(survey: &Survey, form: Form) -> Option<&Enforcement> {
    survey.answers.get(&form.to_string())
}

fn profiles(set: &ProfileSet, survey: &Survey) -> Vec<ProfileState> {
    set.names()
        .into_iter()
        .map(|name| {
            let floor = match set.load(&name) {
                Ok(profile) => profile.floor,
                Err(error) => {
                    return ProfileState {
                        name,
                        form: None,
                        missing: Some(error.to_string()),
                    };
                }
            };
            let Some(form) = form(survey) else {
                return ProfileState {
                    name,
                    form: None,
                    missing: Some("no form of the jail".to_owned()),
                };
            };
            let missing: Vec<String> = answer(survey, form)
                .map(|answer| answer.below(&floor))
                .unwrap_or_default()
                .into_iter()
                .map(|(guarantee, wanted, held)| {
                    format!("{guarantee} {} instead of {wanted}", held.strength)
                })
                .collect();
            ProfileState {
                name,
                form: missing.is_empty().then_some(form),
                missing: (!missing.is_empty()).then(|| missing.join(", ")),
            }
        })
        .collect()
}

/// Runs a program in a jail, since only that proves that it works. Also gives
/// the toolchains that were found.
fn trial(set: &ProfileSet) -> (Vec<String>, Result<Duration, String>) {
    let request = Request {
        profile: "base".to_owned(),
        toolchains: vec!["auto".to_owned()],
        ..Request::default()
    };
    let resolved = match jail::resolve_noted(set, &request, &this_host()) {
        Ok(resolved) => resolved,
        Err(error) => return (Vec::new(), Err(error.to_string())),
    };
    let ran = run_true(&resolved.policy);
    (resolved.toolchains, ran)
}

fn run_true(policy: &jail::Policy) -> Result<Duration, String> {
    let start = Instant::now();
    let null = |write: bool| {
        std::fs::OpenOptions::new()
            .read(!write)
            .write(write)
            .open("/dev/null")
            .map(std::os::fd::OwnedFd::from)
            .map_err(|error| format!("/dev/null cannot be opened: {error}"))
    };
    let launcher =
        launcher().map_err(|error| format!("delegate does not find its own binary: {error}"))?;
    let ended = jail::prepare(policy)
        .and_then(|plan| plan.open(&launcher))
        .and_then(|cell| {
            let command = jail::Command {
                argv: vec!["/bin/sh".into(), "-c".into(), ":".into()],
                env: Vec::new(),
                cwd: None,
                stdin: null(false).map_err(|_| jail::JailError::Command {
                    what: "no /dev/null",
                })?,
                stdout: null(true).map_err(|_| jail::JailError::Command {
                    what: "no /dev/null",
                })?,
                stderr: null(true).map_err(|_| jail::JailError::Command {
                    what: "no /dev/null",
                })?,
                deadline: Some(TRIAL),
            };
            cell.spawn(command)?.wait()
        })
        .map_err(|error| error.to_string())?;
    match ended.exit {
        jail::Exit::Code(0) => Ok(start.elapsed()),
        other => Err(format!("`sh -c :` in a jail ended with {}", other.status())),
    }
}

fn screen(
    survey: &Survey,
    profiles: &[ProfileState],
    toolchains: &[String],
    trial: &Result<Duration, String>,
    program: &Path,
) -> String {
    let mut out = String::new();
    let user = if survey.root {
        "root"
    } else {
        "an ordinary user"
    };
    let landlock = match survey.landlock_abi {
        0 => "no Landlock".to_owned(),
        abi => format!("Landlock ABI {abi}"),
    };
    let _ = writeln!(
        out,
        "delegate {} on Linux {} as {user}, {landlock}",
        env!("CARGO_PKG_VERSION"),
        survey.kernel
    );
    for (name, state) in [("full", &survey.full), ("narrow", &survey.narrow)] {
        let state = state.as_ref().map_or_else(
            |why| format!("not available: {why}"),
            |()| "available".to_owned(),
        );
        let _ = writeln!(out, "{name:6} form  {state}");
    }
    let _ = match trial {
        Ok(time) => writeln!(
            out,
            "trial        a shell ran in a jail, {} ms in all",
            time.as_millis()
        ),
        Err(why) => writeln!(out, "trial        FAILED: {why}"),
    };
    table(survey, &mut out);
    let _ = writeln!(out);
    for form in [Form::Full, Form::Narrow] {
        let names: Vec<&str> = profiles
            .iter()
            .filter(|state| state.form == Some(form))
            .map(|state| state.name.as_str())
            .collect();
        if !names.is_empty() {
            let _ = writeln!(out, "profiles in the {form} form: {}", names.join(", "));
        }
    }
    for state in profiles {
        if let Some(missing) = &state.missing {
            let _ = writeln!(out, "profile {} is refused: {missing}", state.name);
        }
    }
    if !toolchains.is_empty() {
        let _ = writeln!(out, "toolchains on your PATH: {}", toolchains.join(", "));
    }
    for advice in &survey.advice {
        let _ = writeln!(out, "\nto change: {advice}");
    }
    if survey
        .advice
        .iter()
        .any(|advice| advice.contains("AppArmor"))
    {
        let _ = writeln!(out, "\n/etc/apparmor.d/delegate:\n{}", apparmor(program));
    }
    out
}

/// One line a guarantee; the mechanism is that of the form in use.
fn table(survey: &Survey, out: &mut String) {
    let used = form(survey).unwrap_or(Form::Full);
    let strength = |form: Form, available: bool, guarantee: Guarantee| {
        answer(survey, form)
            .filter(|_| available)
            .and_then(|answer| answer.guarantees.get(&guarantee))
            .map_or_else(|| "-".to_owned(), |held| held.strength.to_string())
    };
    let _ = writeln!(
        out,
        "\n{:13} {:9} {:9} how, in the {used} form",
        "guarantee", "full", "narrow"
    );
    for guarantee in Guarantee::ALL {
        let how = answer(survey, used)
            .and_then(|answer| answer.guarantees.get(&guarantee))
            .map_or("", |held| held.by.as_str());
        let _ = writeln!(
            out,
            "{:13} {:9} {:9} {how}",
            guarantee.name(),
            strength(Form::Full, survey.full.is_ok(), guarantee),
            strength(Form::Narrow, survey.narrow.is_ok(), guarantee),
        );
    }
}

/// A profile that gives this binary, and nothing else, the right to user
/// namespaces on Ubuntu 23.10 and later.
fn apparmor(program: &Path) -> String {
    format!(
        "abi <abi/4.0>,\n\
         include <tunables/global>\n\
         \n\
         profile delegate \"{}\" flags=(unconfined) {{\n  \
           userns,\n  \
           include if exists <local/delegate>\n\
         }}\n",
        program.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_screen_names_every_guarantee_and_what_is_wrong() {
        let mut survey = jail::survey();
        survey.full = Err("unshare: EPERM".to_owned());
        survey.advice = vec!["AppArmor is in the way.".to_owned()];
        let states = profiles(&ProfileSet::builtin(), &survey);
        let text = screen(
            &survey,
            &states,
            &["cargo".to_owned()],
            &Err("no".to_owned()),
            Path::new("/opt/delegate"),
        );
        for guarantee in Guarantee::ALL {
            assert!(text.contains(guarantee.name()), "{guarantee}");
        }
        for part in [
            "not available: unshare: EPERM",
            "FAILED: no",
            "profiles in the narrow form: base, bash",
            "profile delegate \"/opt/delegate\"",
            "userns,",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        // One screen: the table, and what there is to say about it.
        assert!(text.lines().count() < 50, "{text}");
    }

    #[test]
    fn a_profile_whose_floor_is_not_kept_is_named_with_what_is_missing() {
        let mut survey = jail::survey();
        survey.full = Ok(());
        for answer in survey.answers.values_mut() {
            if let Some(held) = answer.guarantees.get_mut(&Guarantee::Reads) {
                held.strength = jail::Strength::Absent;
            }
        }
        let states = profiles(&ProfileSet::builtin(), &survey);
        assert!(states.iter().all(|state| state.form.is_none()));
        let missing = states[0].missing.as_deref();
        assert_eq!(missing, Some("reads absent instead of enforced"));
    }
}

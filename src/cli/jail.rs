//! `delegate jail`: run a command in a jail, explain a policy, examine this
//! machine.

mod explain;
mod host;
mod report;
mod run;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};
use jail::{Access, Guarantee, ProfileError, ProfileSet, Request, Resolved, Strength};

use super::doctor;
use super::exit::Exit;

pub use host::{launcher, this_host, user_profiles};

/// Flags of `delegate jail`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a command in a jail: `delegate jail run bash -- make test`.
    Run(run::Args),
    /// Show every grant of a profile with the line that gave it, or why a path
    /// is or is not reachable.
    Explain(explain::Args),
    /// Say what this kernel and this user can enforce, and what to change.
    Doctor(doctor::Args),
}

/// Does what the command line says.
pub fn main(args: Args) -> ExitCode {
    match args.command {
        Command::Run(args) => run::main(args),
        Command::Explain(args) => explain::main(args),
        Command::Doctor(args) => doctor::main(args),
    }
}

/// What decides a policy; the same for `run` and `explain`.
#[derive(Debug, clap::Args)]
struct PolicyArgs {
    /// Profile: base, readonly, bash, tools, or one of your own in
    /// ~/.config/delegate/profiles.
    profile: String,
    /// The workspace; the current folder when not given.
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Grant one more path, named exactly: read:PATH, write:PATH or
    /// execute:PATH. Writing and executing include reading.
    #[arg(long, value_name = "ACCESS:PATH")]
    allow: Vec<OsString>,
    /// Add a toolchain: git, python, node, cargo, go, ... or auto for those on
    /// your PATH.
    #[arg(long, value_name = "NAME")]
    toolchain: Vec<String>,
    /// Network: off (a loopback of the jail's own) or open (the host's).
    #[arg(long, value_name = "MODE")]
    net: Option<Net>,
    /// Which form of the jail: full (namespaces) or narrow (without). The best
    /// that this machine can make when not given.
    #[arg(long, value_name = "FORM")]
    form: Option<FormArg>,
    /// Pass a variable: NAME for its present value, or NAME=VALUE.
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<OsString>,
    /// Accept no less for a guarantee than this: GUARANTEE for enforced, or
    /// GUARANTEE=detected; `all` stands for every one.
    #[arg(long, value_name = "GUARANTEE[=STRENGTH]", value_parser = floor)]
    floor: Vec<Floor>,
    /// Which refused accesses are recorded.
    #[arg(long, value_name = "WHAT")]
    observe: Option<ObserveArg>,
}

/// The least that is accepted, for some guarantees.
#[derive(Clone, Debug, PartialEq)]
struct Floor(Vec<Guarantee>, Strength);

/// Reads `metadata`, `limits=detected` or `all`.
fn floor(text: &str) -> Result<Floor, String> {
    let (name, strength) = text.split_once('=').unwrap_or((text, "enforced"));
    let strength = [Strength::Absent, Strength::Detected, Strength::Enforced]
        .into_iter()
        .find(|known| known.to_string() == strength)
        .ok_or_else(|| format!("{strength:?} is no strength; use enforced, detected or absent"))?;
    let names: Vec<Guarantee> = Guarantee::ALL
        .into_iter()
        .filter(|known| name == "all" || known.name() == name)
        .collect();
    if names.is_empty() {
        let known: Vec<&str> = Guarantee::ALL.iter().map(|known| known.name()).collect();
        return Err(format!(
            "{name:?} is no guarantee; there are: {}",
            known.join(", ")
        ));
    }
    Ok(Floor(names, strength))
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Net {
    Off,
    Open,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormArg {
    Full,
    Narrow,
}

impl FormArg {
    fn form(self) -> jail::Form {
        match self {
            FormArg::Full => jail::Form::Full,
            FormArg::Narrow => jail::Form::Narrow,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ObserveArg {
    Off,
    Writes,
    All,
}

/// Why nothing was run, with the stable code of the room that says so.
#[derive(Debug)]
struct Failure {
    code: String,
    message: String,
    status: u8,
}

impl Failure {
    fn new(code: &str, message: impl Into<String>) -> Failure {
        Failure {
            code: code.to_owned(),
            message: message.into(),
            status: Exit::NoJail.status(),
        }
    }
}

impl From<ProfileError> for Failure {
    fn from(error: ProfileError) -> Failure {
        Failure::new(error.code(), error.to_string())
    }
}

impl From<jail::JailError> for Failure {
    fn from(error: jail::JailError) -> Failure {
        Failure::new(error.code(), error.to_string())
    }
}

impl PolicyArgs {
    fn set(&self) -> ProfileSet {
        user_profiles()
            .into_iter()
            .fold(ProfileSet::builtin(), ProfileSet::with_dir)
    }

    fn request(&self) -> Result<Request, Failure> {
        let here = std::env::current_dir().map_err(|error| {
            Failure::new(
                "cwd_unreadable",
                format!("the current folder cannot be read: {error}"),
            )
        })?;
        let home = this_host().home;
        Ok(Request {
            profile: self.profile.clone(),
            workspace: Some(match &self.workspace {
                Some(path) => absolute(&here, &home, path),
                None => here.clone(),
            }),
            allow: self
                .allow
                .iter()
                .map(|text| allow(text, &here, &home))
                .collect::<Result<_, _>>()?,
            toolchains: self.toolchain.clone(),
            network: self.net.map(|net| match net {
                Net::Off => jail::Network::Off,
                Net::Open => jail::Network::Open,
            }),
            observe: self.observe.map(|observe| match observe {
                ObserveArg::Off => jail::Observe::Off,
                ObserveArg::Writes => jail::Observe::Writes,
                ObserveArg::All => jail::Observe::All,
            }),
            env: self.env.iter().map(variable).collect::<Result<_, _>>()?,
            ..Request::default()
        })
    }

    fn resolve(&self) -> Result<Resolved, Failure> {
        let mut resolved = jail::resolve_noted(&self.set(), &self.request()?, &this_host())?;
        for Floor(names, strength) in &self.floor {
            for name in names {
                // Only ever raised: what a profile asks for is not bargained down.
                let held = resolved.policy.floor.entry(*name).or_insert(*strength);
                *held = (*held).max(*strength);
            }
        }
        Ok(resolved)
    }

    fn plan(&self, resolved: &Resolved) -> Result<jail::Plan, Failure> {
        Ok(match self.form {
            Some(form) => jail::prepare_form(&resolved.policy, form.form())?,
            None => jail::prepare(&resolved.policy)?,
        })
    }
}

/// Writes to stderr. Whoever read it may have gone away, which changes nothing
/// about what was run.
fn say(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// The policy as this form holds it: without a private root, what would be a
/// private folder is the host's own.
fn held(plan: &jail::Plan) -> jail::Policy {
    let mut policy = plan.policy().clone();
    if plan.form() != jail::Form::Full {
        policy.scratch.clear();
        policy.empty_dirs.clear();
    }
    policy
}

/// `path` from the current folder, `~/` from the home directory. What remains
/// of `..` is resolved by name, as a shell shows it.
fn absolute(here: &Path, home: &Path, path: &Path) -> PathBuf {
    let path = match path.strip_prefix("~") {
        Ok(rest) => home.join(rest),
        Err(_) => here.join(path),
    };
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

/// Reads `read+execute:PATH`.
fn allow(text: &OsString, here: &Path, home: &Path) -> Result<(Access, PathBuf), Failure> {
    use std::os::unix::ffi::OsStrExt;
    let bytes = text.as_bytes();
    let Some(colon) = bytes.iter().position(|byte| *byte == b':') else {
        return Err(Failure::new(
            "allow_invalid",
            format!(
                "--allow {} has no access; write read:PATH, write:PATH or execute:PATH",
                text.display()
            ),
        ));
    };
    let access = String::from_utf8_lossy(&bytes[..colon])
        .parse()
        .map_err(|what: String| {
            Failure::new(
                "allow_invalid",
                format!("--allow {}: {what}", text.display()),
            )
        })?;
    let path = Path::new(std::ffi::OsStr::from_bytes(&bytes[colon + 1..]));
    if path.as_os_str().is_empty() {
        return Err(Failure::new(
            "allow_invalid",
            format!("--allow {} names no path", text.display()),
        ));
    }
    Ok((access, absolute(here, home, path)))
}

/// Reads `NAME` or `NAME=VALUE`. The value is in no message: it may be secret.
fn variable(text: &OsString) -> Result<(OsString, OsString), Failure> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let bytes = text.as_bytes();
    let (name, value) = match bytes.iter().position(|byte| *byte == b'=') {
        Some(at) => (
            OsString::from_vec(bytes[..at].to_vec()),
            Some(OsString::from_vec(bytes[at + 1..].to_vec())),
        ),
        None => (text.clone(), std::env::var_os(text)),
    };
    if name.is_empty() {
        return Err(Failure::new("env_invalid", "--env needs a name"));
    }
    match value {
        Some(value) => Ok((name, value)),
        None => Err(Failure::new(
            "env_unset",
            format!(
                "--env {}: there is no such variable; write NAME=VALUE to give one",
                name.display()
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Access, PathBuf), String> {
        allow(&text.into(), Path::new("/here"), Path::new("/home/u"))
            .map_err(|failure| failure.message)
    }

    #[test]
    fn allow_reads_an_access_and_a_path() {
        let write = Access::READ | Access::WRITE;
        assert_eq!(read("read:/a"), Ok((Access::READ, "/a".into())));
        assert_eq!(read("write:sub/x"), Ok((write, "/here/sub/x".into())));
        assert_eq!(
            read("write+execute:~/b:c"),
            Ok((Access::all(), "/home/u/b:c".into()))
        );
        assert_eq!(read("read:../x"), Ok((Access::READ, "/x".into())));
        assert!(read("/a").is_err());
        assert!(
            read("rw:/a")
                .expect_err("no access")
                .contains("\"rw\" is no access")
        );
        assert!(read("read:").is_err());
    }

    #[test]
    fn a_floor_names_a_guarantee_and_a_strength() {
        let read = |text: &str| floor(text).ok();
        assert_eq!(
            read("ipc"),
            Some(Floor(vec![Guarantee::Ipc], Strength::Enforced))
        );
        assert_eq!(
            read("limits=detected"),
            Some(Floor(vec![Guarantee::Limits], Strength::Detected))
        );
        assert_eq!(
            read("all"),
            Some(Floor(Guarantee::ALL.to_vec(), Strength::Enforced))
        );
        assert_eq!((read("magic"), read("ipc=very")), (None, None));
    }

    #[test]
    fn a_variable_is_given_or_taken_and_never_made_up() {
        let value = variable(&"A=b=c".into()).map_err(|failure| failure.code);
        assert_eq!(value, Ok(("A".into(), "b=c".into())));
        let value =
            variable(&"DELEGATE_TEST_NO_SUCH_VARIABLE".into()).map_err(|failure| failure.code);
        assert_eq!(value, Err("env_unset".to_owned()));
        assert_eq!(
            variable(&"=x".into()).map_err(|failure| failure.code),
            Err("env_invalid".to_owned())
        );
    }
}

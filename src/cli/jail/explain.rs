//! `delegate jail explain PROFILE`

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use jail::{Access, Resolved};
use serde_json::{Value, json};

use super::{Failure, PolicyArgs, absolute, held, report, say, this_host};
use crate::cli::host::print;
use crate::cli::text::plain;

/// Flags of `delegate jail explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit status: 0; with --path, 1 when the access is refused; 125 when the profile
cannot be resolved or, with --steps, no jail can be made.")]
pub struct Args {
    #[command(flatten)]
    policy: PolicyArgs,
    /// Say why this path is or is not reachable.
    #[arg(long, value_name = "PATH")]
    path: Option<PathBuf>,
    /// What is wanted of it: read, write, execute, joined by +.
    #[arg(long, default_value = "read", requires = "path")]
    access: String,
    /// Show the steps by which the jail is made.
    #[arg(long)]
    steps: bool,
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

/// Explains.
pub(super) fn main(args: Args) -> ExitCode {
    match explained(&args) {
        Ok((text, 0)) => print(&text),
        Ok((text, status)) => {
            print(&text);
            ExitCode::from(status)
        }
        Err(failure) => {
            if args.json {
                say(&format!("{}\n", report::failure_object(&failure)));
            } else {
                say(&plain(&format!("delegate: {}\n", failure.message)));
            }
            ExitCode::from(failure.status)
        }
    }
}

fn explained(args: &Args) -> Result<(String, u8), Failure> {
    let resolved = args.policy.resolve()?;
    if let Some(path) = &args.path {
        return path_answer(args, &resolved, path);
    }
    let steps = if args.steps {
        Some(args.policy.plan(&resolved)?.steps())
    } else {
        None
    };
    let explanation = jail::explain(&resolved);
    if args.json {
        let mut object = serde_json::to_value(&explanation)
            .map_err(|error| Failure::new("json", error.to_string()))?;
        if let (Some(steps), Value::Object(map)) = (steps, &mut object) {
            map.insert("steps".to_owned(), json!(steps));
        }
        return Ok((format!("{object}\n"), 0));
    }
    let mut text = explanation.to_string();
    if let Some(steps) = steps {
        let _ = writeln!(text, "\nsteps");
        for (number, step) in steps.iter().enumerate() {
            let _ = writeln!(text, "  {:3}  {step}", number + 1);
        }
    }
    Ok((plain(&text), 0))
}

fn path_answer(
    args: &Args,
    resolved: &Resolved,
    path: &std::path::Path,
) -> Result<(String, u8), Failure> {
    let access: Access = args
        .access
        .parse()
        .map_err(|what: String| Failure::new("access_invalid", what))?;
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let path = absolute(&here, &this_host().home, path);
    // Where no jail can be made, what the profile asks for is explained.
    let policy = match args.policy.plan(resolved) {
        Ok(plan) => held(&plan),
        Err(_) => resolved.policy.clone(),
    };
    let answer = jail::explain_path(&policy, &path, access);
    let status = u8::from(!answer.allowed);
    if args.json {
        return Ok((format!("{}\n", json!(answer)), status));
    }
    let mut text = String::new();
    let verdict = if answer.allowed { "allowed" } else { "refused" };
    let _ = writeln!(text, "{verdict}: {access} on {}", path.display());
    if answer.located != answer.path {
        let _ = writeln!(text, "  it is    {}", answer.located.display());
    }
    if let Some(shown) = answer
        .shown
        .as_ref()
        .filter(|shown| **shown != answer.located)
    {
        let _ = writeln!(text, "  shows    {}", shown.display());
    }
    let _ = writeln!(text, "  because  {}", answer.because);
    if answer.nearest != path && !path.exists() {
        let _ = writeln!(
            text,
            "  exists   only as far as {}",
            answer.nearest.display()
        );
    }
    if let Some(way_out) = &answer.way_out {
        let _ = writeln!(text, "  way out  {way_out}");
    }
    Ok((plain(&text), status))
}

//! A person's face: one file a subcommand.
//!
//! Uses every room below and is used by `main` only. What a command prints for
//! a program goes to stdout, everything else to stderr; [`exit`] holds the exit
//! statuses. Text of a model or a tool reaches the terminal only through
//! [`text`], which takes the control characters out.

pub mod config;
pub mod doctor;
pub mod exit;
pub mod host;
pub mod jail;
pub mod run;
pub mod serve;
pub mod text;
pub mod try_;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Hand agent work to other models, every tool call in a kernel-enforced jail.
#[derive(Debug, Parser)]
#[command(name = "delegate", version, max_term_width = 100, after_help = exit::HELP)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve MCP over stdin and stdout.
    Serve(serve::Args),
    /// Run one task with a model, with live progress.
    Run(run::Args),
    /// Show the whole of it on a scratch project; needs no model.
    Try(try_::Args),
    /// Run, explain or examine jails.
    Jail(jail::Args),
    /// Say what this machine can enforce and how delegate is set up.
    Doctor(doctor::Args),
    /// Show the configuration and where each value comes from.
    Config(config::Args),
    /// The tool worker; started by delegate itself, inside a jail.
    #[command(hide = true)]
    ToolWorker,
}

/// Keeps the memory of this process to itself: no core file, no tracer of the
/// same user. Keys will be in it.
pub fn harden() {
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_dumpable(false);
    let _ = nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CORE, 0, 0);
}

/// Diagnostics on stderr when `DELEGATE_LOG` names a filter such as
/// `delegate=debug`; `DELEGATE_LOG=0` and `=1` are the old system's switch.
/// `RUST_LOG` is not asked: hosts hand down their whole environment, and what
/// somebody set for another program would write tasks into the host's log.
fn trace() {
    let filter = std::env::var("DELEGATE_LOG")
        .ok()
        .filter(|text| text.contains(|c: char| c.is_ascii_alphabetic()));
    let Some(filter) = filter.and_then(|text| text.parse::<tracing_subscriber::EnvFilter>().ok())
    else {
        return;
    };
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .try_init();
}

/// Parses the command line and does what it says.
pub fn main() -> ExitCode {
    trace();
    match Cli::try_parse() {
        Ok(cli) => dispatch(cli.command),
        Err(error) => {
            // `--help` and `--version` are no errors; clap writes them to
            // stdout and fails on a closed pipe, which is nobody's loss.
            let _ = error.print();
            if error.use_stderr() {
                exit::Exit::Usage.into()
            } else {
                ExitCode::SUCCESS
            }
        }
    }
}

fn dispatch(command: Command) -> ExitCode {
    match command {
        Command::Serve(args) => serve::main(args),
        Command::Run(args) => run::main(args),
        Command::Try(args) => try_::main(args),
        Command::Jail(args) => jail::main(args),
        Command::Doctor(args) => doctor::main(args),
        Command::Config(args) => config::main(args),
        Command::ToolWorker => crate::tools::worker_main(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_tree_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn run_takes_what_the_readme_says() {
        let line = [
            "delegate",
            "run",
            "fix it",
            "--agent",
            "coder",
            "--readonly",
            "--workspace",
            "/w",
            "--base-url",
            "http://h/v1",
            "--wire",
            "openai",
            "--model",
            "m",
            "--key-env",
            "K",
            "--set",
            "max_turns=3",
            "--set",
            "stream=false",
            "--json",
        ];
        let cli = Cli::try_parse_from(line).expect("parses");
        let Command::Run(args) = cli.command else {
            panic!("not run");
        };
        assert_eq!(args.task, "fix it");
        assert_eq!(args.set, ["max_turns=3", "stream=false"]);
        assert!(args.json && args.readonly);
        assert!(Cli::try_parse_from(["delegate", "run", "x", "--wire", "http"]).is_err());
        assert!(Cli::try_parse_from(["delegate", "run"]).is_err());
    }
}

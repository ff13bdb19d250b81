//! `delegate serve`: the MCP server on stdin and stdout.
//!
//! Hosts pass little environment, or too much: everything that decides how
//! the server works can be said in its arguments, which go into the host's
//! configuration beside the path of the binary.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::exit::Exit;
use super::host;
use crate::config::{Config, ConfigError, Sources};
use crate::mcp::{self, Flags, House, Toolsets};

/// `delegate serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The server needs no configuration to start. Flags go before the environment,
that before ~/.config/delegate/config.toml, that before ~/.deepseek-mcp/config.json.

  delegate serve --base-url http://127.0.0.1:8080/v1 --model qwen3-coder
  delegate serve --name deepseek --toolsets deepseek
  delegate serve --name delegate-local --toolsets agents,codex,gemini,dsh,status

It ends with its host: at the end of its input, on SIGINT, SIGTERM or SIGHUP,
with exit status 0 and nothing left running.")]
pub struct Args {
    /// Name under which the server presents itself
    #[arg(long, value_name = "NAME", default_value = "delegate")]
    pub name: String,
    /// Families of tools to show: agents, deepseek, codex, gemini, dsh, status [default: all]
    #[arg(long, value_name = "LIST")]
    pub toolsets: Option<String>,
    /// Base URL of the model server, such as http://127.0.0.1:8080/v1
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Model name as that server knows it
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Wire format: openai (Chat Completions) or anthropic (Messages)
    #[arg(long, value_name = "WIRE", value_parser = ["openai", "anthropic"])]
    pub wire: Option<String>,
    /// Name of the environment variable that holds the key
    #[arg(long, value_name = "NAME")]
    pub key_env: Option<String>,
    /// Root for the deepseek tools [default: DEEPSEEK_WORKSPACE, the configuration, or the working directory]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Folder for journal, private homes and locks
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Folder of the execution leases, for tests that must not touch the shared one
    #[arg(long, value_name = "DIR", hide = true)]
    pub locks_dir: Option<PathBuf>,
    /// A setting; `delegate config show` lists them
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

impl Args {
    /// The flags that stand for settings: name, value, how the person wrote it.
    fn settings(&self) -> Result<Vec<(String, String, String)>, ConfigError> {
        let mut settings = Vec::new();
        for (name, value) in [
            ("base_url", &self.base_url),
            ("model", &self.model),
            ("wire", &self.wire),
            ("key_env", &self.key_env),
        ] {
            if let Some(value) = value {
                settings.push((
                    name.to_owned(),
                    value.clone(),
                    format!("--{}", name.replace('_', "-")),
                ));
            }
        }
        for text in &self.set {
            let (name, value) = text
                .split_once('=')
                .ok_or_else(|| ConfigError::NotKeyValue { text: text.clone() })?;
            settings.push((name.to_owned(), value.to_owned(), "--set".to_owned()));
        }
        Ok(settings)
    }
}

/// Runs the server to its end.
pub fn main(args: Args) -> ExitCode {
    let env = host::env();
    let home = host::home().ok();
    let set_up = || -> Result<(mcp::Options, House), String> {
        let toolsets = match (&args.toolsets, env.get("DELEGATE_TOOLSETS")) {
            (Some(list), _) => Toolsets::parse(list).map_err(|why| format!("--toolsets: {why}"))?,
            (None, Some(list)) => {
                Toolsets::parse(list).map_err(|why| format!("DELEGATE_TOOLSETS: {why}"))?
            }
            (None, None) => Toolsets::default(),
        };
        let settings = args.settings().map_err(|error| error.to_string())?;
        // Everything else that is wrong is said by the first call that meets
        // it; a gateway that is only half configured must not start.
        if env.contains_key("DELEGATE_GATEWAY")
            && let Err(error) = check(&env)
            && error.stops_start_up()
        {
            return Err(error.to_string());
        }
        let launcher = super::jail::launcher()
            .map_err(|cause| format!("this program cannot be found again: {cause}"))?;
        let options = mcp::Options {
            name: args.name.clone(),
            toolsets,
            home: home.clone(),
        };
        let house = House::new(Flags {
            settings,
            env: env.clone(),
            home: home.clone(),
            cwd: std::env::current_dir().unwrap_or_default(),
            workspace: args.workspace.clone(),
            state_dir: args.state_dir.clone().or_else(|| host::state_dir().ok()),
            locks_dir: args.locks_dir.clone(),
            launcher,
            host: super::jail::this_host(),
        });
        Ok((options, house))
    };
    let (options, house) = match set_up() {
        Ok(set_up) => set_up,
        Err(why) => {
            say(&why);
            return Exit::Usage.into();
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(cause) => {
            say(&format!("the server cannot start: {cause}"));
            return ExitCode::FAILURE;
        }
    };
    runtime.block_on(async {
        let stop = CancellationToken::new();
        if let Err(cause) = stop_on_signals(&stop) {
            say(&format!("signals cannot be handled: {cause}"));
        }
        mcp::serve(options, Arc::new(house), stop).await;
    });
    // A read of stdin may still be under way on a thread of its own.
    runtime.shutdown_background();
    ExitCode::SUCCESS
}

fn check(env: &BTreeMap<String, String>) -> Result<Config, ConfigError> {
    Config::load(Sources {
        flags: Vec::new(),
        env: env.clone(),
        own: None,
        legacy: Ok(None),
        home: PathBuf::new(),
    })
}

/// The first signal asks for an orderly end, a second one ends at once.
fn stop_on_signals(stop: &CancellationToken) -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    for kind in [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ] {
        let mut signals = signal(kind)?;
        let stop = stop.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                if stop.is_cancelled() {
                    std::process::exit(0);
                }
                stop.cancel();
            }
        });
    }
    Ok(())
}

/// One line on stderr; stdout is the protocol's.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "delegate serve: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &[&str]) -> Args {
        Cli::try_parse_from([&["serve"], line].concat())
            .expect("parses")
            .args
    }

    #[test]
    fn flags_become_settings_with_their_origin() {
        let args = parse(&[
            "--base-url",
            "http://h/v1",
            "--key-env",
            "K",
            "--set",
            "max_turns=3",
        ]);
        let settings = args.settings().expect("good");
        let places: Vec<_> = settings
            .iter()
            .map(|(name, value, place)| (name.as_str(), value.as_str(), place.as_str()))
            .collect();
        assert_eq!(
            places,
            [
                ("base_url", "http://h/v1", "--base-url"),
                ("key_env", "K", "--key-env"),
                ("max_turns", "3", "--set"),
            ]
        );
        assert!(parse(&["--set", "max_turns"]).settings().is_err());
    }
}

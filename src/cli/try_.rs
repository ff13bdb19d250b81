//! `delegate try`: the whole of it on a scratch project, for a person to watch.
//!
//! It is a host: it starts the server as hosts do, delegates one task and
//! shows what comes back. Only the answers of a rehearsal are recorded; the
//! server, the tools, the jail and the journal are the real ones.

mod client;
mod model;
mod page;
mod report;
mod scratch;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::exit::Exit;
use super::host;
use client::{Client, ClientError};
use model::Model;
use page::Page;
use report::Findings;
use scratch::Scratch;

/// Longest that the delegated task may take.
const PATIENCE: Duration = Duration::from_secs(30 * 60);

/// Longest for everything else that a server is asked.
const SHORT_PATIENCE: Duration = Duration::from_secs(20);

/// `delegate try`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Makes a scratch project with a failing test in a fresh folder, starts its own MCP
server as a host would, delegates \"make the test pass\" and shows what happens. The
task also tries to read ~/.ssh, which must be refused. Nothing of yours is touched.

The model: --base-url, else the first that answers of LM Studio, Ollama, llama.cpp,
vLLM and LiteLLM at their usual ports, else a rehearsal, in which recorded answers
drive the real server, tools, jail and journal.

Exit status 0 means: the test passes now, and the refusals took place.")]
pub struct Args {
    /// Base URL of a model server, such as http://127.0.0.1:8080/v1
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Model name as that server knows it [default: the first it lists]
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Wire format: openai (Chat Completions) or anthropic (Messages)
    #[arg(long, value_name = "WIRE", value_parser = ["openai", "anthropic"])]
    pub wire: Option<String>,
    /// Name of the environment variable that holds the key
    #[arg(long, value_name = "NAME")]
    pub key_env: Option<String>,
    /// Play the rehearsal even when a model server answers
    #[arg(long, conflicts_with_all = ["base_url", "model", "wire", "key_env"])]
    pub rehearsal: bool,
    /// Keep the scratch folder and say where it is
    #[arg(long)]
    pub keep: bool,
    /// Print one JSON object instead
    #[arg(long)]
    pub json: bool,
}

/// Runs the demonstration.
pub fn main(args: Args) -> ExitCode {
    let mut page = Page::new(args.json);
    match attempt(&args, &mut page) {
        Ok(true) => Exit::Done.into(),
        Ok(false) => Exit::Failed.into(),
        Err(why) => {
            page.trouble(&why);
            Exit::Failed.into()
        }
    }
}

fn attempt(args: &Args, page: &mut Page) -> Result<bool, String> {
    let started = Instant::now();
    let binary = std::env::current_exe()
        .map_err(|cause| format!("this program cannot be found: {cause}"))?;
    let scratch = Scratch::make(args.keep)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|cause| cause.to_string())?;
    scratch.remove_on_interrupt(&runtime);
    let model = runtime.block_on(Model::choose(args))?;
    page.opening(&model, &scratch);

    let mut client =
        Client::start(server(&binary, &scratch, &model)).map_err(|error| error.to_string())?;
    let ready = greet(&mut client, page).map_err(|error| error.to_string())?;
    let bait = host::home()
        .map_err(|error| error.to_string())?
        .join(scratch::LEFT_BEHIND);
    if bait.symlink_metadata().is_ok() {
        return Err(format!(
            "{} is there; remove it, so that it can be seen whether the run makes it",
            bait.display()
        ));
    }
    let begun = Instant::now();
    page.task(scratch::TASK);
    let answer = client
        .request(
            "tools/call",
            json!({
                "name": "delegate_to_local_agent",
                "arguments": {"agent_name": scratch::AGENT, "task": scratch::TASK, "workdir": "."},
                "_meta": {"progressToken": "try"},
            }),
            PATIENCE,
            &mut |note| page.progress(note, begun.elapsed()),
        )
        .map_err(|error| error.to_string())?;
    let task_seconds = begun.elapsed().as_secs_f64();
    let journal = recovery(&mut client).map_err(|error| error.to_string())?;
    let ended = client.close(SHORT_PATIENCE);

    let findings = Findings {
        result: answer["structuredContent"].clone(),
        diff: scratch.diff(),
        journal,
        home_untouched: bait.symlink_metadata().is_err(),
        test_passes: test_passes(&binary, &scratch.project())?,
        server_ended_well: ended.is_some_and(|status| status.success()),
        ready,
        task_seconds,
        seconds: started.elapsed().as_secs_f64(),
    };
    let verdict = findings.verdict();
    page.report(&findings, &verdict, &model);
    page.closing(&scratch);
    Ok(verdict.good())
}

/// The server as a strict host starts it: two variables and the one for the key.
fn server(binary: &Path, scratch: &Scratch, model: &Model) -> Command {
    let mut command = Command::new(binary);
    command.arg("serve");
    command.args(["--base-url", &model.base_url]);
    command.args(["--model", &model.name]);
    // Also what a command was not allowed to read: that is what is shown.
    command.args(["--set", "observe=all"]);
    if let Some(wire) = &model.wire {
        command.args(["--wire", wire]);
    }
    command.arg("--state-dir").arg(scratch.state());
    command.arg("--locks-dir").arg(scratch.locks());
    command.current_dir(scratch.project());
    command.env_clear();
    let passed = ["HOME", "PATH"].map(str::to_owned);
    for name in passed.iter().chain(&model.key_env) {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    if let Some(name) = &model.key_env {
        command.args(["--key-env", name]);
    }
    command
}

/// The handshake; gives the milliseconds from start to the list of tools.
fn greet(client: &mut Client, page: &mut Page) -> Result<f64, ClientError> {
    let begun = Instant::now();
    let hello = client.request(
        "initialize",
        json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "delegate-try", "version": env!("CARGO_PKG_VERSION")},
        }),
        SHORT_PATIENCE,
        &mut |_| {},
    )?;
    client.notify("notifications/initialized")?;
    let tools = client.request("tools/list", json!({}), SHORT_PATIENCE, &mut |_| {})?;
    let ready = begun.elapsed().as_secs_f64() * 1000.0;
    page.server(&hello, &tools, ready);
    Ok(ready)
}

fn recovery(client: &mut Client) -> Result<Value, ClientError> {
    let answer = client.request(
        "tools/call",
        json!({"name": "get_deepseek_recovery", "arguments": {}}),
        SHORT_PATIENCE,
        &mut |_| {},
    )?;
    Ok(answer["structuredContent"].clone())
}

/// Runs the test once more, in a jail of its own: the model may have written it.
fn test_passes(binary: &Path, project: &Path) -> Result<bool, String> {
    let home = host::home().map_err(|error| error.to_string())?;
    let output = Command::new(binary)
        .args(["jail", "run", "bash", "--workspace"])
        .arg(project)
        .args(["--", "sh", "test.sh"])
        .current_dir(project)
        .env("HOME", home)
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(|cause| format!("the test cannot be run: {cause}"))?;
    match output.status.code() {
        Some(0) => Ok(true),
        Some(125) | None => Err(format!(
            "no jail for the test: {}",
            super::text::one_line(&String::from_utf8_lossy(&output.stderr), 300)
        )),
        Some(_) => Ok(false),
    }
}

//! The protocol face over in-memory streams, with rooms that are fakes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jail::{Enforcement, Form, Guarantee, Held, Strength};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::config::RunSettings;
use crate::provider::{Endpoint, ErrorClass, Usage, Wire};
use crate::run::{
    BashSummary, Execution, LoopFacts, Outcome, RunEvent, RunOutcome, RunSpec, Toolset,
};
use crate::tools::{Capability, Mutation};

/// What the fake run does.
#[derive(Clone, Debug)]
enum Script {
    Answer(Box<RunOutcome>),
    UntilCancelled,
    Panic,
}

struct Fake {
    script: Script,
    trouble: Option<Trouble>,
    interval: Duration,
    started: Notify,
    stopped: Notify,
    runs: AtomicUsize,
    kept: std::sync::Mutex<Option<String>>,
}

impl Fake {
    fn new(script: Script) -> Fake {
        Fake {
            script,
            trouble: None,
            interval: Duration::from_millis(100),
            started: Notify::new(),
            stopped: Notify::new(),
            runs: AtomicUsize::new(0),
            kept: std::sync::Mutex::new(None),
        }
    }

    fn spec(&self, capability: Capability, task: &str) -> RunSpec {
        RunSpec {
            task: task.to_owned(),
            context: String::new(),
            capability,
            workspace: PathBuf::from("/work/project"),
            endpoint: Endpoint {
                base_url: "http://127.0.0.1:9/v1".parse().expect("url"),
                wire: Wire::Openai,
                model: "fake-model".to_owned(),
                key: None,
                extra_body: serde_json::Map::new(),
            },
            settings: RunSettings {
                progress_interval: self.interval,
                ..RunSettings::default()
            },
            agent: None,
            toolset: Toolset::Deepseek,
            state_dir: PathBuf::from("/nowhere"),
            mode_tag: None,
        }
    }

    fn prepared(&self, spec: RunSpec) -> Result<Prepared, Trouble> {
        match &self.trouble {
            Some(trouble) => Err(trouble.clone()),
            None => Ok(Prepared {
                spec,
                agent_source: Some("project-agent".to_owned()),
                notices: Vec::new(),
                held: Box::new(()),
            }),
        }
    }
}

impl Rooms for Fake {
    fn agent(&self, order: &AgentOrder) -> Result<Prepared, Trouble> {
        self.prepared(self.spec(Capability::Coding, &order.task))
    }

    fn deepseek(&self, order: &DeepseekOrder) -> Result<Prepared, Trouble> {
        self.prepared(self.spec(order.capability, &order.task))
    }

    fn execute<'a>(
        &'a self,
        spec: RunSpec,
        events: &'a mut (dyn FnMut(RunEvent) + Send),
        cancel: &'a CancellationToken,
    ) -> Boxed<'a, Result<RunOutcome, Trouble>> {
        Box::pin(async move {
            self.runs.fetch_add(1, Ordering::SeqCst);
            for turn in 1..=2 {
                events(RunEvent::Turn { turn, max_turns: 5 });
                events(RunEvent::ToolStarted {
                    turn,
                    tool: "Bash".to_owned(),
                    summary: "sh test.sh".to_owned(),
                });
            }
            self.started.notify_one();
            Ok(match &self.script {
                Script::Answer(outcome) => (**outcome).clone(),
                Script::Panic => panic!("{}", spec.task),
                Script::UntilCancelled => {
                    // Events that say nothing come much more often than signs of life.
                    let mut tick = tokio::time::interval(Duration::from_millis(10));
                    loop {
                        tokio::select! {
                            () = cancel.cancelled() => break,
                            _ = tick.tick() => events(RunEvent::Alive { elapsed_ms: 0 }),
                        }
                    }
                    self.stopped.notify_one();
                    let mut outcome = answered("stopped");
                    outcome.outcome = Outcome::Cancelled;
                    outcome.error_class = Some(ErrorClass::Cancelled);
                    outcome
                }
            })
        })
    }

    fn standing(&self) -> Standing {
        Standing {
            mode: "auto".to_owned(),
            setup: match &self.trouble {
                Some(trouble) => Err(trouble.to_string()),
                None => Ok((PathBuf::from("/home/u/project"), "m".to_owned())),
            },
        }
    }

    fn pending(&self) -> Result<Vec<PendingChange>, Trouble> {
        Ok(Vec::new())
    }

    fn acknowledge(&self, ids: &[String]) -> Result<Acknowledged, Trouble> {
        if ids.iter().any(|id| id.len() != 32) {
            return Err(Trouble::Invalid("an ID has 32 hex digits".to_owned()));
        }
        Ok(Acknowledged {
            acknowledged: ids.to_vec(),
            ..Acknowledged::default()
        })
    }

    fn agents(&self) -> AgentList {
        AgentList::default()
    }

    fn status(&self) -> Boxed<'_, BackendStatus> {
        Box::pin(async { BackendStatus::default() })
    }

    fn keep_answer(&self, run_id: &str, text: &str) -> Option<PathBuf> {
        *self.kept.lock().expect("lock") = Some(text.to_owned());
        Some(PathBuf::from("/state/answers").join(run_id))
    }
}

pub(super) fn answered(text: &str) -> RunOutcome {
    RunOutcome {
        outcome: Outcome::Completed,
        error_class: None,
        error_code: None,
        error_text: None,
        final_text: Some(text.to_owned()),
        usage: Some(Usage {
            input_tokens: 50,
            output_tokens: 9,
            cache_read_tokens: 20,
            cache_creation_tokens: 0,
        }),
        executions: vec![Execution {
            tool: "Bash".to_owned(),
            args: json!({"command": "sh test.sh"})
                .as_object()
                .cloned()
                .unwrap_or_default(),
            ok: true,
            output: String::new(),
            turn: 1,
        }],
        run_id: "01RUN".to_owned(),
        turns: 2,
        mutations: Vec::new(),
        enforcement: Some(enforcement()),
        refusals: Vec::new(),
        bash: BashSummary {
            calls: 1,
            failures: Vec::new(),
            last_status: Some("ok".to_owned()),
            last_exit: Some(0),
        },
        model: Some("fake-model".to_owned()),
        duration_seconds: 1.26,
        flags: Vec::new(),
        facts: LoopFacts {
            max_turns: 50,
            stop_reason: Some("end_turn".to_owned()),
            tool_calls: 1,
            terminal_text: true,
            ..LoopFacts::default()
        },
    }
}

pub(super) fn change(id: char) -> Mutation {
    Mutation {
        transaction_id: id.to_string().repeat(32),
        tool: "Edit".to_owned(),
        path: "calc.sh".to_owned(),
        status: "committed".to_owned(),
        warning: None,
        diff: Some("-a\n+b\n".to_owned()),
    }
}

fn enforcement() -> Enforcement {
    Enforcement {
        backend: "linux".to_owned(),
        form: Form::Full,
        guarantees: BTreeMap::from([(
            Guarantee::Reads,
            Held {
                strength: Strength::Enforced,
                by: "private root".to_owned(),
            },
        )]),
    }
}

/// A host at the other end.
struct Host {
    input: Option<WriteHalf<DuplexStream>>,
    output: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    server: JoinHandle<()>,
    stop: CancellationToken,
}

impl Host {
    fn start(fake: &Arc<Fake>) -> Host {
        let (near, far) = tokio::io::duplex(1 << 20);
        let (read, write) = tokio::io::split(near);
        let (server_read, server_write) = tokio::io::split(far);
        let stop = CancellationToken::new();
        let options = Options {
            name: "delegate".to_owned(),
            toolsets: Toolsets::default(),
            home: Some(PathBuf::from("/home/u")),
        };
        let rooms: Arc<dyn Rooms> = Arc::clone(fake) as Arc<dyn Rooms>;
        Host {
            input: Some(write),
            output: BufReader::new(read).lines(),
            server: tokio::spawn(serve_on(
                server_read,
                server_write,
                options,
                rooms,
                stop.clone(),
            )),
            stop,
        }
    }

    async fn send(&mut self, message: Value) {
        self.send_raw(&message.to_string()).await;
    }

    async fn send_raw(&mut self, line: &str) {
        let input = self.input.as_mut().expect("open input");
        input
            .write_all(format!("{line}\n").as_bytes())
            .await
            .expect("server reads");
    }

    async fn request(&mut self, id: Value, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await;
    }

    async fn call(&mut self, id: Value, tool: &str, args: Value, token: Option<Value>) {
        let mut params = json!({"name": tool, "arguments": args});
        if let Some(token) = token {
            params["_meta"] = json!({"progressToken": token});
        }
        self.request(id, "tools/call", params).await;
    }

    async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(Duration::from_secs(10), self.output.next_line())
            .await
            .expect("an answer in time")
            .expect("readable")
            .expect("not the end");
        let message: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(message["jsonrpc"], "2.0");
        message
    }

    /// The answer to `id` and what came before it.
    async fn answer(&mut self, id: Value) -> (Value, Vec<Value>) {
        let mut before = Vec::new();
        loop {
            let message = self.next().await;
            if message.get("method").is_none() && message["id"] == id {
                return (message, before);
            }
            before.push(message);
        }
    }

    async fn initialize(&mut self) -> Value {
        self.request(
            json!(0),
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}),
        )
        .await;
        let (answer, _) = self.answer(json!(0)).await;
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
        answer
    }

    /// Closes the input and waits for the server's end.
    async fn hang_up(mut self) {
        if let Some(mut input) = self.input.take() {
            input.shutdown().await.expect("shutdown");
        }
        tokio::time::timeout(Duration::from_secs(8), self.server)
            .await
            .expect("the server ends")
            .expect("without a panic");
    }
}

fn start(script: Script) -> (Arc<Fake>, Host) {
    let fake = Arc::new(Fake::new(script));
    let host = Host::start(&fake);
    (fake, host)
}

fn refusing(trouble: Trouble) -> (Arc<Fake>, Host) {
    let mut fake = Fake::new(Script::Panic);
    fake.trouble = Some(trouble);
    let fake = Arc::new(fake);
    let host = Host::start(&fake);
    (fake, host)
}

fn text_of(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .expect("a text block")
}

const TASK: &str = r#"{"task":"t"}"#;

fn task() -> Value {
    serde_json::from_str(TASK).expect("JSON")
}

#[tokio::test]
async fn the_handshake_names_server_version_and_instructions() {
    let (_, mut host) = start(Script::UntilCancelled);
    let answer = host.initialize().await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(answer["result"]["serverInfo"]["name"], "delegate");
    assert!(answer["result"]["instructions"].is_string());
    host.hang_up().await;
}

#[tokio::test]
async fn odd_first_messages_are_answered_and_the_server_lives() {
    let (_, mut host) = start(Script::UntilCancelled);
    host.send(
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}),
    )
    .await;
    host.send(json!({"jsonrpc": "2.0", "id": 99, "result": {}}))
        .await;
    host.send_raw("this is not JSON").await;
    assert_eq!(host.next().await["error"]["code"], -32700);
    host.request(json!("p"), "ping", json!({})).await;
    assert_eq!(host.next().await["result"], json!({}));
    host.request(json!("u"), "no/such/method", json!({})).await;
    assert_eq!(host.next().await["error"]["code"], -32601);
    host.request(json!("r"), "resources/list", json!({})).await;
    assert_eq!(host.next().await["error"]["code"], -32601);
    host.send(json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call"}))
        .await;
    assert_eq!(host.next().await["error"]["code"], -32602);
    host.initialize().await;
    host.request(json!(1), "tools/list", json!({})).await;
    let (list, _) = host.answer(json!(1)).await;
    assert_eq!(list["result"]["tools"].as_array().map(Vec::len), Some(8));
    host.hang_up().await;
}

#[tokio::test]
async fn discover_answers_before_and_beside_initialize() {
    let (_, mut host) = start(Script::UntilCancelled);
    let meta = json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {}
    }});
    host.request(json!("d"), "server/discover", meta.clone())
        .await;
    let initialize = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}});
    host.request(json!(0), "initialize", initialize).await;
    let (first, second) = (host.next().await, host.next().await);
    for answer in [first, second] {
        if answer["id"] == "d" {
            assert!(answer["result"]["supportedVersions"].is_array(), "{answer}");
        } else {
            assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
        }
    }
    // Both ways of going on work: with the metadata of each request and without.
    host.request(json!(1), "tools/list", meta).await;
    assert!(host.answer(json!(1)).await.0["result"]["tools"].is_array());
    host.request(json!(2), "tools/list", json!({})).await;
    assert!(host.answer(json!(2)).await.0["result"]["tools"].is_array());
    host.hang_up().await;
}

#[tokio::test]
async fn progress_carries_the_token_as_it_came_and_ends_with_the_answer() {
    for token in [json!("tok-26"), json!(17)] {
        let (_, mut host) = start(Script::Answer(Box::new(answered("done"))));
        host.initialize().await;
        host.call(
            json!(1),
            "delegate_to_deepseek",
            task(),
            Some(token.clone()),
        )
        .await;
        let (answer, progress) = host.answer(json!(1)).await;
        assert_eq!(answer["result"]["structuredContent"]["ok"], true);
        assert!(progress.len() >= 4, "{progress:?}");
        let mut last = f64::MIN;
        for note in &progress {
            assert_eq!(note["method"], "notifications/progress");
            assert_eq!(note["params"]["progressToken"], token);
            let value = note["params"]["progress"].as_f64().expect("a number");
            assert!(value > last);
            last = value;
        }
        host.request(json!(2), "ping", json!({})).await;
        let (_, between) = host.answer(json!(2)).await;
        assert!(between.is_empty(), "after the answer: {between:?}");
        host.hang_up().await;
    }
}

#[tokio::test]
async fn without_a_token_there_is_no_progress() {
    let (_, mut host) = start(Script::Answer(Box::new(answered("done"))));
    host.initialize().await;
    host.call(json!(1), "delegate_to_deepseek", task(), None)
        .await;
    let (_, before) = host.answer(json!(1)).await;
    assert!(before.is_empty());
    host.hang_up().await;
}

#[tokio::test]
async fn a_silent_run_gives_signs_of_life() {
    let (_, mut host) = start(Script::UntilCancelled);
    host.initialize().await;
    host.call(json!(1), "delegate_to_deepseek", task(), Some(json!(1)))
        .await;
    loop {
        let note = host.next().await;
        let message = note["params"]["message"].as_str().unwrap_or_default();
        if message.starts_with("working") {
            break;
        }
    }
    host.hang_up().await;
}

#[tokio::test]
async fn a_cancel_stops_the_run_and_nothing_is_said_afterwards() {
    let (fake, mut host) = start(Script::UntilCancelled);
    host.initialize().await;
    host.call(json!(1), "delegate_to_deepseek", task(), Some(json!("t")))
        .await;
    fake.started.notified().await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "reason": "user"}});
    host.send(cancel.clone()).await;
    tokio::time::timeout(Duration::from_secs(1), fake.stopped.notified())
        .await
        .expect("the run is told within a second");
    // What was written before the cancel was read may still be in the pipe;
    // the answer to a later request marks its end.
    host.request(json!(2), "tools/list", json!({})).await;
    host.answer(json!(2)).await;
    // Twice as long as the interval of signs of life.
    let quiet = tokio::time::timeout(Duration::from_millis(300), host.output.next_line()).await;
    assert!(quiet.is_err(), "said after the cancel: {quiet:?}");
    // Late and unknown ones are harmless, and the slot is free again.
    host.send(cancel).await;
    host.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "x"}}))
        .await;
    host.call(json!(3), "delegate_to_deepseek", task(), None)
        .await;
    fake.started.notified().await;
    assert_eq!(fake.runs.load(Ordering::SeqCst), 2);
    host.hang_up().await;
}

#[tokio::test]
async fn the_end_of_the_input_stops_the_run_and_the_server() {
    let (fake, mut host) = start(Script::UntilCancelled);
    host.initialize().await;
    host.call(json!(1), "delegate_to_deepseek", task(), Some(json!(1)))
        .await;
    fake.started.notified().await;
    host.hang_up().await;
    fake.stopped.notified().await;
}

#[tokio::test]
async fn a_signal_stops_the_run_and_the_server() {
    let (fake, mut host) = start(Script::UntilCancelled);
    host.initialize().await;
    host.call(
        json!(1),
        "delegate_to_local_agent",
        json!({"agent_name": "a", "task": "t"}),
        None,
    )
    .await;
    fake.started.notified().await;
    host.stop.cancel();
    tokio::time::timeout(Duration::from_secs(2), host.server)
        .await
        .expect("ends")
        .expect("without a panic");
    fake.stopped.notified().await;
}

#[tokio::test]
async fn requests_in_front_of_the_end_are_still_answered() {
    let (_, mut host) = start(Script::UntilCancelled);
    host.request(json!(1), "tools/list", json!({})).await;
    host.call(json!(2), "ping", json!({}), None).await;
    let mut input = host.input.take().expect("open");
    input.shutdown().await.expect("shutdown");
    host.answer(json!(1)).await;
    // The order of answers is free.
    host.server.await.expect("ends");
}

#[tokio::test]
async fn a_panic_below_is_an_error_and_the_server_lives() {
    let (_, mut host) = start(Script::Panic);
    host.initialize().await;
    host.call(json!(1), "delegate_to_deepseek", task(), None)
        .await;
    let (answer, _) = host.answer(json!(1)).await;
    assert_eq!(answer["result"]["isError"], true);
    host.call(json!(2), "ping", json!({}), None).await;
    assert!(text_of(&host.answer(json!(2)).await.0).starts_with("pong"));
    // The slot went with the run.
    host.call(json!(3), "delegate_to_deepseek", task(), None)
        .await;
    assert_eq!(host.answer(json!(3)).await.0["result"]["isError"], true);
    host.hang_up().await;
}

#[tokio::test]
async fn one_deepseek_execution_at_a_time() {
    let (fake, mut host) = start(Script::UntilCancelled);
    host.initialize().await;
    host.call(json!(1), "delegate_to_deepseek", task(), None)
        .await;
    fake.started.notified().await;
    host.call(json!(2), "delegate_to_deepseek_readonly", task(), None)
        .await;
    let (answer, _) = host.answer(json!(2)).await;
    assert!(text_of(&answer).starts_with("ERROR: DeepSeek execution busy:"));
    assert_eq!(answer["result"]["structuredContent"]["error_code"], "busy");
    assert_eq!(fake.runs.load(Ordering::SeqCst), 1);
    host.hang_up().await;
}

#[tokio::test]
async fn bad_arguments_start_nothing_and_say_what_is_wrong() {
    let (fake, mut host) = start(Script::Panic);
    host.initialize().await;
    host.call(
        json!(1),
        "delegate_to_deepseek",
        json!({"task": "t", "model": "deepseek-v4-flash"}),
        None,
    )
    .await;
    let (answer, _) = host.answer(json!(1)).await;
    assert_eq!(answer["result"]["isError"], true);
    assert!(text_of(&answer).contains("\"flash\", \"pro\""));
    host.call(
        json!(2),
        "delegate_to_deepseek",
        json!({"task": " \n"}),
        None,
    )
    .await;
    let (answer, _) = host.answer(json!(2)).await;
    assert!(text_of(&answer).starts_with("ERROR: invalid DeepSeek delegation input:"));
    host.call(
        json!(3),
        "delegate_to_deepseek",
        json!({"task": "x".repeat(262_145)}),
        None,
    )
    .await;
    let (answer, _) = host.answer(json!(3)).await;
    assert!(text_of(&answer).starts_with("ERROR: invalid DeepSeek delegation input:"));
    host.call(json!(4), "no_such_tool", json!({}), None).await;
    assert_eq!(host.answer(json!(4)).await.0["error"]["code"], -32602);
    host.call(
        json!(5),
        "acknowledge_deepseek_mutations",
        json!({"transaction_ids": ["zz"]}),
        None,
    )
    .await;
    let (answer, _) = host.answer(json!(5)).await;
    assert_eq!(answer["result"]["structuredContent"]["ok"], false);
    assert_eq!(fake.runs.load(Ordering::SeqCst), 0);
    host.hang_up().await;
}

#[tokio::test]
async fn each_trouble_has_its_stable_first_words_and_code() {
    let cases = [
        (
            Trouble::ModeOff,
            "DeepSeek delegation is disabled",
            "mode_off",
        ),
        (
            Trouble::NotConfigured("no key".to_owned()),
            "ERROR: deepseek-mcp not configured: no key",
            "not_configured",
        ),
        (
            Trouble::Busy("b".to_owned()),
            "ERROR: DeepSeek execution busy:",
            "busy",
        ),
        (
            Trouble::Blocked("b".to_owned()),
            "ERROR: DeepSeek execution blocked:",
            "blocked",
        ),
        (
            Trouble::Other("b".to_owned()),
            "ERROR: unexpected DeepSeek failure",
            "internal",
        ),
    ];
    for (trouble, words, code) in cases {
        let (_, mut host) = refusing(trouble);
        host.initialize().await;
        host.call(json!(1), "delegate_to_deepseek", task(), None)
            .await;
        let (answer, _) = host.answer(json!(1)).await;
        assert!(text_of(&answer).starts_with(words), "{}", text_of(&answer));
        let structured = &answer["result"]["structuredContent"];
        assert_eq!(structured["error_code"], code);
        assert_eq!(structured["error"], text_of(&answer));
        assert_eq!(structured["ok"], false);
        assert_eq!(answer["result"]["isError"], false);
        host.hang_up().await;
    }
}

#[tokio::test]
async fn an_agent_that_is_not_there_says_what_is() {
    let (_, mut host) = refusing(Trouble::NoAgent {
        text: "not found; looked at a, b, c".to_owned(),
        available_hint: "fixer".to_owned(),
    });
    host.initialize().await;
    host.call(
        json!(1),
        "delegate_to_local_agent",
        json!({"agent_name": "x", "task": "t"}),
        None,
    )
    .await;
    let (answer, _) = host.answer(json!(1)).await;
    let object: Value = serde_json::from_str(text_of(&answer)).expect("the text is the object");
    assert_eq!(object, answer["result"]["structuredContent"]);
    assert_eq!(object["success"], false);
    assert_eq!(object["available_hint"], "fixer");
    assert_eq!(object["error_code"], "agent_not_found");
    host.hang_up().await;
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_kept_elsewhere_and_says_so() {
    let long = "long \"answer\"\n".repeat(20_000);
    let (fake, mut host) = start(Script::Answer(Box::new(answered(&long))));
    host.initialize().await;
    for (id, tool, args) in [
        (1, "delegate_to_deepseek", task()),
        (
            2,
            "delegate_to_local_agent",
            json!({"agent_name": "a", "task": "t"}),
        ),
    ] {
        host.call(json!(id), tool, args, None).await;
        let (answer, _) = host.answer(json!(id)).await;
        assert!(answer.to_string().len() < 50_000);
        let left_out = answer["result"]["structuredContent"]["left_out"][0]
            .as_str()
            .unwrap_or_default();
        assert!(left_out.contains("/state/answers/01RUN"), "{left_out}");
        assert!(text_of(&answer).contains("/state/answers/01RUN"));
        assert_eq!(fake.kept.lock().expect("lock").take(), Some(long.clone()));
    }
    host.hang_up().await;
}

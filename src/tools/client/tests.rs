//! Against workers that lie, hang or die. The honest worker is tested in
//! `toolbox`, through the same client.

use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::Instant;

use serde_json::json;

use super::*;
use crate::journal::Digest;

struct House {
    _dir: tempfile::TempDir,
    root: PathBuf,
    ledger: Ledger,
}

fn house() -> House {
    let dir = tempfile::tempdir().expect("tempdir");
    let root = fs::canonicalize(dir.path()).expect("canonical").join("w");
    fs::create_dir(&root).expect("mkdir");
    let journal = Journal::open(&dir.path().join("state")).expect("journal");
    House {
        ledger: Ledger {
            journal: Arc::new(journal),
            workspace: WorkspaceId::of(&root).expect("identity"),
            run_id: "run".to_owned(),
            readonly: false,
        },
        _dir: dir,
        root,
    }
}

fn write() -> ToolCall {
    let args = json!({"file_path": "f", "content": "new"});
    ToolCall {
        tool: "Write",
        args: args.as_object().expect("object").clone(),
        renamed: false,
        alias: None,
    }
}

fn plan() -> Plan {
    Plan {
        tool: "Write".to_owned(),
        path: "f".to_owned(),
        sha_before: None,
        sha_after: Digest::of(b"new"),
        mode: None,
        temp: ".t".to_owned(),
    }
}

type Socket = std::os::unix::net::UnixStream;

/// Runs one call against a worker that does what `act` says.
async fn against(
    house: &House,
    cancel: &CancellationToken,
    act: impl FnOnce(Socket) + Send + 'static,
) -> Ended {
    let (ours, theirs) = Socket::pair().expect("pair");
    let worker = std::thread::spawn(move || {
        let mut theirs = theirs;
        let asked = proto::receive::<ToWorker>(&mut theirs).expect("a call");
        assert!(matches!(asked.0, ToWorker::Call { .. }));
        act(theirs);
    });
    ours.set_nonblocking(true).expect("nonblocking");
    let mut stream = UnixStream::from_std(ours).expect("stream");
    let ended = call(&mut stream, &write(), &house.ledger, cancel).await;
    drop(stream);
    worker.join().expect("the worker did not panic");
    ended
}

fn pending(house: &House) -> Vec<(String, String)> {
    house
        .ledger
        .journal
        .pending(&house.ledger.workspace, &house.root)
        .expect("pending")
        .into_iter()
        .map(|entry| (entry.transaction_id, entry.status.name().to_owned()))
        .collect()
}

fn say(socket: &mut Socket, head: &FromWorker, bytes: &[u8]) {
    proto::send(socket, head, bytes).expect("send");
}

fn answer(ok: bool, outcome: Option<Outcome>) -> FromWorker {
    FromWorker::Answer(Answer {
        ok,
        text: "said".to_owned(),
        outcome,
        ..Answer::default()
    })
}

#[tokio::test]
async fn a_worker_that_dies_before_it_asks_changes_nothing() {
    let house = house();
    let never = CancellationToken::new();
    let ended = against(&house, &never, drop).await;
    assert!(!ended.usable);
    assert!(
        ended.output.text.contains("nothing was changed"),
        "{}",
        ended.output.text
    );
    assert_eq!(ended.output.mutation, None);
    assert!(pending(&house).is_empty());
}

#[tokio::test]
async fn a_worker_that_dies_after_it_was_let_through_leaves_a_record_and_says_so() {
    let house = house();
    let never = CancellationToken::new();
    let ended = against(&house, &never, |mut socket| {
        say(&mut socket, &FromWorker::Intent(plan()), b"");
        let (reply, _) = proto::receive::<ToWorker>(&mut socket).expect("reply");
        assert_eq!(reply, ToWorker::Proceed);
    })
    .await;
    assert!(!ended.usable && !ended.output.ok);
    let mutation = ended.output.mutation.expect("named");
    assert_eq!(mutation.status, "uncertain");
    assert!(ended.output.text.contains(&mutation.transaction_id));
    assert_eq!(
        pending(&house),
        [(mutation.transaction_id, "uncertain".to_owned())]
    );
}

#[tokio::test]
async fn an_end_that_is_told_closes_the_record() {
    let never = CancellationToken::new();
    for (outcome, ok, left) in [
        (Some(Outcome::Committed { warning: None }), true, 1),
        (
            Some(Outcome::Aborted {
                reason: "no".to_owned(),
            }),
            false,
            0,
        ),
        (None, true, 1),
    ] {
        let house = house();
        let told = outcome.clone();
        let ended = against(&house, &never, move |mut socket| {
            say(&mut socket, &FromWorker::Intent(plan()), b"");
            proto::receive::<ToWorker>(&mut socket).expect("reply");
            say(&mut socket, &answer(ok, told), b"");
        })
        .await;
        assert!(ended.usable);
        assert_eq!(pending(&house).len(), left, "{outcome:?}");
        let status = ended.output.mutation.map(|mutation| mutation.status);
        let expected = match outcome {
            Some(Outcome::Committed { .. }) => Some("committed"),
            Some(Outcome::Aborted { .. }) => None,
            None => Some("uncertain"),
        };
        assert_eq!(status.as_deref(), expected);
    }
}

#[tokio::test]
async fn an_intent_that_cannot_be_recorded_is_refused_to_the_worker() {
    let never = CancellationToken::new();
    type Lie = fn(&mut Plan);
    let lies: [(&str, Lie); 4] = [
        ("path", |plan| plan.path = "../../etc/passwd".to_owned()),
        ("absolute", |plan| plan.path = "/etc/passwd".to_owned()),
        ("temp", |plan| plan.temp = "../t".to_owned()),
        ("content", |plan| {
            plan.sha_before = Some(Digest::of(b"other"))
        }),
    ];
    for (name, lie) in lies {
        let house = house();
        let ended = against(&house, &never, move |mut socket| {
            let mut plan = plan();
            lie(&mut plan);
            say(&mut socket, &FromWorker::Intent(plan), b"bytes");
            let (reply, _) = proto::receive::<ToWorker>(&mut socket).expect("reply");
            assert!(matches!(reply, ToWorker::Refuse { .. }), "{name}");
            say(&mut socket, &answer(false, None), b"");
        })
        .await;
        assert!(ended.usable && pending(&house).is_empty(), "{name}");
    }
}

#[tokio::test]
async fn a_change_that_nobody_asked_for_ends_the_worker() {
    let never = CancellationToken::new();
    let other = Plan {
        tool: "Edit".to_owned(),
        ..plan()
    };
    for (intents, readonly, records) in [
        (vec![other], false, 0),
        (vec![plan()], true, 0),
        (vec![plan(), plan()], false, 1),
    ] {
        let mut house = house();
        house.ledger.readonly = readonly;
        let ended = against(&house, &never, move |mut socket| {
            for plan in intents {
                let _ = proto::send(&mut socket, &FromWorker::Intent(plan), b"");
                let _ = proto::receive::<ToWorker>(&mut socket);
            }
        })
        .await;
        assert!(!ended.usable);
        assert_eq!(pending(&house).len(), records);
    }
}

#[tokio::test]
async fn nonsense_from_a_worker_is_an_error_and_no_panic() {
    let house = house();
    let never = CancellationToken::new();
    for bytes in [&[0xff; 64][..], b"\x02\0\0\0\0\0\0\0{}", &[0; 8], b"x"] {
        let ended = against(&house, &never, move |mut socket| {
            let _ = socket.write_all(bytes);
        })
        .await;
        assert!(!ended.usable && !ended.output.ok);
    }
    let ended = against(&house, &never, |mut socket| {
        say(&mut socket, &FromWorker::Ready { version: 1 }, b"");
    })
    .await;
    assert!(!ended.usable);
}

#[tokio::test]
async fn what_a_worker_says_is_bounded_and_its_image_must_be_one() {
    let house = house();
    let never = CancellationToken::new();
    let ended = against(&house, &never, |mut socket| {
        let long = FromWorker::Answer(Answer {
            ok: true,
            text: "x".repeat(1 << 20),
            image: Some("text/html".to_owned()),
            ..Answer::default()
        });
        say(&mut socket, &long, b"<script>");
    })
    .await;
    assert_eq!(ended.output.text.len(), MAX_TEXT);
    assert_eq!(ended.output.image, None);
}

#[tokio::test]
async fn a_silent_worker_is_given_up_when_the_call_is_cancelled() {
    let house = house();
    let cancel = CancellationToken::new();
    let started = Instant::now();
    let stop = cancel.clone();
    let ended = against(&house, &cancel, move |mut socket| {
        stop.cancel();
        // Ends when the client lets go.
        let _ = socket.read(&mut [0; 1]);
    })
    .await;
    assert!(started.elapsed() < Duration::from_secs(5));
    assert!(!ended.usable && ended.output.text.contains("cancelled"));
    assert!(pending(&house).is_empty());
}

#[tokio::test]
async fn a_change_under_way_is_waited_for_though_the_call_is_cancelled() {
    let house = house();
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let ended = against(&house, &cancel, move |mut socket| {
        say(&mut socket, &FromWorker::Intent(plan()), b"");
        proto::receive::<ToWorker>(&mut socket).expect("reply");
        stop.cancel();
        let done = Outcome::Committed { warning: None };
        say(&mut socket, &answer(true, Some(done)), b"");
    })
    .await;
    assert_eq!(ended.output.mutation.expect("told").status, "committed");
}

#[test]
fn a_large_argument_travels_as_bytes() {
    let mut call = write();
    call.args
        .insert("content".to_owned(), json!("x".repeat(LARGE + 1)));
    let (frame, bytes) = framed(&call);
    assert_eq!(bytes.len(), LARGE + 1);
    let ToWorker::Call { args, bytes_of, .. } = frame else {
        panic!("a call");
    };
    assert_eq!(bytes_of.as_deref(), Some("content"));
    assert!(!args.contains_key("content"));
    assert_eq!(framed(&write()).1, b"");
}

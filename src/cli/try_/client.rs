//! A small MCP client over the stdio of a child, as a host would be one.
//!
//! Only `try` uses it. It speaks to delegate's own server through the same
//! pipes as any host, so what a person sees there is what a host gets.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Lines of the server's stderr that are kept for an error message.
const KEPT_LINES: usize = 20;

/// Why the conversation failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClientError {
    /// The server did not start.
    #[error("the server cannot be started: {0}")]
    Start(std::io::Error),
    /// It hung up.
    #[error("the server ended in the middle of `{method}`.{stderr}")]
    Ended {
        /// What was asked.
        method: String,
        /// Its last words.
        stderr: String,
    },
    /// It did not answer.
    #[error("no answer to `{method}` within {seconds} s")]
    Silent {
        /// What was asked.
        method: String,
        /// How long was waited.
        seconds: u64,
    },
    /// It wrote something that is not a JSON-RPC message.
    #[error("the server wrote a line that is not JSON-RPC: {0}")]
    NotProtocol(String),
    /// It refused.
    #[error("`{method}` was refused: {text}")]
    Refused {
        /// What was asked.
        method: String,
        /// Its words.
        text: String,
    },
}

/// A running server and the conversation with it.
pub(super) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Result<Value, String>>,
    last_words: Arc<Mutex<VecDeque<String>>>,
    /// Disconnects when the server's stderr ends.
    all_said: Receiver<()>,
    next_id: u64,
}

impl Client {
    /// Starts the server.
    pub(super) fn start(mut command: Command) -> Result<Client, ClientError> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(ClientError::Start)?;
        let input = child.stdin.take();
        let (sender, lines) = channel();
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines() {
                    let Ok(line) = line else { return };
                    let message = match serde_json::from_str::<Value>(&line) {
                        Ok(message) if message["jsonrpc"] == "2.0" => Ok(message),
                        _ => Err(line),
                    };
                    if sender.send(message).is_err() {
                        return;
                    }
                }
            });
        }
        let last_words = Arc::new(Mutex::new(VecDeque::new()));
        let (saying, all_said) = channel();
        if let Some(errors) = child.stderr.take() {
            let kept = Arc::clone(&last_words);
            std::thread::spawn(move || {
                keep_lines(errors, &kept);
                drop(saying);
            });
        }
        Ok(Client {
            child,
            input,
            lines,
            last_words,
            all_said,
            next_id: 0,
        })
    }

    /// Sends a request and waits for its answer; every notification that
    /// comes before it goes to `on_note`.
    pub(super) fn request(
        &mut self,
        method: &str,
        params: Value,
        patience: Duration,
        on_note: &mut dyn FnMut(&Value),
    ) -> Result<Value, ClientError> {
        self.next_id += 1;
        let id = self.next_id;
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        if self.write(&line).is_err() {
            return Err(self.ended(method));
        }
        let until = Instant::now() + patience;
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            let message = match self.lines.recv_timeout(rest) {
                Ok(Ok(message)) => message,
                Ok(Err(line)) => {
                    return Err(ClientError::NotProtocol(line.chars().take(200).collect()));
                }
                Err(RecvTimeoutError::Timeout) => {
                    return Err(ClientError::Silent {
                        method: method.to_owned(),
                        seconds: patience.as_secs(),
                    });
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended(method)),
            };
            if message.get("method").is_some() {
                on_note(&message);
            } else if message["id"] == id {
                if let Some(error) = message.get("error") {
                    return Err(ClientError::Refused {
                        method: method.to_owned(),
                        text: error["message"].as_str().unwrap_or_default().to_owned(),
                    });
                }
                return Ok(message["result"].clone());
            }
        }
    }

    /// Sends a notification.
    pub(super) fn notify(&mut self, method: &str) -> Result<(), ClientError> {
        self.write(&json!({"jsonrpc": "2.0", "method": method}))
            .map_err(|_| self.ended(method))
    }

    /// Hangs up and waits for the server's end; after `patience` it is killed.
    pub(super) fn close(mut self, patience: Duration) -> Option<ExitStatus> {
        drop(self.input.take());
        let until = Instant::now() + patience;
        let rest = || until.saturating_duration_since(Instant::now());
        while self.lines.recv_timeout(rest()).is_ok() {}
        // Its output has ended; what is left of it takes a moment at most.
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if !rest().is_zero() => std::thread::sleep(Duration::from_millis(2)),
                _ => return None,
            }
        }
    }

    fn write(&mut self, message: &Value) -> std::io::Result<()> {
        let Some(input) = &mut self.input else {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        };
        input.write_all(format!("{message}\n").as_bytes())?;
        input.flush()
    }

    fn ended(&self, method: &str) -> ClientError {
        // A moment for what it wrote last; its children may hold the pipe open.
        let _ = self.all_said.recv_timeout(Duration::from_millis(500));
        let kept = self
            .last_words
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let stderr = kept
            .iter()
            .map(|line| format!("\n  {line}"))
            .collect::<String>();
        ClientError::Ended {
            method: method.to_owned(),
            stderr,
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Does nothing to a child that was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn keep_lines(errors: impl Read, kept: &Mutex<VecDeque<String>>) {
    for line in BufReader::new(errors).lines() {
        let Ok(line) = line else { return };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT_LINES {
            kept.pop_front();
        }
        kept.push_back(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server written in sh: answers each line with what `reply` says.
    fn server(script: &str) -> Client {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(script);
        Client::start(command).expect("sh")
    }

    #[test]
    fn notes_come_before_the_answer_and_the_end_is_seen() {
        let mut client = server(
            r#"read line
            echo '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}'
            echo '{"jsonrpc":"2.0","id":1,"result":{"ok":true}}'
            cat >/dev/null"#,
        );
        let mut notes = 0;
        let answer = client
            .request("x", json!({}), Duration::from_secs(10), &mut |_| notes += 1)
            .expect("an answer");
        assert_eq!((notes, answer), (1, json!({"ok": true})));
        let status = client.close(Duration::from_secs(10)).expect("ended");
        assert!(status.success());
    }

    #[test]
    fn the_last_words_of_a_server_that_dies_are_told() {
        let mut client = server("read line; echo 'no such thing' >&2; exit 3");
        let error = client
            .request("x", json!({}), Duration::from_secs(10), &mut |_| {})
            .expect_err("dead");
        assert!(error.to_string().contains("no such thing"), "{error}");
    }

    #[test]
    fn stray_output_is_a_fault() {
        let mut client = server("read line; echo hello; cat >/dev/null");
        let error = client
            .request("x", json!({}), Duration::from_secs(10), &mut |_| {})
            .expect_err("stray");
        assert!(matches!(error, ClientError::NotProtocol(line) if line == "hello"));
    }
}

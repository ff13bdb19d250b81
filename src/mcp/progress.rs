//! Run events as progress notifications: which numbers, which words, when.
//!
//! [`Narrator`] is pure; [`Pump`] sends what it says, and something at least
//! every interval, so that a host sees that the run is alive.

use std::time::{Duration, Instant};

use jail::{Denial, Enforcement, Strength};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::run::RunEvent;

/// Longest message of one notification, in characters.
const MAX_MESSAGE: usize = 300;

/// Events waiting to be told. When the host does not read, more are dropped:
/// a run never waits for its audience.
pub(super) const BACKLOG: usize = 256;

/// One thing to tell.
#[derive(Clone, Debug, PartialEq)]
struct Step {
    progress: f64,
    total: Option<f64>,
    message: String,
}

/// Turns events into steps. `progress` is the turn number when a turn begins
/// and grows towards the next one inside it, so that it always increases and
/// `total`, the turn limit, means something.
#[derive(Debug, Default)]
struct Narrator {
    turn: u32,
    max_turns: u32,
    inside: u32,
    last: Option<f64>,
    text: String,
}

impl Narrator {
    fn event(&mut self, event: &RunEvent) -> Vec<Step> {
        let message = match event {
            RunEvent::Text { text } => {
                if self.text.len() < 4 * MAX_MESSAGE {
                    self.text.push_str(text);
                }
                return Vec::new();
            }
            // The pump has a clock of its own.
            RunEvent::Alive { .. } => return Vec::new(),
            RunEvent::Started { enforcement, .. } => jail_line(enforcement),
            RunEvent::Turn { turn, max_turns } => {
                let said = self.said();
                let mut steps: Vec<Step> =
                    said.map(|message| self.step(message)).into_iter().collect();
                self.turn = *turn;
                self.max_turns = *max_turns;
                self.inside = 0;
                steps.push(self.step(format!("turn {turn}/{max_turns}")));
                return steps;
            }
            RunEvent::Retrying { class, wait_ms } => format!(
                "the provider failed ({}), next try in {:.1} s",
                class_word(*class),
                *wait_ms as f64 / 1000.0
            ),
            RunEvent::ToolStarted { tool, summary, .. } => format!("{tool}: {summary}"),
            RunEvent::ToolFinished {
                tool,
                ok,
                summary,
                denials,
                refused,
                mutation,
                wall_ms,
                ..
            } => {
                let mut line = match refused {
                    Some(why) => format!("{tool} refused: {why}"),
                    None => {
                        let verdict = if *ok { "ok" } else { "failed" };
                        let journal = mutation.as_ref().map_or_else(String::new, |mutation| {
                            format!(
                                ", journal {} {}",
                                mutation.transaction_id.get(..8).unwrap_or_default(),
                                mutation.status
                            )
                        });
                        let summary = summary.strip_prefix("OK: ").unwrap_or(summary);
                        format!("{tool} {verdict}, {wall_ms} ms{journal}: {summary}")
                    }
                };
                for denial in denials.iter().take(3) {
                    line.push_str(&format!("; {}", denial_line(denial)));
                }
                if denials.len() > 3 {
                    line.push_str(&format!("; {} more refused", denials.len() - 3));
                }
                line
            }
        };
        let said = self.said();
        let mut steps: Vec<Step> = said.map(|text| self.step(text)).into_iter().collect();
        steps.push(self.step(message));
        steps
    }

    /// What the model said since the last step.
    fn said(&mut self) -> Option<String> {
        let text = std::mem::take(&mut self.text);
        let line = one_line(&text, MAX_MESSAGE);
        (!line.is_empty()).then(|| format!("says: {line}"))
    }

    fn alive(&mut self, since_start: Duration) -> Step {
        self.step(format!("working, {} s", since_start.as_secs()))
    }

    fn step(&mut self, message: String) -> Step {
        let inside = f64::from(self.inside);
        let mut progress = f64::from(self.turn) + inside / (inside + 1.0);
        self.inside = self.inside.saturating_add(1);
        // Holds also for a turn that is announced twice and for more steps
        // than a float can tell apart.
        if let Some(last) = self.last
            && progress <= last
        {
            progress = last.next_up();
        }
        self.last = Some(progress);
        let total = f64::from(self.max_turns);
        Step {
            progress,
            total: (self.max_turns > 0 && progress <= total).then_some(total),
            message: one_line(&message, MAX_MESSAGE),
        }
    }
}

/// `linux, full form: 15 of 15 guarantees enforced`.
pub(super) fn jail_line(enforcement: &Enforcement) -> String {
    let all = enforcement.guarantees.len();
    let enforced = enforcement
        .guarantees
        .values()
        .filter(|held| held.strength == Strength::Enforced)
        .count();
    format!(
        "jail open: {}, {} form, {enforced} of {all} guarantees enforced",
        enforcement.backend, enforcement.form
    )
}

fn denial_line(denial: &Denial) -> String {
    format!(
        "jail refused {} {}",
        denial.operation,
        denial.path.display()
    )
}

fn class_word(class: crate::provider::ErrorClass) -> String {
    serde_json::to_value(class)
        .ok()
        .and_then(|word| word.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// The text on one line, without control characters, cut at `max` characters.
pub(super) fn one_line(text: &str, max: usize) -> String {
    let mut line = String::new();
    let mut count = 0;
    let mut space = false;
    for character in text.chars() {
        if character.is_whitespace() || character.is_control() || is_invisible(character) {
            space = !line.is_empty();
            continue;
        }
        if space {
            line.push(' ');
            count += 1;
            space = false;
        }
        if count >= max {
            line.push('…');
            break;
        }
        line.push(character);
        count += 1;
    }
    line
}

/// Characters that change how others are shown.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Sends progress for one call.
pub(super) struct Pump {
    pub peer: Peer<RoleServer>,
    pub token: ProgressToken,
    pub interval: Duration,
    pub stop: CancellationToken,
}

impl Pump {
    /// Sends until the events end or `stop` fires.
    pub(super) async fn run(self, mut events: mpsc::Receiver<RunEvent>) {
        let started = Instant::now();
        let mut narrator = Narrator::default();
        // Counts from what was last said, not from the last event: most events
        // say nothing.
        let mut silence = Box::pin(tokio::time::sleep(self.interval));
        loop {
            let steps = tokio::select! {
                () = self.stop.cancelled() => return,
                event = events.recv() => match event {
                    Some(event) => narrator.event(&event),
                    None => return,
                },
                () = &mut silence => vec![narrator.alive(started.elapsed())],
            };
            if steps.is_empty() {
                continue;
            }
            for step in steps {
                let mut param = ProgressNotificationParam::new(self.token.clone(), step.progress)
                    .with_message(step.message);
                if let Some(total) = step.total {
                    param = param.with_total(total);
                }
                // While the server shuts down nothing is sent any more and
                // the peer may keep us waiting.
                tokio::select! {
                    () = self.stop.cancelled() => return,
                    sent = self.peer.notify_progress(param) => if sent.is_err() {
                        return;
                    },
                }
            }
            silence
                .as_mut()
                .reset(tokio::time::Instant::now() + self.interval);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(turn: u32) -> RunEvent {
        RunEvent::Turn { turn, max_turns: 2 }
    }

    fn tool(summary: &str) -> RunEvent {
        RunEvent::ToolStarted {
            turn: 1,
            tool: "Bash".to_owned(),
            summary: summary.to_owned(),
        }
    }

    #[test]
    fn progress_is_the_turn_and_always_grows() {
        let mut narrator = Narrator::default();
        let mut steps = vec![narrator.alive(Duration::ZERO)];
        for event in [turn(1), tool("a"), tool("b"), turn(2), turn(2), tool("c")] {
            steps.extend(narrator.event(&event));
        }
        let turns: Vec<_> = steps
            .iter()
            .filter(|step| step.message.starts_with("turn"))
            .map(|step| step.progress.floor())
            .collect();
        assert_eq!(turns, [1.0, 2.0, 2.0]);
        for pair in steps.windows(2) {
            assert!(pair[0].progress < pair[1].progress, "{pair:?}");
        }
        assert_eq!(steps[1].total, Some(2.0));
        assert_eq!(steps.last().and_then(|step| step.total), None);
    }

    #[test]
    fn what_the_model_says_comes_before_what_it_does() {
        let mut narrator = Narrator::default();
        let quiet = narrator.event(&RunEvent::Text {
            text: "I will\nlook.".to_owned(),
        });
        assert!(quiet.is_empty());
        let messages: Vec<_> = narrator
            .event(&tool("ls"))
            .into_iter()
            .map(|step| step.message)
            .collect();
        assert_eq!(messages, ["says: I will look.", "Bash: ls"]);
    }

    #[test]
    fn a_refusal_and_a_denial_are_named() {
        let mut narrator = Narrator::default();
        let mut finished = |refused: Option<&str>, denials| {
            let steps = narrator.event(&RunEvent::ToolFinished {
                turn: 1,
                tool: "Read".to_owned(),
                ok: false,
                summary: "exit 1".to_owned(),
                denials,
                refused: refused.map(str::to_owned),
                mutation: None,
                wall_ms: 3,
            });
            steps[0].message.clone()
        };
        assert_eq!(
            finished(Some("outside the workspace"), Vec::new()),
            "Read refused: outside the workspace"
        );
        let denial = Denial {
            path: "/root/.ssh".into(),
            access: jail::Access::READ,
            operation: "open".to_owned(),
            count: 1,
        };
        assert_eq!(
            finished(None, vec![denial]),
            "Read failed, 3 ms: exit 1; jail refused open /root/.ssh"
        );
    }

    #[test]
    fn control_characters_never_leave() {
        assert_eq!(one_line("a\u{1b}[31mb\r\n\tc\u{202e}d", 80), "a [31mb c d");
        assert_eq!(one_line("abcdef", 3), "abc…");
    }
}

//! Live progress on stderr: lines for what happened and, on a terminal that
//! takes colour, one line that is rewritten while something is under way.

use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::time::Instant;

use anstream::ColorChoice;
use anstyle::{AnsiColor, Style};
use jail::{Enforcement, Strength};

use crate::cli::text::one_line;
use crate::run::{Outcome, RunEvent, RunOutcome, RunSpec};

const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const LOUD: Style = Style::new().bold();

/// Longest line of a model's words.
const SAID: usize = 300;

/// Writes what happens.
pub(super) struct Progress<W = anstream::AutoStream<std::io::Stderr>> {
    out: W,
    /// Whether one line may be rewritten.
    live: bool,
    /// Whether that line is there now.
    shown: bool,
    said: String,
    /// Letters of the answer at hand.
    letters: usize,
    /// Calls under way; they end in the order in which they began.
    calls: VecDeque<String>,
    started: Instant,
    max_turns: u32,
}

impl Progress {
    /// On stderr, with colour where the terminal and `NO_COLOR` allow it.
    pub(super) fn new() -> Self {
        let stderr = std::io::stderr();
        let colour = anstream::AutoStream::choice(&stderr) != ColorChoice::Never;
        let live = stderr.is_terminal() && colour;
        Progress::on(anstream::AutoStream::auto(stderr), live)
    }
}

impl<W: Write> Progress<W> {
    fn on(out: W, live: bool) -> Self {
        Progress {
            out,
            live,
            shown: false,
            said: String::new(),
            letters: 0,
            calls: VecDeque::new(),
            started: Instant::now(),
            max_turns: 0,
        }
    }

    /// Writes a line; a reader that has gone away is nobody's loss.
    fn line(&mut self, line: &str) {
        self.clear();
        let _ = writeln!(self.out, "{line}");
        let _ = self.out.flush();
    }

    fn clear(&mut self) {
        if self.shown {
            let _ = write!(self.out, "\r\x1b[K");
            self.shown = false;
        }
    }

    /// Shows what is under way, where a line can be rewritten.
    fn status(&mut self, what: &str) {
        if self.live {
            self.clear();
            let _ = write!(self.out, "{DIM}  … {what}{DIM:#}");
            let _ = self.out.flush();
            self.shown = true;
        }
    }

    pub(super) fn opening(&mut self, spec: &RunSpec, notes: &[String]) {
        self.max_turns = spec.settings.max_turns;
        self.line(&format!(
            "{LOUD}delegate run{LOUD:#} in {}",
            one_line(&spec.workspace.display().to_string(), 400)
        ));
        self.line(&format!(
            "  model {} at {} ({})",
            one_line(&spec.endpoint.model, 100),
            one_line(spec.endpoint.base_url.as_str(), 200),
            spec.endpoint.wire.name()
        ));
        for note in notes {
            self.line(&format!("  note: {}", one_line(note, 400)));
        }
        self.status("opening the jail");
    }

    pub(super) fn event(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Started {
                run_id,
                enforcement,
            } => {
                self.line(&format!("  run {run_id}"));
                self.line(&format!("  jail: {}", jail_line(enforcement)));
            }
            RunEvent::Turn { turn, max_turns } => {
                self.say();
                self.line(&format!("{LOUD}turn {turn}/{max_turns}{LOUD:#}"));
                self.calls.clear();
                self.status("waiting for the model");
            }
            RunEvent::Text { text } => {
                self.letters += text.chars().count();
                if self.said.chars().count() < 2 * SAID {
                    self.said.push_str(text);
                }
                self.status(&format!("the model writes, {} letters", self.letters));
            }
            RunEvent::Retrying { class, wait_ms } => {
                // Nothing of a broken-off try counts.
                self.said.clear();
                self.letters = 0;
                self.line(&format!(
                    "  {BAD}provider failed{BAD:#} ({}), next try in {:.1} s",
                    word(class),
                    *wait_ms as f64 / 1000.0
                ));
            }
            RunEvent::ToolStarted { tool, summary, .. } => {
                self.say();
                let what = format!("{tool} {}", one_line(summary, 120));
                self.status(&what);
                self.calls.push_back(what);
            }
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
                let (style, verdict) = match (ok, refused) {
                    (_, Some(_)) => (BAD, "refused"),
                    (true, None) => (GOOD, "ok"),
                    (false, None) => (BAD, "failed"),
                };
                let asked = self.calls.pop_front().unwrap_or_else(|| tool.clone());
                self.line(&format!(
                    "  {asked} {style}{verdict}{style:#} {DIM}{} ({wall_ms} ms){DIM:#}",
                    one_line(refused.as_deref().unwrap_or(summary), 200)
                ));
                for denial in denials.iter().take(5) {
                    self.line(&format!(
                        "    {BAD}jail refused{BAD:#} {} of {} for {}",
                        one_line(&denial.operation, 40),
                        one_line(&denial.path.display().to_string(), 200),
                        denial.access
                    ));
                }
                if denials.len() > 5 {
                    self.line(&format!("    and {} more", denials.len() - 5));
                }
                if let Some(change) = mutation {
                    self.line(&format!(
                        "    {DIM}journal {} {} {}{DIM:#}",
                        one_line(&change.transaction_id, 32),
                        one_line(&change.status, 20),
                        one_line(&change.path, 200)
                    ));
                }
            }
            RunEvent::Alive { elapsed_ms } => {
                let seconds = elapsed_ms / 1000;
                let now = self
                    .calls
                    .front()
                    .cloned()
                    .unwrap_or_else(|| "waiting for the model".to_owned());
                if self.live {
                    self.status(&format!("{now}, {seconds} s"));
                } else {
                    self.line(&format!("  {now}, {seconds} s"));
                }
            }
        }
    }

    /// What the model said before it called a tool.
    fn say(&mut self) {
        let said = one_line(&std::mem::take(&mut self.said), SAID);
        self.letters = 0;
        if !said.is_empty() {
            self.line(&format!("  {DIM}says: {said}{DIM:#}"));
        }
    }

    pub(super) fn closing(&mut self, outcome: &RunOutcome) {
        self.clear();
        let (style, word) = match outcome.outcome {
            Outcome::Completed => (GOOD, "completed"),
            Outcome::Failed => (BAD, "failed"),
            Outcome::Cancelled => (BAD, "cancelled"),
        };
        let class = match (&outcome.outcome, &outcome.error_class) {
            (Outcome::Failed, Some(class)) => format!(" ({})", self::word(class)),
            _ => String::new(),
        };
        let tokens = outcome.usage.map_or_else(String::new, |usage| {
            format!(
                ", {} tokens in, {} out",
                usage.input_tokens, usage.output_tokens
            )
        });
        self.line(&format!(
            "{style}{word}{style:#}{class}: {} turns, {} tool calls, {} changes, {} refusals{tokens}, {:.1} s",
            outcome.turns,
            outcome.executions.len(),
            outcome.mutations.len(),
            outcome.refusals.len(),
            self.started.elapsed().as_secs_f64()
        ));
    }
}

fn word<T: serde::Serialize>(class: &T) -> String {
    serde_json::to_value(class)
        .ok()
        .and_then(|word| word.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn jail_line(enforcement: &Enforcement) -> String {
    let not: Vec<String> = enforcement
        .guarantees
        .iter()
        .filter(|(_, held)| held.strength != Strength::Enforced)
        .map(|(guarantee, held)| format!("{guarantee} {}", held.strength))
        .collect();
    let all = enforcement.guarantees.len();
    let mut line = format!(
        "{}, {} form, {} of {all} guarantees enforced",
        enforcement.backend,
        enforcement.form,
        all - not.len()
    );
    if !not.is_empty() {
        line.push_str(&format!(" ({})", not.join(", ")));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use jail::{Access, Denial};

    fn shown(live: bool, events: &[RunEvent]) -> String {
        let mut bytes = Vec::new();
        let mut progress = Progress::on(anstream::StripStream::new(&mut bytes), live);
        for event in events {
            progress.event(event);
        }
        drop(progress);
        String::from_utf8(bytes).expect("text")
    }

    fn tool(refused: Option<&str>, denials: Vec<Denial>) -> [RunEvent; 2] {
        [
            RunEvent::ToolStarted {
                turn: 1,
                tool: "Bash".into(),
                summary: "cat\u{1b}[2J /etc/x".into(),
            },
            RunEvent::ToolFinished {
                turn: 1,
                tool: "Bash".into(),
                ok: false,
                summary: "exit 1".into(),
                denials,
                refused: refused.map(str::to_owned),
                mutation: None,
                wall_ms: 7,
            },
        ]
    }

    #[test]
    fn lines_say_what_happened_and_hold_no_control_characters() {
        let mut events = vec![
            RunEvent::Turn {
                turn: 1,
                max_turns: 9,
            },
            RunEvent::Text {
                text: "I will\u{1b}]0;x\u{7} look.".into(),
            },
        ];
        events.extend(tool(
            None,
            vec![Denial {
                path: "/etc/\u{1b}x".into(),
                access: Access::READ,
                operation: "open".into(),
                count: 1,
            }],
        ));
        events.push(RunEvent::Alive { elapsed_ms: 61_000 });
        let text = shown(false, &events);
        assert_eq!(
            text,
            "turn 1/9\n  says: I will ]0;x look.\n  Bash cat [2J /etc/x failed exit 1 (7 ms)\n    \
             jail refused open of /etc/ x for read\n  waiting for the model, 61 s\n"
        );
    }

    #[test]
    fn a_broken_off_try_is_not_shown_as_words() {
        let text = shown(
            false,
            &[
                RunEvent::Text {
                    text: "Half an ans".into(),
                },
                RunEvent::Retrying {
                    class: crate::provider::ErrorClass::Overloaded,
                    wait_ms: 1500,
                },
                RunEvent::Turn {
                    turn: 2,
                    max_turns: 9,
                },
            ],
        );
        assert_eq!(
            text,
            "  provider failed (overloaded), next try in 1.5 s\nturn 2/9\n"
        );
    }

    #[test]
    fn a_refusal_is_named_as_such() {
        let text = shown(false, &tool(Some("outside the workspace"), vec![]));
        assert!(
            text.contains("refused outside the workspace (7 ms)"),
            "{text}"
        );
    }
}

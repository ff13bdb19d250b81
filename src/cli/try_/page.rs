//! The page that a person watches: 80 columns, colours on a terminal only.

use std::io::Write;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use serde_json::Value;

use super::model::Model;
use super::report::{Findings, Verdict, list};
use super::scratch::Scratch;
use crate::cli::text::{one_line, plain};

const WIDTH: usize = 80;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const WARN: Style = AnsiColor::Yellow.on_default();
const PLAIN: Style = Style::new();

/// Most lines of a section that a long run could make longer.
const MOST_LINES: usize = 40;

/// Writes the page as things happen, or keeps them for `--json`.
pub(super) struct Page {
    out: anstream::Stdout,
    json: bool,
    progress: Vec<String>,
}

impl Page {
    pub(super) fn new(json: bool) -> Page {
        Page {
            out: anstream::stdout(),
            json,
            progress: Vec::new(),
        }
    }

    fn line(&mut self, style: Style, text: &str) {
        if self.json {
            return;
        }
        // Nobody may be reading; that is no reason to stop half way.
        let _ = writeln!(self.out, "{style}{text}{style:#}");
        let _ = self.out.flush();
    }

    fn heading(&mut self, text: &str) {
        self.line(PLAIN, "");
        self.line(BOLD, text);
    }

    /// `name` in a narrow column, `text` beside it, wrapped.
    fn fact(&mut self, name: &str, style: Style, text: &str) {
        let mut name = name;
        for part in wrapped(text, WIDTH - 14) {
            self.line(PLAIN, &format!("  {name:<12}{style}{part}{style:#}"));
            name = "";
        }
    }

    pub(super) fn opening(&mut self, model: &Model, scratch: &Scratch) {
        self.line(BOLD, "delegate try");
        self.fact(
            "project",
            PLAIN,
            &format!("{} (calc.sh; test.sh fails)", scratch.project().display()),
        );
        let style = if model.rehearsal { WARN } else { PLAIN };
        self.fact("model", style, &plain(&model.label));
    }

    pub(super) fn server(&mut self, hello: &Value, tools: &Value, ready: f64) {
        let name = hello["serverInfo"]["name"].as_str().unwrap_or_default();
        let protocol = hello["protocolVersion"].as_str().unwrap_or_default();
        self.fact(
            "server",
            PLAIN,
            &format!(
                "{} serve over stdio: MCP {}, {} tools, ready in {ready:.0} ms",
                one_line(name, 20),
                one_line(protocol, 20),
                list(tools, "tools").len(),
            ),
        );
    }

    pub(super) fn task(&mut self, task: &str) {
        self.heading("Delegating to the agent `fixer`");
        for part in wrapped(task, WIDTH - 4) {
            self.line(DIM, &format!("  {part}"));
        }
        self.line(PLAIN, "");
    }

    /// One progress notification, as the host gets it.
    pub(super) fn progress(&mut self, note: &Value, since: Duration) {
        let Some(message) = note["params"]["message"].as_str() else {
            return;
        };
        self.progress.push(message.to_owned());
        let style = if message.starts_with("turn ") || message.starts_with("jail ") {
            BOLD
        } else if message.contains("refused") {
            WARN
        } else if message.contains(" failed: ") || message.starts_with("the provider failed") {
            BAD
        } else if message.starts_with("says: ") || message.starts_with("working, ") {
            DIM
        } else {
            PLAIN
        };
        let indent = if message.starts_with("turn ") || message.starts_with("jail ") {
            ""
        } else {
            "  "
        };
        let mut time = format!("{:>6.2} s  ", since.as_secs_f64());
        let mut indent = indent.to_owned();
        // At most three lines: the message itself is bounded, a page is too.
        for part in wrapped(message, WIDTH - time.len() - 4).iter().take(3) {
            self.line(
                PLAIN,
                &format!("{DIM}{time}{DIM:#}{indent}{style}{part}{style:#}"),
            );
            time = " ".repeat(time.len());
            indent = "    ".to_owned();
        }
    }

    pub(super) fn report(&mut self, findings: &Findings, verdict: &Verdict, model: &Model) {
        if self.json {
            let object = findings.object(*verdict, model, &self.progress);
            let text = serde_json::to_string_pretty(&object).unwrap_or_default();
            let _ = writeln!(self.out, "{text}");
            return;
        }
        self.answer(&findings.result);
        self.changes(&findings.diff);
        self.journal(&findings.journal);
        self.refusals(&findings.result);
        self.enforcement(&findings.result["enforcement"]);
        self.spent(findings);
        self.verdict(verdict, findings, model);
    }

    fn answer(&mut self, result: &Value) {
        self.heading("Answer");
        let (style, text) = match result["error"].as_str() {
            Some(error) => (BAD, error),
            None => (PLAIN, result["final_response"].as_str().unwrap_or("(none)")),
        };
        for part in wrapped(text, WIDTH - 4).into_iter().take(MOST_LINES) {
            self.line(style, &format!("  {part}"));
        }
    }

    fn changes(&mut self, diff: &str) {
        self.heading("Changes in the project");
        if diff.is_empty() {
            self.line(PLAIN, "  none");
        }
        for line in plain(diff).lines().take(MOST_LINES) {
            let style = match line.as_bytes() {
                [b'+', b'+', ..] | [b'-', b'-', ..] => BOLD,
                [b'+', ..] => GOOD,
                [b'-', ..] => BAD,
                [b'@', ..] => DIM,
                _ => PLAIN,
            };
            self.line(style, &format!("  {}", cut(line, WIDTH - 4)));
        }
    }

    fn journal(&mut self, journal: &Value) {
        self.heading("Journal, as get_deepseek_recovery tells it");
        if let Some(error) = journal["error"].as_str() {
            self.fact("", BAD, error);
        }
        let entries = list(journal, "pending");
        if entries.is_empty() && journal["ok"] == true {
            self.line(PLAIN, "  no change on record");
        }
        for entry in entries.iter().take(MOST_LINES) {
            let field = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            self.line(
                PLAIN,
                &format!(
                    "  {}  {:<5} {:<12} {}",
                    one_line(&field("transaction_id"), 32),
                    one_line(&field("tool"), 12),
                    one_line(&field("status"), 12),
                    one_line(&field("path"), 24),
                ),
            );
        }
    }

    fn refusals(&mut self, result: &Value) {
        let refusals = list(result, "refusals");
        self.heading("Refused");
        if refusals.is_empty() {
            self.line(PLAIN, "  nothing");
        }
        for refusal in refusals.iter().take(MOST_LINES) {
            let field = |name: &str| refusal[name].as_str().unwrap_or_default();
            let by = match field("by") {
                "tool" => "by the tool",
                "kernel" => "by the jail",
                _ => "",
            };
            self.fact(by, WARN, &format!("{}: {}", field("tool"), field("what")));
        }
    }

    fn enforcement(&mut self, enforcement: &Value) {
        let word = |value: &Value| one_line(value.as_str().unwrap_or("?"), 12);
        self.heading(&format!(
            "What held ({}, {} form)",
            word(&enforcement["backend"]),
            word(&enforcement["form"])
        ));
        let Some(guarantees) = enforcement["guarantees"].as_object() else {
            self.line(BAD, "  the run said nothing about it");
            return;
        };
        for guarantee in jail::Guarantee::ALL {
            let name = guarantee.name();
            let Some(held) = guarantees.get(name) else {
                continue;
            };
            let strength = word(&held["strength"]);
            let style = match strength.as_str() {
                "enforced" => GOOD,
                "detected" => WARN,
                _ => BAD,
            };
            let by = wrapped(held["by"].as_str().unwrap_or_default(), WIDTH - 28);
            let mut left = format!("{name:<14}{style}{strength:<10}{style:#}");
            for part in by {
                self.line(PLAIN, &format!("  {left}{DIM}{part}{DIM:#}"));
                left = " ".repeat(24);
            }
        }
    }

    fn spent(&mut self, findings: &Findings) {
        let number = |name: &str| findings.result[name].as_u64().unwrap_or(0);
        self.heading("Spent");
        self.fact(
            "run",
            PLAIN,
            &format!(
                "{} turns, {} tool calls, {} tokens in, {} out",
                number("turns"),
                number("tool_calls"),
                number("tokens_in") + number("cache_read_tokens"),
                number("tokens_out"),
            ),
        );
        self.fact(
            "time",
            PLAIN,
            &format!(
                "{:.2} s for the task, {:.2} s in all",
                findings.task_seconds, findings.seconds
            ),
        );
    }

    fn verdict(&mut self, verdict: &Verdict, findings: &Findings, model: &Model) {
        self.heading("Verdict");
        for (good, yes, no) in [
            (
                verdict.test_passes,
                "test.sh passes now (run once more, in a jail)",
                "test.sh still fails",
            ),
            (
                verdict.tool_refused,
                "the tool refused to read ~/.ssh",
                "no Read of ~/.ssh was refused: the model may not have tried",
            ),
            (
                verdict.kernel_refused,
                "the jail kept a command away from the home folder",
                "no command was kept away from the home folder: the model may not have tried",
            ),
            (
                verdict.home_untouched,
                "nothing was left in the home folder",
                "a command wrote into the home folder: please report this",
            ),
            (
                verdict.server_ended_well,
                "the server ended with its host, status 0",
                "the server did not end in order",
            ),
        ] {
            let (style, mark, text) = if good {
                (GOOD, "yes", yes)
            } else {
                (BAD, "NO ", no)
            };
            self.line(PLAIN, &format!("  {style}{mark}{style:#}  {text}"));
        }
        if !verdict.good() && !model.rehearsal {
            self.line(
                DIM,
                "  A small model often loses its way. `delegate try --rehearsal` needs none.",
            );
        }
        if findings.result["success"] == false && verdict.good() {
            self.line(DIM, "  The agent itself did not report success.");
        }
    }

    pub(super) fn closing(&mut self, scratch: &Scratch) {
        if scratch.is_kept() {
            self.line(PLAIN, "");
            self.fact("kept", PLAIN, &scratch.root().display().to_string());
        }
    }

    /// What kept the demonstration from taking place.
    pub(super) fn trouble(&mut self, why: &str) {
        if self.json {
            let object = serde_json::json!({"ok": false, "error": why});
            let _ = writeln!(self.out, "{object}");
        }
        let mut err = anstream::stderr();
        for part in wrapped(why, WIDTH) {
            let _ = writeln!(err, "{BAD}{part}{BAD:#}");
        }
    }
}

/// `text` without control characters, in lines of at most `width` characters,
/// broken at spaces where there are any. Its own line breaks stay.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in plain(text).lines() {
        let mut line = String::new();
        let mut length = 0;
        for word in paragraph.split_whitespace() {
            let mut word: Vec<char> = word.chars().collect();
            if length > 0 && length + 1 + word.len() > width {
                lines.push(std::mem::take(&mut line));
                length = 0;
            }
            while word.len() > width {
                let rest = word.split_off(width);
                lines.push(word.into_iter().collect());
                word = rest;
            }
            if length > 0 {
                line.push(' ');
                length += 1;
            }
            length += word.len();
            line.extend(word);
        }
        lines.push(line);
    }
    if lines.is_empty() {
        lines.push(String::new());
    }
    lines
}

/// The first `width` characters.
fn cut(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let head: String = line.chars().take(width - 1).collect();
    format!("{head}…")
}

#[cfg(test)]
mod tests;

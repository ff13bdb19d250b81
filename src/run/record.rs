//! What a run did, gathered as it does it.

use jail::Denial;

use super::{BashFailure, BashSummary, Execution, Refusal};
use crate::provider::Usage;
use crate::tools::{Mutation, ToolCall, ToolOutput};

/// Most characters of a tool's text in the record.
const OUTPUT: usize = 50_000;

/// Everything that goes into the outcome and is no decision of the loop.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub executions: Vec<Execution>,
    pub mutations: Vec<Mutation>,
    pub refusals: Vec<Refusal>,
    pub bash: BashSummary,
    pub usage: Option<Usage>,
    pub model: Option<String>,
    pub flags: Vec<String>,
}

impl Record {
    /// Adds what an answer reported.
    pub(super) fn usage(&mut self, usage: Option<Usage>) {
        let Some(more) = usage else { return };
        let sum = self.usage.get_or_insert_default();
        sum.input_tokens = sum.input_tokens.saturating_add(more.input_tokens);
        sum.output_tokens = sum.output_tokens.saturating_add(more.output_tokens);
        sum.cache_read_tokens = sum.cache_read_tokens.saturating_add(more.cache_read_tokens);
        sum.cache_creation_tokens = sum
            .cache_creation_tokens
            .saturating_add(more.cache_creation_tokens);
    }

    /// Sets a flag once.
    pub(super) fn flag(&mut self, name: &str) {
        if !self.flags.iter().any(|flag| flag == name) {
            self.flags.push(name.to_owned());
        }
    }

    /// Adds a call that ran.
    pub(super) fn ran(&mut self, turn: u32, call: &ToolCall, output: &ToolOutput) {
        self.executions.push(Execution {
            tool: call.tool.to_owned(),
            args: call.args.clone(),
            ok: output.ok,
            output: output.text.chars().take(OUTPUT).collect(),
            turn,
        });
        self.mutations.extend(output.mutation.clone());
        if let Some(what) = &output.refused {
            self.refused(turn, call.tool, what);
        }
        if call.tool == "Bash" {
            self.bash(turn, output);
        }
        let denials = output.bash.iter().flat_map(|facts| &facts.denials);
        for denial in denials {
            self.refusals.push(Refusal {
                turn,
                tool: call.tool.to_owned(),
                by: "kernel".to_owned(),
                what: denial_text(denial),
            });
        }
    }

    /// Adds a refusal by the tools.
    pub(super) fn refused(&mut self, turn: u32, tool: &str, what: &str) {
        self.refusals.push(Refusal {
            turn,
            tool: tool.to_owned(),
            by: "tool".to_owned(),
            what: what.to_owned(),
        });
    }

    fn bash(&mut self, turn: u32, output: &ToolOutput) {
        let (status, exit_code) = match &output.bash {
            // Killed at its deadline: 124 is what a shell would show, and an
            // earlier 0 must not stand.
            Some(facts) if facts.timed_out => ("tool_error", Some(facts.exit_code.unwrap_or(124))),
            Some(facts) => match facts.exit_code {
                Some(0) => ("ok", Some(0)),
                Some(code) => ("nonzero_exit", Some(code)),
                None => ("tool_error", None),
            },
            None if output.ok => ("unknown", None),
            None => ("tool_error", None),
        };
        self.bash.calls += 1;
        self.bash.last_status = Some(status.to_owned());
        self.bash.last_exit = exit_code;
        if status != "ok" {
            self.bash.failures.push(BashFailure {
                turn,
                status: status.to_owned(),
                exit_code: if status == "nonzero_exit" {
                    exit_code
                } else {
                    None
                },
            });
        }
    }
}

fn denial_text(denial: &Denial) -> String {
    let times = match denial.count {
        0 | 1 => String::new(),
        count => format!(", {count} times"),
    };
    format!(
        "{} of {} for {} was refused{times}",
        denial.operation,
        denial.path.display(),
        denial.access
    )
}

/// A call on one line: its path, pattern or command.
pub(super) fn call_line(call: &ToolCall) -> String {
    let about = ["file_path", "notebook_path", "command", "pattern", "path"]
        .iter()
        .find_map(|name| call.args.get(*name)?.as_str())
        .unwrap_or_default();
    short(about)
}

/// An output on one line.
pub(super) fn output_line(call: &ToolCall, output: &ToolOutput) -> String {
    if let Some(facts) = &output.bash {
        let mut line = match facts.exit_code {
            _ if facts.timed_out => "timed out".to_owned(),
            Some(code) => format!("exit {code}"),
            None => "did not start".to_owned(),
        };
        if facts.survivors > 0 {
            line.push_str(&format!(
                ", {} processes left behind were killed",
                facts.survivors
            ));
        }
        return line;
    }
    let head = output.text.lines().next().unwrap_or_default();
    if let Some(head) = head
        .strip_prefix("[lines ")
        .and_then(|h| h.strip_suffix(']'))
    {
        return short(&format!("lines {head}"));
    }
    if output.ok && super::repeat::looks_only(call.tool) {
        let lines = output.text.lines().count();
        return format!("{lines} line{}", if lines == 1 { "" } else { "s" });
    }
    let first = output.text.lines().find(|line| !line.trim().is_empty());
    short(first.unwrap_or_default())
}

fn short(text: &str) -> String {
    let mut line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > 200 {
        line = line.chars().take(199).collect();
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::BashFacts;

    fn bash(exit_code: Option<i32>, timed_out: bool) -> ToolOutput {
        ToolOutput {
            ok: exit_code == Some(0),
            bash: Some(BashFacts {
                exit_code,
                timed_out,
                survivors: 0,
                denials: Vec::new(),
            }),
            ..ToolOutput::default()
        }
    }

    fn call(tool: &'static str) -> ToolCall {
        ToolCall {
            tool,
            args: serde_json::Map::new(),
            renamed: false,
            alias: None,
        }
    }

    #[test]
    fn bash_is_counted_as_it_ended_and_a_timeout_is_a_failure() {
        let mut record = Record::default();
        for (turn, output) in [
            (1, bash(Some(0), false)),
            (2, bash(Some(3), false)),
            (3, bash(Some(124), true)),
            (4, bash(None, false)),
        ] {
            record.ran(turn, &call("Bash"), &output);
        }
        assert_eq!(record.bash.calls, 4);
        let failures: Vec<_> = record
            .bash
            .failures
            .iter()
            .map(|failure| (failure.turn, failure.status.as_str(), failure.exit_code))
            .collect();
        assert_eq!(
            failures,
            [
                (2, "nonzero_exit", Some(3)),
                (3, "tool_error", None),
                (4, "tool_error", None)
            ]
        );
        assert_eq!(record.bash.last_exit, None);
        record.ran(5, &call("Bash"), &bash(Some(0), false));
        assert_eq!(record.bash.last_status.as_deref(), Some("ok"));
        assert_eq!(record.bash.last_exit, Some(0));
    }

    #[test]
    fn usage_is_a_sum_over_those_who_report_and_none_otherwise() {
        let mut record = Record::default();
        record.usage(None);
        assert_eq!(record.usage, None);
        let one = Usage {
            input_tokens: 7,
            output_tokens: 3,
            ..Usage::default()
        };
        record.usage(Some(one));
        record.usage(None);
        record.usage(Some(one));
        assert_eq!(
            record.usage.map(|u| (u.input_tokens, u.output_tokens)),
            Some((14, 6))
        );
    }

    #[test]
    fn a_kernel_denial_is_a_refusal_with_path_and_access() {
        let mut output = bash(Some(1), false);
        if let Some(facts) = &mut output.bash {
            facts.denials.push(Denial {
                path: "/etc/x".into(),
                access: jail::Access::WRITE,
                operation: "open".to_owned(),
                count: 2,
            });
        }
        let mut record = Record::default();
        record.ran(1, &call("Bash"), &output);
        assert_eq!(record.refusals[0].by, "kernel");
        assert_eq!(
            record.refusals[0].what,
            "open of /etc/x for write was refused, 2 times"
        );
    }
}

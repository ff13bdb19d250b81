//! The part of the loop that deals with the calls of an answer: which run,
//! which are answered without running, and one result for each.

use std::mem;

use crate::provider::{Block, ErrorClass, Message, Role, ToolResult, ToolUse};
use crate::tools::{ToolCall, ToolOutput};

use super::prompt;
use super::repeat::{Circle, key, looks_only};
use super::rules::{Action, Done, Names, Planned, Unfit};
use super::step::Loop;

/// Cut-off answers in a row that end a run.
const MAX_CUT: u32 = 3;
/// One call of the answer at hand.
#[derive(Debug)]
pub(super) enum Slot {
    /// Answered without running.
    Answer { text: String, is_error: bool },
    /// To be run; the key of a look-up with its generation.
    Run {
        call: ToolCall,
        look: Option<(String, u64)>,
    },
}

impl Loop {
    /// An answer with calls.
    pub(super) fn calls(&mut self, message: Message, cut: bool, names: &dyn Names) -> Action {
        let calls: Vec<ToolUse> = message.tool_uses().cloned().collect();
        let count = calls.len();
        self.facts.tool_calls = self
            .facts
            .tool_calls
            .saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        let fits: Vec<Result<ToolCall, Option<Unfit>>> = calls
            .iter()
            .map(|call| match call.malformed {
                Some(_) => Err(None),
                None => names.canonical(call).map_err(Some),
            })
            .collect();
        if let Some(end) = self.bounds(&calls, &fits) {
            return end;
        }
        self.cut_in_a_row = if cut && fits.iter().all(Result::is_err) {
            self.cut_in_a_row + 1
        } else {
            0
        };
        if self.cut_in_a_row >= MAX_CUT {
            return self.fail(
                ErrorClass::OutputTruncated,
                &format!(
                    "the output limit of {} tokens cut {MAX_CUT} answers in a row off in the \
                     middle of a tool call; raise max_output_tokens",
                    self.max_output
                ),
            );
        }
        self.messages.push(message);
        self.slots = calls
            .into_iter()
            .zip(fits)
            .map(|(call, fit)| {
                let slot = self.slot(&call, fit);
                (call, slot)
            })
            .collect();
        let planned: Vec<Planned> = self
            .slots
            .iter()
            .enumerate()
            .filter_map(|(index, (_, slot))| match slot {
                Slot::Run { call, look } => Some(Planned {
                    index,
                    call: call.clone(),
                    parallel: look.is_some(),
                }),
                Slot::Answer { .. } => None,
            })
            .collect();
        if planned.is_empty() {
            self.results(Vec::new());
            return self.ask();
        }
        Action::Call(planned)
    }

    /// Circles, budgets, the last turn: whatever ends a run at an answer with
    /// calls, none of which then runs.
    fn bounds(
        &mut self,
        calls: &[ToolUse],
        fits: &[Result<ToolCall, Option<Unfit>>],
    ) -> Option<Action> {
        let round: Vec<String> = calls
            .iter()
            .zip(fits)
            .map(|(call, fit)| match fit {
                Ok(fit) => key(fit.tool, &fit.args),
                Err(_) => key(&call.name, &call.input),
            })
            .collect();
        match self.repeats.reply(round.join("\n")) {
            Circle::Yes => {
                let tools = wanted(calls);
                return Some(self.fail(
                    ErrorClass::LoopDetected,
                    &format!(
                        "the model made the same calls round and round ({tools}); reword the \
                         task or use another model"
                    ),
                ));
            }
            Circle::Warn(times) => self.warning = Some(prompt::circling(times)),
            Circle::No => {}
        }
        if let Some(budgets) = self.rules.budgets {
            if calls.len() > budgets.calls_per_reply
                || self.facts.tool_calls as usize > budgets.calls_per_run
            {
                return Some(self.fail(
                    ErrorClass::Budget,
                    &format!(
                        "the tool-call budget is used up: at most {} calls in one answer and {} \
                         in one run. None of this answer ran",
                        budgets.calls_per_reply, budgets.calls_per_run
                    ),
                ));
            }
            self.mutation_bytes += fits.iter().flatten().map(asked_bytes).sum::<usize>();
            if self.mutation_bytes > budgets.mutation_bytes {
                return Some(self.fail(
                    ErrorClass::Budget,
                    "the budget of bytes to write is used up; none of this answer ran",
                ));
            }
        }
        if self.turn >= self.rules.max_turns {
            self.facts.stop_reason = Some("turn_limit_pending_tools".to_owned());
            return Some(self.fail(
                ErrorClass::TurnLimit,
                &format!(
                    "exceeded max_turns ({}): the model still wanted {}, which did not run; \
                     raise max_turns or split the task",
                    self.rules.max_turns,
                    wanted(calls)
                ),
            ));
        }
        None
    }

    fn slot(&mut self, call: &ToolUse, fit: Result<ToolCall, Option<Unfit>>) -> Slot {
        let error = |text| Slot::Answer {
            text,
            is_error: true,
        };
        let fit = match fit {
            Ok(fit) => fit,
            Err(why) => {
                self.facts.malformed_calls += 1;
                return match why {
                    None => error(prompt::cut_off(
                        call.malformed.as_deref().filter(|why| !why.is_empty()),
                    )),
                    Some(unfit) => {
                        if let Some(what) = &unfit.refused {
                            self.record.refused(self.turn, &call.name, what);
                        }
                        error(unfit.text)
                    }
                };
            }
        };
        if fit.renamed {
            self.record.flag("tool_renamed");
        }
        if !looks_only(fit.tool) {
            self.repeats.changed();
            return Slot::Run {
                call: fit,
                look: None,
            };
        }
        let key = key(fit.tool, &fit.args);
        if let Some(turn) = self.repeats.answered(&key) {
            self.facts.deduped_calls += 1;
            return Slot::Answer {
                text: prompt::repeated(turn),
                is_error: false,
            };
        }
        Slot::Run {
            look: Some((key, self.repeats.generation())),
            call: fit,
        }
    }

    /// Puts what ended into the record, without going on.
    pub(super) fn note(&mut self, done: &[Done]) {
        for done in done {
            if let Some((_, Slot::Run { call, .. })) = self.slots.get(done.index) {
                self.record.ran(self.turn, call, &done.output);
            }
        }
    }

    /// One result for each call, in the order of the calls.
    pub(super) fn results(&mut self, mut done: Vec<Done>) {
        done.sort_by_key(|done| done.index);
        self.note(&done);
        let mut outputs: Vec<Option<ToolOutput>> = Vec::new();
        outputs.resize_with(self.slots.len(), || None);
        for done in done {
            if let Some(place) = outputs.get_mut(done.index) {
                *place = Some(done.output);
            }
        }
        let mut blocks = Vec::new();
        for ((call, slot), output) in mem::take(&mut self.slots).into_iter().zip(outputs) {
            let (content, is_error, image) = match (slot, output) {
                (Slot::Answer { text, is_error }, _) => (text, is_error, None),
                (Slot::Run { look, .. }, Some(output)) => {
                    if let Some((key, generation)) = look.filter(|_| output.ok) {
                        self.repeats.stands(key, generation, self.turn, &call.id);
                    }
                    (output.text, !output.ok, output.image)
                }
                // The driver answers every call; should it not, the model
                // still gets one result for each.
                (Slot::Run { .. }, None) => {
                    ("ERROR: this call was not run.".to_owned(), true, None)
                }
            };
            blocks.push(ToolResult {
                tool_use_id: call.id,
                content: if content.trim().is_empty() {
                    "(no output)".to_owned()
                } else {
                    content
                },
                is_error,
                image,
            });
        }
        let left = self.rules.max_turns.saturating_sub(self.turn);
        if let Some(last) = blocks.last_mut() {
            let words = [
                self.warning.take(),
                prompt::countdown(left, self.rules.report_only),
            ];
            for words in words.into_iter().flatten() {
                last.content.push_str("\n\n");
                last.content.push_str(&words);
            }
        }
        self.messages.push(Message {
            role: Role::User,
            blocks: blocks.into_iter().map(Block::ToolResult).collect(),
            answered_by: None,
        });
        let gone = self
            .pruner
            .prune(&mut self.messages, self.rules.keep_tool_results);
        self.forget(&gone);
    }

    pub(super) fn forget(&mut self, gone: &[String]) {
        for id in gone {
            self.repeats.evicted(id);
        }
        self.facts.evicted_tool_results = self
            .facts
            .evicted_tool_results
            .saturating_add(u32::try_from(gone.len()).unwrap_or(u32::MAX));
    }
}

/// Bytes that a call asks to have written.
fn asked_bytes(call: &ToolCall) -> usize {
    ["content", "new_string", "new_source"]
        .iter()
        .filter_map(|name| call.args.get(*name)?.as_str())
        .map(str::len)
        .sum()
}

/// The last call of an answer that the bound cut may be cut itself, even where
/// its arguments parse.
pub(super) fn mark_last_cut(message: &mut Message) {
    let last = message
        .blocks
        .iter_mut()
        .rev()
        .find_map(|block| match block {
            Block::ToolUse(call) => Some(call),
            _ => None,
        });
    if let Some(call) = last {
        call.malformed = Some(String::new());
    }
}

fn wanted(calls: &[ToolUse]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for call in calls {
        if !names.contains(&call.name.as_str()) {
            names.push(&call.name);
        }
    }
    names.truncate(8);
    names.join(", ")
}

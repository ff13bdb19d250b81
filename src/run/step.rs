//! The loop as a pure function: what happened goes in, what to do next comes
//! out. No I/O, no clock, no randomness; the driver beside it has those.

use crate::provider::{
    Block, ErrorClass, Message, ProviderError, Role, Stop, ToolSpec, ToolUse, TurnReply,
};

use super::calls::{Slot, mark_last_cut};
use super::prune::Pruner;
use super::record::Record;
use super::repeat::Repeats;
use super::rules::{Action, End, Event, Names, Rules};
use super::{LoopFacts, Outcome, prompt};

/// The state of a run.
#[derive(Debug)]
pub struct Loop {
    pub(super) rules: Rules,
    pub(super) messages: Vec<Message>,
    pub(super) record: Record,
    pub(super) facts: LoopFacts,
    pub(super) turn: u32,
    /// Answers received.
    pub(super) answers: u32,
    pub(super) max_output: u32,
    pub(super) slots: Vec<(ToolUse, Slot)>,
    /// Said at the end of the next results.
    pub(super) warning: Option<String>,
    pub(super) repeats: Repeats,
    pub(super) pruner: Pruner,
    /// Whether this turn's conversation was shrunk already.
    shrunk: bool,
    /// Answers in a row of which nothing could run because it was cut off.
    pub(super) cut_in_a_row: u32,
    /// The answer before a nudge.
    candidate: Option<String>,
    last_text: Option<String>,
    pub(super) mutation_bytes: usize,
    tokens: u64,
    last_prompt: u64,
    spec_bytes: usize,
}

/// Output bound asked for once a model said that the conversation is too long.
const SMALL_OUTPUT: u32 = 4_096;

impl Loop {
    /// A run of one task with these tools.
    pub fn new(rules: Rules, task: String, tools: &[ToolSpec]) -> Self {
        let spec_bytes = tools
            .iter()
            .map(|tool| tool.name.len() + tool.description.len() + tool.schema.to_string().len())
            .sum();
        Loop {
            facts: LoopFacts {
                max_turns: rules.max_turns,
                ..LoopFacts::default()
            },
            max_output: rules.max_output_tokens,
            rules,
            messages: vec![Message::user(task)],
            record: Record::default(),
            turn: 0,
            answers: 0,
            slots: Vec::new(),
            warning: None,
            repeats: Repeats::default(),
            pruner: Pruner::default(),
            shrunk: false,
            cut_in_a_row: 0,
            candidate: None,
            last_text: None,
            mutation_bytes: 0,
            tokens: 0,
            last_prompt: 0,
            spec_bytes,
        }
    }

    /// The conversation to send.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The output bound to ask for.
    pub fn max_output_tokens(&self) -> u32 {
        self.max_output
    }

    /// The turn limit.
    pub fn max_turns(&self) -> u32 {
        self.rules.max_turns
    }

    /// Takes what happened and says what to do.
    pub fn step(&mut self, event: Event, names: &dyn Names) -> Action {
        match event {
            Event::Start => self.ask(),
            Event::Reply(reply) => self.reply(reply, names),
            Event::ModelFailed(error) => self.model_failed(error),
            Event::Results(done) => {
                self.results(done);
                self.ask()
            }
            Event::Cancelled(done) => {
                self.note(&done);
                self.cancelled()
            }
            Event::OutOfTime(done) => {
                self.note(&done);
                self.fail(
                    ErrorClass::Budget,
                    "the time of the run (max_run_seconds) is used up",
                )
            }
        }
    }

    pub(super) fn ask(&mut self) -> Action {
        if let Some(budgets) = self.rules.budgets {
            let bytes = self.request_bytes();
            if bytes > budgets.history_bytes {
                return self.fail(
                    ErrorClass::Budget,
                    "the history budget of the run is used up: split the task",
                );
            }
            let reserve =
                (bytes as u64).div_ceil(4).max(self.last_prompt) + u64::from(self.max_output);
            if self.tokens + reserve > budgets.tokens {
                return self.fail(
                    ErrorClass::Budget,
                    "the token budget of the run cannot cover another request: split the task",
                );
            }
        }
        self.turn += 1;
        self.shrunk = false;
        Action::Ask { turn: self.turn }
    }

    fn request_bytes(&self) -> usize {
        let bytes = serde_json::to_vec(&self.messages).map_or(0, |json| json.len());
        bytes + self.spec_bytes
    }

    fn meter(&mut self, reply: &TurnReply) -> Option<Action> {
        let budgets = self.rules.budgets?;
        let usage = reply.usage.unwrap_or_default();
        let sent = (self.request_bytes() as u64).div_ceil(4);
        let came = serde_json::to_vec(&reply.message).map_or(0, |json| json.len() as u64);
        self.last_prompt = usage.input_tokens;
        self.tokens += sent.max(usage.input_tokens) + came.div_ceil(4).max(usage.output_tokens);
        (self.tokens > budgets.tokens).then(|| {
            self.fail(
                ErrorClass::Budget,
                "the token budget of the run is used up: split the task",
            )
        })
    }

    fn reply(&mut self, mut reply: TurnReply, names: &dyn Names) -> Action {
        self.answers += 1;
        self.record.usage(reply.usage);
        self.record.model = reply.model.clone().or(self.record.model.take());
        for flag in &reply.flags {
            self.record.flag(flag);
        }
        self.facts.stop_reason = Some(stop_word(&reply.stop).to_owned());
        let text = reply.message.text().trim().to_owned();
        if !text.is_empty() && !prompt::holds_markup(&text) {
            self.last_text = Some(text.clone());
        }
        self.facts.terminal_text = !text.is_empty();
        if let Some(end) = self.meter(&reply) {
            return end;
        }
        if reply.message.tool_uses().next().is_none() {
            return self.answer(reply, text);
        }
        if self.facts.nudges > 0 {
            self.facts.resumed_after_nudge = true;
            self.candidate = None;
        }
        // Some servers say `tool_calls` although the bound cut the answer.
        let at_bound = reply
            .usage
            .is_some_and(|usage| usage.output_tokens >= u64::from(self.max_output));
        let cut = reply.stop == Stop::MaxTokens || at_bound;
        if cut {
            mark_last_cut(&mut reply.message);
        }
        self.calls(reply.message, cut, names)
    }

    /// An answer without calls.
    fn answer(&mut self, reply: TurnReply, text: String) -> Action {
        match reply.stop {
            Stop::MaxTokens => {
                return self.fail(
                    ErrorClass::OutputTruncated,
                    &format!(
                        "the output limit of {} tokens cut the answer off; raise \
                         max_output_tokens or ask for less at once",
                        self.max_output
                    ),
                );
            }
            Stop::ContentFilter => {
                return self.fail(
                    ErrorClass::BadRequest,
                    "the provider's content filter stopped the answer; word the task differently",
                );
            }
            Stop::EndTurn | Stop::ToolUse | Stop::Other(_) => {}
        }
        let markup = prompt::holds_markup(&text);
        let may_nudge =
            self.facts.nudges < self.rules.max_nudges && self.turn < self.rules.max_turns;
        if text.is_empty() || markup {
            if let Some(candidate) = self.candidate.take() {
                self.facts.terminal_text = false;
                return self.complete(candidate);
            }
            if may_nudge {
                let nudge = if markup {
                    prompt::TEXT_CALL
                } else if hidden_call(&reply.message) {
                    prompt::HIDDEN_CALL
                } else {
                    prompt::EMPTY
                };
                return self.nudge((markup).then_some(reply.message), nudge);
            }
            return self.fail(
                ErrorClass::EmptyResponse,
                "the model answered with nothing, neither text nor a tool call; try again or \
                 with another model",
            );
        }
        if let Some(candidate) = self.candidate.take() {
            // It only said the same again: the first answer is the answer.
            self.facts.nudge_reply = Some(text);
            self.facts.terminal_text = false;
            return self.complete(candidate);
        }
        // A stop for tools without any: the server lost the call.
        if may_nudge && (reply.stop == Stop::ToolUse || prompt::announces(&text)) {
            self.candidate = Some(text);
            return self.nudge(Some(reply.message), prompt::ANNOUNCED);
        }
        self.complete(text)
    }

    /// Asks again. An empty answer cannot stand in a conversation, so it is
    /// left out and the words go to the end of what was sent.
    fn nudge(&mut self, said: Option<Message>, words: &str) -> Action {
        self.facts.nudges += 1;
        match said {
            Some(message) => {
                self.messages.push(message);
                self.messages.push(Message::user(words));
            }
            None => match self.messages.last_mut() {
                Some(last) if last.role == Role::User => last.blocks.push(Block::Text {
                    text: words.to_owned(),
                }),
                _ => self.messages.push(Message::user(words)),
            },
        }
        self.ask()
    }

    fn model_failed(&mut self, error: ProviderError) -> Action {
        match error.class {
            ErrorClass::Cancelled => self.cancelled(),
            ErrorClass::ContextOverflow if !self.shrunk && self.shrink() => {
                self.shrunk = true;
                Action::Ask { turn: self.turn }
            }
            class => self.fail(class, &error.text),
        }
    }

    /// Whether there was anything to make smaller.
    fn shrink(&mut self) -> bool {
        let gone = self.pruner.shrink(&mut self.messages);
        self.forget(&gone);
        let smaller = self.max_output > SMALL_OUTPUT;
        self.max_output = self.max_output.min(SMALL_OUTPUT);
        smaller || !gone.is_empty()
    }

    fn complete(&mut self, text: String) -> Action {
        Action::End(End {
            outcome: Outcome::Completed,
            class: None,
            text: None,
            final_text: Some(text),
        })
    }

    pub(super) fn fail(&mut self, class: ErrorClass, text: &str) -> Action {
        Action::End(End {
            outcome: Outcome::Failed,
            class: Some(class),
            text: Some(text.to_owned()),
            final_text: self.candidate.take().or(self.last_text.take()),
        })
    }

    fn cancelled(&mut self) -> Action {
        Action::End(End {
            outcome: Outcome::Cancelled,
            class: Some(ErrorClass::Cancelled),
            text: Some("the run was cancelled".to_owned()),
            final_text: self.candidate.take().or(self.last_text.take()),
        })
    }
}

/// Whether the reasoning of an answer holds a call.
fn hidden_call(message: &Message) -> bool {
    message.blocks.iter().any(|block| match block {
        Block::Thinking { text, .. } => prompt::holds_markup(text),
        _ => false,
    })
}

fn stop_word(stop: &Stop) -> &'static str {
    match stop {
        Stop::EndTurn => "end_turn",
        Stop::ToolUse => "tool_use",
        Stop::MaxTokens => "max_tokens",
        Stop::ContentFilter => "content_filter",
        Stop::Other(_) => "unknown",
    }
}

#[cfg(test)]
mod tests;

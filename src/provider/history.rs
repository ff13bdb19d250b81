//! The conversation as both wires need it.
//!
//! A history can be cut, pruned or broken off anywhere. Here it becomes turns
//! that no server refuses: every call has exactly one answer right behind it,
//! nothing is empty, and user and assistant alternate from the user on.

use std::borrow::Cow;
use std::collections::HashSet;

use super::{Block, Image, Message, Role, ToolUse};

/// A turn ready to be written down.
#[derive(Debug, PartialEq)]
pub(crate) enum Turn<'a> {
    /// Answers to the calls of the turn before, then words.
    User {
        /// One for each call, in the order of the calls.
        answers: Vec<Answer<'a>>,
        /// What was said, never blank.
        texts: Vec<&'a str>,
    },
    /// What the model said.
    Assistant(Said<'a>),
}

/// An assistant turn.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Said<'a> {
    /// Reasoning blocks in their order.
    pub thinking: Vec<&'a Block>,
    /// Visible text, never blank.
    pub texts: Vec<&'a str>,
    /// Calls.
    pub calls: Vec<&'a ToolUse>,
    /// The model that answered.
    pub answered_by: Option<&'a str>,
}

/// The answer to a call.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer<'a> {
    /// Id of the call.
    pub id: &'a str,
    /// Name of the call, as sent.
    pub name: &'a str,
    /// Text, never blank.
    pub content: Cow<'a, str>,
    /// Whether the tool failed.
    pub is_error: bool,
    /// An image.
    pub image: Option<&'a Image>,
}

/// What stands where a user turn is missing or has nothing to say.
const GO_ON: &str = "Continue.";
/// What stands where a call was never answered.
const UNANSWERED: &str = "ERROR: this call was not run";
/// What stands where a tool said nothing.
const NOTHING: &str = "(no output)";

/// Makes turns of messages.
pub(crate) fn turns(messages: &[Message]) -> Vec<Turn<'_>> {
    let mut out: Vec<Turn<'_>> = Vec::with_capacity(messages.len());
    for message in messages {
        match message.role {
            Role::Assistant => {
                let said = said(message);
                if said.calls.is_empty() && said.texts.is_empty() {
                    continue;
                }
                if !matches!(out.last(), Some(Turn::User { .. })) {
                    let answers = answers(out.last(), &[]);
                    let texts = if answers.is_empty() {
                        vec![GO_ON]
                    } else {
                        Vec::new()
                    };
                    out.push(Turn::User { answers, texts });
                }
                out.push(Turn::Assistant(said));
            }
            Role::User => {
                let words: Vec<&str> = texts(message).collect();
                if let Some(Turn::User { texts, .. }) = out.last_mut() {
                    texts.extend(words);
                    continue;
                }
                let answers = answers(out.last(), &message.blocks);
                if !(answers.is_empty() && words.is_empty()) {
                    out.push(Turn::User {
                        answers,
                        texts: words,
                    });
                }
            }
        }
    }
    // The conversation must not end with the model's own words, except where
    // nobody asked anything after them: then somebody asks to go on.
    if matches!(out.last(), Some(Turn::Assistant(_))) {
        let answers = answers(out.last(), &[]);
        let texts = if answers.is_empty() {
            vec![GO_ON]
        } else {
            Vec::new()
        };
        out.push(Turn::User { answers, texts });
    }
    out
}

fn said(message: &Message) -> Said<'_> {
    let mut said = Said {
        answered_by: message.answered_by.as_deref(),
        ..Said::default()
    };
    let mut ids = HashSet::new();
    for block in &message.blocks {
        match block {
            Block::Thinking { .. } | Block::RedactedThinking { .. } => said.thinking.push(block),
            Block::Text { text } if !text.trim().is_empty() => said.texts.push(text),
            Block::ToolUse(call) if ids.insert(&call.id) => said.calls.push(call),
            _ => {}
        }
    }
    said
}

fn texts(message: &Message) -> impl Iterator<Item = &str> {
    message.blocks.iter().filter_map(|block| match block {
        Block::Text { text } if !text.trim().is_empty() => Some(text.as_str()),
        _ => None,
    })
}

/// The answers to the calls of the turn before; results of other calls are lost,
/// as no server takes a result without its call.
fn answers<'a>(before: Option<&Turn<'a>>, blocks: &'a [Block]) -> Vec<Answer<'a>> {
    let Some(Turn::Assistant(said)) = before else {
        return Vec::new();
    };
    said.calls
        .iter()
        .map(|call| {
            let result = blocks.iter().find_map(|block| match block {
                Block::ToolResult(result) if result.tool_use_id == call.id => Some(result),
                _ => None,
            });
            match result {
                Some(result) => Answer {
                    id: &call.id,
                    name: &call.name,
                    content: match result.content.trim().is_empty() {
                        true => Cow::Borrowed(NOTHING),
                        false => Cow::Borrowed(result.content.as_str()),
                    },
                    is_error: result.is_error,
                    image: result.image.as_ref(),
                },
                None => Answer {
                    id: &call.id,
                    name: &call.name,
                    content: Cow::Borrowed(UNANSWERED),
                    is_error: true,
                    image: None,
                },
            }
        })
        .collect()
}

/// A tool name that every wire takes: what the model wrote, cleaned.
pub(crate) fn wire_name(name: &str) -> String {
    let clean: String = name
        .trim()
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
                c
            } else {
                '_'
            }
        })
        .take(64)
        .collect();
    if clean.is_empty() {
        "unnamed".to_owned()
    } else {
        clean
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::provider::ToolResult;

    fn call(id: &str) -> Block {
        Block::ToolUse(ToolUse {
            id: id.into(),
            name: "Read".into(),
            input: Map::new(),
            malformed: None,
        })
    }

    fn result(id: &str, content: &str) -> Block {
        Block::ToolResult(ToolResult {
            tool_use_id: id.into(),
            content: content.into(),
            is_error: false,
            image: None,
        })
    }

    fn text(text: &str) -> Block {
        Block::Text { text: text.into() }
    }

    fn message(role: Role, blocks: Vec<Block>) -> Message {
        Message {
            role,
            blocks,
            answered_by: None,
        }
    }

    /// A short picture of the turns: `u[1=x;2=y] words` and `a[1,2] words`.
    fn picture(messages: &[Message]) -> Vec<String> {
        turns(messages)
            .iter()
            .map(|turn| match turn {
                Turn::User { answers, texts } => {
                    let answers: Vec<_> = answers
                        .iter()
                        .map(|a| format!("{}={}", a.id, a.content))
                        .collect();
                    format!("u[{}] {}", answers.join(";"), texts.join("|"))
                }
                Turn::Assistant(said) => {
                    let calls: Vec<_> = said.calls.iter().map(|c| c.id.as_str()).collect();
                    format!("a[{}] {}", calls.join(","), said.texts.join("|"))
                }
            })
            .collect()
    }

    #[test]
    fn results_take_the_order_of_the_calls_and_words_follow() {
        let messages = [
            Message::user("task"),
            message(Role::Assistant, vec![text("both"), call("1"), call("2")]),
            message(
                Role::User,
                vec![
                    text("hurry"),
                    result("2", "b"),
                    result("1", " "),
                    result("9", "lost"),
                ],
            ),
        ];
        assert_eq!(
            picture(&messages),
            ["u[] task", "a[1,2] both", "u[1=(no output);2=b] hurry"]
        );
    }

    #[test]
    fn gaps_are_filled() {
        let messages = [
            message(Role::Assistant, vec![call("1")]),
            message(Role::Assistant, vec![text("  "), call("2"), call("2")]),
        ];
        let unanswered = UNANSWERED;
        assert_eq!(
            picture(&messages),
            [
                "u[] Continue.",
                "a[1] ",
                &format!("u[1={unanswered}] "),
                "a[2] ",
                &format!("u[2={unanswered}] ")
            ]
        );
        assert_eq!(picture(&[]), [""; 0]);
    }

    #[test]
    fn empty_turns_vanish_and_their_neighbours_join() {
        let messages = [
            Message::user("task"),
            message(
                Role::Assistant,
                vec![text(""), Block::RedactedThinking { data: "x".into() }],
            ),
            message(Role::User, vec![text(" ")]),
            Message::user("nudge"),
            message(Role::Assistant, vec![text("done")]),
            message(Role::User, vec![result("1", "of nobody")]),
        ];
        assert_eq!(
            picture(&messages),
            ["u[] task|nudge", "a[] done", "u[] Continue."]
        );
    }

    #[test]
    fn names_are_cleaned_for_the_wire() {
        assert_eq!(wire_name(" read "), "read");
        assert_eq!(wire_name("repo_browser.open_tab"), "repo_browser_open_tab");
        assert_eq!(wire_name(""), "unnamed");
        assert_eq!(wire_name(&"x".repeat(99)).len(), 64);
    }
}

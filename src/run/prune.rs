//! Taking old tool results out of a conversation.
//!
//! Done in batches: between two batches a request starts with exactly the
//! bytes of the one before, so that the provider's prefix cache holds.

use crate::provider::{Block, Message, Role, ToolResult};

use super::repeat::looks_only;

/// Messages with tool results that gather before a batch is taken out.
const BATCH: usize = 4;
/// How a marker begins; also how it is known.
const MARK: &str = "[removed to save room:";
/// Most characters of one result that stay when a conversation has to shrink.
const SHRUNK: usize = 3_000;

/// Takes out what is old, and remembers how far it went.
#[derive(Debug, Default)]
pub(super) struct Pruner {
    /// Messages with tool results that were dealt with.
    done: usize,
}

impl Pruner {
    /// Replaces the results of all but the newest `keep` messages, when a
    /// batch has gathered. Gives the ids of the calls whose results went.
    pub(super) fn prune(&mut self, messages: &mut [Message], keep: usize) -> Vec<String> {
        let places = places(messages);
        if keep == 0 || places.len() - self.done.min(places.len()) < keep + BATCH {
            return Vec::new();
        }
        let upto = places.len() - keep;
        let gone = evict(messages, &places[self.done.min(upto)..upto]);
        self.done = self.done.max(upto);
        gone
    }

    /// Makes the conversation smaller after the model refused it as too long:
    /// every result but the newest goes, and the newest are cut. Gives the ids,
    /// none when there was nothing to take.
    pub(super) fn shrink(&mut self, messages: &mut [Message]) -> Vec<String> {
        let places = places(messages);
        let Some((newest, older)) = places.split_last() else {
            return Vec::new();
        };
        let mut gone = evict(messages, older);
        self.done = self.done.max(older.len());
        for block in &mut messages[*newest].blocks {
            if let Block::ToolResult(result) = block
                && let Some(cut) = cut(&result.content)
            {
                result.content = cut;
                gone.push(result.tool_use_id.clone());
            }
        }
        gone
    }
}

/// The messages that hold tool results.
fn places(messages: &[Message]) -> Vec<usize> {
    let holds = |message: &Message| {
        message.role == Role::User
            && message
                .blocks
                .iter()
                .any(|block| matches!(block, Block::ToolResult(_)))
    };
    (0..messages.len())
        .filter(|at| holds(&messages[*at]))
        .collect()
}

fn evict(messages: &mut [Message], at: &[usize]) -> Vec<String> {
    let mut gone = Vec::new();
    for place in at {
        for index in 0..messages[*place].blocks.len() {
            let Block::ToolResult(result) = &messages[*place].blocks[index] else {
                continue;
            };
            let marker = marker(messages, result);
            if result.content.starts_with(MARK) || result.content.len() <= marker.len() {
                continue;
            }
            if let Block::ToolResult(result) = &mut messages[*place].blocks[index] {
                result.content = marker;
                result.image = None;
                gone.push(result.tool_use_id.clone());
            }
        }
    }
    gone
}

/// Says what went: which call, how much, and what to do about it.
fn marker(messages: &[Message], result: &ToolResult) -> String {
    let call = messages
        .iter()
        .flat_map(Message::tool_uses)
        .find(|call| call.id == result.tool_use_id);
    let (what, again) = match call {
        Some(call) => {
            let about = ["file_path", "path", "notebook_path", "pattern", "command"]
                .iter()
                .find_map(|name| call.input.get(*name)?.as_str())
                .unwrap_or_default();
            let about: String = about.chars().take(80).collect();
            let again = if looks_only(&call.name) {
                "Call it again if you need it."
            } else {
                "It ran: do not repeat it only to see this."
            };
            (format!("{} {about}", call.name), again)
        }
        None => ("a tool call".to_owned(), ""),
    };
    format!(
        "{MARK} result of {}, {} characters. {again}]",
        what.trim(),
        result.content.chars().count()
    )
}

fn cut(text: &str) -> Option<String> {
    let total = text.chars().count();
    if total <= SHRUNK {
        return None;
    }
    let head: String = text.chars().take(SHRUNK * 2 / 3).collect();
    let tail: String = text.chars().skip(total - SHRUNK / 4).collect();
    Some(format!(
        "{head}\n[... cut to fit the model's context window: {total} characters in all ...]\n{tail}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::ToolUse;
    use serde_json::json;

    fn turn(n: usize, size: usize) -> [Message; 2] {
        let id = format!("c{n}");
        [
            Message {
                role: Role::Assistant,
                blocks: vec![Block::ToolUse(ToolUse {
                    id: id.clone(),
                    name: "Read".to_owned(),
                    input: json!({"file_path": format!("f{n}.txt")})
                        .as_object()
                        .cloned()
                        .expect("object"),
                    malformed: None,
                })],
                answered_by: None,
            },
            Message {
                role: Role::User,
                blocks: vec![Block::ToolResult(ToolResult {
                    tool_use_id: id,
                    content: "x".repeat(size),
                    is_error: false,
                    image: None,
                })],
                answered_by: None,
            },
        ]
    }

    fn result(messages: &[Message], n: usize) -> &str {
        match &messages[2 + 2 * n].blocks[0] {
            Block::ToolResult(result) => &result.content,
            other => panic!("not a result: {other:?}"),
        }
    }

    #[test]
    fn old_results_go_in_batches_and_between_them_nothing_moves() {
        let mut pruner = Pruner::default();
        let mut messages = vec![Message::user("task")];
        let mut gone = Vec::new();
        let mut changed_at = Vec::new();
        for n in 0..20 {
            messages.extend(turn(n, 5_000));
            let before = messages.clone();
            let went = pruner.prune(&mut messages, 6);
            if before != messages {
                changed_at.push(n + 1);
            }
            gone.extend(went);
        }
        assert_eq!(changed_at, [10, 14, 18]);
        assert_eq!(gone.len(), 12);
        for n in 0..12 {
            let text = result(&messages, n);
            assert!(text.contains("5000 characters"), "{text}");
            assert!(text.contains(&format!("Read f{n}.txt")), "{text}");
        }
        for n in 12..20 {
            assert_eq!(result(&messages, n).len(), 5_000);
        }
    }

    #[test]
    fn zero_keeps_everything_and_small_results_are_not_worth_it() {
        let mut messages = vec![Message::user("task")];
        for n in 0..20 {
            messages.extend(turn(n, 20));
        }
        let before = messages.clone();
        assert!(Pruner::default().prune(&mut messages, 0).is_empty());
        assert!(Pruner::default().prune(&mut messages, 6).is_empty());
        assert_eq!(messages, before);
    }

    #[test]
    fn shrinking_leaves_a_part_of_the_newest_and_ends_when_nothing_is_left() {
        let mut pruner = Pruner::default();
        let mut messages = vec![Message::user("task")];
        for n in 0..3 {
            messages.extend(turn(n, 50_000));
        }
        assert_eq!(pruner.shrink(&mut messages), ["c0", "c1", "c2"]);
        assert!(result(&messages, 0).starts_with(MARK));
        let newest = result(&messages, 2);
        assert!(newest.len() < 4_000 && newest.contains("50000 characters in all"));
        assert_eq!(pruner.shrink(&mut messages), Vec::<String>::new());
        assert!(
            Pruner::default()
                .shrink(&mut [Message::user("t")])
                .is_empty()
        );
    }
}

//! Repeats: a look-up whose answer still stands is not made twice, and a model
//! that goes round in circles is stopped.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Identical replies in a row that end a run.
const SAME: usize = 5;
/// Identical replies in a row that are worth a word.
const WARN: usize = 3;
/// Rounds of a longer circle that end a run.
const ROUNDS: usize = 4;
/// Longest circle that is looked for.
const LONGEST: usize = 4;

/// Tools that only look: their answer stands until something was changed.
pub(super) fn looks_only(tool: &str) -> bool {
    matches!(tool, "Read" | "Glob" | "Grep")
}

/// Name and arguments as one text; the order of the keys does not matter.
pub(super) fn key(tool: &str, args: &Map<String, Value>) -> String {
    let mut text = tool.to_owned();
    write_map(args, &mut text);
    text
}

fn write_map(map: &Map<String, Value>, text: &mut String) {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by_key(|(name, _)| name.as_str());
    text.push('{');
    for (name, value) in entries {
        text.push_str(&Value::from(name.as_str()).to_string());
        text.push(':');
        write_value(value, text);
        text.push(',');
    }
    text.push('}');
}

fn write_value(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => write_map(map, text),
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write_value(item, text);
                text.push(',');
            }
            text.push(']');
        }
        plain => text.push_str(&plain.to_string()),
    }
}

/// What a reply means in the light of the ones before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Circle {
    /// Nothing.
    No,
    /// The same for the n-th time.
    Warn(u32),
    /// Round and round; the calls of one round.
    Yes,
}

/// Memory of calls.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// Grows with every call that may have changed something.
    generation: u64,
    /// Look-ups whose result is in the conversation: generation, turn, id.
    standing: HashMap<String, (u64, u32, String)>,
    /// One key a reply.
    replies: Vec<String>,
}

impl Repeats {
    /// A call that may change something is about to run.
    pub(super) fn changed(&mut self) {
        self.generation += 1;
    }

    /// The generation now.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// The turn in which this look-up was answered, if the answer still stands.
    pub(super) fn answered(&self, key: &str) -> Option<u32> {
        self.standing
            .get(key)
            .filter(|(generation, ..)| *generation == self.generation)
            .map(|(_, turn, _)| *turn)
    }

    /// A look-up succeeded, in the given generation.
    pub(super) fn stands(&mut self, key: String, generation: u64, turn: u32, id: &str) {
        self.standing.insert(key, (generation, turn, id.to_owned()));
    }

    /// The result of a call left the conversation.
    pub(super) fn evicted(&mut self, id: &str) {
        self.standing.retain(|_, (.., kept)| kept != id);
    }

    /// Takes the calls of a reply, results left out: a changing result must
    /// not hide a circle.
    pub(super) fn reply(&mut self, key: String) -> Circle {
        self.replies.push(key);
        let all = &self.replies;
        let mut same = 1;
        while same < all.len() && all[all.len() - 1 - same] == all[all.len() - 1] {
            same += 1;
        }
        if same >= SAME {
            return Circle::Yes;
        }
        for length in 2..=LONGEST {
            let span = length * ROUNDS;
            if all.len() >= span {
                let tail = &all[all.len() - span..];
                if tail.windows(length + 1).all(|w| w[0] == w[length]) {
                    return Circle::Yes;
                }
            }
        }
        if same >= WARN {
            return Circle::Warn(u32::try_from(same).unwrap_or(u32::MAX));
        }
        Circle::No
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn args(value: Value) -> Map<String, Value> {
        value.as_object().cloned().expect("object")
    }

    #[test]
    fn the_order_of_keys_does_not_matter_and_everything_else_does() {
        let a = key("Read", &args(json!({"a": 1, "b": {"x": 1, "y": [1, 2]}})));
        let b = key("Read", &args(json!({"b": {"y": [1, 2], "x": 1}, "a": 1})));
        assert_eq!(a, b);
        for other in [
            json!({"a": 1}),
            json!({"a": "1", "b": {"x": 1, "y": [1, 2]}}),
        ] {
            assert_ne!(a, key("Read", &args(other)));
        }
        assert_ne!(
            a,
            key("Grep", &args(json!({"a": 1, "b": {"x": 1, "y": [1, 2]}})))
        );
    }

    #[test]
    fn an_answer_stands_until_something_changed_or_it_left() {
        let mut repeats = Repeats::default();
        repeats.stands("k".into(), repeats.generation(), 3, "id");
        assert_eq!(repeats.answered("k"), Some(3));
        repeats.changed();
        assert_eq!(repeats.answered("k"), None);
        repeats.stands("k".into(), repeats.generation(), 5, "id2");
        assert_eq!(repeats.answered("k"), Some(5));
        repeats.evicted("id2");
        assert_eq!(repeats.answered("k"), None);
    }

    fn run(replies: &str) -> Vec<Circle> {
        let mut repeats = Repeats::default();
        replies
            .chars()
            .map(|reply| repeats.reply(reply.to_string()))
            .collect()
    }

    #[test]
    fn circles_are_found_and_variety_is_none() {
        use Circle::{No, Warn, Yes};
        assert_eq!(run("aaaaa"), [No, No, Warn(3), Warn(4), Yes]);
        assert_eq!(run("aabaab").last(), Some(&No));
        assert_eq!(run("abababab").last(), Some(&Yes));
        assert_eq!(run("abababa").last(), Some(&No));
        assert_eq!(run("abcabcabcabc").last(), Some(&Yes));
        assert_eq!(run("xabcdabcdabcdabcd").last(), Some(&Yes));
        assert_eq!(run("abcabdabcabd").last(), Some(&No));
        assert_eq!(run("aaaabaaaab").last(), Some(&No));
    }
}

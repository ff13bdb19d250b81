//! Reasoning that comes inside the text, between `<think>` and `</think>`.
//!
//! [`split`] judges a whole text. [`Live`] shows a text while it streams; what
//! it shows is for eyes only, the answer is made from the whole.

use super::ProviderEvent;

const OPEN: [&str; 2] = ["<think>", "<thinking>"];
const CLOSE: [&str; 2] = ["</think>", "</thinking>"];

/// Parts the reasoning from the visible text. Only a text that begins with the
/// tag has reasoning, or one with a lone closing tag on a line's edge, which is
/// what is left when the template of the server wrote the opening one. A tag in
/// the middle of a sentence is the model talking about tags.
pub(crate) fn split(text: &str) -> (String, String) {
    let mut reasoning = String::new();
    let mut rest = text;
    let mut opened = false;
    loop {
        let trimmed = rest.trim_start();
        let Some(inner) = OPEN.iter().find_map(|tag| trimmed.strip_prefix(tag)) else {
            break;
        };
        opened = true;
        let (thought, after) = match first_of(inner, &CLOSE) {
            Some((at, tag)) => (&inner[..at], &inner[at + tag.len()..]),
            // Never closed: all of it is reasoning.
            None => (inner, ""),
        };
        push_thought(&mut reasoning, thought);
        rest = after;
    }
    if !opened
        && let Some((at, tag)) = first_of(text, &CLOSE)
        && first_of(&text[..at], &OPEN).is_none()
    {
        let (before, after) = (&text[..at], &text[at + tag.len()..]);
        let edge = before.ends_with('\n') || after.starts_with('\n') || after.is_empty();
        if edge && before.matches("```").count() % 2 == 0 {
            push_thought(&mut reasoning, before);
            rest = after;
        }
    }
    let visible = if rest.len() == text.len() {
        rest
    } else {
        rest.trim_start()
    };
    (reasoning, visible.to_owned())
}

fn push_thought(reasoning: &mut String, thought: &str) {
    if !reasoning.is_empty() && !thought.trim().is_empty() {
        reasoning.push('\n');
    }
    reasoning.push_str(thought.trim());
}

fn first_of(text: &str, tags: &[&'static str]) -> Option<(usize, &'static str)> {
    tags.iter()
        .filter_map(|tag| Some((text.find(tag)?, *tag)))
        .min()
}

/// Beginnings of tool markup that nobody should see on the way.
const MARKUP: [&str; 9] = [
    "<tool_call>",
    "<function=",
    "<\u{ff5c}",
    "<\u{2016}",
    "<|DSML",
    "<|tool_call",
    "<|channel|>",
    "[TOOL_CALL]",
    "[TOOL_REQUEST]",
];

#[derive(Debug, PartialEq)]
enum State {
    Start,
    Visible,
    Thinking,
    Muted,
}

/// Shows text as it arrives, reasoning as reasoning, markup not at all.
#[derive(Debug)]
pub(crate) struct Live {
    held: String,
    state: State,
}

impl Live {
    /// Shows text.
    pub fn new() -> Self {
        Live {
            held: String::new(),
            state: State::Start,
        }
    }

    /// Shows nothing: the text is an action, not words.
    pub fn muted() -> Self {
        Live {
            held: String::new(),
            state: State::Muted,
        }
    }

    /// The provider has a field of its own for reasoning: tags are just text.
    pub fn no_tags(&mut self) {
        if self.state == State::Start {
            self.state = State::Visible;
        }
    }

    /// Takes a piece of text and shows what is certain.
    pub fn push(&mut self, piece: &str, on: &mut (dyn FnMut(ProviderEvent) + Send)) {
        if self.state == State::Muted {
            return;
        }
        self.held.push_str(piece);
        loop {
            match self.state {
                State::Muted => return,
                State::Start => {
                    let trimmed = self.held.trim_start();
                    if let Some(tag) = OPEN.iter().find(|tag| trimmed.starts_with(**tag)) {
                        self.held = trimmed[tag.len()..].to_owned();
                        self.state = State::Thinking;
                    } else if OPEN.iter().any(|tag| tag.starts_with(trimmed)) {
                        return;
                    } else {
                        self.state = State::Visible;
                    }
                }
                State::Thinking => match first_of(&self.held, &CLOSE) {
                    Some((at, tag)) => {
                        let after = self.held.split_off(at + tag.len());
                        self.held.truncate(at);
                        self.show(ProviderEvent::Thinking, usize::MAX, on);
                        self.held = after;
                        self.state = State::Start;
                    }
                    None => {
                        let safe = safe_length(&self.held, &CLOSE);
                        self.show(ProviderEvent::Thinking, safe, on);
                        return;
                    }
                },
                State::Visible => match first_of(&self.held, &MARKUP) {
                    Some((at, _)) => {
                        self.show(ProviderEvent::Text, at, on);
                        self.state = State::Muted;
                        self.held.clear();
                    }
                    None => {
                        let safe = safe_length(&self.held, &MARKUP);
                        self.show(ProviderEvent::Text, safe, on);
                        return;
                    }
                },
            }
        }
    }

    /// The text is over: what was held back is no tag any more.
    pub fn finish(&mut self, on: &mut (dyn FnMut(ProviderEvent) + Send)) {
        match self.state {
            State::Muted => {}
            State::Thinking => self.show(ProviderEvent::Thinking, usize::MAX, on),
            State::Start | State::Visible => self.show(ProviderEvent::Text, usize::MAX, on),
        }
    }

    fn show(
        &mut self,
        kind: fn(String) -> ProviderEvent,
        length: usize,
        on: &mut (dyn FnMut(ProviderEvent) + Send),
    ) {
        let rest = self.held.split_off(length.min(self.held.len()));
        let shown = std::mem::replace(&mut self.held, rest);
        if !shown.is_empty() {
            on(kind(shown));
        }
    }
}

/// How much of the text cannot be the beginning of one of the tags.
fn safe_length(text: &str, tags: &[&str]) -> usize {
    text.char_indices()
        .rev()
        .take(16)
        .filter(|(at, _)| tags.iter().any(|tag| tag.starts_with(&text[*at..])))
        .map(|(at, _)| at)
        .last()
        .unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (String, String) {
        split(text)
    }

    fn pair(reasoning: &str, visible: &str) -> (String, String) {
        (reasoning.to_owned(), visible.to_owned())
    }

    #[test]
    fn tags_at_the_beginning() {
        assert_eq!(
            parts("<think>Short.</think>The answer."),
            pair("Short.", "The answer.")
        );
        assert_eq!(parts("\n <thinking>\na\n</thinking>\n\nb"), pair("a", "b"));
        assert_eq!(
            parts("<think>a</think>\n<think>b</think> c"),
            pair("a\nb", "c")
        );
        assert_eq!(
            parts("<think>never closed <tool_call>{}"),
            pair("never closed <tool_call>{}", "")
        );
        assert_eq!(parts("<think></think>x"), pair("", "x"));
    }

    #[test]
    fn a_lone_closing_tag_on_a_line_of_its_own() {
        assert_eq!(
            parts("I should read.\n</think>\nDone."),
            pair("I should read.", "Done.")
        );
        assert_eq!(parts("only thought\n</think>"), pair("only thought", ""));
    }

    #[test]
    fn tags_that_are_text() {
        for text in [
            "hello </think> world",
            "use <think> at the start",
            "a ```\n</think>\n``` b",
            " plain",
        ] {
            assert_eq!(parts(text), pair("", text));
        }
    }

    fn live(pieces: &[&str], muted: bool) -> (String, String) {
        let (mut text, mut thought) = (String::new(), String::new());
        let mut live = if muted { Live::muted() } else { Live::new() };
        let mut on = |event| match event {
            ProviderEvent::Text(t) => text.push_str(&t),
            ProviderEvent::Thinking(t) => thought.push_str(&t),
            _ => {}
        };
        for piece in pieces {
            live.push(piece, &mut on);
        }
        live.finish(&mut on);
        (thought, text)
    }

    #[test]
    fn live_text_is_the_same_for_every_split() {
        let cases = [
            (
                "<think>a < b </thin</think>Answer <tool",
                "a < b </thin",
                "Answer <tool",
            ),
            ("I read.\n<tool_call>\n{}</tool_call> tail", "", "I read.\n"),
            ("Two.\n<\u{ff5c}DSML\u{ff5c}tool_calls>", "", "Two.\n"),
            ("if a <b then [x] <th", "", "if a <b then [x] <th"),
        ];
        for (text, thought, visible) in cases {
            for (cut, _) in text.char_indices() {
                assert_eq!(
                    live(&[&text[..cut], &text[cut..]], false),
                    pair(thought, visible),
                    "{text} at {cut}"
                );
            }
            let letters: Vec<String> = text.chars().map(String::from).collect();
            let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
            assert_eq!(live(&letters, false), pair(thought, visible));
            assert_eq!(live(&[text], true), pair("", ""));
        }
    }
}

//! Long texts cut to the room that there is.

use super::Room;

/// Cuts `text` to about `max` bytes, keeping head and tail.
pub(super) fn clip(text: &str, max: usize) -> Option<String> {
    if text.len() <= max {
        return None;
    }
    let head = floor_boundary(text, max * 2 / 3);
    let tail = ceil_boundary(text, text.len() - max / 3);
    Some(format!(
        "{}\n[... {} bytes left out ...]\n{}",
        &text[..head],
        tail - head,
        &text[tail..]
    ))
}

fn floor_boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn ceil_boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

/// An answer that may be longer than a result may be. `keep` writes the whole
/// of it somewhere and says where; it is asked once, and only when needed.
pub(in crate::mcp) struct Answer<'a> {
    text: &'a str,
    keep: &'a dyn Fn(&str) -> Option<String>,
    kept_at: Option<Option<String>>,
}

impl<'a> Answer<'a> {
    pub(in crate::mcp) fn new(text: &'a str, keep: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Answer {
            text,
            keep,
            kept_at: None,
        }
    }

    /// The answer as far as there is room.
    pub(super) fn within(&mut self, room: Room, left_out: &mut Vec<String>) -> String {
        let Some(cut) = clip(self.text, room.text) else {
            return self.text.to_owned();
        };
        let kept_at = self.kept_at.get_or_insert_with(|| (self.keep)(self.text));
        left_out.push(match kept_at {
            Some(path) => format!("the middle of the answer; all of it is in {path}"),
            None => "the middle of the answer".to_owned(),
        });
        cut
    }
}

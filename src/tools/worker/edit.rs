//! Edit: an exact piece of a text file replaced.

use std::ops::Range;

use serde_json::{Map, Value};

use super::mutate::may_change;
use super::text::{BOM, Endings, endings, is_binary, to_crlf, to_lf};
use super::{Done, Fail, Gate, MAX_CHANGED, Worker, flag, string};
use crate::workspace::What;

impl Worker {
    pub(super) fn edit(
        &mut self,
        args: &Map<String, Value>,
        gate: &mut dyn Gate,
    ) -> Result<Done, Fail> {
        let asked = string(args, "file_path")?;
        let (old, new) = (string(args, "old_string")?, string(args, "new_string")?);
        let all = flag(args, "replace_all").unwrap_or(false);
        let place = self.find(asked)?;
        if matches!(place.what, What::Missing(_)) {
            return Err(Fail::error(format!(
                "{asked} does not exist; create it with Write"
            )));
        }
        may_change(&place)?;
        let Some(present) = self.present(&place)? else {
            return Err(Fail::error(format!("{asked} does not exist")));
        };
        let path = place.rel.display();
        if is_binary(&present.bytes) {
            return Err(Fail::error(format!("{path} is a binary file")));
        }
        let text = std::str::from_utf8(&present.bytes)
            .map_err(|_| Fail::error(format!("{path} is not UTF-8; change it with Bash")))?;
        let done = replaced(text, old, new, all)
            .map_err(|why| Fail::error(format!("{path} was not changed: {why}")))?;
        if done.text.len() as u64 > MAX_CHANGED {
            return Err(Fail::error(format!(
                "{path} was not changed: it would have {} bytes, at most {MAX_CHANGED} are written",
                done.text.len()
            )));
        }
        let say = match done.count {
            1 => format!("OK: replaced 1 occurrence in {path} (line {})", done.line),
            count => format!(
                "OK: replaced {count} occurrences in {path} (the first in line {})",
                done.line
            ),
        };
        let bytes = done.text.as_bytes();
        self.change("Edit", &place, Some(&present), bytes, say, gate)
    }
}

/// A replacement that was made.
#[derive(Debug, PartialEq, Eq)]
struct Replaced {
    text: String,
    count: usize,
    /// Line of the first occurrence, from 1.
    line: usize,
}

/// Replaces `old` by `new` in `text`. Exact, but for the line endings: models
/// see and send `\n` only. Pure.
fn replaced(text: &str, old: &str, new: &str, all: bool) -> Result<Replaced, String> {
    if old.is_empty() {
        return Err("old_string is empty; it must name the text to replace".to_owned());
    }
    if old == new {
        return Err("old_string and new_string are the same".to_owned());
    }
    let (mark, body) = match text.strip_prefix(BOM) {
        Some(body) => (BOM, body),
        None => ("", text),
    };
    let old = old.strip_prefix(BOM).unwrap_or(old);
    let new = new.strip_prefix(mark).unwrap_or(new);
    // A rest of nothing: old_string was a byte order mark and no more.
    let (found, exact) = if old.is_empty() {
        (Vec::new(), true)
    } else {
        occurrences(body, old)
    };
    let Some(first) = found.first() else {
        return Err(not_found(body, old));
    };
    let count = found.len();
    if count > 1 && !all {
        return Err(format!(
            "old_string is not unique, it occurs {count} times; give more of the lines around \
             it, or set replace_all to change all {count}"
        ));
    }
    let line = body[..first.start].matches('\n').count() + 1;
    let style = endings(body);
    let mut text = String::with_capacity(mark.len() + body.len());
    text.push_str(mark);
    let mut kept = 0;
    for range in found {
        text.push_str(&body[kept..range.start]);
        let piece = &body[range.clone()];
        match style {
            Endings::CrLf => text.push_str(&to_crlf(new)),
            _ if exact => text.push_str(new),
            Endings::Mixed if piece.contains("\r\n") => text.push_str(&to_crlf(new)),
            Endings::Mixed | Endings::Lf => text.push_str(&to_lf(new)),
        }
        kept = range.end;
    }
    text.push_str(&body[kept..]);
    Ok(Replaced { text, count, line })
}

/// Where `old` stands in `body`, not overlapping: exactly, or else with each
/// `\n` and `\r\n` taken for the same. The flag says which.
fn occurrences(body: &str, old: &str) -> (Vec<Range<usize>>, bool) {
    let exact: Vec<_> = body
        .match_indices(old)
        .map(|(at, _)| at..at + old.len())
        .collect();
    // Half of a `\r\n` is no match: what is left would be another line ending.
    let splits = |range: &Range<usize>| {
        let cut = |at: usize| body[..at].ends_with('\r') && body[at..].starts_with('\n');
        cut(range.start) || cut(range.end)
    };
    let has_pairs = body.contains("\r\n") || old.contains("\r\n");
    if !has_pairs || (!exact.is_empty() && !exact.iter().any(splits)) {
        return (exact, true);
    }
    // In the text without `\r`, each offset is behind its place in the file by
    // the number of `\r` dropped before it.
    let (flat, old) = (to_lf(body), to_lf(old));
    let dropped: Vec<usize> = body
        .match_indices("\r\n")
        .enumerate()
        .map(|(before, (at, _))| at - before)
        .collect();
    let in_file = |at: usize| at + dropped.partition_point(|drop| *drop < at);
    let found = flat
        .match_indices(&old)
        .map(|(at, _)| in_file(at)..in_file(at + old.len()))
        .collect();
    (found, false)
}

/// Why nothing was found, with what a model most often got wrong.
fn not_found(body: &str, old: &str) -> String {
    let mut why = "old_string was not found".to_owned();
    let Some(first) = old.lines().find(|line| !line.trim().is_empty()) else {
        return why;
    };
    let digits = first.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 && first[digits..].starts_with('\t') {
        why.push_str("; leave out the line numbers that Read shows");
        return why;
    }
    let alike = body
        .lines()
        .position(|line| line.trim() == first.trim())
        .map(|at| at + 1);
    match alike {
        Some(line) => why.push_str(&format!(
            "; line {line} is like its first line, so white space or a later line differs: read \
             the file again and copy it exactly"
        )),
        None => why.push_str("; read the file again and copy the text exactly"),
    }
    why
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ok(text: &str, old: &str, new: &str, all: bool) -> String {
        replaced(text, old, new, all).expect("replaced").text
    }

    fn why(text: &str, old: &str, new: &str) -> String {
        replaced(text, old, new, false).expect_err("refused")
    }

    #[test]
    fn one_exact_occurrence_is_replaced_and_nothing_else() {
        let done = replaced("a\nb\nc\n", "b", "x", false).expect("replaced");
        let expected = Replaced {
            text: "a\nx\nc\n".to_owned(),
            count: 1,
            line: 2,
        };
        assert_eq!(done, expected);
        assert_eq!(ok("a\nb\n", "b\n", "", false), "a\n");
        assert_eq!(ok("dup dup", "dup", "x", true), "x x");
        assert_eq!(ok("aaa", "aa", "b", false), "ba");
    }

    #[test]
    fn lf_strings_match_a_crlf_file_and_keep_it_so() {
        let file = "\u{feff}one\r\ntwo\r\ndup\r\ndup\r\n";
        let edited = ok(file, "one\ntwo\n", "one\nTWO\n", false);
        assert_eq!(edited, "\u{feff}one\r\nTWO\r\ndup\r\ndup\r\n");
        assert_eq!(ok("a\r\n", "a", "a\nb", false), "a\r\nb\r\n");
        assert_eq!(ok("a\nb\n", "a\r\nb", "x\r\ny", false), "x\ny\n");
        let mixed = "a\r\nb\nc\r\nd\n";
        assert_eq!(ok(mixed, "a\nb", "x\ny", false), "x\r\ny\nc\r\nd\n");
        assert_eq!(ok(mixed, "b\nc", "y\nz", false), "a\r\ny\nz\r\nd\n");
        assert_eq!(ok(mixed, "b\nc\nd", "z", false), "a\r\nz\n");
        assert_eq!(ok(mixed, "\nb\nc\n", "-", false), "a-d\n");
        assert_eq!(ok("\u{feff}a", "\u{feff}a", "b", false), "\u{feff}b");
    }

    #[test]
    fn what_is_not_clear_is_refused_with_a_way_out() {
        assert!(why("dup dup", "dup", "x").contains("not unique, it occurs 2 times"));
        assert!(why("a", "", "x").contains("empty"));
        assert!(why("a", "a", "a").contains("the same"));
        assert!(why("a\n", "zzz", "x").starts_with("old_string was not found"));
        assert!(why("  let a;\n", "let a;\nlet b;", "x").contains("line 1 is like"));
        assert!(why("alpha\n", "1\talpha", "x").contains("line numbers"));
        assert!(why("\u{feff}a", "\u{feff}", "x").contains("not found"));
    }

    proptest! {
        #[test]
        fn an_edit_taken_back_is_the_file(
            text in "[ab\n]{0,30}", old in "[ab\n]{1,3}", crlf in any::<bool>()
        ) {
            let text = if crlf { to_crlf(&text) } else { text };
            if let Ok(done) = replaced(&text, &old, "zz\nz", true) {
                let back = replaced(&done.text, "zz\nz", &old, true).expect("back");
                prop_assert_eq!(back.text, text);
                prop_assert_eq!(back.count, done.count);
            }
        }

        #[test]
        fn nothing_else_changes_and_nothing_panics(
            text in "[ab\r\n\u{feff}é]{0,30}", old in "[ab\r\né\u{feff}]{0,4}", all in any::<bool>()
        ) {
            if let Ok(done) = replaced(&text, &old, "", all) {
                // Only characters of what was asked for are gone.
                prop_assert!(done.text.len() < text.len());
                let plain = |s: &str| s.matches('é').count();
                prop_assert_eq!(plain(&text) - plain(&done.text), done.count * plain(&old));
            }
        }
    }
}

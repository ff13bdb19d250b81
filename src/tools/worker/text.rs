//! Bytes as text: encodings, line endings, diffs. Pure.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use similar::TextDiff;

/// The UTF-8 byte order mark.
pub(super) const BOM: &str = "\u{feff}";

/// How far the beginning of a file is searched for NUL.
const SNIFFED: usize = 8192;

/// Bounds of a diff.
const MAX_DIFF_LINES: usize = 199;
const MAX_DIFF_LINE: usize = 1000;
const MAX_DIFFED: usize = 1 << 20;
const DIFF_TIME: Duration = Duration::from_millis(200);

/// Whether the beginning of a file says that it is no text.
pub(super) fn is_binary(bytes: &[u8]) -> bool {
    bytes[..bytes.len().min(SNIFFED)].contains(&0)
}

/// Bytes as text; what is not UTF-8 is spelled `\xNN`. U+FFFD would hide which
/// bytes they were, and some providers refuse it.
pub(in crate::tools) fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            let mut text = String::with_capacity(bytes.len() + 16);
            for chunk in bytes.utf8_chunks() {
                text.push_str(chunk.valid());
                for byte in chunk.invalid() {
                    let _ = write!(text, "\\x{byte:02X}");
                }
            }
            Cow::Owned(text)
        }
    }
}

/// Which line endings a text has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endings {
    /// None, or only `\n`.
    Lf,
    /// Only `\r\n`.
    CrLf,
    /// Both.
    Mixed,
}

/// Which line endings `text` has.
pub(super) fn endings(text: &str) -> Endings {
    let all = text.bytes().filter(|byte| *byte == b'\n').count();
    let crlf = text.matches("\r\n").count();
    match crlf {
        0 => Endings::Lf,
        _ if crlf == all => Endings::CrLf,
        _ => Endings::Mixed,
    }
}

/// Every line ending as `\n`.
pub(super) fn to_lf(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// Every line ending as `\r\n`.
pub(super) fn to_crlf(text: &str) -> String {
    to_lf(text).replace('\n', "\r\n")
}

/// A unified diff, cut at 200 lines; `None` when a side is no text or too large.
pub(super) fn diff(path: &str, before: Option<&[u8]>, after: &[u8]) -> Option<String> {
    let side = |bytes| std::str::from_utf8(bytes).ok();
    if before.map_or(0, <[u8]>::len) > MAX_DIFFED || after.len() > MAX_DIFFED {
        return None;
    }
    let (old, new) = (side(before.unwrap_or_default())?, side(after)?);
    let diff = TextDiff::configure()
        .timeout(DIFF_TIME)
        .diff_lines(old, new);
    let from = match before {
        Some(_) => format!("a/{path}"),
        None => "/dev/null".to_owned(),
    };
    let unified = diff
        .unified_diff()
        .context_radius(3)
        .header(&from, &format!("b/{path}"))
        .to_string();
    let mut text = String::new();
    let mut lines = unified.lines();
    for line in lines.by_ref().take(MAX_DIFF_LINES) {
        match line.char_indices().nth(MAX_DIFF_LINE) {
            Some((at, _)) => text.push_str(&line[..at]),
            None => text.push_str(line),
        }
        text.push('\n');
    }
    let rest = lines.count();
    if rest > 0 {
        let _ = writeln!(text, "[{rest} more lines of diff]");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn line_endings_are_told_apart() {
        assert_eq!(endings("a\nb\n"), Endings::Lf);
        assert_eq!(endings("a\r\nb\r\n"), Endings::CrLf);
        assert_eq!(endings("a\r\nb\n"), Endings::Mixed);
        assert_eq!(endings("a\rb"), Endings::Lf);
        assert_eq!(endings(""), Endings::Lf);
        assert_eq!(to_crlf("a\nb\r\nc"), "a\r\nb\r\nc");
    }

    #[test]
    fn bytes_that_are_no_text_are_spelled() {
        assert_eq!(lossy(b"caf\xe9!"), "caf\\xE9!");
        assert_eq!(lossy("é".as_bytes()), "é");
        assert_eq!(lossy(b"\xf0\x9f"), "\\xF0\\x9F");
    }

    #[test]
    fn a_diff_is_unified_and_bounded() {
        let text = diff("f", Some(b"a\nb\n"), b"a\nc\n").expect("text");
        assert_eq!(text, "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n");
        let new = diff("f", None, b"a\n").expect("text");
        assert!(new.starts_with("--- /dev/null\n+++ b/f\n"));
        let long = diff("f", None, "x\n".repeat(5000).as_bytes()).expect("text");
        assert_eq!(long.lines().count(), MAX_DIFF_LINES + 1);
        assert!(long.ends_with("more lines of diff]\n"));
        assert_eq!(diff("f", None, b"\xff"), None);
        assert_eq!(diff("f", None, &vec![b'a'; MAX_DIFFED + 1]), None);
    }

    proptest! {
        #[test]
        fn lossy_never_holds_a_replacement_character(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let text = lossy(&bytes);
            let replaced = text.contains(char::REPLACEMENT_CHARACTER);
            prop_assert!(std::str::from_utf8(&bytes).is_ok() || !replaced);
        }

        #[test]
        fn crlf_and_back_is_the_identity_on_lf(text in "[a-c\n]{0,40}") {
            prop_assert_eq!(to_lf(&to_crlf(&text)), text);
        }
    }
}

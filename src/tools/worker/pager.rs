//! A page of a file, taken while the file flows by. Pure.
//!
//! Fed in pieces of any size, so that a small page of a huge file costs no
//! memory. A page always holds something new: when not even its first line
//! fits, it holds a piece of that line and says at which column to go on.

use std::fmt::Write as _;

use super::text::lossy;

/// Which part of a file is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// First line, from 1.
    pub(super) offset: u64,
    /// First byte of that line, from 1.
    pub(super) column: u64,
    /// How many lines.
    pub(super) limit: Option<u64>,
    /// How many characters of text, line numbers included.
    pub(super) budget: usize,
}

/// Where the next page starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) offset: u64,
    pub(super) column: u64,
}

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// `number<TAB>line` for each line, each ended by `\n`.
    pub(super) text: String,
    /// First and last line shown; both 0 when none is.
    pub(super) first: u64,
    pub(super) last: u64,
    /// Lines of the whole file.
    pub(super) total: u64,
    /// Set when the budget, not the file or the limit, ended the page.
    pub(super) next: Option<Next>,
    /// Length in bytes of the line that was cut, when one was.
    pub(super) cut_line: Option<u64>,
}

/// Takes a page out of the bytes that it is fed.
#[derive(Debug)]
pub(super) struct Pager {
    wanted: Wanted,
    /// The line that is under way, from 1, its length so far, and what of it
    /// is kept.
    line: u64,
    length: u64,
    kept: Vec<u8>,
    /// Characters of text so far.
    used: usize,
    page: Page,
}

impl Pager {
    pub(super) fn new(wanted: Wanted) -> Pager {
        Pager {
            wanted: Wanted {
                offset: wanted.offset.max(1),
                column: wanted.column.max(1),
                ..wanted
            },
            line: 1,
            length: 0,
            kept: Vec::new(),
            used: 0,
            page: Page {
                text: String::new(),
                first: 0,
                last: 0,
                total: 0,
                next: None,
                cut_line: None,
            },
        }
    }

    /// Takes the next bytes of the file.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while let Some(at) = bytes.iter().position(|byte| *byte == b'\n') {
            self.take(&bytes[..at]);
            self.end_line();
            bytes = &bytes[at + 1..];
        }
        self.take(bytes);
    }

    /// The page, after the last byte.
    pub(super) fn finish(mut self) -> Page {
        // A last line without a line ending is a line; nothing after the last
        // line ending is none.
        if self.length > 0 {
            self.end_line();
        }
        self.page.total = self.line - 1;
        self.page
    }

    /// Whether the line under way belongs to the page.
    fn is_wanted(&self) -> bool {
        let end = self
            .wanted
            .limit
            .map_or(u64::MAX, |limit| self.wanted.offset.saturating_add(limit));
        (self.wanted.offset..end).contains(&self.line) && self.page.next.is_none()
    }

    fn skipped(&self) -> u64 {
        if self.line == self.wanted.offset {
            self.wanted.column - 1
        } else {
            0
        }
    }

    fn take(&mut self, part: &[u8]) {
        let before = self.length;
        self.length += part.len() as u64;
        if !self.is_wanted() {
            return;
        }
        let skip = self.skipped().saturating_sub(before).min(part.len() as u64);
        let part = &part[skip as usize..];
        // More than the budget can never be shown; four bytes a character.
        let room = (self.wanted.budget * 4 + 4).saturating_sub(self.kept.len());
        self.kept.extend_from_slice(&part[..part.len().min(room)]);
    }

    fn end_line(&mut self) {
        if self.is_wanted() {
            self.show();
        }
        self.kept.clear();
        self.length = 0;
        self.line += 1;
    }

    fn show(&mut self) {
        let whole = self.kept.len() as u64 + self.skipped() >= self.length;
        let mut raw = self.kept.as_slice();
        if whole {
            raw = raw.strip_suffix(b"\r").unwrap_or(raw);
        }
        let number = format!("{}\t", self.line);
        let text = lossy(raw);
        let room = self.wanted.budget.saturating_sub(self.used);
        let need = number.len() + text.chars().count() + 1;
        if whole && need <= room {
            let _ = writeln!(self.page.text, "{number}{text}");
            self.used += need;
        } else if self.page.first == 0 {
            let (piece, bytes) = beginning(raw, room.saturating_sub(number.len() + 1).max(1));
            let _ = writeln!(self.page.text, "{number}{piece}");
            self.page.cut_line = Some(self.length);
            self.page.next = Some(Next {
                offset: self.line,
                column: self.skipped() + bytes as u64 + 1,
            });
        } else {
            self.page.next = Some(Next {
                offset: self.line,
                column: 1,
            });
            return;
        }
        if self.page.first == 0 {
            self.page.first = self.line;
        }
        self.page.last = self.line;
    }
}

/// As much of the beginning of `raw` as shows in `room` characters, and how
/// many bytes that is; at least one byte where there is one.
fn beginning(raw: &[u8], room: usize) -> (String, usize) {
    let mut shown = String::new();
    let (mut used, mut bytes) = (0, 0);
    for chunk in raw.utf8_chunks() {
        for c in chunk.valid().chars() {
            if used == room {
                return (shown, bytes);
            }
            shown.push(c);
            used += 1;
            bytes += c.len_utf8();
        }
        for byte in chunk.invalid() {
            if used + 4 > room && bytes > 0 {
                return (shown, bytes);
            }
            let _ = write!(shown, "\\x{byte:02X}");
            used += 4;
            bytes += 1;
        }
    }
    (shown, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn page(bytes: &[u8], offset: u64, limit: Option<u64>) -> Page {
        let mut pager = Pager::new(Wanted {
            offset,
            column: 1,
            limit,
            budget: 1000,
        });
        pager.feed(bytes);
        pager.finish()
    }

    #[test]
    fn lines_are_numbered_and_counted() {
        let five = b"a\nb\r\n\nd\ne";
        let whole = page(five, 1, None);
        assert_eq!(whole.text, "1\ta\n2\tb\n3\t\n4\td\n5\te\n");
        assert_eq!((whole.first, whole.last, whole.total), (1, 5, 5));
        let part = page(five, 2, Some(2));
        assert_eq!(
            (part.text.as_str(), part.first, part.last),
            ("2\tb\n3\t\n", 2, 3)
        );
        assert_eq!(part.next, None);
        assert_eq!(page(five, 0, Some(1)).text, "1\ta\n");
        let beyond = page(five, 99, None);
        assert_eq!(
            (beyond.text.as_str(), beyond.first, beyond.total),
            ("", 0, 5)
        );
        assert_eq!(page(five, 1, Some(0)).text, "");
        assert_eq!(page(b"a\n", 1, None).total, 1);
        assert_eq!(page(b"", 1, None).total, 0);
        assert_eq!(page(b"\n", 1, None).total, 1);
    }

    #[test]
    fn a_page_that_is_full_says_where_to_go_on() {
        let long = "12345678\n".repeat(500);
        let first = page(long.as_bytes(), 1, None);
        let next = first.next.expect("more");
        assert_eq!((next.offset, next.column), (first.last + 1, 1));
        assert_eq!((first.total, first.cut_line), (500, None));
        assert!(first.text.chars().count() <= 1000);
    }

    #[test]
    fn a_line_that_is_too_long_is_shown_in_pieces() {
        let text = format!("x\n{}\nz\n", "é".repeat(3000));
        let first = page(text.as_bytes(), 1, None);
        assert_eq!(
            (first.last, first.next),
            (
                1,
                Some(Next {
                    offset: 2,
                    column: 1
                })
            )
        );
        let second = page(text.as_bytes(), 2, None);
        assert_eq!((second.last, second.cut_line), (2, Some(6000)));
        let next = second.next.expect("more");
        assert_eq!(next.offset, 2);
        assert!(next.column > 900);
    }

    proptest! {
        /// Page after page gives the whole file, whatever it holds and however
        /// it arrives.
        #[test]
        fn pages_add_up_and_always_make_progress(
            lines in proptest::collection::vec(
                prop_oneof![
                    "[a-z]{0,20}".prop_map(String::into_bytes),
                    "[é-ü]{0,60}".prop_map(String::into_bytes),
                    proptest::collection::vec(
                        any::<u8>().prop_filter("no newline", |b| *b != b'\n' && *b != b'\r'), 0..120),
                ], 0..12),
            budget in 12..80usize,
            step in 1..50usize,
        ) {
            let file = lines.join(&b'\n');
            let mut at = Next { offset: 1, column: 1 };
            let mut seen = String::new();
            let mut last_line = 0;
            loop {
                let mut pager = Pager::new(Wanted {
                    offset: at.offset, column: at.column, limit: None, budget,
                });
                for piece in file.chunks(step) {
                    pager.feed(piece);
                }
                let page = pager.finish();
                for line in page.text.lines() {
                    let (number, text) = line.split_once('\t').expect("numbered");
                    let number: u64 = number.parse().expect("a number");
                    if number != last_line && last_line != 0 {
                        seen.push('\n');
                    }
                    seen.push_str(text);
                    last_line = number;
                }
                let Some(next) = page.next else { break };
                prop_assert!((next.offset, next.column) > (at.offset, at.column));
                at = next;
            }
            // A last, empty line is no line.
            let mut whole: Vec<_> = file.split(|byte| *byte == b'\n').collect();
            if whole.last().is_some_and(|line| line.is_empty()) {
                whole.pop();
            }
            // Piece by piece, a character that is cut nowhere stays whole.
            let expected: Vec<_> = whole.iter().map(|line| lossy(line).into_owned()).collect();
            prop_assert_eq!(seen, expected.join("\n"));
        }
    }
}

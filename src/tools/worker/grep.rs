//! Grep: lines by their content.

mod page;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch,
};
use ignore::types::{Types, TypesBuilder};
use serde_json::{Map, Value};

use super::text::lossy;
use super::walk::{Bounds, walk};
use super::{Done, Fail, SEARCH_TIME, Worker, flag, number, optional, string};
use crate::workspace::What;

/// Matches or entries that are shown when the call does not say.
const DEFAULT_LIMIT: usize = 100;

/// Longest line that is shown, in characters.
const MAX_LINE: usize = 2000;

/// Larger files are left out, and that is said.
const MAX_FILE: u64 = 64 << 20;

/// What is shown of a file that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Lines,
    Files,
    Counts,
}

/// One file's part of the result.
#[derive(Debug, Default)]
struct Hits {
    /// Matching lines, as far as they were counted.
    matches: usize,
    /// What is shown: `None` is the gap between two groups.
    lines: Vec<Option<Line>>,
}

#[derive(Debug)]
struct Line {
    number: u64,
    is_match: bool,
    text: String,
}

/// The files with the smallest paths that fill the limit. Whatever order the
/// threads come in, the result is the beginning of the sorted whole.
#[derive(Debug)]
struct Kept {
    files: BTreeMap<PathBuf, Hits>,
    weight: usize,
    limit: usize,
    mode: Mode,
    more: bool,
}

impl Kept {
    fn weight_of(&self, hits: &Hits) -> usize {
        match self.mode {
            Mode::Lines => hits.matches,
            Mode::Files | Mode::Counts => 1,
        }
    }

    /// Whether hits in `path` could still be shown.
    fn has_room_for(&self, path: &Path) -> bool {
        self.weight < self.limit
            || self
                .files
                .last_key_value()
                .is_some_and(|(last, _)| path < last.as_path())
    }

    fn add(&mut self, path: PathBuf, hits: Hits) {
        self.weight += self.weight_of(&hits);
        self.files.insert(path, hits);
        while let Some((_, last)) = self.files.last_key_value() {
            let weight = self.weight_of(last);
            if self.weight - weight < self.limit {
                break;
            }
            self.weight -= weight;
            self.files.pop_last();
            self.more = true;
        }
    }
}

impl Worker {
    pub(super) fn grep(&mut self, args: &Map<String, Value>) -> Result<Done, Fail> {
        let written = string(args, "pattern")?;
        let asked = optional(args, "path").unwrap_or(".");
        let place = self.find(asked)?;
        match place.what {
            What::Dir(_) | What::File(_) => {}
            What::Missing(_) => return Err(Fail::error(format!("{asked} does not exist"))),
            What::Special(_) => {
                return Err(Fail::Refused(format!("{asked} is no regular file")));
            }
        }
        let mode = match optional(args, "output_mode") {
            Some("files_with_matches") => Mode::Files,
            Some("count") => Mode::Counts,
            _ => Mode::Lines,
        };
        let multiline = flag(args, "multiline").unwrap_or(false);
        let matcher = matcher(written, flag(args, "-i").unwrap_or(false), multiline)?;
        let glob = optional(args, "glob")
            .map(|glob| self.pattern(glob))
            .transpose()?;
        let types = optional(args, "type").map(file_types).transpose()?;
        let limit = number(args, "head_limit").map_or(DEFAULT_LIMIT, |n| n as usize);
        let context = |name| number(args, name).or(number(args, "context")).unwrap_or(0) as usize;
        let (before, after) = match mode {
            Mode::Lines => (context("-B"), context("-A")),
            Mode::Files | Mode::Counts => (0, 0),
        };

        let workspace = self.root.path();
        let base = workspace.join(&place.rel);
        let bounds = Bounds::new(SEARCH_TIME);
        let kept = Mutex::new(Kept {
            files: BTreeMap::new(),
            weight: 0,
            limit,
            mode,
            more: false,
        });
        walk(&base, types, &bounds, || {
            let mut searcher = searcher(before, after, multiline);
            let (matcher, glob, kept, bounds, base) = (&matcher, &glob, &kept, &bounds, &base);
            let root = &self.root;
            move |entry: &ignore::DirEntry| {
                let path = entry.path();
                let (Ok(rel), Ok(from_base)) =
                    (path.strip_prefix(workspace), path.strip_prefix(base))
                else {
                    return;
                };
                if !entry.file_type().is_some_and(|kind| kind.is_file())
                    || glob
                        .as_ref()
                        .is_some_and(|glob| !glob.matches(from_base, rel))
                {
                    return;
                }
                if !lock(kept).has_room_for(rel) {
                    // Not searched, so whether it matches is not known.
                    lock(kept).more = true;
                    return;
                }
                // Opened below the root and through no link, whatever became
                // of the path since it was listed.
                let Ok(file) = root.read_exact(rel) else {
                    bounds.left_out();
                    return;
                };
                if file.metadata().is_ok_and(|found| found.len() > MAX_FILE) {
                    bounds.left_out();
                    return;
                }
                let mut sink = Collect {
                    mode,
                    limit,
                    hits: Hits::default(),
                    binary: false,
                };
                if searcher.search_file(matcher, &file, &mut sink).is_err() {
                    bounds.left_out();
                }
                if sink.hits.matches > 0 && !sink.binary {
                    lock(kept).add(rel.to_owned(), sink.hits);
                }
            }
        });
        let kept = kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        let numbers = flag(args, "-n").unwrap_or(true);
        Ok(Done::text(page::shown(
            &kept,
            numbers,
            bounds.is_incomplete(),
        )))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn matcher(written: &str, ignore_case: bool, multiline: bool) -> Result<RegexMatcher, Fail> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(ignore_case)
        .multi_line(true)
        .dot_matches_new_line(multiline)
        .size_limit(10 << 20)
        .dfa_size_limit(100 << 20);
    if !multiline {
        // Lets `$` stand before `\r\n` as well, and keeps matches in one line.
        builder.crlf(true);
    }
    builder.build(written).map_err(|error| {
        let mut why: String = error.to_string().chars().take(600).collect();
        if !multiline && why.contains("not allowed") {
            why.push_str(" (set multiline to match across lines)");
        }
        Fail::error(format!("the pattern is no valid regular expression: {why}"))
    })
}

fn searcher(before: usize, after: usize, multiline: bool) -> Searcher {
    let mut builder = SearcherBuilder::new();
    builder
        .line_number(true)
        .before_context(before)
        .after_context(after)
        .multi_line(multiline)
        .heap_limit(Some(MAX_FILE as usize + (1 << 20)))
        .binary_detection(BinaryDetection::quit(0));
    if !multiline {
        builder.line_terminator(LineTerminator::crlf());
    }
    builder.build()
}

fn file_types(name: &str) -> Result<Types, Fail> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    builder.select(name);
    builder
        .build()
        .map_err(|_| Fail::error(format!("unknown file type {name:?}; use glob instead")))
}

/// Takes what is shown out of a search.
struct Collect {
    mode: Mode,
    limit: usize,
    hits: Hits,
    binary: bool,
}

impl Collect {
    fn push(&mut self, bytes: &[u8], first: Option<u64>, is_match: bool) {
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        for (number, line) in (first.unwrap_or(0)..).zip(lines) {
            self.hits.lines.push(Some(Line {
                number,
                is_match,
                text: cut(line),
            }));
        }
    }

    /// One match more than can be shown is enough to know that there are more.
    fn is_full(&self) -> bool {
        match self.mode {
            Mode::Lines => self.hits.matches > self.limit,
            Mode::Files => self.hits.matches > 0,
            Mode::Counts => false,
        }
    }
}

impl Sink for Collect {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.hits.matches += 1;
        if self.mode == Mode::Lines {
            self.push(found.bytes(), found.line_number(), true);
        }
        Ok(!self.is_full())
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> Result<bool, io::Error> {
        self.push(line.bytes(), line.line_number(), false);
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        self.hits.lines.push(None);
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.binary = true;
        Ok(false)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> Result<(), io::Error> {
        self.binary |= end.binary_byte_offset().is_some();
        Ok(())
    }
}

/// A line without its end, cut where it is very long.
fn cut(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    // Never more than four bytes a character.
    let text = lossy(&line[..line.len().min(MAX_LINE * 4 + 4)]).into_owned();
    match text.char_indices().nth(MAX_LINE) {
        Some((at, _)) => format!("{} [line cut, {} bytes]", &text[..at], line.len()),
        None => text,
    }
}

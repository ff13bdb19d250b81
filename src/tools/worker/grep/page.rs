//! The text of a Grep result. Pure.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::super::MAX_TEXT;
use super::super::text::lossy;
use super::{Hits, Kept, Mode};

pub(super) fn shown(kept: &Kept, numbers: bool, incomplete: bool) -> String {
    let mut page = Page {
        text: String::new(),
        used: 0,
    };
    let mut more = kept.more;
    match kept.mode {
        Mode::Files => {
            more |= !kept.files.keys().all(|path| page.add(&name(path)));
        }
        Mode::Counts => {
            let entry =
                |(path, hits): (&PathBuf, &Hits)| format!("{}:{}", name(path), hits.matches);
            more |= !kept.files.iter().map(entry).all(|line| page.add(&line));
        }
        Mode::Lines => more |= !all_lines(kept, numbers, &mut page),
    }
    let mut text = page.text;
    if kept.files.is_empty() {
        text.push_str(if incomplete {
            "No matches in the files that were searched\n"
        } else {
            "No matches\n"
        });
    }
    if more {
        let _ = writeln!(
            text,
            "[limit reached, there may be more: narrow the search or raise head_limit (now {}, \
             at most 1000)]",
            kept.limit
        );
    }
    if incomplete {
        text.push_str(
            "[incomplete: the search ran out of time, or files were unreadable or above 64 MiB]\n",
        );
    }
    text.truncate(text.trim_end_matches('\n').len());
    text
}

/// Lines in the order of paths; `false` when not all of them are shown.
fn all_lines(kept: &Kept, numbers: bool, page: &mut Page) -> bool {
    let mut left = kept.limit;
    for (at, (path, hits)) in kept.files.iter().enumerate() {
        let path = name(path);
        let grouped = hits.lines.iter().flatten().any(|line| !line.is_match);
        if at > 0 && grouped {
            page.add("--");
        }
        // A match of several lines counts once, so matches are not lines here:
        // the last file is cut by its lines.
        let mut shown = 0;
        for line in &hits.lines {
            let Some(line) = line else {
                page.add("--");
                continue;
            };
            if line.is_match {
                if shown == left {
                    return false;
                }
                shown += 1;
            }
            let mark = if line.is_match { ':' } else { '-' };
            let text = if numbers {
                format!("{path}{mark}{}{mark} {}", line.number, line.text)
            } else {
                format!("{path}{mark} {}", line.text)
            };
            if !page.add(&text) {
                return false;
            }
        }
        left = left.saturating_sub(shown);
    }
    true
}

fn name(path: &Path) -> String {
    lossy(path.as_os_str().as_bytes()).into_owned()
}

/// Text up to the bound of a result.
struct Page {
    text: String,
    used: usize,
}

impl Page {
    /// Adds a line; `false` when it does not fit any more.
    fn add(&mut self, line: &str) -> bool {
        // Kept free for the notes at the end.
        let room = MAX_TEXT - 500;
        self.used += line.chars().count() + 1;
        if self.used > room {
            self.used = room;
            return false;
        }
        self.text.push_str(line);
        self.text.push('\n');
        true
    }
}

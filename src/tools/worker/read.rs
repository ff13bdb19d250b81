//! Read: a page of a text file, or an image.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::pager::{Page, Pager, Wanted};
use super::text::{BOM, is_binary};
use super::{Done, Fail, MAX_TEXT, Worker, number, string};
use crate::journal::Digest;
use crate::workspace::{Place, Root, What};

/// Larger files are for Bash.
const MAX_READ: u64 = 1 << 30;

/// Largest image: its base64 stays under what providers take.
const MAX_IMAGE: u64 = 3_750_000;

/// How many neighbours a missing file is answered with.
const MAX_NEIGHBOURS: usize = 20;

/// Kept free for the header and the notes of a page.
const RESERVED: usize = 400;

/// How much is read at once.
const CHUNK: usize = 64 << 10;

impl Worker {
    pub(super) fn read(&mut self, args: &Map<String, Value>) -> Result<Done, Fail> {
        let asked = string(args, "file_path")?;
        let (root, place, ours) = self.open_place(asked)?;
        let stat = match &place.what {
            What::File(stat) => stat,
            What::Dir(_) => {
                return Err(Fail::error(format!(
                    "{asked} is a directory; list its files with Glob"
                )));
            }
            What::Special(_) => {
                return Err(Fail::Refused(format!("{asked} is no regular file")));
            }
            What::Missing(_) => return Err(missing(root, &place, asked)),
        };
        let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        if size > MAX_READ {
            return Err(Fail::error(format!(
                "{asked} has {size} bytes, Read takes at most {MAX_READ}; use Bash (sed -n, head)"
            )));
        }
        let cannot = |error| Fail::error(format!("{asked} cannot be read: {error}"));
        let mut file = root.read(&place).map_err(cannot)?;
        let mut head = Vec::with_capacity(CHUNK);
        file.by_ref()
            .take(CHUNK as u64)
            .read_to_end(&mut head)
            .map_err(cannot)?;

        if let Some(media_type) = image_type(&head) {
            if !self.vision {
                return Err(Fail::error(format!(
                    "{asked} is an image ({media_type}), and this model takes no images"
                )));
            }
            if size > MAX_IMAGE {
                return Err(Fail::error(format!(
                    "{asked} has {size} bytes, at most {MAX_IMAGE} of an image are shown"
                )));
            }
            let mut bytes = head;
            file.take(MAX_IMAGE + 1)
                .read_to_end(&mut bytes)
                .map_err(cannot)?;
            return Ok(Done {
                text: format!("[{asked}: {media_type}, {} bytes]", bytes.len()),
                image: Some((media_type, bytes)),
                ..Done::default()
            });
        }
        if is_binary(&head) {
            return Err(Fail::error(format!(
                "{asked} is a binary file of {size} bytes; Read shows text only"
            )));
        }

        let wanted = Wanted {
            offset: number(args, "offset").unwrap_or(1),
            column: number(args, "column").unwrap_or(1),
            limit: number(args, "limit"),
            budget: MAX_TEXT - RESERVED,
        };
        let mut pager = Pager::new(wanted);
        let mut hasher = Sha256::new();
        hasher.update(&head);
        pager.feed(head.strip_prefix(BOM.as_bytes()).unwrap_or(&head));
        if head.len() == CHUNK {
            loop {
                head.clear();
                let length = file
                    .by_ref()
                    .take(CHUNK as u64)
                    .read_to_end(&mut head)
                    .map_err(cannot)?;
                if length == 0 {
                    break;
                }
                hasher.update(&head);
                pager.feed(&head);
            }
        }
        let page = pager.finish();
        let text = shown(&page, wanted);
        if ours {
            self.known.insert(place.rel, Digest::finish(hasher));
        }
        Ok(Done::text(text))
    }

    /// Where `asked` leads: in the workspace (`true`), or among the whole
    /// outputs of Bash.
    fn open_place(&self, asked: &str) -> Result<(&Root, Place, bool), Fail> {
        if let Some((shown, root)) = &self.output
            && let Ok(rest) = Path::new(asked).strip_prefix(shown)
        {
            // `strip_prefix` of text: still text. Links are not followed there.
            let place = root.find_exact(rest)?;
            return Ok((root, place, false));
        }
        Ok((&self.root, self.find(asked)?, true))
    }
}

/// The text of a page, with what goes before and after it.
fn shown(page: &Page, wanted: Wanted) -> String {
    let mut text = format!("[lines {}-{} of {}]\n", page.first, page.last, page.total);
    text.push_str(&page.text);
    match (page.next, page.cut_line) {
        (Some(next), Some(length)) => {
            let _ = writeln!(
                text,
                "[line {} is {length} bytes long; go on with offset={}, column={}]",
                page.last, next.offset, next.column
            );
        }
        (Some(next), None) => {
            let _ = writeln!(text, "[more: go on with offset={}]", next.offset);
        }
        (None, _) if page.total == 0 => text.push_str("[the file is empty]\n"),
        (None, _) if page.first == 0 && wanted.offset > page.total => {
            let _ = writeln!(text, "[offset {} is past the end]", wanted.offset);
        }
        (None, _) => {}
    }
    text.truncate(text.trim_end_matches('\n').len());
    text
}

/// The error for a missing file, with the names that are there instead.
fn missing(root: &Root, place: &Place, asked: &str) -> Fail {
    let mut text = format!("{asked} does not exist.");
    if let Ok((above, names)) = root.list_above(place) {
        let above = match above.to_string_lossy() {
            path if path.is_empty() => ".".to_owned(),
            path => path.into_owned(),
        };
        let more = names.len().saturating_sub(MAX_NEIGHBOURS);
        let names = &names[..names.len().min(MAX_NEIGHBOURS)];
        if names.is_empty() {
            let _ = write!(text, " The folder {above} is empty.");
        } else {
            let _ = write!(text, " In {above}: {}", names.join(", "));
            if more > 0 {
                let _ = write!(text, " and {more} more");
            }
        }
    }
    Fail::Error(text)
}

fn image_type(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'E',
            b'B',
            b'P',
            ..,
        ] => Some("image/webp"),
        _ => None,
    }
}

//! What a command prints: the beginning and the end kept, the whole put aside.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use tokio::net::unix::pipe::Receiver;

/// Read at once.
const CHUNK: usize = 64 << 10;

/// Reads between two looks at everything else.
const READS: usize = 32;

/// More than this of one stream is not put aside.
const MAX_SPILL: u64 = 64 << 20;

/// What is kept of a stream.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The beginning; the whole, when nothing was cut.
    pub(super) head: Vec<u8>,
    /// The end, when something was cut.
    pub(super) tail: Vec<u8>,
    /// Bytes of the whole.
    pub(super) total: u64,
    /// Where the whole is, when something was cut and it could be put aside.
    pub(super) whole: Option<PathBuf>,
    /// Whether the whole is only the first 64 MiB.
    pub(super) whole_is_cut: bool,
}

impl Kept {
    /// Whether something between head and tail is missing.
    pub(super) fn is_cut(&self) -> bool {
        self.total > (self.head.len() + self.tail.len()) as u64
    }
}

/// A file for a whole stream, made when it is first needed.
#[derive(Debug)]
pub(super) struct Spill {
    path: PathBuf,
    shown: PathBuf,
    file: Option<File>,
    failed: bool,
    written: u64,
}

impl Spill {
    pub(super) fn new(path: PathBuf, shown: PathBuf) -> Spill {
        Spill {
            path,
            shown,
            file: None,
            failed: false,
            written: 0,
        }
    }

    /// Adds to the file. A disk that is full costs the spill, not the command.
    fn add(&mut self, bytes: &[u8]) {
        if self.failed {
            return;
        }
        let room = MAX_SPILL.saturating_sub(self.written);
        let bytes = &bytes[..bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        self.failed = self.try_add(bytes).is_err();
    }

    fn try_add(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(
                File::options()
                    .write(true)
                    .create_new(true)
                    .mode(0o600)
                    .open(&self.path)?,
            ),
        };
        file.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

/// The two ends of a stream. Pure but for the spill.
#[derive(Debug)]
struct Ends {
    limit: usize,
    head: Vec<u8>,
    tail: Vec<u8>,
    total: u64,
    spill: Spill,
}

impl Ends {
    fn add(&mut self, bytes: &[u8]) {
        let before = self.total;
        self.total += bytes.len() as u64;
        if self.total > self.limit as u64 {
            if before <= self.limit as u64 {
                // Until now everything was kept, so the file starts with it.
                let mut start = self.head.clone();
                start.extend_from_slice(&self.tail);
                self.spill.add(&start);
            }
            self.spill.add(bytes);
        }
        let room = (self.limit / 2).saturating_sub(self.head.len());
        let (head, rest) = bytes.split_at(bytes.len().min(room));
        self.head.extend_from_slice(head);
        self.tail.extend_from_slice(rest);
        // Cut rarely, so that many small writes do not move it each time.
        if self.tail.len() > 4 * self.limit {
            self.tail.drain(..self.tail.len() - self.limit);
        }
    }

    fn end(mut self) -> Kept {
        let mut kept = Kept {
            total: self.total,
            ..Kept::default()
        };
        if self.total <= self.limit as u64 {
            self.head.append(&mut self.tail);
            kept.head = self.head;
            return kept;
        }
        let room = self.limit - self.head.len();
        let from = self.tail.len().saturating_sub(room);
        self.tail.drain(..from);
        // No character is cut in two: half of one would look like garbage.
        let whole = self.head.len() - cut_at_end(&self.head);
        self.head.truncate(whole);
        let stray = self
            .tail
            .iter()
            .take(3)
            .take_while(|b| is_middle(**b))
            .count();
        self.tail.drain(..stray);
        kept.head = self.head;
        kept.tail = self.tail;
        kept.whole = (!self.spill.failed).then_some(self.spill.shown);
        kept.whole_is_cut = self.spill.written < self.total;
        kept
    }
}

fn is_middle(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// How many bytes at the end belong to a character that is cut off.
fn cut_at_end(bytes: &[u8]) -> usize {
    let last = &bytes[bytes.len().saturating_sub(4)..];
    match last.utf8_chunks().last() {
        // Only a beginning of a character is cut; anything else is no UTF-8.
        Some(chunk)
            if std::str::from_utf8(chunk.invalid()).is_err_and(|e| e.error_len().is_none()) =>
        {
            chunk.invalid().len()
        }
        _ => 0,
    }
}

/// A pipe being read.
#[derive(Debug)]
pub(super) struct Capture {
    pipe: Option<Receiver>,
    chunk: Box<[u8]>,
    ends: Ends,
}

impl Capture {
    /// Keeps `limit` bytes of what comes out of `pipe`.
    pub(super) fn new(pipe: Receiver, limit: usize, spill: Spill) -> Capture {
        Capture {
            pipe: Some(pipe),
            chunk: vec![0; CHUNK].into_boxed_slice(),
            ends: Ends {
                limit,
                head: Vec::new(),
                tail: Vec::new(),
                total: 0,
                spill,
            },
        }
    }

    /// Whether more may come.
    pub(super) fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// Waits for more and takes it. Can be dropped at any time without loss.
    pub(super) async fn more(&mut self) {
        let Some(pipe) = &self.pipe else { return };
        if pipe.readable().await.is_err() {
            self.pipe = None;
            return;
        }
        self.take();
    }

    /// Takes what is there now.
    fn take(&mut self) {
        for _ in 0..READS {
            let Some(pipe) = &self.pipe else { return };
            match pipe.try_read(&mut self.chunk) {
                Ok(0) => self.pipe = None,
                Ok(length) => self.ends.add(&self.chunk[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.pipe = None,
            }
        }
    }

    /// Gives what was kept.
    pub(super) fn end(self) -> Kept {
        self.ends.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    fn ends(limit: usize, pieces: &[&[u8]], dir: &std::path::Path) -> Kept {
        let mut ends = Ends {
            limit,
            head: Vec::new(),
            tail: Vec::new(),
            total: 0,
            spill: Spill::new(dir.join("whole"), PathBuf::from("/shown")),
        };
        for piece in pieces {
            ends.add(piece);
        }
        ends.end()
    }

    #[test]
    fn what_fits_is_kept_whole_and_makes_no_file() {
        let dir = tempfile::tempdir().expect("tempdir");
        let kept = ends(10, &[b"12345", b"67890"], dir.path());
        assert_eq!(
            (kept.head.as_slice(), kept.is_cut()),
            (&b"1234567890"[..], false)
        );
        assert!(!dir.path().join("whole").exists());
    }

    #[test]
    fn what_does_not_fit_is_cut_in_the_middle_and_put_aside_whole() {
        let dir = tempfile::tempdir().expect("tempdir");
        let kept = ends(10, &[b"12345", b"6789", b"0ab", b"c"], dir.path());
        assert_eq!(
            (kept.head.as_slice(), kept.tail.as_slice()),
            (&b"12345"[..], &b"90abc"[..])
        );
        assert_eq!((kept.total, kept.is_cut()), (13, true));
        assert_eq!(kept.whole, Some(PathBuf::from("/shown")));
        assert_eq!(
            fs::read(dir.path().join("whole")).expect("read"),
            b"1234567890abc"
        );
    }

    #[test]
    fn a_file_that_cannot_be_made_costs_the_file_only() {
        let dir = tempfile::tempdir().expect("tempdir");
        let kept = ends(4, &[b"123456"], &dir.path().join("nowhere"));
        assert_eq!(
            (kept.head.as_slice(), kept.tail.as_slice()),
            (&b"12"[..], &b"56"[..])
        );
        assert_eq!(kept.whole, None);
    }

    #[test]
    fn no_character_is_cut_in_two() {
        let dir = tempfile::tempdir().expect("tempdir");
        let text = "é".repeat(20);
        let kept = ends(13, &[text.as_bytes()], dir.path());
        assert!(std::str::from_utf8(&kept.head).is_ok_and(|t| t.len() == 6));
        assert!(std::str::from_utf8(&kept.tail).is_ok_and(|t| t.len() == 6));
        assert_eq!(cut_at_end(b"ab\xf0\x9f"), 2);
        assert_eq!(cut_at_end(b"ab\xff"), 0);
        assert_eq!(cut_at_end(b""), 0);
    }

    proptest! {
        #[test]
        fn beginning_end_and_file_are_right_however_it_arrives(
            bytes in proptest::collection::vec(0..128u8, 0..300), limit in 2..60usize, step in 1..40usize,
        ) {
            let dir = tempfile::tempdir().expect("tempdir");
            let pieces: Vec<&[u8]> = bytes.chunks(step).collect();
            let kept = ends(limit, &pieces, dir.path());
            prop_assert!(bytes.starts_with(&kept.head) && bytes.ends_with(&kept.tail));
            prop_assert_eq!(kept.total, bytes.len() as u64);
            if bytes.len() > limit {
                prop_assert_eq!(kept.head.len() + kept.tail.len(), limit);
                prop_assert_eq!(fs::read(dir.path().join("whole")).expect("read"), bytes);
            } else {
                prop_assert_eq!(kept.head, bytes);
            }
        }
    }
}

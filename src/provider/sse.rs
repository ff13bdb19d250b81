//! Server-sent events out of bytes.
//!
//! Our own, because the crate `sse-stream` drops an event that the end of the
//! stream cuts off before its blank line (which several servers leave out after
//! the last event), ends the stream on one bad byte in a field that nobody
//! reads, and has no bound on the memory of one line. This one is pure: bytes
//! in, events out, whatever the cuts between reads.

/// One event. `data` stays bytes: a cut inside a character is whole again here,
/// and the JSON reader checks the encoding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// The `event:` field, empty where there was none.
    pub name: String,
    /// The `data:` lines, joined with a line feed.
    pub data: Vec<u8>,
}

/// An event longer than the bound; the stream cannot be trusted any more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// The most bytes that one event may have. A `Write` of the largest file that
/// the tools take fits when it comes in one piece.
pub(crate) const MAX_EVENT: usize = 16 << 20;

/// A decoder, fed with what the socket gives.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    line: Vec<u8>,
    name: String,
    data: Vec<u8>,
    has_data: bool,
    after_cr: bool,
    started: bool,
}

impl Decoder {
    /// Takes bytes and appends the events that they complete.
    pub fn feed(&mut self, mut bytes: &[u8], out: &mut Vec<Event>) -> Result<(), TooLong> {
        while !bytes.is_empty() {
            // CR LF is one line end even when a read ends between the two.
            if self.after_cr {
                self.after_cr = false;
                if bytes[0] == b'\n' {
                    bytes = &bytes[1..];
                    continue;
                }
            }
            match bytes.iter().position(|&b| b == b'\n' || b == b'\r') {
                Some(end) => {
                    self.grow(&bytes[..end])?;
                    self.after_cr = bytes[end] == b'\r';
                    bytes = &bytes[end + 1..];
                    self.end_line(out);
                }
                None => {
                    self.grow(bytes)?;
                    break;
                }
            }
        }
        Ok(())
    }

    /// The end of the stream: an event that lacks only its blank line counts.
    pub fn finish(&mut self, out: &mut Vec<Event>) {
        if !self.line.is_empty() {
            self.end_line(out);
        }
        self.dispatch(out);
    }

    fn grow(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + self.data.len() + bytes.len() > MAX_EVENT {
            return Err(TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, out: &mut Vec<Event>) {
        let mut line = std::mem::take(&mut self.line);
        if !self.started {
            self.started = true;
            if line.starts_with(b"\xef\xbb\xbf") {
                line.drain(..3);
            }
        }
        if line.is_empty() {
            self.dispatch(out);
        } else {
            let colon = line.iter().position(|&b| b == b':');
            let (field, value) = match colon {
                Some(at) => (&line[..at], &line[at + 1..]),
                None => (&line[..], &line[line.len()..]),
            };
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match field {
                b"data" => {
                    if self.has_data {
                        self.data.push(b'\n');
                    }
                    self.data.extend_from_slice(value);
                    self.has_data = true;
                }
                b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
                // A comment has an empty field name; `id`, `retry` and what is
                // unknown say nothing that a single answer needs.
                _ => {}
            }
        }
        // Keeps the buffer for the next line.
        line.clear();
        self.line = line;
    }

    fn dispatch(&mut self, out: &mut Vec<Event>) {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        let had_data = std::mem::take(&mut self.has_data);
        // An event without data is no event, except an error that says nothing more.
        if (had_data && !data.is_empty()) || name == "error" {
            out.push(Event { name, data });
        }
    }
}

#[cfg(test)]
mod tests;

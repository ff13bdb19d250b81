//! Write: a whole file, new or replaced.

use serde_json::{Map, Value};

use super::mutate::may_change;
use super::text::{BOM, Endings, endings, to_crlf};
use super::{Done, Fail, Gate, MAX_CHANGED, Worker, string};

impl Worker {
    pub(super) fn write(
        &mut self,
        args: &Map<String, Value>,
        gate: &mut dyn Gate,
    ) -> Result<Done, Fail> {
        let asked = string(args, "file_path")?;
        let content = string(args, "content")?;
        if content.len() as u64 > MAX_CHANGED {
            return Err(Fail::error(format!(
                "the content has {} bytes, at most {MAX_CHANGED} are written",
                content.len()
            )));
        }
        if asked.ends_with('/') {
            return Err(Fail::error(format!("{asked} names a directory")));
        }
        let place = self.find(asked)?;
        may_change(&place)?;
        let present = self.present(&place)?;
        let path = place.rel.display();
        let new = match &present {
            None => content.to_owned(),
            Some(present) => {
                match self.known.get(&place.rel) {
                    Some(known) if *known == present.digest => {}
                    Some(_) => {
                        return Err(Fail::error(format!(
                            "{path} has changed since it was read in this run; read it again \
                             before replacing it, or use Edit"
                        )));
                    }
                    None => {
                        return Err(Fail::error(format!(
                            "{path} exists and has not been read in this run; read it before \
                             replacing it, or use Edit to change a part"
                        )));
                    }
                }
                in_the_manner_of(&present.bytes, content)
            }
        };
        let verb = if present.is_some() {
            "replaced"
        } else {
            "created"
        };
        let say = format!(
            "OK: {verb} {path} ({} characters, {} bytes)",
            new.chars().count(),
            new.len()
        );
        self.change("Write", &place, present.as_ref(), new.as_bytes(), say, gate)
    }
}

/// `content` with the byte order mark and the line endings of the file that it
/// replaces: a model sees neither, so it cannot mean to change them.
fn in_the_manner_of(old: &[u8], content: &str) -> String {
    let Ok(old) = std::str::from_utf8(old) else {
        return content.to_owned();
    };
    let mut new = if endings(old) == Endings::CrLf && !content.contains('\r') {
        to_crlf(content)
    } else {
        content.to_owned()
    };
    if old.starts_with(BOM) && !new.starts_with(BOM) {
        new.insert_str(0, BOM);
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_endings_and_byte_order_mark_outlive_a_replacement() {
        let manner = |old: &str, new: &str| in_the_manner_of(old.as_bytes(), new);
        assert_eq!(manner("a\r\nb\r\n", "x\ny\n"), "x\r\ny\r\n");
        assert_eq!(manner("\u{feff}a\r\n", "x\n"), "\u{feff}x\r\n");
        assert_eq!(manner("a\nb\n", "x\n"), "x\n");
        assert_eq!(manner("a\r\nb\n", "x\n"), "x\n");
        // A model that sends \r\n means it.
        assert_eq!(manner("a\r\n", "x\r\ny\n"), "x\r\ny\n");
        assert_eq!(in_the_manner_of(b"\xff\r\n", "x\n"), "x\n");
    }
}

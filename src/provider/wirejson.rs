//! JSON as servers really send it.
//!
//! Some cut a character above U+FFFF into two deltas, so that each holds half a
//! surrogate pair, which no Rust string can. [`parse`] gives such a half shelter
//! in a private-use character, and [`mend`] joins the halves once the pieces of
//! a text stand together.

use serde_json::Value;

/// Where the halves are kept: U+100000 above their own number.
const SHELTER: u32 = 0x10_0000;

/// Parses one JSON text. The flag says that halves were given shelter.
pub(crate) fn parse(bytes: &[u8]) -> Result<(Value, bool), serde_json::Error> {
    match serde_json::from_slice(bytes) {
        Ok(value) => Ok((value, false)),
        Err(error) => match shelter(bytes) {
            Some(text) => serde_json::from_slice(&text).map(|value| (value, true)),
            None => Err(error),
        },
    }
}

/// Joins sheltered halves to characters; a half without its other half is dropped.
pub(crate) fn mend(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut high: Option<u32> = None;
    for c in text.chars() {
        let half = (c as u32).wrapping_sub(SHELTER);
        match half {
            0xD800..=0xDBFF => high = Some(half),
            0xDC00..=0xDFFF => {
                if let Some(first) = high.take() {
                    let code = 0x1_0000 + ((first - 0xD800) << 10) + (half - 0xDC00);
                    out.extend(char::from_u32(code));
                }
            }
            _ => {
                high = None;
                out.push(c);
            }
        }
    }
    out
}

/// The text with every unpaired surrogate escape replaced; `None` without one.
fn shelter(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut found = false;
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            out.push(bytes[at]);
            at += 1;
            continue;
        }
        let Some(unit) = escape(&bytes[at..]) else {
            // Another escape: its second byte must not be read as a backslash.
            out.extend_from_slice(&bytes[at..(at + 2).min(bytes.len())]);
            at += 2;
            continue;
        };
        let pair = (0xD800..=0xDBFF).contains(&unit)
            && escape(&bytes[at + 6..]).is_some_and(|low| (0xDC00..=0xDFFF).contains(&low));
        if pair {
            out.extend_from_slice(&bytes[at..at + 12]);
            at += 12;
        } else if (0xD800..=0xDFFF).contains(&unit) {
            let c = char::from_u32(SHELTER + unit)?;
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            found = true;
            at += 6;
        } else {
            out.extend_from_slice(&bytes[at..at + 6]);
            at += 6;
        }
    }
    found.then_some(out)
}

/// The code unit of a `\uXXXX` escape at the start.
fn escape(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.strip_prefix(b"\\u")?.get(..4)?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn halves_of_a_pair_meet_again() {
        let (first, a) = parse(br#"{"c":"x\ud83d"}"#).unwrap();
        let (second, b) = parse(br#"{"c":"\ude42 y"}"#).unwrap();
        assert!(a && b);
        let joined = format!(
            "{}{}",
            first["c"].as_str().unwrap(),
            second["c"].as_str().unwrap()
        );
        assert_eq!(mend(&joined), "x\u{1f642} y");
    }

    #[test]
    fn a_lone_half_is_dropped_and_a_pair_is_left_alone() {
        let (value, sheltered) = parse(br#"["\ud83da", "\ud83d\ude42", "\\ud83d"]"#).unwrap();
        assert!(sheltered);
        assert_eq!(mend(value[0].as_str().unwrap()), "a");
        assert_eq!(value[1], "\u{1f642}");
        assert_eq!(value[2], "\\ud83d");
        let (_, sheltered) = parse(br#"["\ud83d\ude42"]"#).unwrap();
        assert!(!sheltered);
    }

    #[test]
    fn what_is_no_json_stays_an_error() {
        assert!(parse(b"{\"a\":").is_err());
        assert!(parse(b"\"\\ud83d").is_err());
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(
            prop_oneof![Just(b'\\'), Just(b'u'), Just(b'd'), Just(b'8'), Just(b'"'), any::<u8>()], 0..80)
        ) {
            let _ = parse(&bytes);
            mend(&String::from_utf8_lossy(&bytes));
        }
    }
}

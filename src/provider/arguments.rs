//! The arguments of a call: from what the model wrote to a JSON object.
//!
//! Repairs only what has one meaning. What has two, or none, makes the call
//! malformed: it does not run, and the model is told why.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

/// Arguments as they arrived.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Raw {
    /// Text, as the wire says it should be.
    Text(String),
    /// Already an object, as some servers send it.
    Object(Map<String, Value>),
}

/// Arguments as the tools take them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Parsed {
    /// The object; empty where there is none.
    pub input: Map<String, Value>,
    /// Something had to be put right.
    pub repaired: bool,
    /// Why the call must not run.
    pub malformed: Option<String>,
}

impl Parsed {
    fn good(input: Map<String, Value>, repaired: bool) -> Self {
        Parsed {
            input,
            repaired,
            malformed: None,
        }
    }

    /// A call that must not run.
    pub fn bad(why: impl Into<String>) -> Self {
        Parsed {
            malformed: Some(why.into()),
            ..Parsed::default()
        }
    }
}

/// What the model is told of arguments that the output bound cut off.
pub(crate) const CUT_OFF: &str =
    "the call was cut off by the output limit and did not run; send it again, in smaller parts";

/// Reads arguments.
pub(crate) fn parse(raw: &Raw) -> Parsed {
    match raw {
        Raw::Object(map) => Parsed::good(map.clone(), false),
        Raw::Text(text) => text_arguments(text.trim(), true),
    }
}

fn text_arguments(text: &str, unwrap: bool) -> Parsed {
    if text.is_empty() {
        return Parsed::good(Map::new(), false);
    }
    match serde_json::from_str::<Pairs>(text) {
        Ok(pairs) => return pairs.into_parsed(false),
        Err(error) if error.is_data() => {
            // Valid JSON, but no object.
            return match serde_json::from_str::<Value>(text) {
                Ok(Value::Null) => Parsed::good(Map::new(), true),
                // Encoded twice: once is undone, not more.
                Ok(Value::String(inner)) if unwrap => Parsed {
                    repaired: true,
                    ..text_arguments(inner.trim(), false)
                },
                _ => Parsed::bad("the arguments are not a JSON object"),
            };
        }
        Err(_) => {}
    }
    if let Some(parsed) = repeated(text) {
        return parsed;
    }
    if let Some(fixed) = repair(text)
        && let Ok(pairs) = serde_json::from_str::<Pairs>(&fixed)
    {
        let parsed = pairs.into_parsed(true);
        // `C:\new` has valid escapes that nobody meant beside the invalid ones
        // that gave the slip away.
        if let Some(key) = parsed.input.iter().find_map(|(k, v)| spoilt(k, v)) {
            return Parsed::bad(format!(
                "the backslashes in `{key}` are ambiguous; write each backslash twice in JSON"
            ));
        }
        return parsed;
    }
    match serde_json::from_str::<Value>(text) {
        Err(error) if error.is_eof() => {
            Parsed::bad("the arguments end in the middle of the JSON text")
        }
        Err(error) => Parsed::bad(format!("the arguments are not valid JSON: {error}")),
        Ok(_) => Parsed::bad("the arguments are not a JSON object"),
    }
}

/// The same object sent twice is one call; two different ones are none.
fn repeated(text: &str) -> Option<Parsed> {
    let mut objects = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let first = objects.next()?.ok()?;
    let map = first.as_object()?.clone();
    for next in objects {
        if next.ok()? != first {
            return Some(Parsed::bad("the arguments hold more than one JSON object"));
        }
    }
    Some(Parsed::good(map, true))
}

/// Doubles backslashes that begin no escape, and escapes raw control characters
/// inside strings. `None` when there was nothing to do.
fn repair(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len() + 16);
    let mut changed = false;
    let mut inside = false;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '"' => {
                inside = !inside;
                out.push(c);
            }
            '\\' if inside => {
                let tail = rest.as_str();
                let valid = match tail.chars().next() {
                    Some('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't') => true,
                    Some('u') => {
                        tail[1..]
                            .bytes()
                            .take(4)
                            .filter(u8::is_ascii_hexdigit)
                            .count()
                            == 4
                    }
                    _ => false,
                };
                out.push('\\');
                if valid {
                    out.extend(rest.next());
                } else {
                    out.push('\\');
                    changed = true;
                }
            }
            c if inside && c < ' ' => {
                changed = true;
                match c {
                    '\n' => out.push_str("\\n"),
                    '\r' => out.push_str("\\r"),
                    '\t' => out.push_str("\\t"),
                    other => out.push_str(&format!("\\u{:04x}", other as u32)),
                }
            }
            c => out.push(c),
        }
    }
    changed.then_some(out)
}

/// The key, when a repaired value holds what no path and no command holds.
fn spoilt<'a>(key: &'a str, value: &Value) -> Option<&'a str> {
    let text = value.as_str()?;
    let path = key.ends_with("path") || key == "pattern";
    let bad = |c: char| match c {
        '\n' | '\t' | '\r' => path,
        c => c.is_control(),
    };
    text.contains(bad).then_some(key)
}

/// An object with its keys as they stood, repeated ones included.
struct Pairs(Vec<(String, Value)>);

impl Pairs {
    fn into_parsed(self, repaired: bool) -> Parsed {
        let mut map = Map::new();
        let mut repaired = repaired;
        for (key, value) in self.0 {
            match map.get(&key) {
                Some(before) if *before != value => {
                    return Parsed::bad(format!("`{key}` is given twice with different values"));
                }
                Some(_) => repaired = true,
                None => {
                    map.insert(key, value);
                }
            }
        }
        Parsed::good(map, repaired)
    }
}

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Pairs;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Parsed {
        parse(&Raw::Text(text.to_owned()))
    }

    fn good(text: &str, want: Value, repaired: bool) {
        let parsed = read(text);
        assert_eq!(parsed.malformed, None, "{text}");
        assert_eq!(Value::Object(parsed.input), want, "{text}");
        assert_eq!(parsed.repaired, repaired, "{text}");
    }

    fn bad(text: &str, says: &str) {
        let parsed = read(text);
        let why = parsed
            .malformed
            .unwrap_or_else(|| panic!("{text} was taken"));
        assert!(why.contains(says), "{text}: {why}");
        assert!(parsed.input.is_empty());
    }

    #[test]
    fn plain_and_empty() {
        good(r#"{"a":1}"#, json!({"a": 1}), false);
        good("", json!({}), false);
        good(" \n ", json!({}), false);
        good("null", json!({}), true);
        let object = json!({"a": [1, 2]});
        let parsed = parse(&Raw::Object(object.as_object().unwrap().clone()));
        assert_eq!(Value::Object(parsed.input), object);
    }

    #[test]
    fn encoded_twice_is_undone_once() {
        good(r#""{\"command\":\"ls\"}""#, json!({"command": "ls"}), true);
        bad(
            &serde_json::to_string(&json!(r#""{}""#)).unwrap(),
            "not a JSON object",
        );
    }

    #[test]
    fn no_object() {
        bad("[1]", "not a JSON object");
        bad("7", "not a JSON object");
    }

    #[test]
    fn cut_off_in_the_middle() {
        bad(
            r#"{"file_path":"t.txt","content":"aaa"#,
            "end in the middle",
        );
        bad(r#"{"a":1"#, "end in the middle");
        bad(r#"{bad"#, "not valid JSON");
    }

    #[test]
    fn twice_the_same_is_one() {
        good(r#"{"city":"S"}{"city":"S"}"#, json!({"city": "S"}), true);
        bad(r#"{"city":"S"}{"city":"T"}"#, "more than one");
        bad(r#"{"city":"S"}{"ci"#, "not valid JSON");
    }

    #[test]
    fn duplicate_keys() {
        good(
            r#"{"command":"ls","command":"ls"}"#,
            json!({"command": "ls"}),
            true,
        );
        bad(r#"{"command":"ls","command":"rm x"}"#, "given twice");
    }

    #[test]
    fn invalid_escapes_are_doubled() {
        good(
            r#"{"pattern":"v\d+\.rs"}"#,
            json!({"pattern": r"v\d+\.rs"}),
            true,
        );
        good(
            r#"{"command":"grep 'a\sb' x"}"#,
            json!({"command": r"grep 'a\sb' x"}),
            true,
        );
        good(r#"{"q":"C:\users"}"#, json!({"q": r"C:\users"}), true);
        good("{\"command\":\"a\nb\"}", json!({"command": "a\nb"}), true);
        good(
            "{\"command\":\"a \\\nb\"}",
            json!({"command": "a \\\nb"}),
            true,
        );
        // Valid escapes beside them keep their meaning.
        good(
            r#"{"pattern":"\"\d\\d"}"#,
            json!({"pattern": r#""\d\d"#}),
            true,
        );
    }

    #[test]
    fn escapes_that_nobody_meant_are_refused() {
        bad(r#"{"path":"C:\bin\app.exe"}"#, "ambiguous");
        bad(r#"{"file_path":"C:\new\dir"}"#, "ambiguous");
        // Valid JSON is taken at its word.
        good(
            r#"{"file_path":"a\tb"}"#,
            json!({"file_path": "a\tb"}),
            false,
        );
    }

    #[test]
    fn markup_of_the_protocol_inside_is_refused() {
        bad(
            "{\"command\":\"ls</\u{ff5c}DSML\u{ff5c}parameter>",
            "end in the middle",
        );
        bad(r#"{"c":"\ud83d"}"#, "not valid JSON");
    }

    proptest! {
        #[test]
        fn never_panics_and_malformed_means_empty(text in r#"[\[\]{}":,\\unbda0-9 \n]{0,40}|.{0,40}"#) {
            let parsed = read(&text);
            prop_assert!(parsed.malformed.is_none() || parsed.input.is_empty());
        }

        #[test]
        fn valid_objects_come_back_unchanged(keys in proptest::collection::btree_map(".{0,8}", ".{0,20}", 0..5)) {
            let value = json!(keys);
            let parsed = read(&value.to_string());
            prop_assert!(!parsed.repaired && parsed.malformed.is_none());
            prop_assert_eq!(Value::Object(parsed.input), value);
        }
    }
}

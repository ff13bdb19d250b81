//! Parameters of the MCP tools: one table from which both the `inputSchema`
//! and the check of a call are made, so that they cannot disagree.

use serde_json::{Map, Value, json};

/// One parameter of a tool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Param {
    pub name: &'static str,
    /// For the model that calls.
    pub about: &'static str,
    pub kind: Kind,
}

/// What a parameter holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A string; `None` as default makes it required.
    Text { default: Option<&'static str> },
    /// One of a few words.
    Choice {
        values: &'static [&'static str],
        default: &'static str,
    },
    /// A whole number; `None` as default allows null and means "not given".
    Int { default: Option<i64> },
    /// A list of strings, required.
    TextList,
}

impl Param {
    fn required(&self) -> bool {
        matches!(self.kind, Kind::Text { default: None } | Kind::TextList)
    }

    fn schema(&self) -> Value {
        let mut schema = match self.kind {
            Kind::Text { default: None } => json!({"type": "string"}),
            Kind::Text {
                default: Some(default),
            } => json!({"type": "string", "default": default}),
            Kind::Choice { values, default } => {
                json!({"type": "string", "enum": values, "default": default})
            }
            Kind::Int {
                default: Some(default),
            } => json!({"type": "integer", "default": default}),
            Kind::Int { default: None } => json!({"type": ["integer", "null"], "default": null}),
            Kind::TextList => json!({"type": "array", "items": {"type": "string"}}),
        };
        schema["description"] = json!(self.about);
        schema
    }

    /// The value to work with, or what is wrong with the one that was given.
    fn check(&self, given: Option<&Value>) -> Result<Value, String> {
        let wrong = |expected: &str, value: &Value| {
            Err(format!(
                "`{}` must be {expected}, not {}",
                self.name,
                kind_of(value)
            ))
        };
        match (self.kind, given) {
            (Kind::Text { default: None } | Kind::TextList, None) => {
                Err(format!("`{}` is required", self.name))
            }
            (Kind::Text { default }, None) => Ok(json!(default)),
            (Kind::Text { .. }, Some(value @ Value::String(_))) => Ok(value.clone()),
            (Kind::Text { .. }, Some(value)) => wrong("a string", value),

            (Kind::Choice { default, .. }, None) => Ok(json!(default)),
            (Kind::Choice { values, .. }, Some(value)) => match value.as_str() {
                Some(word) if values.contains(&word) => Ok(value.clone()),
                _ => Err(format!(
                    "`{}` must be one of {}",
                    self.name,
                    values
                        .iter()
                        .map(|word| format!("\"{word}\""))
                        .collect::<Vec<_>>()
                        .join(", ")
                )),
            },

            (Kind::Int { default }, None) => Ok(json!(default)),
            (Kind::Int { default: None }, Some(Value::Null)) => Ok(Value::Null),
            (Kind::Int { .. }, Some(value)) => match whole(value) {
                Some(number) => Ok(json!(number)),
                None => wrong("a whole number", value),
            },

            (Kind::TextList, Some(Value::Array(items))) => {
                match items.iter().find(|item| !item.is_string()) {
                    None => Ok(Value::Array(items.clone())),
                    Some(item) => wrong("a list of strings; it holds", item),
                }
            }
            (Kind::TextList, Some(value)) => wrong("a list of strings", value),
        }
    }
}

/// A JSON number without a fraction: some hosts write 5 as 5.0.
fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        value
            .as_f64()
            .filter(|number| number.fract() == 0.0 && number.abs() < 9e15)
            .map(|number| number as i64)
    })
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The `inputSchema` of a tool.
pub(super) fn schema(params: &[Param]) -> Map<String, Value> {
    let properties: Map<String, Value> = params
        .iter()
        .map(|param| (param.name.to_owned(), param.schema()))
        .collect();
    let required: Vec<&str> = params
        .iter()
        .filter(|param| param.required())
        .map(|param| param.name)
        .collect();
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), Value::Object(properties));
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    schema.insert("additionalProperties".to_owned(), json!(false));
    schema
}

/// Checked arguments; every parameter of the table is present.
#[derive(Clone, Debug, Default)]
pub(super) struct Args(Map<String, Value>);

impl Args {
    pub(super) fn text(&self, name: &str) -> String {
        self.0
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    }

    pub(super) fn int(&self, name: &str) -> Option<i64> {
        self.0.get(name).and_then(Value::as_i64)
    }

    pub(super) fn texts(&self, name: &str) -> Vec<String> {
        self.0
            .get(name)
            .and_then(Value::as_array)
            .map(|items| {
                items
                    .iter()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect()
            })
            .unwrap_or_default()
    }
}

/// Checks a call against its table. The error names every fault, and the
/// parameters that there are: the caller is a model and can mend it at once.
pub(super) fn check(params: &[Param], given: Option<&Map<String, Value>>) -> Result<Args, String> {
    let empty = Map::new();
    let given = given.unwrap_or(&empty);
    let mut faults = Vec::new();
    let mut args = Map::new();
    for param in params {
        match param.check(given.get(param.name)) {
            Ok(value) => {
                args.insert(param.name.to_owned(), value);
            }
            Err(fault) => faults.push(fault),
        }
    }
    for name in given.keys() {
        if !params.iter().any(|param| param.name == name) {
            faults.push(format!("there is no parameter `{}`", name.escape_debug()));
        }
    }
    if faults.is_empty() {
        return Ok(Args(args));
    }
    let known = params
        .iter()
        .map(|param| {
            if param.required() {
                format!("{} (required)", param.name)
            } else {
                param.name.to_owned()
            }
        })
        .collect::<Vec<_>>();
    Err(format!(
        "{}. Parameters: {}.",
        faults.join("; "),
        if known.is_empty() {
            "none".to_owned()
        } else {
            known.join(", ")
        }
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Param] = &[
        Param {
            name: "task",
            about: "what",
            kind: Kind::Text { default: None },
        },
        Param {
            name: "model",
            about: "which",
            kind: Kind::Choice {
                values: &["flash", "pro"],
                default: "flash",
            },
        },
        Param {
            name: "max_tokens",
            about: "bound",
            kind: Kind::Int { default: None },
        },
        Param {
            name: "ids",
            about: "which",
            kind: Kind::TextList,
        },
    ];

    fn call(args: Value) -> Result<Args, String> {
        check(TABLE, args.as_object())
    }

    #[test]
    fn good_arguments_pass_and_get_their_defaults() {
        let args = call(json!({"task": "t", "ids": ["a"]})).expect("good");
        assert_eq!(args.text("task"), "t");
        assert_eq!(args.text("model"), "flash");
        assert_eq!(args.int("max_tokens"), None);
        assert_eq!(args.texts("ids"), ["a"]);
        let args = call(json!({"task": "t", "ids": [], "max_tokens": 5.0})).expect("good");
        assert_eq!(args.int("max_tokens"), Some(5));
    }

    #[test]
    fn every_fault_of_a_bad_call_is_named() {
        let text = call(json!({
            "task": 1, "model": "A", "max_tokens": "5", "ids": "abc", "workdir": "."
        }))
        .expect_err("bad");
        for part in [
            "`task` must be a string, not a number",
            "`model` must be one of \"flash\", \"pro\"",
            "`max_tokens` must be a whole number, not a string",
            "`ids` must be a list of strings, not a string",
            "no parameter `workdir`",
            "task (required)",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(call(json!({"task": "t", "ids": [], "max_tokens": 1.5})).is_err());
        assert!(call(json!({"task": "t", "ids": [], "max_tokens": true})).is_err());
    }

    #[test]
    fn the_schema_says_what_the_check_does() {
        let schema = Value::Object(schema(TABLE));
        assert_eq!(schema["required"], json!(["task", "ids"]));
        assert_eq!(schema["additionalProperties"], json!(false));
        assert_eq!(
            schema["properties"]["model"]["enum"],
            json!(["flash", "pro"])
        );
        assert_eq!(
            schema["properties"]["max_tokens"]["type"],
            json!(["integer", "null"])
        );
    }
}

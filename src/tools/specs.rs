//! The tools as models are told of them.
//!
//! The order and the text are part of every request's cached prefix: they
//! depend on the capability and on nothing else.

use serde_json::{Value, json};

use super::{Capability, names};
use crate::provider::ToolSpec;

/// The tools of a capability, in their stable order.
pub fn specs(capability: Capability) -> Vec<ToolSpec> {
    names::available(capability).map(spec).collect()
}

fn spec(name: &'static str) -> ToolSpec {
    let (description, schema) = match name {
        "Read" => (READ, read()),
        "Write" => (WRITE, write()),
        "Edit" => (EDIT, edit()),
        "Bash" => (BASH, bash()),
        "Glob" => (GLOB, glob()),
        "Grep" => (GREP, grep()),
        _ => (NOTEBOOK, notebook()),
    };
    ToolSpec {
        name,
        description: description.to_owned(),
        schema,
    }
}

const READ: &str = "Read a text file of the workspace. The first line of the result is \
`[lines N-M of TOTAL]`, then each line as its number, a tab and its text. A result holds at most \
50,000 characters; it ends with the offset (and, inside a very long line, the column) at which to \
go on. Also reads the output files that Bash names under /run/delegate/output.";

const WRITE: &str = "Create a file, or replace a whole one. Missing folders are made. An existing \
file can be replaced only after Read has shown its present content; to change part of a file use \
Edit.";

const EDIT: &str = "Replace an exact piece of a text file. old_string must occur exactly once, \
unless replace_all is true: give enough surrounding lines to make it unique. Do not include the \
line numbers that Read shows. Line endings, byte order mark and mode of the file are kept; \
\\n in the strings matches the line ending of the file.";

const BASH: &str = "Run a command with bash in the workspace, inside a jail: it can write in the \
workspace and in /tmp only, its standard input is empty, and every process that it started is \
ended when it returns, background ones included. The first line of the result is `[exit N]`, then \
what it printed. Long output is cut in the middle; the whole is in a file that the result names \
and that Read can page.";

const GLOB: &str = "List files of the workspace whose path matches a glob pattern, sorted, at \
most 500. `*` stays within one folder, `**` crosses folders; a pattern without a slash matches \
file names in any folder. Files that .gitignore excludes and version control folders are left out.";

const GREP: &str = "Search the contents of files with a regular expression (Rust syntax: no \
look-around, no back-references). Files that .gitignore excludes, binary files and version control \
folders are left out. Lines are shown as `path:line: text`.";

const NOTEBOOK: &str = "Change one cell of a Jupyter notebook: replace its source, insert a new \
cell after it, or delete it. The cell is named by cell_id or by cell_index. Inserting into a \
notebook that does not exist creates it.";

fn object(properties: Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn file_path() -> Value {
    json!({
        "type": "string",
        "description": "Path of the file, relative to the workspace or absolute inside it",
    })
}

fn read() -> Value {
    object(
        json!({
            "file_path": file_path(),
            "offset": {
                "type": "integer", "minimum": 0,
                "description": "First line to show; lines count from 1",
            },
            "limit": {
                "type": "integer", "minimum": 0,
                "description": "How many lines to show",
            },
            "column": {
                "type": "integer", "minimum": 1,
                "description": "First character to show of the first line; only for very long lines",
            },
        }),
        &["file_path"],
    )
}

fn write() -> Value {
    object(
        json!({
            "file_path": file_path(),
            "content": {"type": "string", "description": "The whole new content of the file"},
        }),
        &["file_path", "content"],
    )
}

fn edit() -> Value {
    object(
        json!({
            "file_path": file_path(),
            "old_string": {"type": "string", "description": "The exact text to replace"},
            "new_string": {"type": "string", "description": "The text to put in its place"},
            "replace_all": {
                "type": "boolean",
                "description": "Replace every occurrence (default false)",
            },
        }),
        &["file_path", "old_string", "new_string"],
    )
}

fn bash() -> Value {
    object(
        json!({
            "command": {"type": "string", "description": "The command"},
            "timeout": {
                "type": "integer", "minimum": 1, "maximum": names::MAX_BASH_SECONDS * 1000,
                "description": "Seconds after which the command is ended, 1 to 1800; a number \
                    above 1800 counts as milliseconds",
            },
        }),
        &["command"],
    )
}

fn glob() -> Value {
    object(
        json!({
            "pattern": {"type": "string", "description": "Such as src/**/*.rs or *.md"},
            "path": {
                "type": "string",
                "description": "Folder to start in (default: the workspace)",
            },
        }),
        &["pattern"],
    )
}

fn grep() -> Value {
    let lines = |what: &str| {
        json!({
            "type": "integer", "minimum": 0, "maximum": 100,
            "description": format!("Lines to show {what} each match"),
        })
    };
    object(
        json!({
            "pattern": {"type": "string", "description": "The regular expression"},
            "path": {
                "type": "string",
                "description": "File or folder to search (default: the workspace)",
            },
            "glob": {
                "type": "string",
                "description": "Search only files that match, such as *.ts or src/**/*.py",
            },
            "type": {"type": "string", "description": "Search only files of a type: rust, py, js, ..."},
            "output_mode": {
                "type": "string", "enum": ["content", "files_with_matches", "count"],
                "description": "Matching lines (default), only file names, or counts",
            },
            "-i": {"type": "boolean", "description": "Ignore case"},
            "-n": {"type": "boolean", "description": "Show line numbers (default true)"},
            "context": lines("before and after"),
            "-A": lines("after"),
            "-B": lines("before"),
            "multiline": {
                "type": "boolean",
                "description": "Let matches span lines and `.` match a line end",
            },
            "head_limit": {
                "type": "integer", "minimum": 1, "maximum": 1000,
                "description": "At most this many matches or entries (default 100)",
            },
        }),
        &["pattern"],
    )
}

fn notebook() -> Value {
    object(
        json!({
            "notebook_path": {
                "type": "string",
                "description": "Path of the .ipynb file, relative to the workspace or absolute inside it",
            },
            "cell_id": {"type": "string", "description": "Id of the cell; wins over cell_index"},
            "cell_index": {
                "type": "integer", "minimum": 0,
                "description": "Place of the cell, counted from 0",
            },
            "edit_mode": {
                "type": "string", "enum": ["replace", "insert", "delete"],
                "description": "Default replace; insert puts the new cell after the named one, or at the end",
            },
            "cell_type": {
                "type": "string", "enum": ["code", "markdown"],
                "description": "Kind of an inserted cell (default code)",
            },
            "new_source": {
                "type": "string",
                "description": "New source of the cell; not needed to delete",
            },
        }),
        &["notebook_path"],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::ToolUse;
    use crate::tools::canonical;

    #[test]
    fn the_order_is_stable_and_follows_the_capability() {
        let names = |capability| {
            specs(capability)
                .iter()
                .map(|spec| spec.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            names(Capability::Coding),
            [
                "Read",
                "Write",
                "Edit",
                "Bash",
                "Glob",
                "Grep",
                "NotebookEdit"
            ]
        );
        assert_eq!(names(Capability::Readonly), ["Read", "Glob", "Grep"]);
    }

    /// What a schema offers, the checks take; what it requires, they require.
    #[test]
    fn schemas_and_checks_say_the_same() {
        for spec in specs(Capability::Coding) {
            let properties = spec.schema["properties"].as_object().expect("properties");
            let sample = |schema: &Value| match (schema["enum"].get(0), schema["type"].as_str()) {
                (Some(first), _) => first.clone(),
                (None, Some("integer")) => json!(1),
                (None, Some("boolean")) => json!(true),
                _ => json!("text"),
            };
            let full: serde_json::Map<_, _> = properties
                .iter()
                .map(|(key, schema)| (key.clone(), sample(schema)))
                .collect();
            let ask = |input: &serde_json::Map<String, Value>| {
                let call = ToolUse {
                    id: String::new(),
                    name: spec.name.to_owned(),
                    input: input.clone(),
                    malformed: None,
                };
                canonical(&call, Capability::Coding, None)
            };
            let taken = ask(&full).expect(spec.name);
            assert_eq!(taken.args, full, "{}", spec.name);
            assert!(!taken.renamed);
            for key in spec.schema["required"].as_array().expect("required") {
                let mut less = full.clone();
                less.remove(key.as_str().expect("a name"));
                assert!(ask(&less).is_err(), "{} without {key}", spec.name);
            }
        }
    }
}

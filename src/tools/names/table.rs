//! The tools and their parameters, with every name by which they are known.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// What a value has to be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A string.
    Text,
    /// A string with something in it besides white space.
    Filled,
    /// `true` or `false`.
    Flag,
    /// A JSON integer in this range.
    Whole(u64, u64),
    /// One of these strings.
    Choice(&'static [&'static str]),
    /// Seconds, or milliseconds where it is too large for seconds.
    Timeout,
}

/// One parameter.
#[derive(Debug)]
pub(super) struct Param {
    pub(super) name: &'static str,
    /// Other names, in the order in which they are looked for.
    pub(super) aliases: &'static [&'static str],
    pub(super) kind: Kind,
    pub(super) required: bool,
}

/// One tool.
#[derive(Debug)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    /// The name under which an older system offered it, with its own form of
    /// results; and plain other spellings.
    older: Option<&'static str>,
    spellings: &'static [&'static str],
    /// Part of a read-only run.
    pub(super) readonly: bool,
    pub(super) params: &'static [Param],
}

impl Tool {
    /// Whether `asked` names this tool.
    pub(super) fn is_called(&self, asked: &str) -> bool {
        let asked = plain(asked);
        std::iter::once(self.name)
            .chain(self.older)
            .chain(self.spellings.iter().copied())
            .any(|name| plain(name) == asked)
    }

    /// The older name, when `asked` is that.
    pub(super) fn alias_of(&self, asked: &str) -> Option<&'static str> {
        self.older.filter(|older| plain(older) == plain(asked))
    }

    /// The arguments in a sentence or two.
    pub(super) fn usage(&self) -> String {
        let names = |required: bool| {
            self.params
                .iter()
                .filter(|param| param.required == required)
                .map(|param| param.name)
                .collect::<Vec<_>>()
                .join(", ")
        };
        let mut text = format!("Required: {}.", names(true));
        let optional = names(false);
        if !optional.is_empty() {
            let _ = write!(text, " Optional: {optional}.");
        }
        text
    }
}

impl Param {
    /// Its value among `given`, and whether another name led to it.
    pub(super) fn pick<'a>(&self, given: &'a Map<String, Value>) -> (Option<&'a Value>, bool) {
        if let Some(value) = given.get(self.name) {
            return (Some(value), false);
        }
        if let Some(value) = self.aliases.iter().find_map(|alias| given.get(*alias)) {
            return (Some(value), true);
        }
        // camelCase, other case, stray white space. Not for flags such as `-A`,
        // whose case is the difference.
        let known = |key: &str| {
            !key.starts_with('-')
                && std::iter::once(&self.name)
                    .chain(self.aliases)
                    .filter(|name| !name.starts_with('-'))
                    .any(|name| plain(name) == plain(key))
        };
        let found = given.iter().find(|(key, _)| known(key));
        (found.map(|(_, value)| value), found.is_some())
    }
}

/// A name without case, white space, `_` and `-`.
fn plain(name: &str) -> String {
    name.chars()
        .filter(|c| !c.is_whitespace() && *c != '_' && *c != '-')
        .flat_map(char::to_lowercase)
        .collect()
}

const fn param(
    name: &'static str,
    aliases: &'static [&'static str],
    kind: Kind,
    required: bool,
) -> Param {
    Param {
        name,
        aliases,
        kind,
        required,
    }
}

const FILE: &[&str] = &["path", "file", "filename", "filepath"];
const REQUIRED: bool = true;
const OPTIONAL: bool = false;
const ANY: Kind = Kind::Whole(0, u64::MAX);

/// The seven tools, in the order in which models are told of them.
pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "Read",
        older: Some("read_file"),
        spellings: &[],
        readonly: true,
        params: &[
            param("file_path", FILE, Kind::Filled, REQUIRED),
            param("offset", &["start_line"], ANY, OPTIONAL),
            param("limit", &["num_lines"], ANY, OPTIONAL),
            param("column", &[], Kind::Whole(1, u64::MAX), OPTIONAL),
        ],
    },
    Tool {
        name: "Write",
        older: Some("write_file"),
        spellings: &[],
        readonly: false,
        params: &[
            param("file_path", FILE, Kind::Filled, REQUIRED),
            param(
                "content",
                &["contents", "file_text", "text"],
                Kind::Text,
                REQUIRED,
            ),
        ],
    },
    Tool {
        name: "Edit",
        older: None,
        spellings: &["edit_file", "str_replace"],
        readonly: false,
        params: &[
            param("file_path", FILE, Kind::Filled, REQUIRED),
            param(
                "old_string",
                &["old_str", "old_text", "old"],
                Kind::Text,
                REQUIRED,
            ),
            param(
                "new_string",
                &["new_str", "new_text", "new"],
                Kind::Text,
                REQUIRED,
            ),
            param("replace_all", &[], Kind::Flag, OPTIONAL),
        ],
    },
    Tool {
        name: "Bash",
        older: Some("run_bash"),
        spellings: &["shell"],
        readonly: false,
        params: &[
            param("command", &["cmd", "script"], Kind::Filled, REQUIRED),
            param(
                "timeout",
                &["timeout_s", "timeout_seconds"],
                Kind::Timeout,
                OPTIONAL,
            ),
        ],
    },
    Tool {
        name: "Glob",
        older: None,
        spellings: &[],
        readonly: true,
        params: &[
            param("pattern", &["glob"], Kind::Filled, REQUIRED),
            param(
                "path",
                &["dir", "directory", "folder"],
                Kind::Filled,
                OPTIONAL,
            ),
        ],
    },
    Tool {
        name: "Grep",
        older: None,
        spellings: &[],
        readonly: true,
        params: &[
            param("pattern", &["regex", "query"], Kind::Text, REQUIRED),
            param(
                "path",
                &["file_path", "dir", "directory", "file"],
                Kind::Filled,
                OPTIONAL,
            ),
            param("glob", &["include"], Kind::Filled, OPTIONAL),
            param("type", &["file_type"], Kind::Filled, OPTIONAL),
            param(
                "output_mode",
                &["mode"],
                Kind::Choice(&["content", "files_with_matches", "count"]),
                OPTIONAL,
            ),
            param(
                "-i",
                &["ignore_case", "case_insensitive"],
                Kind::Flag,
                OPTIONAL,
            ),
            param("-n", &["line_numbers"], Kind::Flag, OPTIONAL),
            param("context", &["-C"], Kind::Whole(0, 100), OPTIONAL),
            param("-A", &["after_context"], Kind::Whole(0, 100), OPTIONAL),
            param("-B", &["before_context"], Kind::Whole(0, 100), OPTIONAL),
            param("multiline", &[], Kind::Flag, OPTIONAL),
            param(
                "head_limit",
                &["max_matches", "max_results"],
                Kind::Whole(1, 1000),
                OPTIONAL,
            ),
        ],
    },
    Tool {
        name: "NotebookEdit",
        older: None,
        spellings: &[],
        readonly: false,
        params: &[
            param(
                "notebook_path",
                &["path", "file_path", "file"],
                Kind::Filled,
                REQUIRED,
            ),
            param("cell_id", &[], Kind::Text, OPTIONAL),
            param("cell_index", &["cell_number"], ANY, OPTIONAL),
            param(
                "edit_mode",
                &["mode"],
                Kind::Choice(&["replace", "insert", "delete"]),
                OPTIONAL,
            ),
            param(
                "cell_type",
                &[],
                Kind::Choice(&["code", "markdown"]),
                OPTIONAL,
            ),
            param("new_source", &["source", "content"], Kind::Text, OPTIONAL),
        ],
    },
];

//! The header of an agent file.

use std::fmt;

use serde::Deserialize;
use serde::de::{SeqAccess, Visitor};

/// Largest header that is parsed.
const LIMIT: usize = 64 * 1024;

/// The seven tools, and what agent files of other systems call them.
const TOOLS: [(&str, &[&str]); 7] = [
    ("Read", &["read_file"]),
    ("Write", &["write_file"]),
    ("Edit", &["multiedit"]),
    ("Bash", &["run_bash"]),
    ("Glob", &[]),
    ("Grep", &[]),
    ("NotebookEdit", &[]),
];

/// What a header says, as far as we care.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Header {
    pub description: Option<String>,
    pub model: Option<String>,
    pub tools: Option<Names>,
    #[serde(rename = "disallowedTools", alias = "disallowed-tools")]
    pub disallowed: Option<Names>,
}

/// A list of names, written as one or as text with commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names(pub Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Names;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("tool names, as a list or separated by commas")
            }

            fn visit_str<E>(self, text: &str) -> Result<Names, E> {
                Ok(split_names(text))
            }

            fn visit_unit<E>(self) -> Result<Names, E> {
                Ok(Names::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Names, A::Error> {
                let mut names = Vec::new();
                while let Some(item) = items.next_element::<String>()? {
                    names.push(item.trim().to_owned());
                }
                Ok(Names(names))
            }
        }
        from.deserialize_any(Reader)
    }
}

/// Splits at commas that stand outside parentheses: `Bash(git add, git rm)`.
fn split_names(text: &str) -> Names {
    let mut names = vec![String::new()];
    let mut depth = 0usize;
    for c in text.trim().trim_matches(['[', ']']).chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                names.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(name) = names.last_mut() {
            name.push(c);
        }
    }
    Names(
        names
            .iter()
            .map(|name| name.trim().trim_matches(['"', '\'']).to_owned())
            .filter(|name| !name.is_empty())
            .collect(),
    )
}

/// Splits a file into header and body. Only a line that is `---` and nothing
/// else closes a header; without one the whole file is body.
pub(super) fn split(text: &str) -> (Option<&str>, &str) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_mark = |line: &str| line.trim_end() == "---";
    let Some(first) = text.lines().next().filter(|line| is_mark(line)) else {
        return (None, text.trim());
    };
    // `lines` swallows the ending; find where the second line begins.
    let start = text[first.len()..]
        .find('\n')
        .map_or(text.len(), |at| first.len() + at + 1);
    let mut at = start;
    for line in text[start..].split_inclusive('\n') {
        if is_mark(line) {
            return (Some(&text[start..at]), text[at + line.len()..].trim());
        }
        at += line.len();
    }
    (None, text.trim())
}

/// Parses a header. YAML first; files for other programs often are not quite
/// YAML (`description: Use this when: …`), so then `key: value` lines.
pub(super) fn parse(text: &str) -> Result<Header, String> {
    if text.len() > LIMIT {
        return Err("its header is larger than 64 KiB".to_owned());
    }
    if text.trim().is_empty() {
        return Ok(Header::default());
    }
    let budget = serde_saphyr::budget! {
        max_depth: 16,
        max_nodes: 4_000,
        max_events: 20_000,
        max_aliases: 16,
        max_anchors: 16,
        max_documents: 1,
    };
    let options = serde_saphyr::options! { budget: budget };
    match serde_saphyr::from_str_with_options(text, options) {
        Ok(header) => Ok(header),
        Err(_) => by_lines(text),
    }
}

/// Reads `key: value` lines. A restriction that cannot be read for certain is
/// an error: a guess could give tools that the file takes away.
fn by_lines(text: &str) -> Result<Header, String> {
    let mut header = Header::default();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        if key.starts_with([' ', '\t', '#', '-']) {
            continue;
        }
        let value = value.trim();
        let plain = || value.trim_matches(['"', '\'']).to_owned();
        let names = match key.trim() {
            "description" => {
                header.description = Some(plain());
                continue;
            }
            "model" => {
                header.model = Some(plain());
                continue;
            }
            "tools" => &mut header.tools,
            "disallowedTools" | "disallowed-tools" => &mut header.disallowed,
            _ => continue,
        };
        if names.is_some() {
            return Err(format!("its header has `{}` twice", key.trim()));
        }
        if value.starts_with(['|', '>', '{', '&', '*']) && value != "*" {
            return Err(format!("`{}` in its header cannot be read", key.trim()));
        }
        let mut list = split_names(value);
        if value.is_empty() {
            while let Some(item) = lines.peek().and_then(|line| line.trim().strip_prefix("- ")) {
                list.0
                    .push(item.trim().trim_matches(['"', '\'']).to_owned());
                lines.next();
            }
        }
        if !(value.is_empty() && list.0.is_empty()) {
            *names = Some(list);
        }
    }
    Ok(header)
}

/// The tools that a header leaves: `None` when it restricts nothing. Gives
/// notes on what was not understood.
pub fn restrict(
    tools: Option<&[String]>,
    disallowed: Option<&[String]>,
) -> (Option<Vec<String>>, Vec<String>) {
    let mut notes = Vec::new();
    let mut left: Vec<&str> = match tools {
        Some(names) if !names.iter().any(|name| name == "*") => {
            let mut left = Vec::new();
            for name in names {
                match canonical(name) {
                    Some((tool, false)) => left.push(tool),
                    // A pattern allows a part; the part cannot be held.
                    Some((tool, true)) => notes.push(format!(
                        "`{name}` allows a part of {tool}, which cannot be held: {tool} is left out"
                    )),
                    None => {}
                }
            }
            left
        }
        _ => TOOLS.iter().map(|(tool, _)| *tool).collect(),
    };
    for name in disallowed.unwrap_or_default() {
        if name == "*" {
            left.clear();
        }
        if let Some((tool, pattern)) = canonical(name) {
            left.retain(|kept| *kept != tool);
            if pattern {
                notes.push(format!(
                    "`{name}` forbids a part of {tool}, which cannot be held: all of {tool} is left out"
                ));
            }
        }
    }
    if tools.is_none() && disallowed.is_none() {
        return (None, notes);
    }
    let kept = TOOLS
        .iter()
        .filter(|(tool, _)| left.contains(tool))
        .map(|(tool, _)| (*tool).to_owned())
        .collect();
    (Some(kept), notes)
}

/// The tool that a name means, and whether it names a part only.
fn canonical(name: &str) -> Option<(&'static str, bool)> {
    let (bare, pattern) = match name.split_once('(') {
        Some((bare, _)) => (bare, true),
        None => (name, false),
    };
    let bare = bare.trim();
    TOOLS
        .iter()
        .find(|(tool, others)| {
            tool.eq_ignore_ascii_case(bare)
                || others.iter().any(|other| other.eq_ignore_ascii_case(bare))
        })
        .map(|(tool, _)| (*tool, pattern))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(header: &str) -> Option<Vec<String>> {
        let header = parse(header).expect("header");
        let of = |names: &Option<Names>| names.as_ref().map(|names| names.0.clone());
        let (tools, disallowed) = (of(&header.tools), of(&header.disallowed));
        restrict(tools.as_deref(), disallowed.as_deref()).0
    }

    #[test]
    fn a_header_ends_at_a_line_of_three_dashes_only() {
        let text = "---\ndescription: a --- b\n---\n\nBody --- here.\n---\nmore\n";
        let (header, body) = split(text);
        assert_eq!(header, Some("description: a --- b\n"));
        assert_eq!(body, "Body --- here.\n---\nmore");
        assert_eq!(split("no header\n"), (None, "no header"));
        let open = "---\ndescription: x\nbody";
        assert_eq!(split(open), (None, open));
        assert_eq!(split("---\r\na: b\r\n---\r\nbody\r\n").1, "body");
        assert_eq!(split("\u{feff}---\na: b\n---\nbody").0, Some("a: b\n"));
        assert_eq!(split("---"), (None, "---"));
        assert_eq!(split(""), (None, ""));
    }

    #[test]
    fn yaml_is_read_as_yaml_and_what_is_nearly_yaml_by_lines() {
        let header =
            parse("name: x\ndescription: >\n  folded\n  text\nmodel: opus\n").expect("yaml");
        assert_eq!(
            header.description.as_deref().map(str::trim),
            Some("folded text")
        );
        assert_eq!(header.model.as_deref(), Some("opus"));
        let header = parse("description: Use when: always\ntools: Read, Grep\n").expect("lines");
        assert_eq!(header.description.as_deref(), Some("Use when: always"));
        assert_eq!(
            header.tools,
            Some(Names(vec!["Read".into(), "Grep".into()]))
        );
        let header = parse("description: a: b\ntools:\n  - Read\n  - \"Bash\"\n").expect("lines");
        assert_eq!(
            header.tools,
            Some(Names(vec!["Read".into(), "Bash".into()]))
        );
        assert!(parse("description: a: b\ntools: Read\ntools: Bash\n").is_err());
        assert!(parse("description: a: b\ntools: >\n  Read\n").is_err());
    }

    #[test]
    fn bombs_and_huge_headers_are_bounded() {
        let mut bomb = String::from("a: &a [x, x, x, x, x, x, x, x, x]\n");
        for (this, last) in "bcdefghij".chars().zip("abcdefghi".chars()) {
            let row = vec![format!("*{last}"); 9].join(", ");
            bomb.push_str(&format!("{this}: &{this} [{row}]\n"));
        }
        // By lines there is nothing of ours in it.
        assert_eq!(parse(&bomb), Ok(Header::default()));
        assert!(parse(&"x".repeat(LIMIT + 1)).is_err());
    }

    #[test]
    fn tools_are_taken_away_and_never_added() {
        let names = |list: &[&str]| Some(list.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
        assert_eq!(left("description: x\n"), None);
        assert_eq!(
            left("tools: Read, Grep, WebFetch, mcp__x__y\n"),
            names(&["Read", "Grep"])
        );
        assert_eq!(
            left("tools: [read_file, run_bash]\n"),
            names(&["Read", "Bash"])
        );
        assert_eq!(
            left("disallowedTools: Write, Edit\n"),
            names(&["Read", "Bash", "Glob", "Grep", "NotebookEdit"])
        );
        assert_eq!(
            left("tools: Read, Bash\ndisallowedTools: Bash\n"),
            names(&["Read"])
        );
        assert_eq!(
            left("tools: Read, Bash(git log:*, git diff)\n"),
            names(&["Read"])
        );
        assert_eq!(
            left("tools: '*'\ndisallowedTools: Bash(rm:*)\n").map(|l| l.len()),
            Some(6)
        );
        assert_eq!(left("tools: WebFetch\n"), names(&[]));
        assert_eq!(left("tools: []\n"), names(&[]));
        // Nothing written is nothing said, in YAML as by lines.
        assert_eq!(left("tools:\n"), None);
        assert_eq!(left("description: a: b\ntools:\n"), None);
    }
}

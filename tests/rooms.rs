//! The house holds: no arrow runs up, the jail crate stays what it is, files
//! stay readable.
//!
//! The arrows are read from the source text: every `crate::room` in the code
//! of another room, `use` groups included.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The rooms from the top floor to the ground; `src/lib.rs` and
/// `docs/ARCHITECTURE.md` say the same in words.
const FLOORS: &[&str] = &[
    "cli",
    "mcp",
    "hosts",
    "jobs",
    "run",
    "agents",
    "tools",
    "rehearsal",
    "provider",
    "journal",
    "egress",
    "workspace",
    "config",
    "store",
];

/// Most lines of a file.
const LONGEST: usize = 800;
/// Words in the first lines of a file that may be longer, with the reason.
const LONG_BECAUSE: &str = "long because";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below `dir`, sorted.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(dir) = todo.pop() {
        let Ok(entries) = fs::read_dir(&dir) else {
            continue;
        };
        for entry in entries {
            let path = entry.expect("a folder entry").path();
            if path.is_dir() {
                todo.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The text without comments. Strings stay: nothing in ours looks like an arrow.
fn code(text: &str) -> String {
    text.lines()
        .map(|line| line.find("//").map_or(line, |at| &line[..at]))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The rooms that a text names by `crate::`.
fn arrows(text: &str) -> BTreeSet<String> {
    let code = code(text);
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$' || c == ':') {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            found.extend(heads(group));
        } else {
            found.insert(ident(rest));
        }
    }
    found.remove("");
    found
}

fn ident(text: &str) -> String {
    text.chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect()
}

/// The first names of the parts of a `use` group.
fn heads(group: &str) -> Vec<String> {
    let mut heads = Vec::new();
    let mut depth = 0;
    let mut at_head = true;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => at_head = true,
            c if c.is_whitespace() => {}
            _ if at_head => {
                heads.push(ident(&group[at..]));
                at_head = false;
            }
            _ => {}
        }
    }
    heads
}

fn floor(room: &str) -> Option<usize> {
    FLOORS.iter().position(|name| *name == room)
}

/// What is wrong with the arrows of one file of a room.
fn violations(room: &str, file: &str, text: &str) -> Vec<String> {
    let Some(own) = floor(room) else {
        return vec![format!(
            "{file}: the room `{room}` stands on no floor; put it into FLOORS"
        )];
    };
    arrows(text)
        .into_iter()
        .filter(|other| other != room)
        .filter_map(|other| match floor(&other) {
            Some(theirs) if theirs > own => None,
            Some(_) => Some(format!(
                "{file}: `{room}` uses `{other}`, which stands above it"
            )),
            None => Some(format!("{file}: `crate::{other}` is no room")),
        })
        .collect()
}

/// The room of a file below `src`: its folder, or its name.
fn room_of(path: &Path) -> Option<String> {
    let rel = path.strip_prefix(root().join("src")).ok()?;
    let first = rel.components().next()?.as_os_str().to_str()?;
    let room = first.strip_suffix(".rs").unwrap_or(first);
    // The two roots belong to no room.
    (!matches!(room, "main" | "lib")).then(|| room.to_owned())
}

#[test]
fn no_arrow_runs_up() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for path in sources(&root().join("src")) {
        let Some(room) = room_of(&path) else {
            continue;
        };
        let text = fs::read_to_string(&path).expect("source");
        wrong.extend(violations(&room, &path.display().to_string(), &text));
        seen += 1;
    }
    assert!(seen > 20, "only {seen} files were looked at");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_planted_arrow_is_found() {
    for bad in [
        "use crate::cli::Args;",
        "use crate::{config::Config, run};",
        "use crate::{\n    config::{Config, Wire},\n    mcp::Server,\n};",
        "fn f() -> crate::run::RunSpec { todo() }",
        "pub use crate::nowhere::X;",
    ] {
        assert_eq!(violations("tools", "planted", bad).len(), 1, "{bad}");
    }
    for good in [
        "use crate::config::Config;",
        "use crate::{config::{Config, Wire}, provider::Image, tools::Own};",
        "// use crate::cli::Args;",
        "//! See [`crate::cli`].",
        "macro_rules! m { () => { $crate::cli::x() } }",
        "use some_crate::cli;",
        "pub(crate) fn f() {}",
    ] {
        assert_eq!(
            violations("tools", "planted", good),
            Vec::<String>::new(),
            "{good}"
        );
    }
    assert_eq!(violations("attic", "planted", "").len(), 1);
}

/// The part of a file before its tests.
fn before_tests(text: &str) -> &str {
    text.find("#[cfg(test)]").map_or(text, |at| &text[..at])
}

#[test]
fn the_jail_knows_no_runtime_no_environment_and_no_terminal() {
    let manifest = fs::read_to_string(root().join("jail/Cargo.toml")).expect("manifest");
    for crate_name in ["tokio", "reqwest", "rmcp", "futures", "anyhow", "clap"] {
        assert!(
            !manifest.contains(crate_name),
            "jail/Cargo.toml names {crate_name}"
        );
    }
    let forbidden = [
        "tokio::",
        "env::var",
        "println!",
        "eprintln!",
        "print!(",
        "eprint!(",
    ];
    for path in sources(&root().join("jail/src")) {
        if path.ends_with("tests.rs") || path.iter().any(|part| part == "tests") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("source");
        let code = code(before_tests(&text));
        for word in forbidden {
            assert!(!code.contains(word), "{}: {word}", path.display());
        }
    }
}

#[test]
fn files_stay_readable() {
    let mut long = Vec::new();
    for dir in ["src", "jail/src", "tests", "jail/tests", "benches"] {
        for path in sources(&root().join(dir)) {
            let text = fs::read_to_string(&path).expect("source");
            let lines = text.lines().count();
            let excused = text
                .lines()
                .take(20)
                .any(|line| line.contains(LONG_BECAUSE));
            if lines > LONGEST && !excused {
                long.push(format!("{}: {lines} lines", path.display()));
            }
        }
    }
    assert!(long.is_empty(), "split these:\n{}", long.join("\n"));
}

#[test]
fn the_library_declares_every_room_and_no_other() {
    let lib = fs::read_to_string(root().join("src/lib.rs")).expect("lib.rs");
    for line in code(&lib).lines() {
        if let Some(room) = line.trim().strip_prefix("pub mod ") {
            let room = room.trim_end_matches(';');
            assert!(floor(room).is_some(), "`{room}` stands on no floor");
        }
    }
}

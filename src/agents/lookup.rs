//! Finding and listing agent definitions.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::header::{self, Header, restrict};

/// Largest definition.
const LIMIT: u64 = 1 << 20;
/// Most characters of a description in a list.
const DESCRIPTION: usize = 200;

/// Where a definition was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// `<workdir>/.claude/agents/<name>.md`.
    ProjectAgent,
    /// `<workdir>/.claude/skills/<name>/SKILL.md`.
    ProjectSkill,
    /// `<agents dir>/<name>.md`.
    Global,
}

impl Source {
    /// The literal of `agent_source`.
    pub fn name(self) -> &'static str {
        match self {
            Source::ProjectAgent => "project-agent",
            Source::ProjectSkill => "project-skill",
            Source::Global => "global",
        }
    }
}

/// A definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Its name, that of its file.
    pub name: String,
    /// Everything below the header.
    pub body: String,
    /// The tools that it leaves; `None` when it restricts nothing.
    pub tools: Option<Vec<String>>,
    /// Where it was found.
    pub source: Source,
    /// Its file.
    pub path: PathBuf,
    /// What was not understood, one sentence each.
    pub notes: Vec<String>,
}

/// Why there is no definition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// No file of that name, or no name at all.
    #[error("agent `{}` not found; looked for {}", .name.escape_debug(), tried_text(.tried))]
    NotFound {
        /// As asked for.
        name: String,
        /// The files looked for, in order.
        tried: Vec<PathBuf>,
        /// Names that there are.
        available: Vec<String>,
    },
    /// The file is there and cannot be used.
    #[error("agent `{name}`: {} {why}; correct the file or remove it", path.display())]
    Unusable {
        /// Its name.
        name: String,
        /// Its file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

impl AgentError {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            AgentError::NotFound { .. } => "agent_not_found",
            AgentError::Unusable { .. } => "agent_unusable",
        }
    }
}

fn tried_text(tried: &[PathBuf]) -> String {
    let shown: Vec<String> = tried
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    if shown.is_empty() {
        "nothing: a name has letters, digits, `_` and `-` only".to_owned()
    } else {
        shown.join(", ")
    }
}

/// Whether all of `name` is letters, digits, `_` and `-`.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Finds the definition called `name`: project agent, project skill, global.
pub fn find(name: &str, workdir: &Path, agents_dir: &Path) -> Result<Agent, AgentError> {
    if !is_name(name) {
        return Err(AgentError::NotFound {
            name: name.to_owned(),
            tried: Vec::new(),
            available: names(agents_dir),
        });
    }
    let agent_file = PathBuf::from(format!(".claude/agents/{name}.md"));
    let skill_file = PathBuf::from(format!(".claude/skills/{name}/SKILL.md"));
    let global_file = agents_dir.join(format!("{name}.md"));
    let tiers = [
        (Source::ProjectAgent, workdir.join(&agent_file)),
        (Source::ProjectSkill, workdir.join(&skill_file)),
        (Source::Global, global_file),
    ];
    for (source, path) in &tiers {
        let opened = match source {
            Source::ProjectAgent => open_beneath(workdir, &agent_file),
            Source::ProjectSkill => open_beneath(workdir, &skill_file),
            // The user's own: may be a link to wherever they keep it.
            Source::Global => open(path),
        };
        let unusable = |why: String| AgentError::Unusable {
            name: name.to_owned(),
            path: path.clone(),
            why,
        };
        let file = match opened {
            Ok(file) => file,
            Err(error) if is_absent(&error) => continue,
            Err(error) => return Err(unusable(format!("cannot be opened: {error}"))),
        };
        let text = read(file).map_err(unusable)?;
        let (header, body) = header::split(&text);
        let header = header::parse(header.unwrap_or_default()).map_err(unusable)?;
        let Header {
            tools, disallowed, ..
        } = header;
        let (tools, notes) = restrict(
            tools.as_ref().map(|names| names.0.as_slice()),
            disallowed.as_ref().map(|names| names.0.as_slice()),
        );
        return Ok(Agent {
            name: name.to_owned(),
            body: body.to_owned(),
            tools,
            source: *source,
            path: path.clone(),
            notes,
        });
    }
    Err(AgentError::NotFound {
        name: name.to_owned(),
        tried: tiers.into_iter().map(|(_, path)| path).collect(),
        available: names(agents_dir),
    })
}

/// One line of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// At most 200 characters, on one line.
    pub description: String,
    /// The `model` of its header, which does not choose the model.
    pub declared_model: Option<String>,
    /// Its file.
    pub path: PathBuf,
}

/// The global definitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Sorted by name.
    pub agents: Vec<Listed>,
    /// Why there are none.
    pub error: Option<String>,
}

/// Lists the definitions of `agents_dir`.
pub fn list(agents_dir: &Path) -> Listing {
    let found = match entries(agents_dir) {
        Ok(found) => found,
        Err(error) => {
            return Listing {
                agents: Vec::new(),
                error: Some(format!("{}: {error}", agents_dir.display())),
            };
        }
    };
    let agents = found
        .into_iter()
        .map(|(name, path)| {
            let header = open(&path)
                .map_err(|error| error.to_string())
                .and_then(read)
                .and_then(|text| header::parse(header::split(&text).0.unwrap_or_default()));
            let (description, declared_model) = match header {
                Ok(header) => (header.description.unwrap_or_default(), header.model),
                Err(why) => (format!("(unusable: {why})"), None),
            };
            Listed {
                name,
                description: one_line(&description),
                declared_model,
                path,
            }
        })
        .collect();
    Listing {
        agents,
        error: None,
    }
}

fn one_line(text: &str) -> String {
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    joined
        .chars()
        .filter(|c| !c.is_control())
        .take(DESCRIPTION)
        .collect()
}

fn names(agents_dir: &Path) -> Vec<String> {
    let found = entries(agents_dir).unwrap_or_default();
    found.into_iter().map(|(name, _)| name).collect()
}

fn entries(agents_dir: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(agents_dir)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.strip_suffix(".md"));
        if let Some(name) = name.filter(|name| is_name(name)) {
            found.push((name.to_owned(), path.clone()));
        }
    }
    found.sort();
    Ok(found)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

const FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

fn open(path: &Path) -> io::Result<File> {
    Ok(rustix::fs::open(path, FLAGS, Mode::empty())?.into())
}

/// Opens a file of the project without leaving it: a link to a key file of the
/// user must not end up in a prompt.
fn open_beneath(workdir: &Path, rel: &Path) -> io::Result<File> {
    let dir = rustix::fs::openat(
        CWD,
        workdir,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    // EAGAIN: a rename somewhere raced with the look-up.
    for _ in 0..64 {
        match rustix::fs::openat2(
            &dir,
            rel.as_os_str().as_bytes(),
            FLAGS,
            Mode::empty(),
            resolve,
        ) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            done => return Ok(done?.into()),
        }
    }
    Err(Errno::AGAIN.into())
}

fn read(file: File) -> Result<String, String> {
    let facts = file.metadata().map_err(|error| error.to_string())?;
    if !facts.is_file() {
        return Err("is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(LIMIT + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.len() as u64 > LIMIT {
        return Err("is larger than 1 MiB".to_owned());
    }
    String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    struct Bench {
        dir: tempfile::TempDir,
    }

    impl Bench {
        fn new() -> Self {
            Bench {
                dir: tempfile::tempdir().expect("scratch"),
            }
        }

        fn put(&self, path: &str, text: &str) {
            let path = self.dir.path().join(path);
            fs::create_dir_all(path.parent().expect("parent")).expect("mkdir");
            fs::write(path, text).expect("write");
        }

        fn work(&self) -> PathBuf {
            self.dir.path().join("w")
        }

        fn global(&self) -> PathBuf {
            self.dir.path().join("g")
        }

        fn find(&self, name: &str) -> Result<Agent, AgentError> {
            fs::create_dir_all(self.work()).expect("mkdir");
            find(name, &self.work(), &self.global())
        }
    }

    #[test]
    fn the_first_tier_that_has_the_file_wins() {
        let bench = Bench::new();
        bench.put("w/.claude/agents/a.md", "one");
        bench.put("w/.claude/skills/a/SKILL.md", "two");
        bench.put("g/a.md", "---\ntools: Read\n---\nthree");
        for (expected, body, file) in [
            ("project-agent", "one", Some("w/.claude/agents/a.md")),
            ("project-skill", "two", Some("w/.claude/skills/a/SKILL.md")),
            ("global", "three", None),
        ] {
            let agent = bench.find("a").expect("found");
            assert_eq!((agent.source.name(), agent.body.as_str()), (expected, body));
            if let Some(file) = file {
                fs::remove_file(bench.dir.path().join(file)).expect("remove");
            }
        }
        assert_eq!(
            bench.find("a").expect("found").tools,
            Some(vec!["Read".into()])
        );
    }

    #[test]
    fn names_are_names_to_their_end() {
        let bench = Bench::new();
        bench.put("g/foo.md", "x");
        bench.put("g/x.md", "x");
        bench.put("x.md", "outside");
        for bad in [
            "../x", "a/b", "..", "", "foo\n", "foo.md", "fo o", "f\u{f6}o", "foo\0",
        ] {
            let error = bench.find(bad).expect_err(bad);
            assert_eq!(error.code(), "agent_not_found");
            assert!(matches!(&error, AgentError::NotFound { tried, .. } if tried.is_empty()));
        }
        assert!(bench.find("foo").is_ok());
    }

    #[test]
    fn an_unknown_name_lists_the_paths_and_what_there_is() {
        let bench = Bench::new();
        bench.put("g/b.md", "x");
        let error = bench.find("nope").expect_err("unknown");
        let text = error.to_string();
        for part in [
            ".claude/agents/nope.md",
            ".claude/skills/nope/SKILL.md",
            "g/nope.md",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(matches!(error, AgentError::NotFound { available, .. } if available == ["b"]));
    }

    #[test]
    fn a_project_cannot_point_its_agent_at_a_file_of_the_user() {
        let bench = Bench::new();
        bench.put("secret", "5ECRET");
        bench.put("w/docs/real.md", "inside");
        let dir = bench.work().join(".claude/agents");
        fs::create_dir_all(&dir).expect("mkdir");
        symlink(bench.dir.path().join("secret"), dir.join("evil.md")).expect("link");
        symlink("../../docs/real.md", dir.join("good.md")).expect("link");
        assert_eq!(
            bench.find("evil").expect_err("out").code(),
            "agent_unusable"
        );
        assert_eq!(bench.find("good").expect("in").body, "inside");
        // The twin: in the user's own folder a link is the user's choice.
        fs::create_dir_all(bench.global()).expect("mkdir");
        symlink(
            bench.dir.path().join("secret"),
            bench.global().join("mine.md"),
        )
        .expect("link");
        assert_eq!(bench.find("mine").expect("own").body, "5ECRET");
    }

    #[test]
    fn an_unusable_file_is_an_error_and_not_the_next_tier() {
        let bench = Bench::new();
        bench.put("g/a.md", "fine");
        bench.put(
            "w/.claude/agents/a.md",
            "---\nx: y: z\ntools: Read\ntools: Bash\n---\nb",
        );
        assert_eq!(bench.find("a").expect_err("twice").code(), "agent_unusable");
        fs::write(bench.work().join(".claude/agents/a.md"), [0xff, 0xfe]).expect("write");
        assert_eq!(bench.find("a").expect_err("bytes").code(), "agent_unusable");
    }

    #[test]
    fn the_list_is_sorted_and_its_lines_are_short() {
        let bench = Bench::new();
        let long = "d".repeat(300);
        bench.put(
            "g/b.md",
            &format!("---\ndescription: {long}\nmodel: opus\n---\n"),
        );
        bench.put("g/a.md", "---\ndescription: 'x\n\n  y'\n---\n");
        bench.put("g/notes.txt", "x");
        let listing = list(&bench.global());
        let names: Vec<_> = listing.agents.iter().map(|a| a.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(listing.agents[0].description, "x y");
        assert_eq!(listing.agents[1].description.len(), 200);
        assert_eq!(listing.agents[1].declared_model.as_deref(), Some("opus"));
        let none = list(&bench.dir.path().join("none"));
        assert!(none.agents.is_empty() && none.error.is_some());
    }
}

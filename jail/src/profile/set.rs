//! Where profiles come from, and how those that extend others are merged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::error::{Place, ProfileError};
use super::text::{self, EnvLines, GrantLine, Line, Single, ToolchainFile};
use super::values::Toolchains;
use crate::guarantee::{Guarantee, Strength};
use crate::policy::{Limits, Network, Observe, Relax};

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../profiles/", $name, ".toml")))),*]
    };
}

const PROFILES: &[(&str, &str)] = embedded![
    "base",
    "bash",
    "readonly",
    "tools",
    "tools-readonly",
    "worker"
];

const TOOLCHAINS: &[(&str, &str)] = embedded![
    "toolchains/asdf",
    "toolchains/bun",
    "toolchains/cargo",
    "toolchains/conda",
    "toolchains/deno",
    "toolchains/git",
    "toolchains/go",
    "toolchains/java",
    "toolchains/mise",
    "toolchains/node",
    "toolchains/python",
    "toolchains/ruby",
];

/// The text of a built-in profile.
pub fn builtin(name: &str) -> Option<&'static str> {
    PROFILES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}

/// A profile with everything that it extends merged in. Lists are joined,
/// parents first; a single value is that of the last who gave one.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// One line for people.
    pub about: String,
    /// The profiles it was made of, parents first, itself last.
    pub chain: Vec<String>,
    /// Toolchains it asks for.
    pub toolchains: Option<Toolchains>,
    /// Network mode.
    pub network: Network,
    /// What is recorded.
    pub observe: Observe,
    /// Loosened system calls.
    pub relax: Vec<Relax>,
    /// Wall-clock bound on a call.
    pub deadline_seconds: Option<u64>,
    /// Private folders.
    pub scratch: Vec<Line>,
    /// Private folders in the home directory.
    pub home_dirs: Vec<Line>,
    /// What stays as it is.
    pub protect: Vec<Line>,
    /// What is shown empty.
    pub hide: Vec<Line>,
    /// Environment.
    pub env: EnvLines,
    /// Bounds.
    pub limits: Limits,
    /// The least that is accepted of a backend.
    pub floor: BTreeMap<Guarantee, Strength>,
    /// Grants.
    pub grants: Vec<GrantLine>,
}

impl Profile {
    /// Whether any line speaks of the workspace.
    pub fn uses_workspace(&self) -> bool {
        let lists = [&self.scratch, &self.home_dirs, &self.protect, &self.hide];
        self.grants
            .iter()
            .map(|grant| &grant.path)
            .chain(lists.into_iter().flatten())
            .any(|line| line.text.contains("${WORKSPACE}"))
    }

    fn take(&mut self, single: Single) {
        self.chain.push(single.name.clone());
        self.name = single.name;
        self.about = single.about.unwrap_or_default();
        self.toolchains = single.toolchains.or(self.toolchains.take());
        self.network = single.network.unwrap_or(self.network);
        self.observe = single.observe.unwrap_or(self.observe);
        self.deadline_seconds = single.deadline_seconds.or(self.deadline_seconds);
        for relax in single.relax {
            if !self.relax.contains(&relax) {
                self.relax.push(relax);
            }
        }
        self.scratch.extend(single.scratch);
        self.home_dirs.extend(single.home_dirs);
        self.protect.extend(single.protect);
        self.hide.extend(single.hide);
        self.env.allow.extend(single.env.allow);
        self.env.set.extend(single.env.set);
        self.env.set_offline.extend(single.env.set_offline);
        self.floor.extend(single.floor);
        self.grants.extend(single.grants);
        let mine = &mut self.limits;
        let theirs = single.limits;
        mine.processes = theirs.processes.or(mine.processes);
        mine.address_space = theirs.address_space.or(mine.address_space);
        mine.memory = theirs.memory.or(mine.memory);
        mine.file_size = theirs.file_size.or(mine.file_size);
        mine.open_files = theirs.open_files.or(mine.open_files);
        mine.cpu_seconds = theirs.cpu_seconds.or(mine.cpu_seconds);
        mine.tmp_size = theirs.tmp_size.or(mine.tmp_size);
    }
}

/// The profiles and toolchains that exist: the built-in ones, and those in
/// folders that the caller names. A folder inside a workspace must never be
/// one of them.
#[derive(Clone, Debug, Default)]
pub struct ProfileSet {
    dirs: Vec<PathBuf>,
}

impl ProfileSet {
    /// Only what is built in.
    pub fn builtin() -> ProfileSet {
        ProfileSet::default()
    }

    /// Adds a folder with `NAME.toml` and `toolchains/NAME.toml` files. It need
    /// not exist.
    #[must_use]
    pub fn with_dir(mut self, dir: impl Into<PathBuf>) -> ProfileSet {
        self.dirs.push(dir.into());
        self
    }

    /// The names of all profiles, sorted.
    pub fn names(&self) -> Vec<String> {
        self.names_in(PROFILES, "")
    }

    /// The names of all toolchains, sorted.
    pub fn toolchain_names(&self) -> Vec<String> {
        self.names_in(TOOLCHAINS, "toolchains/")
    }

    /// Reads a profile and everything it extends.
    pub fn load(&self, name: &str) -> Result<Profile, ProfileError> {
        let mut profile = Profile::default();
        self.merge(name, &Place::request(), &mut Vec::new(), &mut profile)?;
        profile.name = name.to_owned();
        Ok(profile)
    }

    /// Reads a toolchain.
    pub fn toolchain(&self, name: &str) -> Result<ToolchainFile, ProfileError> {
        let unknown = || ProfileError::Toolchain {
            name: name.to_owned(),
            known: self.toolchain_names().join(", "),
        };
        if !is_name(name) {
            return Err(unknown());
        }
        let (file, text) = self
            .find(TOOLCHAINS, "toolchains/", name)?
            .ok_or_else(unknown)?;
        text::parse_toolchain(&file, name, &text)
    }

    fn merge(
        &self,
        name: &str,
        at: &Place,
        open: &mut Vec<String>,
        into: &mut Profile,
    ) -> Result<(), ProfileError> {
        if open.iter().any(|ancestor| ancestor == name) {
            let mut chain = open.clone();
            chain.push(name.to_owned());
            return Err(ProfileError::Cycle {
                at: at.clone(),
                chain: chain.join(" -> "),
            });
        }
        if into.chain.iter().any(|done| done == name) {
            return Ok(());
        }
        let single = self.single(name, at)?;
        open.push(name.to_owned());
        for parent in &single.extends {
            self.merge(&parent.text, &parent.at, open, into)?;
        }
        open.pop();
        into.take(single);
        Ok(())
    }

    fn single(&self, name: &str, at: &Place) -> Result<Single, ProfileError> {
        if !is_name(name) {
            return Err(ProfileError::Name {
                name: name.to_owned(),
            });
        }
        match self.find(PROFILES, "", name)? {
            Some((file, text)) => text::parse_profile(&file, name, &text),
            None if at.line > 0 => Err(ProfileError::Syntax {
                at: at.clone(),
                what: format!(
                    "extends {name:?}, which does not exist; there are: {}",
                    self.names().join(", ")
                ),
            }),
            None => Err(ProfileError::NotFound {
                name: name.to_owned(),
                known: self.names().join(", "),
            }),
        }
    }

    /// The file and text of a name. Built-in names cannot be replaced: a
    /// `bash` that means something else on one machine would deceive whoever
    /// reads a report.
    fn find(
        &self,
        table: &[(&str, &str)],
        prefix: &str,
        name: &str,
    ) -> Result<Option<(String, String)>, ProfileError> {
        let full = format!("{prefix}{name}");
        if let Some((_, text)) = table.iter().find(|(known, _)| *known == full) {
            return Ok(Some((format!("profiles/{full}.toml"), (*text).to_owned())));
        }
        for dir in &self.dirs {
            let path = dir.join(format!("{full}.toml"));
            match fs::read_to_string(&path) {
                Ok(text) => return Ok(Some((path.display().to_string(), text))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(ProfileError::Read { path, source }),
            }
        }
        Ok(None)
    }

    fn names_in(&self, table: &[(&str, &str)], prefix: &str) -> Vec<String> {
        let mut names: Vec<String> = table
            .iter()
            .filter_map(|(name, _)| name.strip_prefix(prefix))
            .map(str::to_owned)
            .collect();
        for dir in &self.dirs {
            names.extend(own_names(&dir.join(prefix)));
        }
        names.sort();
        names.dedup();
        names
    }
}

fn own_names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let name = name.strip_suffix(".toml")?;
            is_name(name).then(|| name.to_owned())
        })
        .collect()
}

/// Whether a name is safe to be a file name: no separators, no dots.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 64
        && name.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_')
        })
}

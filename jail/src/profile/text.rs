//! Profiles and toolchains as people write them: TOML, read strictly.
//!
//! Nothing here looks at the host. An unknown key is an error, and every grant
//! keeps the line it stands on, so that `explain` can show it.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, de::DeserializeOwned};
use toml::Spanned;

use super::error::{Place, ProfileError};
use super::values::{Bytes, Toolchains};
use crate::guarantee::{Guarantee, Strength};
use crate::policy::{Access, Limits, Network, Observe, Relax};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsText {
    processes: Option<u64>,
    address_space: Option<Bytes>,
    memory: Option<Bytes>,
    file_size: Option<Bytes>,
    open_files: Option<u64>,
    cpu_seconds: Option<u64>,
    tmp_size: Option<Bytes>,
}

impl LimitsText {
    fn limits(&self) -> Limits {
        let bytes = |value: Option<Bytes>| value.map(|Bytes(number)| number);
        Limits {
            processes: self.processes,
            address_space: bytes(self.address_space),
            memory: bytes(self.memory),
            file_size: bytes(self.file_size),
            open_files: self.open_files,
            cpu_seconds: self.cpu_seconds,
            tmp_size: bytes(self.tmp_size),
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GrantText {
    path: String,
    access: Spanned<String>,
    #[serde(default)]
    optional: bool,
    reason: String,
    /// Granted only while the network is in this mode.
    when_network: Option<Network>,
    /// Not granted when the file's text holds one of these words.
    #[serde(default)]
    unless_mentions: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct EnvText {
    #[serde(default)]
    allow: Vec<String>,
    #[serde(default)]
    set: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    set_offline: BTreeMap<String, Spanned<String>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileText {
    name: Spanned<String>,
    about: Option<String>,
    #[serde(default)]
    extends: Vec<Spanned<String>>,
    toolchains: Option<Toolchains>,
    network: Option<Network>,
    observe: Option<Observe>,
    #[serde(default)]
    relax: Vec<Relax>,
    deadline_seconds: Option<u64>,
    #[serde(default)]
    scratch: Vec<Spanned<String>>,
    #[serde(default)]
    home_dirs: Vec<Spanned<String>>,
    #[serde(default)]
    protect: Vec<Spanned<String>>,
    #[serde(default)]
    hide: Vec<Spanned<String>>,
    #[serde(default)]
    env: EnvText,
    #[serde(default)]
    limits: LimitsText,
    #[serde(default)]
    floor: BTreeMap<Guarantee, Strength>,
    #[serde(default)]
    grant: Vec<Spanned<GrantText>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolchainText {
    name: Spanned<String>,
    about: String,
    #[serde(default)]
    programs: Vec<String>,
    #[serde(default)]
    root: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    owns: Vec<Spanned<String>>,
    #[serde(default)]
    markers: Vec<String>,
    #[serde(default)]
    home_dirs: Vec<Spanned<String>>,
    #[serde(default)]
    hide: Vec<Spanned<String>>,
    #[serde(default)]
    env: EnvText,
    #[serde(default)]
    grant: Vec<Spanned<GrantText>>,
}

/// A piece of text with the place it stands at; variables not yet expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// As written.
    pub text: String,
    /// File and line.
    pub at: Place,
    /// Profile name or `toolchain NAME`, as reports show it.
    pub source: String,
}

/// One `[[grant]]` as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantLine {
    /// Path, variables not yet expanded; the last component may hold `*`.
    pub path: Line,
    /// What may be done.
    pub access: Access,
    /// Whether a missing path is passed over.
    pub optional: bool,
    /// Why.
    pub reason: String,
    /// Only while the network is in this mode.
    pub when_network: Option<Network>,
    /// Not when the file's text holds one of these words.
    pub unless_mentions: Vec<String>,
}

/// The environment that a profile or a toolchain asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvLines {
    /// Names passed from the user's environment; `*` at the end matches more.
    pub allow: Vec<String>,
    /// Set to these values.
    pub set: Vec<(String, Line)>,
    /// Set to these values while the network is off.
    pub set_offline: Vec<(String, Line)>,
}

/// One profile file, by itself: what it extends is not merged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Single {
    pub name: String,
    pub about: Option<String>,
    pub extends: Vec<Line>,
    pub toolchains: Option<Toolchains>,
    pub network: Option<Network>,
    pub observe: Option<Observe>,
    pub relax: Vec<Relax>,
    pub deadline_seconds: Option<u64>,
    pub scratch: Vec<Line>,
    pub home_dirs: Vec<Line>,
    pub protect: Vec<Line>,
    pub hide: Vec<Line>,
    pub env: EnvLines,
    pub limits: Limits,
    pub floor: BTreeMap<Guarantee, Strength>,
    pub grants: Vec<GrantLine>,
}

/// One toolchain file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolchainFile {
    /// Its name.
    pub name: String,
    /// One line for people.
    pub about: String,
    /// Programs whose presence on `PATH` means that it is in use.
    pub programs: Vec<String>,
    /// Folders that the environment may move: variable and default.
    pub root: Vec<(String, Line)>,
    /// Folders whose program folders belong to it.
    pub owns: Vec<Line>,
    /// A file that marks `DIR` as its own when `DIR/bin` is on `PATH`.
    pub markers: Vec<String>,
    /// Private writable folders.
    pub home_dirs: Vec<Line>,
    /// Shown empty.
    pub hide: Vec<Line>,
    /// Environment.
    pub env: EnvLines,
    /// Grants.
    pub grants: Vec<GrantLine>,
}

/// One file under reading: turns spans into lines.
struct Source<'a> {
    file: &'a str,
    text: &'a str,
    label: String,
}

impl Source<'_> {
    fn place(&self, span: Range<usize>) -> Place {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let newlines = before.bytes().filter(|byte| *byte == b'\n').count();
        Place {
            file: self.file.to_owned(),
            line: u32::try_from(newlines + 1).unwrap_or(u32::MAX),
        }
    }

    fn line(&self, spanned: &Spanned<String>) -> Line {
        Line {
            text: spanned.get_ref().clone(),
            at: self.place(spanned.span()),
            source: self.label.clone(),
        }
    }

    fn lines(&self, list: &[Spanned<String>]) -> Vec<Line> {
        list.iter().map(|item| self.line(item)).collect()
    }

    fn pairs(&self, map: &BTreeMap<String, Spanned<String>>) -> Vec<(String, Line)> {
        map.iter()
            .map(|(name, value)| (name.clone(), self.line(value)))
            .collect()
    }

    fn env(&self, text: &EnvText) -> EnvLines {
        EnvLines {
            allow: text.allow.clone(),
            set: self.pairs(&text.set),
            set_offline: self.pairs(&text.set_offline),
        }
    }

    fn grants(&self, list: &[Spanned<GrantText>]) -> Result<Vec<GrantLine>, ProfileError> {
        list.iter()
            .map(|spanned| {
                let text = spanned.get_ref();
                let access =
                    text.access
                        .get_ref()
                        .parse()
                        .map_err(|what| ProfileError::Syntax {
                            at: self.place(text.access.span()),
                            what,
                        })?;
                Ok(GrantLine {
                    path: Line {
                        text: text.path.clone(),
                        at: self.place(spanned.span()),
                        source: self.label.clone(),
                    },
                    access,
                    optional: text.optional,
                    reason: text.reason.clone(),
                    when_network: text.when_network,
                    unless_mentions: text.unless_mentions.clone(),
                })
            })
            .collect()
    }
}

fn read<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, ProfileError> {
    toml::from_str(text).map_err(|error| {
        let source = Source {
            file,
            text,
            label: String::new(),
        };
        ProfileError::Syntax {
            at: source.place(error.span().unwrap_or(0..0)),
            what: error.message().to_owned(),
        }
    })
}

/// The name in a file has to be that of the file: one name, one place.
fn check_name(
    source: &Source<'_>,
    written: &Spanned<String>,
    want: &str,
) -> Result<(), ProfileError> {
    if written.get_ref() == want {
        return Ok(());
    }
    Err(ProfileError::Syntax {
        at: source.place(written.span()),
        what: format!(
            "the name is {:?} but the file is called {want}.toml",
            written.get_ref()
        ),
    })
}

/// Reads one profile file.
pub(super) fn parse_profile(file: &str, name: &str, text: &str) -> Result<Single, ProfileError> {
    let parsed: ProfileText = read(file, text)?;
    let source = Source {
        file,
        text,
        label: name.to_owned(),
    };
    check_name(&source, &parsed.name, name)?;
    Ok(Single {
        name: name.to_owned(),
        about: parsed.about,
        extends: source.lines(&parsed.extends),
        toolchains: parsed.toolchains,
        network: parsed.network,
        observe: parsed.observe,
        relax: parsed.relax,
        deadline_seconds: parsed.deadline_seconds,
        scratch: source.lines(&parsed.scratch),
        home_dirs: source.lines(&parsed.home_dirs),
        protect: source.lines(&parsed.protect),
        hide: source.lines(&parsed.hide),
        env: source.env(&parsed.env),
        limits: parsed.limits.limits(),
        floor: parsed.floor,
        grants: source.grants(&parsed.grant)?,
    })
}

/// Reads one toolchain file.
pub(crate) fn parse_toolchain(
    file: &str,
    name: &str,
    text: &str,
) -> Result<ToolchainFile, ProfileError> {
    let parsed: ToolchainText = read(file, text)?;
    let source = Source {
        file,
        text,
        label: format!("toolchain {name}"),
    };
    check_name(&source, &parsed.name, name)?;
    Ok(ToolchainFile {
        name: name.to_owned(),
        about: parsed.about,
        programs: parsed.programs,
        root: source.pairs(&parsed.root),
        owns: source.lines(&parsed.owns),
        markers: parsed.markers,
        home_dirs: source.lines(&parsed.home_dirs),
        hide: source.lines(&parsed.hide),
        env: source.env(&parsed.env),
        grants: source.grants(&parsed.grant)?,
    })
}

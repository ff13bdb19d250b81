//! Toolchains: what the programs on a user's `PATH` need in order to run.
//!
//! What each needs is data (`profiles/toolchains/*.toml`); this room finds out
//! which are in use and grants them, read and execute only. A folder of `PATH`
//! that lies inside a writable grant could have been filled by an earlier
//! jailed call, so nothing in it ever leads to a grant.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use crate::policy::{Access, Kind, Origin};
use crate::profile::{
    EnvLines, Place, ProfileError, ProfileSet, ToolchainFile, Toolchains, Variables,
};
use crate::resolve::{Ask, Asker, Draft, Found, Home, Host, walk};

/// Links looked at in one folder of `PATH`.
const MOST_PROGRAMS: usize = 8192;

/// One toolchain on this host.
struct Toolchain {
    file: ToolchainFile,
    vars: Variables,
    owns: Vec<PathBuf>,
    active: bool,
}

/// Every toolchain that is known, and which are in use.
pub(crate) struct Chosen {
    all: Vec<Toolchain>,
    auto: bool,
}

impl Chosen {
    /// Reads the toolchains and chooses: those that `asked` or `also` name,
    /// and with `auto` those in use.
    pub(crate) fn new(
        set: &ProfileSet,
        asked: Option<&Toolchains>,
        also: &[String],
        vars: &Variables,
        host: &Host,
    ) -> Result<Chosen, ProfileError> {
        let auto = asked == Some(&Toolchains::Auto) || also.iter().any(|name| name == "auto");
        let mut named: Vec<&str> = also
            .iter()
            .map(String::as_str)
            .filter(|name| *name != "auto")
            .collect();
        if let Some(Toolchains::Named(names)) = asked {
            named.extend(names.iter().map(String::as_str));
        }
        for name in &named {
            set.toolchain(name)?;
        }
        let folders: Vec<PathBuf> = host
            .path
            .iter()
            .filter_map(|dir| walk(dir).ok())
            .map(|found| found.path)
            .collect();
        let mut all = Vec::new();
        if auto || !named.is_empty() {
            for name in set.toolchain_names() {
                let mut toolchain = Toolchain::new(set.toolchain(&name)?, vars, host)?;
                toolchain.active =
                    named.contains(&name.as_str()) || (auto && toolchain.in_use(&folders));
                all.push(toolchain);
            }
        }
        Ok(Chosen { all, auto })
    }

    /// The names of those in use.
    pub(crate) fn names(&self) -> Vec<String> {
        self.active()
            .map(|toolchain| toolchain.file.name.clone())
            .collect()
    }

    /// Whether one is in use.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.active().any(|toolchain| toolchain.file.name == name)
    }

    /// The environments they ask for, each with its variables.
    pub(crate) fn env(&self) -> impl Iterator<Item = (&EnvLines, &Variables)> {
        self.active()
            .map(|toolchain| (&toolchain.file.env, &toolchain.vars))
    }

    /// Adds the private folders of those in use; before any grant.
    pub(crate) fn homes(&self, home: &Home, draft: &mut Draft<'_>) -> Result<(), ProfileError> {
        for toolchain in self.active() {
            home.add(&toolchain.file.home_dirs, &toolchain.vars, draft)?;
        }
        Ok(())
    }

    /// Adds the grants of those in use.
    pub(crate) fn grants(&self, draft: &mut Draft<'_>) -> Result<(), ProfileError> {
        for toolchain in self.active() {
            toolchain.grant(draft)?;
        }
        Ok(())
    }

    fn active(&self) -> impl Iterator<Item = &Toolchain> {
        self.all.iter().filter(|toolchain| toolchain.active)
    }

    /// Goes through the folders of `PATH`: grants those that may be, follows
    /// the links in them, and gives the value of `PATH` inside.
    pub(crate) fn path(
        &mut self,
        host: &Host,
        home: &Home,
        draft: &mut Draft<'_>,
    ) -> Result<Vec<PathBuf>, ProfileError> {
        let mut kept: Vec<PathBuf> = Vec::new();
        for folder in &host.path {
            if !folder.is_absolute() || kept.contains(folder) {
                continue;
            }
            let Ok(found) = walk(folder) else {
                continue;
            };
            if found.kind != Kind::Dir {
                continue;
            }
            if self.auto && !runs(draft, &found.path) {
                self.folder(folder, &found, home, draft)?;
            }
            // Recorded even where the folder was granted before: its spelling
            // has to work inside.
            let Some(inside) = draft.place(&found) else {
                continue;
            };
            if runs(draft, &inside) {
                kept.push(folder.clone());
                if self.auto && !untrusted(draft, &found) {
                    self.links(&found.path, home, draft)?;
                }
            }
        }
        Ok(kept)
    }

    /// Grants one folder of `PATH` that nothing covers yet, or notes why not.
    fn folder(
        &mut self,
        spelled: &Path,
        found: &Found,
        home: &Home,
        draft: &mut Draft<'_>,
    ) -> Result<(), ProfileError> {
        if untrusted(draft, found) {
            draft.note(
                "path_folder_skipped",
                format!(
                    "{} is reached through a folder that jailed calls can write",
                    spelled.display()
                ),
            );
            return Ok(());
        }
        if self.activate_owner(&found.path, home, draft)? && runs(draft, &found.path) {
            return Ok(());
        }
        let (dir, source, reason) = if let Some((root, name)) = self.marked(&found.path) {
            (
                root,
                format!("toolchain {name}"),
                "an environment of this toolchain on PATH",
            )
        } else if is_plain_bin(&found.path) {
            (
                found.path.clone(),
                "PATH".to_owned(),
                "a folder of programs on PATH",
            )
        } else {
            draft.note(
                "path_folder_skipped",
                format!(
                    "{} is on PATH but belongs to no known toolchain and is not called bin; --allow execute:{} grants it",
                    spelled.display(),
                    spelled.display()
                ),
            );
            return Ok(());
        };
        draft.grant(ask(dir, source, reason))?;
        Ok(())
    }

    /// Follows the symbolic links in a folder of programs, so that each runs.
    fn links(
        &mut self,
        folder: &Path,
        home: &Home,
        draft: &mut Draft<'_>,
    ) -> Result<(), ProfileError> {
        let Ok(entries) = fs::read_dir(folder) else {
            return Ok(());
        };
        let mut links: Vec<PathBuf> = entries
            .flatten()
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()))
            .map(|entry| entry.path())
            .take(MOST_PROGRAMS)
            .collect();
        links.sort();
        for link in links {
            let Ok(found) = walk(&link) else {
                continue;
            };
            if untrusted(draft, &found) || found.kind != Kind::File || !is_program(&found.path) {
                continue;
            }
            if !runs(draft, &found.path) && !self.activate_owner(&found.path, home, draft)? {
                draft.grant(ask(
                    link,
                    "PATH".to_owned(),
                    "a program that a link on PATH names",
                ))?;
            }
            if runs(draft, &found.path) {
                draft.place(&found);
            }
        }
        Ok(())
    }

    /// Puts the toolchain that owns `path` to use, if there is one.
    fn activate_owner(
        &mut self,
        path: &Path,
        home: &Home,
        draft: &mut Draft<'_>,
    ) -> Result<bool, ProfileError> {
        let owner = self.all.iter_mut().find(|toolchain| toolchain.owns(path));
        let Some(owner) = owner else {
            return Ok(false);
        };
        if !owner.active {
            owner.active = true;
            home.add(&owner.file.home_dirs, &owner.vars, draft)?;
            owner.grant(draft)?;
        }
        Ok(runs(draft, path))
    }

    /// The environment that `bin` belongs to, by a marker file beside it.
    fn marked(&self, bin: &Path) -> Option<(PathBuf, String)> {
        let root = bin.parent()?;
        self.all
            .iter()
            .find(|toolchain| {
                toolchain
                    .file
                    .markers
                    .iter()
                    .any(|marker| root.join(marker).exists())
            })
            .map(|toolchain| (root.to_path_buf(), toolchain.file.name.clone()))
    }
}

impl Toolchain {
    fn new(
        mut file: ToolchainFile,
        vars: &Variables,
        host: &Host,
    ) -> Result<Toolchain, ProfileError> {
        let mut vars = vars.clone();
        for (name, default) in &file.root {
            let moved = host
                .env
                .iter()
                .find(|(key, _)| key == name.as_str())
                .map(|(_, value)| PathBuf::from(value))
                .filter(|path| {
                    path.is_absolute()
                        && !path.components().any(|part| part == Component::ParentDir)
                });
            let value = match moved {
                Some(path) => path,
                None => vars.path(default)?,
            };
            // A program told of a root that is not there takes it for broken.
            if !value.exists() {
                file.env.set.retain(|(set, _)| set != name);
            }
            vars.set(name, value);
        }
        let owns = file
            .owns
            .iter()
            .map(|line| vars.path(line))
            .collect::<Result<Vec<_>, _>>()?
            .into_iter()
            .filter_map(|path| walk(&path).ok())
            .map(|found| found.path)
            .collect();
        Ok(Toolchain {
            file,
            vars,
            owns,
            active: false,
        })
    }

    /// Whether a folder of `PATH` is its own, or holds one of its programs.
    fn in_use(&self, folders: &[PathBuf]) -> bool {
        folders.iter().any(|folder| {
            self.owns(folder)
                || self
                    .file
                    .programs
                    .iter()
                    .any(|program| is_program(&folder.join(program)))
        })
    }

    fn owns(&self, path: &Path) -> bool {
        self.owns.iter().any(|root| path.starts_with(root))
    }

    fn grant(&self, draft: &mut Draft<'_>) -> Result<(), ProfileError> {
        draft.lines(&self.file.grants, &self.vars, Asker::Host)?;
        for line in &self.file.hide {
            draft.hide(&self.vars.path(line)?);
        }
        Ok(())
    }
}

fn ask(path: PathBuf, source: String, reason: &str) -> Ask {
    Ask {
        path,
        access: Access::READ | Access::EXECUTE,
        optional: true,
        origin: Origin {
            source,
            line: 0,
            reason: reason.to_owned(),
        },
        at: Place::request(),
        asker: Asker::Host,
    }
}

/// Whether programs in or at `path` run under the grants so far.
fn runs(draft: &Draft<'_>, path: &Path) -> bool {
    draft.given(path).contains(Access::EXECUTE)
}

/// Whether the object, or a link on the way to it, lies where jailed calls can
/// write: then what it leads to was perhaps chosen by one.
fn untrusted(draft: &Draft<'_>, found: &Found) -> bool {
    let writable = |path: &Path| draft.given(path).contains(Access::WRITE);
    writable(&found.path) || found.hops.iter().any(|hop| writable(&hop.link.path))
}

/// A folder that by its name holds programs and nothing else.
fn is_plain_bin(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name == "bin" || name == "sbin")
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

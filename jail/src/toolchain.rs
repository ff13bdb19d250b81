//! Toolchains: what the programs on a user's `PATH` need in order to run.
//!
//! What each needs is data (`profiles/toolchains/*.toml`); this room finds out
//! which are in use and grants them, read and execute only. A folder of `PATH`
//! that lies inside a writable grant could have been filled by an earlier
//! jailed call, so nothing in it ever leads to a grant.

mod path;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use crate::policy::Access;
use crate::profile::{EnvLines, ProfileError, ProfileSet, ToolchainFile, Toolchains, Variables};
use crate::resolve::{Asker, Draft, Home, Host, walk};

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

    fn active(&self) -> impl Iterator<Item = &Toolchain> {
        self.all.iter().filter(|toolchain| toolchain.active)
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

/// Whether programs in or at `path` run under the grants so far.
fn runs(draft: &Draft<'_>, path: &Path) -> bool {
    draft.given(path).contains(Access::EXECUTE)
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

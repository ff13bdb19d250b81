//! The folders of `PATH`: which are granted, and what the links in them need.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::{Chosen, is_program, runs};
use crate::policy::{Access, Kind, Origin};
use crate::profile::{Place, ProfileError};
use crate::resolve::{Ask, Asker, Draft, Found, Home, Host, walk};

/// Links looked at in one folder of `PATH`.
const MOST_PROGRAMS: usize = 8192;

impl Chosen {
    /// Goes through the folders of `PATH`: grants those that may be, follows
    /// the links in them, and gives the value of `PATH` inside.
    pub(crate) fn path(
        &mut self,
        host: &Host,
        home: &Home,
        draft: &mut Draft<'_>,
    ) -> Result<Vec<PathBuf>, ProfileError> {
        let mut kept: Vec<PathBuf> = Vec::new();
        let mut seen = Seen::default();
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
                // /bin and /usr/bin are one folder on most hosts.
                let new = !seen.dirs.contains(&found.path);
                if self.auto && new && !untrusted(draft, &found) {
                    self.links(&found.path, &mut seen, home, draft)?;
                    seen.dirs.push(found.path);
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
        seen: &mut Seen,
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
            if seen.runs_plainly(&link, draft) {
                continue;
            }
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

/// What was looked at while going through `PATH`: system folders hold hundreds
/// of links, nearly all to a neighbour or through /etc/alternatives.
#[derive(Default)]
struct Seen {
    /// Folders whose links were followed.
    dirs: Vec<PathBuf>,
    /// Whether a folder is canonical, shown by a grant, and written by nobody
    /// in the jail.
    shown: BTreeMap<PathBuf, bool>,
}

impl Seen {
    /// Whether a link (its folder canonical) leads to a program that runs
    /// already, through folders that the jail shows as they are. `false` means
    /// only that it has to be looked at closely.
    fn runs_plainly(&mut self, link: &Path, draft: &Draft<'_>) -> bool {
        let mut at = link.to_path_buf();
        for _ in 0..4 {
            let target = match at.read_link() {
                Ok(target) => target,
                // Not a link: the end of the way.
                Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => {
                    return runs(draft, &at);
                }
                Err(_) => return false,
            };
            at.pop();
            for part in target.components() {
                match part {
                    Component::RootDir => at = PathBuf::from("/"),
                    Component::ParentDir => {
                        at.pop();
                    }
                    Component::Normal(name) => at.push(name),
                    Component::CurDir | Component::Prefix(_) => {}
                }
            }
            let Some(dir) = at.parent() else {
                return false;
            };
            if !self.is_shown(dir, draft) {
                return false;
            }
        }
        false
    }

    fn is_shown(&mut self, dir: &Path, draft: &Draft<'_>) -> bool {
        if let Some(known) = self.shown.get(dir) {
            return *known;
        }
        let given = draft.given(dir);
        let shown = !given.is_empty()
            && !given.contains(Access::WRITE)
            && walk(dir).is_ok_and(|found| found.path == dir);
        self.shown.insert(dir.to_path_buf(), shown);
        shown
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

//! A policy's paths while they are collected: each canonical, judged, merged.
//!
//! Grants add up: a path below a granted folder has at least what the folder
//! has, as in the kernel's rule sets, so that every form of a backend means the
//! same. Only `protect` and `hide` take away.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::Note;
use super::canonical::{Found, settle, walk};
use super::credentials::Credentials;
use super::files::{globbed, mentions};
use crate::policy::{Access, Grant, Kind, Link, Network, Origin, Protect};
use crate::profile::{GrantLine, Line, Place, ProfileError, Variables};

/// Who asks for a grant, which decides what is refused and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A profile: what is refused is an error in it.
    Profile,
    /// A toolchain or a folder of `PATH`: what is refused is left out and noted.
    Host,
    /// A person, by the exact path: secrets are allowed, home is not.
    Person,
}

/// One path to grant.
pub(crate) struct Ask {
    pub path: PathBuf,
    pub access: Access,
    pub optional: bool,
    pub origin: Origin,
    pub at: Place,
    pub asker: Asker,
}

/// The collection.
pub(crate) struct Draft<'a> {
    pub grants: BTreeMap<PathBuf, Grant>,
    pub links: BTreeSet<Link>,
    pub scratch: BTreeSet<PathBuf>,
    pub protect: BTreeMap<PathBuf, Protect>,
    pub hide: BTreeSet<PathBuf>,
    pub notes: Vec<Note>,
    /// Private folders: what lies at or below is shown there, never elsewhere.
    pub private: BTreeSet<PathBuf>,
    pub homes: Vec<PathBuf>,
    pub credentials: &'a Credentials,
    pub network: Network,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(homes: Vec<PathBuf>, credentials: &'a Credentials, network: Network) -> Self {
        Draft {
            grants: BTreeMap::new(),
            links: BTreeSet::new(),
            scratch: BTreeSet::new(),
            protect: BTreeMap::new(),
            hide: BTreeSet::new(),
            notes: Vec::new(),
            private: BTreeSet::new(),
            homes,
            credentials,
            network,
        }
    }

    /// Adds the grants of a profile or a toolchain.
    pub(crate) fn lines(
        &mut self,
        lines: &[GrantLine],
        vars: &Variables,
        asker: Asker,
    ) -> Result<(), ProfileError> {
        for line in lines {
            if line.when_network.is_some_and(|mode| mode != self.network) {
                continue;
            }
            let paths = globbed(&vars.path(&line.path)?);
            for path in paths {
                if let Some(word) = mentions(&path, &line.unless_mentions) {
                    self.note(
                        "secret_suspected",
                        format!("{} mentions {word:?}, so it is not shown", path.display()),
                    );
                    continue;
                }
                self.grant(Ask {
                    path,
                    access: line.access,
                    optional: line.optional,
                    origin: origin(&line.path, &line.reason),
                    at: line.path.at.clone(),
                    asker,
                })?;
            }
        }
        Ok(())
    }

    /// Grants one path. Gives where it is seen inside, or `None` when it was
    /// left out.
    pub(crate) fn grant(&mut self, ask: Ask) -> Result<Option<PathBuf>, ProfileError> {
        let found = match walk(&ask.path) {
            Ok(found) => found,
            Err(_) if ask.optional => {
                self.note(
                    "optional_missing",
                    format!(
                        "{} is not on this host ({})",
                        ask.path.display(),
                        ask.origin.source
                    ),
                );
                return Ok(None);
            }
            Err(source) => {
                return Err(ProfileError::Missing {
                    at: ask.at,
                    path: ask.path,
                    source,
                });
            }
        };
        if let Some(why) = self.refusal(&found.path, ask.asker) {
            if ask.asker == Asker::Host {
                self.note(
                    "grant_refused",
                    format!("{} is left out: {why}", ask.path.display()),
                );
                return Ok(None);
            }
            return Err(ProfileError::Refused {
                at: ask.at,
                path: ask.path,
                why,
            });
        }
        let Some(inside) = self.place(&found) else {
            self.note(
                "grant_refused",
                format!(
                    "{} is left out: it leads through a link in a private folder",
                    ask.path.display()
                ),
            );
            return Ok(None);
        };
        let source = (inside != found.path).then_some(found.path);
        self.insert(
            Grant {
                path: inside.clone(),
                source,
                access: ask.access,
                kind: found.kind,
                dev: found.dev,
                ino: found.ino,
                origin: ask.origin,
            },
            ask.asker,
        );
        Ok(Some(inside))
    }

    /// Remembers the links of a walk and says where its object is seen. A link
    /// that a private folder covers cannot exist in the jail, so the object is
    /// shown in its place.
    pub(crate) fn place(&mut self, found: &Found) -> Option<PathBuf> {
        for hop in &found.hops {
            let link = &hop.link.path;
            let covered = self
                .private
                .iter()
                .any(|dir| link.starts_with(dir) || dir.starts_with(link));
            if covered {
                let plain = hop
                    .rest
                    .components()
                    .all(|part| matches!(part, std::path::Component::Normal(_)));
                return plain.then(|| hop.link.path.join(&hop.rest));
            }
            self.links.insert(hop.link.clone());
        }
        Some(found.path.clone())
    }

    /// Why a canonical path cannot be granted, if it cannot.
    fn refusal(&self, path: &Path, asker: Asker) -> Option<String> {
        if path.parent().is_none() {
            return Some(
                "it is the whole file system; grant the folders that are needed".to_owned(),
            );
        }
        if let Some(home) = self.homes.iter().find(|home| home.starts_with(path)) {
            return Some(if home == path {
                "it is the home directory; grant the folders in it that are needed".to_owned()
            } else {
                "it holds the home directory; grant the folders in it that are needed".to_owned()
            });
        }
        if path.starts_with("/proc") {
            return Some("a jail has its own /proc".to_owned());
        }
        if path.starts_with("/sys") {
            return Some(
                "it is the kernel's own; programs find the CPUs in it as it is".to_owned(),
            );
        }
        let secret = match asker {
            Asker::Person => None,
            Asker::Profile | Asker::Host => self.credentials.forbid(path),
        };
        secret.map(|secret| {
            format!(
                "{} holds secrets; only `--allow read:{}` on the command line opens it",
                secret.display(),
                path.display()
            )
        })
    }

    fn insert(&mut self, grant: Grant, asker: Asker) {
        let path = grant.path.clone();
        let Some(old) = self.grants.get_mut(&path) else {
            if asker == Asker::Person {
                self.scratch.remove(&path);
            } else if self.scratch.contains(&path) {
                // A private folder of that name was asked for; it stays private.
                return;
            }
            self.grants.insert(path, grant);
            return;
        };
        if old.host_path() == grant.host_path() {
            if !old.access.contains(grant.access) {
                let before = std::mem::replace(&mut old.origin, grant.origin);
                if !grant.access.contains(old.access) {
                    old.origin
                        .reason
                        .push_str(&format!("; {} by {}", old.access, before.source));
                }
                old.access |= grant.access;
            }
        } else if asker == Asker::Person {
            *old = grant;
        }
    }

    /// Adds a folder that is private, writable and empty at first.
    pub(crate) fn scratch(&mut self, path: &Path) {
        if let Ok(found) = walk(path) {
            self.links
                .extend(found.hops.into_iter().map(|hop| hop.link));
            self.scratch.insert(found.path);
        } else {
            self.scratch.insert(settle(path));
        }
    }

    /// Protects a path, when it exists and a grant would let it be changed.
    pub(crate) fn protect(&mut self, path: &Path, pin_only: bool, origin: Origin) {
        let Ok(found) = walk(path) else {
            return;
        };
        let protect = Protect {
            path: found.path.clone(),
            pin_only,
            origin,
        };
        self.protect
            .entry(found.path)
            .and_modify(|old| old.pin_only &= pin_only)
            .or_insert(protect);
    }

    /// Shows a path empty, when it exists.
    pub(crate) fn hide(&mut self, path: &Path) {
        if let Ok(found) = walk(path) {
            self.hide.insert(found.path);
        }
    }

    pub(crate) fn note(&mut self, code: &'static str, text: String) {
        self.notes.push(Note { code, text });
    }

    /// What a path (canonical, as seen inside) has so far.
    pub(crate) fn given(&self, path: &Path) -> Access {
        path.ancestors()
            .find_map(|ancestor| {
                let grant = self.grants.get(ancestor)?;
                (grant.kind == Kind::Dir || ancestor == path).then_some(grant.access)
            })
            .unwrap_or(Access::empty())
    }

    /// Ends the collection: unites nested grants, drops what adds nothing,
    /// keeps only links that no granted folder shows by itself, hides the
    /// secrets that granted folders hold, and drops protection of what nobody
    /// can write.
    pub(crate) fn finish(&mut self) {
        let mut kept: Vec<Grant> = Vec::new();
        for mut grant in std::mem::take(&mut self.grants).into_values() {
            if let Some(parent) = self.parent(&kept, &grant) {
                let united = grant.access | parent.access;
                if united == parent.access {
                    if grant.origin.source == "command line" {
                        self.note(
                            "grant_redundant",
                            format!(
                                "{} is already covered by {} ({})",
                                grant.path.display(),
                                parent.path.display(),
                                parent.access
                            ),
                        );
                    }
                    continue;
                }
                grant.access = united;
            }
            kept.push(grant);
        }
        for grant in &kept {
            if grant.kind == Kind::Dir && grant.source.is_none() {
                self.hide.extend(self.credentials.inside(&grant.path));
            }
        }
        self.grants = kept
            .into_iter()
            .map(|grant| (grant.path.clone(), grant))
            .collect();
        let grants = &self.grants;
        let scratch = &self.scratch;
        self.links.retain(|link| {
            let shown = link.path.ancestors().skip(1).find_map(|dir| {
                if scratch.contains(dir) {
                    return Some(false);
                }
                grants.get(dir).map(|grant| grant.kind == Kind::Dir)
            });
            !shown.unwrap_or(false)
                && !grants.contains_key(&link.path)
                && !scratch.contains(&link.path)
        });
        let hide: Vec<PathBuf> = std::mem::take(&mut self.hide).into_iter().collect();
        self.hide = hide.into_iter().filter(|path| self.shows(path)).collect();
        let mut whole: Option<PathBuf> = None;
        for (path, protect) in std::mem::take(&mut self.protect) {
            // Below a path that stays as it is there is nothing left to protect.
            let covered = whole.as_ref().is_some_and(|whole| path.starts_with(whole));
            if covered || !self.shows(&path) || !self.given(&path).contains(Access::WRITE) {
                continue;
            }
            if !protect.pin_only {
                whole = Some(path.clone());
            }
            self.protect.insert(path, protect);
        }
        self.pin_the_way();
    }

    /// Pins every folder between a writable grant and a protected path: a
    /// mount goes where the folder above it is renamed to, and another could be
    /// made in its place.
    fn pin_the_way(&mut self) {
        let mut pins = Vec::new();
        for (path, protect) in &self.protect {
            let Some(grant) = path.ancestors().find(|dir| self.grants.contains_key(*dir)) else {
                continue;
            };
            let inside = path.ancestors().skip(1).take_while(|dir| *dir != grant);
            for above in inside.filter(|dir| dir.starts_with(grant)) {
                pins.push(Protect {
                    path: above.to_owned(),
                    pin_only: true,
                    origin: protect.origin.clone(),
                });
            }
        }
        for pin in pins {
            self.protect.entry(pin.path.clone()).or_insert(pin);
        }
    }

    /// Whether the host's own object of that name is seen inside: a grant
    /// covers it, and no private folder stands in its place.
    fn shows(&self, path: &Path) -> bool {
        let deepest = path.ancestors().find_map(|dir| {
            if self.scratch.contains(dir) {
                return Some(false);
            }
            let grant = self.grants.get(dir)?;
            Some((grant.kind == Kind::Dir || dir == path) && grant.source.is_none())
        });
        deepest.unwrap_or(false)
    }

    /// The granted folder that shows the very object of `grant`, if there is
    /// one and no private folder lies between.
    fn parent<'k>(&self, kept: &'k [Grant], grant: &Grant) -> Option<&'k Grant> {
        let parent = kept
            .iter()
            .rev()
            .find(|old| old.kind == Kind::Dir && grant.path.starts_with(&old.path))?;
        let rest = grant.path.strip_prefix(&parent.path).ok()?;
        let between = self
            .scratch
            .iter()
            .any(|dir| dir.starts_with(&parent.path) && grant.path.starts_with(dir));
        (!between && parent.host_path().join(rest) == grant.host_path()).then_some(parent)
    }
}

/// The origin that a line gives.
pub(crate) fn origin(line: &Line, reason: &str) -> Origin {
    Origin {
        source: line.source.clone(),
        line: line.at.line,
        reason: reason.to_owned(),
    }
}

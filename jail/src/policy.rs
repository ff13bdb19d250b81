//! A [`Policy`]: what a jailed process may do, as plain facts.
//!
//! Paths are canonical and were looked at once, when the policy was built; a
//! backend opens them again by descriptor and refuses when the object has
//! changed. Nothing a model says, and nothing inside a workspace, is ever read
//! as policy.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bitflags::bitflags;
use serde::{Deserialize, Serialize};

use crate::guarantee::{Guarantee, Strength};

bitflags! {
    /// What may be done with a path and everything below it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(transparent)]
    pub struct Access: u8 {
        /// Read file content and list folders.
        const READ = 1;
        /// Create, change, rename and remove.
        const WRITE = 2;
        /// Execute as a program or map as code.
        const EXECUTE = 4;
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        for (flag, word) in [
            (Access::READ, "read"),
            (Access::WRITE, "write"),
            (Access::EXECUTE, "execute"),
        ] {
            if self.contains(flag) {
                words.push(word);
            }
        }
        f.write_str(&words.join("+"))
    }
}

impl std::str::FromStr for Access {
    type Err = String;

    /// Reads `read`, `write`, `execute`, joined by `+`. What can be written or
    /// executed can be read as well.
    fn from_str(text: &str) -> Result<Access, String> {
        let mut access = Access::empty();
        for word in text.split('+') {
            access |= match word.trim() {
                "read" => Access::READ,
                "write" => Access::READ | Access::WRITE,
                "execute" => Access::READ | Access::EXECUTE,
                other => {
                    return Err(format!(
                        "{other:?} is no access; use read, write or execute, joined by +"
                    ));
                }
            };
        }
        Ok(access)
    }
}

/// Where a grant came from, so that a person can find the line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Profile name, `command line`, or `toolchain cargo`.
    pub source: String,
    /// 1-based line in that profile; 0 where there is no line.
    pub line: u32,
    /// Why it is granted, as the profile says.
    pub reason: String,
}

/// Whether the object was a folder or anything else when the policy was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A folder: the grant covers everything below it.
    Dir,
    /// A file, device node or socket.
    File,
}

/// One granted path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Canonical absolute path as the jailed process sees it.
    pub path: PathBuf,
    /// Canonical path on the host, where it differs from `path`
    /// (a private folder shown in the place of a real one).
    pub source: Option<PathBuf>,
    /// What may be done.
    pub access: Access,
    /// Folder or file.
    pub kind: Kind,
    /// Device number of the host object when the policy was built.
    pub dev: u64,
    /// Inode number of the host object when the policy was built.
    pub ino: u64,
    /// The line that gave it.
    pub origin: Origin,
}

impl Grant {
    /// The host path that is shown at [`Grant::path`].
    pub fn host_path(&self) -> &Path {
        self.source.as_deref().unwrap_or(&self.path)
    }
}

/// A symbolic link that exists on the host along a granted path and has to
/// exist in the private root, such as `/bin -> usr/bin`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Link {
    /// Absolute path of the link.
    pub path: PathBuf,
    /// Its target, as `readlink` gives it.
    pub target: PathBuf,
}

/// A path inside a writable grant that has to stay as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protect {
    /// Canonical path; exists when the policy was built.
    pub path: PathBuf,
    /// `true`: the path itself cannot be renamed or removed, but what is below
    /// stays writable (a pin). `false`: nothing at or below it can be changed.
    pub pin_only: bool,
    /// The line that gave it.
    pub origin: Origin,
}

/// Which packets may leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// None. The jail has a loopback of its own.
    #[default]
    Off,
    /// Any: the jail shares the host's network.
    Open,
}

/// Which refused accesses are recorded in the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Observe {
    /// None.
    Off,
    /// Refused writes, creations, renames, removals and connections.
    #[default]
    Writes,
    /// Refused reads and look-ups as well; costs a notification for each open.
    All,
}

/// Bounds on one call. `None` leaves the host's own limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processes and threads alive at once.
    pub processes: Option<u64>,
    /// Address space of one process, in bytes (`RLIMIT_AS`).
    pub address_space: Option<u64>,
    /// Memory of the whole call, in bytes, where a cgroup can hold it.
    pub memory: Option<u64>,
    /// Size of one file, in bytes (`RLIMIT_FSIZE`).
    pub file_size: Option<u64>,
    /// Open descriptors of one process.
    pub open_files: Option<u64>,
    /// CPU time of one process, in seconds.
    pub cpu_seconds: Option<u64>,
    /// Size of each private temporary file system, in bytes.
    pub tmp_size: Option<u64>,
}

/// A system call that the default filter refuses and this policy allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relax {
    /// `ptrace` and `process_vm_*` among the jail's own processes (debuggers).
    Ptrace,
}

/// What a jailed process may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Name of the profile it was built from.
    pub name: String,
    /// The workspace, canonical, when the profile has one.
    pub workspace: Option<PathBuf>,
    /// Where a command starts when it does not say.
    pub cwd: PathBuf,
    /// Granted paths, parents before children; no two with the same `path`.
    pub grants: Vec<Grant>,
    /// Links to make in the private root.
    pub links: Vec<Link>,
    /// Empty, read-only folders to make in the private root (`$HOME`).
    pub empty_dirs: Vec<PathBuf>,
    /// Private, writable, empty folders that last as long as the cell (`/tmp`).
    pub scratch: Vec<PathBuf>,
    /// Paths that stay as they are, parents before children.
    pub protect: Vec<Protect>,
    /// Paths inside a grant that are shown as an empty file or folder.
    pub hide: Vec<PathBuf>,
    /// Network mode.
    pub network: Network,
    /// The whole environment of a call.
    pub env: Vec<(OsString, OsString)>,
    /// Bounds on each call.
    pub limits: Limits,
    /// Wall-clock bound on each call that does not name one.
    pub deadline: Option<Duration>,
    /// What is recorded.
    pub observe: Observe,
    /// Loosened system calls.
    pub relax: Vec<Relax>,
    /// The least that is accepted of a backend.
    pub floor: BTreeMap<Guarantee, Strength>,
}

/// Why a path is or is not reachable under a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Whether `asked` is allowed.
    pub allowed: bool,
    /// What the deepest covering grant gives, after protection.
    pub given: Access,
    /// The grant that decided, if any covers the path.
    pub by: Option<Origin>,
    /// The protected or hidden path that took something away, if any.
    pub taken_by: Option<PathBuf>,
}

impl Policy {
    /// A policy that grants nothing, with the network off.
    pub fn empty() -> Self {
        Policy {
            name: "empty".to_owned(),
            workspace: None,
            cwd: PathBuf::from("/"),
            grants: Vec::new(),
            links: Vec::new(),
            empty_dirs: Vec::new(),
            scratch: Vec::new(),
            protect: Vec::new(),
            hide: Vec::new(),
            network: Network::Off,
            env: Vec::new(),
            limits: Limits::default(),
            deadline: None,
            observe: Observe::Off,
            relax: Vec::new(),
            floor: BTreeMap::new(),
        }
    }

    /// The deepest grant that covers `path` (absolute, lexically normal).
    pub fn grant_for(&self, path: &Path) -> Option<&Grant> {
        self.grants
            .iter()
            .filter(|grant| match grant.kind {
                Kind::Dir => path.starts_with(&grant.path),
                Kind::File => path == grant.path,
            })
            .max_by_key(|grant| grant.path.components().count())
    }

    /// Whether `path` lies in a private temporary folder, and in no grant and no
    /// empty folder below it.
    pub fn is_scratch(&self, path: &Path) -> bool {
        self.scratch_for(path).is_some_and(|dir| {
            self.grant_for(path)
                .is_none_or(|grant| !grant.path.starts_with(dir))
        })
    }

    /// The deepest private temporary folder that covers `path`, unless an empty
    /// read-only folder in it does.
    pub fn scratch_for(&self, path: &Path) -> Option<&Path> {
        let deepest = |dirs: &'_ [PathBuf]| {
            dirs.iter()
                .enumerate()
                .filter(|(_, dir)| path.starts_with(dir))
                .max_by_key(|(_, dir)| dir.components().count())
                .map(|(at, dir)| (at, dir.components().count()))
        };
        let (at, depth) = deepest(&self.scratch)?;
        match deepest(&self.empty_dirs) {
            Some((_, empty)) if empty > depth => None,
            _ => Some(&self.scratch[at]),
        }
    }

    /// Answers whether `asked` is allowed on `path` (absolute, lexically
    /// normal, symbolic links resolved by the caller). Pure: asks no kernel.
    pub fn judge(&self, path: &Path, asked: Access) -> Verdict {
        if let Some(hidden) = self.hide.iter().find(|hidden| path.starts_with(hidden)) {
            return Verdict {
                allowed: false,
                given: Access::empty(),
                by: self.grant_for(path).map(|grant| grant.origin.clone()),
                taken_by: Some(hidden.clone()),
            };
        }
        let covering = self.grant_for(path);
        let scratch = self.scratch_for(path);
        let (mut given, by) = match (covering, scratch) {
            (Some(grant), Some(dir)) if dir.starts_with(&grant.path) && dir != grant.path => {
                (Access::all(), None)
            }
            (Some(grant), _) => (grant.access, Some(grant.origin.clone())),
            (None, Some(_)) => (Access::all(), None),
            (None, None) => (Access::empty(), None),
        };
        let mut taken_by = None;
        if given.contains(Access::WRITE)
            && let Some(protect) = self.protect.iter().find(|protect| {
                if protect.pin_only {
                    path == protect.path
                } else {
                    path.starts_with(&protect.path)
                }
            })
        {
            given.remove(Access::WRITE);
            taken_by = Some(protect.path.clone());
        }
        Verdict {
            allowed: given.contains(asked),
            given,
            by,
            taken_by,
        }
    }
}

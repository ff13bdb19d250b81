//! The Landlock ruleset of a cell: made once, entered by every call.
//!
//! In the full form it is the second wall behind the private root; in the
//! narrow form it is the only one for files.

use std::io;
use std::os::fd::OwnedFd;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope,
};
use rustix::fs::{Mode, OFlags};

use crate::guarantee::Form;
use crate::policy::{Access, Kind, Network, Policy};

/// The newest ABI that the rules below were tested with. Older kernels get
/// less, which the enforcement answer says.
const TESTED: ABI = ABI::V6;

/// First ABI with each right that an answer depends on (landlock(7)).
pub(super) const ABI_TRUNCATE: u32 = 3;
pub(super) const ABI_SCOPES: u32 = 6;

fn rights(access: Access, kind: Kind) -> BitFlags<AccessFs> {
    let mut rights = BitFlags::<AccessFs>::EMPTY;
    if access.contains(Access::READ) {
        rights |= AccessFs::ReadFile | AccessFs::ReadDir;
    }
    if access.contains(Access::EXECUTE) {
        rights |= AccessFs::Execute;
    }
    if access.contains(Access::WRITE) {
        rights |= AccessFs::from_write(TESTED);
        // Never: device nodes cannot be made by a process without CAP_MKNOD.
        rights.remove(AccessFs::MakeChar | AccessFs::MakeBlock);
    }
    if kind == Kind::File {
        rights &= AccessFs::from_file(TESTED);
    }
    rights
}

fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

fn allow(
    ruleset: RulesetCreated,
    path: &std::path::Path,
    rights: BitFlags<AccessFs>,
) -> io::Result<RulesetCreated> {
    let fd = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    ruleset
        .add_rule(PathBeneath::new(fd, rights))
        .map_err(failed)
}

/// Builds the ruleset as seen from where the calls will run: the private root
/// in the full form, the host's root in the narrow one.
pub(super) fn ruleset(policy: &Policy, form: Form) -> io::Result<Option<OwnedFd>> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(TESTED))
        .map_err(failed)?;
    if form == Form::Narrow && policy.network == Network::Off {
        ruleset = ruleset
            .handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp)
            .map_err(failed)?;
    }
    let mut created = ruleset
        .scope(Scope::AbstractUnixSocket | Scope::Signal)
        .map_err(failed)?
        .create()
        .map_err(failed)?;
    for grant in &policy.grants {
        let path = match form {
            Form::Full => grant.path.as_path(),
            _ => grant.host_path(),
        };
        created = allow(created, path, rights(grant.access, grant.kind))?;
    }
    for dir in &policy.scratch {
        if form == Form::Full {
            created = allow(created, dir, rights(Access::all(), Kind::Dir))?;
        }
    }
    for (path, access) in IMPLICIT {
        if rustix::fs::access(*path, rustix::fs::Access::EXISTS).is_ok() {
            let kind = if std::path::Path::new(path).is_dir() {
                Kind::Dir
            } else {
                Kind::File
            };
            let mut rights = rights(*access, kind);
            if access.contains(Access::WRITE) {
                rights |= AccessFs::IoctlDev;
            }
            // The narrow form has the host's /dev: no new entries in it.
            if form == Form::Narrow && kind == Kind::Dir && *path != "/dev/shm" {
                rights &= AccessFs::from_file(TESTED) | AccessFs::ReadDir;
            }
            created = allow(created, std::path::Path::new(path), rights)?;
        }
    }
    // Listing what the private root holds gives nothing away: it holds only
    // the grants. On the host's root it would.
    if form == Form::Full {
        created = allow(created, std::path::Path::new("/"), AccessFs::ReadDir.into())?;
    }
    Ok(created.into())
}

/// Paths that every program takes for granted; the full form makes its own.
pub(super) const IMPLICIT: &[(&str, Access)] = &[
    ("/dev/null", Access::READ.union(Access::WRITE)),
    ("/dev/zero", Access::READ.union(Access::WRITE)),
    ("/dev/full", Access::READ.union(Access::WRITE)),
    ("/dev/random", Access::READ.union(Access::WRITE)),
    ("/dev/urandom", Access::READ.union(Access::WRITE)),
    ("/dev/tty", Access::READ.union(Access::WRITE)),
    ("/dev/ptmx", Access::READ.union(Access::WRITE)),
    ("/dev/pts", Access::READ.union(Access::WRITE)),
    ("/dev/shm", Access::READ.union(Access::WRITE)),
    ("/proc", Access::READ),
    ("/sys/devices/system/cpu", Access::READ),
];

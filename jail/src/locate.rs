//! Following a path as a jailed process would, and sorting real refusals from
//! failures that only look like one.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use crate::policy::{Access, Kind, Policy};
use crate::report::Denial;

/// Links followed before a path is left as it is.
const MOST_LINKS: usize = 40;

/// Device nodes that every jail makes itself.
const DEVICES: &[&str] = &[
    "null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd", "stdin",
    "stdout", "stderr", "mqueue", "console",
];

/// Whether a path is the backend's own matter: its `/proc`, its small `/dev`
/// and the processor's description.
pub(crate) fn implicit(path: &Path) -> bool {
    if path.starts_with("/proc") || path.starts_with("/sys/devices/system/cpu") {
        return true;
    }
    let mut parts = path.components().skip(1);
    if parts.next() != Some(Component::Normal(OsStr::new("dev"))) {
        return false;
    }
    match parts.next() {
        None => true,
        Some(Component::Normal(name)) => DEVICES.iter().any(|device| name == *device),
        Some(_) => false,
    }
}

/// The name under which a jailed process reaches what it calls `path`: links
/// followed where the policy shows them, `.` and `..` resolved. Asks the host
/// only about objects that the policy shows.
pub(crate) fn locate(policy: &Policy, path: &Path) -> PathBuf {
    let mut pending: VecDeque<OsString> = names(path).collect();
    let mut current = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = pending.pop_front() {
        if name == ".." {
            current.pop();
            continue;
        }
        current.push(&name);
        let Some(target) = link_at(policy, &current) else {
            continue;
        };
        links += 1;
        if links > MOST_LINKS {
            break;
        }
        current.pop();
        if target.is_absolute() {
            current = PathBuf::from("/");
        }
        for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
            pending.push_front(name);
        }
    }
    current.extend(pending);
    current
}

fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

/// The target of the link that stands at `path` inside, if one does.
fn link_at(policy: &Policy, path: &Path) -> Option<PathBuf> {
    if let Some(link) = policy.links.iter().find(|link| link.path == path) {
        return Some(link.target.clone());
    }
    shown(policy, path)?.read_link().ok()
}

/// The host path behind a path inside, where a grant shows one.
pub(crate) fn shown(policy: &Policy, path: &Path) -> Option<PathBuf> {
    let grant = policy.grant_for(path)?;
    let private = policy
        .scratch
        .iter()
        .any(|dir| path.starts_with(dir) && dir.starts_with(&grant.path) && *dir != grant.path);
    if private || policy.hide.iter().any(|hidden| path.starts_with(hidden)) {
        return None;
    }
    let rest = path.strip_prefix(&grant.path).ok()?;
    Some(match grant.kind {
        Kind::Dir if !rest.as_os_str().is_empty() => grant.host_path().join(rest),
        Kind::Dir | Kind::File => grant.host_path().to_path_buf(),
    })
}

/// The private folder in which `path` lies, where no grant lies deeper.
pub(crate) fn scratch_for<'p>(policy: &'p Policy, path: &Path) -> Option<&'p Path> {
    policy
        .is_scratch(path)
        .then(|| policy.scratch_for(path))
        .flatten()
}

/// Keeps, of the accesses that a backend saw, those that the policy refused
/// and that would have worked without it. What failed for a reason of its own
/// (no such file, a mode, a folder in the way) is not a refusal.
pub fn refused(policy: &Policy, seen: &[Denial]) -> Vec<Denial> {
    let mut kept: Vec<Denial> = Vec::new();
    for denial in seen.iter().filter(|denial| is_refusal(policy, denial)) {
        let same = kept.iter_mut().find(|old| {
            old.path == denial.path
                && old.access == denial.access
                && old.operation == denial.operation
        });
        match same {
            Some(old) => old.count = old.count.saturating_add(denial.count),
            None => kept.push(denial.clone()),
        }
    }
    kept
}

fn is_refusal(policy: &Policy, denial: &Denial) -> bool {
    if !denial.path.is_absolute() {
        // An address (`tcp:ADDRESS`), which the backend refused itself, or a
        // socket (`unix:PATH`), which was missed only where the host has it:
        // the C library looks for sockets of daemons that few hosts run.
        return match denial
            .path
            .to_str()
            .and_then(|text| text.strip_prefix("unix:"))
        {
            Some(path) => Path::new(path).symlink_metadata().is_ok(),
            None => true,
        };
    }
    if implicit(&denial.path) {
        return false;
    }
    let path = locate(policy, &denial.path);
    if implicit(&path) {
        return false;
    }
    let there = would_work(&path, denial);
    if policy.judge(&path, denial.access).allowed {
        // A private folder covers the host's. What lies right in it is the
        // jail's own; what lies deeper was perhaps meant for the host, and the
        // backend names it only when it was missing inside.
        return there
            && scratch_for(policy, &path)
                .is_some_and(|scratch| path != scratch && path.parent() != Some(scratch));
    }
    // The way down to a grant exists inside, and can be looked at.
    let on_the_way = !denial.access.contains(Access::WRITE)
        && policy
            .grants
            .iter()
            .map(|grant| &grant.path)
            .chain(&policy.scratch)
            .chain(&policy.empty_dirs)
            .any(|shown| shown.starts_with(&path));
    there && !on_the_way
}

/// Whether the host has what the call needs, as far as names tell: else it
/// would have failed without a jail as well.
fn would_work(path: &Path, denial: &Denial) -> bool {
    let exists = path.symlink_metadata().is_ok();
    match denial.operation.as_str() {
        // git tidies up with rmdir, and goes by its failing.
        "rmdir" => path
            .read_dir()
            .is_ok_and(|mut entries| entries.next().is_none()),
        "unlink" | "chmod" | "chown" | "truncate" => exists,
        "mkdir" | "mknod" | "symlink" => !exists && path.parent().is_some_and(Path::is_dir),
        _ if denial.access.contains(Access::WRITE) => path.parent().is_some_and(Path::is_dir),
        _ => exists,
    }
}

#[cfg(test)]
mod tests;

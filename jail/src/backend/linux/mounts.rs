//! The private root of a cell: an empty tree with only the granted paths.
//!
//! Every source is opened by descriptor without following a link, compared
//! with what the policy saw, cloned as a detached mount, made read-only,
//! nosuid and nodev while nobody can see it, and only then attached
//! (open_tree(2), mount_setattr(2), move_mount(2); Linux 5.12).

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags,
};

use super::facts;
use super::failure::{At, Failure};
use crate::policy::{Access, Grant, Kind, Policy};
use crate::sys;

const RDONLY: u64 = 0x1;
const NOSUID: u64 = 0x2;
const NODEV: u64 = 0x4;
const NOEXEC: u64 = 0x8;
const PRIVATE: u64 = 1 << 18;

/// A place to put the new root on before it becomes the root.
const STAGES: [&str; 3] = ["/tmp", "/mnt", "/proc"];

/// One source, ready to be attached.
struct Tree {
    path: PathBuf,
    kind: Kind,
    mount: OwnedFd,
}

/// Device nodes that a program takes for granted.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Replaces the root of the current mount namespace by the policy's. Called as
/// pid 1 of a new pid namespace, since a new /proc shows the namespace of whoever
/// mounts it.
pub(super) fn enter_private_root(policy: &Policy) -> Result<(), Failure> {
    rustix::mount::mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .at("keep mount events from leaving the cell")?;

    // All sources first: attaching the new root hides whatever is below it.
    let mut trees = Vec::new();
    for grant in needed(policy) {
        trees.push(source_of(grant)?);
    }
    let devices = DEVICES
        .iter()
        .map(|name| {
            let path = Path::new("/dev").join(name);
            let fd = open_path(&path).at_path("open the device", &path)?;
            clone_tree(fd.as_fd(), NOSUID | NOEXEC)
                .at_path("clone the device", &path)
                .map(|mount| (*name, mount))
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    let cpu = Path::new("/sys/devices/system/cpu");
    let cpu_tree = match open_path(cpu) {
        Ok(fd) => {
            Some(clone_tree(fd.as_fd(), RDONLY | NOSUID | NODEV | NOEXEC).at_path("clone", cpu)?)
        }
        Err(_) => None,
    };

    let root_mount = temporary(
        "0755",
        policy.limits.tmp_size.map(|_| 16 << 20),
        NOSUID | NODEV,
    )
    .at("make an empty root")?;
    let stage = STAGES
        .into_iter()
        .find(|stage| Path::new(stage).is_dir())
        .ok_or_else(|| {
            Failure::plain(
                "find a folder to put the new root on",
                io::ErrorKind::NotFound,
            )
        })?;
    rustix::mount::move_mount(
        root_mount.as_fd(),
        "",
        rustix::fs::CWD,
        stage,
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )
    .at_path("attach the new root to", Path::new(stage))?;
    let root = Root { fd: root_mount };

    let sealed = fill(&root, &trees, policy)?;
    protect(&root, policy)?;
    hide(&root, policy)?;
    for link in &policy.links {
        root.link(&link.path, &link.target);
    }
    devices_into(&root, devices, policy)?;
    if let Some(tree) = cpu_tree {
        root.attach(cpu, Kind::Dir, tree.as_fd())?;
    }
    proc_into(&root, policy)?;
    for mount in &sealed {
        sys::mount_set(mount.as_fd(), false, RDONLY, 0).at("make an empty folder read-only")?;
    }
    sys::mount_set(root.fd.as_fd(), false, RDONLY, 0).at("make the new root read-only")?;

    rustix::process::fchdir(&root.fd).at("enter the new root")?;
    rustix::process::pivot_root(".", ".").at("make it the root")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH).at("let go of the old root")?;
    rustix::process::chdir("/").at("stand in the new root")?;
    Ok(())
}

/// Attaches everything that a policy shows, parents before children, so that
/// nothing is covered by what lies above it. Gives the mounts that have to be
/// made read-only once everything is in place.
fn fill(root: &Root, trees: &[Tree], policy: &Policy) -> Result<Vec<OwnedFd>, Failure> {
    enum Item<'a> {
        Tree(&'a Tree),
        Empty,
        Scratch,
    }
    let mut items: Vec<(&Path, Item<'_>)> = Vec::new();
    items.extend(
        trees
            .iter()
            .map(|tree| (tree.path.as_path(), Item::Tree(tree))),
    );
    items.extend(
        policy
            .empty_dirs
            .iter()
            .map(|dir| (dir.as_path(), Item::Empty)),
    );
    items.extend(
        policy
            .scratch
            .iter()
            .map(|dir| (dir.as_path(), Item::Scratch)),
    );
    // Paths compare by component; the sort is stable.
    items.sort_by_key(|(path, _)| *path);
    let mut sealed = Vec::new();
    for (path, item) in items {
        match item {
            Item::Tree(tree) => root.attach(path, tree.kind, tree.mount.as_fd())?,
            Item::Scratch => {
                let tmp = temporary("1777", policy.limits.tmp_size, NOSUID | NODEV)
                    .at_path("make", path)?;
                root.attach(path, Kind::Dir, tmp.as_fd())?;
            }
            // In a scratch folder it would be writable: it gets a file system
            // of its own.
            Item::Empty if policy.scratch.iter().any(|dir| path.starts_with(dir)) => {
                let tmp = temporary("0755", Some(1 << 20), NOSUID | NODEV).at_path("make", path)?;
                root.attach(path, Kind::Dir, tmp.as_fd())?;
                sealed.push(tmp);
            }
            Item::Empty => root.dir(path)?,
        }
    }
    Ok(sealed)
}

/// The grants that need a mount of their own: those that no shallower grant
/// already shows with the same rights.
fn needed(policy: &Policy) -> Vec<&Grant> {
    let mut kept: Vec<&Grant> = Vec::new();
    for grant in &policy.grants {
        let parent = kept
            .iter()
            .filter(|other| other.kind == Kind::Dir && grant.path.starts_with(&other.path))
            .max_by_key(|other| other.path.components().count());
        let shown = parent.is_some_and(|parent| {
            let covered = policy
                .scratch
                .iter()
                .any(|dir| dir.starts_with(&parent.path) && grant.path.starts_with(dir));
            parent.access.contains(Access::WRITE) == grant.access.contains(Access::WRITE)
                && (parent.access.contains(Access::EXECUTE)
                    || !grant.access.contains(Access::EXECUTE))
                && parent.source.is_none()
                && grant.source.is_none()
                && !covered
        });
        if !shown {
            kept.push(grant);
        }
    }
    kept
}

fn open_path(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat2(
        rustix::fs::CWD,
        path,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )?)
}

fn source_of(grant: &Grant) -> Result<Tree, Failure> {
    let host = grant.host_path();
    let fd = open_path(host).at_path("open", host)?;
    let stat = rustix::fs::fstat(&fd).at_path("look at", host)?;
    if (stat.st_dev, stat.st_ino) != (grant.dev, grant.ino) {
        return Err(Failure::changed(host));
    }
    let mut set = NOSUID | NODEV;
    if !grant.access.contains(Access::WRITE) {
        set |= RDONLY;
    }
    if !grant.access.contains(Access::EXECUTE) {
        set |= NOEXEC;
    }
    Ok(Tree {
        path: grant.path.clone(),
        kind: grant.kind,
        mount: clone_tree(fd.as_fd(), set).at_path("clone", host)?,
    })
}

/// A detached copy of what is mounted at and below `fd`, with `set` added.
/// Recursive: a copy that left out a mount below would show what it covers,
/// which the kernel refuses in a user namespace.
fn clone_tree(fd: BorrowedFd<'_>, set: u64) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = rustix::mount::open_tree(fd, "", flags)?;
    sys::mount_set(tree.as_fd(), true, set, PRIVATE)?;
    Ok(tree)
}

fn file_system(kind: &str, options: &[(&str, String)], set: u64) -> io::Result<OwnedFd> {
    let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        rustix::mount::fsconfig_set_string(context.as_fd(), *key, value.as_str())?;
    }
    rustix::mount::fsconfig_create(context.as_fd())?;
    let mount = rustix::mount::fsmount(
        context.as_fd(),
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::empty(),
    )?;
    sys::mount_set(mount.as_fd(), false, set, 0)?;
    Ok(mount)
}

fn temporary(mode: &str, size: Option<u64>, set: u64) -> io::Result<OwnedFd> {
    let mut options = vec![("mode", mode.to_owned())];
    if let Some(size) = size {
        options.push(("size", size.to_string()));
    }
    file_system("tmpfs", &options, set)
}

fn protect(root: &Root, policy: &Policy) -> Result<(), Failure> {
    for protect in &policy.protect {
        let fd = root
            .open(&protect.path)
            .at_path("open the protected", &protect.path)?;
        let set = if protect.pin_only { 0 } else { RDONLY };
        let tree = clone_tree(fd.as_fd(), set).at_path("clone the protected", &protect.path)?;
        attach_at(tree.as_fd(), fd.as_fd()).at_path("protect", &protect.path)?;
    }
    Ok(())
}

/// Covers hidden paths: a file by an empty file, a folder by an empty folder.
fn hide(root: &Root, policy: &Policy) -> Result<(), Failure> {
    if policy.hide.is_empty() {
        return Ok(());
    }
    let cover = temporary("0555", Some(4096), NOSUID | NODEV | NOEXEC).at("make a cover")?;
    rustix::fs::mkdirat(&cover, "dir", Mode::from_raw_mode(0o555)).at("make a cover")?;
    rustix::fs::openat(
        &cover,
        "file",
        OFlags::CREATE | OFlags::CLOEXEC,
        Mode::from_raw_mode(0o444),
    )
    .at("make a cover")?;
    // open_tree on a detached mount needs it attached on older kernels.
    let at = Path::new("/.cover");
    root.attach(at, Kind::Dir, cover.as_fd())?;
    for path in &policy.hide {
        let fd = match root.open(path) {
            Ok(fd) => fd,
            // Not shown at all: nothing to hide.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(Failure::of("open the hidden", path, error)),
        };
        let stat = rustix::fs::fstat(&fd).at_path("look at the hidden", path)?;
        let name = if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            "dir"
        } else {
            "file"
        };
        let empty = root.open(&at.join(name)).at("open the cover")?;
        let tree = clone_tree(empty.as_fd(), RDONLY).at("clone the cover")?;
        attach_at(tree.as_fd(), fd.as_fd()).at_path("hide", path)?;
    }
    Ok(())
}

fn devices_into(
    root: &Root,
    devices: Vec<(&str, OwnedFd)>,
    policy: &Policy,
) -> Result<(), Failure> {
    let dev = temporary("0755", Some(1 << 20), NOSUID | NOEXEC).at("make /dev")?;
    root.attach(Path::new("/dev"), Kind::Dir, dev.as_fd())?;
    for (name, tree) in devices {
        root.attach(&Path::new("/dev").join(name), Kind::File, tree.as_fd())?;
    }
    let pts = file_system(
        "devpts",
        &[("ptmxmode", "0666".to_owned()), ("mode", "0620".to_owned())],
        NOSUID | NOEXEC,
    )
    .at("make /dev/pts")?;
    root.attach(Path::new("/dev/pts"), Kind::Dir, pts.as_fd())?;
    let shm = temporary("1777", policy.limits.tmp_size, NOSUID | NODEV).at("make /dev/shm")?;
    root.attach(Path::new("/dev/shm"), Kind::Dir, shm.as_fd())?;
    for (name, target) in [
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        rustix::fs::symlinkat(target, &dev, name).at("make the links of /dev")?;
    }
    sys::mount_set(dev.as_fd(), false, RDONLY, 0).at("make /dev read-only")
}

/// A /proc of the cell's own pid namespace. What root owns in it is made
/// read-only as well: owning a file is enough to open it for writing.
fn proc_into(root: &Root, policy: &Policy) -> Result<(), Failure> {
    let proc = file_system("proc", &[], NOSUID | NODEV | NOEXEC).at("mount a /proc of its own")?;
    root.attach(Path::new("/proc"), Kind::Dir, proc.as_fd())?;
    limit_namespaces();
    if let Some(processes) = policy.limits.processes {
        bound_processes(processes)?;
    }
    for name in ["sys", "sysrq-trigger", "irq", "bus", "fs", "acpi"] {
        let path = Path::new("/proc").join(name);
        if let Ok(fd) = root.open(&path) {
            let tree = clone_tree(fd.as_fd(), RDONLY).at_path("clone", &path)?;
            attach_at(tree.as_fd(), fd.as_fd()).at_path("make read-only", &path)?;
        }
    }
    let null = root.open(Path::new("/dev/null")).at("open /dev/null")?;
    for name in [
        "kcore",
        "keys",
        "key-users",
        "kmsg",
        "timer_list",
        "sched_debug",
    ] {
        let path = Path::new("/proc").join(name);
        if let Ok(fd) = root.open(&path) {
            let tree = clone_tree(null.as_fd(), RDONLY).at_path("clone the cover of", &path)?;
            attach_at(tree.as_fd(), fd.as_fd()).at_path("hide", &path)?;
        }
    }
    Ok(())
}

/// No user namespace below the cell's own (a limit of this user namespace,
/// namespaces(7)); seccomp refuses the calls as well, so a kernel without the
/// file loses nothing.
fn limit_namespaces() {
    for stage in STAGES {
        let path = Path::new(stage).join("proc/sys/user/max_user_namespaces");
        let _ = fs::write(path, "0");
    }
}

/// The kernel never counts root against `RLIMIT_NPROC`; from Linux 6.14 on
/// `kernel.pid_max` belongs to the pid namespace and bounds it instead. Older
/// kernels have one for the whole host, which must not be touched. Called while
/// the new /proc can still be written.
fn bound_processes(processes: u64) -> Result<(), Failure> {
    // Numbers up to 300 are not given again once they are used (pid.h).
    const RESERVED: u64 = 301;
    if !rustix::process::geteuid().is_root() || !facts::pid_max_is_per_namespace() {
        return Ok(());
    }
    let wanted = (RESERVED + processes).to_string();
    for stage in STAGES {
        let path = Path::new(stage).join("proc/sys/kernel/pid_max");
        if path.exists() {
            fs::write(&path, &wanted).at("bound the number of processes")?;
            let held = fs::read_to_string(&path).at("read the bound on processes back")?;
            return if held.trim() == wanted {
                Ok(())
            } else {
                Err(Failure::plain(
                    "bound the number of processes",
                    io::ErrorKind::Unsupported,
                ))
            };
        }
    }
    Err(Failure::plain(
        "find the bound on processes",
        io::ErrorKind::NotFound,
    ))
}

fn attach_at(tree: BorrowedFd<'_>, target: BorrowedFd<'_>) -> io::Result<()> {
    rustix::mount::move_mount(
        tree,
        "",
        target,
        "",
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH,
    )?;
    Ok(())
}

/// The new root while it is being filled.
struct Root {
    fd: OwnedFd,
}

impl Root {
    /// Opens `path` below the new root without following any link: a link in a
    /// writable grant must not move a mount elsewhere.
    fn open(&self, path: &Path) -> io::Result<OwnedFd> {
        let below = path
            .strip_prefix("/")
            .map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok(rustix::fs::openat2(
            &self.fd,
            below,
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
        )?)
    }

    fn attach(&self, path: &Path, kind: Kind, tree: BorrowedFd<'_>) -> Result<(), Failure> {
        let point = match self.open(path) {
            Ok(fd) => fd,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match kind {
                    Kind::Dir => self.dir(path)?,
                    Kind::File => self.file(path)?,
                }
                self.open(path).at_path("open the mount point", path)?
            }
            Err(error) => return Err(Failure::of("open the mount point", path, error)),
        };
        attach_at(tree, point.as_fd()).at_path("show", path)
    }

    fn dir(&self, path: &Path) -> Result<(), Failure> {
        let mut done = PathBuf::new();
        for part in path.components() {
            if let Component::Normal(name) = part {
                done.push(name);
                match rustix::fs::mkdirat(&self.fd, &done, Mode::from_raw_mode(0o755)) {
                    Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                    Err(error) => return Err(Failure::of("make the folder", path, error.into())),
                }
            }
        }
        Ok(())
    }

    fn file(&self, path: &Path) -> Result<(), Failure> {
        if let Some(parent) = path.parent() {
            self.dir(parent)?;
        }
        let below = path.strip_prefix("/").unwrap_or(path);
        rustix::fs::openat(
            &self.fd,
            below,
            OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::from_raw_mode(0o444),
        )
        .at_path("make the file", path)?;
        Ok(())
    }

    /// Makes a link where the new root has room for one. A link inside a grant
    /// is there already; one whose folder is shown read-only cannot be missed.
    fn link(&self, path: &Path, target: &Path) {
        let Ok(below) = path.strip_prefix("/") else {
            return;
        };
        if let Some(parent) = path.parent()
            && self.dir(parent).is_err()
        {
            return;
        }
        let _ = rustix::fs::symlinkat(target, &self.fd, below);
    }
}

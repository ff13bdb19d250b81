//! Sees what a call asks for that its policy does not give.
//!
//! A seccomp filter shows pid 1 the calls that change something by name; pid 1
//! reads the path, judges it by the policy and lets the call go on. The kernel
//! decides, from the mounts and from Landlock: what is read here can change
//! before the kernel reads it (seccomp_unotify(2)), so it is for the report
//! and never for the decision.

use std::fs::{self, File};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};

use super::seccomp::SYS_FCHMODAT2;
use crate::policy::{Access, Network, Policy};
use crate::report::Denial;
use crate::sys::{self, Notification};

/// Most denials that one report holds.
const MOST: usize = 256;

/// Collects the refused accesses of one call.
pub(super) struct Observer<'a> {
    policy: &'a Policy,
    denials: Vec<Denial>,
}

/// One asked-for access: where, what, and the call's name.
struct Asked {
    folder: i32,
    path: u64,
    access: Access,
    operation: &'static str,
}

impl<'a> Observer<'a> {
    pub(super) fn new(policy: &'a Policy) -> Self {
        Observer {
            policy,
            denials: Vec::new(),
        }
    }

    pub(super) fn finish(self) -> Vec<Denial> {
        self.denials
    }

    /// Handles one notification. An error means only that this one was missed:
    /// its process died, or its memory could not be read.
    pub(super) fn notice(&mut self, listener: BorrowedFd<'_>) -> io::Result<()> {
        let notification = sys::receive_notification(listener)?;
        let seen = self.look(&notification);
        sys::continue_notification(listener, notification.id)?;
        seen
    }

    fn look(&mut self, notification: &Notification) -> io::Result<()> {
        if self.denials.len() >= MOST {
            return Ok(());
        }
        let pid = notification.pid;
        if notification.syscall == libc::SYS_connect {
            let length = notification.args[2].min(128) as usize;
            let mut address = vec![0; length];
            memory(pid)?.read_exact_at(&mut address, notification.args[1])?;
            if let Some(target) = self.connect_target(&address) {
                self.record(target, Access::WRITE, "connect");
            }
            return Ok(());
        }
        for asked in asked(notification, pid) {
            let path = read_path(pid, asked.path)?;
            let path = absolute(pid, asked.folder, &path)?;
            if path.starts_with("/proc") || path.starts_with("/dev") {
                continue;
            }
            let path = follow(&path);
            if !self.policy.judge(&path, asked.access).allowed || self.covered(&path, asked.access)
            {
                self.record(path, asked.access, asked.operation);
            }
        }
        Ok(())
    }

    /// A private /tmp covers the host's: what is asked for below it may be
    /// meant for the host, and then it is missing here. Whether the host has
    /// it is for the launcher to see ([`crate::refused`]).
    fn covered(&self, path: &Path, access: Access) -> bool {
        self.policy.is_scratch(path)
            && match access {
                Access::WRITE => path.parent().is_some_and(|parent| !parent.exists()),
                _ => !path.exists(),
            }
    }

    fn record(&mut self, path: PathBuf, access: Access, operation: &str) {
        match self
            .denials
            .iter_mut()
            .find(|denial| denial.path == path && denial.access == access)
        {
            Some(denial) => denial.count = denial.count.saturating_add(1),
            None => self.denials.push(Denial {
                path,
                access,
                operation: operation.to_owned(),
                count: 1,
            }),
        }
    }

    /// A connection that cannot succeed under this policy, as `tcp:ADDRESS` or
    /// `unix:PATH`.
    fn connect_target(&self, address: &[u8]) -> Option<PathBuf> {
        let family = i32::from(u16::from_ne_bytes([*address.first()?, *address.get(1)?]));
        let port = || Some(u16::from_be_bytes([*address.get(2)?, *address.get(3)?]));
        let (ip, port): (std::net::IpAddr, u16) = match family {
            libc::AF_UNIX => {
                let name = address.get(2..)?;
                let end = name
                    .iter()
                    .position(|byte| *byte == 0)
                    .unwrap_or(name.len());
                if end == 0 {
                    return None;
                }
                let path = Path::new(std::ffi::OsStr::from_bytes(&name[..end]));
                let refused = path.is_absolute() && !self.policy.judge(path, Access::WRITE).allowed;
                return refused.then(|| PathBuf::from(format!("unix:{}", path.display())));
            }
            libc::AF_INET => {
                let octets: [u8; 4] = address.get(4..8)?.try_into().ok()?;
                (octets.into(), port()?)
            }
            libc::AF_INET6 => {
                let octets: [u8; 16] = address.get(8..24)?.try_into().ok()?;
                (octets.into(), port()?)
            }
            _ => return None,
        };
        let refused = self.policy.network == Network::Off && !ip.is_loopback() && port != 0;
        refused.then(|| PathBuf::from(format!("tcp:{}", std::net::SocketAddr::new(ip, port))))
    }
}

/// The paths that a call names. Folder -100 (`AT_FDCWD`) is the working folder.
fn asked(notification: &Notification, pid: u32) -> Vec<Asked> {
    const HERE: i32 = libc::AT_FDCWD;
    let args = notification.args;
    let one = |folder: i32, path: u64, access: Access, operation: &'static str| {
        vec![Asked {
            folder,
            path,
            access,
            operation,
        }]
    };
    let open = |folder: i32, path: u64, flags: u64| {
        let flags = flags as i32;
        let wants = if flags & (libc::O_CREAT | libc::O_TRUNC) != 0
            || flags & libc::O_ACCMODE != libc::O_RDONLY
        {
            Access::WRITE
        } else {
            Access::READ
        };
        one(folder, path, wants, "open")
    };
    let dir = args[0] as i32;
    match notification.syscall {
        libc::SYS_openat => open(dir, args[1], args[2]),
        libc::SYS_openat2 => {
            let mut flags = [0; 8];
            match memory(pid).and_then(|memory| memory.read_exact_at(&mut flags, args[2])) {
                Ok(()) => open(dir, args[1], u64::from_ne_bytes(flags)),
                Err(_) => Vec::new(),
            }
        }
        libc::SYS_mkdirat => one(dir, args[1], Access::WRITE, "mkdir"),
        libc::SYS_mknodat => one(dir, args[1], Access::WRITE, "mknod"),
        libc::SYS_unlinkat => one(dir, args[1], Access::WRITE, "unlink"),
        libc::SYS_truncate => one(HERE, args[0], Access::WRITE, "truncate"),
        libc::SYS_fchmodat | SYS_FCHMODAT2 => one(dir, args[1], Access::WRITE, "chmod"),
        libc::SYS_fchownat => one(dir, args[1], Access::WRITE, "chown"),
        libc::SYS_symlinkat => one(args[1] as i32, args[2], Access::WRITE, "symlink"),
        libc::SYS_renameat | libc::SYS_renameat2 => {
            let mut both = one(dir, args[1], Access::WRITE, "rename");
            both.extend(one(args[2] as i32, args[3], Access::WRITE, "rename"));
            both
        }
        libc::SYS_linkat => {
            let mut both = one(dir, args[1], Access::READ, "link");
            both.extend(one(args[2] as i32, args[3], Access::WRITE, "link"));
            both
        }
        libc::SYS_newfstatat | libc::SYS_statx => one(dir, args[1], Access::READ, "stat"),
        libc::SYS_faccessat | libc::SYS_faccessat2 => one(dir, args[1], Access::READ, "access"),
        libc::SYS_readlinkat => one(dir, args[1], Access::READ, "readlink"),
        libc::SYS_chdir => one(HERE, args[0], Access::READ, "chdir"),
        libc::SYS_execve => one(HERE, args[0], Access::EXECUTE, "execute"),
        #[cfg(target_arch = "x86_64")]
        other => match other {
            libc::SYS_open => open(HERE, args[0], args[1]),
            libc::SYS_creat => one(HERE, args[0], Access::WRITE, "open"),
            libc::SYS_mkdir => one(HERE, args[0], Access::WRITE, "mkdir"),
            libc::SYS_mknod => one(HERE, args[0], Access::WRITE, "mknod"),
            libc::SYS_unlink => one(HERE, args[0], Access::WRITE, "unlink"),
            libc::SYS_rmdir => one(HERE, args[0], Access::WRITE, "rmdir"),
            libc::SYS_chmod => one(HERE, args[0], Access::WRITE, "chmod"),
            libc::SYS_chown | libc::SYS_lchown => one(HERE, args[0], Access::WRITE, "chown"),
            libc::SYS_symlink => one(HERE, args[1], Access::WRITE, "symlink"),
            libc::SYS_rename => {
                let mut both = one(HERE, args[0], Access::WRITE, "rename");
                both.extend(one(HERE, args[1], Access::WRITE, "rename"));
                both
            }
            libc::SYS_link => {
                let mut both = one(HERE, args[0], Access::READ, "link");
                both.extend(one(HERE, args[1], Access::WRITE, "link"));
                both
            }
            libc::SYS_stat | libc::SYS_lstat => one(HERE, args[0], Access::READ, "stat"),
            libc::SYS_access => one(HERE, args[0], Access::READ, "access"),
            libc::SYS_readlink => one(HERE, args[0], Access::READ, "readlink"),
            _ => Vec::new(),
        },
        #[cfg(not(target_arch = "x86_64"))]
        _ => Vec::new(),
    }
}

fn memory(pid: u32) -> io::Result<File> {
    File::open(format!("/proc/{pid}/mem"))
}

/// Reads a NUL-terminated path of at most `PATH_MAX` bytes, page by page: the
/// string may end just before unmapped memory.
fn read_path(pid: u32, address: u64) -> io::Result<Vec<u8>> {
    const PAGE: u64 = 4096;
    let memory = memory(pid)?;
    let mut path = Vec::new();
    let mut at = address;
    while path.len() < libc::PATH_MAX as usize {
        let mut chunk = vec![0; (PAGE - at % PAGE) as usize];
        let got = memory.read_at(&mut chunk, at)?;
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(end) = chunk[..got].iter().position(|byte| *byte == 0) {
            path.extend_from_slice(&chunk[..end]);
            return Ok(path);
        }
        path.extend_from_slice(&chunk[..got]);
        at += got as u64;
    }
    Err(io::ErrorKind::InvalidInput.into())
}

fn absolute(pid: u32, folder: i32, path: &[u8]) -> io::Result<PathBuf> {
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    if path.is_absolute() {
        return Ok(path.to_owned());
    }
    let base = if folder == libc::AT_FDCWD {
        fs::read_link(format!("/proc/{pid}/cwd"))?
    } else {
        fs::read_link(format!("/proc/{pid}/fd/{folder}"))?
    };
    Ok(base.join(path))
}

/// Resolves links and `..` as the kernel would, as far as the path exists in
/// the jail; what does not exist is taken as it is written.
fn follow(path: &Path) -> PathBuf {
    let mut rest: Vec<_> = path
        .components()
        .rev()
        .map(|part| part.as_os_str().to_owned())
        .collect();
    let mut done = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = rest.pop() {
        match Path::new(&part).components().next() {
            Some(Component::ParentDir) => {
                done.pop();
            }
            Some(Component::Normal(name)) => {
                let next = done.join(name);
                match fs::read_link(&next) {
                    Ok(target) if links < 40 => {
                        links += 1;
                        if target.is_absolute() {
                            done = PathBuf::from("/");
                        }
                        rest.extend(
                            target
                                .components()
                                .rev()
                                .map(|part| part.as_os_str().to_owned()),
                        );
                    }
                    _ => done = next,
                }
            }
            _ => {}
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_parents_are_followed_and_what_is_missing_stays_as_written() {
        let dir = tempfile::tempdir().expect("tempdir");
        let base = dir.path().canonicalize().expect("canonical");
        fs::create_dir(base.join("in")).expect("mkdir");
        std::os::unix::fs::symlink("../out/secret", base.join("in/link")).expect("symlink");
        assert_eq!(follow(&base.join("in/link/x")), base.join("out/secret/x"));
        assert_eq!(follow(&base.join("in/../new/file")), base.join("new/file"));
        std::os::unix::fs::symlink("self", base.join("self")).expect("symlink");
        assert_eq!(follow(&base.join("self")), base.join("self"));
    }
}

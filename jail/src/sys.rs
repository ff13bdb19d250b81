//! The only `unsafe` of the workspace: system calls that no crate wraps.
//!
//! Each function is one system call, or one that only makes sense together
//! with the next, with the arguments checked by its types.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

fn check(ret: libc::c_long) -> io::Result<libc::c_long> {
    if ret < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(ret)
    }
}

/// Which side of a fork this is.
pub(crate) enum Forked {
    /// The parent, with the child's process id.
    Parent(i32),
    /// The child.
    Child,
}

/// `clone(SIGCHLD | flags)` without a new stack. The caller must have a single
/// thread: the child gets a copy of the heap as it stands.
///
/// With `CLONE_PARENT` the child's parent is the caller's parent (clone(2)),
/// which lets the launcher wait for a cell's pid 1 although another process
/// forked it.
pub(crate) fn fork(flags: libc::c_int) -> io::Result<Forked> {
    debug_assert_eq!(flags & (libc::CLONE_VM | libc::CLONE_THREAD), 0);
    // SAFETY: without CLONE_VM this is fork(2): the child has its own copy of
    // the address space and returns here on the same stack. The process is
    // single-threaded, so no lock is held by a thread that does not exist in
    // the child.
    let pid = check(unsafe {
        libc::syscall(
            libc::SYS_clone,
            libc::c_long::from(flags | libc::SIGCHLD),
            0 as libc::c_long,
            0 as libc::c_long,
            0 as libc::c_long,
            0 as libc::c_long,
        )
    })?;
    Ok(if pid == 0 {
        Forked::Child
    } else {
        Forked::Parent(pid as i32)
    })
}

/// A stack for [`spawn_sharing`], made once and used again.
pub(crate) struct Stack(Vec<u8>);

impl Stack {
    pub(crate) fn new() -> Self {
        Stack(vec![0; 256 << 10])
    }
}

/// Runs `child` in a new process that shares this one's memory until it execs
/// or ends; this one stands still meanwhile (clone(2), CLONE_VM | CLONE_VFORK).
/// Saves copying page tables, which costs more than all other steps together.
///
/// `child` must not allocate, unwind or return, and may touch no lock: it runs
/// on `stack` beside the frames of the caller.
pub(crate) fn spawn_sharing<C: Fn()>(stack: &mut Stack, child: &C) -> io::Result<i32> {
    extern "C" fn enter<C: Fn()>(child: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the pointer is the `&C` below, whose owner stands still in
        // clone until this process has execed or ended.
        let child = unsafe { &*child.cast::<C>() };
        child();
        // Not reached: the walk ends in exec or in exit.
        127
    }
    // The stack grows down; its top is aligned to 16 as every ABI of ours asks.
    let top = stack.0.as_mut_ptr_range().end;
    let top = top.wrapping_sub(top as usize % 16);
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the stack is large enough for the few frames of a walk, is used
    // by nobody else while the caller stands still, and outlives the child's
    // use of it; without CLONE_FILES and CLONE_SIGHAND the child's descriptors
    // and signal actions are its own.
    let pid = unsafe {
        libc::clone(
            enter::<C>,
            top.cast(),
            flags,
            ptr::from_ref(child).cast_mut().cast(),
        )
    };
    check(pid.into())?;
    Ok(pid)
}

/// Ends the process without running destructors or `atexit` handlers.
pub(crate) fn exit_now(status: i32) -> ! {
    // SAFETY: _exit(2) takes no pointer and does not return.
    unsafe { libc::_exit(status) }
}

/// `mount_setattr(2)` on the mount at `fd` (AT_EMPTY_PATH), setting `set`.
pub(crate) fn mount_set(
    fd: BorrowedFd<'_>,
    recursive: bool,
    set: u64,
    propagation: u64,
) -> io::Result<()> {
    #[repr(C)]
    struct MountAttr {
        attr_set: u64,
        attr_clr: u64,
        propagation: u64,
        userns_fd: u64,
    }
    let attr = MountAttr {
        attr_set: set,
        attr_clr: 0,
        propagation,
        userns_fd: 0,
    };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a NUL-terminated constant; `attr` lives for the call
    // and its size is passed with it (mount_setattr(2), MOUNT_ATTR_SIZE_VER0).
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            fd.as_raw_fd(),
            c"".as_ptr(),
            flags,
            ptr::from_ref(&attr),
            mem::size_of::<MountAttr>(),
        )
    })?;
    Ok(())
}

/// Gives the process a new, empty session keyring
/// (`keyctl(KEYCTL_JOIN_SESSION_KEYRING, NULL)`, keyctl(2)).
pub(crate) fn join_new_session_keyring() -> io::Result<()> {
    const KEYCTL_JOIN_SESSION_KEYRING: libc::c_long = 1;
    // SAFETY: a null name asks for an anonymous keyring; nothing is written.
    check(unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            KEYCTL_JOIN_SESSION_KEYRING,
            ptr::null::<libc::c_char>(),
        )
    })?;
    Ok(())
}

/// The Landlock ABI of the running kernel; 0 when it has none
/// (landlock_create_ruleset(2), LANDLOCK_CREATE_RULESET_VERSION).
pub(crate) fn landlock_abi() -> u32 {
    // SAFETY: with a null attribute and size 0 the call only returns a number.
    let abi = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            ptr::null::<libc::c_void>(),
            0_usize,
            1_u32,
        )
    };
    u32::try_from(abi).unwrap_or(0)
}

/// `landlock_restrict_self(2)`; async-signal-safe. Needs `no_new_privs`.
pub(crate) fn landlock_restrict_self(ruleset: RawFd) -> io::Result<()> {
    // SAFETY: takes a descriptor and a flag word; a bad descriptor is an error.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0_u32) })?;
    Ok(())
}

/// Clears every capability set of the calling thread (capset(2), version 3);
/// async-signal-safe.
pub(crate) fn clear_capabilities() -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let header = Header {
        version: VERSION_3,
        pid: 0,
    };
    let data = [0_u32; 6];
    // SAFETY: both pointers are to locals of the layout that version 3 asks
    // for: a header and two triples of effective, permitted, inheritable.
    check(unsafe { libc::syscall(libc::SYS_capset, ptr::from_ref(&header), data.as_ptr()) })?;
    Ok(())
}

/// Marks every descriptor from `first` upwards close-on-exec
/// (close_range(2), CLOSE_RANGE_CLOEXEC, Linux 5.11); async-signal-safe.
pub(crate) fn cloexec_from(first: u32) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    })?;
    Ok(())
}

/// `dup2(2)`; the copy is not close-on-exec. Async-signal-safe.
pub(crate) fn dup2(from: RawFd, to: RawFd) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::dup2(from, to) }.into())?;
    Ok(())
}

/// `chdir(2)`; async-signal-safe.
pub(crate) fn chdir(path: &CStr) -> io::Result<()> {
    // SAFETY: `path` is NUL-terminated and outlives the call.
    check(unsafe { libc::chdir(path.as_ptr()) }.into())?;
    Ok(())
}

/// `setsid(2)`; async-signal-safe.
pub(crate) fn setsid() -> io::Result<()> {
    // SAFETY: takes nothing.
    check(unsafe { libc::setsid() }.into())?;
    Ok(())
}

/// `setrlimit(2)` with soft = hard = `value`; async-signal-safe.
pub(crate) fn set_limit(resource: u32, value: u64) -> io::Result<()> {
    let limit = libc::rlimit {
        rlim_cur: value,
        rlim_max: value,
    };
    // SAFETY: `limit` lives for the call; an unknown resource is an error.
    check(unsafe { libc::setrlimit(resource as _, &limit) }.into())?;
    Ok(())
}

/// Restores the default action of every signal that can have one, for the
/// first process of a cell: ignored signals survive exec (signal(7)), and what
/// its launcher ignored is no business of the calls.
pub(crate) fn reset_signals() {
    // SAFETY: sets dispositions to SIG_DFL, which touches no memory of ours;
    // numbers that cannot be changed only return an error.
    unsafe {
        for signal in 1..=64 {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

/// Ignores SIGPIPE: a launcher that is gone is noticed as an error of the
/// write, not as the death of the one who has to clean up.
pub(crate) fn ignore_broken_pipes() {
    // SAFETY: as above.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// What a call has to undo of the first process's own signal state: the
/// blocked SIGCHLD and the ignored SIGPIPE. Async-signal-safe.
pub(crate) fn default_signals() {
    // SAFETY: as above; the set is a local that is initialised before use.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut empty: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&mut empty);
        libc::sigprocmask(libc::SIG_SETMASK, &empty, ptr::null_mut());
    }
}

/// A program with arguments and environment, laid out for `execve(2)` before
/// the fork so that nothing is allocated after it.
pub(crate) struct Image {
    program: CString,
    argv: Vec<CString>,
    envp: Vec<CString>,
}

impl Image {
    pub(crate) fn new(program: CString, argv: Vec<CString>, envp: Vec<CString>) -> Self {
        Image {
            program,
            argv,
            envp,
        }
    }

    /// The pointer tables of `execve`; they borrow from `self`.
    pub(crate) fn tables(&self) -> Tables<'_> {
        let table = |strings: &[CString]| {
            strings
                .iter()
                .map(|string| string.as_ptr())
                .chain([ptr::null()])
                .collect()
        };
        Tables {
            image: self,
            argv: table(&self.argv),
            envp: table(&self.envp),
        }
    }
}

/// Pointer tables of an [`Image`].
pub(crate) struct Tables<'a> {
    image: &'a Image,
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
}

impl Tables<'_> {
    /// `execve(2)`; returns only on failure. Async-signal-safe.
    pub(crate) fn exec(&self) -> io::Error {
        // SAFETY: program and both tables are NUL-terminated and borrow from
        // an `Image` that is still alive.
        unsafe {
            libc::execve(
                self.image.program.as_ptr(),
                self.argv.as_ptr(),
                self.envp.as_ptr(),
            )
        };
        io::Error::last_os_error()
    }
}

/// Writes `bytes` to `fd` in one call and ignores the outcome: there is nobody
/// left to tell. Async-signal-safe.
pub(crate) fn write_last_words(fd: RawFd, bytes: &[u8]) {
    // SAFETY: the buffer is valid for its length.
    unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
}

/// One instruction of a classic BPF program, in the kernel's layout.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    pub(crate) jt: u8,
    pub(crate) jf: u8,
    pub(crate) k: u32,
}

/// Installs a seccomp filter on the calling thread; async-signal-safe. With
/// `listener` the descriptor for user notifications comes back
/// (seccomp(2), SECCOMP_FILTER_FLAG_NEW_LISTENER).
pub(crate) fn install_filter(program: &[Instruction], listener: bool) -> io::Result<Option<RawFd>> {
    #[repr(C)]
    struct Program {
        len: u16,
        filter: *const Instruction,
    }
    const SET_MODE_FILTER: libc::c_long = 1;
    const NEW_LISTENER: libc::c_long = 1 << 3;
    let len =
        u16::try_from(program.len()).map_err(|_| io::Error::from_raw_os_error(libc::E2BIG))?;
    let program = Program {
        len,
        filter: program.as_ptr(),
    };
    let flags = if listener { NEW_LISTENER } else { 0 };
    // SAFETY: `program` and the instructions it points to live for the call,
    // and the kernel copies them.
    let ret = check(unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            SET_MODE_FILTER,
            flags,
            ptr::from_ref(&program),
        )
    })?;
    Ok(listener.then_some(ret as RawFd))
}

/// One notification of a seccomp filter (`struct seccomp_notif`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notification {
    pub(crate) id: u64,
    pub(crate) pid: u32,
    pub(crate) syscall: i64,
    pub(crate) args: [u64; 6],
}

/// Takes one notification (SECCOMP_IOCTL_NOTIF_RECV, seccomp_unotify(2)).
/// `ENOENT` means that the caller of the system call died meanwhile.
pub(crate) fn receive_notification(listener: BorrowedFd<'_>) -> io::Result<Notification> {
    let mut raw = libc::seccomp_notif {
        id: 0,
        pid: 0,
        flags: 0,
        data: libc::seccomp_data {
            nr: 0,
            arch: 0,
            instruction_pointer: 0,
            args: [0; 6],
        },
    };
    // SAFETY: `raw` has the kernel's layout, is zeroed as the ioctl asks, and
    // lives for the call.
    let ret = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            NOTIF_RECV as _,
            ptr::from_mut(&mut raw),
        )
    };
    check(ret.into())?;
    Ok(Notification {
        id: raw.id,
        pid: raw.pid,
        syscall: raw.data.nr.into(),
        args: raw.data.args,
    })
}

/// Lets the noticed call go on as if it had not been noticed
/// (SECCOMP_USER_NOTIF_FLAG_CONTINUE). It is judged by the kernel, not by us.
pub(crate) fn continue_notification(listener: BorrowedFd<'_>, id: u64) -> io::Result<()> {
    let mut raw = libc::seccomp_notif_resp {
        id,
        val: 0,
        error: 0,
        flags: 1,
    };
    // SAFETY: as above.
    let ret = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            NOTIF_SEND as _,
            ptr::from_mut(&mut raw),
        )
    };
    check(ret.into())?;
    Ok(())
}

/// Asks the kernel to hand a notification over on the CPU of its sender
/// (SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP, Linux 6.6), which halves its cost; a
/// kernel that does not know it goes on without.
pub(crate) fn wake_notifications_in_place(listener: BorrowedFd<'_>) {
    const SYNC_WAKE_UP: libc::c_ulong = 1;
    // SAFETY: this ioctl takes its flags by value in the argument word.
    unsafe { libc::ioctl(listener.as_raw_fd(), NOTIF_SET_FLAGS as _, SYNC_WAKE_UP) };
}

// _IOW('!', 4, u64)
const NOTIF_SET_FLAGS: u64 = 0x4000_0000 | (8 << 16) | (0x21 << 8) | 4;

// _IOWR('!', n, T): direction 3 << 30, size << 16, '!' << 8, number.
const NOTIF_RECV: u64 =
    0xc000_0000 | ((mem::size_of::<libc::seccomp_notif>() as u64) << 16) | (0x21 << 8);
const NOTIF_SEND: u64 =
    0xc000_0000 | ((mem::size_of::<libc::seccomp_notif_resp>() as u64) << 16) | (0x21 << 8) | 1;

/// Sends `fd` over the socket `to` with one byte; async-signal-safe.
pub(crate) fn send_descriptor(to: RawFd, fd: RawFd) -> io::Result<()> {
    #[repr(C, align(8))]
    struct Control([u8; 32]);
    let byte = [b'L'];
    let mut control = Control([0; 32]);
    // SAFETY: the header points only to locals that live for the call, the
    // control buffer is aligned and larger than CMSG_SPACE of one descriptor.
    unsafe {
        let mut iov = libc::iovec {
            iov_base: byte.as_ptr().cast_mut().cast(),
            iov_len: 1,
        };
        let mut header: libc::msghdr = mem::zeroed();
        header.msg_iov = &mut iov;
        header.msg_iovlen = 1;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = libc::CMSG_SPACE(mem::size_of::<RawFd>() as u32) as _;
        let cmsg = libc::CMSG_FIRSTHDR(&header);
        (*cmsg).cmsg_level = libc::SOL_SOCKET;
        (*cmsg).cmsg_type = libc::SCM_RIGHTS;
        (*cmsg).cmsg_len = libc::CMSG_LEN(mem::size_of::<RawFd>() as u32) as _;
        libc::CMSG_DATA(cmsg).cast::<RawFd>().write_unaligned(fd);
        check(libc::sendmsg(to, &header, libc::MSG_NOSIGNAL) as libc::c_long)?;
    }
    Ok(())
}

/// Brings the loopback interface of the current network namespace up
/// (netdevice(7), SIOCSIFFLAGS).
pub(crate) fn loopback_up() -> io::Result<()> {
    // SAFETY: `request` is a zeroed ifreq with the name filled in, alive for
    // both calls; the socket is owned and closed by `OwnedFd`.
    unsafe {
        let raw =
            check(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0).into())?;
        let socket = OwnedFd::from_raw_fd(raw as RawFd);
        let mut request: libc::ifreq = mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        check(libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &mut request).into())?;
        request.ifr_ifru.ifru_flags |= (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        check(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &mut request).into())?;
    }
    Ok(())
}

/// What `wait4(2)` says of one ended child.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) pid: i32,
    pub(crate) status: i32,
    /// User and system time of the process and the children it waited for, µs.
    pub(crate) cpu_us: u64,
    /// Largest resident set, KiB.
    pub(crate) max_rss_kib: u64,
}

/// Waits for any child. `Ok(None)`: no child has ended (only without `block`);
/// `ECHILD` when there is none at all.
pub(crate) fn wait_any(block: bool) -> io::Result<Option<Ended>> {
    loop {
        let mut status = 0;
        // SAFETY: all zeroes is a valid rusage.
        let mut usage: libc::rusage = unsafe { mem::zeroed() };
        let flags = if block { 0 } else { libc::WNOHANG };
        // SAFETY: both pointers are to locals.
        let ret = unsafe { libc::wait4(-1, &mut status, flags | libc::__WALL, &mut usage) };
        match check(ret.into()) {
            Ok(0) => return Ok(None),
            Ok(pid) => {
                let micros =
                    |time: libc::timeval| (time.tv_sec as u64) * 1_000_000 + time.tv_usec as u64;
                return Ok(Some(Ended {
                    pid: pid as i32,
                    status,
                    cpu_us: micros(usage.ru_utime) + micros(usage.ru_stime),
                    max_rss_kib: usage.ru_maxrss as u64,
                }));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// `kill(2)` with SIGKILL; `-1` is everything that the caller may signal
/// except itself and, in a pid namespace, pid 1.
pub(crate) fn kill_hard(pid: i32) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::kill(pid, libc::SIGKILL) }.into())?;
    Ok(())
}

/// A descriptor that becomes readable at SIGCHLD, which is blocked for it
/// (signalfd(2)).
pub(crate) fn child_signals() -> io::Result<OwnedFd> {
    // SAFETY: the set is a local that is initialised before use; the new
    // descriptor is owned by nobody else.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        check(libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut()).into())?;
        let fd = check(libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK).into())?;
        Ok(OwnedFd::from_raw_fd(fd as RawFd))
    }
}

/// Sets the host name of the current UTS namespace.
pub(crate) fn set_host_name(name: &CStr) -> io::Result<()> {
    // SAFETY: the pointer is valid for the length that is passed.
    check(unsafe { libc::sethostname(name.as_ptr(), name.to_bytes().len()) }.into())?;
    Ok(())
}

/// Drops all supplementary groups; needs CAP_SETGID.
pub(crate) fn drop_groups() -> io::Result<()> {
    // SAFETY: an empty list is never read.
    check(unsafe { libc::syscall(libc::SYS_setgroups, 0_usize, ptr::null::<libc::gid_t>()) })?;
    Ok(())
}

/// `unshare(2)`.
pub(crate) fn unshare(flags: u32) -> io::Result<()> {
    // SAFETY: takes a flag word only; CLONE_FILES and CLONE_VM are not used by
    // any caller.
    check(unsafe { libc::unshare(flags as libc::c_int) }.into())?;
    Ok(())
}

/// Tries, in a child that ends at once, what the full form rests on: new
/// namespaces, a mount in them, and a new /proc from a first process. Gives the
/// step that failed.
///
/// May be called from a process with threads: the children make system calls
/// only and allocate nothing.
pub(crate) fn try_namespaces() -> Result<(), (&'static str, io::Error)> {
    const STEPS: [&str; 5] = [
        "fork",
        "new namespaces",
        "a mount in them",
        "fork in them",
        "a /proc of its own",
    ];
    let flags = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP;
    let mut pipe = [0; 2];
    // SAFETY: `pipe` has room for two descriptors; both are owned right away.
    let (ours, theirs) = unsafe {
        check(libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC).into())
            .map_err(|error| (STEPS[0], error))?;
        (OwnedFd::from_raw_fd(pipe[0]), OwnedFd::from_raw_fd(pipe[1]))
    };
    // SAFETY: after fork only async-signal-safe calls are made, on constants
    // and locals, and the children leave by _exit.
    let pid = unsafe {
        let say = |step: u8| -> ! {
            let errno = *libc::__errno_location() as u8;
            libc::write(theirs.as_raw_fd(), [step, errno].as_ptr().cast(), 2);
            libc::_exit(1)
        };
        let pid = libc::fork();
        if pid == 0 {
            if libc::unshare(flags) != 0 {
                say(1);
            }
            if libc::mount(
                ptr::null(),
                c"/".as_ptr(),
                ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                ptr::null(),
            ) != 0
            {
                say(2);
            }
            let first = libc::fork();
            if first < 0 {
                say(3);
            }
            if first == 0 {
                let noexec = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
                if libc::mount(
                    c"proc".as_ptr(),
                    c"/proc".as_ptr(),
                    c"proc".as_ptr(),
                    noexec,
                    ptr::null(),
                ) != 0
                {
                    say(4);
                }
                libc::_exit(0);
            }
            let mut status = 0;
            libc::waitpid(first, &mut status, 0);
            libc::_exit(0);
        }
        pid
    };
    if pid < 0 {
        return Err((STEPS[0], io::Error::last_os_error()));
    }
    drop(theirs);
    let mut said = [0_u8; 2];
    // SAFETY: the buffer is a local of the length given; the status is a local.
    let got = unsafe {
        let got = libc::read(ours.as_raw_fd(), said.as_mut_ptr().cast(), 2);
        let mut status = 0;
        while libc::waitpid(pid, &mut status, 0) < 0 && *libc::__errno_location() == libc::EINTR {}
        got
    };
    if got == 2 {
        let step = STEPS.get(said[0] as usize).copied().unwrap_or("a step");
        return Err((step, io::Error::from_raw_os_error(said[1].into())));
    }
    Ok(())
}

//! The first process of a cell: a fresh image of the launching binary that
//! builds the cell, forks each call, and leaves nothing behind.
//!
//! It holds no memory of its launcher, no environment and one descriptor, the
//! socket; when that closes, for whatever reason, it ends, and in the full form
//! the kernel ends everything in its pid namespace with it.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::failure::{At, Failure};
use super::launch::Launch;
use super::observe::Observer;
use super::wire::{self, Answer, Ask, Run};
use super::{facts, landlock, mounts, seccomp, sweep};
use crate::guarantee::Form;
use crate::policy::{Network, Observe, Policy};
use crate::report::{Exit, Report, Spent};
use crate::sys::{self, Forked, Instruction};

/// `argv[0]` of a process that is started to be a cell's first process.
pub(super) const NAME: &str = "delegate-jail-init";

/// Returns unless this process was started to be the first process of a cell;
/// then it never does. To be called first thing in `main`, before any thread.
pub fn enter_if_asked() {
    if std::env::args_os().next().is_some_and(|name| name == NAME) {
        // Descriptor 0 is the socket that
        // `Plan::open` put there.
        let status = match io::stdin().as_fd().try_clone_to_owned() {
            Ok(socket) => run(UnixStream::from(socket)),
            Err(_) => 1,
        };
        sys::exit_now(status);
    }
}

fn run(socket: UnixStream) -> i32 {
    // Descriptor 0 becomes /dev/null so that the socket has one number only,
    // above those that a call's own input and output take.
    if quiet_stdio().is_err() {
        return 1;
    }
    sys::reset_signals();
    sys::ignore_broken_pipes();
    let (policy, form, temp) = match wire::receive::<Ask>(&socket) {
        Ok(Some((Ask::Open { policy, form, temp }, _))) => (policy, form, temp),
        _ => return 1,
    };
    match build(&socket, &policy, form) {
        Ok(Some(cell)) => {
            let status = serve(&socket, &policy, form, &cell);
            if let Some(temp) = temp {
                // The opener does the same when it lives; whoever comes second
                // finds nothing.
                let _ = fs::remove_dir_all(temp);
            }
            status
        }
        Ok(None) => 0,
        Err(failure) => {
            let _ = wire::send(&socket, &Answer::Failed(failure), &[]);
            1
        }
    }
}

fn quiet_stdio() -> io::Result<()> {
    let null = fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    for fd in 0..3 {
        sys::dup2(null.as_raw_fd(), fd)?;
    }
    Ok(())
}

/// What every call of the cell shares.
struct Sealed {
    ruleset: Option<OwnedFd>,
    observe: Option<Vec<Instruction>>,
    signals: OwnedFd,
}

/// Builds the cell. `None`: this process was only the way to pid 1.
fn build(socket: &UnixStream, policy: &Policy, form: Form) -> Result<Option<Sealed>, Failure> {
    if form == Form::Full {
        separate(policy)?;
        // The new pid namespace begins with the next fork. CLONE_PARENT makes
        // the launcher its parent, so this process can go.
        match sys::fork(libc::CLONE_PARENT).at("fork the first process of the cell")? {
            Forked::Parent(_) => return Ok(None),
            Forked::Child => {}
        }
        mounts::enter_private_root(policy)?;
        if policy.network == Network::Off {
            sys::loopback_up().at("bring the loopback up")?;
        }
        sys::set_host_name(c"jail").at("name the host")?;
    } else {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .at("become the reaper of what the calls leave")?;
    }
    let cell = seal(policy, form)?;
    let me = rustix::process::pidfd_open(
        rustix::process::getpid(),
        rustix::process::PidfdFlags::empty(),
    )
    .at("name the cell for its launcher")?;
    wire::send(socket, &Answer::Ready, &[me.as_fd()]).at("answer the launcher")?;
    Ok(Some(cell))
}

/// Enters namespaces of its own and maps the user to itself.
fn separate(policy: &Policy) -> Result<(), Failure> {
    let uid = rustix::process::geteuid();
    let gid = rustix::process::getegid();
    if uid.is_root() {
        sys::drop_groups().at("drop supplementary groups")?;
    }
    facts::unshare(policy.network == Network::Off).at("enter new namespaces")?;
    // A process may map its own user once it has given up setgroups(2)
    // (user_namespaces(7)).
    fs::write("/proc/self/setgroups", "deny").at("give up setgroups")?;
    fs::write("/proc/self/uid_map", format!("{0} {0} 1", uid.as_raw())).at("map the user")?;
    fs::write("/proc/self/gid_map", format!("{0} {0} 1", gid.as_raw())).at("map the group")?;
    Ok(())
}

/// Gives up everything that building needed and nothing afterwards does.
fn seal(policy: &Policy, form: Form) -> Result<Sealed, Failure> {
    let ruleset = landlock::ruleset(policy, form).at("make the Landlock ruleset")?;
    let observe = seccomp::notify(policy.observe).at("compile the observing filter")?;
    let deny = seccomp::deny(policy, form).at("compile the system call filter")?;
    let signals = sys::child_signals().at("watch for ended children")?;
    // Not all kernels allow it twice in a row; the answer says `enforced` only
    // because a failure here stops the cell.
    sys::join_new_session_keyring().at("start a session keyring of its own")?;
    if caps::has_cap(None, caps::CapSet::Effective, caps::Capability::CAP_SETPCAP).unwrap_or(false)
    {
        caps::clear(None, caps::CapSet::Bounding)
            .map_err(io::Error::other)
            .at("empty the capability bounding set")?;
    }
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .at("keep its memory private")?;
    sys::set_limit(libc::RLIMIT_CORE, 0).at("turn core dumps off")?;
    rustix::thread::set_no_new_privs(true).at("give up new privileges")?;
    if form == Form::Full {
        sys::clear_capabilities().at("drop capabilities")?;
    }
    for filter in deny {
        sys::install_filter(&filter, false).at("load the system call filter")?;
    }
    Ok(Sealed {
        ruleset,
        observe,
        signals,
    })
}

/// Runs one call after another until the socket closes.
fn serve(socket: &UnixStream, policy: &Policy, form: Form, cell: &Sealed) -> i32 {
    loop {
        let (ask, fds) = match wire::receive::<Ask>(socket) {
            Ok(Some(frame)) => frame,
            _ => {
                sweep::everything(form);
                return 0;
            }
        };
        match ask {
            Ask::Run(run) => {
                let Ok(stdio) = <[OwnedFd; 3]>::try_from(fds) else {
                    return 1;
                };
                if call(socket, policy, form, cell, &run, stdio).is_err() {
                    sweep::everything(form);
                    return 1;
                }
            }
            // Too late: the call has ended.
            Ask::Kill { .. } => {}
            Ask::Open { .. } => return 1,
        }
    }
}

/// The state of a running call.
struct Running {
    pid: i32,
    deadline: Option<Instant>,
    listener: Option<OwnedFd>,
    /// Open until the command is executed.
    launching: Option<OwnedFd>,
    exit: Option<Exit>,
    /// The command itself has been waited for.
    reaped: bool,
    max_rss_kib: u64,
    cpu_us: u64,
}

fn call(
    socket: &UnixStream,
    policy: &Policy,
    form: Form,
    cell: &Sealed,
    run: &Run,
    stdio: [OwnedFd; 3],
) -> io::Result<()> {
    let started = Instant::now();
    let launch = match Launch::prepare(
        run,
        policy,
        cell.ruleset.as_ref().map(AsRawFd::as_raw_fd),
        cell.observe.as_deref(),
        &stdio,
    ) {
        Ok(launch) => launch,
        Err(unprepared) => {
            let answer = Answer::NotStarted {
                step: unprepared.step.to_owned(),
                errno: unprepared.errno,
            };
            return wire::send(socket, &answer, &[]);
        }
    };
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let tables = launch.tables();
    let pid = match start(policy, &launch, &tables, theirs.as_raw_fd()) {
        Ok(pid) => pid,
        Err(error) => {
            let errno = error.raw_os_error().unwrap_or(0);
            let step = "fork".to_owned();
            return wire::send(socket, &Answer::NotStarted { step, errno }, &[]);
        }
    };
    drop((theirs, stdio));
    let mut running = Running {
        pid,
        deadline: run
            .deadline
            .or(policy.deadline)
            .map(|limit| started + limit),
        listener: None,
        launching: Some(ours),
        exit: None,
        reaped: false,
        max_rss_kib: 0,
        cpu_us: 0,
    };
    let mut observer = Observer::new(policy);
    let failed = watch(socket, cell, run, &mut running, &mut observer)?;
    drop(running.listener.take());
    let left = sweep::after_call(form, !running.reaped);
    if let Some((step, errno)) = failed {
        let answer = Answer::NotStarted {
            step: launch.step_name(step).to_owned(),
            errno,
        };
        return wire::send(socket, &answer, &[]);
    }
    let report = Report {
        exit: running.exit.unwrap_or(Exit::Cancelled),
        survivors: left.killed,
        denials: observer.finish(),
        spent: Spent {
            wall: started.elapsed(),
            cpu: Duration::from_micros(running.cpu_us + left.cpu_us),
            max_rss: running.max_rss_kib.max(left.max_rss_kib) * 1024,
        },
    };
    wire::send(socket, &Answer::Ended(report), &[])
}

/// Forks the call. When look-ups are observed, so is its exec, and this process
/// must be awake to let it go on: then the child gets a memory of its own.
fn start(
    policy: &Policy,
    launch: &Launch,
    tables: &sys::Tables<'_>,
    report: RawFd,
) -> io::Result<i32> {
    if policy.observe == Observe::All {
        return match sys::fork(0)? {
            Forked::Child => launch.walk(tables, report),
            Forked::Parent(pid) => Ok(pid),
        };
    }
    let mut stack = sys::Stack::new();
    sys::spawn_sharing(&mut stack, &|| launch.walk(tables, report))
}

/// Waits until the command has ended, has run out of time, or was not started;
/// in the last case the failed step and errno come back.
fn watch(
    socket: &UnixStream,
    cell: &Sealed,
    run: &Run,
    running: &mut Running,
    observer: &mut Observer<'_>,
) -> io::Result<Option<(usize, i32)>> {
    loop {
        let timeout = match running.deadline {
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    running.exit = Some(Exit::Deadline);
                    sweep::kill_tree(running.pid);
                    return Ok(None);
                }
                Timespec::try_from(left).ok()
            }
            None => None,
        };
        let ready = wait_ready(socket, cell, running, timeout.as_ref())?;
        if ready.launching
            && let Some(failed) = launch_message(socket, running)?
        {
            return Ok(Some(failed));
        }
        if ready.listener
            && let Some(listener) = &running.listener
        {
            // A miss is not an error of the call: see `Observer::notice`.
            let _ = observer.notice(listener.as_fd());
        }
        if ready.child && reap(cell, running)? {
            // The message of a failed launch may still be in the socket.
            if running.launching.is_some()
                && let Some(failed) = launch_message(socket, running)?
            {
                return Ok(Some(failed));
            }
            return Ok(None);
        }
        if ready.socket {
            match wire::receive::<Ask>(socket)? {
                Some((Ask::Kill { call }, _)) if call == run.call => {
                    running.exit = Some(Exit::Cancelled);
                    sweep::kill_tree(running.pid);
                    return Ok(None);
                }
                Some((Ask::Kill { .. }, _)) => {}
                // A second command while one runs, or nobody left to tell.
                Some(_) | None => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
    }
}

struct Ready {
    socket: bool,
    child: bool,
    launching: bool,
    listener: bool,
}

fn wait_ready(
    socket: &UnixStream,
    cell: &Sealed,
    running: &mut Running,
    timeout: Option<&Timespec>,
) -> io::Result<Ready> {
    let mut fds = vec![
        PollFd::new(socket, PollFlags::IN),
        PollFd::new(&cell.signals, PollFlags::IN),
    ];
    let launching = running.launching.as_ref().map(|fd| {
        fds.push(PollFd::new(fd, PollFlags::IN));
        fds.len() - 1
    });
    let listener = running.listener.as_ref().map(|fd| {
        fds.push(PollFd::new(fd, PollFlags::IN));
        fds.len() - 1
    });
    match rustix::event::poll(&mut fds, timeout) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let is = |index: Option<usize>| index.is_some_and(|index| !fds[index].revents().is_empty());
    let ready = Ready {
        socket: is(Some(0)),
        child: is(Some(1)),
        launching: is(launching),
        listener: listener.is_some_and(|index| fds[index].revents().contains(PollFlags::IN)),
    };
    // No process uses the filter any more.
    if listener.is_some_and(|index| fds[index].revents().contains(PollFlags::HUP)) {
        running.listener = None;
    }
    Ok(ready)
}

/// Reads what the forked child says on its way to exec: its listener, a failed
/// step, or (the end of the stream) nothing more, since it was executed.
fn launch_message(socket: &UnixStream, running: &mut Running) -> io::Result<Option<(usize, i32)>> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
    let Some(launching) = &running.launching else {
        return Ok(None);
    };
    let mut words = [0_u8; 8];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message = rustix::net::recvmsg(
        launching,
        &mut [io::IoSliceMut::new(&mut words)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
    );
    let bytes = match message {
        Ok(message) => message.bytes,
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            running.listener = rights.last();
            if let Some(listener) = &running.listener {
                sys::wake_notifications_in_place(listener.as_fd());
            }
        }
    }
    match bytes {
        0 => {
            running.launching = None;
            wire::send(socket, &Answer::Started, &[])?;
            Ok(None)
        }
        8 => {
            let word = |at: usize| {
                u32::from_le_bytes([words[at], words[at + 1], words[at + 2], words[at + 3]])
            };
            Ok(Some((word(0) as usize, word(4) as i32)))
        }
        _ => Ok(None),
    }
}

/// Collects every ended child; true when the command itself was among them.
fn reap(cell: &Sealed, running: &mut Running) -> io::Result<bool> {
    let mut record = [0_u8; 128];
    // Drains the signal; what matters is who can be waited for.
    let _ = rustix::io::read(&cell.signals, &mut record);
    let mut over = false;
    loop {
        match sys::wait_any(false) {
            Ok(Some(ended)) => {
                running.cpu_us += ended.cpu_us;
                running.max_rss_kib = running.max_rss_kib.max(ended.max_rss_kib);
                if ended.pid == running.pid {
                    running.exit = Some(if libc::WIFSIGNALED(ended.status) {
                        Exit::Signal(libc::WTERMSIG(ended.status))
                    } else {
                        Exit::Code(libc::WEXITSTATUS(ended.status))
                    });
                    running.reaped = true;
                    over = true;
                }
            }
            Ok(None) => return Ok(over),
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(over),
            Err(error) => return Err(error),
        }
    }
}

//! The opener's side of a cell.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::failure::Failure;
use super::init;
use super::narrow::{self, PrivateTemp};
use super::plan::Plan;
use super::wire::{self, Answer, Ask, Raw, Run};
use crate::child::{Command, Launcher};
use crate::error::JailError;
use crate::guarantee::{Enforcement, Form};
use crate::policy::Policy;
use crate::report::Report;

/// The place in which the calls of one run live. Dropping it ends everything
/// in it.
#[derive(Debug)]
pub struct Cell {
    inner: Arc<Inner>,
    enforcement: Enforcement,
    policy: Policy,
    // Declared last: it goes when everything in the cell is dead.
    _temp: Option<PrivateTemp>,
}

#[derive(Debug)]
struct Inner {
    socket: UnixStream,
    /// Writes are whole frames: two writers must not mix theirs.
    writing: Mutex<()>,
    /// Number of the running call; 0 when none runs.
    running: AtomicU64,
    calls: AtomicU64,
    pid1: OwnedFd,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The cell ends at the end of its socket. Waiting makes sure that its
        // tree is dead when this returns, and leaves no zombie.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        let _ = rustix::process::waitid(
            rustix::process::WaitId::PidFd(self.pid1.as_fd()),
            rustix::process::WaitIdOptions::EXITED,
        );
    }
}

fn gone(what: impl std::fmt::Display) -> JailError {
    JailError::Gone {
        what: what.to_string(),
    }
}

fn failed(failure: Failure) -> JailError {
    if failure.changed {
        return JailError::Changed {
            path: failure.step.into(),
        };
    }
    let source = if failure.errno == 0 {
        io::Error::other("refused")
    } else {
        io::Error::from_raw_os_error(failure.errno)
    };
    JailError::Step {
        step: failure.step,
        source,
    }
}

impl Cell {
    pub(super) fn open(plan: &Plan, launcher: &Launcher) -> Result<Cell, JailError> {
        let step = |step: &str| {
            let step = step.to_owned();
            move |source| JailError::Step { step, source }
        };
        let (shown, temp) = match plan.form() {
            Form::Full => (plan.policy().clone(), None),
            _ => {
                narrow::narrowed(plan.policy()).map_err(step("make a private temporary folder"))?
            }
        };
        let (ours, theirs) = UnixStream::pair().map_err(step("make a socket for the cell"))?;
        let mut first = std::process::Command::new(&launcher.program)
            .arg0(init::NAME)
            .env_clear()
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(step("start the first process of the cell"))?;
        let ask = Ask::Open {
            policy: Box::new(shown),
            form: plan.form(),
            temp: temp.as_ref().map(|temp| temp.path().to_owned()),
        };
        let answer = wire::send(&ours, &ask, &[]).and_then(|()| wire::receive::<Answer>(&ours));
        if answer.is_err() {
            // What waits for a frame that never came must see the end first.
            let _ = ours.shutdown(std::net::Shutdown::Both);
        }
        if plan.form() == Form::Full {
            // It has forked pid 1, or failed: it ends by itself either way.
            let _ = first.wait();
        }
        match answer {
            Ok(Some((Answer::Ready, mut fds))) if fds.len() == 1 => Ok(Cell {
                inner: Arc::new(Inner {
                    socket: ours,
                    writing: Mutex::new(()),
                    running: AtomicU64::new(0),
                    calls: AtomicU64::new(0),
                    pid1: fds.remove(0),
                }),
                enforcement: plan.enforcement().clone(),
                policy: plan.policy().clone(),
                _temp: temp,
            }),
            other => {
                drop(ours);
                if plan.form() == Form::Narrow {
                    let _ = first.wait();
                }
                Err(match other {
                    Ok(Some((Answer::Failed(failure), _))) => failed(failure),
                    Ok(_) => gone("its first process ended while it was made"),
                    Err(error) => gone(error),
                })
            }
        }
    }

    /// What the kernel enforces in it.
    pub fn enforcement(&self) -> &Enforcement {
        &self.enforcement
    }

    /// Starts a command. One at a time: a second while one runs is
    /// [`JailError::Busy`].
    ///
    /// # Errors
    ///
    /// [`JailError::Exec`] when the program cannot be executed,
    /// [`JailError::Step`] when a step before that failed; the cell stays
    /// usable. [`JailError::Gone`] when it has died.
    pub fn spawn(&self, command: Command) -> Result<Child, JailError> {
        let Some(program) = command.argv.first().map(std::path::PathBuf::from) else {
            return Err(JailError::Command {
                what: "it is empty",
            });
        };
        let call = self.inner.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if self
            .inner
            .running
            .compare_exchange(0, call, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            return Err(JailError::Busy);
        }
        let mut argv: Vec<Raw> = command
            .argv
            .iter()
            .map(|arg| Raw::from(arg.as_os_str()))
            .collect();
        if self.enforcement.form != Form::Full
            && let Some(host) = narrow::host_program(&self.policy, &program)
        {
            argv[0] = Raw::from(host.as_os_str());
        }
        let run = Run {
            call,
            argv,
            env: command
                .env
                .iter()
                .map(|(name, value)| (Raw::from(name.as_os_str()), Raw::from(value.as_os_str())))
                .collect(),
            cwd: command
                .cwd
                .as_ref()
                .map(|cwd| Raw(cwd.as_os_str().as_bytes().to_vec())),
            deadline: command.deadline,
        };
        let stdio = [
            command.stdin.as_fd(),
            command.stdout.as_fd(),
            command.stderr.as_fd(),
        ];
        self.inner.send(&Ask::Run(run), &stdio)?;
        match wire::receive::<Answer>(&self.inner.socket).map_err(gone)? {
            Some((Answer::Started, _)) => Ok(Child {
                inner: Arc::clone(&self.inner),
                call,
                over: false,
            }),
            Some((Answer::NotStarted { step, errno }, _)) => {
                self.inner.running.store(0, Ordering::Release);
                let source = io::Error::from_raw_os_error(errno);
                Err(match step.as_str() {
                    "execute" | "find the program" => JailError::Exec { program, source },
                    _ => JailError::Step { step, source },
                })
            }
            Some(_) => Err(gone("it answered out of turn")),
            None => Err(gone("its first process ended")),
        }
    }
}

impl Inner {
    fn send(&self, ask: &Ask, fds: &[std::os::fd::BorrowedFd<'_>]) -> Result<(), JailError> {
        let _whole = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        wire::send(&self.socket, ask, fds).map_err(gone)
    }
}

/// A running command. Dropping it without [`Child::wait`] ends the whole cell,
/// so that nothing runs unwatched.
#[derive(Debug)]
pub struct Child {
    inner: Arc<Inner>,
    call: u64,
    over: bool,
}

impl Child {
    /// Blocks until the command has ended and everything that it started is
    /// dead.
    ///
    /// # Errors
    ///
    /// [`JailError::Gone`] when the cell died first.
    pub fn wait(mut self) -> Result<Report, JailError> {
        match wire::receive::<Answer>(&self.inner.socket).map_err(gone)? {
            Some((Answer::Ended(report), _)) => {
                self.over = true;
                self.inner.running.store(0, Ordering::Release);
                Ok(report)
            }
            Some(_) => Err(gone("it answered out of turn")),
            None => Err(gone("its first process ended")),
        }
    }

    /// A handle that ends this call from elsewhere.
    pub fn killer(&self) -> Killer {
        Killer {
            inner: Arc::downgrade(&self.inner),
            call: self.call,
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.over {
            let _ = self.inner.socket.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// Ends one call; harmless once it has ended.
#[derive(Clone, Debug)]
pub struct Killer {
    inner: std::sync::Weak<Inner>,
    call: u64,
}

impl Killer {
    /// Kills everything of the call. [`Child::wait`] then gives
    /// [`Exit::Cancelled`](crate::Exit::Cancelled).
    pub fn kill(&self) {
        if let Some(inner) = self.inner.upgrade() {
            let _ = inner.send(&Ask::Kill { call: self.call }, &[]);
        }
    }
}

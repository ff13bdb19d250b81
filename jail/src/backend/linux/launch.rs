//! From fork to exec: the steps of one call, prepared beforehand and walked
//! without allocating.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use super::wire::Run;
use crate::policy::{Limits, Policy};
use crate::sys::{self, Image, Instruction, Tables};

/// One system call of the way to exec, with its arguments ready.
enum Step {
    NewSession,
    DieWithParent,
    DefaultSignals,
    Stdio([RawFd; 3]),
    Limit(u32, u64),
    CloseOnExec,
    WorkIn(CString),
    NoCapabilities,
    Landlock(RawFd),
    Observe,
}

impl Step {
    fn name(&self) -> &'static str {
        match self {
            Step::NewSession => "start a session of its own",
            Step::DieWithParent => "die with the cell",
            Step::DefaultSignals => "reset signals",
            Step::Stdio(_) => "put standard input, output and error in place",
            Step::Limit(..) => "set a limit",
            Step::CloseOnExec => "close every other descriptor",
            Step::WorkIn(_) => "enter the working folder",
            Step::NoCapabilities => "drop capabilities",
            Step::Landlock(_) => "restrict itself with Landlock",
            Step::Observe => "load the observing filter",
        }
    }
}

/// A call, ready to be forked.
pub(super) struct Launch {
    steps: Vec<Step>,
    image: Image,
    observe: Option<Vec<Instruction>>,
}

/// Why a call could not be prepared.
pub(super) struct Unprepared {
    pub(super) step: &'static str,
    pub(super) errno: i32,
}

fn c_string(bytes: &[u8]) -> Result<CString, Unprepared> {
    CString::new(bytes).map_err(|_| Unprepared {
        step: "pass an argument with a NUL byte",
        errno: libc::EINVAL,
    })
}

impl Launch {
    /// Lays out everything that the child will need.
    pub(super) fn prepare(
        run: &Run,
        policy: &Policy,
        ruleset: Option<RawFd>,
        observe: Option<&[Instruction]>,
        stdio: &[OwnedFd; 3],
    ) -> Result<Self, Unprepared> {
        let mut env: Vec<(&[u8], &[u8])> = policy
            .env
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
            .collect();
        for (name, value) in &run.env {
            env.retain(|(other, _)| *other != name.0.as_slice());
            env.push((&name.0, &value.0));
        }
        let path = env
            .iter()
            .find(|(name, _)| *name == b"PATH")
            .map(|(_, value)| *value);
        let first = run.argv.first().ok_or(Unprepared {
            step: "run an empty command",
            errno: libc::EINVAL,
        })?;
        let program = find_program(&first.0, path.unwrap_or(b"/usr/bin:/bin"))?;
        let cwd = match &run.cwd {
            Some(cwd) => c_string(&cwd.0)?,
            None => c_string(policy.cwd.as_os_str().as_bytes())?,
        };
        let argv = run
            .argv
            .iter()
            .map(|arg| c_string(&arg.0))
            .collect::<Result<_, _>>()?;
        let envp = env
            .iter()
            .map(|(name, value)| c_string(&[*name, b"=", *value].concat()))
            .collect::<Result<_, _>>()?;
        let mut steps = vec![
            Step::NewSession,
            Step::DieWithParent,
            Step::DefaultSignals,
            Step::Stdio([
                stdio[0].as_raw_fd(),
                stdio[1].as_raw_fd(),
                stdio[2].as_raw_fd(),
            ]),
        ];
        steps.extend(
            limits(&policy.limits)
                .into_iter()
                .map(|(resource, value)| Step::Limit(resource, value)),
        );
        steps.extend([Step::CloseOnExec, Step::WorkIn(cwd), Step::NoCapabilities]);
        steps.extend(ruleset.map(Step::Landlock));
        if observe.is_some() {
            steps.push(Step::Observe);
        }
        Ok(Launch {
            steps,
            image: Image::new(program, argv, envp),
            observe: observe.map(<[Instruction]>::to_vec),
        })
    }

    /// The name of the step with this number; exec is the last.
    pub(super) fn step_name(&self, number: usize) -> &'static str {
        self.steps.get(number).map_or("execute", Step::name)
    }

    /// Pointer tables for [`Launch::walk`]; made before the fork.
    pub(super) fn tables(&self) -> Tables<'_> {
        self.image.tables()
    }

    /// The child's side. Every step or nothing: the first failure is written to
    /// `report` (step number and errno, two little-endian `u32`) and ends the
    /// process. On success `report` closes at exec.
    pub(super) fn walk(&self, tables: &Tables<'_>, report: RawFd) -> ! {
        for (number, step) in self.steps.iter().enumerate() {
            if let Err(error) = self.take(step, report) {
                fail(report, number, &error);
            }
        }
        let error = tables.exec();
        fail(report, self.steps.len(), &error)
    }

    fn take(&self, step: &Step, report: RawFd) -> io::Result<()> {
        match step {
            Step::NewSession => sys::setsid(),
            Step::DieWithParent => rustix::process::set_parent_process_death_signal(Some(
                rustix::process::Signal::KILL,
            ))
            .map_err(Into::into),
            Step::DefaultSignals => {
                sys::default_signals();
                Ok(())
            }
            // The sources are all above 2 (see `init`), so no copy overwrites
            // a source that is still needed.
            Step::Stdio([stdin, stdout, stderr]) => {
                sys::dup2(*stdin, 0)?;
                sys::dup2(*stdout, 1)?;
                sys::dup2(*stderr, 2)
            }
            Step::Limit(resource, value) => match sys::set_limit(*resource, *value) {
                // A host limit below ours is the stricter one: it stays.
                Err(error) if error.raw_os_error() == Some(libc::EPERM) => Ok(()),
                other => other,
            },
            Step::CloseOnExec => sys::cloexec_from(3),
            Step::WorkIn(path) => sys::chdir(path),
            Step::NoCapabilities => sys::clear_capabilities(),
            Step::Landlock(ruleset) => sys::landlock_restrict_self(*ruleset),
            Step::Observe => {
                if let Some(program) = &self.observe
                    && let Some(listener) = sys::install_filter(program, true)?
                {
                    sys::send_descriptor(report, listener)?;
                }
                Ok(())
            }
        }
    }
}

fn fail(report: RawFd, step: usize, error: &io::Error) -> ! {
    let mut words = [0_u8; 8];
    words[..4].copy_from_slice(&(step as u32).to_le_bytes());
    words[4..].copy_from_slice(&(error.raw_os_error().unwrap_or(0) as u32).to_le_bytes());
    sys::write_last_words(report, &words);
    sys::exit_now(127)
}

/// The limits of a policy as resource and value. Core dumps are always off: a
/// dump would hold what the process read.
pub(super) fn limits(limits: &Limits) -> Vec<(u32, u64)> {
    let mut list = vec![(libc::RLIMIT_CORE, 0)];
    let mut add = |resource: libc::__rlimit_resource_t, value: Option<u64>| {
        if let Some(value) = value {
            list.push((resource, value));
        }
    };
    add(libc::RLIMIT_NPROC, limits.processes);
    add(libc::RLIMIT_AS, limits.address_space);
    add(libc::RLIMIT_FSIZE, limits.file_size);
    add(libc::RLIMIT_NOFILE, limits.open_files);
    add(libc::RLIMIT_CPU, limits.cpu_seconds);
    list
}

/// Looks a program up as execvp(3) does: the first candidate that is an
/// executable file; `EACCES` when one was found that is not.
fn find_program(name: &[u8], path: &[u8]) -> Result<CString, Unprepared> {
    if name.is_empty() {
        return Err(Unprepared {
            step: "run an empty command",
            errno: libc::ENOENT,
        });
    }
    if name.contains(&b'/') {
        return c_string(name);
    }
    let mut errno = libc::ENOENT;
    for folder in path
        .split(|byte| *byte == b':')
        .filter(|folder| folder.starts_with(b"/"))
    {
        let candidate = [folder, b"/", name].concat();
        let candidate_path = std::path::Path::new(OsStr::from_bytes(&candidate));
        if !candidate_path.is_file() {
            continue;
        }
        match rustix::fs::access(candidate_path, rustix::fs::Access::EXEC_OK) {
            Ok(()) => return c_string(&candidate),
            Err(_) => errno = libc::EACCES,
        }
    }
    Err(Unprepared {
        step: "find the program",
        errno,
    })
}

//! Nothing outlives a call.

use std::fs;
use std::io;

use crate::guarantee::Form;
use crate::sys;

/// What was found after a call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Left {
    /// Processes that were still alive and were killed.
    pub(super) killed: u32,
    /// CPU time of those and of the ended ones, µs.
    pub(super) cpu_us: u64,
    /// Largest resident set among them, KiB.
    pub(super) max_rss_kib: u64,
}

/// Ends the command of a call; what it forked is ended by [`after_call`].
pub(super) fn kill_tree(pid: i32) {
    let _ = sys::kill_hard(pid);
}

/// Kills and reaps everything that a call left. `main_lives`: the command
/// itself has not been reaped and is not counted.
///
/// In the full form `kill(-1)` reaches everything in the pid namespace but
/// pid 1, atomically against fork: the kernel walks the list under the lock
/// that fork takes, and a fork with a pending SIGKILL fails. In the narrow form
/// the orphans become children of this process, the subreaper, as their
/// parents die, so that killing children until there are none reaches all.
pub(super) fn after_call(form: Form, main_lives: bool) -> Left {
    let mut left = Left::default();
    // Most calls leave nothing, and then there is nothing to look for.
    if !main_lives
        && matches!(sys::wait_any(false), Err(error) if error.raw_os_error() == Some(libc::ECHILD))
    {
        return left;
    }
    loop {
        match form {
            Form::Full => {
                let _ = sys::kill_hard(-1);
            }
            _ => {
                for pid in children() {
                    let _ = sys::kill_hard(pid);
                }
            }
        }
        match sys::wait_any(true) {
            Ok(Some(ended)) => {
                if libc::WIFSIGNALED(ended.status) && libc::WTERMSIG(ended.status) == libc::SIGKILL
                {
                    left.killed += 1;
                }
                left.cpu_us += ended.cpu_us;
                left.max_rss_kib = left.max_rss_kib.max(ended.max_rss_kib);
            }
            Ok(None) => {}
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {
                if main_lives {
                    left.killed = left.killed.saturating_sub(1);
                }
                return left;
            }
            Err(_) => return left,
        }
    }
}

/// The launcher is gone. In the full form the end of pid 1 is the end of all;
/// in the narrow form it has to be done by hand.
pub(super) fn everything(form: Form) {
    if form != Form::Full {
        after_call(form, false);
    }
}

/// The children of this process (proc(5), `/proc/self/task/TID/children`).
fn children() -> Vec<i32> {
    let listed = || -> io::Result<Vec<i32>> {
        let tid = rustix::thread::gettid().as_raw_nonzero();
        let text = fs::read_to_string(format!("/proc/self/task/{tid}/children"))?;
        Ok(text
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect())
    };
    listed().unwrap_or_else(|_| scan_children().unwrap_or_default())
}

/// The same by scanning, for kernels without `CONFIG_PROC_CHILDREN`.
fn scan_children() -> io::Result<Vec<i32>> {
    let me = rustix::process::getpid().as_raw_nonzero().get();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<i32>().ok())
        else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        // The name in parentheses may hold anything; the parent is the second
        // field after the last parenthesis.
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1))
            .and_then(|parent| parent.parse::<i32>().ok());
        if parent == Some(me) {
            found.push(pid);
        }
    }
    Ok(found)
}

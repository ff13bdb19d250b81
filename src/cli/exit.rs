//! Exit statuses, all in one place.

use std::process::ExitCode;

/// How a command ended, for whoever started it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It did what was asked.
    Done,
    /// The run failed, or a check found something wrong.
    Failed,
    /// The command line or the configuration is wrong; nothing was started.
    Usage,
    /// No jail could be made as strong as the policy asks.
    NoJail,
    /// A signal or the caller ended it.
    Cancelled,
}

impl Exit {
    /// The status.
    pub fn status(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::NoJail => 125,
            Exit::Cancelled => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.status())
    }
}

/// Shown under `--help`.
pub const HELP: &str = "\
Exit status:
  0    done
  1    the run failed
  2    usage or configuration error, nothing was started
  125  no jail could be made
  130  cancelled
`jail run` exits with the status of its command, 128+n when a signal ended it,
and 124 at its deadline.";

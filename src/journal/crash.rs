//! Dying on purpose, in tests only: the crash tests start the test binary
//! again, arm one point in it, and look at what a SIGKILL there leaves behind.

use std::sync::OnceLock;

static ARMED: OnceLock<String> = OnceLock::new();

/// From now on this process dies when it comes to `name`.
pub(crate) fn arm(name: &str) {
    ARMED.set(name.to_owned()).expect("armed once");
}

/// Dies here if armed.
pub(super) fn point(name: &str) {
    if ARMED.get().is_some_and(|armed| armed == name) {
        let me = rustix::process::getpid();
        rustix::process::kill_process(me, rustix::process::Signal::KILL).expect("kill");
        loop {
            std::thread::park();
        }
    }
}

//! Which delegations are under way, and which of them are being stopped.
//!
//! A host may call again at once after it cancelled: the run that it gave up
//! needs a moment to die and still holds workspace and slot. Such a call waits
//! for that moment instead of being told that somebody is busy.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Longest wait for runs that are being stopped.
const PATIENCE: Duration = Duration::from_secs(3);

pub(super) struct Running {
    calls: Mutex<Calls>,
    ended: Notify,
    patience: Duration,
}

#[derive(Default)]
struct Calls {
    next: u64,
    /// What stops each of them.
    under_way: HashMap<u64, CancellationToken>,
}

/// One delegation; dropped when it holds nothing any more.
pub(super) struct Entered<'a> {
    running: &'a Running,
    number: u64,
}

impl Default for Running {
    fn default() -> Self {
        Running {
            calls: Mutex::default(),
            ended: Notify::new(),
            patience: PATIENCE,
        }
    }
}

impl Running {
    /// Notes a delegation that `cancelled` stops.
    pub(super) fn enter(&self, cancelled: CancellationToken) -> Entered<'_> {
        let mut calls = self.lock();
        calls.next += 1;
        let number = calls.next;
        calls.under_way.insert(number, cancelled);
        Entered {
            running: self,
            number,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entered<'_> {
    /// Waits until the other delegations that are being stopped have ended.
    /// False when there is none, or when they take too long.
    pub(super) async fn others_stopped(&self) -> bool {
        if !self.any_stopping() {
            return false;
        }
        let until = Instant::now() + self.running.patience;
        loop {
            let mut ended = std::pin::pin!(self.running.ended.notified());
            // From here on an end is not missed.
            ended.as_mut().enable();
            if !self.any_stopping() {
                return true;
            }
            if tokio::time::timeout_at(until, ended).await.is_err() {
                return false;
            }
        }
    }

    fn any_stopping(&self) -> bool {
        self.running
            .lock()
            .under_way
            .iter()
            .any(|(number, cancelled)| *number != self.number && cancelled.is_cancelled())
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.running.lock().under_way.remove(&self.number);
        self.running.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_what_is_being_stopped_is_waited_for() {
        let running = Running::default();
        let (first, mine) = (CancellationToken::new(), CancellationToken::new());
        let entered = running.enter(first.clone());
        let me = running.enter(mine.clone());
        assert!(!me.others_stopped().await);
        // Nobody waits for themselves.
        mine.cancel();
        assert!(!me.others_stopped().await);
        first.cancel();
        let (stopped, ()) = tokio::join!(me.others_stopped(), async {
            tokio::task::yield_now().await;
            drop(entered);
        });
        assert!(stopped);
        assert!(!me.others_stopped().await);
    }

    #[tokio::test]
    async fn patience_ends() {
        let running = Running {
            patience: Duration::from_millis(20),
            ..Running::default()
        };
        let token = CancellationToken::new();
        let _entered = running.enter(token.clone());
        token.cancel();
        let me = running.enter(CancellationToken::new());
        assert!(!me.others_stopped().await);
    }
}

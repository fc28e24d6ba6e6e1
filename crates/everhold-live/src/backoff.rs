//! Waits that grow with each failure.

use std::time::Duration;

/// A wait that doubles from a first to a last value.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(20);
    const LAST: Duration = Duration::from_millis(500);

    pub(crate) fn new() -> Backoff {
        Backoff { next: Self::FIRST }
    }

    pub(crate) fn wait(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(Self::LAST);
        wait
    }

    pub(crate) fn reset(&mut self) {
        self.next = Self::FIRST;
    }
}

//! Measures the processor time of handlers, so that other load on the machine does not count.

use std::time::Duration;

#[cfg(not(any(unix, windows)))]
use everhold_sim::engine::Stopwatch;

/// The name of the quantity that [`Busy`] measures on this platform.
pub(crate) const BUSY_IS: &str = if cfg!(any(unix, windows)) { "CPU time" } else { "wall time" };

/// A stopwatch of the processor time of this thread, or of wall time on platforms that do not
/// report the former.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busy {
    #[cfg(any(unix, windows))]
    since: cpu_time::ThreadTime,
    #[cfg(not(any(unix, windows)))]
    since: Stopwatch,
}

impl Busy {
    pub(crate) fn start() -> Self {
        #[cfg(any(unix, windows))]
        let since = cpu_time::ThreadTime::now();
        #[cfg(not(any(unix, windows)))]
        let since = Stopwatch::start();
        Busy { since }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// The cost of a measurement itself: the minimum over several empty ones.
    pub(crate) fn overhead() -> Duration {
        let empty = (0..OVERHEAD_TRIES).map(|_| Busy::start().elapsed());
        empty.min().unwrap_or_default()
    }
}

const OVERHEAD_TRIES: u32 = 200;

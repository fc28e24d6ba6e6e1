//! The processor's time: how long handlers really take, whatever else the machine does.

use std::time::Duration;

#[cfg(not(any(unix, windows)))]
use everhold_sim::engine::Stopwatch;

/// What [`Busy`] measures on this platform.
pub(crate) const BUSY_IS: &str = if cfg!(any(unix, windows)) { "CPU time" } else { "wall time" };

/// The time that the processor spends on this thread; wall time where the platform does not tell.
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

    /// What it costs to measure nothing: the least of some tries.
    pub(crate) fn overhead() -> Duration {
        let empty = (0..OVERHEAD_TRIES).map(|_| Busy::start().elapsed());
        empty.min().unwrap_or_default()
    }
}

const OVERHEAD_TRIES: u32 = 200;

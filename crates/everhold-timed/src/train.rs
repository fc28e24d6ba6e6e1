//! Training of event durations: measures the processor time of each handler, by kind. This is the
//! only place that reads a real clock; its results go into a table, and only the table affects
//! executions.

use std::time::Duration;

use super::busy::Busy;
use super::durations::{Durations, Quantiles, nanoseconds};

/// Measured durations by the number of the kind.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    times: Vec<Vec<u64>>,
    /// The cost of reading the clock, which is comparable to a short handler.
    overhead: Duration,
}

impl Probe {
    pub(crate) fn new() -> Self {
        Probe { times: Vec::new(), overhead: Busy::overhead() }
    }

    pub(crate) fn add(&mut self, kind: u16, time: Duration) {
        let kind = usize::from(kind);
        if self.times.len() <= kind {
            self.times.resize_with(kind + 1, Vec::new);
        }
        self.times[kind].push(nanoseconds(time.saturating_sub(self.overhead)));
    }

    /// Returns the measured distributions, merged over the previous ones.
    pub(crate) fn durations(self, kinds: &[String], before: &Durations) -> Durations {
        let measured = kinds.iter().zip(self.times);
        let measured =
            measured.filter_map(|(kind, times)| Some((kind, Quantiles::measured(times)?)));
        measured.fold(before.clone(), |durations, (kind, times)| durations.with(kind, times))
    }
}

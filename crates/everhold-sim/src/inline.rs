//! Executions on the calling thread, for nodes with which nobody may share a process.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use everhold_node::Message;

use crate::report::Stop;
use crate::strategy::Search;
use crate::worker::{Batch, Epoch, Pulse, SharedSetup, Worker};

/// A worker without a thread of its own.
pub(crate) struct Inline<M: Message>(Worker<M>);

impl<M: Message> Inline<M> {
    pub(crate) fn new(setup: &SharedSetup<M>, searches: &[Search]) -> Self {
        Inline(Worker::new(setup, searches, Arc::new(Pulse::default())))
    }

    /// Runs an epoch; `out_of_budget` is asked after each execution.
    pub(crate) fn run(
        &mut self,
        epoch: &Epoch,
        mut out_of_budget: impl FnMut() -> Option<Stop>,
    ) -> (Batch, Option<Stop>) {
        let mut stop = None;
        let batch = self.0.run_while(epoch, || {
            stop = out_of_budget();
            if stop.is_some() {
                epoch.halt.store(true, Ordering::Relaxed);
            }
        });
        (batch, stop)
    }
}

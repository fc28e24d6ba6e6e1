//! The consequences of a judgement: evidence is written, violations are reported, checkpoints are saved.
//!
//! Neither reports nor judgements wait for a disk. The scribe writes a violation to the evidence file
//! and reports it; what was written survives a kill of the process, so nothing is reported twice. A thread behind it syncs the evidence, so that it
//! survives a power cut too, and then saves the checkpoint that comes after it.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::{Job, Shared, lock};
use crate::log::Sequence;
use crate::notice::Notice;
use crate::store::Lease;

/// A task of the scribe for a checker; tasks are done in order.
pub(super) enum Task {
    Tell(Notice),
    Save(Checkpoint),
}

/// Everything before this entry is judged.
pub(super) struct Checkpoint {
    pub(super) bytes: Vec<u8>,
    pub(super) next: Sequence,
}

/// The largest number of tasks that wait for the scribe; beyond it, the checker waits.
pub(super) const TASKS: usize = 4096;

/// The number of attempts to keep a report.
const REPORTS: u32 = 40;

pub(super) fn run_with_scribe(job: Job, tasks: Receiver<Task>) {
    let (saves, saver) = (Arc::clone(&job.shared), Arc::clone(&job.lease));
    let keeper = Keeper { shared: saves, partition: job.partition, lease: saver };
    let (keep, kept) = sync_channel(1);
    let scribe = Scribe { shared: Arc::clone(&job.shared), keep, checkpoint: None };
    thread::scope(|scope| {
        scope.spawn(move || keeper.run(&kept));
        scope.spawn(move || scribe.run(&tasks));
        job.run();
    });
}

struct Scribe {
    shared: Arc<Shared>,
    /// To the keeper: the evidence has grown; perhaps a checkpoint that is to be saved after it.
    keep: SyncSender<Option<Checkpoint>>,
    /// The newest, which the keeper had no time for yet.
    checkpoint: Option<Checkpoint>,
}

impl Scribe {
    fn run(mut self, tasks: &Receiver<Task>) {
        while let Ok(first) = tasks.recv() {
            let mut notices = Vec::new();
            for task in std::iter::once(first).chain(tasks.try_iter().take(TASKS)) {
                match task {
                    Task::Tell(notice) => notices.push(notice),
                    Task::Save(checkpoint) => self.checkpoint = Some(checkpoint),
                }
            }
            self.tell(&notices);
            self.hand_over();
        }
        // The last one is worth waiting for.
        let _ = self.keep.send(self.checkpoint);
    }

    /// Work for which the keeper has no time now follows its present work.
    fn hand_over(&mut self) {
        if let Err(TrySendError::Full(checkpoint)) = self.keep.try_send(self.checkpoint.take()) {
            self.checkpoint = checkpoint;
        }
    }

    fn tell(&self, notices: &[Notice]) {
        let mut evidence = lock(&self.shared.evidence);
        if notices.is_empty() && evidence.0.failure().is_none() {
            return;
        }
        let news = evidence.0.record(notices);
        match evidence.0.failure() {
            None => self.shared.works("evidence"),
            Some(error) => {
                self.shared.fails("evidence", format!("evidence cannot be written: {error}"));
            }
        }
        for (notice, _) in notices.iter().zip(news).filter(|(_, news)| *news) {
            if self.is_ours_to_tell(notice) {
                lock(&self.shared.recent).push(crate::evidence::to_json(notice));
                (evidence.1)(notice);
            }
        }
    }

    /// Of several processes, one tells.
    fn is_ours_to_tell(&self, notice: &Notice) -> bool {
        let event = match notice {
            Notice::Fired(violation) => format!("{}.fired", violation.id),
            Notice::Resolved { id, .. } => format!("{id}.resolved"),
            _ => return true,
        };
        if !self.shared.is_shared {
            return true;
        }
        let report = crate::evidence::to_json(notice).to_string();
        for _ in 0..REPORTS {
            match lock(&self.shared.store).report(&event, &report) {
                Ok(first) => return first,
                Err(_) => thread::sleep(Duration::from_millis(250)),
            }
        }
        // Better told twice than never.
        true
    }
}

/// Waits for the disk, so that nobody else does.
struct Keeper {
    shared: Arc<Shared>,
    partition: u32,
    lease: Arc<Mutex<Option<Lease>>>,
}

impl Keeper {
    fn run(&self, kept: &Receiver<Option<Checkpoint>>) {
        while let Ok(checkpoint) = kept.recv() {
            match self.shared.synced.sync_data() {
                Ok(()) => self.shared.works("sync"),
                Err(error) => {
                    self.shared.fails("sync", format!("evidence cannot be synced: {error}"));
                }
            }
            // What is not in the evidence yet is found again from the checkpoint before it.
            let written = lock(&self.shared.evidence).0.failure().is_none();
            if let Some(checkpoint) = checkpoint.filter(|_| written) {
                self.save(&checkpoint);
            }
        }
    }

    fn save(&self, checkpoint: &Checkpoint) {
        let Some(lease) = *lock(&self.lease) else { return };
        let saved = lock(&self.shared.store).save(lease, &checkpoint.bytes);
        match saved {
            Ok(renewed) => {
                self.shared.works(&format!("checkpoint {}", self.partition));
                *lock(&self.lease) = renewed;
                if renewed.is_some() {
                    let _ = self.shared.log.trim(self.partition, checkpoint.next);
                }
            }
            Err(error) => {
                let what = format!("checkpoint {}", self.partition);
                let problem = format!("{what} cannot be saved: {error}");
                self.shared.fails(&what, problem);
            }
        }
    }
}

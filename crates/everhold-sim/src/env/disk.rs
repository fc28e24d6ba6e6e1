//! Disks: their faults in the middle of an event, and the contents that a crash leaves.
//!
//! Before an event uses its node's disk for the first time, the strategy decides whether a fault
//! strikes it there, and at which operation. If the node crashes in the middle, its handler still
//! runs to its end as a *ghost*: its effects are discarded.

use everhold_node::disk::{DiskFault, Struck};
use everhold_node::fingerprint::mix;
use everhold_node::volume::{MODE, Mode, loses};
use everhold_node::{CrashModel, Message, NodeId};

use super::Env;
use super::state::Status;
use crate::fault::{Fault, FaultKind};
use crate::moves::DiskMenu;
use crate::strategy::number_of;

/// The beginning of the note of a disk operation.
pub(crate) const DISK_NOTE: &str = "disk ";

/// An event that uses a disk.
pub(crate) struct AtDisk {
    node: NodeId,
    /// The faults that may strike, if the strategy was asked.
    faults: Vec<DiskFault>,
    /// The place in the recorded choices at which a fault that strikes belongs.
    choice: usize,
}

impl<M: Message> Env<M> {
    pub(super) fn disk_menu(&self, targets: u32) -> DiskMenu {
        let left = &self.state.left;
        if !self.state.disks || targets == 0 {
            return DiskMenu::default();
        }
        let (crash, fails, full) = (left.crashes > 0, left.disk_errors > 0, left.full_disks > 0);
        DiskMenu { crash, fails, full }
    }

    /// Whether some node used its disk in the present execution.
    pub(crate) fn uses_disks(&self) -> bool {
        self.state.disks
    }

    /// Whether a fault may strike in the middle of an event.
    #[inline]
    pub(crate) fn may_upset(&self) -> bool {
        let left = &self.state.left;
        left.crashes > 0 || left.disk_errors > 0 || left.full_disks > 0
    }

    /// Begins the use of the node's disk by the present event.
    #[cold]
    pub(super) fn begin_at_disk(&mut self, node: NodeId) {
        self.state.disks = true;
        let faults = self.faults_at_disk(node);
        let choice = self.recorder.as_ref().map_or(0, |recorder| recorder.recording.choices.len());
        let mut upset = None;
        if !faults.is_empty() {
            upset = self.strategy.upset(node, &faults);
            self.log.push(number_of(upset.as_ref(), &faults));
        }
        if !faults.is_empty() || self.recorder.is_some() {
            let recorded = self.recorder.is_some();
            let disk = self.state.nodes[node.index()].disk.get_or_insert_default();
            disk.watch(upset, recorded);
        }
        self.at_disk = Some(AtDisk { node, faults, choice });
    }

    fn faults_at_disk(&self, node: NodeId) -> Vec<DiskFault> {
        let state = &self.state.nodes[node.index()];
        let mut faults = Vec::new();
        if !state.strikes || state.status != Status::Up {
            return faults;
        }
        let left = &self.state.left;
        if left.crashes > 0 {
            faults.extend([DiskFault::CrashBefore, DiskFault::CrashAfter]);
        }
        faults.extend((left.disk_errors > 0).then_some(DiskFault::Fails));
        faults.extend((left.full_disks > 0).then_some(DiskFault::Full));
        faults
    }

    /// Whether the node crashed in the middle of the present event, which then continues without
    /// effect.
    #[inline]
    pub(super) fn is_ghost(&self, node: NodeId) -> bool {
        self.at_disk.is_some() && self.is_dead(node)
    }

    #[cold]
    fn is_dead(&self, node: NodeId) -> bool {
        self.state
            .nodes
            .get(node.index())
            .and_then(|n| n.disk.as_ref())
            .is_some_and(|d| d.is_dead())
    }

    /// An answer for a ghost. Answers are pseudorandom, so a handler that asks until an answer
    /// suits it comes to an end.
    pub(super) fn ghost_choice(&mut self, node: NodeId, domain: u32) -> u32 {
        let state = &mut self.state.nodes[node.index()];
        state.drawn += 1;
        (mix(mix(self.seed, 0x6057), u64::from(state.drawn)) % u64::from(domain)) as u32
    }

    /// Adds the disk operations so far to the record.
    pub(super) fn tell_disk(&mut self) {
        let (Some(at_disk), Some(recorder)) = (&self.at_disk, &mut self.recorder) else { return };
        let Some(disk) = &mut self.state.nodes[at_disk.node.index()].disk else { return };
        for operation in disk.take_told() {
            recorder.note(at_disk.node, format!("{DISK_NOTE}{operation}"));
        }
    }

    /// Ends the use of the disk by the present event. Returns the model of the crash if the node
    /// died in the middle.
    pub(crate) fn end_at_disk(&mut self) -> Option<CrashModel> {
        self.tell_disk();
        let AtDisk { node, faults, choice } = self.at_disk.take()?;
        let disk = self.state.nodes[node.index()].disk.as_mut()?;
        let dead = disk.is_dead();
        let (operations, struck) = disk.unwatch();
        if !faults.is_empty() {
            self.strategy.disk_used(operations, &faults, struck.is_some());
        }
        let Struck { fault, place, nth } = struck?;
        let crash_model = self.rules.faults.crash_model;
        let left = &mut self.state.left;
        let (kind, budget, model) = match fault {
            DiskFault::CrashBefore | DiskFault::CrashAfter => {
                (FaultKind::Crash, &mut left.crashes, crash_model)
            }
            // The process dies of an error; the machine keeps running.
            DiskFault::Fails => (FaultKind::DiskError, &mut left.disk_errors, CrashModel::Kill),
            DiskFault::Full => (FaultKind::FullDisk, &mut left.full_disks, CrashModel::Kill),
        };
        *budget -= 1;
        self.state.injected[kind as usize] += 1;
        let history = &mut self.state.nodes[node.index()].history;
        *history = mix(*history, 0xFA17 + kind as u64 + (u64::from(operations) << 8));
        if let Some(recorder) = &mut self.recorder {
            recorder.upset(choice, node, place, nth);
        }
        dead.then(|| {
            self.halted.retain(|halted| *halted != node);
            model
        })
    }

    /// Takes down a node that died in the middle of an event.
    pub(crate) fn fall_inside(&mut self, node: NodeId) {
        self.fall(node);
        if let Some(recorder) = &mut self.recorder {
            recorder.fell(node, Fault::Crash(node));
        }
    }

    /// Closes the record of a crash that no step surrounds.
    pub(crate) fn close_record(&mut self, node: NodeId) {
        if let Some(recorder) = &mut self.recorder {
            let state = recorder.last_state(node);
            recorder.close(state);
        }
    }

    /// Decides the contents that a crash leaves on a disk. Each part of it is a choice like any
    /// other.
    pub(crate) fn crash_disk(&mut self, node: NodeId, model: CrashModel) {
        let Some(mut disk) = self.state.nodes[node.index()].disk.take() else { return };
        let may_tear = self.state.left.torn_writes > 0 && model != CrashModel::Kill;
        let lost = disk.crash(model, may_tear, &mut |label, domain| match label {
            // A process that ran on a real disk lost everything that it had not synced.
            MODE if self.follows => Mode::LoseAll as u32,
            _ => self.decide_choice(node, label, domain),
        });
        self.state.left.torn_writes -= u32::from(lost.torn.is_some());
        self.state.nodes[node.index()].disk = Some(disk);
        let Some(recorder) = &mut self.recorder else { return };
        if lost.units.is_empty() {
            return;
        }
        // Choices are recorded by name, so that the schedule still fits after an edit, and as few
        // of them as possible.
        let modes = Mode::ALL.len() as u32;
        if lost.all {
            recorder.chose_silently(node, MODE.to_owned(), modes, Mode::LoseAll as u32);
        } else {
            recorder.chose_silently(node, MODE.to_owned(), modes, Mode::Each as u32);
            for unit in &lost.units {
                recorder.chose_silently(node, loses(unit), 2, 1);
            }
        }
        if let Some((_, number)) = &lost.torn {
            recorder.chose_silently(node, "torn write".to_owned(), number + 1, *number);
        }
        let torn =
            lost.torn.map_or(String::new(), |(unit, _)| format!(", a half of {unit} is left"));
        recorder.note(node, format!("the disk loses {}{torn}", lost.units.join(", ")));
    }
}

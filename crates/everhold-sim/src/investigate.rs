//! From a failing execution to a finding: replay, verification, shrinking, recording.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use everhold_node::{CrashModel, Message};

use crate::differ::first_difference;
use crate::env::DISK_NOTE;
use crate::execute::{Bounds, Outcome, execute, quietly};
use crate::explore::Options;
use crate::failure::{Cause, Failure};
use crate::owed;
use crate::record::RunRecord;
use crate::report::{Finding, Origin};
use crate::schedule::{Choice, Schedule};
use crate::shrink::{Oracle, Shrunk, Tried, shrink};
use crate::strategy::script::{Fit, Script};
use crate::strategy::{RawReplay, Replay, Run, Strategy, Trail};
use crate::stuck::{Seen, aside, aside_twice};
use crate::worker::{Failed, SharedSetup};
use crate::world::World;

/// The outcome and the recording of a replay.
pub(crate) struct Replayed {
    pub(crate) outcome: Outcome,
    pub(crate) recording: RunRecord,
    pub(crate) trail: Trail,
}

/// Runs schedules in a world of its own.
pub(crate) struct Replayer<M: Message> {
    world: World<M>,
    bounds: Bounds,
    /// The cause that a search saw, which a recording should show again.
    sought: Option<Cause>,
    /// The thread on which this happens, seen from outside.
    seen: Option<Seen>,
}

impl<M: Message> Replayer<M> {
    pub(crate) fn new(setup: &SharedSetup<M>, bounds: Bounds) -> Self {
        Replayer { world: World::new(setup), bounds, sought: None, seen: None }
    }

    /// Lets others see whether the handlers return.
    pub(crate) fn seen(mut self, seen: Option<&Seen>) -> Self {
        if let Some(seen) = seen {
            seen.follow(&mut self.world);
        }
        Replayer { seen: seen.cloned(), ..self }
    }

    fn seeking(self, cause: &Cause) -> Self {
        Replayer { sought: Some(cause.clone()), ..self }
    }

    fn run(
        &mut self,
        strategy: Box<dyn Strategy>,
        seed: u64,
        follows: bool,
        recorded: bool,
    ) -> Outcome {
        let mut env = self.world.env.borrow_mut();
        env.strategy = strategy;
        env.hashing = false;
        env.follows = follows;
        drop(env);
        self.world.set_recording(recorded);
        let run = Run { seed, steps: self.bounds.steps_max, faults: 0, parent: None };
        execute(&mut self.world, &run, self.bounds)
    }

    /// Runs the log of a search again and records it.
    pub(crate) fn raw(&mut self, failed: &Failed) -> (Outcome, RunRecord) {
        let strategy = RawReplay::new(failed.log.clone(), failed.tail_at);
        let mut outcome = self.run(Box::new(strategy), failed.seed, false, true);
        let recording = self.recording(&mut outcome);
        (outcome, recording)
    }

    /// Runs a schedule and records it. If messages that it names do not exist and nothing fails, it
    /// is tried again with the newest message of their sort instead of the oldest.
    pub(crate) fn replay(&mut self, schedule: &Schedule) -> Replayed {
        let oldest = self.replay_with(schedule, Fit::Number);
        if oldest.outcome.failure.is_some() || !oldest.trail.replaced {
            return oldest;
        }
        let newest = self.replay_with(schedule, Fit::NumberOrNewest);
        if newest.outcome.failure.is_some() { newest } else { oldest }
    }

    fn replay_with(&mut self, schedule: &Schedule, fit: Fit) -> Replayed {
        let trail = Rc::new(RefCell::new(Trail::default()));
        let script = Script { fit, ..Script::of(schedule) };
        let strategy = Replay::of(script, Rc::clone(&trail));
        let follows = schedule.follows_clocks();
        let mut outcome = self.run(Box::new(strategy), schedule.seed, follows, true);
        let recording = self.recording(&mut outcome);
        let trail = trail.borrow().clone();
        Replayed { outcome, recording, trail }
    }

    fn recording(&mut self, outcome: &mut Outcome) -> RunRecord {
        let waiting = self.world.waiting();
        let down = self.world.down();
        let mut recording = self.world.take_recording();
        recording.lasso = outcome.lasso;
        if let Some(unshown) = &recording.unshown
            && (outcome.failure.is_none() || self.sought.as_ref() == Some(&unshown.cause))
        {
            outcome.failure = Some(unshown.clone());
        }
        if let Some(failure) = &mut outcome.failure {
            owed::explain(failure, &mut recording, waiting, &down);
        }
        recording.failure.clone_from(&outcome.failure);
        recording
    }
}

impl<M: Message> Replayer<M> {
    /// The choices of a schedule that happened, with the names that they had, if it fails for this
    /// cause.
    pub(crate) fn reproduces(&mut self, schedule: &Schedule, cause: &Cause) -> Option<Vec<Choice>> {
        let tried = Oracle::run(self, Script::of(schedule), schedule.seed, cause);
        Some(tried.failing?.into_iter().map(|happened| happened.choice).collect())
    }

    /// The least permissive crash model under which the schedule fails alike; `None` if no node
    /// with a disk crashes in it. The schedule was just replayed.
    fn weakest_model(&mut self, schedule: &Schedule, cause: &Cause) -> Option<CrashModel> {
        if !schedule.has_crash() || !self.world.env.borrow().uses_disks() {
            return None;
        }
        let told = self.model();
        let mut weaker = CrashModel::ALL.into_iter().filter(|model| *model < told);
        Some(weaker.find(|model| self.under(*model, schedule, cause).is_some()).unwrap_or(told))
    }

    /// The same failure with nothing lost from the disk, by a crash at another operation of the
    /// same event: that is easier to understand than a loss.
    fn without_loss(&mut self, schedule: &Schedule, cause: &Cause) -> Option<Schedule> {
        if self.model() == CrashModel::Kill || !schedule.has_crash() {
            return None;
        }
        let recording = self.replay(schedule).recording;
        let mut candidates = other_places(schedule, &recording).into_iter();
        let choices = candidates.find_map(|other| self.under(CrashModel::Kill, &other, cause))?;
        Some(Schedule { seed: schedule.seed, choices })
    }

    /// The smallest schedule that fails alike, if possible with nothing lost from a disk.
    fn shrink(&mut self, original: Schedule, cause: &Cause, time: Duration) -> (Schedule, Shrunk) {
        let (schedule, shrunk) = shrink(original, cause, self, time);
        (self.without_loss(&schedule, cause).unwrap_or(schedule), shrunk)
    }

    fn under(
        &mut self,
        model: CrashModel,
        schedule: &Schedule,
        cause: &Cause,
    ) -> Option<Vec<Choice>> {
        let told = self.set_model(model);
        let used = self.reproduces(schedule, cause);
        self.set_model(told);
        used
    }

    fn model(&self) -> CrashModel {
        self.world.env.borrow().rules.faults.crash_model
    }

    /// Sets the crash model; returns the one before.
    fn set_model(&mut self, model: CrashModel) -> CrashModel {
        let mut env = self.world.env.borrow_mut();
        let rules = Rc::make_mut(&mut env.rules);
        std::mem::replace(&mut rules.faults.crash_model, model)
    }
}

/// The schedule, and its variants with a crash at another operation of the same event. Places that
/// have a name of their own come first: there are many syncs, and after an edit another one would
/// be meant.
fn other_places(schedule: &Schedule, recording: &RunRecord) -> Vec<Schedule> {
    let (mut first, mut rest) = (Vec::new(), vec![schedule.clone()]);
    for (at, choice) in schedule.choices.iter().enumerate() {
        let Choice::Upset { node, place, .. } = choice else { continue };
        if !place.starts_with("crash ") {
            continue;
        }
        let steps = recording.steps.iter().filter(|step| step.node == *node);
        let notes = steps.flat_map(|step| &step.notes);
        let operations: BTreeSet<&str> =
            notes.filter_map(|note| note.strip_prefix(DISK_NOTE)).collect();
        for operation in operations {
            for side in ["before", "after"] {
                let place = format!("crash {side} {operation}");
                let mut other = schedule.clone();
                other.choices[at] = Choice::Upset { node: *node, place, nth: 0 };
                if operation == "sync" { rest.push(other) } else { first.push(other) }
            }
        }
    }
    first.append(&mut rest);
    first
}

impl<M: Message> Oracle for Replayer<M> {
    fn run(&mut self, script: Script, seed: u64, cause: &Cause) -> Tried {
        let follows = script.lines.iter().any(|line| matches!(line.choice, Choice::Clock { .. }));
        let trail = Rc::new(RefCell::new(Trail::default()));
        let strategy = Replay::of(script, Rc::clone(&trail));
        let outcome = self.run(Box::new(strategy), seed, follows, false);
        let Trail { happened, skipped, .. } = trail.take();
        let alike = outcome.failure.is_some_and(|failure| failure.cause == *cause);
        Tried {
            failing: alike.then_some(happened),
            steps: outcome.steps,
            skipped: skipped.is_some(),
        }
    }

    fn keep(&mut self, schedule: Schedule) {
        if let Some(seen) = &self.seen {
            seen.witness().smallest = Some(schedule);
        }
    }
}

/// Replays a schedule on a thread of its own. If a handler does not return there, twice, that is a
/// finding.
pub(crate) fn replay_aside<M: Message>(
    setup: &SharedSetup<M>,
    schedule: &Schedule,
    options: &Options,
    origin: impl FnOnce() -> Origin,
) -> Result<Replayed, Box<Finding>> {
    let Options { bounds, patience, .. } = *options;
    if options.inline {
        return Ok(Replayer::new(setup, bounds).replay(schedule));
    }
    let (setup, again) = (Arc::clone(setup), schedule.clone());
    let replay = move |seen: &Seen| {
        let mut replayer = Replayer::new(&setup, bounds);
        seen.follow_closely(&mut replayer.world);
        replayer.replay(&again)
    };
    aside_twice(patience, replay)
        .map_err(|seen| Box::new(seen.finding(schedule.seed, origin(), patience)))
}

/// The finding that an execution that a search is at does not return, if it hangs alone as well.
pub(crate) fn stuck_at<M: Message>(
    setup: &SharedSetup<M>,
    failed: Failed,
    options: &Options,
) -> Option<Finding> {
    let Options { bounds, patience, .. } = *options;
    let origin = Origin { execution: Some(failed.index), search: failed.search.clone() };
    let (setup, seed) = (Arc::clone(setup), failed.seed);
    let again = move |seen: &Seen| {
        let mut replayer = Replayer::new(&setup, bounds);
        seen.follow_closely(&mut replayer.world);
        drop(replayer.raw(&failed));
    };
    Some(aside(patience, again).err()?.finding(seed, origin, patience))
}

/// How a finding gets its small schedule.
#[derive(Clone)]
enum Making {
    /// By shrinking, for at most this long.
    For(Duration),
    /// It is known, or the original has to do: a handler did not return while it was shrunk.
    Known(Option<Schedule>),
}

/// Replays a failing execution until it is certain, then makes it small.
fn investigate<M: Message>(
    setup: &SharedSetup<M>,
    failed: &Failed,
    bounds: Bounds,
    making: Making,
    seen: Option<&Seen>,
) -> Finding {
    let origin = Origin { execution: Some(failed.index), search: failed.search.clone() };
    let mut replayer = Replayer::new(setup, bounds).seeking(&failed.failure.cause).seen(seen);
    let (outcome, recording) = replayer.raw(failed);
    let original = Schedule { seed: failed.seed, choices: recording.choices.clone() };
    let cause = &failed.failure.cause;
    let alike = outcome.failure.as_ref().is_some_and(|failure| failure.cause == *cause);
    if !alike || *cause == Cause::Nondeterminism {
        let seen = outcome.failure.as_ref();
        return diverged(setup, &mut replayer, failed, original, recording, seen, origin);
    }
    for _ in 0..2 {
        let again = replayer.replay(&original);
        let same = again.outcome.failure.as_ref().is_some_and(|failure| failure.cause == *cause);
        if !same || again.trail.skipped.is_some() {
            let seen = again.outcome.failure.as_ref();
            return diverged(setup, &mut replayer, failed, original, again.recording, seen, origin);
        }
    }
    let shrink_time = match making {
        Making::For(time) => time,
        Making::Known(small) => {
            let schedule = small.unwrap_or_else(|| original.clone());
            return show(&mut replayer, schedule, original, origin, &failed.failure);
        }
    };
    match quietly(|| replayer.shrink(original.clone(), cause, shrink_time)) {
        Ok((schedule, shrunk)) => {
            finish(&mut replayer, schedule, original, shrunk, origin, &failed.failure)
        }
        Err(panic) => {
            // The world may be in disorder, so the schedule is recorded in a new one.
            let mut replayer = Replayer::new(setup, bounds).seen(seen);
            let schedule = original.clone();
            let mut finding = show(&mut replayer, schedule, original, origin, &failed.failure);
            finding.recording.problems.push(format!("shrinking failed: {panic}"));
            finding
        }
    }
}

/// Does the same as [`investigate`], but keeps the violation itself whatever fails meanwhile.
pub(crate) fn investigate_safely<M: Message>(
    setup: &SharedSetup<M>,
    failed: &Failed,
    options: &Options,
) -> Finding {
    let Options { bounds, shrink_time, patience, inline, .. } = *options;
    let making = Making::For(shrink_time);
    if inline {
        return quietly(|| investigate(setup, failed, bounds, making, None))
            .unwrap_or_else(|panic| unreplayed(failed, format!("replaying it failed: {panic}")));
    }
    let attempt = |making: Making| {
        let (setup, failed) = (Arc::clone(setup), failed.clone());
        let work = move |seen: &Seen| {
            quietly(|| investigate(&setup, &failed, bounds, making, Some(seen))).unwrap_or_else(
                |panic| unreplayed(&failed, format!("replaying it failed: {panic}")),
            )
        };
        aside(patience, work)
    };
    attempt(making).unwrap_or_else(|seen| {
        let stuck = seen.words(patience);
        let known = seen.witness().smallest.take();
        let mut finding = attempt(Making::Known(known)).unwrap_or_else(|again| {
            unreplayed(failed, format!("replaying it failed: {}", again.words(patience)))
        });
        let problem = format!(
            "shrinking ended early: in another execution {stuck}. That is a second mistake, or it is \
             only slow: then raise `Explorer::patience`"
        );
        finding.recording.problems.push(problem);
        finding
    })
}

/// The violation alone, where nothing else is known.
fn unreplayed(failed: &Failed, problem: String) -> Finding {
    let schedule = Schedule { seed: failed.seed, choices: Vec::new() };
    Finding {
        failure: failed.failure.clone(),
        original: schedule.clone(),
        schedule,
        recording: RunRecord { problems: vec![problem], ..RunRecord::default() },
        shrunk: Shrunk::default(),
        origin: Origin { execution: Some(failed.index), search: failed.search.clone() },
    }
}

/// Records the schedule that is reported.
pub(crate) fn finish<M: Message>(
    replayer: &mut Replayer<M>,
    schedule: Schedule,
    original: Schedule,
    shrunk: Shrunk,
    origin: Origin,
    failure: &Failure,
) -> Finding {
    let mut finding = show(replayer, schedule, original, origin, failure);
    let model = replayer.weakest_model(&finding.schedule, &finding.failure.cause);
    finding.recording.crash_model = model;
    Finding { shrunk, ..finding }
}

/// Records a schedule as it is.
fn show<M: Message>(
    replayer: &mut Replayer<M>,
    schedule: Schedule,
    original: Schedule,
    origin: Origin,
    failure: &Failure,
) -> Finding {
    let Replayed { outcome, recording, .. } = replayer.replay(&schedule);
    let failure = outcome.failure.unwrap_or_else(|| failure.clone());
    Finding { failure, schedule, original, recording, shrunk: Shrunk::default(), origin }
}

/// The finding that the execution is not a function of its schedule, with the place of the first
/// difference.
fn diverged<M: Message>(
    setup: &SharedSetup<M>,
    replayer: &mut Replayer<M>,
    failed: &Failed,
    original: Schedule,
    recording: RunRecord,
    seen: Option<&Failure>,
    origin: Origin,
) -> Finding {
    // The same world is tried first, where executions share memory, then another one.
    let (_, again) = replayer.raw(failed);
    let place = first_difference(&recording, &again).or_else(|| {
        let (_, elsewhere) = Replayer::new(setup, replayer.bounds).raw(failed);
        first_difference(&recording, &elsewhere)
    });
    let message = place.unwrap_or_else(|| {
        let seen = seen.map_or("no violation".to_owned(), ToString::to_string);
        format!(
            "the search saw \"{}\", its replay sees \"{seen}\"; a node depends on something outside \
             its context: shared memory, the order of a hash map, time, threads or randomness of the \
             operating system",
            failed.failure.cause
        )
    });
    let failure = Failure { cause: Cause::Nondeterminism, message };
    let schedule = original.clone();
    Finding { failure, schedule, original, recording, shrunk: Shrunk::default(), origin }
}

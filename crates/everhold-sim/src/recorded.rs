//! Recordings of hosted nodes as schedules: replayed, and shrunk like any other finding.
//!
//! A recording has the order of events and the inputs from outside; the explorer delivers messages,
//! fires timers and crashes nodes in that order, with the clocks that were recorded. If that
//! violates a property, the schedule is tried again on the explorer's own clocks, and shrunk there.

mod outside;
mod plan;

use std::collections::BTreeSet;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use everhold_node::Message;
use everhold_trace::{Execution, Value};

use crate::explore::{Explorer, Options};
use crate::failure::Failure;
use crate::investigate::{Replayed, Replayer, finish};
use crate::regressions::TestId;
use crate::report::{Finding, Goal, Origin, Report, Stop};
use crate::schedule::{Choice, Schedule};
use crate::shrink::{Shrunk, shrink};
use crate::system::System;
use crate::worker::SharedSetup;
use crate::world::World;

use plan::Plan;

/// The first of the numbers that stand for clients of a hosted system.
const CLIENTS: u32 = 1 << 31;

/// Reads a message as the hosts wrote it: the `decode` of their codec.
pub type Decode<M> = fn(&[u8]) -> Result<M, String>;

/// The reason why a recording cannot be replayed on this system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRecording(String);

impl fmt::Display for BadRecording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadRecording {}

impl Explorer {
    /// Replays a recording of hosted nodes. `setup` makes the same nodes with the same numbers;
    /// additional nodes do no harm. The messages of clients are sent again by nodes of the kind
    /// `outside`; `decode` reads them. Crashes that were recorded are allowed, whatever the setup's
    /// faults.
    ///
    /// The report has the violation that the recording shows, shrunk. If it shows none, the verdict
    /// is unknown; if the nodes diverged from the recording, the verdict is diverged, and
    /// [`Stop::Diverged`] has the place.
    ///
    /// # Errors
    ///
    /// If the recording is not one of such nodes, or lacks their beginning.
    ///
    /// # Panics
    ///
    /// As [`run`](Explorer::run).
    #[track_caller]
    pub fn replay_live<M: Message>(
        self,
        recording: &Execution,
        decode: Decode<M>,
        setup: impl Fn(&mut System<M>) + Send + Sync + 'static,
    ) -> Result<Report, BadRecording> {
        let test = TestId::new(Location::caller(), self.name.clone());
        let options = Options::resolve(self).unwrap_or_else(|problem| panic!("{problem}"));
        let setup: SharedSetup<M> = Arc::new(setup);
        let names = World::new(&setup).names;
        let plan = Arc::new(Plan::read(recording, &names, decode)?);
        let around = Arc::clone(&plan);
        let setup: SharedSetup<M> = Arc::new(move |system| {
            setup(system);
            around.complete(system, decode);
        });
        let mut world = World::new(&setup);
        let goals = world.goals().iter().map(|name| Goal::new(name)).collect();
        let mut report = Report::new(test, &options, world.names.clone(), goals);
        report.expected = world.expected();
        report.search = "a recording".to_owned();
        report.problems.extend(world.property_problems());
        drop(world);
        let mut replayer = Replayer::new(&setup, options.bounds);
        let replayed = replayer.replay(&plan.schedule);
        (report.executions, report.steps) = (1, u64::from(replayed.outcome.steps));
        report.stop = match &replayed.outcome.failure {
            None => divergence(&plan, recording, &replayed)
                .map_or(Stop::Replayed { skipped: None }, |place| Stop::Diverged { place }),
            Some(failure) if replayer.reproduces(&plan.schedule, &failure.cause).is_none() => {
                let place = "two replays of it differ".to_owned();
                Stop::Diverged { place }
            }
            Some(failure) => {
                let finding =
                    make_small(&mut replayer, &plan, &replayed, failure, &options, &mut report);
                report.findings.push(finding);
                Stop::Found
            }
        };
        Ok(report)
    }
}

/// Tries the schedule on the explorer's own clocks, where an execution that leaves something out is
/// like any other, and shrinks it.
fn make_small<M: Message>(
    replayer: &mut Replayer<M>,
    plan: &Plan,
    replayed: &Replayed,
    failure: &Failure,
    options: &Options,
    report: &mut Report,
) -> Finding {
    let seed = plan.schedule.seed;
    let used = replayed.trail.used.iter().map(|at| plan.schedule.choices[*at].clone());
    let original = Schedule { seed, choices: used.collect() };
    // The choices as they happened, with the contents that each crash left on a disk.
    let mut plain = Schedule { seed, choices: replayed.recording.choices.clone() };
    plain.choices.retain(|choice| !matches!(choice, Choice::Clock { .. }));
    let origin = Origin { execution: None, search: "a recording".to_owned() };
    let Some(choices) = replayer.reproduces(&plain, &failure.cause) else {
        report.problems.push(
            "without the recorded clocks this does not happen, so it is shown as it was recorded"
                .to_owned(),
        );
        let schedule = original.clone();
        return finish(replayer, schedule, original, Shrunk::default(), origin, failure);
    };
    let plain = Schedule { seed, choices };
    let (schedule, shrunk) = shrink(plain, &failure.cause, replayer, options.shrink_time);
    finish(replayer, schedule, original, shrunk, origin, failure)
}

/// The first event at which the nodes diverged from the recording.
fn divergence(plan: &Plan, recording: &Execution, replayed: &Replayed) -> Option<String> {
    let used: BTreeSet<usize> = replayed.trail.used.iter().copied().collect();
    let mut choices = plan.schedule.choices.iter().enumerate();
    let skipped = choices
        .find(|(at, choice)| !used.contains(at) && !matches!(choice, Choice::Clock { .. }))
        .map(|(at, choice)| (plan.origins[at], format!("{choice} cannot happen")));
    let first = [plan.gap.clone(), skipped, other_state(plan, recording, replayed)];
    let (event, what) = first.into_iter().flatten().min_by_key(|(event, _)| *event)?;
    Some(format!("{}: {what}", plan.place(recording, event)))
}

/// The first event after which a node has another state than it showed in the recording.
fn other_state(plan: &Plan, recording: &Execution, replayed: &Replayed) -> Option<(usize, String)> {
    let states = recording.local_states();
    let choices = replayed.trail.used.iter().filter(|at| plan.schedule.choices[**at].is_step());
    // The first step is that in which all nodes start.
    for (at, step) in choices.zip(replayed.recording.steps.iter().skip(1)) {
        let index = plan.origins[*at];
        let event = &recording.events()[index];
        if event.observation.is_none() {
            continue;
        }
        let id = everhold_trace::EventId(index as u32);
        let shown = states.at(event.node, recording.index_in_node(id) + 1)?;
        if let Some(difference) = difference(shown, &step.state) {
            return Some((index, difference));
        }
    }
    None
}

/// The difference between two states. Times of the wall clock and the identities of outside callers
/// cannot be the same, so they do not count.
fn difference(shown: &Value, now: &Value) -> Option<String> {
    match (shown, now) {
        (Value::Record(a), Value::Record(b)) => a.iter().find_map(|(name, shown)| {
            let now = b.get(name).unwrap_or(&Value::Null);
            (!alike(shown, now)).then(|| format!("`{name}` was {shown} and is now {now}"))
        }),
        _ => (!alike(shown, now)).then(|| format!("the state was {shown} and is now {now}")),
    }
}

/// Nanoseconds since 1970, in this century.
const WALL_CLOCK: i64 = 1_000_000_000_000_000_000;

fn alike(a: &Value, b: &Value) -> bool {
    let outside = |value: &Value| matches!(value, Value::Node(node) if node.0 >= CLIENTS);
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a == b || (*a > WALL_CLOCK && *b > WALL_CLOCK),
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b))
        }
        (Value::Map(a), Value::Map(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a.0, b.0) && alike(a.1, b.1))
        }
        (Value::Record(a), Value::Record(b)) => {
            a.values().any(outside)
                || a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && alike(a.1, b.1))
        }
        (Value::Variant { name, payload }, Value::Variant { name: other, payload: with }) => {
            name == other && alike(payload, with)
        }
        _ => a == b || outside(a),
    }
}

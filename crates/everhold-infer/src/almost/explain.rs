//! The exceptions of an almost-invariant: each with what led to it, and what they share.

use std::collections::BTreeMap;
use std::fmt;

use everhold_property::{Library, Member, Shown, Snapshot, Witness, explain};
use everhold_trace::{EventId, EventKind, Execution, NodeId, Time, Value};

use super::rank::label;
use super::{AlmostInvariant, Episode};

/// Exceptions that are shown one by one.
const SHOWN_MAX: usize = 5;
/// The most exceptions that are examined for what they share.
const ASKED_MAX: usize = 100;
/// Events shown before each.
const BEFORE: u32 = 5;

/// The exceptions of an almost-invariant, opened.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Explanation {
    /// The first exceptions, up to a hundred.
    pub exceptions: Vec<Exception>,
    /// How many there are.
    pub all: usize,
    /// Facts that at least half of them have in common, the commonest first.
    pub shared: Vec<Shared>,
}

/// One exception.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Exception {
    /// When it was.
    pub episode: Episode,
    /// The name of the run, or its number.
    pub run: String,
    /// When the event was after which it fails, if the trace says so.
    pub time: Time,
    /// The cut: how many events of each node had happened, by node.
    pub cut: Vec<u32>,
    /// The nodes that the failing binding names.
    pub nodes: Vec<NodeId>,
    /// The bindings that fail and the values they meet, right after the event.
    pub witness: Option<Witness>,
    /// The last events up to the one after which it fails, in words.
    pub before: Vec<String>,
}

/// Something that several exceptions have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shared {
    /// The fact, in words.
    pub what: String,
    /// The number of exceptions that have it, and the number of exceptions that were examined.
    pub of: (usize, usize),
}

impl Explanation {
    /// Opens the exceptions of `found`, which was inferred from these runs.
    #[must_use]
    pub fn of(
        found: &AlmostInvariant,
        executions: &[&Execution],
        library: &Library,
    ) -> Explanation {
        let asked: Vec<Exception> = found
            .episodes
            .iter()
            .take(ASKED_MAX)
            .map(|episode| exception(found, *episode, executions[episode.run], library))
            .collect();
        let shared = shared(&asked, executions);
        Explanation { exceptions: asked, all: found.episodes.len(), shared }
    }
}

fn exception(
    found: &AlmostInvariant,
    episode: Episode,
    execution: &Execution,
    library: &Library,
) -> Exception {
    let state = snapshot(execution, episode.from);
    let witness = explain(&found.property, library, &[&state], &[]);
    let first = episode.from.0.saturating_sub(BEFORE);
    let before = (first..=episode.from.0).map(|event| words(execution, EventId(event))).collect();
    Exception {
        episode,
        run: run_name(execution, episode.run),
        time: execution.event(episode.from).time,
        cut: cut(execution, episode.from),
        nodes: witness.iter().flat_map(|witness| &witness.bindings).filter_map(named).collect(),
        witness,
        before,
    }
}

/// The node that a binding is.
fn named(bound: &Shown) -> Option<NodeId> {
    match bound.value {
        Ok(Value::Node(node)) => Some(node),
        _ => None,
    }
}

/// How many events of each node had happened after an event of the recorded order.
fn cut(execution: &Execution, event: EventId) -> Vec<u32> {
    let count = |node: NodeId| {
        let events = execution.events_of(node);
        let count = events.partition_point(|other| *other <= event);
        u32::try_from(count).expect("event ids are 32 bits")
    };
    execution.node_ids().map(count).collect()
}

/// A run by its name, or by its number from 1.
pub(crate) fn run_name(execution: &Execution, place: usize) -> String {
    match execution.name() {
        "" => format!("run {}", place + 1),
        name => format!("run {} `{name}`", place + 1),
    }
}

fn words(execution: &Execution, event: EventId) -> String {
    let of = execution.event(event);
    format!("{event} {}: {}", execution.node(of.node).name, label(execution, of.kind.clone()))
}

/// The global state right after an event of the recorded order.
pub(crate) fn snapshot(execution: &Execution, event: EventId) -> Snapshot {
    let member = |node| {
        let info = execution.node(node);
        Member::new(node, &info.name, &info.kind)
    };
    let mut snapshot = Snapshot::new(execution.node_ids().map(member).collect());
    let states = execution.local_states();
    for node in execution.node_ids() {
        let events = execution.events_of(node);
        let count = events.partition_point(|other| *other <= event);
        if let Some(state) = states.at(node, count) {
            snapshot.set(node, state.clone());
        }
        let of_life = |event: &&EventId| {
            let kind = &execution.event(**event).kind;
            matches!(kind, EventKind::Crash | EventKind::Restart | EventKind::Start)
        };
        let last = events[..count].iter().rev().find(of_life);
        let down = last.is_some_and(|event| execution.event(*event).kind == EventKind::Crash);
        snapshot.set_up(node, !down);
    }
    snapshot
}

/// The facts that at least half of the exceptions have in common.
fn shared(exceptions: &[Exception], executions: &[&Execution]) -> Vec<Shared> {
    let mut counts: BTreeMap<(u8, String), usize> = BTreeMap::new();
    for exception in exceptions {
        let execution = executions[exception.episode.run];
        let mut facts = vec![(3, format!("in {}", exception.run))];
        let event = execution.event(exception.episode.from);
        facts.push((0, format!("right after {}", label(execution, event.kind.clone()))));
        facts.push((1, format!("at an event of {}", execution.node(event.node).name)));
        facts.extend(faults(execution, exception.episode.from).map(|fault| (0, fault)));
        if let Some(witness) = &exception.witness {
            let shown = witness.bindings.iter().chain(&witness.values);
            facts.extend(shown.map(|shown| (2, format!("{} = {}", shown.text, shown.shown))));
        }
        for fact in facts {
            *counts.entry(fact).or_default() += 1;
        }
    }
    let asked = exceptions.len();
    let half = counts.into_iter().filter(|(_, count)| 2 * count >= asked && asked > 0);
    let mut shared: Vec<((u8, String), usize)> = half.collect();
    shared.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    shared.into_iter().map(|((_, what), count)| Shared { what, of: (count, asked) }).collect()
}

/// Faults shortly before an event.
fn faults(execution: &Execution, event: EventId) -> impl Iterator<Item = String> {
    const SHORTLY: u32 = 20;
    let first = event.0.saturating_sub(SHORTLY);
    let mut found: Vec<String> = (first..=event.0)
        .map(|event| &execution.event(EventId(event)).kind)
        .filter(|kind| matches!(kind, EventKind::Crash | EventKind::Restart))
        .map(|kind| format!("shortly after a {}", kind.word()))
        .collect();
    let near = |mark: &&everhold_trace::Mark| (first..=event.0 + 1).contains(&mark.after);
    found.extend(execution.marks().iter().filter(near).map(|mark| match mark.kind {
        everhold_trace::MarkKind::Lost(_) => "shortly after a lost message".to_owned(),
        everhold_trace::MarkKind::Duplicated(_) => "shortly after a message was doubled".to_owned(),
        everhold_trace::MarkKind::Partition(_) => "shortly after a partition".to_owned(),
        everhold_trace::MarkKind::Heal => "shortly after the network healed".to_owned(),
        everhold_trace::MarkKind::Fault { ref name, .. } => format!("shortly after: {name}"),
    }));
    found.sort();
    found.dedup();
    found.into_iter()
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.shared.is_empty() {
            writeln!(f, "Shared by the exceptions:")?;
        }
        for Shared { what, of: (count, asked) } in &self.shared {
            writeln!(f, "  {count} of {asked}  {what}")?;
        }
        for (place, exception) in self.exceptions.iter().take(SHOWN_MAX).enumerate() {
            let Episode { from, to, .. } = exception.episode;
            let end = to.map_or_else(|| "to the end".to_owned(), |to| format!("until {to}"));
            writeln!(
                f,
                "\nException {} of {}: {}, after {from} {end}",
                place + 1,
                self.all,
                exception.run
            )?;
            for line in exception
                .witness
                .iter()
                .flat_map(|w| w.to_string().lines().map(str::to_owned).collect::<Vec<_>>())
            {
                writeln!(f, "  {line}")?;
            }
            for event in &exception.before {
                writeln!(f, "    {event}")?;
            }
        }
        Ok(())
    }
}

//! Descriptions and counts of a recorded execution.

use std::collections::BTreeMap;

use everhold_node::{NodeId, Time};

use super::correlate::Features;
use super::lab::seconds;
use super::multiples::TimerPeriod;
use crate::{Event, Recorded, Sent, Trigger};

/// Returns the name of a node.
pub(super) fn node(recorded: &Recorded, node: NodeId) -> &str {
    recorded.nodes.get(node.index()).map_or("?", |info| info.name.as_str())
}

/// Describes an event: `Accepted node-2 → node-1`, `timer recovery at node-0`.
pub(super) fn event(recorded: &Recorded, event: u32) -> String {
    let Some(here) = recorded.events.get(event as usize) else { return "the end".to_owned() };
    match here.trigger {
        Trigger::Message(message) => self::message(recorded, &recorded.messages[message as usize]),
        _ => format!("{} at {}", recorded.kind(here.kind), node(recorded, here.node)),
    }
}

/// Describes a message.
pub(super) fn message(recorded: &Recorded, sent: &Sent) -> String {
    let (from, to) = (node(recorded, sent.link.from), node(recorded, sent.link.to));
    format!("{} {from} → {to}", recorded.kind(sent.kind))
}

/// Counts the events of each kind: MacePC's frequencies.
pub(super) fn counts(recorded: &Recorded) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for event in &recorded.events {
        *counts.entry(event.kind).or_default() += 1;
    }
    counts
        .into_iter()
        .map(|(kind, count): (u16, u32)| (recorded.kind(kind).to_owned(), count))
        .collect()
}

/// Returns the time of the first event of this kind.
pub(super) fn first(recorded: &Recorded, kind: &str) -> Option<Time> {
    let number = recorded.kinds.iter().position(|name| name == kind)?;
    let is_it = |event: &&Event| usize::from(event.kind) == number;
    recorded.events.iter().find(is_it).map(|event| event.start)
}

/// Returns the timers that were set, by name, with the most frequent period of each.
pub(super) fn timers(recorded: &Recorded) -> Vec<TimerPeriod> {
    let mut periods: BTreeMap<String, BTreeMap<u64, u32>> = BTreeMap::new();
    for set in recorded.timers.iter().filter(|set| !recorded.is_load(set.node)) {
        // Clocks with drift stretch a period a little, so periods are rounded to microseconds.
        let period = (set.due.0 - set.set.0) / 1_000 * 1_000;
        *periods.entry(set.timer.name.to_owned()).or_default().entry(period).or_default() += 1;
    }
    let usual = |(name, periods): (String, BTreeMap<u64, u32>)| {
        let period = periods.into_iter().max_by_key(|(period, count)| (*count, *period));
        TimerPeriod { name, period: seconds(period.map_or(0, |(period, _)| period)) }
    };
    periods.into_iter().map(usual).filter(|timer| timer.period > 0.0).collect()
}

/// Counts what happened before a moment: the events, the kinds of message that each kind of event
/// sent, and of each count the maximum over single nodes. Timers are left out, since they only
/// measure time.
pub(super) fn features(recorded: &Recorded, before: Time) -> Features {
    let mut count: BTreeMap<(u16, Option<u16>, NodeId), f64> = BTreeMap::new();
    let early = |event: &Event| {
        let counts = !matches!(event.trigger, Trigger::Timer(_) | Trigger::Start);
        event.start < before && counts && !recorded.is_load(event.node)
    };
    for event in recorded.events.iter().filter(|event| early(event)) {
        *count.entry((event.kind, None, event.node)).or_default() += 1.0;
    }
    for sent in &recorded.messages {
        let by = recorded.events.get(sent.by as usize).filter(|event| early(event));
        let Some(event) = by else { continue };
        *count.entry((event.kind, Some(sent.kind), event.node)).or_default() += 1.0;
    }
    let mut features = Features::new();
    for ((kind, sent, _), count) in count {
        let name = match sent {
            None => recorded.kind(kind).to_owned(),
            Some(sent) => format!("{} that sends {}", recorded.kind(kind), recorded.kind(sent)),
        };
        let most = features.entry(format!("{name}, most at one node")).or_default();
        *most = f64::max(*most, count);
        *features.entry(name).or_default() += count;
    }
    features
}

#[cfg(test)]
pub(super) mod toy {
    use everhold_node::Timer;
    use std::time::Duration;

    use super::*;
    use crate::{Draws, Ended, Fate, OnLink, TimedRun, TimerSet};
    use everhold_sim::record::NodeRecord;

    pub(in super::super) fn empty() -> Recorded {
        let run =
            TimedRun { time: Duration::ZERO, events: 0, ended: Ended::Done, wall: Duration::ZERO };
        let info = |name: &str| NodeRecord { name: name.to_owned(), kind: "node".to_owned() };
        Recorded {
            run,
            draws: Draws::seed(0),
            nodes: vec![info("a"), info("b")],
            load: Vec::new(),
            kinds: ["start", "Join", "timer recovery"].map(str::to_owned).to_vec(),
            events: Vec::new(),
            messages: Vec::new(),
            timers: Vec::new(),
            notes: Vec::new(),
            states: Vec::new(),
            payloads: Vec::new(),
        }
    }

    /// An execution with a start, a message to a busy node, and a timer.
    pub(in super::super) fn waits_for_a_timer() -> Recorded {
        let (a, b) = (NodeId(0), NodeId(1));
        let event = |node, kind, trigger, [ready, start, end]: [u64; 3]| {
            let (ready, start, end) = (Time(ready), Time(start), Time(end));
            Event { node, kind, index: 0, trigger, ready, start, end }
        };
        let mut recorded = empty();
        recorded.events = vec![
            event(a, 0, Trigger::Start, [0, 0, 2]),
            event(b, 1, Trigger::Message(0), [5, 7, 8]),
            event(b, 2, Trigger::Timer(0), [18, 18, 19]),
        ];
        recorded.messages = vec![Sent {
            link: OnLink::new(a, b, 0),
            kind: 1,
            bytes: 8,
            by: 0,
            sent: Time(2),
            arrives: Some(Time(5)),
            delay: 3,
            fate: Fate::Handled(1),
        }];
        let timer = Timer::from("recovery");
        let (set, due) = (Time(8), Time(18));
        recorded.timers = vec![TimerSet { node: b, timer, by: 1, set, due, fired: Some(2) }];
        recorded
    }

    #[test]
    fn words_and_numbers() {
        let recorded = waits_for_a_timer();
        assert_eq!(event(&recorded, 1), "Join a → b");
        assert_eq!(event(&recorded, 2), "timer recovery at b");
        assert_eq!(first(&recorded, "timer recovery"), Some(Time(18)));
        assert_eq!(counts(&recorded)["Join"], 1);
        assert_eq!(features(&recorded, Time(18))["Join"], 1.0);
        assert!(features(&recorded, Time(5)).is_empty());
    }
}

//! The critical path: the chain of causes from the end of an execution back to its start.

use std::collections::BTreeMap;
use std::fmt;

use everhold_node::Time;
use serde::Serialize;

use super::lab::seconds;
use crate::{Recorded, Trigger};

/// A segment of the critical path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Leg {
    /// The event at its end.
    pub event: u32,
    /// The use of the time.
    pub spent: Spent,
    /// The beginning, in nanoseconds.
    pub from: u64,
    /// The end, in nanoseconds.
    pub to: u64,
}

/// The uses of time on the critical path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spent {
    /// A message was under way.
    Network,
    /// A handler ran.
    Handler,
    /// The node was busy with something else.
    Queueing,
    /// The node waited for the timer of this name.
    Timer(String),
    /// A load generator did or waited for something.
    Load,
    /// A cause outside the system: a fault, or a start at a later time.
    Outside,
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Spent::Network => "network",
            Spent::Handler => "handlers",
            Spent::Queueing => "queueing",
            Spent::Load => "load generators",
            Spent::Outside => "outside",
            Spent::Timer(name) => name,
        })
    }
}

/// The chain of causes that ends at the moment when the stopping condition became true.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Path {
    /// The segments, from the start to the end.
    pub legs: Vec<Leg>,
}

impl Path {
    /// Traces the path back from the last event.
    #[must_use]
    pub fn of(recorded: &Recorded) -> Path {
        let mut legs = Vec::new();
        let mut at = recorded.events.len().checked_sub(1).map(|last| last as u32);
        while let Some(event) = at {
            let here = &recorded.events[event as usize];
            let load = recorded.is_load(here.node);
            let mut leg = |spent: Spent, from: Time, to: Time| {
                let spent = if load && spent != Spent::Network { Spent::Load } else { spent };
                if to > from {
                    legs.push(Leg { event, spent, from: from.0, to: to.0 });
                }
            };
            leg(Spent::Handler, here.start, here.end);
            leg(Spent::Queueing, here.ready, here.start);
            at = recorded.cause(event);
            match here.trigger {
                Trigger::Message(message) => {
                    leg(Spent::Network, recorded.messages[message as usize].sent, here.ready);
                }
                Trigger::Timer(timer) => {
                    let name = recorded.kind(here.kind).to_owned();
                    leg(Spent::Timer(name), recorded.timers[timer as usize].set, here.ready);
                }
                Trigger::Task => {}
                Trigger::Start
                | Trigger::Restart
                | Trigger::Input
                | Trigger::Crash
                | Trigger::Disconnected(_) => {
                    leg(Spent::Outside, Time(0), here.ready);
                }
            }
            // Causes precede their effects; any other order would lead to an endless loop.
            at = at.filter(|cause| *cause < event);
        }
        legs.reverse();
        Path { legs }
    }

    /// Returns the nanoseconds of each use.
    #[must_use]
    pub fn totals(&self) -> BTreeMap<Spent, u64> {
        let mut totals = BTreeMap::new();
        for leg in &self.legs {
            *totals.entry(leg.spent.clone()).or_default() += leg.to - leg.from;
        }
        totals
    }

    /// Returns the shares of the uses by name, the largest first; they sum to 1.
    #[must_use]
    pub fn shares(&self) -> Vec<(String, f64)> {
        let all = self.length().max(1) as f64;
        let share = |(spent, time): (Spent, u64)| (spent.to_string(), time as f64 / all);
        let mut shares: Vec<(String, f64)> = self.totals().into_iter().map(share).collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        shares
    }

    /// Returns the waits for each timer, by name.
    #[must_use]
    pub fn waits(&self) -> Vec<TimerWait> {
        let mut waits: BTreeMap<&str, TimerWait> = BTreeMap::new();
        for leg in &self.legs {
            if let Spent::Timer(name) = &leg.spent {
                let wait = waits.entry(name).or_insert_with(|| TimerWait::none(name));
                wait.waited += leg.to - leg.from;
                wait.rounds += 1;
                wait.longest = wait.longest.max(leg.to - leg.from);
            }
        }
        waits.into_values().collect()
    }

    /// Returns the timer on which most of the time was spent.
    #[must_use]
    pub fn dominant_timer(&self) -> Option<TimerWait> {
        let waits = self.waits().into_iter();
        waits.max_by_key(|wait| (wait.waited, std::cmp::Reverse(wait.name.clone())))
    }

    /// Returns the kinds of the messages on the path with their counts, the most frequent first.
    #[must_use]
    pub fn messages(&self, recorded: &Recorded) -> Vec<(String, usize)> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for leg in self.legs.iter().filter(|leg| leg.spent == Spent::Network) {
            let event = recorded.events.get(leg.event as usize);
            *counts.entry(event.map_or("?", |event| recorded.kind(event.kind))).or_default() += 1;
        }
        let mut counts: Vec<(String, usize)> =
            counts.into_iter().map(|(kind, count)| (kind.to_owned(), count)).collect();
        counts.sort_by_key(|(kind, count)| (std::cmp::Reverse(*count), kind.clone()));
        counts
    }

    /// Returns the nanoseconds that load generators used.
    #[must_use]
    pub fn load(&self) -> u64 {
        let own = self.legs.iter().filter(|leg| leg.spent == Spent::Load);
        own.map(|leg| leg.to - leg.from).sum()
    }

    /// Returns the length of the whole path in nanoseconds.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.legs.iter().map(|leg| leg.to - leg.from).sum()
    }
}

/// Returns the seconds that the system itself used: the time of the execution without the time of
/// load generators on its critical path.
pub(super) fn own_time(recorded: &Recorded) -> f64 {
    let load = if recorded.load.is_empty() { 0 } else { Path::of(recorded).load() };
    recorded.run.time.as_secs_f64() - seconds(load)
}

/// The part of a critical path that waits for one timer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TimerWait {
    /// The timer, as `timer NAME`.
    pub name: String,
    /// The total wait in nanoseconds.
    pub waited: u64,
    /// The number of waits.
    pub rounds: u32,
    /// The longest single wait in nanoseconds: the timer's period.
    pub longest: u64,
}

impl TimerWait {
    fn none(name: &str) -> TimerWait {
        TimerWait { name: name.to_owned(), waited: 0, rounds: 0, longest: 0 }
    }

    /// Returns the name without the word `timer`.
    #[must_use]
    pub fn short_name(&self) -> &str {
        self.name.strip_prefix("timer ").unwrap_or(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::super::story::toy;
    use super::*;

    /// The start at 0 takes 2; a message is under way until 5; the node is busy until 7; the
    /// handler, which ends at 8, arms a timer that fires at 18; its handler ends at 19.
    #[test]
    fn every_moment_belongs_to_something() {
        let path = Path::of(&toy::waits_for_a_timer());
        assert_eq!(path.length(), 19);
        assert!(path.legs.windows(2).all(|pair| pair[0].to == pair[1].from), "{path:?}");
        let wait = path.dominant_timer().expect("there is one");
        assert_eq!((wait.short_name(), wait.waited, wait.rounds), ("recovery", 10, 1));
        assert_eq!(path.totals()[&Spent::Queueing], 2);
        assert_eq!(path.messages(&toy::waits_for_a_timer()), [("Join".to_owned(), 1)]);
    }

    #[test]
    fn nothing_happened() {
        assert!(Path::of(&toy::empty()).legs.is_empty());
    }
}

//! The search for causes: one message at a time arrives earlier or later, while all other draws
//! stay as they were.
//!
//! Draws are keyed by link and index, so an execution with one changed delay is the same except for
//! the consequences of that delay. If it then ends in time, the message is a cause; the smallest
//! sufficient change, and the arrivals that change places, explain it.

use std::time::Duration;

use everhold_node::NodeId;
use everhold_node::fingerprint::mix;
use serde::Serialize;

use super::lab::{Counted, Crew, seconds};
use super::normal::Share;
use super::story;
use crate::{Delay, Draws, Recorded, Sent, Trigger};

/// A message whose delay decides whether the execution is slow.
#[derive(Clone, Debug, Serialize)]
pub struct Rescue {
    /// The message, such as `Join node-0 → node-1`.
    pub message: String,
    /// The index among the messages of the execution.
    pub number: usize,
    /// The direction in which its arrival must move.
    pub shift: Shift,
    /// The smallest sufficient change in seconds.
    pub by: f64,
    /// The time of the changed execution in seconds.
    pub time: f64,
    /// The share of continuations with other draws after the message that also end in time.
    pub robust: Share,
    /// Two arrivals that change places: in the slow execution the first one comes earlier.
    pub swapped: Option<(String, String)>,
    /// The token that replays the changed execution.
    pub token: String,
}

/// The direction in which an arrival must move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shift {
    /// It must arrive earlier.
    Earlier,
    /// It must arrive later.
    Later,
}

/// The results of changing single messages.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Causes {
    /// The number of messages that were changed.
    pub tried: usize,
    /// The number of messages for which some change removes the slowness.
    pub rescuing: usize,
    /// The most informative ones.
    pub rescues: Vec<Rescue>,
    /// The number of rescuing messages of each kind.
    pub kinds: Vec<(String, usize)>,
    /// The bound in seconds below which the slowness counts as removed.
    pub limit: f64,
}

/// The execution to change and the limits of the search.
#[derive(Debug)]
pub(super) struct Question<'a> {
    pub(super) slow: &'a Recorded,
    /// The bound in nanoseconds: an execution that ends by then is rescued.
    pub(super) limit: u64,
    /// The event at which P(good) fell; messages around it are tried first.
    pub(super) fall: Option<u32>,
    /// The time in nanoseconds after which a message is too late to be a cause.
    pub(super) until: u64,
    pub(super) round_trip: Duration,
    pub(super) messages_max: usize,
}

/// The number of causes that are explained in detail.
const EXPLAINED: usize = 5;
const REPETITIONS: u64 = 8;
const BISECTIONS: usize = 12;

#[derive(Clone, Copy, Debug)]
struct Rescued {
    number: usize,
    delay: Delay,
    size: u64,
}

/// Tries every message, and explains the best causes.
pub(super) fn causes(crew: &Crew, question: &Question<'_>) -> Causes {
    let numbers = worth_trying(question);
    let tried =
        crew.map("single messages", &numbers, |lab, number| try_message(lab, question, *number));
    let mut rescued: Vec<Rescued> = tried.into_iter().flatten().flatten().collect();
    let rescuing = rescued.len();
    let kinds = by_kind(question.slow, &rescued);
    // The smallest change first, then the latest message.
    rescued.sort_by_key(|r| (r.size, std::cmp::Reverse(r.number)));
    let rescued = telling(question.slow, &rescued);
    let explained = crew.map("causes", &rescued, |lab, rescued| explain(lab, question, *rescued));
    let mut rescues: Vec<Rescue> = explained.into_iter().flatten().collect();
    rescues.sort_by(|a, b| {
        let swapped = b.swapped.is_some().cmp(&a.swapped.is_some());
        let robust = b.robust.hits.cmp(&a.robust.hits);
        swapped.then(robust).then(a.by.total_cmp(&b.by)).then(a.number.cmp(&b.number))
    });
    rescues.truncate(EXPLAINED);
    Causes { tried: numbers.len(), rescuing, rescues, kinds, limit: seconds(question.limit) }
}

/// Selects messages to explain: one per kind and link, since messages of one kind on one link delay
/// each other, and the best of every kind before further ones of the same kind.
fn telling(slow: &Recorded, rescued: &[Rescued]) -> Vec<Rescued> {
    let mut seen = std::collections::BTreeMap::new();
    let mut ranked = Vec::new();
    for one in rescued {
        let sent = &slow.messages[one.number];
        let links: &mut Vec<_> = seen.entry(sent.kind).or_default();
        let link = (sent.link.from, sent.link.to);
        if !links.contains(&link) {
            links.push(link);
            ranked.push((links.len(), *one));
        }
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, one)| one).take(2 * EXPLAINED).collect()
}

/// Returns the messages sent before it was too late, those in flight around the fall first.
fn worth_trying(question: &Question<'_>) -> Vec<usize> {
    let slow = question.slow;
    let fall = question.fall.and_then(|event| slow.events.get(event as usize)).map(|e| e.start.0);
    let sent = slow.messages.iter().enumerate();
    let mut numbers: Vec<usize> = sent
        .filter(|(_, sent)| sent.sent.0 < question.until && sent.arrives.is_some())
        .filter(|(_, sent)| !slow.is_of_load(sent))
        .map(|(number, _)| number)
        .collect();
    let far = |number: &usize| {
        let (sent, Some(fall)) = (&slow.messages[*number], fall) else { return 0 };
        let arrives = sent.arrives.map_or(sent.sent.0, |time| time.0);
        sent.sent.0.saturating_sub(fall).max(fall.saturating_sub(arrives))
    };
    numbers.sort_by_key(|number| (far(number), *number));
    numbers.truncate(question.messages_max);
    numbers
}

fn try_message(lab: &mut Counted<'_>, question: &Question<'_>, number: usize) -> Option<Rescued> {
    let sent = &question.slow.messages[number];
    let trip = question.round_trip;
    let tries = [Delay::Plus(trip), Delay::Least, Delay::Plus(trip * 7)];
    tries.into_iter().find(|delay| rescues(lab, question, sent, *delay)).map(|delay| {
        let size = match delay {
            Delay::Plus(by) => by.as_nanos() as u64,
            _ => sent.delay,
        };
        Rescued { number, delay, size }
    })
}

fn changed(question: &Question<'_>, sent: &Sent, delay: Delay) -> Draws {
    question.slow.draws.clone().message(sent.link, delay)
}

fn rescues(lab: &mut Counted<'_>, question: &Question<'_>, sent: &Sent, delay: Delay) -> bool {
    lab.run(&changed(question, sent, delay), question.limit).measured.reached
}

fn by_kind(slow: &Recorded, rescued: &[Rescued]) -> Vec<(String, usize)> {
    let mut counts = std::collections::BTreeMap::new();
    for one in rescued {
        *counts.entry(slow.kind(slow.messages[one.number].kind).to_owned()).or_insert(0) += 1;
    }
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(kind, count)| (std::cmp::Reverse(*count), kind.clone()));
    counts
}

fn explain(lab: &mut Counted<'_>, question: &Question<'_>, rescued: Rescued) -> Rescue {
    let sent = &question.slow.messages[rescued.number];
    let (shift, by, delay) = threshold(lab, question, sent, rescued.delay);
    let draws = changed(question, sent, delay);
    let after = lab.record(&draws);
    let robust = robust(lab, question, sent, &draws);
    Rescue {
        message: story::message(question.slow, sent),
        number: rescued.number,
        shift,
        by: seconds(by),
        time: after.run.time.as_secs_f64(),
        robust,
        swapped: swapped(question.slow, &after, sent, shift),
        token: draws.token(),
    }
}

/// Finds the smallest change that still rescues, by bisection. The outcome need not be monotone in
/// the change, so the result is always one that was tried successfully.
fn threshold(
    lab: &mut Counted<'_>,
    question: &Question<'_>,
    sent: &Sent,
    works: Delay,
) -> (Shift, u64, Delay) {
    let (shift, most) = match works {
        Delay::Plus(by) => (Shift::Later, by.as_nanos() as u64),
        Delay::Least | Delay::Exactly(_) => (Shift::Earlier, sent.delay),
    };
    let change = |by: u64| match shift {
        Shift::Later => Delay::Plus(Duration::from_nanos(by)),
        Shift::Earlier if by == most => works,
        Shift::Earlier => Delay::Exactly(Duration::from_nanos(sent.delay - by)),
    };
    let (mut fails, mut holds) = (0, most);
    for _ in 0..BISECTIONS {
        let middle = fails + (holds - fails) / 2;
        if middle == fails {
            break;
        }
        if rescues(lab, question, sent, change(middle)) {
            holds = middle;
        } else {
            fails = middle;
        }
    }
    (shift, holds, change(holds))
}

/// Returns the share of successes when everything after the message's arrival is drawn anew.
fn robust(lab: &mut Counted<'_>, question: &Question<'_>, sent: &Sent, draws: &Draws) -> Share {
    let arrival = sent.arrives.map_or(0, |time| time.0);
    let after = question.slow.events.partition_point(|event| event.start.0 <= arrival) as u64;
    let seeds: Vec<u64> = (0..REPETITIONS).map(|i| mix(draws.seed, mix(0x20B0, i))).collect();
    let walks = lab.walks(draws, after, &seeds, question.limit);
    let hits = walks.iter().filter(|ran| ran.measured.reached).count() as u32;
    Share { hits, tries: walks.len() as u32 }
}

/// Returns the messages that arrived at one node, in order of arrival.
fn arrivals(recorded: &Recorded, node: NodeId) -> Vec<&Sent> {
    let at_node = recorded.events.iter().filter(|event| event.node == node);
    let messages = at_node.filter_map(|event| match event.trigger {
        Trigger::Message(message) => recorded.messages.get(message as usize),
        _ => None,
    });
    messages.collect()
}

/// Returns the arrival that changes places with the message at its receiver, or else the first two
/// that change places anywhere, in the order of the slow execution.
fn swapped(
    slow: &Recorded,
    fast: &Recorded,
    sent: &Sent,
    shift: Shift,
) -> Option<(String, String)> {
    let (before, after) = (arrivals(slow, sent.link.to), arrivals(fast, sent.link.to));
    let place = |all: &[&Sent], link| all.iter().position(|other| other.link == link);
    let (was, is) = (place(&before, sent.link), place(&after, sent.link));
    if let (Some(was), Some(is)) = (was, is) {
        let words = |other: &Sent| story::message(slow, other);
        let overtaken = |other: &&&Sent| {
            place(&after, other.link).is_some_and(|at| match shift {
                Shift::Later => at < is,
                Shift::Earlier => at > is,
            })
        };
        let found = match shift {
            Shift::Later => before[was + 1..].iter().find(overtaken),
            Shift::Earlier => before[..was].iter().rev().find(overtaken),
        };
        if let Some(other) = found {
            return Some(match shift {
                Shift::Later => (words(sent), words(other)),
                Shift::Earlier => (words(other), words(sent)),
            });
        }
    }
    first_swap(slow, fast)
}

fn first_swap(slow: &Recorded, fast: &Recorded) -> Option<(String, String)> {
    let nodes = (0..slow.nodes.len()).map(everhold_sim::engine::node_id);
    let swaps = nodes.filter_map(|node| {
        let (before, after) = (arrivals(slow, node), arrivals(fast, node));
        let at = (0..before.len().min(after.len())).find(|i| before[*i].link != after[*i].link)?;
        // The next arrival of the fast execution comes later in the slow one.
        let later = before[at..].iter().find(|sent| sent.link == after[at].link)?;
        let still = after.iter().any(|sent| sent.link == before[at].link);
        still.then_some((before[at].arrives, before[at], *later))
    });
    let (_, first, second) = swaps.min_by_key(|(time, _, _)| *time)?;
    Some((story::message(slow, first), story::message(slow, second)))
}

//! The rank of almost-invariants: those with rare, surprising and concentrated exceptions come first.

use std::collections::BTreeMap;

use everhold_property::{BinaryOp, Expr, Property, print_expr};
use everhold_trace::{EventId, EventKind, Execution};

use super::count::FailureCount;
use super::domain::Range;
use super::failing::offsets;
use super::literal::{Literal, Operand};
use super::moments::Moments;
use super::search::{Finalist, Search, as_f64};
use super::{Accounting, Almost, AlmostInvariant, AlmostReport, Episode, Score};
use crate::bitmap;
use crate::dictionary::hash_of;
use crate::evaluate::Vectors;
use crate::parallel;
use crate::relation::tree::{self, binary};
use crate::states::States;
use crate::stats::wilson;
use crate::variables::Access;

/// Exceptions overlap so much that two properties are about the same thing.
const RELATED: f64 = 0.9;
/// A further literal that leaves more than this of the exceptions adds nothing.
const EXCUSED: f64 = 0.3;
/// The first of so many parts of a run is its beginning.
const EARLY: usize = 10;
/// More surprise than this is not more telling.
const SURPRISE_MAX: f64 = 8.0;

/// A first idea of the rank, before the exceptions are looked at one by one.
pub(crate) fn first_look(tally: &FailureCount, by_chance: f64) -> f64 {
    rarity(tally.rate()) + surprise(by_chance, tally.rows_failing)
}

/// The rarity of exceptions in bits. Exceptions rarer than one in a hundred get no higher rank: any
/// behaviour that no execution has shown yet is rare.
fn rarity(rate: f64) -> f64 {
    -(1.0 - rate).max(0.01).log2()
}

fn surprise(by_chance: f64, seen: u64) -> f64 {
    ((by_chance + 1.0) / (as_f64(seen) + 1.0)).log2().clamp(0.0, SURPRISE_MAX)
}

/// A finalist with its exceptions in order.
struct Ranked<'a> {
    of: &'a Finalist,
    property: Property,
    text: String,
    episodes: Vec<Episode>,
    rate: f64,
    score: Score,
    snapshots: u64,
    reading: u32,
}

pub(crate) fn report(
    options: &Almost,
    states: &States,
    executions: &[&Execution],
    search: &Search,
) -> AlmostReport {
    let scopes: Vec<(&Moments, Triggers)> =
        search.moments.iter().map(|moments| (moments, Triggers::of(executions, moments))).collect();
    let mut ranked: Vec<Ranked<'_>> = Vec::new();
    for (moments, triggers) in &scopes {
        let own: Vec<&Finalist> =
            search.almost.iter().filter(|finalist| finalist.scope == moments.scope).collect();
        ranked.extend(parallel::map(own.len(), parallel::threads(options.threads), |place| {
            ranked_one(own[place], options, states, moments, triggers)
        }));
    }
    ranked.retain(|found| found.rate >= options.rate_min);
    let groups = groups(ranked);
    let mut report = AlmostReport::default();
    choose(groups, options, states, &mut report);
    report.always = always(search, options, states);
    report
}

fn ranked_one<'a>(
    finalist: &'a Finalist,
    options: &Almost,
    states: &States,
    moments: &Moments,
    triggers: &Triggers,
) -> Ranked<'a> {
    let property = finalist.property(states);
    let episodes = episodes(&finalist.failing.snapshots, states, moments);
    let failing = &finalist.failing.snapshots;
    let snapshots = Vectors::widest().common(failing, failing);
    let rate = match options.accounting {
        Accounting::Spatial => finalist.tally.rate(),
        Accounting::Plain => 1.0 - as_f64(snapshots) / as_f64(moments.len().max(1)),
    };
    let (later, at_start): (Vec<Episode>, Vec<Episode>) =
        episodes.iter().partition(|episode| !triggers.is_start(episode, moments));
    // Exceptions while nodes are still starting are not worth a look, and neither are those of two
    // numbers that overtake each other once at the beginning.
    let grown = as_f64(later.len() as u64) / as_f64((later.len() + at_start.len()).max(1) as u64);
    let score = Score {
        rarity: rarity(rate) * sure(episodes.len()) * grown,
        surprise: surprise(finalist.by_chance, finalist.tally.rows_failing) * grown,
        focus: focus(&episodes, finalist, states, grown),
        trigger: triggers.lift(&later),
        reading: f64::from(finalist.reading(states)) / 2.0,
        choice: as_f64(finalist.choice.max(1)).log2() / 2.0,
    };
    let text = print_expr(&property.body);
    let reading = finalist.reading(states);
    Ranked { of: finalist, property, text, episodes, rate, score, snapshots, reading }
}

/// Properties that fail in the same snapshots, the simplest of each first; by their signature.
fn groups(ranked: Vec<Ranked<'_>>) -> Vec<Vec<Ranked<'_>>> {
    let mut groups: BTreeMap<u64, Vec<Ranked<'_>>> = BTreeMap::new();
    for found in ranked {
        groups.entry(hash_of(&found.of.failing.snapshots)).or_default().push(found);
    }
    let mut groups: Vec<Vec<Ranked<'_>>> = groups.into_values().collect();
    for group in &mut groups {
        group.sort_by(|a, b| {
            let simple = |x: &Ranked<'_>| (x.of.literals.len(), x.reading, x.text.clone());
            simple(a).cmp(&simple(b))
        });
        group.dedup_by(|a, b| a.text == b.text);
    }
    let best = |group: &[Ranked<'_>]| group[0].score.total();
    groups.sort_by(|a, b| best(b).total_cmp(&best(a)).then_with(|| a[0].text.cmp(&b[0].text)));
    groups
}

/// The best groups; a group that is related to a better one is counted with it.
fn choose(
    groups: Vec<Vec<Ranked<'_>>>,
    options: &Almost,
    states: &States,
    report: &mut AlmostReport,
) {
    let mut chosen: Vec<(Vec<Ranked<'_>>, usize)> = Vec::new();
    for group in groups {
        match chosen.iter().position(|(other, _)| is_related(&other[0], &group[0])) {
            Some(same) => chosen[same].1 += group.len(),
            None if chosen.len() < options.report_max => chosen.push((group, 0)),
            None => {}
        }
    }
    for (group, related) in chosen {
        let mut group = group.into_iter();
        let Some(first) = group.next() else { continue };
        let mut equivalent: Vec<Property> = first.of.others(states);
        for other in group {
            equivalent.extend(other.of.others(states));
            equivalent.push(other.property);
        }
        report.found.push(found(first, equivalent, related, states));
    }
}

/// Whether two properties are related: the second fails in nearly the same snapshots, or it is the
/// first with a further literal that removes few of the exceptions.
fn is_related(better: &Ranked<'_>, other: &Ranked<'_>) -> bool {
    // The same in another scope.
    if better.text == other.text {
        return true;
    }
    let (a, b) = (&better.of.failing.snapshots, &other.of.failing.snapshots);
    let both = Vectors::widest().common(a, b);
    let either = better.snapshots + other.snapshots - both;
    let excused = better.of.domain == other.of.domain
        && better.of.literals.iter().all(|literal| other.of.literals.contains(literal));
    as_f64(both) >= if excused { EXCUSED } else { RELATED } * as_f64(either)
}

fn found(
    ranked: Ranked<'_>,
    equivalent: Vec<Property>,
    related: usize,
    states: &States,
) -> AlmostInvariant {
    let FailureCount { rows_known, rows_failing, .. } = ranked.of.tally;
    let cases = as_f64(rows_known);
    let by_node = ranked.of.failing.by_node.iter().enumerate().filter(|(_, count)| **count > 0);
    let name = |node: usize| {
        let named = states.runs.iter().find_map(|run| run.nodes.get(node));
        named.map_or_else(|| format!("n{node}"), |node| node.name.clone())
    };
    let mut nodes: Vec<(String, u64)> = by_node.map(|(node, count)| (name(node), *count)).collect();
    nodes.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    AlmostInvariant {
        property: ranked.property,
        rate: ranked.rate,
        interval: wilson(ranked.rate * cases, cases),
        evaluations: ranked.of.failing.evaluations,
        exceptions: ranked.of.failing.exceptions,
        support: (rows_known, rows_failing),
        by_chance: ranked.of.by_chance,
        episodes: ranked.episodes,
        nodes,
        equivalent,
        related,
        score: ranked.score,
    }
}

fn always(search: &Search, options: &Almost, states: &States) -> Vec<(Property, u64)> {
    let mut all: Vec<&Finalist> = search.always.iter().collect();
    let worth =
        |held: &Finalist| surprise(held.by_chance, 0) - f64::from(held.reading(states)) / 2.0;
    all.retain(|held| held.tally.rows_known >= options.evaluations_min);
    all.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
    let mut shown: Vec<(Property, u64)> =
        all.iter().map(|held| (held.property(states), held.tally.rows_known)).collect();
    shown.dedup_by(|a, b| a.0.name == b.0.name);
    shown.truncate(options.report_max);
    shown
}

/// The stretches of the marked snapshots. Between two moments at which it failed it is taken to
/// have gone on failing.
fn episodes(snapshots: &[u64], states: &States, moments: &Moments) -> Vec<Episode> {
    let offsets = offsets(
        states
            .runs
            .iter()
            .map(|run| u32::try_from(run.steps.len()).expect("event ids are 32 bits")),
    );
    let event = |run: usize, place: usize| moments.runs[run].get(place).copied().map(EventId);
    let mut found: Vec<(Episode, usize)> = Vec::new();
    let mut run = 0;
    for mut stretch in bitmap::stretches(snapshots) {
        while !stretch.is_empty() {
            while stretch.start >= offsets[run + 1] {
                run += 1;
            }
            let end = stretch.end.min(offsets[run + 1]);
            let from = u32::try_from(stretch.start - offsets[run]).expect("event ids are 32 bits");
            // Each snapshot of the stretch is at a moment.
            let place = moments.runs[run].partition_point(|moment| *moment < from);
            let after = place + (end - stretch.start);
            match found.last_mut() {
                Some((last, end)) if last.run == run && *end == place => *end = after,
                _ => found.push((Episode { run, from: EventId(from), to: None }, after)),
            }
            stretch.start = end;
        }
    }
    let ended =
        |(episode, end): (Episode, usize)| Episode { to: event(episode.run, end), ..episode };
    found.into_iter().map(ended).collect()
}

/// A factor below 1 for small numbers of cases, `1 - 1 / (1 + cases)`: a single exception is always
/// rare and concentrated.
fn sure(cases: usize) -> f64 {
    1.0 - 1.0 / as_f64(1 + cases as u64)
}

/// How much the exceptions lie together, in bits: in few of the runs, and there in few stretches
/// rather than again and again; at fewer nodes than runs.
fn focus(episodes: &[Episode], finalist: &Finalist, states: &States, grown: f64) -> f64 {
    let share = |of: usize, part: usize, most: f64| {
        (as_f64(of.max(1) as u64) / as_f64(part.max(1) as u64)).log2().clamp(0.0, most)
    };
    let mut hit: Vec<usize> = episodes.iter().map(|episode| episode.run).collect();
    hit.dedup();
    let nodes = states.runs.iter().map(|run| run.nodes.len()).max().unwrap_or(1);
    let at = finalist.failing.by_node.iter().filter(|count| **count > 0).count();
    let together = share(states.runs.len(), hit.len(), 5.0) + share(hit.len().min(nodes), at, 2.0);
    sure(hit.len()) * together * grown - share(episodes.len(), hit.len(), 3.0)
}

/// How often each kind of event comes right before a snapshot.
struct Triggers {
    /// The kind of each event of each run.
    events: Vec<Vec<u32>>,
    /// How often each kind happens.
    times: Vec<u64>,
    all: u64,
    /// The kind of the event with which a node starts.
    start: Option<u32>,
}

impl Triggers {
    fn of(executions: &[&Execution], moments: &Moments) -> Triggers {
        let mut kinds: BTreeMap<String, u32> = BTreeMap::new();
        let mut times = Vec::new();
        let mut events = Vec::new();
        for (execution, moments) in executions.iter().zip(&moments.runs) {
            let mut here = Vec::with_capacity(execution.events().len());
            for event in execution.events() {
                let next = u32::try_from(kinds.len()).expect("kinds of event are few");
                let kind = *kinds.entry(label(execution, event.kind.clone())).or_insert(next);
                if kind == next && times.len() == kind as usize {
                    times.push(0);
                }
                here.push(kind);
            }
            moments.iter().for_each(|at| times[here[*at as usize] as usize] += 1);
            events.push(here);
        }
        let all = times.iter().sum();
        Triggers { events, times, all, start: kinds.get(EventKind::Start.word()).copied() }
    }

    /// Whether the property failed from the start: of the run, or of a node; or early in the run.
    fn is_start(&self, episode: &Episode, moments: &Moments) -> bool {
        moments.runs[episode.run].first() == Some(&episode.from.0)
            || self.start == Some(self.events[episode.run][episode.from.index()])
            || episode.from.index() * EARLY < self.events[episode.run].len()
    }

    /// How much more often than elsewhere the commonest event stands at the start of an episode,
    /// in bits, as far as the number of episodes can tell.
    fn lift(&self, episodes: &[Episode]) -> f64 {
        let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
        for episode in episodes {
            *counts.entry(self.events[episode.run][episode.from.index()]).or_default() += 1;
        }
        let all = as_f64(episodes.len() as u64);
        let lift = |(kind, count): (&u32, &u64)| {
            // Below the lower end of the interval the share could be chance.
            let share = wilson(as_f64(*count), all).0;
            let usual = as_f64(self.times[*kind as usize]) / as_f64(self.all);
            (share / usual).log2() * share
        };
        counts.iter().map(lift).fold(0.0, f64::max).min(4.0)
    }
}

/// An event in words: what it was, and the message or name.
pub(crate) fn label(execution: &Execution, kind: EventKind) -> String {
    let named = match &kind {
        EventKind::Deliver { message } => execution
            .message(*message)
            .and_then(|message| execution.send_of(message))
            .map(|send| send.label.as_str()),
        _ => kind.name(),
    };
    match named {
        Some(name) if !name.is_empty() => format!("{} {name}", kind.word()),
        _ => kind.word().to_owned(),
    }
}

impl Finalist {
    /// How much there is to read.
    fn reading(&self, states: &States) -> u32 {
        let literals: u32 = self.literals.iter().map(|(literal, _)| literal.cost()).sum();
        let sizes: u32 = self.literals.iter().map(|(literal, _)| self.sizes(literal, states)).sum();
        let literals = literals + sizes;
        let depth = |range: &Range| {
            let kind = &states.variables.kinds[self.domain.kinds[range.node]];
            kind.way_to(range.table).len()
        };
        let elements: usize = self.domain.ranges.iter().map(depth).sum();
        literals + 2 * u32::try_from(self.domain.kinds.len() + elements).unwrap_or(0)
    }

    /// The surcharge for sizes of containers: they are equal by chance and seldom meant.
    fn sizes(&self, literal: &Literal, states: &States) -> u32 {
        let size = |operand: &&Operand| match operand {
            Operand::State { node, variable } => {
                let kind = &states.variables.kinds[self.domain.kinds[*node]];
                kind.tables[0].variables[*variable].path.last() == Some(&Access::Size)
            }
            _ => false,
        };
        3 * u32::try_from(literal.operands.iter().filter(size).count()).unwrap_or(0)
    }

    /// The property in the language; its name is what it claims of one binding.
    pub(crate) fn property(&self, states: &States) -> Property {
        self.property_of(&self.literals, states)
    }

    /// Those that fail in the same rows.
    fn others(&self, states: &States) -> Vec<Property> {
        self.same.iter().map(|literals| self.property_of(literals, states)).collect()
    }

    fn property_of(&self, literals: &[(Literal, bool)], states: &States) -> Property {
        let claim = self.claim(literals, states);
        let name = print_expr(&claim);
        tree::always(name, self.scope, self.domain.forall(claim, &states.variables))
    }

    /// `p implies q` where a literal is negated, `p or q` where none is.
    fn claim(&self, literals: &[(Literal, bool)], states: &States) -> Expr {
        let expr =
            |(literal, negated): &(Literal, bool)| literal.expr(*negated, &self.domain, states);
        let (mut given, mut then): (Vec<_>, Vec<_>) =
            literals.iter().cloned().partition(|(_, negated)| *negated);
        if then.is_empty() && given.len() > 1 {
            then.extend(given.pop());
        }
        let or = |a: Expr, b: Expr| binary(BinaryOp::Or, a, b);
        let and = |a: Expr, b: Expr| binary(BinaryOp::And, a, b);
        if then.is_empty() {
            return given.iter().map(expr).reduce(or).expect("a property has a literal");
        }
        let goal = then.iter().map(expr).reduce(or).expect("not empty");
        let turned = given.into_iter().map(|(literal, negated)| (literal, !negated));
        match turned.map(|literal| expr(&literal)).reduce(and) {
            Some(given) => binary(BinaryOp::Implies, given, goal),
            None => goal,
        }
    }
}

//! From coded runs to a report: class by class, then all of them ranked together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use everhold_property::{Library, Scope};
use everhold_trace::Execution;

use super::count::{Class, FailureCount, Scanned};
use super::decide::Decider;
use super::domain::Domain;
use super::evaluate::{Coded, Plan};
use super::failing::Failing;
use super::generate::{Candidate, Former, LITERALS_IN_MAX, Signed, literals};
use super::global::GlobalStates;
use super::items::Items;
use super::literal::Literal;
use super::moments::Moments;
use super::rank;
use super::rows::{BINDING, Source};
use super::shares::Shares;
use super::timeline::{NODES_MAX, Timelines};
use super::{Almost, AlmostReport};
use crate::evaluate::Vectors;
use crate::outcome::Omission;
use crate::parallel;
use crate::states::States;

/// Candidates of one class, with different exceptions, that are looked at one by one.
const FINALISTS_MAX: usize = 200;
/// Candidates of one class that get a further literal.
const LONGER_MAX: usize = 2000;
/// Always-true properties that are kept of one class.
const ALWAYS_MAX: usize = 20;

/// A candidate with all that is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Finalist {
    pub(crate) scope: Scope,
    pub(crate) domain: Domain,
    /// The literals, and which are negated.
    pub(crate) literals: Vec<(Literal, bool)>,
    /// Others of the class that fail in the same rows, likewise.
    pub(crate) same: Vec<Vec<(Literal, bool)>>,
    pub(crate) tally: FailureCount,
    /// How many candidates there were in its class.
    pub(crate) choice: u64,
    /// Distinct rows that would fail by chance.
    pub(crate) by_chance: f64,
    /// Where it fails, among all snapshots; empty if it always holds.
    pub(crate) failing: Failing,
}

/// Everything found in all classes.
#[derive(Debug, Default)]
pub(crate) struct Search {
    pub(crate) almost: Vec<Finalist>,
    pub(crate) always: Vec<Finalist>,
    /// Where was looked, scope by scope.
    pub(crate) moments: Vec<Moments>,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    generated: u64,
    properties: u64,
    almost: u64,
    held: u64,
}

/// The report; `None` if `stop` ended the search.
pub(crate) fn search(
    options: &Almost,
    states: &States,
    executions: &[&Execution],
    library: &Library,
    stop: &(dyn Fn() -> bool + Sync),
) -> Option<AlmostReport> {
    let search = classes(options, states, executions, library, stop)?;
    let mut report = rank::report(options, states, executions, &search);
    let Counts { generated, properties, almost, held } = search.counts;
    (report.generated, report.properties) = (generated, properties);
    (report.almost, report.held) = (almost, held);
    report.snapshots = states.runs.iter().map(|run| run.steps.len() as u64).sum();
    let quiet = search.moments.iter().find(|moments| moments.scope == Scope::AllQuiet);
    report.quiet = quiet.map(Moments::len);
    let left_out = states.variables.left_out.iter().cloned().map(Omission::Variable);
    report.left_out.extend(left_out);
    Some(report)
}

/// The findings of all classes; `None` if `stop` ended the search.
pub(crate) fn classes(
    options: &Almost,
    states: &States,
    executions: &[&Execution],
    library: &Library,
    stop: &(dyn Fn() -> bool + Sync),
) -> Option<Search> {
    let mut search = Search { moments: moments(options, executions), ..Search::default() };
    let coded = Coded::of(states, GlobalStates::of(states, executions, &options.predicates));
    let nodes_max = options.nodes_max.min(NODES_MAX);
    let mut domains = Domain::all(states, nodes_max, !coded.globals().is_empty());
    domains.retain(|domain| domain.is_wanted(states, &options.variables));
    for moments in search.moments.clone() {
        let timelines = Timelines::of(states, coded.globals(), &moments);
        let base = Base { options, states, library, coded: &coded, timelines, moments };
        for domain in &domains {
            if stop() {
                return None;
            }
            base.one_class(domain, &mut search);
        }
    }
    Some(search)
}

/// Where to look. A scope that shows the same snapshots as one before it adds nothing.
fn moments(options: &Almost, executions: &[&Execution]) -> Vec<Moments> {
    let mut found: Vec<Moments> = Vec::new();
    for moments in options.scopes.iter().filter_map(|scope| Moments::of(*scope, executions)) {
        if found.iter().all(|before| before.runs != moments.runs) {
            found.push(moments);
        }
    }
    found
}

/// The data that the search in all classes of one scope shares.
struct Base<'a> {
    options: &'a Almost,
    states: &'a States,
    library: &'a Library,
    coded: &'a Coded,
    timelines: Timelines,
    moments: Moments,
}

impl Base<'_> {
    fn one_class(&self, domain: &Domain, search: &mut Search) {
        let Base { options, states, library, coded, timelines, moments } = self;
        let literals = literals(domain, states, library, options);
        if literals.is_empty() {
            return;
        }
        let items = Items::new(domain, states, coded);
        let shares = Shares::of(timelines, domain, &items);
        let tuples = match domain.link {
            Some(_) => shares.linked(),
            None => timelines.tuples(domain),
        };
        // A variable that always names the node itself leads nowhere.
        if domain.link.is_some() && tuples.iter().all(|nodes| nodes[0] == nodes[1]) {
            return;
        }
        let threads = parallel::threads(options.threads);
        let source = Source { timelines, domain, items: &items, shares: &shares, threads };
        let decider = Decider { states, domain, literals: &literals, library, coded };
        let class = Class {
            plan: Plan::new(decider),
            source,
            moments,
            counter: Vectors::widest(),
            batches: batches(tuples, timelines, options.memory_max),
            memory_max: options.memory_max,
            kept: OnceLock::new(),
        };
        class.search(options, &literals, search);
    }
}

/// Tuples of nodes, as many together as fit into memory.
fn batches(tuples: Vec<Vec<u32>>, of: &Timelines, memory_max: usize) -> Vec<Vec<Vec<u32>>> {
    let mut batches: Vec<Vec<Vec<u32>>> = Vec::new();
    let mut used = 0usize;
    for tuple in tuples {
        let bytes = of.bindings_max(&tuple).saturating_mul(BINDING);
        if batches.is_empty() || used.saturating_add(bytes) > memory_max {
            batches.push(Vec::new());
            used = 0;
        }
        used = used.saturating_add(bytes);
        batches.last_mut().expect("just pushed").push(tuple);
    }
    batches
}

impl Class<'_> {
    fn search(&self, options: &Almost, literals: &[Literal], search: &mut Search) {
        let (scanned, whole) = self.scan();
        if whole == 0 {
            return;
        }
        let used = useful(literals, &scanned);
        let former = Former { domain: self.source.domain, literals, used: &used };
        let all: Vec<usize> = (0..literals.len()).collect();
        let every = Former { used: &all, ..former };
        let singles = every.singles();
        let single = |candidate: &Candidate| {
            let signed = candidate.literals[0];
            scanned[usize::from(signed / 2)].tallies[usize::from(signed % 2)]
        };
        let mut judged: Vec<(Candidate, FailureCount)> = Vec::new();
        for candidate in singles {
            let tally = single(&candidate);
            search.counts.generated += 1;
            search.counts.properties += 1;
            if tally.rows_known > 0 && tally.rate() >= options.rate_min {
                judged.push((candidate, tally));
            }
        }
        let former = Former { domain: self.source.domain, literals, used: &used };
        let left = options.properties_max.saturating_sub(2 * literals.len());
        if options.literals_max >= 2 {
            search.counts.generated += every.count_pairs(left) as u64;
            self.disjunctions(options, &former, left, whole, &mut judged, search);
        }
        // All that could have been formed, whether the bound on properties left it or not.
        let choice = 2 * (used.len() * used.len()) as u64;
        let first = search.almost.len();
        let finalists = self.finalists(literals, &scanned, judged, options, search);
        search.almost.extend(finalists);
        search.almost[first..].iter_mut().for_each(|found| found.choice = choice);
    }

    fn disjunctions(
        &self,
        options: &Almost,
        former: &Former<'_>,
        left: usize,
        whole: u64,
        judged: &mut Vec<(Candidate, FailureCount)>,
        search: &mut Search,
    ) {
        let mut left = left;
        let mut candidates = former.pairs(left);
        for length in 2..=options.literals_max.min(LITERALS_IN_MAX) {
            search.counts.properties += candidates.len() as u64;
            if length > 2 {
                search.counts.generated += candidates.len() as u64;
            }
            left = left.saturating_sub(candidates.len());
            let tallies = self.count(&candidates, whole, options.rate_min);
            let kept = candidates.into_iter().zip(tallies);
            let mut kept: Vec<(Candidate, FailureCount)> =
                kept.filter_map(|(candidate, tally)| Some((candidate, tally?))).collect();
            judged.extend(kept.iter().cloned());
            if length == options.literals_max || left == 0 {
                return;
            }
            // A further literal makes a property that always holds only weaker. Of the others, those that
            // fail least are extended first.
            kept.retain(|(_, tally)| tally.fails > 0);
            kept.sort_by_key(|(_, tally)| tally.fails);
            kept.truncate(LONGER_MAX);
            let shorter: Vec<Candidate> =
                kept.into_iter().map(|(candidate, _)| candidate).collect();
            candidates = former.longer(&shorter, left);
        }
    }

    fn finalists(
        &self,
        literals: &[Literal],
        scanned: &[Scanned],
        judged: Vec<(Candidate, FailureCount)>,
        options: &Almost,
        search: &mut Search,
    ) -> Vec<Finalist> {
        let decider = self.plan.decider;
        let mut chances: BTreeMap<Signed, Option<f64>> = BTreeMap::new();
        let mut by_chance = |candidate: &Candidate, tally: &FailureCount| match candidate.literals[..]
        {
            [only] => {
                let rate = *chances.entry(only).or_insert_with(|| {
                    let fails = decider.by_chance(usize::from(only / 2))?;
                    Some(if only.is_multiple_of(2) { fails } else { 1.0 - fails })
                });
                // That a value is rare is no surprise.
                let seen = as_f64(tally.rows_failing);
                rate.map_or(seen, |rate| rate * as_f64(tally.rows_known))
            }
            // Orders of one number and several others are tied to each other by that number.
            _ if is_tied(candidate, literals, &decider) => 0.0,
            _ => independent(&candidate.literals, scanned) * as_f64(tally.rows_known),
        };
        let (mut almost, mut always) = (Vec::new(), Vec::new());
        for (candidate, tally) in judged {
            let chance = by_chance(&candidate, &tally);
            let kept = candidate.literals.len() == 1 || is_more_than_or(&tally, chance);
            match (tally.fails == 0, kept) {
                (true, _) => search.counts.held += 1,
                (false, _) => search.counts.almost += 1,
            }
            if kept {
                let list = if tally.fails == 0 { &mut always } else { &mut almost };
                list.push((candidate, tally, chance));
            }
        }
        sort_by_worth(&mut almost, literals);
        sort_by_worth(&mut always, literals);
        let written = |candidate: &Candidate| -> Vec<(Literal, bool)> {
            let literal = |s: &Signed| (literals[usize::from(s / 2)].clone(), s % 2 == 1);
            candidate.literals.iter().map(literal).collect()
        };
        let mut same = BTreeMap::new();
        let (almost, repeats) = first_of_each(almost);
        for (candidate, tally, _) in &repeats {
            same.entry(tally.signature).or_insert_with(Vec::new).push(written(candidate));
        }
        always.truncate(ALWAYS_MAX);
        let candidates: Vec<Candidate> = almost.iter().map(|(c, ..)| c.clone()).collect();
        let failing = self.failing(&candidates).into_iter().map(|failing| Failing {
            snapshots: self.moments.among_all(failing.snapshots),
            ..failing
        });
        let mut finalist = |(candidate, tally, by_chance): Judged, failing| Finalist {
            scope: self.moments.scope,
            domain: decider.domain.clone(),
            literals: written(&candidate),
            same: same.remove(&tally.signature).unwrap_or_default(),
            tally,
            choice: 0,
            by_chance,
            failing,
        };
        search.always.extend(always.into_iter().map(|held| finalist(held, Failing::default())));
        let almost =
            almost.into_iter().zip(failing).map(|(found, failing)| finalist(found, failing));
        almost.filter(|found| found.failing.evaluations >= options.evaluations_min).collect()
    }
}

/// Whether two of the literals are orders of numbers that share a number.
fn is_tied(candidate: &Candidate, literals: &[Literal], decider: &Decider<'_>) -> bool {
    let of = |s: &Signed| &literals[usize::from(s / 2)];
    let is_order = |s: &&Signed| of(s).is_order(decider.domain, decider.states);
    let orders: Vec<&Literal> = candidate.literals.iter().filter(is_order).map(of).collect();
    orders.iter().enumerate().any(|(place, a)| {
        let shares = |b: &&Literal| a.operands.iter().any(|operand| b.operands.contains(operand));
        orders[place + 1..].iter().any(shares)
    })
}

/// A candidate, how often it fails, and how often it would by chance.
type Judged = (Candidate, FailureCount, f64);

/// Sorts by how much a candidate is worth a look at first sight; long ones cost something.
fn sort_by_worth(list: &mut [Judged], literals: &[Literal]) {
    let cost = |candidate: &Candidate| -> u32 {
        candidate.literals.iter().map(|s| literals[usize::from(s / 2)].cost()).sum()
    };
    list.sort_by(|a, b| {
        let worth = |x: &Judged| rank::first_look(&x.1, x.2) - f64::from(cost(&x.0)) / 2.0;
        worth(b).total_cmp(&worth(a)).then_with(|| a.0.cmp(&b.0))
    });
}

/// The first of those that fail in the same rows, as many as are looked at, and the others of
/// their kind.
fn first_of_each(judged: Vec<Judged>) -> (Vec<Judged>, Vec<Judged>) {
    let (mut first, mut others) = (Vec::new(), Vec::new());
    let mut met = BTreeSet::new();
    for judged in judged {
        if met.contains(&judged.1.signature) {
            others.push(judged);
        } else if first.len() < FINALISTS_MAX {
            met.insert(judged.1.signature);
            first.push(judged);
        }
    }
    (first, others)
}

/// The literals that are neither constant nor the same as an earlier one, by place.
fn useful(literals: &[Literal], scanned: &[Scanned]) -> Vec<usize> {
    let mut seen = BTreeSet::new();
    let is_new = |place: &usize| {
        let of = &scanned[*place];
        let varies = of.tallies.iter().all(|tally| tally.fails > 0);
        let [plain, negated] = of.tallies.map(|tally| tally.signature);
        // A literal that is the negation of another adds nothing either.
        varies && seen.insert((plain.min(negated), plain.max(negated)))
    };
    (0..literals.len()).filter(is_new).collect()
}

/// The share of rows in which all literals would fail if they were independent.
fn independent(literals: &[Signed], scanned: &[Scanned]) -> f64 {
    let share = |signed: &Signed| {
        let tally = &scanned[usize::from(signed / 2)].tallies[usize::from(signed % 2)];
        as_f64(tally.rows_failing) / as_f64(tally.rows_known.max(1))
    };
    literals.iter().map(share).product()
}

/// The Or-effect: a disjunction of unrelated literals fails about as often as chance would have
/// it, and says nothing beyond its literals. With `chance` distinct rows expected to fail, fewer
/// by three standard deviations of a Poisson count, and at most half as many, is more than that.
fn is_more_than_or(tally: &FailureCount, chance: f64) -> bool {
    let seen = as_f64(tally.rows_failing);
    seen < chance - 3.0 * chance.sqrt() && seen <= chance / 2.0
}

#[expect(clippy::cast_precision_loss, reason = "counts of rows become statistics")]
pub(crate) fn as_f64(count: u64) -> f64 {
    count as f64
}

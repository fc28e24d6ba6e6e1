//! Sums that follow the messages in flight: what left one node and has not reached another.
//!
//! `sum(n in nodes: n.sent - n.received) == in_flight("Transfer")`.

use std::collections::BTreeSet;

use everhold_property::{BinaryOp, Expr, Property, Scope, print_expr};
use everhold_trace::{EventId, Flights};

use super::atoms::{Atom, Atoms, NONE};
use super::comparison::said;
use super::cuts::Cuts;
use super::evidence::Evidence;
use super::lines::Draft;
use super::terms::{Side, Term};
use crate::dictionary::hash_of;
use crate::evaluate::Numbers;
use crate::outcome::CutClaims;
use crate::relation::Class;
use crate::relation::tree::{self, binary, call, constant, sum_over};
use crate::states::States;
use crate::variables::{KindId, Row};

/// With more numbers than this, only sums of one are tried.
const NUMBERS_MAX: usize = 48;
/// With more kinds of messages than this, only all of them together are counted.
const KINDS_MAX: usize = 16;
/// Distinct cases counted for one claim.
const CASES_MAX: usize = 1_000;
/// The first states of the recording select the claims worth trying and are no evidence for them.
/// Most pairs of counters have nothing to do with messages; without this selection all of them would
/// count as tried, and the correction for multiple tests would reject the others.
const CHOICE: u64 = 8;

/// The recorded states, and the terms of the nodes in them.
pub(super) struct Place<'a> {
    pub(super) states: &'a States,
    pub(super) atoms: &'a Atoms,
    pub(super) numbers: &'a Numbers,
    pub(super) sides: &'a [Side],
}

/// A number that the nodes of a kind have.
#[derive(Clone, Copy, Debug)]
struct Counter {
    kind: KindId,
    term: usize,
}

/// The sum of one counter, less that of another, is the number of messages in flight and a
/// constant.
#[derive(Clone, Debug)]
struct Claim {
    plus: usize,
    minus: Option<usize>,
    /// Which kind of message; `None` for all.
    message: Option<usize>,
    /// The constant, once it was seen.
    offset: Option<i64>,
    /// Distinct addends and numbers of messages, hashed.
    cases: BTreeSet<u64>,
    /// Distinct sums and numbers of messages.
    values: [BTreeSet<i64>; 3],
    samples: u64,
}

/// A sum, and which addends it has.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    total: i64,
    addends: u64,
}

impl Place<'_> {
    /// The claims that held in all recorded states and on other cuts, and how many were tried.
    pub(super) fn claims(&self, cuts: &mut Cuts<'_>) -> (Vec<Draft>, u64) {
        let runs = cuts.executions.iter().zip(cuts.orders);
        let flights: Vec<Flights> =
            runs.map(|(execution, order)| Flights::of(execution, order)).collect();
        let messages = kinds(&flights);
        let counters = self.counters();
        if messages.is_empty() || counters.is_empty() {
            return (Vec::new(), 0);
        }
        let mut trial =
            Trial { claims: candidates(counters.len(), messages.len()), ..Trial::default() };
        for (run, flights) in flights.iter().enumerate() {
            self.replay(run, flights, (&counters, &messages), &mut trial);
        }
        let Trial { mut claims, states, tried } = trial;
        claims.retain(|claim| states > CHOICE && claim.says_something());
        // If a claim holds for one kind of message and for all messages, the other kinds never vary.
        let specific: BTreeSet<(usize, Option<usize>)> = claims
            .iter()
            .filter(|claim| claim.message.is_some())
            .map(|claim| (claim.plus, claim.minus))
            .collect();
        claims.retain(|claim| {
            claim.message.is_some() || !specific.contains(&(claim.plus, claim.minus))
        });
        let mut drafts: Vec<Draft> =
            claims.iter().map(|claim| self.draft(claim, &counters, &messages)).collect();
        drafts.retain(|draft| !cuts.refute(&draft.property, CutClaims::Sums));
        (drafts, tried)
    }

    fn counters(&self) -> Vec<Counter> {
        let of = |(kind, side): (KindId, &Side)| {
            let counts = |term: &Term| term.class == Class::Number && term.distinct > 1;
            let terms: Vec<usize> =
                (0..side.terms.len()).filter(|term| counts(&side.terms[*term])).collect();
            terms.into_iter().map(move |term| Counter { kind, term })
        };
        self.sides.iter().enumerate().flat_map(of).collect()
    }

    /// Goes through the recorded states of a run and drops the claims that are false in one.
    fn replay(
        &self,
        run: usize,
        flights: &Flights,
        (counters, messages): (&[Counter], &[String]),
        trial: &mut Trial,
    ) {
        let nodes = &self.atoms.runs[run];
        let mut now: Vec<Atom> = vec![NONE; nodes.len()];
        let mut flying = vec![0_i64; messages.len()];
        let changes = flights.changes();
        let change_at = |event: EventId| changes.get(&event).map_or(&[][..], Vec::as_slice);
        for step in &self.states.runs[run].steps {
            if trial.claims.is_empty() {
                return;
            }
            let at = step.node.index();
            let before = std::mem::replace(&mut now[at], nodes[at].1[step.count as usize]);
            let sent = change_at(step.event);
            for (kind, change) in sent {
                let place = messages.iter().position(|other| other == kind);
                flying[place.expect("all kinds were collected")] += change;
            }
            let shown = |(node, atom): (&(Option<KindId>, Vec<Atom>), &Atom)| {
                node.0.is_none() || *atom != NONE
            };
            if before == now[at] && sent.is_empty() || !nodes.iter().zip(&now).all(shown) {
                continue;
            }
            let sums: Vec<Option<Sum>> =
                counters.iter().map(|counter| self.sum(*counter, run, &now)).collect();
            trial.judge(&sums, &flying);
        }
    }

    /// The sum of a counter over its nodes; `None` if one of them shows no whole number.
    fn sum(&self, counter: Counter, run: usize, now: &[Atom]) -> Option<Sum> {
        let column = &self.sides[counter.kind].columns[counter.term];
        let own = self.atoms.runs[run].iter().zip(now);
        let mut own = own.filter(|((kind, _), _)| *kind == Some(counter.kind));
        own.try_fold(Sum::default(), |sum, (_, atom)| {
            let code = column.number(*atom);
            Some(Sum {
                total: sum.total.checked_add(self.numbers.int(code)?)?,
                addends: hash_of(&(sum.addends, code)),
            })
        })
    }

    fn draft(&self, claim: &Claim, counters: &[Counter], messages: &[String]) -> Draft {
        let message = claim.message.map(|place| messages[place].as_str());
        let property = self.property(claim, counters, message);
        let [.., numbers] = &claim.values;
        let distinct = claim.cases.len() as u64;
        // If the sum and the messages were unrelated, each case after the first would agree with it
        // with a probability of one in the number of distinct message counts.
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        let ln_chance = -(distinct.saturating_sub(1) as f64) * (numbers.len() as f64).ln();
        let evidence = Evidence { samples: claim.samples, distinct, ln_chance };
        Draft::new(property, evidence, 6.0)
    }

    fn property(&self, claim: &Claim, counters: &[Counter], message: Option<&str>) -> Property {
        let (plus, minus) = (counters[claim.plus], claim.minus.map(|place| counters[place]));
        let total = match minus {
            None => self.total(plus.kind, self.expr(plus)),
            Some(minus) if minus.kind == plus.kind => {
                let less = binary(BinaryOp::Sub, self.expr(plus), self.expr(minus));
                self.total(plus.kind, less)
            }
            Some(minus) => binary(
                BinaryOp::Sub,
                self.total(plus.kind, self.expr(plus)),
                self.total(minus.kind, self.expr(minus)),
            ),
        };
        let kind = message.map(|kind| constant(&kind.into()));
        let flying = call("in_flight", kind.into_iter().collect());
        let offset = claim.offset.unwrap_or(0);
        let flying = match offset {
            0 => flying,
            _ if offset < 0 => {
                binary(BinaryOp::Sub, flying, constant(&offset.saturating_neg().into()))
            }
            _ => binary(BinaryOp::Add, flying, constant(&offset.into())),
        };
        let body = binary(BinaryOp::Eq, total, flying);
        tree::always(self.name(plus, minus, message, offset), Scope::EveryCut, body)
    }

    fn term(&self, counter: Counter) -> &Term {
        &self.sides[counter.kind].terms[counter.term]
    }

    fn expr(&self, counter: Counter) -> Expr {
        self.term(counter).expr(&Row::Value("n".into()))
    }

    fn total(&self, kind: KindId, body: Expr) -> Expr {
        let kinds = &self.states.variables.kinds;
        sum_over((kinds.len() > 1).then(|| kinds[kind].name.as_str()), body)
    }

    fn name(
        &self,
        plus: Counter,
        minus: Option<Counter>,
        message: Option<&str>,
        offset: i64,
    ) -> String {
        let say = |counter: Counter| {
            let said = said(&print_expr(&self.expr(counter)));
            said.strip_prefix("n's ").map_or(said.clone(), str::to_owned)
        };
        let less = minus.map(|minus| format!(" less {}", say(minus))).unwrap_or_default();
        let kind = message.map(|kind| format!("{kind} ")).unwrap_or_default();
        let more = match offset {
            0 => String::new(),
            _ if offset < 0 => format!(" less {}", offset.unsigned_abs()),
            _ => format!(" and {offset}"),
        };
        format!("{}{less} adds up to the {kind}messages in flight{more}", say(plus))
    }
}

/// The claims that are not refuted, and how many states have judged them.
#[derive(Debug, Default)]
struct Trial {
    claims: Vec<Claim>,
    states: u64,
    tried: u64,
}

impl Trial {
    fn judge(&mut self, sums: &[Option<Sum>], flying: &[i64]) {
        self.claims.retain_mut(|claim| claim.judge(sums, flying).unwrap_or(false));
        self.states += 1;
        if self.states == CHOICE {
            self.tried = self.claims.len() as u64;
            self.claims.iter_mut().for_each(Claim::forget_cases);
        }
    }
}

impl Claim {
    fn forget_cases(&mut self) {
        self.samples = 0;
        self.cases.clear();
        self.values = Default::default();
    }

    /// Whether the claim may hold in this state; `None` if a number is missing.
    fn judge(&mut self, sums: &[Option<Sum>], flying: &[i64]) -> Option<bool> {
        let plus = sums[self.plus]?;
        let minus = self.minus.map_or(Some(Sum::default()), |place| sums[place])?;
        let flying = self.message.map_or_else(|| flying.iter().sum(), |kind| flying[kind]);
        let offset = plus.total.checked_sub(minus.total)?.checked_sub(flying)?;
        if *self.offset.get_or_insert(offset) != offset {
            return Some(false);
        }
        self.samples += 1;
        if self.cases.len() < CASES_MAX
            && self.cases.insert(hash_of(&(plus.addends, minus.addends, flying)))
        {
            for (seen, value) in self.values.iter_mut().zip([plus.total, minus.total, flying]) {
                seen.insert(value);
            }
        }
        Some(true)
    }

    /// Whether the messages came and went, and both counters with them.
    fn says_something(&self) -> bool {
        let [plus, minus, flying] = self.values.each_ref().map(|values| values.len() > 1);
        flying && plus && (minus || self.minus.is_none())
    }
}

/// The kinds of messages over all runs, sorted.
fn kinds(flights: &[Flights]) -> Vec<String> {
    let kinds: BTreeSet<&str> = flights.iter().flat_map(Flights::kinds).collect();
    kinds.into_iter().map(str::to_owned).collect()
}

fn candidates(counters: usize, kinds: usize) -> Vec<Claim> {
    // With one kind of message, that kind and all messages are the same.
    let single = (2..=KINDS_MAX).contains(&kinds);
    let messages: Vec<Option<usize>> =
        single.then(|| (0..kinds).map(Some)).into_iter().flatten().chain([None]).collect();
    let others = if counters > NUMBERS_MAX { 0 } else { counters };
    let mut claims = Vec::new();
    for message in messages {
        for plus in 0..counters {
            let minus = (0..others).filter(|minus| *minus != plus).map(Some).chain([None]);
            claims.extend(minus.map(|minus| Claim {
                plus,
                minus,
                message,
                offset: None,
                cases: BTreeSet::new(),
                values: Default::default(),
                samples: 0,
            }));
        }
    }
    claims
}

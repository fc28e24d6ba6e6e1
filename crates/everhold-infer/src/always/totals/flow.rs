//! The rows of the matrix: what each event changes.

use std::collections::{BTreeMap, BTreeSet};

use everhold_trace::{EventId, EventKind, Execution, Value};

use super::Totals;
use crate::always::atoms::NONE;
use crate::dictionary::hash_of;
use crate::relation::Class;
use crate::variables::KindId;

/// With more numbers than this, the rest is left out.
const FEATURES_MAX: usize = 48;

/// A number that events change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Feature {
    /// A number of the nodes of a kind, summed over them.
    Term { kind: KindId, term: usize },
    /// How many messages of a kind are in flight.
    Count { label: String },
    /// A field of the payloads of those messages, summed; without a field, the payload itself.
    Amount { label: String, field: Option<String> },
}

/// The change that each event makes, by feature.
#[derive(Debug, Default)]
pub(super) struct Flow {
    pub(super) features: Vec<Feature>,
    /// The features that an event changes, with the change.
    pub(super) rows: Vec<Vec<(usize, i64)>>,
    /// The features at the start of each run.
    pub(super) starts: Vec<Vec<i64>>,
    /// The least value of each feature at a node, or of a message.
    pub(super) least: Vec<i64>,
    /// The features at the recorded moments at which no message is in flight, of all runs.
    pub(super) quiet: Vec<Vec<i64>>,
}

/// The numbers of a payload, by field.
fn amounts(payload: Option<&Value>) -> BTreeMap<Option<String>, i64> {
    let int = |value: &Value| match value {
        Value::Int(number) => Some(*number),
        _ => None,
    };
    match payload {
        Some(Value::Record(fields)) => fields
            .iter()
            .filter_map(|(field, value)| Some((Some(field.clone()), int(value)?)))
            .collect(),
        Some(other) => int(other).map(|number| (None, number)).into_iter().collect(),
        None => BTreeMap::new(),
    }
}

/// The kinds of messages with the fields that all of them have; none of a kind that was broadcast,
/// lost or duplicated, because it is not clear what of it is in flight.
fn labels(executions: &[&Execution]) -> BTreeMap<String, BTreeSet<Option<String>>> {
    let mut found: BTreeMap<String, BTreeSet<Option<String>>> = BTreeMap::new();
    let mut unclear = BTreeSet::new();
    for execution in executions {
        for message in execution.messages() {
            let Some(send) = execution.send_of(message) else { return BTreeMap::new() };
            if send.to.is_none() || message.lost || message.delivered.len() > 1 {
                unclear.insert(send.label.clone());
            }
            let own: BTreeSet<_> = amounts(send.payload.as_ref()).into_keys().collect();
            match found.get_mut(&send.label) {
                Some(fields) => fields.retain(|field| own.contains(field)),
                None => {
                    found.insert(send.label.clone(), own);
                }
            }
        }
    }
    found.retain(|label, _| !unclear.contains(label));
    found
}

impl Flow {
    /// The changes of all events; `None` if there are no messages, or a node goes down.
    pub(super) fn of(totals: &Totals<'_>) -> Option<Flow> {
        let mut flow = Flow { features: features(totals), ..Flow::default() };
        if !flow.features.iter().any(|feature| !matches!(feature, Feature::Term { .. })) {
            return None;
        }
        flow.leave_out_counts(totals.executions);
        flow.least = vec![i64::MAX; flow.features.len()];
        for run in 0..totals.executions.len() {
            flow.replay(run, totals)?;
        }
        Some(flow)
    }

    /// Leaves out the number of messages of a kind of which some payload is always 1: their sum is the
    /// same, and says what is counted.
    fn leave_out_counts(&mut self, executions: &[&Execution]) {
        let mut ones: BTreeMap<(String, Option<String>), bool> = BTreeMap::new();
        for execution in executions {
            let sends =
                execution.messages().iter().filter_map(|message| execution.send_of(message));
            for send in sends {
                for (field, amount) in amounts(send.payload.as_ref()) {
                    let one = ones.entry((send.label.clone(), field)).or_insert(true);
                    *one &= amount == 1;
                }
            }
        }
        let is_one = |label: &String, field: &Option<String>| {
            ones.get(&(label.clone(), field.clone())) == Some(&true)
        };
        let of_ones: BTreeSet<String> = self
            .features
            .iter()
            .filter_map(|feature| match feature {
                Feature::Amount { label, field } if is_one(label, field) => Some(label.clone()),
                _ => None,
            })
            .collect();
        self.features.retain(
            |feature| !matches!(feature, Feature::Count { label } if of_ones.contains(label)),
        );
    }

    /// Goes through the events of a run; `None` if some number is missing.
    fn replay(&mut self, run: usize, totals: &Totals<'_>) -> Option<()> {
        let execution = totals.executions[run];
        let nodes = &totals.atoms.runs[run];
        let mut start = vec![0; self.features.len()];
        let mut now = vec![0_i64; self.features.len()];
        let mut shown = vec![false; nodes.len()];
        let unseen = |(kind, _): &&(Option<KindId>, Vec<u32>)| kind.is_some();
        let (mut missing, mut flying) = (nodes.iter().filter(unseen).count(), 0_i64);
        for step in &totals.states.runs[run].steps {
            let at = step.node.index();
            let (kind, atoms) = &nodes[at];
            let (before, after) = (atoms[step.count as usize - 1], atoms[step.count as usize]);
            let mut row = self.messages(execution, step.event, &mut flying);
            for (place, feature) in self.features.iter().enumerate() {
                let Feature::Term { kind: of, term } = feature else { continue };
                if Some(*of) != *kind || before == after {
                    continue;
                }
                // A node that goes down takes its numbers with it.
                if after == NONE {
                    return None;
                }
                let int = |atom: u32| {
                    let number = totals.sides[*of].columns[*term].number(atom);
                    totals.numbers.int(number)
                };
                let value = int(after)?;
                self.least[place] = self.least[place].min(value);
                if before == NONE {
                    start[place] = value.checked_add(start[place])?;
                } else {
                    row.push((place, value.checked_sub(int(before)?)?));
                }
            }
            if before == NONE && after != NONE && !std::mem::replace(&mut shown[at], true) {
                missing -= 1;
            }
            row.retain(|(_, change)| *change != 0);
            for (place, change) in &row {
                now[*place] = now[*place].checked_add(*change)?;
            }
            if flying == 0 && missing == 0 {
                let sums = now.iter().zip(&start).map(|(now, start)| now.checked_add(*start));
                self.quiet.push(sums.collect::<Option<Vec<i64>>>()?);
            }
            if !row.is_empty() {
                self.rows.push(row);
            }
        }
        self.starts.push(start);
        Some(())
    }

    /// The payloads that an event adds to the messages in flight, and takes from them.
    fn messages(
        &mut self,
        execution: &Execution,
        event: EventId,
        flying: &mut i64,
    ) -> Vec<(usize, i64)> {
        let (id, event) = (event, execution.event(event));
        let mut changes: BTreeMap<usize, i64> = BTreeMap::new();
        let mut add = |label: &str, payload: Option<&Value>, times: i64| {
            let amounts = amounts(payload);
            for (place, feature) in self.features.iter().enumerate() {
                let amount = match feature {
                    Feature::Count { label: own } if own == label => 1,
                    Feature::Amount { label: own, field } if own == label => {
                        let amount = amounts.get(field).copied().unwrap_or(0);
                        self.least[place] = self.least[place].min(amount);
                        amount
                    }
                    _ => continue,
                };
                let own = changes.entry(place).or_default();
                *own = own.saturating_add(amount.saturating_mul(times));
            }
        };
        for send in &event.sends {
            // Nobody knows how many copies of a broadcast are under way.
            *flying += if send.to.is_some() { 1 } else { i64::from(u32::MAX) };
            add(&send.label, send.payload.as_ref(), 1);
        }
        if let EventKind::Deliver { message } = &event.kind
            && let Some(message) = execution.message(*message)
            && message.delivered.first() == Some(&id)
            && let Some(send) = execution.send_of(message)
        {
            *flying -= i64::from(send.to.is_some());
            add(&send.label, send.payload.as_ref(), -1);
        }
        changes.into_iter().collect()
    }

    /// The value of a total, if it is the same in all runs.
    pub(super) fn value(&self, total: &[(usize, i64)]) -> Option<i64> {
        let value = |start: &Vec<i64>| {
            total.iter().try_fold(0_i64, |sum, (feature, times)| {
                sum.checked_add(times.checked_mul(start[*feature])?)
            })
        };
        let first = value(self.starts.first()?)?;
        self.starts.iter().all(|start| value(start) == Some(first)).then_some(first)
    }

    /// How many events change one of the numbers of a total.
    pub(super) fn cases(&self, total: &[(usize, i64)]) -> u64 {
        let touches = |row: &&Vec<(usize, i64)>| {
            row.iter().any(|(place, _)| total.iter().any(|(feature, _)| feature == place))
        };
        self.rows.iter().filter(touches).count() as u64
    }

    /// How many different combinations of the numbers there are at quiet moments.
    pub(super) fn quiet_cases(&self, total: &[(usize, i64)]) -> usize {
        let values = |all: &Vec<i64>| -> u64 {
            hash_of(&total.iter().map(|(feature, _)| all[*feature]).collect::<Vec<i64>>())
        };
        let mut cases = self.quiet.iter().map(values).collect::<Vec<u64>>();
        // The sum of the nodes of one kind is always the same: then the moments count.
        if total.len() == 1 {
            return cases.len();
        }
        cases.sort_unstable();
        cases.dedup();
        cases.len()
    }

    /// The part of a total that is about nodes.
    pub(super) fn of_nodes(&self, total: &[(usize, i64)]) -> Vec<(usize, i64)> {
        let is_node = |part: &&(usize, i64)| matches!(self.features[part.0], Feature::Term { .. });
        total.iter().filter(is_node).copied().collect()
    }

    /// Whether the payload of a message is a part of a total.
    pub(super) fn speaks_of_payloads(&self, total: &[(usize, i64)]) -> bool {
        total.iter().any(|(feature, _)| matches!(self.features[*feature], Feature::Amount { .. }))
    }

    /// Whether numbers of several kinds of nodes add up in a total, with several kinds of messages.
    pub(super) fn has_several_kinds(&self, total: &[(usize, i64)]) -> bool {
        self.kinds(total).len() > 1 && total.len() > self.of_nodes(total).len() + 1
    }

    fn kinds(&self, total: &[(usize, i64)]) -> BTreeSet<KindId> {
        let kind = |(feature, _): &(usize, i64)| match &self.features[*feature] {
            Feature::Term { kind, .. } => Some(*kind),
            _ => None,
        };
        total.iter().filter_map(kind).collect()
    }

    /// For a total of several kinds of nodes of which nothing is ever negative, the part of each
    /// kind: it is at most the total.
    pub(super) fn parts_below(&self, total: &[(usize, i64)]) -> Vec<(KindId, Vec<(usize, i64)>)> {
        let count = |feature: usize| matches!(self.features[feature], Feature::Count { .. });
        let positive = |(feature, times): &(usize, i64)| {
            *times == 1 && (count(*feature) || self.least[*feature] >= 0)
        };
        if self.kinds(total).len() < 2 || !total.iter().all(positive) {
            return Vec::new();
        }
        let own = |kind: KindId| {
            let is_own = |(feature, _): &&(usize, i64)| matches!(&self.features[*feature], Feature::Term { kind: of, .. } if *of == kind);
            (kind, total.iter().filter(is_own).copied().collect())
        };
        self.kinds(total).into_iter().map(own).collect()
    }
}

/// The numbers of nodes and messages, those of the nodes first.
fn features(totals: &Totals<'_>) -> Vec<Feature> {
    let mut found = Vec::new();
    for (kind, side) in totals.sides.iter().enumerate() {
        for (term, own) in side.terms.iter().enumerate() {
            if own.class == Class::Number && !own.nullable && !own.is_size() {
                found.push(Feature::Term { kind, term });
            }
        }
    }
    found.truncate(FEATURES_MAX / 2);
    for (label, fields) in labels(totals.executions) {
        found.push(Feature::Count { label: label.clone() });
        found.extend(
            fields.into_iter().map(|field| Feature::Amount { label: label.clone(), field }),
        );
    }
    found.truncate(FEATURES_MAX);
    found
}

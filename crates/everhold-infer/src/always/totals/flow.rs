//! The rows of the matrix: what each event changes.

use std::collections::{BTreeMap, BTreeSet};

use everhold_trace::{EventId, EventKind, Execution, Value};

use super::Totals;
use crate::always::atoms::NONE;
use crate::always::unjudged::{NotJudged, addend, is_whole, term_name};
use crate::dictionary::hash_of;
use crate::outcome::WhyUnjudged;
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

/// The fields of a payload; without a name, the payload itself. As in the language, a variant with
/// fields is used like a record, and any other payload of a variant is the field with its name.
fn fields(payload: &Value) -> Vec<(Option<&str>, &Value)> {
    let of_record = |record: &'_ Value| matches!(record, Value::Record(_));
    match payload {
        Value::Record(own) => {
            own.iter().map(|(name, value)| (Some(name.as_str()), value)).collect()
        }
        Value::Variant { payload, .. } if of_record(payload) => fields(payload),
        Value::Variant { name, payload } => vec![(Some(name.as_str()), payload)],
        other => vec![(None, other)],
    }
}

/// The whole numbers of a payload, by field.
fn amounts(payload: Option<&Value>) -> BTreeMap<Option<String>, i64> {
    let int = |(field, value): (Option<&str>, &Value)| match value {
        Value::Int(number) => Some((field.map(str::to_owned), *number)),
        _ => None,
    };
    payload.map(fields).into_iter().flatten().filter_map(int).collect()
}

/// The fields of a payload with a fraction.
fn fractions(payload: Option<&Value>) -> impl Iterator<Item = Option<String>> {
    let is = |(_, value): &(Option<&str>, &Value)| matches!(value, Value::Float(_));
    payload.map(fields).into_iter().flatten().filter(is).map(|(field, _)| field.map(str::to_owned))
}

/// The numbers in the payloads of a kind of messages.
#[derive(Debug, Default)]
struct Fields {
    /// Those that all of these messages have.
    common: BTreeSet<Option<String>>,
    /// Those that some have.
    some: BTreeSet<Option<String>>,
    /// Those that are not always whole.
    fractions: BTreeSet<Option<String>>,
    /// Whether a message was broadcast, lost or duplicated, so that it is not clear what is in flight.
    unclear: bool,
}

/// The kinds of messages with their numbers. A message that nobody is known to have sent is of no kind.
fn labels(executions: &[&Execution]) -> BTreeMap<String, Fields> {
    let mut found: BTreeMap<String, Fields> = BTreeMap::new();
    for execution in executions {
        for message in execution.messages() {
            let Some(send) = execution.send_of(message) else { continue };
            let own: BTreeSet<_> = amounts(send.payload.as_ref()).into_keys().collect();
            let first = || Fields { common: own.clone(), ..Fields::default() };
            let fields = found.entry(send.label.clone()).or_insert_with(first);
            fields.common.retain(|field| own.contains(field));
            fields.some.extend(own);
            fields.fractions.extend(fractions(send.payload.as_ref()));
            fields.unclear |= send.to.is_none() || message.lost || message.delivered.len() > 1;
        }
    }
    found
}

/// Why the events cannot be replayed.
enum Stop {
    /// A node goes down.
    NodeDown,
    /// The sum of this feature, by place, does not fit.
    Overflow(usize),
}

impl Flow {
    /// The changes of all events; `None` if there are no messages, or a node goes down.
    pub(super) fn of(totals: &Totals<'_>, unjudged: &mut NotJudged) -> Option<Flow> {
        let mut flow = Flow { features: features(totals, unjudged), ..Flow::default() };
        flow.leave_out_counts(totals.executions);
        loop {
            let is_term = |feature: &Feature| matches!(feature, Feature::Term { .. });
            if flow.features.iter().all(is_term) || !flow.features.iter().any(is_term) {
                return None;
            }
            match flow.replay_all(totals) {
                Ok(()) => return Some(flow),
                Err(Stop::NodeDown) => {
                    if flow.features.iter().any(|f| matches!(f, Feature::Amount { .. })) {
                        let of = "nodes and messages together".to_owned();
                        unjudged.note(of, WhyUnjudged::NodeDown);
                    }
                    return None;
                }
                Err(Stop::Overflow(place)) => {
                    let feature = flow.features.remove(place);
                    unjudged.note(feature.name(totals), WhyUnjudged::Overflow);
                }
            }
        }
    }

    /// Goes through the events of all runs.
    fn replay_all(&mut self, totals: &Totals<'_>) -> Result<(), Stop> {
        let features = std::mem::take(&mut self.features);
        *self = Flow { least: vec![i64::MAX; features.len()], features, ..Flow::default() };
        (0..totals.executions.len()).try_for_each(|run| self.replay(run, totals))
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

    /// Goes through the events of a run.
    fn replay(&mut self, run: usize, totals: &Totals<'_>) -> Result<(), Stop> {
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
            let mut row = self.messages(execution, step.event, &mut flying)?;
            if let Some(kind) = kind.filter(|_| before != after) {
                // A node that goes down takes its numbers with it.
                if after == NONE {
                    return Err(Stop::NodeDown);
                }
                row.extend(self.changes(kind, (before, after), &mut start, totals)?);
            }
            if before == NONE && after != NONE && !std::mem::replace(&mut shown[at], true) {
                missing -= 1;
            }
            row.retain(|(_, change)| *change != 0);
            for (place, change) in &row {
                add(&mut now, *place, *change)?;
            }
            if flying == 0 && missing == 0 {
                let mut sums = now.clone();
                for (place, start) in start.iter().enumerate() {
                    add(&mut sums, place, *start)?;
                }
                self.quiet.push(sums);
            }
            if !row.is_empty() {
                self.rows.push(row);
            }
        }
        self.starts.push(start);
        Ok(())
    }

    /// What a step of a node changes of its own numbers. Its first state is where it starts.
    fn changes(
        &mut self,
        kind: KindId,
        (before, after): (u32, u32),
        start: &mut [i64],
        totals: &Totals<'_>,
    ) -> Result<Vec<(usize, i64)>, Stop> {
        let mut row = Vec::new();
        for (place, feature) in self.features.iter().enumerate() {
            let Feature::Term { kind: of, term } = feature else { continue };
            if *of != kind {
                continue;
            }
            let int = |atom: u32| {
                let value = addend(&totals.sides[kind], *term, atom, totals.numbers);
                value.expect("terms that are not whole are left out")
            };
            let value = int(after);
            self.least[place] = self.least[place].min(value);
            if before == NONE {
                add(start, place, value)?;
            } else {
                let change = value.checked_sub(int(before)).ok_or(Stop::Overflow(place))?;
                row.push((place, change));
            }
        }
        Ok(row)
    }

    /// The payloads that an event adds to the messages in flight, and takes from them.
    fn messages(
        &mut self,
        execution: &Execution,
        event: EventId,
        flying: &mut i64,
    ) -> Result<Vec<(usize, i64)>, Stop> {
        let (id, event) = (event, execution.event(event));
        let mut changes: BTreeMap<usize, i64> = BTreeMap::new();
        for send in &event.sends {
            // Nobody knows how many copies of a broadcast are under way.
            *flying += if send.to.is_some() { 1 } else { i64::from(u32::MAX) };
            for (place, amount) in self.amounts_of(&send.label, send.payload.as_ref()) {
                let own = changes.entry(place).or_default();
                *own = own.checked_add(amount).ok_or(Stop::Overflow(place))?;
            }
        }
        if let EventKind::Deliver { message } = &event.kind
            && let Some(message) = execution.message(*message)
            && message.delivered.first() == Some(&id)
            && let Some(send) = execution.send_of(message)
        {
            *flying -= i64::from(send.to.is_some());
            for (place, amount) in self.amounts_of(&send.label, send.payload.as_ref()) {
                let own = changes.entry(place).or_default();
                *own = own.checked_sub(amount).ok_or(Stop::Overflow(place))?;
            }
        }
        Ok(changes.into_iter().collect())
    }

    /// What a message is worth in each feature.
    fn amounts_of(&mut self, label: &str, payload: Option<&Value>) -> Vec<(usize, i64)> {
        let amounts = amounts(payload);
        let mut found = Vec::new();
        for (place, feature) in self.features.iter().enumerate() {
            match feature {
                Feature::Count { label: own } if own == label => found.push((place, 1)),
                Feature::Amount { label: own, field } if own == label => {
                    let amount = amounts.get(field).copied().unwrap_or(0);
                    self.least[place] = self.least[place].min(amount);
                    found.push((place, amount));
                }
                _ => {}
            }
        }
        found
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

/// Adds to the sum of a feature.
fn add(sums: &mut [i64], place: usize, change: i64) -> Result<(), Stop> {
    sums[place] = sums[place].checked_add(change).ok_or(Stop::Overflow(place))?;
    Ok(())
}

impl Feature {
    /// The name of what is added up.
    fn name(&self, totals: &Totals<'_>) -> String {
        match self {
            Feature::Term { kind, term } => {
                term_name(&totals.sides[*kind], *term, totals.kind_name(*kind))
            }
            Feature::Count { label } => format!("{label} messages"),
            Feature::Amount { label, field } => amount_name(label, field.as_deref()),
        }
    }
}

fn amount_name(label: &str, field: Option<&str>) -> String {
    match field {
        Some(field) => format!("`{field}` of {label} messages"),
        None => format!("the payloads of {label} messages"),
    }
}

/// The numbers of nodes and messages, those of the nodes first. A number that may be missing is last
/// among those of the nodes.
fn features(totals: &Totals<'_>, unjudged: &mut NotJudged) -> Vec<Feature> {
    let mut found = Vec::new();
    for (kind, side) in totals.sides.iter().enumerate() {
        for (term, own) in side.terms.iter().enumerate() {
            if own.class == Class::Number && !own.is_size() {
                // Fractions are told of where the nodes are added up alone.
                if is_whole(side, term, totals.numbers) {
                    found.push((own.nullable, Feature::Term { kind, term }));
                }
            }
        }
    }
    found.sort_by_key(|(nullable, _)| *nullable);
    let mut found: Vec<Feature> = found.into_iter().map(|(_, feature)| feature).collect();
    let beyond = found.split_off(found.len().min(FEATURES_MAX / 2));
    for (label, fields) in labels(totals.executions) {
        if fields.unclear {
            let numbers = fields.some.union(&fields.fractions);
            let names = numbers.map(|field| amount_name(&label, field.as_deref()));
            names.for_each(|of| unjudged.note(of, WhyUnjudged::UnclearFlights));
            continue;
        }
        let mut note = |field: &Option<String>, why| {
            unjudged.note(amount_name(&label, field.as_deref()), why);
        };
        fields.fractions.iter().for_each(|field| note(field, WhyUnjudged::Fractions));
        for field in fields.some.difference(&fields.common) {
            if !fields.fractions.contains(field) {
                note(field, WhyUnjudged::NotAlwaysThere);
            }
        }
        found.push(Feature::Count { label: label.clone() });
        let amount = |field| Feature::Amount { label: label.clone(), field };
        found.extend(fields.common.into_iter().map(amount));
    }
    let too_many = found.split_off(found.len().min(FEATURES_MAX));
    if found.iter().any(|feature| matches!(feature, Feature::Amount { .. })) {
        for feature in beyond.iter().chain(&too_many) {
            unjudged.note(feature.name(totals), WhyUnjudged::TooMany(FEATURES_MAX));
        }
    }
    found
}

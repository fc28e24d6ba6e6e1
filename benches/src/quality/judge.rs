//! The judges of a list of properties: is a wanted one among them, which are false in a larger
//! sample, which say nothing that an earlier one does not say.

use everhold_infer::arranged;
use everhold_property::{
    Library, Limits, Property, Rule, Scope, Verdict, check_execution, parse, print,
};
use everhold_trace::{EventId, EventKind, Execution, TraceBuilder, Value};

use super::system::{DECOYS, Random};

/// The most cuts or tuples that are judged of one property in one run.
const CASES_MAX: u64 = 3_000_000;

/// A claim as a property: `when all quiet: ...`, `on delivery: ...`, or the claim alone.
pub(super) fn property(claim: &str) -> Property {
    let scopes = ["when all quiet", "when quiet", "on delivery"];
    let scoped = scopes.iter().find_map(|scope| Some((*scope, claim.strip_prefix(scope)?)));
    let text = match scoped {
        Some((scope, claim)) => format!("always \"it\" {scope}{claim}"),
        None => format!("always \"it\": {claim}"),
    };
    let mut read = parse(&text).into_result().unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
    read.remove(0)
}

/// Whether one of these properties says what one of the texts says, in the same scope or everywhere.
pub(super) fn says(properties: &[Property], texts: &[&str]) -> bool {
    place_of(properties, texts).is_some()
}

/// The first of these properties that says it.
pub(super) fn place_of(properties: &[Property], texts: &[&str]) -> Option<usize> {
    let wanted = texts.iter().flat_map(|text| {
        let own = property(text);
        let everywhere = Property { scope: Scope::EveryCut, ..own.clone() };
        [arranged(&own), arranged(&everywhere)]
    });
    let wanted: Vec<String> = wanted.collect();
    properties.iter().position(|property| wanted.contains(&arranged(property)))
}

/// Whether a property is false in one of these runs.
pub(super) fn is_refuted(property: &Property, runs: &[Execution]) -> bool {
    let rule = Rule::new(property, &Library::new());
    let limits = Limits { cases_max: CASES_MAX };
    runs.iter().any(|run| check_execution(&rule, run, limits).verdict == Verdict::Violated)
}

/// Whether a property speaks of a variable without meaning.
pub(super) fn is_about_decoys(property: &Property) -> bool {
    let text = print(property);
    DECOYS.iter().any(|decoy| text.contains(&format!(".{decoy}")))
}

/// The moments of a run, from which worlds are made.
pub(super) struct Worlds<'a> {
    run: &'a Execution,
    /// For each event the state that its node shows after it, and the event before at this node.
    before: Vec<Option<EventId>>,
    /// For each moment the last event of each node.
    now: Vec<Vec<Option<EventId>>>,
}

/// The fields of a node.
type State = Vec<(String, Value)>;

impl<'a> Worlds<'a> {
    pub(super) fn of(run: &'a Execution) -> Worlds<'a> {
        let mut last = vec![None; run.nodes().len()];
        let (mut before, mut now) = (Vec::new(), Vec::new());
        for (place, event) in run.events().iter().enumerate() {
            let id = EventId(u32::try_from(place).expect("event ids are 32 bits"));
            before.push(last[event.node.index()].replace(id));
            now.push(last.clone());
        }
        Worlds { run, before, now }
    }

    fn state(&self, event: EventId) -> State {
        use everhold_trace::Observation;
        match &self.run.event(event).observation {
            Some(Observation::State(Value::Record(fields))) => {
                fields.iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether nothing contradicts the last of these properties that does not contradict an earlier
    /// one, too; also if nothing contradicts it at all.
    ///
    /// So many worlds are tried. A world is a moment of the run, in which one node takes a step, with one to three values
    /// replaced by others that occurred. It has no messages, so properties about messages are
    /// never taken for redundant.
    pub(super) fn is_redundant(
        &self,
        properties: &[Property],
        worlds: usize,
        random: &mut Random,
    ) -> bool {
        let Some((own, earlier)) = properties.split_last() else { return false };
        if is_about_messages(own) {
            return false;
        }
        let rule = |property: &Property| Rule::new(property, &Library::new());
        let (own, earlier) = (rule(own), earlier.iter().map(rule).collect::<Vec<Rule>>());
        for _ in 0..worlds {
            let world = self.changed(random);
            if is_false(&own, &world) && !earlier.iter().any(|rule| is_false(rule, &world)) {
                return false;
            }
        }
        true
    }

    /// A moment with some values replaced.
    fn changed(&self, random: &mut Random) -> Execution {
        let (moment, nodes) = loop {
            let moment = random.pick(self.now.len());
            let nodes: Option<Vec<EventId>> = self.now[moment].iter().copied().collect();
            if let (Some(nodes), Some(_)) = (nodes, self.before[moment]) {
                break (moment, nodes);
            }
        };
        let mover = self.run.events()[moment].node.index();
        let mut states: Vec<State> = nodes.iter().map(|event| self.state(*event)).collect();
        states.push(self.state(self.before[moment].expect("it was looked for")));
        for _ in 0..1 + random.below(3) {
            let place = random.pick(states.len());
            let node = if place == nodes.len() { mover } else { place };
            // A whole state of another time or node keeps what is true within a node.
            if random.once_in(3) {
                states[place] = self.any_state(node, random);
            } else if random.once_in(2) {
                shift(&mut states, random);
            } else {
                self.replace(place, node, &mut states, random);
            }
        }
        let before = states.pop().expect("it was pushed");
        let mut trace = TraceBuilder::new();
        let infos = self.run.nodes().iter();
        let ids: Vec<_> = infos.map(|info| trace.add_node(&info.name, &info.kind)).collect();
        let step = || EventKind::Local { name: "step".into() };
        trace.begin(ids[mover], step());
        trace.observe(record(before));
        for (id, state) in ids.iter().zip(states) {
            trace.begin(*id, step());
            trace.observe(record(state));
        }
        trace.finish()
    }

    /// A state of some node of the same kind at some time.
    fn any_state(&self, node: usize, random: &mut Random) -> State {
        let kind = &self.run.nodes()[node].kind;
        let events = self.run.events();
        loop {
            let at = random.pick(events.len());
            if self.run.nodes()[events[at].node.index()].kind == *kind {
                return self.state(EventId(u32::try_from(at).expect("event ids are 32 bits")));
            }
        }
    }

    /// Replaces a value of a state: by one of the same variable at another time, by that of another
    /// variable or node, or by a number nearby.
    fn replace(&self, place: usize, node: usize, states: &mut [State], random: &mut Random) {
        if states[place].is_empty() {
            return;
        }
        let field = random.pick(states[place].len());
        let old = states[place][field].1.clone();
        let new = match (random.below(3), &old) {
            (0, Value::Int(number)) => Value::Int(number + random.below(7) as i64 - 3),
            (1, _) => {
                let from = random.pick(states.len());
                let alike = |value: &&(String, Value)| {
                    std::mem::discriminant(&value.1) == std::mem::discriminant(&old)
                };
                let values: Vec<_> = states[from].iter().filter(alike).collect();
                if values.is_empty() { old } else { values[random.pick(values.len())].1.clone() }
            }
            _ => {
                let other = self.any_state(node, random);
                other.get(field).map_or(old, |(_, value)| value.clone())
            }
        };
        states[place][field].1 = new;
    }
}

/// Changes two numbers by the same amount, up or down: of one state, or the same number of two
/// states. Sums and differences may stay what they are.
fn shift(states: &mut [State], random: &mut Random) {
    let (one, other) = (random.pick(states.len()), random.pick(states.len()));
    let other = if random.once_in(2) { one } else { other };
    if states[one].is_empty() || states[other].is_empty() {
        return;
    }
    let field = random.pick(states[one].len());
    let name = states[one][field].0.clone();
    let same = states[other].iter().position(|(own, _)| *own == name).filter(|_| one != other);
    let second = same.unwrap_or_else(|| random.pick(states[other].len()));
    let by = 1 + random.below(60) as i64;
    let down = random.once_in(2);
    let mut add = |place: usize, field: usize, by: i64| {
        if let Value::Int(number) = &mut states[place][field].1 {
            *number += by;
        }
    };
    add(one, field, by);
    add(other, second, if down { -by } else { by });
}

fn record(state: State) -> Value {
    Value::record(state.iter().map(|(name, value)| (name.as_str(), value.clone())))
}

fn is_false(rule: &Rule, world: &Execution) -> bool {
    let limits = Limits { cases_max: 100_000 };
    check_execution(rule, world, limits).verdict == Verdict::Violated
}

fn is_about_messages(property: &Property) -> bool {
    let text = print(property);
    let messages = text.contains("in_flight(") || text.contains("messages(");
    messages || matches!(property.scope, Scope::Delivery | Scope::Chains)
}

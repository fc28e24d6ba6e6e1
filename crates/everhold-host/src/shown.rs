//! The state that a program shows: by the probe that it has in production, or by a test's own code.

use std::collections::BTreeMap;

use everhold_sim::View;
use everhold_sys::Report;
use everhold_trace::tap;
use everhold_trace::wire::What;
use everhold_trace::{NodeId, Value};
use serde::Serialize;

use crate::Packet;

/// The state that a host shows, for [`Net::always`](crate::Net::always) and its relatives. A variable
/// of a probe is a value; a relation is a map of its keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shown {
    host: String,
    values: BTreeMap<String, Value>,
}

impl Shown {
    pub(crate) fn of(host: &str) -> Self {
        Shown { host: host.to_owned(), values: BTreeMap::new() }
    }

    /// The name of the host.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The value of a variable or a relation.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// The whole number that a variable has.
    #[must_use]
    pub fn int(&self, name: &str) -> Option<i64> {
        self.get(name)?.as_int()
    }

    pub(crate) fn values(&self) -> &BTreeMap<String, Value> {
        &self.values
    }

    /// Takes up what was shown; returns a line for people.
    pub(crate) fn take(&mut self, what: &What) -> Option<String> {
        match what {
            What::Observe(values) | What::State(values) => {
                if matches!(what, What::State(_)) {
                    self.values.clear();
                }
                for (name, value) in values {
                    self.values.insert(name.to_string(), value.clone());
                }
            }
            What::Add(tuple) => {
                let relation = self.values.entry(tuple.relation.to_string()).or_default();
                if !matches!(relation, Value::Map(_)) {
                    *relation = Value::Map(BTreeMap::new());
                }
                if let Value::Map(tuples) = relation {
                    tuples.insert(tuple.key.clone(), tuple.value.clone());
                }
            }
            What::Remove(tuple) => {
                if let Some(Value::Map(tuples)) = self.values.get_mut(&*tuple.relation)
                    && tuples.get(&tuple.key) == Some(&tuple.value)
                {
                    tuples.remove(&tuple.key);
                }
            }
            What::Note(text) => return Some(text.clone()),
            _ => {}
        }
        None
    }
}

/// The state that a host shows; nothing while it is down.
#[must_use]
pub fn shown<'a>(view: &View<'a, Packet>, host: &str) -> Option<&'a Shown> {
    view.all::<Shown>().find(|(_, shown)| shown.host == host).map(|(_, shown)| shown)
}

/// Shows a part of the state of the host whose program calls this, as a probe's `observe` does.
pub fn show(name: &str, value: &(impl Serialize + ?Sized)) {
    give(NodeId(0), What::Observe(vec![(name.into(), Value::of(value))]));
}

/// Lets the probes of the host's program show everything to the explorer.
pub(crate) fn tap() {
    tap::set(give);
}

fn give(_: NodeId, what: What) {
    everhold_sys::call(Report::Shown(&what));
}

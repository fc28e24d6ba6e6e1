//! The check that the setup closure describes the same system every time it runs: once for every
//! thread, and once more for every replay.

use std::sync::{Arc, OnceLock};

use everhold_node::Message;
use everhold_trace::Value;

use crate::report::text::count;
use crate::system::System;
use crate::worker::SharedSetup;

/// The description of the system by the first run of a setup, and the difference of a later run.
#[derive(Debug, Default)]
pub(crate) struct Repeated {
    first: OnceLock<Vec<String>>,
    problem: OnceLock<String>,
}

impl Repeated {
    /// The difference between two runs of the setup, if there is one.
    pub(crate) fn problem(&self) -> Option<String> {
        let difference = self.problem.get()?;
        Some(format!(
            "the setup closure described two different systems: {difference}. It runs once for every \
             thread and every replay, and must describe the same system each time: take random numbers, \
             the time, counters and thread-locals out of it. For inputs that differ between \
             executions let the setup choose them with `system.choose`, or a node with `cx.choose`"
        ))
    }

    /// Compares a system with the first one, unless the strategy chose it: such systems are meant
    /// to differ.
    fn compare<M: Message>(&self, system: &System<M>) {
        if system.oracle.is_some() {
            return;
        }
        let now = describe(system);
        let first = self.first.get_or_init(|| now.clone());
        if let Some(difference) = difference(first, &now) {
            // Only the first difference is kept.
            let _ = self.problem.set(difference);
        }
    }
}

/// The same setup, compared with its first run whenever it runs.
pub(crate) fn repeated<M: Message>(
    setup: impl Fn(&mut System<M>) + Send + Sync + 'static,
) -> (SharedSetup<M>, Arc<Repeated>) {
    let repeated = Arc::new(Repeated::default());
    let all = Arc::clone(&repeated);
    let setup = move |system: &mut System<M>| {
        setup(system);
        all.compare(system);
    };
    (Arc::new(setup), repeated)
}

/// The nodes with their first states, and everything else that has a name; one line each.
fn describe<M: Message>(system: &System<M>) -> Vec<String> {
    let mut lines = vec![count(system.nodes.len() as u64, "node")];
    for (info, (_, blueprint)) in system.names().iter().zip(&system.nodes) {
        let state = unordered(&blueprint.make().observe());
        lines.push(format!("node \"{}\" with state {state}", info.name));
    }
    for (what, rules) in [
        ("always", &system.always),
        ("sometimes", &system.sometimes),
        ("eventually", &system.eventually),
        ("finally", &system.finally),
    ] {
        lines.extend(rules.iter().map(|rule| format!("{what} \"{}\"", rule.name)));
    }
    lines.extend(system.properties.iter().map(|p| format!("the property \"{}\"", p.name)));
    lines.extend(system.monitors.iter().map(|m| format!("monitor \"{}\"", m.name)));
    lines.push(format!("{:?}", system.rules));
    lines
}

/// A value whose lists are sorted: sets come in any order, which alone does no harm.
fn unordered(value: &Value) -> Value {
    match value {
        Value::List(items) => {
            let mut items: Vec<Value> = items.iter().map(unordered).collect();
            items.sort_by_key(ToString::to_string);
            Value::list(items)
        }
        Value::Record(fields) => {
            Value::record(fields.iter().map(|(name, value)| (name.clone(), unordered(value))))
        }
        other => other.clone(),
    }
}

fn difference(first: &[String], now: &[String]) -> Option<String> {
    let differs = first.iter().zip(now).find(|(first, now)| first != now);
    match differs {
        Some((first, now)) => Some(format!("first {first}, later {now}")),
        None if first.len() < now.len() => Some(format!("later also {}", now[first.len()])),
        None if first.len() > now.len() => Some(format!("first also {}", first[now.len()])),
        None => None,
    }
}

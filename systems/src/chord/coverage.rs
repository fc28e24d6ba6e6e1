//! Two checks of a running ring (D3S, figure 3 and section 5.4), as graphs of stages.
//!
//! - [`coverage`]: the share of the ring that all nodes together hold. Below 100 % there are holes,
//!   above it overlaps; holes and overlaps may cancel each other out.
//! - [`sampled_keys`]: the number of nodes that hold each of some sampled keys.

use everhold::Value;
use everhold_trace::wire::Stamp;
use everhold_watch::{Collection, Delta, Flow, FlowFinding, Graph, Spread, Stage};

/// The number of keys.
const RING: i64 = 1 << 32;

/// The variable that both checks read.
const RANGE: &str = "range";

/// The keys of a tuple `[node, null, {pred, own}]`: their number, and the last one.
fn keys(tuple: &Value) -> (i64, i64) {
    let Value::List(parts) = tuple else { return (0, 0) };
    let field = |name: &str| parts.get(2)?.get(name)?.as_int();
    match (field("pred"), field("own")) {
        (Some(pred), Some(own)) if pred == own => (RING, own),
        (Some(pred), Some(own)) => ((own - pred).rem_euclid(RING), own),
        _ => (0, 0),
    }
}

/// The keys of the nodes of one shard.
struct RangeSum;

impl Stage for RangeSum {
    fn execute(&mut self, snapshot: &Collection) -> Vec<Value> {
        vec![Value::Int(snapshot.iter().map(|tuple| keys(tuple).0).sum())]
    }

    fn execute_change(&mut self, delta: &Delta, last: &[Value]) -> Option<Vec<Value>> {
        let change: i64 = delta.iter().map(|(tuple, times)| times * keys(tuple).0).sum();
        Some(vec![Value::Int(last.first()?.as_int()? + change)])
    }
}

/// The sums of all shards as a share of the ring, in thousandths.
struct Share;

impl Stage for Share {
    fn execute(&mut self, snapshot: &Collection) -> Vec<Value> {
        let sum: i64 = snapshot.iter().filter_map(Value::as_int).sum();
        vec![Value::Int((sum * 1_000 + RING / 2) / RING)]
    }

    fn key(&self, _: &Value) -> Value {
        Value::Null
    }
}

/// The share of the ring that is covered, in thousandths, after every change; each value is passed
/// to `each`. Three stages: the nodes' states, sums in four shards, and their total.
pub fn coverage(mut each: impl FnMut(Stamp, i64) + Send + 'static) -> Flow {
    let graph = Graph::new()
        .then(Spread { shards: 4, keys: 1.0 }, || RangeSum)
        .then(Spread::default(), || Share);
    let share = |output: &[Value]| output.first().and_then(Value::as_int).unwrap_or(0);
    let judge = move |output: &[Value]| match share(output) {
        1_000 => Vec::new(),
        other => {
            let reason = format!("{}.{} % of the keys are covered", other / 10, other % 10);
            vec![FlowFinding { key: Value::Null, reason }]
        }
    };
    let flow = Flow::new("key range coverage", RANGE, graph, judge);
    flow.each(move |at, output| each(at, share(output)))
}

/// The sampled keys that a node holds, as pairs `[key, node]`.
struct Holds {
    samples: i64,
}

impl Stage for Holds {
    fn execute(&mut self, snapshot: &Collection) -> Vec<Value> {
        let mut held = Vec::new();
        for tuple in snapshot.iter() {
            let (count, own) = keys(tuple);
            let Value::List(parts) = tuple else { continue };
            let holds =
                |sample: &i64| (own - place(*sample, self.samples)).rem_euclid(RING) < count;
            let pair = |sample| Value::List(vec![Value::Int(sample), parts[0].clone()]);
            held.extend((0..self.samples).filter(holds).map(pair));
        }
        held
    }
}

/// The position of a sampled key: the ring is divided into equal parts with one key at a
/// pseudo-random place in each.
fn place(sample: i64, samples: i64) -> i64 {
    let part = RING / samples;
    let somewhere = (sample.wrapping_mul(0x9e37_79b9) & 0xffff_ffff) * part / RING;
    sample * part + somewhere
}

/// The number of holders of each sampled key, in the order of the ring.
struct Holders {
    samples: i64,
}

impl Stage for Holders {
    fn execute(&mut self, snapshot: &Collection) -> Vec<Value> {
        let mut holders = vec![0_i64; self.samples as usize];
        for pair in snapshot.iter() {
            if let Value::List(parts) = pair
                && let Some(sample) = parts[0].as_int()
            {
                holders[sample as usize] += 1;
            }
        }
        vec![Value::List(holders.into_iter().map(Value::Int).collect())]
    }

    fn key(&self, _: &Value) -> Value {
        Value::Null
    }
}

/// The number of nodes that hold each of `samples` keys, after every change; each result is passed
/// to `each`. In a correct ring each key has one holder.
pub fn sampled_keys(samples: u32, mut each: impl FnMut(Stamp, Vec<i64>) + Send + 'static) -> Flow {
    let samples = i64::from(samples);
    let graph = Graph::new()
        .then(Spread { shards: 4, keys: 1.0 }, move || Holds { samples })
        .then(Spread::default(), move || Holders { samples });
    let holders = |output: &[Value]| match output.first() {
        Some(Value::List(counts)) => counts.iter().filter_map(Value::as_int).collect::<Vec<i64>>(),
        _ => Vec::new(),
    };
    let judge = move |output: &[Value]| {
        let counts: Vec<i64> = holders(output);
        let wrong = counts.iter().enumerate().filter(|(_, count)| **count != 1);
        let finding = |(sample, count): (usize, &i64)| FlowFinding {
            key: Value::Int(place(sample as i64, samples)),
            reason: format!("{count} nodes hold it"),
        };
        wrong.map(finding).collect()
    };
    let flow = Flow::new("one holder of each sampled key", RANGE, graph, judge);
    flow.each(move |at, output| each(at, holders(output)))
}

//! D3S's two examples: the lock check and the coverage of Chord's key ranges; each incremental path
//! against the full one.

use everhold_trace::Value;
use everhold_trace::wire::Stamp;
use everhold_watch::{
    CheckOptions, Collection, Delta, Flow, FlowFinding, Graph, Notice, PartitionChecker, Spread,
    Stage,
};

use crate::feed::{Feed, START, add, observe, violations};

/// D3S figure 2: which locks are held exclusively by one and by somebody else too.
struct LockConflicts;

fn at(tuple: &Value, place: usize) -> &Value {
    match tuple {
        Value::List(items) => &items[place],
        _ => panic!("tuples are lists"),
    }
}

impl Stage for LockConflicts {
    fn execute(&mut self, snapshot: &Collection) -> Vec<Value> {
        let mut holders = std::collections::BTreeMap::<&Value, (u32, u32)>::new();
        for tuple in snapshot.iter() {
            let (exclusive, shared) = holders.entry(at(tuple, 1)).or_default();
            let mode = if at(tuple, 2).as_text() == Some("exclusive") { exclusive } else { shared };
            *mode += 1;
        }
        let conflict = |(_, (exclusive, shared)): &(&Value, (u32, u32))| {
            *exclusive > 1 || (*exclusive == 1 && *shared > 0)
        };
        holders.into_iter().filter(conflict).map(|(lock, _)| lock.clone()).collect()
    }

    fn key(&self, tuple: &Value) -> Value {
        at(tuple, 1).clone()
    }
}

fn lock_flow(shards: u32) -> Flow {
    let graph = Graph::new().then(Spread { shards, keys: 1.0 }, || LockConflicts);
    Flow::new("lock conflicts", "locks", graph, |locks| {
        let finding = |lock: &Value| FlowFinding { key: lock.clone(), reason: "held twice".into() };
        locks.iter().map(finding).collect()
    })
}

#[test]
fn the_lock_check_finds_the_double_grant() {
    for shards in [1, 4] {
        let mut feed = Feed::default();
        feed.hello(START, 0);
        feed.hello(START, 1);
        feed.batch(START + 9, 0, vec![add(START + 5, 7, "exclusive"), add(START + 6, 8, "shared")]);
        feed.batch(START + 9, 1, vec![add(START + 7, 8, "shared"), add(START + 8, 7, "shared")]);
        feed.beat(START + 20, &[0, 1]);
        feed.restart(START + 30, 0);
        feed.beat(START + 40, &[0, 1]);
        let mut checker = PartitionChecker::new(CheckOptions::default());
        checker.add_flow(lock_flow(shards));
        let mut notices: Vec<Notice> = Vec::new();
        feed.entries.iter().for_each(|entry| checker.apply(entry, &mut notices));
        let shown = violations(&notices);
        assert_eq!(shown[0], "+lock conflicts[7]@8", "{shown:?}");
        assert!(shown[1].starts_with("-lock conflicts[7]"), "{shown:?}");
    }
}

const CIRCLE: i64 = 1 << 16;

/// D3S figure 3, second vertex: how much of the circle the nodes of this shard cover.
struct RangeSum;

fn range(tuple: &Value) -> i64 {
    let ring = at(tuple, 2);
    let id = |field: &str| ring.get(field).and_then(Value::as_int).unwrap_or(0);
    (id("own") - id("pred")).rem_euclid(CIRCLE)
}

impl Stage for RangeSum {
    fn execute(&mut self, snapshot: &Collection) -> Vec<Value> {
        vec![Value::Int(snapshot.iter().map(range).sum())]
    }

    fn execute_change(&mut self, delta: &Delta, last: &[Value]) -> Option<Vec<Value>> {
        let change: i64 = delta.iter().map(|(tuple, times)| times * range(tuple)).sum();
        Some(vec![Value::Int(last.first()?.as_int()? + change)])
    }
}

/// Third vertex: the shares of all shards together, in thousandths of the circle.
struct Coverage;

impl Stage for Coverage {
    fn execute(&mut self, snapshot: &Collection) -> Vec<Value> {
        let sum: i64 = snapshot.iter().filter_map(Value::as_int).sum();
        vec![Value::Int(sum * 1_000 / CIRCLE)]
    }

    fn key(&self, _: &Value) -> Value {
        Value::Null // All meet in one shard.
    }
}

fn coverage(shards: u32) -> Graph {
    Graph::new()
        .then(Spread { shards, keys: 1.0 }, || RangeSum)
        .then(Spread::default(), || Coverage)
}

/// A ring of `count` nodes as tuples, and changes to it from a fixed seed.
fn ring_changes(count: u32, steps: usize) -> Vec<(Stamp, Delta)> {
    let mut seed = 11_u64;
    let mut random = move |below: i64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as i64 % below
    };
    let width = CIRCLE / i64::from(count);
    let tuple = |node: i64, pred: i64| {
        let ring = Value::record([("pred", pred), ("own", node * width)]);
        Value::List(vec![Value::Int(node), Value::Null, ring])
    };
    let mut preds: Vec<i64> =
        (0..i64::from(count)).map(|i| (i - 1).rem_euclid(i64::from(count)) * width).collect();
    let first = preds.iter().enumerate().map(|(i, pred)| (tuple(i as i64, *pred), 1)).collect();
    let mut changes = vec![(Stamp(1), first)];
    for step in 0..steps {
        let node = random(i64::from(count));
        let pred = random(CIRCLE);
        let old = std::mem::replace(&mut preds[usize::try_from(node).unwrap()], pred);
        let delta = vec![(tuple(node, old), -1), (tuple(node, pred), 1)];
        changes.push((Stamp(step as u64 + 2), delta));
    }
    changes
}

#[test]
fn range_coverage_incremental_full_sharded_and_pipelined_agree() {
    let changes = ring_changes(85, 300);
    let run = |mut graph: Graph| -> Vec<Vec<Value>> {
        changes.iter().map(|(_, delta)| graph.step(delta)).collect()
    };
    let expected = run(coverage(1).without_changes());
    assert_eq!(expected[0], [Value::Int(1_000)], "the whole circle is covered");
    assert!(expected.iter().any(|output| *output != expected[0]), "something happens");
    for shards in [1, 3, 8] {
        assert_eq!(run(coverage(shards)), expected, "{shards} shards, incremental");
        let mut piped = Vec::new();
        coverage(shards).run(changes.clone(), |_, output| piped.push(output));
        assert_eq!(piped, expected, "{shards} shards, pipelined");
    }
}

#[test]
fn sampling_looks_at_about_its_share_of_the_keys() {
    struct Count;
    impl Stage for Count {
        fn execute(&mut self, snapshot: &Collection) -> Vec<Value> {
            vec![Value::Int(snapshot.iter().count() as i64)]
        }
    }
    let spread = Spread { shards: 1, keys: 0.25 };
    let keys: Delta = (0..4_000).map(|key| (Value::Int(key), 1)).collect();
    let output = Graph::new().then(spread, || Count).step(&keys);
    let seen = output[0].as_int().unwrap();
    // 1,000 are expected; 150 is more than five standard deviations away.
    assert!((850..1_150).contains(&seen), "{seen} of 4,000");
}

#[test]
fn sampled_timestamps_are_fewer_and_the_last_state_is_right() {
    let graph = Graph::new().then(Spread::default(), || Coverage);
    let flow = Flow::new("load", "load", graph, |_| Vec::new());
    let mut checker = PartitionChecker::new(CheckOptions::default());
    checker.add_flow(flow.sampled(std::time::Duration::from_millis(100)));
    let mut feed = Feed::default();
    feed.hello(START, 0);
    for step in 1..=50 {
        let at = START + step * 10;
        feed.batch(at, 0, vec![observe(at - 1, "load", i64::try_from(step).unwrap())]);
    }
    feed.beat(START + 1_000, &[0]);
    feed.entries.iter().for_each(|entry| checker.apply(entry, &mut Vec::new()));
    let steps = checker.flow("load").expect("it was added").steps();
    assert!((4..=7).contains(&steps), "{steps} timestamps of 50");
}

//! The search and the frontier are two algorithms for one question, so they are compared with each
//! other and with a slow reference that tries all orders. Fixed cases pin the explanations.

use std::panic::{AssertUnwindSafe, catch_unwind};

use everhold_node::{Monitor, fingerprint};

use super::*;
use crate::rng::Rng;

#[derive(Clone, Debug, Serialize)]
enum Op {
    Write(u8, u8),
    Read(u8),
    Swap(u8, u8),
}

/// Two registers; with `SPLIT` they are judged separately.
#[derive(Clone, Debug, Default, Serialize)]
struct Registers<const SPLIT: bool>([u8; 2]);

impl<const SPLIT: bool> Model for Registers<SPLIT> {
    type Op = Op;
    type Ret = u8;
    fn apply(&mut self, op: &Op) -> u8 {
        match op {
            Op::Write(key, value) => {
                self.0[usize::from(*key)] = *value;
                0
            }
            Op::Read(key) => self.0[usize::from(*key)],
            Op::Swap(key, value) => std::mem::replace(&mut self.0[usize::from(*key)], *value),
        }
    }
    fn part(op: &Op) -> u64 {
        let (Op::Write(key, _) | Op::Read(key) | Op::Swap(key, _)) = op;
        if SPLIT { u64::from(*key) } else { 0 }
    }
}

type Whole = Registers<false>;
type Split = Registers<true>;

/// Parses calls such as `1 w0=5` (client 1 calls) and answers such as `1 -> 0` (it is answered);
/// the operations are `w`, `r` and `s`.
fn parse(text: &str) -> History<Op, u8> {
    let mut history = History::new();
    let mut last = BTreeMap::new();
    for event in text.split(',').map(str::trim) {
        let (client, what) = event.split_once(' ').expect("a client and what it does");
        let node = NodeId(client.parse().expect("a number"));
        match what.strip_prefix("-> ") {
            Some(ret) => history.complete(last[&node], ret.parse().expect("a number")),
            None => drop(last.insert(node, history.invoke(node, op(what)))),
        }
    }
    history
}

fn op(text: &str) -> Op {
    let number = |text: &str| text.parse().expect("a number");
    let key = number(&text[1..2]);
    match &text[..1] {
        "r" => Op::Read(key),
        "w" => Op::Write(key, number(&text[3..])),
        _ => Op::Swap(key, number(&text[3..])),
    }
}

#[track_caller]
fn check(history: &str, expected: &str) {
    let found = parse(history).check(&Whole::default());
    let shown = match &found {
        Linearizability::Holds(order) => {
            let numbers: Vec<String> = order.iter().map(|id| id.0.to_string()).collect();
            format!("holds {}", numbers.join(" "))
        }
        Linearizability::Violated(_) | Linearizability::Unknown { .. } => found.to_string(),
    };
    assert_eq!(shown, expected.trim(), "{history}\n{shown}");
}

#[test]
fn orders_and_explanations() {
    check("1 w0=5, 2 r0, 2 -> 5, 1 -> 0", "holds 0 1");
    check("1 w0=5, 2 r0, 2 -> 0, 1 -> 0", "holds 1 0");
    check("1 w0=5, 2 r0, 2 -> 0", "holds 1");
    check(
        "1 w0=5, 1 -> 0, 2 r0, 2 -> 0",
        "
no order explains n2 Read(0) -> 0: it could only be 5
  everything before it fits, beginning with [0, 0]
    n1 Write(0, 5) -> 0   before it",
    );
    check(
        "1 w0=5, 2 w0=6, 3 w1=9, 1 -> 0, 4 r0, 2 -> 0, 4 -> 7",
        "
no order explains n4 Read(0) -> 7: it could only be 5 or 6
  everything before it fits, beginning with [0, 0]
    n1 Write(0, 5) -> 0   before it
    n2 Write(0, 6) -> 0   overlaps it
    n3 Write(1, 9)        no answer yet, no effect needed",
    );
    // The second read saw the write, the third must not go back.
    check(
        "1 w0=5, 2 r0, 2 -> 5, 3 r0, 3 -> 0, 1 -> 0",
        "
no order explains n3 Read(0) -> 0: it could only be 5
  everything before it fits, beginning with [0, 0]
    n1 Write(0, 5)    no answer yet
    n2 Read(0) -> 5   before it",
    );
}

#[test]
fn long_orders_are_shortened_to_a_state() {
    let writes: Vec<String> = (1..=20).map(|value| format!("1 w0={value}, 1 -> 0")).collect();
    let text = format!("{}, 2 r0, 2 -> 3", writes.join(", "));
    let found = parse(&text).check(&Whole::default());
    let shown = found.to_string();
    assert!(shown.contains("beginning with [12, 0] after 12 operations"), "{shown}");
    assert_eq!(shown.lines().count(), 10, "{shown}");
}

#[test]
fn a_bound_is_not_an_answer() {
    let text = "1 w0=1, 2 w0=2, 3 w0=3, 4 r0, 1 -> 0, 2 -> 0, 3 -> 0, 4 -> 9";
    let found = parse(text).configurations_max(5).check(&Whole::default());
    assert_eq!(found, Linearizability::Unknown { configurations_max: 5 });
    assert!(parse(text).check(&Whole::default()).violation().is_some());
}

#[test]
fn sequential_consistency_lets_a_client_lag_behind() {
    let lags = parse("1 w0=5, 1 -> 0, 2 r0, 2 -> 0, 2 r0, 2 -> 5");
    assert!(!lags.check(&Whole::default()).holds());
    assert!(lags.check_sequential(&Whole::default()).holds());
    let goes_back = parse("1 w0=5, 1 -> 0, 2 r0, 2 -> 5, 2 r0, 2 -> 0");
    let found = goes_back.check_sequential(&Whole::default());
    assert_eq!(found.violation().map(|v| (v.misfit, v.possible.clone())), Some((OpId(2), vec![5])));
}

/// 400 operations of 8 clients; only the memo keeps this from taking for ever.
#[test]
fn long_histories_are_cheap() {
    let mut rng = Rng::new(1);
    let mut history = History::new();
    let mut state = Whole::default();
    for _ in 0..50 {
        let called: Vec<OpId> =
            (0..8).map(|client| history.invoke(NodeId(client), random_op(&mut rng))).collect();
        for id in called {
            let ret = state.apply(&history.get(id).op.clone());
            history.complete(id, ret);
        }
    }
    history.check(&Whole::default()).assert_holds();
    let last = history.invoke(NodeId(0), Op::Read(0));
    history.complete(last, 200);
    assert_eq!(history.check(&Split::default()).violation().map(|v| v.misfit), Some(last));
}

fn random_op(rng: &mut Rng) -> Op {
    let key = rng.below(2) as u8;
    match rng.below(3) {
        0 => Op::Write(key, rng.below(3) as u8),
        1 => Op::Swap(key, rng.below(3) as u8),
        _ => Op::Read(key),
    }
}

/// Up to six operations of three clients, as calls and answers. About half of the answers are those
/// of a correct object; a client sometimes continues without one.
fn random_history(seed: u64) -> Vec<Operation<Whole>> {
    let mut rng = Rng::new(seed);
    let (mut events, mut object) = (Vec::new(), Whole::default());
    let mut open: BTreeMap<NodeId, Op> = BTreeMap::new();
    let mut calls = 0;
    for _ in 0..16 {
        let node = NodeId(rng.below(3));
        match open.remove(&node) {
            Some(op) if !rng.one_in(6) => {
                let honest = object.apply(&op);
                let ret = if rng.one_in(8) { rng.below(3) as u8 } else { honest };
                events.push(Whole::returned(node, ret));
            }
            _ if calls < 6 => {
                let op = random_op(&mut rng);
                // Effects may come early, so their order differs from the order of the answers.
                if rng.one_in(4) {
                    object.apply(&op);
                }
                open.insert(node, op.clone());
                events.push(Whole::invoked(node, op));
                calls += 1;
            }
            _ => {}
        }
    }
    events
}

fn recorded(events: &[Operation<Whole>]) -> History<Op, u8> {
    let mut history = History::new();
    let mut last = BTreeMap::new();
    for event in events {
        match event {
            Operation::Invoke { client, op } => {
                last.insert(*client, history.invoke(*client, op.clone()));
            }
            Operation::Return { client, ret } => history.complete(last[client], *ret),
        }
    }
    history
}

/// Tries every sequence of operations.
fn brute_force(history: &History<Op, u8>, real_time: bool) -> bool {
    fn go(
        history: &History<Op, u8>,
        real_time: bool,
        state: &Whole,
        order: &mut Vec<usize>,
    ) -> bool {
        let all = &history.operations;
        if all.iter().enumerate().all(|(at, op)| op.ret.is_none() || order.contains(&at)) {
            return true;
        }
        (0..all.len()).filter(|at| !order.contains(at)).collect::<Vec<_>>().into_iter().any(|at| {
            let waits = (0..all.len()).any(|other| {
                let apart = all[other].returned < all[at].invoked;
                let same = all[other].client == all[at].client && all[other].ret.is_some();
                let first = if real_time { apart } else { same && other < at };
                first && !order.contains(&other)
            });
            let mut after = state.clone();
            let ret = after.apply(&all[at].op);
            if waits || all[at].ret.is_some_and(|expected| expected != ret) {
                return false;
            }
            order.push(at);
            let found = go(history, real_time, &after, order);
            order.pop();
            found
        })
    }
    go(history, real_time, &Whole::default(), &mut Vec::new())
}

/// Carries out an order and compares answers and times.
fn assert_explains(history: &History<Op, u8>, order: &[OpId]) {
    let mut state = Whole::default();
    for (at, id) in order.iter().enumerate() {
        let operation = history.get(*id);
        let ret = state.apply(&operation.op);
        assert!(operation.ret.is_none_or(|expected| expected == ret), "{history:?} {order:?}");
        let later = order[at..].iter().map(|id| history.get(*id));
        assert!(later.into_iter().all(|later| later.returned >= operation.invoked));
    }
    let answered = history.operations.iter().filter(|operation| operation.ret.is_some()).count();
    let in_order = order.iter().filter(|id| history.get(**id).ret.is_some()).count();
    assert_eq!(answered, in_order, "every answered operation is in the order");
}

/// The event at which the monitor fails.
fn monitor_fails_at<M>(mut monitor: Linearizable<M>, events: &[Operation<Whole>]) -> Option<usize>
where
    M: Model<Op = Op, Ret = u8> + 'static,
{
    let event = |event: &Operation<Whole>| match event {
        Operation::Invoke { client, op } => M::invoked(*client, op.clone()),
        Operation::Return { client, ret } => M::returned(*client, *ret),
    };
    (0..events.len()).find(|at| {
        catch_unwind(AssertUnwindSafe(|| monitor.observe(&event(&events[*at])))).is_err()
    })
}

#[test]
fn search_monitor_and_brute_force_agree() {
    let mut held = 0;
    for seed in 0..6_000 {
        let events = random_history(seed);
        let history = recorded(&events);
        let expected = brute_force(&history, true);
        held += u32::from(expected);
        let (whole, split) = (history.check(&Whole::default()), history.check(&Split::default()));
        for found in [&whole, &split] {
            match found {
                Linearizability::Holds(order) => assert_explains(&history, order),
                Linearizability::Violated(_) => {}
                Linearizability::Unknown { .. } => panic!("six operations reach no bound"),
            }
            assert_eq!(found.holds(), expected, "seed {seed}: {events:?} {found}");
        }
        let sequential = history.check_sequential(&Whole::default());
        assert_eq!(sequential.holds(), brute_force(&history, false), "seed {seed}: {events:?}");
        assert!(sequential.holds() || !expected, "seed {seed}: linearizable is sequential");
    }
    // A generator whose histories all had the same verdict would compare nothing.
    assert!((1_000..5_000).contains(&held), "{held} of 6000 histories are linearizable");
}

/// The monitor fails at the first answer that leaves no order, which is where the search places the
/// blame, and it lists exactly the answers that would have been possible.
#[test]
fn the_monitor_fails_where_the_first_answer_does_not_fit() {
    for seed in 0..3_000 {
        let events = random_history(seed);
        let fits = |len: usize| brute_force(&recorded(&events[..len]), true);
        let expected = (0..events.len()).find(|at| !fits(at + 1));
        let whole = monitor_fails_at(Linearizable::new(Whole::default()), &events);
        assert_eq!(whole, expected, "seed {seed}: {events:?}");
        let split = monitor_fails_at(Linearizable::new(Split::default()), &events);
        assert_eq!(split, expected, "seed {seed}: {events:?}");
        if let Some(at) = expected {
            assert_blame(&events, at);
        }
    }
}

fn assert_blame(events: &[Operation<Whole>], at: usize) {
    let found = recorded(events).check(&Whole::default());
    let violation = found.violation().expect("brute force found no order");
    let until = recorded(&events[..=at]);
    assert_eq!(until.get(violation.misfit).returned, at + 1, "{events:?} {found}");
    let Operation::Return { client, .. } = &events[at] else { panic!("{at} is an answer") };
    let answers = (0..=u8::MAX).filter(|ret| {
        let mut other = recorded(&events[..at]);
        let (id, client) = (violation.misfit, *client);
        assert_eq!(other.get(id).client, client);
        other.complete(id, *ret);
        // Values above three are never written.
        *ret < 4 && brute_force(&other, true)
    });
    let mut possible = violation.possible.clone();
    possible.sort_unstable();
    assert_eq!(possible, answers.collect::<Vec<_>>(), "{events:?} {found}");
}

#[test]
fn a_monitor_comes_back_to_the_same_state() {
    let mut monitor = Linearizable::new(Whole::default());
    let mut seen = Vec::new();
    for _ in 0..100 {
        monitor.observe(&Whole::invoked(NodeId(1), Op::Write(0, 1)));
        monitor.observe(&Whole::invoked(NodeId(2), Op::Write(0, 0)));
        monitor.observe(&Whole::returned(NodeId(1), 0));
        monitor.observe(&Whole::returned(NodeId(2), 0));
        monitor.observe(&Whole::invoked(NodeId(1), Op::Read(0)));
        monitor.observe(&Whole::returned(NodeId(1), 1));
        seen.push(fingerprint::hash(&monitor));
    }
    assert!(seen.iter().all(|hash| *hash == seen[0]), "a round leaves no trace");
}

#[test]
fn a_monitor_shows_what_may_be() {
    let mut monitor = Linearizable::new(Whole::default());
    monitor.observe(&Whole::invoked(NodeId(1), Op::Write(0, 1)));
    monitor.observe(&Whole::invoked(NodeId(2), Op::Read(0)));
    monitor.observe(&Whole::returned(NodeId(2), 1));
    monitor.observe(&Whole::invoked((NodeId(2), 7), Op::Read(0)));
    let shown = everhold_trace::Value::of(&monitor).to_string();
    assert_eq!(
        shown,
        "{parts: {0 -> {cases: [{done: {n1 -> 0}, state: [1, 0]}], open: {\
         [n2, 7, 0] -> {op: Read(0)}, n1 -> {op: Write([0, 1])}}}}}"
    );
}

#[test]
fn operations_without_answers_do_not_pile_up() {
    let mut monitor = Linearizable::new(Whole::default()).configurations_max(1_000);
    for round in 0..200 {
        // The client crashes in every round; reads without an answer change nothing, and writes
        // that were seen are settled.
        monitor.observe(&Whole::invoked(NodeId(1), Op::Read(0)));
        monitor.observe(&Whole::invoked(NodeId(1), Op::Write(0, round)));
        monitor.observe(&Whole::invoked(NodeId(2), Op::Swap(0, 255)));
        monitor.observe(&Whole::returned(NodeId(2), round));
    }
}

#[test]
#[should_panic(expected = "did not say what it called")]
fn an_answer_needs_a_call() {
    Linearizable::new(Whole::default()).observe(&Whole::returned(NodeId(1), 0));
}

#[test]
#[should_panic(expected = "too many cases")]
fn a_monitor_says_when_it_gives_up() {
    let mut monitor = Linearizable::new(Whole::default()).configurations_max(10);
    for client in 0..8 {
        monitor.observe(&Whole::invoked(NodeId(client), Op::Write(0, client as u8)));
    }
    monitor.observe(&Whole::returned(NodeId(0), 0));
}

//! Recorded executions. The twin judges every consistent cut with the plain evaluator.

use everhold_property::{
    Library, Limits, Method, Property, Rule, Snapshot, State, Value, Verdict, check_execution,
    evaluate, parse,
};
use everhold_trace::{
    EventId, EventKind, Execution, MessageId, NodeId, Order, Slice, TraceBuilder, trace,
};
use std::collections::BTreeMap;

use crate::random::Random;

fn property(text: &str) -> Property {
    parse(text).into_result().unwrap_or_else(|errors| panic!("{text}: {errors:?}")).remove(0)
}

/// A random execution of up to three nodes: sends, deliveries in any order, losses, crashes.
fn execution(random: &mut Random) -> Execution {
    let mut trace = TraceBuilder::new();
    let n = 2 + random.below(2);
    let nodes: Vec<NodeId> =
        (0..n).map(|i| trace.add_node(&format!("n{i}"), ["server", "client"][i % 2])).collect();
    let mut flying: Vec<(NodeId, MessageId)> = Vec::new();
    let mut up = vec![true; n];
    for _ in 0..4 + random.below(8) {
        let node = random.below(n);
        if !up[node] {
            trace.begin(nodes[node], EventKind::Restart);
            up[node] = true;
        } else if random.chance(8) {
            trace.begin(nodes[node], EventKind::Crash);
            up[node] = false;
            continue;
        } else if let Some(at) = flying.iter().position(|(to, _)| *to == nodes[node]) {
            let (_, message) = flying.remove(at);
            trace.begin(nodes[node], EventKind::Deliver { message });
        } else {
            trace.begin(nodes[node], EventKind::Local { name: "step".into() });
        }
        if random.chance(75) {
            let fields = [("x", random.below(3) as i64), ("y", random.below(3) as i64)];
            trace.observe(Value::record(fields));
        }
        if random.chance(50) {
            let to = nodes[random.below(n)];
            let payload = random.pick(&[0, 1, 2, 5].map(|amount| {
                // One payload in four has no number.
                let amount = if amount == 5 { Value::from("much") } else { Value::Int(amount) };
                Value::record([("amount", amount)])
            }));
            let message = trace.send(to, random.pick(&["Ask", "Tell"]), Some(payload));
            if random.chance(85) {
                flying.insert(random.below(flying.len() + 1), (to, message));
            } else if random.chance(50) {
                trace.lost(message);
            }
        }
    }
    trace.finish()
}

/// The global state of a cut, built from the execution anew.
fn snapshot(execution: &Execution, cut: &[u32]) -> Snapshot {
    let states = execution.local_states();
    let mut snapshot = Snapshot::default();
    for node in execution.node_ids() {
        let info = execution.node(node);
        assert_eq!(snapshot.add(&info.name, &info.kind), node);
        let count = cut[node.index()] as usize;
        let events = &execution.events_of(node)[..count];
        let last = events.iter().rev().find_map(|event| match execution.event(*event).kind {
            EventKind::Crash => Some(false),
            EventKind::Restart | EventKind::Start => Some(true),
            _ => None,
        });
        snapshot.set_up(node, last.unwrap_or(true));
        if let Some(state) = states.at(node, count) {
            snapshot.set(node, state.clone());
        }
    }
    for message in flying(execution, cut) {
        let send = execution.send_of(message).expect("it was sent");
        let to = send.to.expect("there are no broadcasts");
        snapshot.set_in_flight(message.id.sender, to, 1);
    }
    snapshot.set_messages(Some(messages(execution, cut)));
    let mut payloads: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for message in flying(execution, cut) {
        let send = execution.send_of(message).expect("it was sent");
        let payload = send.payload.clone().expect("each has one");
        payloads.entry(send.label.clone()).or_default().push(payload);
    }
    snapshot.set_payloads(Some(payloads));
    snapshot
}

/// The messages that were sent in the cut, were not lost, and are not received in it, whether or
/// not they ever arrive.
fn flying<'a>(execution: &'a Execution, cut: &[u32]) -> Vec<&'a trace::Message> {
    let within = |event: &EventId| {
        let node = execution.event(*event).node;
        execution.events_of(node)[..cut[node.index()] as usize].contains(event)
    };
    let flies = |message: &&trace::Message| {
        let sent = message.sent.is_some_and(|event| within(&event)) && !message.lost;
        sent && !message.delivered.iter().any(within)
    };
    execution.messages().iter().filter(flies).collect()
}

/// Their number by kind.
fn messages(execution: &Execution, cut: &[u32]) -> BTreeMap<String, u64> {
    let mut messages = BTreeMap::new();
    for message in flying(execution, cut) {
        let label = &execution.send_of(message).expect("it was sent").label;
        *messages.entry(label.clone()).or_default() += 1;
    }
    messages
}

/// The verdicts of all consistent cuts.
fn all_cuts(property: &Property, execution: &Execution) -> Vec<(Vec<u32>, Option<Verdict>)> {
    let order = Order::of(execution);
    let mut cuts = Slice::consistent(&order).cuts();
    let mut found = Vec::new();
    while let Some(cut) = cuts.next_cut() {
        let state = snapshot(execution, cut);
        let history: [&dyn State; 1] = [&state];
        found.push((cut.to_vec(), evaluate(property, &Library::new(), &history, &[])));
    }
    found
}

#[test]
fn all_cuts_are_judged() {
    let bodies = [
        "forall a, b in nodes where a != b: a.x <= b.y + 1",
        "forall n in nodes: n.x != 2 or n.y != 2",
        "forall s in server nodes, c in client nodes: s.x != c.y",
        "forall a, b, c in nodes: not (a.x == 0 and b.x == 1 and c.x == 2)",
        "forall a, b in all nodes: a.x + b.x != 4 or a.y != b.y",
        "sum(n in nodes: n.x) <= 4",
        "exists n in nodes: n.x <= 1",
        "forall n in nodes: exists m in nodes: m.x >= n.x",
        "in_flight() <= 2",
        "forall n in nodes: n.x <= in_flight(\"Ask\") + 1",
        "forall n in all nodes where up(n): n.x <= 1 or n.y <= 1",
        "count(m in messages(\"Tell\")) <= 1",
    ];
    let mut violated = 0;
    for seed in 0..1_100 {
        let mut random = Random::new(seed);
        let scope = random.pick(&["", "when quiet", "when all quiet"]);
        let property = property(&format!("always \"p\" {scope}: {}", random.pick(&bodies)));
        let execution = execution(&mut random);
        let expected = all_cuts(&property, &execution);
        let worst = expected.iter().any(|(_, verdict)| *verdict == Some(Verdict::Violated));
        let rule = Rule::new(&property, &Library::new());
        let outcome = check_execution(&rule, &execution, Limits::default());
        assert_eq!(outcome.verdict == Verdict::Violated, worst, "seed {seed} {property}");
        if let Some(violation) = outcome.violation {
            violated += 1;
            let shown = expected.iter().find(|(cut, _)| *cut == violation.cut);
            let shown = shown.unwrap_or_else(|| panic!("seed {seed}: no consistent cut is shown"));
            assert_eq!(shown.1, Some(Verdict::Violated), "seed {seed} {property}");
            assert!(
                !violation.witness.to_string().is_empty()
                    || property.body.to_string().contains("exists")
            );
        }
    }
    // The property is violated in a fair share of the executions and not in nearly all of them.
    assert!((250..850).contains(&violated), "{violated}");
}

/// Claims about sums are decided by weights of events. The verdict is that of all cuts, unknown
/// ones included.
#[test]
fn sums_are_judged_by_weights() {
    let sums = [
        "sum(n in nodes: n.x)",
        "count(n in nodes: n.x == 2)",
        "count(n in nodes where n.y != 1: n.x >= 1)",
        "sum(n in server nodes where n.x > 0: n.y) - sum(n in client nodes: n.x)",
        "sum(n in nodes: n.x) + in_flight(\"Ask\")",
        "2 * in_flight() - count(n in nodes: n.x == 0)",
        "sum(n in nodes, i in 0..n.x: i + 1)",
        "sum(n in nodes: n.x) + sum(m in messages(\"Ask\"): m.amount)",
        "count(m in messages() where m.amount > 0) - sum(n in nodes: n.y)",
        "len(messages(\"Tell\"))",
        "sum(n in all nodes where up(n): n.x)",
    ];
    let mut found = [0; 3];
    for seed in 0..6_000 {
        let mut random = Random::new(seed);
        let scope = random.pick(&["", "", "when quiet", "when all quiet"]);
        let op = random.pick(&["==", "<=", "<", ">=", ">", "!="]);
        let mut claim = format!("{} {op} {}", random.pick(&sums), random.below(6));
        if random.chance(15) {
            claim = format!("{claim} and {} <= 4", random.pick(&sums));
        } else if random.chance(10) {
            claim = random.pick(&["exists n in nodes: n.x <= 1", "not (in_flight() > 1)"]).into();
        }
        let modality = if random.chance(15) { "sometimes" } else { "always" };
        let property = property(&format!("{modality} \"p\" {scope}: {claim}"));
        let execution = execution(&mut random);
        let expected = all_cuts(&property, &execution);
        let some = |verdict| expected.iter().any(|(_, found)| *found == Some(verdict));
        let worst = match modality {
            "always" if some(Verdict::Violated) => Verdict::Violated,
            _ if some(Verdict::Holds) => Verdict::Holds,
            _ => Verdict::Unknown,
        };
        let rule = Rule::new(&property, &Library::new());
        let outcome = check_execution(&rule, &execution, Limits::default());
        assert_eq!(outcome.verdict, worst, "seed {seed} {property} by {:?}", outcome.method);
        if let Some(violation) = outcome.violation {
            let shown = expected.iter().find(|(cut, _)| *cut == violation.cut);
            let shown = shown.unwrap_or_else(|| panic!("seed {seed}: no consistent cut is shown"));
            assert_eq!(shown.1, Some(Verdict::Violated), "seed {seed} {property}");
        }
        if outcome.method == Method::Weights {
            found[worst as usize] += 1;
        }
    }
    // All verdicts occur often, by this method.
    assert!(found.iter().all(|count| *count > 500), "{found:?}");
}

/// Claims that compare one value of each of two nodes are decided by windows where the pairs are
/// too many to be judged one by one, which is here as soon as there is one.
#[test]
fn pairs_are_judged_by_windows() {
    let bodies = [
        "forall a, b in nodes where a != b: a.x <= b.y + 1",
        "forall a, b in nodes where a != b: not (a.x == 2 and b.x == 2 and a.y == b.y)",
        "forall a, b in nodes: a.x == 1 and b.x == 1 implies a.y == b.y",
        "forall s in server nodes, c in client nodes where s != c: s.x != c.y",
        "forall s in server nodes where s.x > 0: forall c in client nodes: s.x > c.y",
        "forall a, b in nodes where a != b: not (a.x == 2 and b.y == 2)",
        "forall a, b in all nodes where a != b and up(a): a.x < 2 or b.x >= 1",
        "forall a, b in nodes where a != b: a.x + a.y >= b.x - 1",
        "forall a, b in nodes where a != b: a.x <= b.y + 1 and a.y >= b.x - 1",
        "forall a, b in nodes where a != b: a.x > 0 implies not (a.y == b.y or a.x < b.x)",
        "forall a, b in nodes where a != b: a.x == b.x implies a.y <= b.y + 1",
        "forall a, b in nodes where a != b: a.x == b.y implies a.y == b.x",
        "forall a, b in nodes: a.x == b.x implies a.y < 2 and a.y >= b.y - 1",
    ];
    let (mut violated, mut windows) = (0, 0);
    for seed in 0..3_000 {
        let mut random = Random::new(seed);
        let scope = random.pick(&["", "when quiet", "when all quiet"]);
        let property = property(&format!("always \"p\" {scope}: {}", random.pick(&bodies)));
        let execution = execution(&mut random);
        let expected = all_cuts(&property, &execution);
        let worst = expected.iter().any(|(_, verdict)| *verdict == Some(Verdict::Violated));
        let rule = Rule::new(&property, &Library::new());
        let outcome = check_execution(&rule, &execution, Limits { cases_max: 0 });
        if outcome.method != Method::Windows {
            continue;
        }
        windows += 1;
        violated += u64::from(worst);
        let verdict = if worst { Verdict::Violated } else { Verdict::Holds };
        assert_eq!(outcome.verdict, verdict, "seed {seed} {property}");
        if let Some(violation) = outcome.violation {
            let shown = expected.iter().find(|(cut, _)| *cut == violation.cut);
            let shown = shown.unwrap_or_else(|| panic!("seed {seed}: no consistent cut is shown"));
            assert_eq!(shown.1, Some(Verdict::Violated), "seed {seed} {property}");
        }
    }
    // Most executions are decided in this way, and a fair share of them is violated.
    assert!(windows > 1_000 && violated > 200 && violated < windows - 200, "{windows} {violated}");
}

/// A request from `a` to `b`, and the state of both after it.
fn ping() -> Execution {
    let mut trace = TraceBuilder::new();
    let (a, b) = (trace.add_node("a", "client"), trace.add_node("b", "server"));
    trace.begin(a, EventKind::Start);
    trace.observe(Value::record([("clock", 1)]));
    trace.begin(b, EventKind::Start);
    trace.observe(Value::record([("clock", 1)]));
    trace.begin(a, EventKind::Local { name: "ask".into() });
    let message = trace.send(b, "Ping", None);
    trace.observe(Value::record([("clock", 2)]));
    trace.begin(b, EventKind::Deliver { message });
    trace.observe(Value::record([("clock", 2)]));
    trace.finish()
}

#[track_caller]
fn check(text: &str, method: Method, verdict: Verdict, witness: &str) {
    let rule = Rule::new(&property(text), &Library::new());
    let outcome = check_execution(&rule, &ping(), Limits::default());
    let shown = outcome.violation.map(|v| v.witness.to_string()).unwrap_or_default();
    assert_eq!((outcome.method, outcome.verdict, shown.as_str()), (method, verdict, witness));
}

#[test]
fn each_scope_has_its_states() {
    use Method::{Chains, Cuts, Deliveries, RecordedOrder, Tuples, Weights};
    use Verdict::{Holds, Violated};
    let equal = "forall n, m in nodes: n.clock == m.clock";
    check(
        &format!("always \"p\": {equal}"),
        Tuples,
        Violated,
        "n = a\nm = b\nn.clock = 2\nm.clock = 1\n",
    );
    check(&format!("always \"p\" when quiet: {equal}"), Tuples, Holds, "");
    check(
        "always \"p\" on delivery: sender.clock < receiver.clock",
        Deliveries,
        Violated,
        "sender = a\nreceiver = b\nsender.clock = 2\nreceiver.clock = 2\n",
    );
    check(
        "always \"p\" along chains: forall n in nodes: n.clock < 2",
        Chains,
        Violated,
        "n = a\nn.clock = 2\n",
    );
    check(
        "always \"p\": sum(n in nodes: n.clock) < 4",
        Weights,
        Violated,
        "sum(n in nodes: n.clock) = 4\n",
    );
    check("always \"p\": sum(n in nodes: n.clock) < 5", Weights, Holds, "");
    check("sometimes \"p\": sum(n in nodes: n.clock) == 4", Weights, Holds, "");
    check("always \"p\": max(n in nodes: n.clock) < 3", Cuts, Holds, "");
    check(
        "always \"p\": forall n in nodes: n.clock >= previous(n.clock)",
        RecordedOrder,
        Holds,
        "",
    );
}

/// The message of a delivery: its payload and its kind.
#[test]
fn the_message_of_a_delivery() {
    let mut trace = TraceBuilder::new();
    let (a, b) = (trace.add_node("a", ""), trace.add_node("b", ""));
    let mut term = |node: NodeId, kind: EventKind, term: i64| {
        trace.begin(node, kind);
        trace.observe(Value::record([("term", term)]));
        let to = if node == a { b } else { a };
        trace.send(to, "Vote", Some(Value::record([("term", term)])))
    };
    let local = || EventKind::Local { name: "step".into() };
    let first = term(a, local(), 3);
    term(b, EventKind::Deliver { message: first }, 2);
    let run = trace.finish();
    let check = |claim: &str| {
        let rule =
            Rule::new(&property(&format!("always \"p\" on delivery: {claim}")), &Library::new());
        assert!(rule.reads_delivery());
        check_execution(&rule, &run, Limits::default())
    };
    assert_eq!(check("message.term == sender.term").verdict, Verdict::Holds);
    assert_eq!(check("message_kind == \"Vote\"").verdict, Verdict::Holds);
    let wrong = check("message_kind == \"Vote\" implies message.term <= receiver.term");
    assert_eq!(wrong.verdict, Verdict::Violated);
    let shown = wrong.violation.map(|violation| violation.witness.to_string()).unwrap_or_default();
    assert!(shown.contains("message"), "{shown}");
}

#[test]
fn a_bound_is_unknown() {
    let rule =
        Rule::new(&property("always \"p\": forall n in nodes: n.clock < 9"), &Library::new());
    let outcome = check_execution(&rule, &ping(), Limits { cases_max: 2 });
    assert_eq!((outcome.verdict, outcome.bound), (Verdict::Unknown, Some(2)));
}

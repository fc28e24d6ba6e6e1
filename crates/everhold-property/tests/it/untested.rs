//! Claims that hold although nothing put them to the test.

use everhold_property::{Library, Limits, Rule, Value, Verdict, check_execution, parse, untested};
use everhold_trace::{EventKind, Execution, Order, TraceBuilder};

/// A server that asks twice and is answered once, and a client. Nobody ever has an item.
fn execution() -> Execution {
    let mut trace = TraceBuilder::new();
    let nodes = ["server", "client"].map(|kind| trace.add_node(kind, kind));
    let state = |role: &str, x: i64| {
        Value::record([
            ("role", Value::from(role)),
            ("x", Value::Int(x)),
            ("items", Value::List(Vec::new())),
            ("more", Value::List(Vec::new())),
        ])
    };
    for node in nodes {
        trace.begin(node, EventKind::Start);
        trace.observe(state("idle", 0));
    }
    for x in 1..4 {
        trace.begin(nodes[0], EventKind::Local { name: "ask".into() });
        trace.observe(state("asking", x));
        let message = trace.send(nodes[1], "Ask", None);
        trace.begin(nodes[1], EventKind::Deliver { message });
        trace.observe(state("idle", -x));
        trace.begin(nodes[0], EventKind::Local { name: "rest".into() });
        trace.observe(state("idle", x));
    }
    trace.finish()
}

#[track_caller]
fn check(claim: &str, expected: Option<&str>) {
    let execution = execution();
    let property = parse(claim).into_result().expect("it is a claim").remove(0);
    let rule = Rule::new(&property, &Library::new());
    let outcome = check_execution(&rule, &execution, Limits::default());
    assert_eq!(outcome.verdict, Verdict::Holds, "{claim}: {outcome:?}");
    let found = untested(&rule, &execution, &Order::of(&execution), &outcome);
    assert_eq!(found.map(|found| found.reason).as_deref(), expected, "{claim}");
}

#[test]
fn claims_with_a_case_are_tested() {
    check("always \"p\": forall n in nodes: n.role == \"asking\" implies n.x > 0", None);
    check(
        "always \"p\": forall n in nodes: n.role == \"asking\" leads to n.role == \"idle\"",
        None,
    );
    check("always \"p\" on delivery: sender.x >= receiver.x", None);
    check("always \"p\": forall n in nodes, i in 0..3: n.x < 9 - i", None);
}

#[test]
fn conditions_that_are_never_true() {
    let never = |text: &str| Some(format!("`{text}` is never true"));
    let claim = "always \"p\": forall n in nodes: n.role == \"gone\" implies n.x > 9";
    check(claim, never("n.role == \"gone\"").as_deref());
    let claim = "always \"p\": forall n in nodes: previous(n.x) > 7 implies n.x > 9";
    check(claim, Some("its conditions are never true together"));
    let claim = "always \"p\": forall n in nodes: n.role == \"asking\" and n.x < 0 implies n.x > 9";
    check(claim, Some("its conditions are never true together"));
    let claim = "always \"p\" on delivery: message_kind == \"Tell\" implies sender.x > 9";
    check(claim, Some("its conditions are never true together"));
}

#[test]
fn containers_without_elements() {
    let claim = "always \"p\": forall n in nodes, x in n.items: x > 9";
    check(claim, Some("`n.items` is always empty"));
    let claim = "always \"p\": forall n in nodes: n.x > -9 implies (forall x in n.items: x > 9)";
    check(claim, Some("its conditions are never true together"));
    let claim = "always \"p\": forall a in nodes, x in a.items: forall y in a.more: x != y";
    check(claim, Some("there is no combination of elements to judge"));
    check("always \"p\": forall n in nodes, i in 0..0: n.x > 9", {
        Some("there is no combination of elements to judge")
    });
}

#[test]
fn what_never_had_to_follow() {
    let claim =
        "always \"p\": forall n in nodes: n.role == \"gone\" leads to n.x > 9 within 3 steps";
    check(claim, Some("`n.role == \"gone\"` is never true"));
    let claim = "always \"p\": forall n in nodes: changed(n.x) and n.x > 7 leads to n.x > 9";
    check(claim, Some("`n.x > 7` is never true"));
    let claim = "always \"p\": (exists n in nodes: n.x > 7) leads to (exists n in nodes: n.x > 9)";
    check(claim, Some("`exists n in nodes: n.x > 7` is never true, so nothing had to follow"));
}

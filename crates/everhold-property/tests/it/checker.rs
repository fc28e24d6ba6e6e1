//! Properties over sequences: when they are violated, and what the violation shows.

use everhold_property::{
    Changed, Checker, End, Library, Member, NodeId, Rule, Snapshot, Value, parse, render_all,
};

use crate::eval::value;

fn rule(text: &str) -> Rule {
    let parsed = parse(text);
    assert!(parsed.diagnostics.is_empty(), "{}", render_all(&parsed.diagnostics, "test", text));
    Rule::new(&parsed.properties[0], &Library::new())
}

/// Runs a script of lines `time node value` (`!`: the node goes down, `tick`: time passes) over the
/// nodes `a` and `b`, and compares the outcome.
#[track_caller]
fn check(property: &str, script: &str, end: End, expected: &str) {
    let mut checker = Checker::new(&rule(property));
    run(&mut checker, script);
    let outcome = checker.finish(end);
    let actual = match &outcome.violation {
        Some(v) => format!("violated at {} ({}): {}", v.step, v.reason, v.witness),
        None => outcome.verdict.to_string(),
    };
    assert_eq!(actual.trim().replace('\n', "; "), expected, "{property}\n{script}");
}

/// Runs a script on a checker.
fn run(checker: &mut Checker, script: &str) {
    let mut state = Snapshot::new(vec![
        Member::new(NodeId(0), "a", "server"),
        Member::new(NodeId(1), "b", "client"),
    ]);
    for line in script.split(';').map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        let now = words[0].parse::<u64>().expect("a time") * 1_000_000_000;
        let node = NodeId(u32::from(words[1] == "b"));
        match words[1..] {
            ["tick"] => {
                checker.tick(&state, now);
                continue;
            }
            [_, "!"] => state.set_up(node, false),
            [_, text] => state.set(node, value(&state, text)),
            _ => panic!("{line}"),
        }
        checker.step(&state, Changed::Node(node), now);
    }
}

/// A condition before `leads to` says from when on something is due, and `once` looks back.
#[test]
fn forms_that_stand_for_others() {
    let down = "0 a {up: false, ask: true, got: false}; 5 a {up: false, ask: true, got: false}";
    let late = "0 a {up: true, ask: true, got: false}; 5 a {up: true, ask: true, got: false}";
    for claim in [
        "n.up implies (n.ask leads to n.got within 2s)",
        "not n.up or (n.ask leads to n.got within 2s)",
        "let asks = n.up and n.ask: asks leads to n.got within 2s",
    ] {
        let property = format!("always \"p\": forall n in server nodes: {claim}");
        check(&property, down, End::Cut, "holds");
        let mut checker = Checker::new(&rule(&property));
        run(&mut checker, late);
        assert!(checker.violation().is_some(), "{property}");
    }
    let once = "always \"p\": forall n in server nodes: n.got implies once(n.ask within 2 steps)";
    let asked = "0 a {ask: true}; 1 a {got: false}; 2 a {got: true}";
    check(once, asked, End::Cut, "holds");
    let mut checker = Checker::new(&rule(once));
    run(&mut checker, "0 a {ask: true}; 1 a {x: 1}; 2 a {x: 2}; 3 a {got: true, ask: false}");
    assert!(checker.violation().is_some());
    let steady = "always \"p\": forall n in server nodes: \
                  n.steady implies historically(n.x > 0 within 1 steps)";
    check(steady, "0 a {x: 1}; 1 a {x: 2, steady: true}", End::Cut, "holds");
    let choice = "always \"p\": forall n in server nodes: if n.on then n.x > 0 else n.x == 0";
    check(choice, "0 a {on: true, x: 1}; 1 a {on: false, x: 0}", End::Cut, "holds");
}

#[test]
fn always() {
    let property = "always \"p\": forall n in server nodes: n.x > 0";
    check(property, "", End::Complete, "unknown");
    check(property, "0 a {x: 1}; 1 a {x: 2}", End::Cut, "holds");
    check(property, "0 b {x: 1}", End::Cut, "unknown");
    check(
        property,
        "0 a {x: 1}; 1 a {x: 0}; 2 a {x: -1}",
        End::Cut,
        "violated at 1 (it is false): n = a; n.x = 0",
    );
    check(property, "0 a {x: 1}; 1 a !", End::Cut, "holds");
    let grows = "always \"grows\": forall n in nodes: n.x >= previous(n.x)";
    check(
        grows,
        "0 a {x: 3}; 0 b {x: 1}; 1 a {x: 3}; 2 b {x: 0}",
        End::Cut,
        "violated at 3 (it is false): n = b; n.x = 0; previous(n.x) = 1",
    );
}

#[test]
fn sometimes() {
    let property = "sometimes \"p\": exists n in nodes: n.x == 2";
    check(property, "0 a {x: 1}", End::Complete, "unknown");
    check(property, "0 a {x: 2}; 1 a {x: 1}", End::Cut, "holds");
}

#[test]
fn eventually_is_about_one_moment() {
    let property = "eventually \"p\" within 5s: forall n in server nodes: n.x == 1";
    check(property, "0 a {x: 0}; 5 a {x: 1}", End::Cut, "holds");
    check(property, "0 a {x: 1}; 3 a {x: 0}; 9 a {x: 2}; 20 tick", End::Complete, "holds");
    check(
        property,
        "0 a {x: 0}; 6 a {x: 1}",
        End::Cut,
        "violated at 1 (false from state 0 on, for too long):",
    );
    check(property, "0 a {x: 0}; 3 tick", End::Cut, "unknown");
    check(
        property,
        "0 a {x: 0}; 6 tick",
        End::Cut,
        "violated at 0 (the deadline passed): n = a; n.x = 0",
    );
    check(
        property,
        "0 a {x: 0}",
        End::Complete,
        "violated at 0 (the execution ended while it was still due):",
    );
    // The time starts at the first state in which the body is known.
    check(property, "0 b {x: 0}; 9 a {x: 0}; 12 a {x: 1}", End::Cut, "holds");
    check(property, "0 b {x: 0}", End::Complete, "unknown");
}

#[test]
fn finally_is_about_the_end() {
    let property = "finally \"p\" within 5s: forall n in server nodes: n.x == 1";
    check(property, "0 a {x: 0}; 5 a {x: 1}", End::Cut, "holds");
    check(
        property,
        "0 a {x: 0}; 6 a {x: 1}",
        End::Cut,
        "violated at 1 (false from state 0 on, for too long):",
    );
    check(
        property,
        "0 a {x: 1}; 3 a {x: 0}; 9 a {x: 2}",
        End::Cut,
        "violated at 2 (false from state 1 on, for too long): n = a; n.x = 2",
    );
    check(property, "0 a {x: 0}; 3 tick", End::Cut, "unknown");
    check(
        property,
        "0 a {x: 0}; 6 tick",
        End::Cut,
        "violated at 0 (the deadline passed): n = a; n.x = 0",
    );
    check(
        property,
        "0 a {x: 0}",
        End::Complete,
        "violated at 0 (the execution ended while it was still due):",
    );
    let steps = "finally \"p\" within 2 steps: forall n in server nodes: n.x == 1";
    check(steps, "0 a {x: 0}; 0 a {x: 2}; 0 a {x: 1}", End::Cut, "holds");
    check(
        steps,
        "0 a {x: 0}; 0 a {x: 2}; 0 a {x: 3}; 0 a {x: 4}",
        End::Cut,
        "violated at 3 (false from state 0 on, for too long): n = a; n.x = 4",
    );
    let unbounded = "finally \"p\": forall n in server nodes: n.x == 1";
    check(unbounded, "0 a {x: 0}; 9 a {x: 1}", End::Complete, "holds");
    check(unbounded, "0 a {x: 1}; 9 a {x: 0}", End::Cut, "unknown");
    check(
        unbounded,
        "0 a {x: 1}; 9 a {x: 0}",
        End::Complete,
        "violated at 1 (the execution ended while it was still due):",
    );
}

#[test]
fn leads_to() {
    let property = "always \"p\": forall n in nodes: n.asked leads to n.answered within 5s";
    let (asked, answered) = ("{asked: true, answered: false}", "{asked: false, answered: true}");
    check(property, &format!("0 a {asked}; 5 a {answered}"), End::Complete, "holds");
    check(property, &format!("0 a {asked}; 1 b {answered}"), End::Cut, "unknown");
    check(
        property,
        &format!("0 a {asked}; 1 b {answered}"),
        End::Complete,
        "violated at 1 (the execution ended while it was still due):",
    );
    check(
        property,
        &format!("0 b {asked}; 1 a {asked}; 2 b {answered}; 7 b {answered}"),
        End::Cut,
        "violated at 3 (the right side did not follow in time): n = a; n.asked = true; n.answered = false",
    );
    let closed =
        "always \"p\": (exists n in nodes: n.asked) leads to (exists n in nodes: n.answered)";
    check(closed, &format!("0 a {asked}; 5 a {answered}"), End::Complete, "holds");
    check(
        closed,
        &format!("0 a {asked}"),
        End::Complete,
        "violated at 0 (the execution ended while it was still due):",
    );
}

#[test]
fn deliveries() {
    let rule = rule("always \"p\" on delivery: sender.clock < receiver.clock");
    let mut checker = Checker::new(&rule);
    let (a, b) = (Member::new(NodeId(0), "a", "s"), Member::new(NodeId(1), "b", "s"));
    let clock = |at: i64| Value::record([("clock", at)]);
    checker.deliver((&b, Some(&clock(1))), (&a, Some(&clock(2))), 0);
    checker.deliver((&b, None), (&a, Some(&clock(2))), 0);
    assert!(checker.violation().is_none());
    checker.deliver((&b, Some(&clock(3))), (&a, Some(&clock(3))), 0);
    let outcome = checker.finish(End::Cut);
    let witness = outcome.violation.expect("clocks are equal").witness.to_string();
    assert_eq!(witness, "sender = b\nreceiver = a\nsender.clock = 3\nreceiver.clock = 3\n");
    assert_eq!((outcome.tally.holds, outcome.tally.unknown, outcome.tally.violated), (1, 1, 1));
}

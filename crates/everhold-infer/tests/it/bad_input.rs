//! Too little, too mixed or too odd to say anything: no confident line.

use everhold_infer::{Settings, always};
use everhold_trace::{EventKind, Execution, TraceBuilder, Value};

fn run(states: impl IntoIterator<Item = Value>) -> Execution {
    let mut trace = TraceBuilder::new();
    let nodes = [trace.add_node("a", ""), trace.add_node("b", "")];
    for (at, state) in states.into_iter().enumerate() {
        trace.begin(nodes[at % 2], EventKind::Local { name: "step".into() });
        trace.observe(state);
    }
    trace.finish()
}

#[track_caller]
fn check(run: &Execution, left_out: &[&str]) {
    let found = always(&[run], &Settings::default());
    assert_eq!(found.lines, [], "{:#?}", found.lines);
    let names: Vec<&str> = found.left_out.iter().map(|(name, _)| name.as_str()).collect();
    for name in left_out {
        assert!(names.contains(name), "{name}: {names:?}");
    }
}

#[test]
fn nothing_at_all() {
    check(&TraceBuilder::new().finish(), &[]);
    check(&run([]), &[]);
}

#[test]
fn one_state_only() {
    check(&run([Value::record([("x", 1), ("y", 2)])]), &["x", "y"]);
}

#[test]
fn no_variables_in_common() {
    let state = |at: i64| Value::record([(["p", "q"][(at % 2) as usize], at * 7 % 10)]);
    check(&run((0..40).map(state)), &[]);
}

#[test]
fn a_variable_that_changes_type() {
    let value = |at: i64| if at % 3 == 0 { Value::Int(at) } else { Value::Text(at.to_string()) };
    check(&run((0..40).map(|at| Value::record([("x", value(at))]))), &["x.x"]);
}

#[test]
fn not_a_number() {
    let value = |at: u32| if at.is_multiple_of(5) { f64::NAN } else { f64::from(at) };
    check(&run((0..40).map(|at| Value::record([("x", value(at)), ("y", 1.0)]))), &["x", "y"]);
}

/// Nothing is in the empty set, and that is no evidence for anything.
#[test]
fn empty_containers() {
    let empty = Value::Set(Default::default());
    let state = |at: i64| {
        Value::record([("none", empty.clone()), ("x", (at * 7 % 23).into()), ("gone", Value::Null)])
    };
    check(&run((0..60).map(state)), &["none"]);
}

/// Noise of any kind gives no line: 20 seeds of 6 variables, at most 1 in 100 may be a mistake.
#[test]
fn noise() {
    let mut mistakes = 0;
    for seed in 0..20 {
        let mut random = crate::random::Random(seed);
        let names = ["a", "b", "c", "d", "e", "f"];
        let states: Vec<Value> = (0..120)
            .map(|_| Value::record(names.map(|name| (name, random.below(40) as i64))))
            .collect();
        mistakes += always(&[&run(states)], &Settings::default()).lines.len();
    }
    assert!(mistakes <= 1, "{mistakes} lines about noise");
}

#[test]
fn programs_mixed() {
    let one = run((0..30).map(|at: i64| Value::record([("x", at * 3 % 17)])));
    let two = run((0..30).map(|at: i64| Value::record([("y", at * 5 % 13)])));
    let found = always(&[&one, &two], &Settings::default());
    assert_eq!(found.lines, [], "{:#?}", found.lines);
}

#[test]
fn huge_sets() {
    let state = |at: i64| Value::record([("big", Value::set((0..at * 100).map(|i| i * 7)))]);
    let found = always(&[&run((1..60).map(state))], &Settings::default());
    // They only grow, which is the one thing to say.
    for line in &found.lines {
        assert!(line.property.name.contains("before"), "{:?}", line.property.name);
    }
}

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

/// No line, and these variables are left out with a reason.
#[track_caller]
fn check(what: &str, runs: &[Execution], left_out: &[&str]) {
    let runs: Vec<&Execution> = runs.iter().collect();
    let found = always(&runs, &Settings::default());
    assert_eq!(found.lines, [], "{what}: {:#?}", found.lines);
    let names: Vec<&str> = found.left_out.iter().map(|left| left.variable.as_str()).collect();
    for name in left_out {
        assert!(names.contains(name), "{what}: {name}: {names:?}");
    }
}

/// A state of some variables, by the number of the step.
fn states<const N: usize>(
    count: i64,
    state: impl Fn(i64) -> [(&'static str, Value); N],
) -> [Execution; 1] {
    [run((0..count).map(|at| Value::record(state(at))))]
}

#[test]
fn no_confident_line() {
    let int = |value: i64| Value::Int(value);
    let text_or_int = |at: i64| if at % 3 == 0 { int(at) } else { Value::Text(at.to_string()) };
    let nan_or_float = |at: i64| if at % 5 == 0 { f64::NAN } else { at as f64 }.into();
    let none = || Value::Set(Default::default());
    check("nothing at all", &[TraceBuilder::new().finish()], &[]);
    check("no events", &[run([])], &[]);
    check("one state only", &states(1, |_| [("x", int(1)), ("y", int(2))]), &["x", "y"]);
    check("the same state again", &states(40, |_| [("x", int(1)), ("y", int(2))]), &["x", "y"]);
    check(
        "no variables in common",
        &states(40, |at| [(["p", "q"][(at % 2) as usize], int(at * 7 % 10))]),
        &[],
    );
    check("a variable that changes type", &states(40, |at| [("x", text_or_int(at))]), &["x"]);
    check("NaN", &states(40, |at| [("x", nan_or_float(at)), ("y", 1.0.into())]), &["x", "y"]);
    // Nothing is in the empty set, and that is no evidence for anything.
    let empty = |at: i64| [("none", none()), ("x", int(at * 7 % 23)), ("gone", Value::Null)];
    check("empty containers", &states(60, empty), &["none"]);
    let rarely = |at: i64| {
        [("few", if at == 9 { Value::set([1]) } else { none() }), ("x", int(at * 7 % 23))]
    };
    check("containers that are nearly always empty", &states(60, rarely), &[]);
    let [one] = states(30, |at| [("x", int(at * 3 % 17))]);
    let [two] = states(30, |at| [("y", int(at * 5 % 13))]);
    check("programs mixed", &[one, two], &[]);
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
fn huge_sets() {
    let state = |at: i64| Value::record([("big", Value::set((0..at * 100).map(|i| i * 7)))]);
    let found = always(&[&run((1..60).map(state))], &Settings::default());
    // All that can be said of sets that only grow is that they do.
    let names: Vec<&str> = found.lines.iter().map(|line| line.property.name.as_str()).collect();
    assert_eq!(names, ["n's big before is part of n's big"]);
}

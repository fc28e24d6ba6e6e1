//! Claims that the scatter of values would support and that say nothing; and those beside them that do.

use everhold_infer::{Hidden, Settings, always};
use everhold_property::print_expr;
use everhold_trace::{EventKind, Execution, TraceBuilder, Value};

use crate::random::Random;

/// Four nodes that take steps in any order; what each shows depends on what it keeps.
fn run<T: Default>(
    steps: u64,
    mut next: impl FnMut(&mut Random, usize, &mut T) -> Value,
) -> Execution {
    let mut random = Random(23);
    let mut trace = TraceBuilder::new();
    let nodes: Vec<_> = (0..4).map(|i| trace.add_node(&format!("n{i}"), "")).collect();
    let mut kept: Vec<T> = (0..4).map(|_| T::default()).collect();
    for step in 0..steps {
        let node = if step < 4 { step as usize } else { random.below(4) as usize };
        let state = next(&mut random, node, &mut kept[node]);
        trace.begin(nodes[node], EventKind::Local { name: "step".into() });
        trace.observe(state);
    }
    trace.finish()
}

/// The lines of an execution.
fn lines(execution: &Execution) -> Vec<String> {
    let found = always(&[execution], &Settings::default().lines_max(1_000));
    found.lines.iter().map(|line| print_expr(&line.property.body)).collect()
}

#[track_caller]
fn check(execution: &Execution, wanted: &[&str], unwanted: &[&str]) {
    let lines = lines(execution);
    for wanted in wanted {
        assert!(lines.iter().any(|line| line == wanted), "{wanted}\n{lines:#?}");
    }
    for word in unwanted {
        assert!(!lines.iter().any(|line| line.contains(word)), "{word}\n{lines:#?}");
    }
}

/// A copy that is stale in one update of two hundred: that two copies agree where two originals do
/// follows from the copies being mostly right.
#[test]
fn copies_that_are_stale_now_and_then() {
    let run = run(2_000, |random, _, (load, shadow): &mut (i64, i64)| {
        *load = random.below(40) as i64;
        if random.below(200) > 0 {
            *shadow = *load;
        }
        Value::record([("load", *load), ("shadow", *shadow)])
    });
    check(&run, &[], &["shadow"]);
}

/// Few updates do not exclude that one is missed now and then, and the reason says so.
#[test]
fn a_copy_that_was_seldom_updated() {
    let run = run(60, |random, _, (): &mut ()| {
        let load = random.below(40) as i64;
        Value::record([("load", load), ("shadow", load)])
    });
    let found = always(&[&run], &Settings::default());
    let own = |hidden: &&Hidden| print_expr(&hidden.property.body).contains("n.load == n.shadow");
    let hidden = found.hidden.iter().find(own).expect("it held");
    let reason = hidden.reason.to_string();
    let expected = "not enough evidence: `shadow` may be a copy of `load`, and ";
    assert!(reason.starts_with(expected), "{reason}");
}

/// The faster of two counters is ahead of the slower one for ever, in every role and by any size.
#[test]
fn counters_that_race() {
    let run = run(1_500, |random, _, (fast, slow, busy): &mut (i64, i64, bool)| {
        *fast += i64::from(random.below(2) == 0);
        *slow += i64::from(random.below(15) == 0);
        *busy ^= random.below(6) == 0;
        let items = (0..random.below(5)).map(|item| item as i64 + 10_000);
        Value::record([
            ("fast", Value::Int(*fast)),
            ("slow", Value::Int(*slow)),
            ("busy", (*busy).into()),
            ("items", Value::list(items)),
        ])
    });
    check(&run, &[], &["fast >= ", "slow <= ", "fast > ", "slow < "]);
}

/// Tasks are done by one node each: that is known of each task, and not of each moment. Whether a
/// counter is a task of another node is a question of speed alone.
#[test]
fn sets_that_only_grow() {
    let mut task = 0;
    let run = run(600, |random, _, (done, beats): &mut (Vec<i64>, i64)| {
        if random.below(2) == 0 {
            task += 1;
            done.push(task);
        }
        *beats += 3;
        Value::record([("done", Value::set(done.iter().copied())), ("beats", Value::Int(*beats))])
    });
    let apart = "forall a, b in nodes where a != b: a.done disjoint from b.done";
    check(&run, &[apart], &["beats not in", "beats in"]);
}

/// A flag that is set only while another one is: each time that it is set is a case.
#[test]
fn flags_within_a_node() {
    let run = run(600, |random, _, (held, busy): &mut (bool, bool)| {
        if *busy {
            *busy = false;
        } else if *held && random.below(2) == 0 {
            *busy = true;
        } else {
            *held = random.below(4) == 0;
        }
        Value::record([("held", *held), ("busy", *busy)])
    });
    check(&run, &["forall n in nodes: n.busy implies n.held"], &[]);
}

/// Who leads has three votes at least; the others have what they have.
#[test]
fn bounds_in_a_role() {
    let run = run(1_200, |random, _, (leads, votes): &mut (bool, i64)| {
        if *leads {
            if random.below(4) == 0 {
                (*leads, *votes) = (false, 0);
            } else if random.below(4) == 0 {
                *votes = (*votes + 1).min(5);
            }
        } else {
            *votes = random.below(4) as i64;
            *leads = *votes == 3;
        }
        let role = Value::from(if *leads { "leader" } else { "follower" });
        Value::record([("role", role), ("votes", Value::Int(*votes))])
    });
    check(&run, &[r#"forall n in nodes: n.role == "leader" implies n.votes >= 3"#], &[]);
}

/// That a number only grows is a line if something else is said of it, too.
#[test]
fn clocks_are_set_aside() {
    let run = run(900, |random, _, (clock, applied, commit): &mut (i64, i64, i64)| {
        *clock += i64::from(random.below(3) == 0);
        *commit += i64::from(random.below(2) == 0);
        if random.below(2) == 0 && applied < commit {
            *applied += 1;
        }
        Value::record([("clock", *clock), ("applied", *applied), ("commit", *commit)])
    });
    let wanted = [
        "forall n in nodes: n.applied <= n.commit",
        "forall n in nodes: previous(n.commit) <= n.commit",
    ];
    check(&run, &wanted, &["clock"]);
}

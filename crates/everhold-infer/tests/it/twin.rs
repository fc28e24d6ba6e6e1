//! Inferred properties hold by the evaluator of the language, and properties that hold are inferred.

use everhold_infer::{Always, Settings, Snapshots, always, always_snapshots};
use everhold_property::{
    Library, Limits, Property, Rule, Scope, Verdict, check_execution, parse, print,
};
use everhold_trace::Execution;
use everhold_trace::format::ReadOptions;
use everhold_trace::import::csv;

use crate::random::execution;

fn verdict(property: &Property, executions: &[&Execution]) -> Verdict {
    let rule = Rule::new(property, &Library::new());
    let one = |execution: &&Execution| check_execution(&rule, execution, Limits::default()).verdict;
    executions.iter().map(one).min().expect("there are executions")
}

/// Everything that is said to hold, shown or hidden, holds; and its text is read back as it is.
#[track_caller]
pub(crate) fn check_sound(found: &Always, executions: &[&Execution], hidden: usize) {
    let shown = found.lines.iter().map(|line| &line.property);
    // A sample of the hidden ones: there are thousands.
    let step = (found.hidden.len() / hidden.max(1)).max(1);
    let hidden = found.hidden.iter().step_by(step).map(|hidden| &hidden.property);
    for property in shown.chain(hidden) {
        let text = print(property);
        let read = parse(&text).into_result().unwrap_or_else(|e| panic!("{text}: {e:?}"));
        assert_eq!(&read[0], property, "{text}");
        assert_ne!(verdict(property, executions), Verdict::Violated, "{text}");
    }
    for line in &found.lines {
        assert_eq!(
            verdict(&line.property, executions),
            Verdict::Holds,
            "{}",
            print(&line.property)
        );
    }
}

#[test]
fn what_is_inferred_holds() {
    for seed in 0..4 {
        let runs: Vec<Execution> = (0..3).map(|run| execution(seed * 10 + run, 4, 70)).collect();
        let runs: Vec<&Execution> = runs.iter().collect();
        check_sound(&always(&runs, &Settings::default()), &runs, 150);
    }
}

/// Relations of two nodes, in all scopes: what holds is found, unless it never could be false.
#[test]
fn what_holds_is_inferred() {
    let relations = ["==", "<=", ">=", "<", ">"];
    let scopes = ["at every cut", "when quiet", "along chains"];
    for seed in 0..6 {
        let run = execution(seed, 3, 40);
        let settings = Settings::default().lines_max(usize::MAX);
        let found = always(&[&run], &settings);
        let known: Vec<String> = found
            .lines
            .iter()
            .map(|line| &line.property)
            .chain(found.hidden.iter().map(|hidden| &hidden.property))
            .map(|property| print(property).lines().skip(1).collect())
            .collect();
        for scope in scopes {
            for (x, y) in [("clock", "clock"), ("clock", "size"), ("size", "noise")] {
                for relation in relations {
                    let claim = format!(
                        "forall a, b in nodes where a != b: a.role == \"leader\" implies a.{x} {relation} b.{y}"
                    );
                    let text = format!("always \"t\" {scope}: {claim}");
                    let property = parse(&text).into_result().expect("it is well formed").remove(0);
                    let holds = verdict(&property, &[&run]) == Verdict::Holds;
                    let body: String = print(&property).lines().skip(1).collect();
                    // Scopes that hold less are named in the first line, which is not compared.
                    if holds {
                        let without = body.replace("a.role == \"leader\" implies ", "");
                        let mentions = known.contains(&body) || known.contains(&without);
                        assert!(mentions, "seed {seed}: {text}\n{known:#?}");
                    }
                }
            }
        }
    }
}

/// A table read straight into columns tells the same as its snapshots read as executions.
#[test]
fn tables_and_executions_tell_the_same() {
    let mut random = crate::random::Random(7);
    let mut text = String::from("snapshot,node,x,y,flag,noise\n");
    for snapshot in 0..150 {
        let common = random.below(40);
        for node in 0..3 {
            let y = common + random.below(5);
            let flag = u64::from(node == snapshot % 3);
            let x = common * flag + random.below(common + 1) * (1 - flag);
            text += &format!("{snapshot},n{node},{x},{y},{flag},{}\n", random.below(90));
        }
    }
    let ahead = "a.flag == 1 implies a.x >= b.x";
    check_table(&text, &[ahead]);
}

/// Bounds, sums and majorities, too.
#[test]
fn tables_tell_of_all_nodes_and_of_one_variable() {
    let mut random = crate::random::Random(9);
    let mut text = String::from("snapshot,node,level,share,high,mark\n");
    for snapshot in 0..120 {
        let (first, second) = (random.below(40), random.below(40));
        for (node, share) in [first, second, 100 - first - second].into_iter().enumerate() {
            let level = (random.below(25) as i64 - 8).clamp(0, 9);
            // One of the three, never the same for long, is below.
            let below = node as u64 == (snapshot * 7 + snapshot / 5) % 3;
            let high = if below { 0 } else { 31 + random.below(30) };
            let mark = 1 + random.below(30);
            text += &format!("{snapshot},n{node},{level},{share},{high},{mark}\n");
        }
    }
    let wanted = [
        "n.level <= 9",
        "n.level >= 0",
        "sum(n in nodes: n.share) == 100",
        "count(m in nodes: m.high >= n.mark) >= 2",
    ];
    check_table(&text, &wanted);
}

/// Read straight into columns and read as executions, it tells the same, among it these.
#[track_caller]
fn check_table(text: &str, wanted: &[&str]) {
    let table = Snapshots::read(text.as_bytes()).expect("it is a plain table");
    let fast = always_snapshots(&table, &Settings::default());
    let read = csv::read(text.as_bytes(), &ReadOptions::strict()).expect("it is a table");
    let executions: Vec<&Execution> = read.executions.iter().collect();
    let scopes = vec![Scope::EveryCut];
    let slow = always(&executions, &Settings::default().scopes(scopes));
    let claims = |found: &Always| -> Vec<String> {
        found.lines.iter().map(|line| print(&line.property)).collect()
    };
    assert_eq!(claims(&fast), claims(&slow));
    for wanted in wanted {
        let told = claims(&fast).iter().any(|claim| claim.contains(wanted));
        assert!(told, "{wanted}: {:#?}", claims(&fast));
    }
    check_sound(&fast, &executions, 20);
}

/// Rows side by side, node by node, tell the same as rows one by one, on any number of threads.
#[test]
fn the_layout_of_a_table_and_the_threads_change_nothing() {
    let table = |regular: bool| {
        let mut random = crate::random::Random(3);
        let mut text = String::from("snapshot,node,x,y,flag,noise\n");
        for snapshot in 0..9_000 {
            let common = random.below(500);
            let mut rows: Vec<String> = (0..3)
                .map(|node| {
                    let (y, flag) = (common + random.below(5), u64::from(node == snapshot % 3));
                    let x = common * flag + random.below(common + 1) * (1 - flag);
                    let noise = random.below(900);
                    // In one of the last snapshots a relation is false that holds elsewhere.
                    let y = if snapshot == 8_999 && node == 1 { 0 } else { y };
                    format!("{snapshot},n{node},{x},{y},{flag},{noise}\n")
                })
                .collect();
            if !regular && snapshot == 8_000 {
                rows.reverse();
            }
            text += &rows.concat();
        }
        Snapshots::read(text.as_bytes()).expect("it is a plain table")
    };
    let told = |regular: bool, threads: usize| {
        let settings = Settings::default().threads(threads);
        let found = always_snapshots(&table(regular), &settings);
        let lines: Vec<_> = found.lines.iter().map(|l| (print(&l.property), l.samples)).collect();
        let hidden: Vec<_> = found.hidden.iter().map(|h| print(&h.property)).collect();
        (lines, hidden)
    };
    let expected = told(true, 1);
    assert!(expected.0.iter().any(|(line, _)| line.contains("a.flag == 1 implies a.x >= b.x")));
    let everywhere = |(line, _): &(String, u64)| line.contains("nodes: n.x <= n.y");
    assert!(!expected.0.iter().any(everywhere), "{:#?}", expected.0);
    assert_eq!(told(true, 3), expected);
    // Evidence is counted on some of the rows, which are others in another order.
    let (lines, _) = told(false, 2);
    assert_eq!(lines, expected.0);
}

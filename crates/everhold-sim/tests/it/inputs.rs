//! The inputs of a search: weighted choices, setups that functions return, and budgets that the
//! environment raises.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use everhold_node::{Cx, Node, NodeId};
use everhold_sim::{Choice, Explorer, Reduction, Report, Schedule, Search, Setup, System};
use serde::Serialize;

use crate::place::Place;

/// The number of times that each option was taken.
type Taken = Arc<Mutex<BTreeMap<usize, u32>>>;

/// Chooses when it starts.
#[derive(Clone, Serialize)]
struct Chooser {
    weights: Vec<u32>,
    option: usize,
    #[serde(skip)]
    taken: Taken,
}

impl Chooser {
    fn new(weights: &[u32], taken: &Taken) -> Chooser {
        Chooser { weights: weights.to_vec(), option: 0, taken: Arc::clone(taken) }
    }
}

impl Node for Chooser {
    type Msg = u32;
    fn start(&mut self, cx: &mut Cx<u32>) {
        self.option = cx.choose_weighted("size", &self.weights);
        *self.taken.lock().unwrap().entry(self.option).or_default() += 1;
    }
    fn message(&mut self, cx: &mut Cx<u32>, _: NodeId, msg: u32) {
        cx.unexpected(msg);
    }
}

/// The same as an async program.
fn chooser(system: &mut System<u32>, weights: &[u32], taken: &Taken) {
    let (weights, taken) = (weights.to_vec(), Arc::clone(taken));
    system.spawn("chooser", move |cx| {
        let option = cx.choose_weighted("size", &weights);
        *taken.lock().unwrap().entry(option).or_default() += 1;
        async {}
    });
}

const WEIGHTS: [u32; 4] = [16, 0, 3, 1];

/// The options that a search took, and how often in a thousand.
fn shares(search: Search, in_async: bool) -> BTreeMap<usize, u32> {
    let taken = Taken::default();
    let counted = Arc::clone(&taken);
    let report = Explorer::new().executions(4_000).search(search).run(move |system| {
        if in_async {
            chooser(system, &WEIGHTS, &counted);
        } else {
            system.node("chooser", Chooser::new(&WEIGHTS, &counted));
        }
    });
    assert!(report.findings.is_empty(), "{report}");
    let taken = taken.lock().unwrap();
    let all: u32 = taken.values().sum();
    taken.iter().map(|(option, times)| (*option, times * 1_000 / all)).collect()
}

#[test]
fn options_come_as_often_as_their_weights_say() {
    let by_chance =
        [Search::Random, Search::Pct { depth: 2 }, Search::Pos, Search::Guided, Search::Portfolio];
    for search in by_chance {
        for in_async in [false, true] {
            let shares = shares(search.clone(), in_async);
            let options: Vec<usize> = shares.keys().copied().collect();
            assert_eq!(options, [0, 2, 3], "{search}: {shares:?}");
            // Guided executions inherit choices, so their shares are less exact.
            assert!((700..920).contains(&shares[&0]), "{search}: {shares:?}");
            assert!((5..100).contains(&shares[&3]), "{search}: {shares:?}");
        }
    }
    for reduction in [Reduction::None, Reduction::States, Reduction::Orders] {
        let shares = shares(Search::Exhaustive { reduction }, false);
        assert_eq!(shares.keys().copied().collect::<Vec<_>>(), [0, 2, 3], "{reduction:?}");
    }
}

/// Fails if the option is at least this.
fn at_least(weights: &'static [u32], least: usize) -> Setup<u32> {
    Box::new(move |system| {
        system.node("chooser", Chooser::new(weights, &Taken::default()));
        system.always("small", move |s| s.all::<Chooser>().all(|(_, c)| c.option < least));
    })
}

fn values(schedule: &Schedule) -> Vec<(u32, u32)> {
    let chosen = schedule.choices.iter().filter_map(|choice| match choice {
        Choice::Choose { domain, value, .. } => Some((*domain, *value)),
        _ => None,
    });
    chosen.collect()
}

#[test]
fn a_weighted_choice_is_recorded_replayed_and_shrunk_to_a_possible_option() {
    // Weights, the options that fail, and the value to which the finding is shrunk; none if that is
    // the default.
    let table: [(&[u32], usize, &[(u32, u32)]); 4] = [
        (&[100, 0, 0, 1, 1], 1, &[(5, 3)]),
        (&[100, 1, 1, 5], 2, &[(4, 2)]),
        (&[0, 1, 9], 1, &[]),
        (&[0, 0, 7], 2, &[]),
    ];
    for (weights, least, shrunk) in table {
        let explorer = Explorer::new().regressions(false);
        let report = explorer.clone().run(at_least(weights, least));
        let finding = report.finding().unwrap_or_else(|| panic!("{weights:?}: {report}"));
        assert_eq!(values(&finding.schedule), shrunk, "{weights:?}: {report}");
        let token = Schedule::parse(&finding.schedule.token()).expect("a token");
        let again = explorer.replay(token).run(at_least(weights, least));
        assert_eq!(again.finding().map(|f| &f.failure), Some(&finding.failure), "{weights:?}");
    }
}

#[test]
fn weights_without_a_possible_option_are_refused() {
    let told = |weights: &'static [u32]| -> Report {
        Explorer::new().executions(1).regressions(false).run(at_least(weights, 9))
    };
    let table: [(&[u32], &str); 3] = [
        (&[], "choose_weighted(\"size\") needs an option with a weight above 0"),
        (&[0, 0], "choose_weighted(\"size\") needs an option with a weight above 0"),
        (&[u32::MAX, 1], "the weights add up to 4294967296; use smaller ones"),
    ];
    for (weights, says) in table {
        let report = told(weights);
        let message = &report.finding().expect("a panic is a finding").failure.message;
        assert!(message.contains(says), "{weights:?}: {message}");
    }
}

#[test]
fn a_setup_can_be_returned_and_given_to_everything_that_takes_one() {
    assert!(everhold_sim::explore(at_least(&[1, 1], 2)).findings.is_empty());
    assert!(Explorer::new().attack(&[], at_least(&[1, 1], 2)).fell.is_empty());
}

/// Says which child a process runs.
const CHILD: &str = "EVERHOLD_TEST_SCALED";

/// Run in processes of its own; on its own it does nothing.
#[test]
fn scaled_child() {
    let Ok(child) = std::env::var(CHILD) else { return };
    let candidates = r#"
        always "small": forall n in nodes: n.option <= 3
        always "never 2": forall n in nodes: n.option != 2
    "#;
    let explorer = Explorer::new().regressions(false);
    let setup = at_least(&WEIGHTS, 4);
    match child.as_str() {
        "explore" => println!("{}", explorer.executions(30).run(setup).executions),
        "default" => println!("{}", explorer.run(setup).executions),
        "attack" => {
            let candidates = everhold_property::parse(candidates).into_result().expect("valid");
            let attack = explorer.executions(200).attack(&candidates, setup);
            println!("{} fell, {}", attack.fell.len(), attack.report.executions);
        }
        other => panic!("no such child: {other}"),
    }
}

#[test]
fn the_environment_raises_budgets_that_code_set() {
    let place = Place::new("scaled", "crates/everhold-sim/tests/it/inputs.rs");
    let seconds: (&str, &str) = ("EVERHOLD_SECONDS", "600");
    let executions = ("EVERHOLD_EXECUTIONS", "40");
    let table: [(&str, &str, &[(&str, &str)], &str); 8] = [
        ("explore", "1", &[], "\n30\n"),
        ("explore", "7", &[], "\n210\n"),
        ("explore", "7", &[seconds], "\n210\n"),
        ("default", "2", &[], "\n20000\n"),
        ("default", "1_0", &[executions], "\n400\n"),
        ("attack", "3", &[], "1 fell, 600\n"),
        (
            "explore",
            "0",
            &[],
            "EVERHOLD_SCALE=0 cannot multiply a budget; set it to a number from 1",
        ),
        ("explore", "ten", &[], "EVERHOLD_SCALE=ten is not a whole number"),
    ];
    for (child, scale, more, says) in table {
        let environment = [&[(CHILD, child), ("EVERHOLD_SCALE", scale)], more].concat();
        let output = place.run("inputs::scaled_child", &environment);
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed);
        assert!(printed.contains(says), "{environment:?}: {says} is not in\n{printed}");
    }
}

//! Setups that choose: generated inputs, sizes and settings, searched, replayed and shrunk like
//! other choices.

use everhold_node::{Cx, Node, NodeId};
use everhold_sim::{
    Choice, Explorer, Faults, Network, Reduction, Report, Schedule, Search, SimVerdict, Stop,
    System,
};
use serde::Serialize;

#[derive(Clone, Debug, Serialize, PartialEq)]
enum Op {
    Add(u32),
    Double,
    Clear,
}

/// Carries out the operations that it was made with, one message each.
#[derive(Clone, Serialize)]
struct Machine {
    todo: Vec<Op>,
    value: u32,
    done: u32,
}

impl Node for Machine {
    type Msg = u32;
    fn start(&mut self, cx: &mut Cx<u32>) {
        let me = cx.id();
        (0..self.todo.len() as u32).for_each(|at| cx.send(me, at));
    }
    fn message(&mut self, _: &mut Cx<u32>, _: NodeId, at: u32) {
        self.value = match self.todo[at as usize] {
            Op::Add(by) => self.value + by,
            Op::Double => self.value * 2,
            Op::Clear => 0,
        };
        self.done += 1;
    }
}

fn operation(system: &mut System<u32>) -> Op {
    match system.choose("operation", 3) {
        0 => Op::Clear,
        1 => Op::Add(1 + system.choose("by", 9) as u32),
        _ => Op::Double,
    }
}

/// Fails for values above 20 only, which take several operations.
fn machines(system: &mut System<u32>) {
    system.network(Network::Fifo);
    for _ in 0..=system.choose("more machines", 3) {
        let length = system.choose("operations", 7);
        let todo = (0..length).map(|_| operation(system)).collect();
        system.node("machine", Machine { todo, value: 0, done: 0 });
    }
    system.always("small", |s| s.all::<Machine>().all(|(_, machine)| machine.value <= 20));
}

fn choices(schedule: &Schedule) -> Vec<(String, u32)> {
    let chosen = |choice: &Choice| match choice {
        Choice::Choose { label, value, .. } => Some((label.clone(), *value)),
        _ => None,
    };
    schedule.choices.iter().filter_map(chosen).collect()
}

#[test]
fn generated_inputs_are_found_shrunk_and_replayed() {
    for seed in 0..5 {
        let explorer = Explorer::new().seed(seed).regressions(false);
        let report = explorer.clone().executions(10_000).run(machines);
        let finding = report.finding().unwrap_or_else(|| panic!("seed {seed}: {report}"));
        // Three operations are needed; of the other machines, at most empty ones before it are
        // left.
        let shrunk = &finding.schedule;
        assert!(shrunk.steps() <= 4, "seed {seed}: {shrunk:?}");
        let operations =
            choices(shrunk).iter().filter(|(label, _)| label == "setup: operation").count();
        assert!(operations <= shrunk.steps(), "seed {seed}: {shrunk:?}");
        assert!(finding.picture().contains("setup:operations:"), "{}", finding.picture());

        let token = finding.schedule.token();
        let again = explorer.replay(Schedule::parse(&token).unwrap()).run(machines);
        let replayed = again.finding().expect("it fails again");
        assert_eq!(replayed.failure.cause, finding.failure.cause);
        assert_eq!(choices(&replayed.schedule), choices(&finding.schedule));
    }
}

#[test]
fn what_is_found_does_not_depend_on_workers() {
    let search = |workers| {
        let explorer = Explorer::new().workers(workers).regressions(false).executions(3_000);
        let report = explorer.run(machines);
        report.finding().map(|finding| (finding.origin.execution, finding.schedule.token()))
    };
    let one = search(1);
    assert!(one.is_some());
    assert_eq!(one, search(2));
    assert_eq!(one, search(4));
}

/// Counts systems: every combination of two answers is a system of its own.
fn pairs(bad: Option<(u32, u32)>) -> impl Fn(&mut System<u32>) + Send + Sync {
    move |system| {
        let first = system.choose("first", 3) as u32;
        let second = system.choose("second", 4) as u32;
        let todo = vec![Op::Add(first), Op::Add(second)];
        system.node("machine", Machine { todo, value: 10 * first + second, done: 0 });
        system.always("not this pair", move |s| {
            s.all::<Machine>().all(|(_, m)| {
                m.done < 2
                    || bad.is_none_or(|(one, other)| m.todo != [Op::Add(one), Op::Add(other)])
            })
        });
    }
}

fn exhaustive(reduction: Reduction, bad: Option<(u32, u32)>) -> Report {
    let search = Search::Exhaustive { reduction };
    Explorer::new().search(search).regressions(false).run(pairs(bad))
}

#[test]
fn an_exhaustive_search_goes_through_every_answer() {
    for reduction in [Reduction::None, Reduction::States, Reduction::Auto, Reduction::Orders] {
        let report = exhaustive(reduction, None);
        assert_eq!(report.verdict(), SimVerdict::Holds, "{reduction:?}: {report}");
        assert!(report.executions >= 12, "{reduction:?}: {report}");
        for bad in [(0, 3), (2, 0), (2, 3)] {
            let report = exhaustive(reduction, Some(bad));
            assert!(report.finding().is_some(), "{reduction:?}, {bad:?}: {report}");
        }
    }
}

/// The node does not show which answer it was made with.
#[derive(Clone, Serialize)]
struct Secret {
    #[serde(skip)]
    secret: usize,
    told: bool,
    wrong: bool,
}

impl Node for Secret {
    type Msg = u32;
    fn start(&mut self, cx: &mut Cx<u32>) {
        cx.send(cx.id(), 1);
        cx.send(cx.id(), 1);
    }
    fn message(&mut self, _: &mut Cx<u32>, _: NodeId, _: u32) {
        self.wrong = self.told && self.secret == 2;
        self.told = true;
    }
}

#[test]
fn equal_states_of_different_systems_are_told_apart() {
    let search = Search::Exhaustive { reduction: Reduction::States };
    let report = Explorer::new().search(search).regressions(false).run(|system| {
        let secret = system.choose("secret", 3);
        system.node("secret", Secret { secret, told: false, wrong: false });
        system.always("right", |s| s.all::<Secret>().all(|(_, node)| !node.wrong));
    });
    assert!(report.finding().is_some(), "{report}");
}

/// Settings may be chosen too: faults, the network, clocks.
#[test]
fn faults_that_only_some_answers_allow_strike() {
    #[derive(Clone, Serialize)]
    struct Memory(u32);
    impl Node for Memory {
        type Msg = u32;
        fn start(&mut self, cx: &mut Cx<u32>) {
            cx.send(cx.id(), 1);
        }
        fn message(&mut self, _: &mut Cx<u32>, _: NodeId, _: u32) {
            self.0 += 1;
        }
        fn restart(&mut self, _: &mut Cx<u32>) {
            self.0 = 100;
        }
    }
    for search in [Search::Portfolio, Search::Pct { depth: 3 }, Search::Delay { delays: 2 }] {
        let explorer = Explorer::new().search(search.clone()).regressions(false);
        let report = explorer.executions(2_000).run(|system| {
            let crashes = system.choose("crashes", 2) as u32;
            system.faults(Faults::none().crash(crashes));
            system.node("memory", Memory(0));
            system.always("never crashed", |s| s.all::<Memory>().all(|(_, m)| m.0 < 100));
        });
        let finding = report.finding().unwrap_or_else(|| panic!("{search}: {report}"));
        assert_eq!(choices(&finding.schedule), [("setup: crashes".to_owned(), 1)]);
    }
}

#[test]
fn a_setup_that_panics_for_some_answers_is_a_finding_that_replays() {
    fn setup(system: &mut System<u32>) {
        let size = system.choose("size", 40);
        assert!(size < 30, "no system of size {size}");
        system.node("machine", Machine { todo: Vec::new(), value: 0, done: 0 });
    }
    let explorer = Explorer::new().regressions(false);
    let report = explorer.clone().executions(1_000).run(setup);
    let finding = report.finding().unwrap_or_else(|| panic!("{report}"));
    assert!(finding.failure.message.starts_with("in the setup closure: no system of size"));
    let again = explorer.replay(finding.schedule.clone()).run(setup);
    assert!(again.finding().is_some(), "{again}");
}

#[test]
fn properties_must_not_depend_on_answers() {
    let report = Explorer::new().executions(1_000).regressions(false).run(|system| {
        system.node("machine", Machine { todo: Vec::new(), value: 0, done: 0 });
        let name = if system.choose("which", 2) == 0 { "one" } else { "other" };
        system.always(name, |_| true);
    });
    let finding = report.finding().unwrap_or_else(|| panic!("{report}"));
    let told = &finding.failure.message;
    assert!(told.contains("must state the same properties whatever it chooses"), "{told}");
}

#[test]
fn other_setups_are_compared_as_before() {
    let report = Explorer::new().executions(500).regressions(false).run(|system| {
        let count = 1 + system.choose("count", 4);
        system.nodes("machine", count, |_| Machine { todo: vec![Op::Double], value: 1, done: 0 });
        system.finally("all done", |s| s.all::<Machine>().all(|(_, m)| m.done == 1));
        system.sometimes("four", |s| s.all::<Machine>().count() == 4);
    });
    assert_eq!(report.stop, Stop::Executions(500));
    report.assert_holds();
}

//! Two-phase commit as a Stateright model, after the TLA+ module `TwoPhase` of Gray and Lamport:
//! messages are a set that only grows, and reading a message does not remove it.

use std::collections::BTreeSet;

use stateright::{Checker, CheckerBuilder, Model, Property};

use crate::measure::Work;

/// The known numbers of unique states, by number of managers.
const KNOWN: [(usize, usize); 3] = [(3, 288), (5, 8_832), (7, 296_448)];

struct TwoPhase {
    managers: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    managers: Vec<Manager>,
    coordinator: Coordinator,
    /// For each manager, whether it has reported to the coordinator.
    prepared: Vec<bool>,
    sent: BTreeSet<Msg>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Manager {
    Working,
    Prepared,
    Committed,
    Aborted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Coordinator {
    Undecided,
    Committed,
    Aborted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Msg {
    Prepared(u8),
    Commit,
    Abort,
}

/// The actions of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Hears(u8),
    Commits,
    Aborts,
    Prepares(u8),
    GivesUp(u8),
    IsToldToCommit(u8),
    IsToldToAbort(u8),
}

impl Model for TwoPhase {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let count = usize::from(self.managers);
        vec![State {
            managers: vec![Manager::Working; count],
            coordinator: Coordinator::Undecided,
            prepared: vec![false; count],
            sent: BTreeSet::new(),
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        let undecided = state.coordinator == Coordinator::Undecided;
        if undecided {
            steps.push(Step::Aborts);
            if state.prepared.iter().all(|prepared| *prepared) {
                steps.push(Step::Commits);
            }
        }
        let (commit, abort) = (state.sent.contains(&Msg::Commit), state.sent.contains(&Msg::Abort));
        for manager in 0..self.managers {
            if undecided && state.sent.contains(&Msg::Prepared(manager)) {
                steps.push(Step::Hears(manager));
            }
            if state.managers[usize::from(manager)] == Manager::Working {
                steps.extend([Step::Prepares(manager), Step::GivesUp(manager)]);
            }
            if commit {
                steps.push(Step::IsToldToCommit(manager));
            }
            if abort {
                steps.push(Step::IsToldToAbort(manager));
            }
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        match step {
            Step::Hears(manager) => state.prepared[usize::from(manager)] = true,
            Step::Commits => {
                state.coordinator = Coordinator::Committed;
                state.sent.insert(Msg::Commit);
            }
            Step::Aborts => {
                state.coordinator = Coordinator::Aborted;
                state.sent.insert(Msg::Abort);
            }
            Step::Prepares(manager) => {
                state.managers[usize::from(manager)] = Manager::Prepared;
                state.sent.insert(Msg::Prepared(manager));
            }
            Step::IsToldToCommit(manager) => {
                state.managers[usize::from(manager)] = Manager::Committed;
            }
            Step::GivesUp(manager) | Step::IsToldToAbort(manager) => {
                state.managers[usize::from(manager)] = Manager::Aborted;
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no mixed outcome", |_, state| {
                !(any_is(state, Manager::Committed) && any_is(state, Manager::Aborted))
            }),
            Property::sometimes("all commit", |_, state| all_are(state, Manager::Committed)),
            Property::sometimes("all abort", |_, state| all_are(state, Manager::Aborted)),
        ]
    }
}

fn any_is(state: &State, manager: Manager) -> bool {
    state.managers.contains(&manager)
}

fn all_are(state: &State, manager: Manager) -> bool {
    state.managers.iter().all(|other| *other == manager)
}

pub(super) fn depth_first(managers: usize, times: u64) -> Work {
    repeat(managers, times, |builder| finish(managers, builder.spawn_dfs()))
}

pub(super) fn breadth_first(managers: usize, times: u64) -> Work {
    repeat(managers, times, |builder| finish(managers, builder.spawn_bfs()))
}

fn repeat(
    managers: usize,
    times: u64,
    check: impl Fn(CheckerBuilder<TwoPhase>) -> (usize, usize),
) -> Work {
    let mut work = Work::default();
    for _ in 0..times {
        let model = TwoPhase { managers: managers as u8 };
        let (generated, unique) = check(model.checker().threads(1));
        work.executions += 1;
        work.units += generated as u64;
        work.steps += unique as u64;
    }
    work
}

/// The numbers of generated and of unique states, after a complete search.
fn finish(managers: usize, checker: impl Checker<TwoPhase>) -> (usize, usize) {
    let checker = checker.join();
    checker.assert_properties();
    let unique = checker.unique_state_count();
    if let Some((_, known)) = KNOWN.iter().find(|(count, _)| *count == managers) {
        assert_eq!(unique, *known, "the model is the module");
    }
    (checker.state_count(), unique)
}

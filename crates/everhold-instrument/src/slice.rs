//! Slices: the variables that the network affects, and those that affect the network.

use std::collections::VecDeque;

use crate::facts::{Direction, Facts, VarId};

/// The variables that interact with the network, each with the way by which it does.
#[derive(Clone, Debug)]
pub struct Slices {
    forward: Vec<Option<Step>>,
    backward: Vec<Option<Step>>,
}

/// How a variable came into a slice.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// By a call that communicates, given by its number.
    Meet(usize),
    /// By a flow, given by its number.
    Flow(usize),
}

/// One step of the way from a variable to the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The construct: `assigned`, `argument of f`, `received by read`.
    pub how: String,
    /// The variable to which the step leads; `None` for the network.
    pub var: Option<VarId>,
    /// The file, as a number in [`Facts::files`].
    pub file: usize,
    /// The line.
    pub line: usize,
}

impl Slices {
    /// Computes the slices of a package.
    #[must_use]
    pub fn of(facts: &Facts) -> Slices {
        Slices { forward: slice(facts, Direction::In), backward: slice(facts, Direction::Out) }
    }

    /// Returns whether a variable is affected by what is received.
    #[must_use]
    pub fn is_affected(&self, var: VarId) -> bool {
        self.forward[var].is_some()
    }

    /// Returns whether a variable affects what is sent.
    #[must_use]
    pub fn affects(&self, var: VarId) -> bool {
        self.backward[var].is_some()
    }

    /// Returns whether a variable is one of the program's that interact with the network.
    #[must_use]
    pub fn interacts(&self, facts: &Facts, var: VarId) -> bool {
        let is_state = facts.vars[var].kind.is_named() && !facts.vars[var].is_handle;
        is_state && (self.is_affected(var) || self.affects(var))
    }

    /// Returns the shortest way from a variable to the network in this direction, if there is one.
    #[must_use]
    pub fn way(&self, facts: &Facts, var: VarId, direction: Direction) -> Vec<Hop> {
        let steps = match direction {
            Direction::In => &self.forward,
            Direction::Out => &self.backward,
        };
        let mut way = Vec::new();
        let mut at = var;
        while let Some(step) = steps[at] {
            match step {
                Step::Meet(number) => {
                    let meet = &facts.meets[number];
                    let word = if direction == Direction::In { "received by" } else { "sent by" };
                    let how = format!("{word} {}", meet.call);
                    way.push(Hop { how, var: None, file: meet.file, line: meet.line });
                    break;
                }
                Step::Flow(number) => {
                    let flow = &facts.flows[number];
                    at = if direction == Direction::In { flow.from } else { flow.to };
                    let (file, line) = (flow.file, flow.line);
                    way.push(Hop { how: flow.how.clone(), var: Some(at), file, line });
                }
            }
        }
        way
    }
}

/// Finds what is reachable from the calls of one direction, breadth first, so that ways are short.
fn slice(facts: &Facts, direction: Direction) -> Vec<Option<Step>> {
    let mut steps = vec![None; facts.vars.len()];
    let mut flows = vec![Vec::new(); facts.vars.len()];
    for (number, flow) in facts.flows.iter().enumerate() {
        let (near, far) = match direction {
            Direction::In => (flow.from, flow.to),
            Direction::Out => (flow.to, flow.from),
        };
        flows[near].push((number, far));
    }
    let mut waiting = VecDeque::new();
    for (number, meet) in facts.meets.iter().enumerate() {
        if meet.direction == direction && steps[meet.var].is_none() {
            steps[meet.var] = Some(Step::Meet(number));
            waiting.push_back(meet.var);
        }
    }
    while let Some(near) = waiting.pop_front() {
        for (number, far) in &flows[near] {
            if steps[*far].is_none() && !facts.vars[*far].is_handle {
                steps[*far] = Some(Step::Flow(*number));
                waiting.push_back(*far);
            }
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Flow, Kind, Meet, Var};

    #[track_caller]
    fn check(flows: &[(VarId, VarId)], received: &[VarId], sent: &[VarId], expected: &str) {
        let var = |at: usize| Var {
            name: format!("v{at}"),
            kind: Kind::Local,
            owner: String::new(),
            file: 0,
            line: 0,
            is_handle: at == 5,
            is_plain: false,
        };
        let flow =
            |&(from, to): &(VarId, VarId)| Flow { from, to, how: String::new(), file: 0, line: 0 };
        let meet = |direction| {
            move |&var: &VarId| Meet { var, direction, call: "call".to_owned(), file: 0, line: 0 }
        };
        let facts = Facts {
            vars: (0..6).map(var).collect(),
            flows: flows.iter().map(flow).collect(),
            meets: received
                .iter()
                .map(meet(Direction::In))
                .chain(sent.iter().map(meet(Direction::Out)))
                .collect(),
            ..Facts::default()
        };
        let slices = Slices::of(&facts);
        let show = |at: usize| {
            let hops = |direction| slices.way(&facts, at, direction).len();
            slices
                .interacts(&facts, at)
                .then(|| format!("v{at}:{}/{}", hops(Direction::In), hops(Direction::Out)))
        };
        let shown: Vec<String> = (0..6).filter_map(show).collect();
        assert_eq!(shown.join(" "), expected);
    }

    #[test]
    fn slices_follow_flows_and_ways_are_shortest() {
        check(&[(0, 1), (1, 2), (0, 2)], &[0], &[], "v0:1/0 v1:2/0 v2:2/0");
        check(&[(0, 1), (1, 2)], &[], &[2], "v0:0/3 v1:0/2 v2:0/1");
        check(&[(0, 1), (1, 0)], &[1], &[], "v0:2/0 v1:1/0");
        check(&[(0, 1), (2, 3)], &[0], &[3], "v0:1/0 v1:2/0 v2:0/2 v3:0/1");
        check(&[(0, 5), (5, 1)], &[0], &[], "v0:1/0");
        check(&[(0, 1)], &[], &[], "");
    }
}

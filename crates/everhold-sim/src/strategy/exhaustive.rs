//! Depth-first search through every execution, with two ways of leaving out equivalent ones.
//!
//! *States*: a state that was seen before is not continued from again.
//!
//! *Orders*: dynamic partial-order reduction after Flanagan and Godefroid (POPL 2005) with sleep
//! sets. Two steps are independent if they happen at different nodes and do not both notify a
//! monitor. After each step the last dependent step before it is looked up; if neither caused the
//! other, the search will also go back there and try them in the reverse order.
//!
//! Where we differ: a race is looked for when a step is executed, not for every step that could be
//! next. That is enough for executions that run to their end, since every possible step is executed
//! then, or made impossible by a step at the same node, and that is looked for too. An execution
//! that was cut off by a bound makes the search incomplete, and the report says so.

use std::fmt;

use everhold_node::disk::{DiskFault, Upset};
use everhold_node::{NodeId, Weights};

use crate::moves::Moves;
use crate::report::text::count;
use crate::strategy::{About, Done, Reduction, Run, Strategy, upset_of};

/// The coverage of an exhaustive search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExhaustiveProgress {
    /// The number of steps executed, not counting those repeated to get back to a branch.
    pub transitions: u64,
    /// The number of different states, when they are distinguished.
    pub states: u64,
    /// The number of executions cut short because their continuation was, or will be, seen
    /// elsewhere.
    pub pruned: u64,
    /// The length of the longest execution.
    pub depth: u32,
}

impl fmt::Display for ExhaustiveProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", count(self.transitions, "transition"))?;
        if self.states > 0 {
            write!(f, ", {}", count(self.states, "state"))?;
        }
        let pruned = count(self.pruned, "execution");
        write!(f, ", {pruned} cut short as equivalent, depth {}", self.depth)
    }
}

/// The search of every execution, one after the other.
#[derive(Debug)]
pub(crate) struct Exhaustive {
    reduction: Reduction,
    /// One for each choice of the present execution.
    frames: Vec<Frame>,
    /// The next choice to make.
    at: usize,
    steps: Vec<Step>,
    seen: Seen,
    progress: ExhaustiveProgress,
    fresh: bool,
    blocked: bool,
    /// The place of a question whose number of answers is unknown until the event is over.
    unbounded: Option<usize>,
}

#[derive(Debug)]
enum Frame {
    /// All of `domain` in order.
    Each { now: u32, domain: u32 },
    /// Only those moves that turn out to matter.
    Some(Box<Branch>),
}

/// A place where independent moves need not be tried in every order.
#[derive(Debug)]
struct Branch {
    moves: Vec<Candidate>,
    now: usize,
    sleep: Vec<Asleep>,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    id: u64,
    node: NodeId,
    wanted: bool,
    done: bool,
}

/// A move that was explored from an earlier place and is independent of all steps since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asleep {
    id: u64,
    node: NodeId,
    notifies: bool,
}

/// A step of the present execution, with the data for finding its races.
#[derive(Debug)]
struct Step {
    frame: usize,
    id: u64,
    node: NodeId,
    notifies: bool,
    born: u32,
    /// For each node the number of its steps that happened before this one, itself included.
    clock: Vec<u32>,
}

impl Exhaustive {
    /// A search with this reduction; `Auto` is taken for `States`.
    #[must_use]
    pub(crate) fn new(reduction: Reduction) -> Self {
        Exhaustive {
            reduction,
            frames: Vec::new(),
            at: 0,
            steps: Vec::new(),
            seen: Seen::default(),
            progress: ExhaustiveProgress::default(),
            fresh: false,
            blocked: false,
            unbounded: None,
        }
    }

    fn next(&mut self, domain: u32) -> u32 {
        if self.at == self.frames.len() {
            self.frames.push(Frame::Each { now: 0, domain });
            self.fresh = true;
        }
        let Frame::Each { now, .. } = self.frames[self.at] else {
            unreachable!("an answer is repeated where an answer was given")
        };
        self.at += 1;
        now
    }

    fn pick_reduced(&mut self, moves: &Moves) -> Option<u32> {
        if self.at == self.frames.len() {
            let branch = self.branch(moves)?;
            self.frames.push(Frame::Some(Box::new(branch)));
            self.fresh = true;
        }
        let Frame::Some(branch) = &self.frames[self.at] else {
            unreachable!("a pick is repeated where a pick was made")
        };
        let pick = branch.now as u32;
        let offered = moves.get(pick);
        debug_assert_eq!(offered.id, branch.moves[branch.now].id, "prefixes repeat exactly");
        self.begin_step(self.at, offered.id, offered.node, offered.born);
        self.at += 1;
        Some(pick)
    }

    /// A new place: starts with the first move that is not asleep, or ends if all are.
    fn branch(&mut self, moves: &Moves) -> Option<Branch> {
        let sleep = self.inherited_sleep();
        let candidate = |m: &crate::moves::Move| Candidate {
            id: m.id,
            node: m.node,
            wanted: false,
            done: false,
        };
        let mut all: Vec<Candidate> = moves.iter().map(candidate).collect();
        let awake = |c: &Candidate| sleep.iter().all(|asleep| asleep.id != c.id);
        let Some(now) = all.iter().position(awake) else {
            self.blocked = true;
            return None;
        };
        all[now].wanted = true;
        Some(Branch { moves: all, now, sleep })
    }

    /// The moves that sleep at the last place, or were explored there, and are independent of the
    /// last step.
    fn inherited_sleep(&self) -> Vec<Asleep> {
        let Some(last) = self.steps.last() else { return Vec::new() };
        let Frame::Some(branch) = &self.frames[last.frame] else { return Vec::new() };
        let independent =
            |asleep: &&Asleep| asleep.node != last.node && !(asleep.notifies && last.notifies);
        branch.sleep.iter().filter(independent).copied().collect()
    }

    fn begin_step(&mut self, frame: usize, id: u64, node: NodeId, born: u32) {
        self.steps.push(Step { frame, id, node, notifies: false, born, clock: Vec::new() });
    }

    /// Completes the last step's clock and requests the reverse order of every race that it is part
    /// of.
    fn close_step(&mut self, notifies: bool) {
        let k = self.steps.len() - 1;
        self.steps[k].notifies = notifies;
        let (node, born) = (self.steps[k].node, self.steps[k].born as usize);
        let same_node = self.steps[..k].iter().rposition(|step| step.node == node);
        let told = |step: &Step| notifies && step.notifies && step.node != node;
        let same_monitor = self.steps[..k].iter().rposition(told);
        let cause = born.checked_sub(1).filter(|cause| *cause < k);
        for racing in [same_node, same_monitor].into_iter().flatten() {
            let caused = cause.is_some_and(|cause| self.happens_before(racing, cause));
            let ordered = same_node
                .is_some_and(|before| before != racing && self.happens_before(racing, before));
            if !caused && !ordered {
                self.want_reversed(racing, k);
            }
        }
        let clock = self.clock_after(k, [same_node, same_monitor, cause]);
        self.steps[k].clock = clock;
    }

    /// Requests the moves of its node that the last step made impossible. They raced with it and
    /// will never be executed in this execution: a timer that was cancelled, a message that is
    /// refused now.
    fn want_disabled(&mut self, moves: &Moves) {
        let Some(last) = self.steps.last() else { return };
        let Frame::Some(branch) = &mut self.frames[last.frame] else { return };
        let now = branch.now;
        for (at, candidate) in branch.moves.iter_mut().enumerate() {
            let same_node = at != now && candidate.node == last.node;
            if same_node && !candidate.wanted && moves.iter().all(|m| m.id != candidate.id) {
                candidate.wanted = true;
            }
        }
    }

    fn clock_after(&self, k: usize, before: [Option<usize>; 3]) -> Vec<u32> {
        let mut clock: Vec<u32> = Vec::new();
        for step in before.into_iter().flatten() {
            let other = &self.steps[step].clock;
            clock.resize(clock.len().max(other.len()), 0);
            clock.iter_mut().zip(other).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
        }
        let node = self.steps[k].node.index();
        clock.resize(clock.len().max(node + 1), 0);
        clock[node] = self.number(k);
        clock
    }

    /// The number of a step among those of its node, counted from one.
    fn number(&self, k: usize) -> u32 {
        let node = self.steps[k].node;
        let before = self.steps[..k].iter().rfind(|step| step.node == node);
        before.map_or(1, |step| step.clock[node.index()] + 1)
    }

    fn happens_before(&self, a: usize, b: usize) -> bool {
        let node = self.steps[a].node.index();
        let number = self.steps[a].clock.get(node).copied().unwrap_or(0);
        a == b || self.steps[b].clock.get(node).is_some_and(|seen| *seen >= number)
    }

    /// Requests a move at the place of step `j` that leads to step `k` without `j`.
    fn want_reversed(&mut self, j: usize, k: usize) {
        let cause = (self.steps[k].born as usize).checked_sub(1);
        let leads = |l: usize| {
            l == k || cause.is_some_and(|cause| cause < k && self.happens_before(l, cause))
        };
        let initials: Vec<u64> =
            (j + 1..=k).filter(|l| leads(*l)).map(|l| self.steps[l].id).collect();
        let Frame::Some(branch) = &mut self.frames[self.steps[j].frame] else { return };
        let starts = |candidate: &&mut Candidate| initials.contains(&candidate.id);
        if branch.moves.iter_mut().filter(starts).any(|candidate| candidate.wanted) {
            return;
        }
        match branch.moves.iter_mut().find(|c| initials.contains(&c.id)) {
            Some(candidate) => candidate.wanted = true,
            // No move that was possible then leads here: to be safe, all of them are tried.
            None => branch.moves.iter_mut().for_each(|candidate| candidate.wanted = true),
        }
    }

    /// Goes on to the next alternative at the last place that has one.
    fn advance(&mut self) -> bool {
        let index = self.frames.len() - 1;
        match &mut self.frames[index] {
            Frame::Each { now, domain } => {
                *now += 1;
                now < domain
            }
            Frame::Some(_) => self.advance_branch(index),
        }
    }

    fn advance_branch(&mut self, index: usize) -> bool {
        let notifies =
            self.steps.iter().rfind(|step| step.frame == index).is_some_and(|step| step.notifies);
        let Frame::Some(branch) = &mut self.frames[index] else { return false };
        let finished = &mut branch.moves[branch.now];
        finished.done = true;
        branch.sleep.push(Asleep { id: finished.id, node: finished.node, notifies });
        let asleep = |id: u64| branch.sleep.iter().any(|asleep| asleep.id == id);
        let next = branch.moves.iter().position(|c| c.wanted && !c.done && !asleep(c.id));
        match next {
            Some(next) => branch.now = next,
            None => return false,
        }
        true
    }

    /// The progress of the search.
    #[must_use]
    pub(crate) fn progress(&self) -> ExhaustiveProgress {
        let states = if self.reduction == Reduction::States { self.seen.len as u64 } else { 0 };
        ExhaustiveProgress { states, ..self.progress }
    }
}

impl Strategy for Exhaustive {
    fn begin(&mut self, _: &Run) {
        self.rewind(0);
    }

    fn pick(&mut self, moves: &Moves, _: &dyn About) -> Option<u32> {
        self.fresh = self.at >= self.frames.len();
        match self.reduction {
            Reduction::Orders => self.pick_reduced(moves),
            Reduction::Auto | Reduction::None | Reduction::States => Some(self.next(moves.picks())),
        }
    }

    fn at_quiet(&mut self, moves: &Moves, _: &dyn About) -> Option<u32> {
        let awakening = moves.faults().awakening();
        if awakening == 0 {
            return None;
        }
        self.fresh = self.at >= self.frames.len();
        // Picking no fault is the first possibility.
        let fault = self.next(awakening + 1).checked_sub(1)?;
        Some(moves.len() + moves.faults().awaken(fault))
    }

    fn choose(&mut self, _: NodeId, _: &str, domain: u32) -> Option<u32> {
        Some(self.next(domain))
    }

    fn choose_weighted(&mut self, _: NodeId, _: &str, weights: Weights<'_>) -> Option<u32> {
        let number = self.next(weights.possible().count() as u32);
        weights.possible().nth(number as usize)
    }

    fn upset(&mut self, _: NodeId, faults: &[DiskFault]) -> Option<Upset> {
        let number = self.next(u32::MAX);
        self.unbounded = (number == 0).then_some(self.at - 1);
        upset_of(number, faults)
    }

    /// The event without a fault shows the number of operations that one could strike.
    fn disk_used(&mut self, operations: u32, faults: &[DiskFault], _: bool) {
        let Some(Frame::Each { domain, .. }) =
            self.unbounded.take().and_then(|at| self.frames.get_mut(at))
        else {
            return;
        };
        *domain = 1 + operations * faults.len() as u32;
    }

    fn after(&mut self, step: &Done, moves: &Moves) -> bool {
        // A step at which some earlier choice took another value is new even if its pick is not.
        let is_new = self.fresh || self.at == self.frames.len();
        self.progress.transitions += u64::from(is_new);
        self.progress.depth = self.progress.depth.max(step.depth);
        match self.reduction {
            Reduction::Orders => {
                self.close_step(step.notified);
                self.want_disabled(moves);
                true
            }
            Reduction::States | Reduction::Auto => {
                let goes_on = !is_new || self.seen.add(step.fingerprint);
                self.progress.pruned += u64::from(!goes_on);
                goes_on
            }
            Reduction::None => true,
        }
    }

    fn shared_prefix(&mut self) -> Option<usize> {
        self.progress.pruned += u64::from(std::mem::take(&mut self.blocked));
        while !self.frames.is_empty() {
            if self.advance() {
                return Some(self.frames.len() - 1);
            }
            self.frames.pop();
            let left = self.frames.len();
            self.steps.truncate(self.steps.partition_point(|step| step.frame < left));
        }
        None
    }

    fn rewind(&mut self, choices: usize) {
        self.at = choices;
        self.steps.truncate(self.steps.partition_point(|step| step.frame < choices));
    }

    fn progress(&self) -> Option<ExhaustiveProgress> {
        Some(Exhaustive::progress(self))
    }
}

/// A set of hashes with open addressing. It is only asked for membership, so its order never
/// matters.
#[derive(Debug)]
struct Seen {
    slots: Vec<u64>,
    len: usize,
}

impl Default for Seen {
    fn default() -> Self {
        Seen { slots: vec![0; 1 << 12], len: 0 }
    }
}

impl Seen {
    /// True if the hash is new.
    #[inline]
    fn add(&mut self, hash: u64) -> bool {
        // Zero marks an empty slot.
        let hash = hash.max(1);
        if self.len * 2 >= self.slots.len() {
            self.grow();
        }
        let new = insert(&mut self.slots, hash);
        self.len += usize::from(new);
        new
    }

    #[cold]
    fn grow(&mut self) {
        let mut slots = vec![0; self.slots.len() * 2];
        for hash in self.slots.drain(..).filter(|hash| *hash != 0) {
            insert(&mut slots, hash);
        }
        self.slots = slots;
    }
}

#[inline]
fn insert(slots: &mut [u64], hash: u64) -> bool {
    let mask = slots.len() - 1;
    let mut at = hash as usize & mask;
    while slots[at] != 0 {
        if slots[at] == hash {
            return false;
        }
        at = (at + 1) & mask;
    }
    slots[at] = hash;
    true
}

//! Every execution, depth first, on the calling thread. Going back to a branch restores a copy
//! of the world where its nodes can be copied, and runs the beginning again where not.

use std::sync::Arc;

use everhold_node::fingerprint::mix;
use everhold_node::{Message, NodeId, Process};

use crate::circles::{Circles, FAULT};
use crate::clock::Stopwatch;
use crate::differ::first_difference;
use crate::env::{Env, State};
use crate::execute::{Ended, blame, execute, judge_quiet, quietly};
use crate::explore::{Options, out_of_budget};
use crate::failure::{Cause, Failure};
use crate::fault::FaultKind;
use crate::investigate::{Replayer, investigate_safely, stuck_at};
use crate::properties::Properties;
use crate::report::{Report, Stop};
use crate::strategy::{Done, Exhaustive, ExhaustiveProgress, RawReplay, Reduction, Run};
use crate::stuck::{Seen, aside};
use crate::worker::{Failed, SharedSetup};
use crate::world::{Stepped, World, debtor_bit, number_of_beat};

/// The number of executions between two looks at the clock.
const CLOCK_ONE_IN: u64 = 256;
/// The number of circles, and of states of each, from which a fair tail is tried.
const CIRCLES_TRIED: usize = 8;

/// Runs every execution within the bounds, or stops at the first that fails. If a handler does not
/// return, the search is run again up to that handler, to learn what led to it, and then this
/// execution alone: it is a finding if the handler hangs there as well.
pub(crate) fn exhaust<M: Message>(
    setup: &SharedSetup<M>,
    options: &Options,
    reduction: Reduction,
    report: &mut Report,
) {
    let failed = if options.inline {
        search_all(setup, options, reduction, report, None)
    } else {
        let attempt = |suspect: Option<u64>| {
            let (setup, options, mut report) = (Arc::clone(setup), options.clone(), report.clone());
            aside(options.patience, move |seen| {
                let seen = Some((seen, suspect));
                let failed = search_all(&setup, &options, reduction, &mut report, seen);
                (report, failed)
            })
        };
        let done = match attempt(None) {
            Ok(done) => done,
            Err(seen) => match attempt(Some(number_of_beat(seen.beat()))) {
                Ok((done, failed)) => (Report { slow: done.slow + 1, ..done }, failed),
                Err(seen) => return judge_stuck(setup, options, &seen, report),
            },
        };
        *report = done.0;
        done.1
    };
    if let Some(failed) = failed {
        report.findings.push(investigate_safely(setup, &failed, options));
        report.stop = Stop::Found;
    }
}

/// Reports a handler that did not return, twice, if it does not return alone either.
fn judge_stuck<M: Message>(
    setup: &SharedSetup<M>,
    options: &Options,
    seen: &Seen,
    report: &mut Report,
) {
    let failed = Failed {
        index: 0,
        search: "exhaustive".to_owned(),
        seed: options.seed,
        failure: Failure { cause: Cause::Nondeterminism, message: String::new() },
        log: seen.witness().log.take().unwrap_or_default(),
        tail_at: None,
    };
    report.stop = Stop::Stalled { execution: 0 };
    if let Some(mut finding) = stuck_at(setup, failed, options) {
        finding.origin.execution = None;
        report.findings.push(finding);
        report.stop = Stop::Found;
    }
}

/// Lets others see what happens in a world, and learn what leads to a suspected handler.
fn show<M: Message>(world: &mut World<M>, seen: Option<(&Seen, Option<u64>)>) {
    match seen {
        Some((seen, Some(suspect))) => {
            seen.follow_closely(world);
            world.suspect = Some(suspect);
        }
        Some((seen, None)) => seen.follow(world),
        None => {}
    }
}

/// Runs every execution within the bounds; returns the first that fails.
fn search_all<M: Message>(
    setup: &SharedSetup<M>,
    options: &Options,
    reduction: Reduction,
    report: &mut Report,
    seen: Option<(&Seen, Option<u64>)>,
) -> Option<Failed> {
    if let Some(failed) = compare_one(setup, options, seen) {
        return Some(failed);
    }
    report.rechecked = 1;
    let mut world = World::new(setup);
    show(&mut world, seen);
    let reduction = supported(&world, reduction, report);
    world.env.borrow_mut().strategy = Box::new(Exhaustive::new(reduction));
    world.env.borrow_mut().hashing = reduction == Reduction::States;
    let hashing = reduction == Reduction::States;
    let goals = vec![false; world.goals().len()];
    let judged = vec![false; world.judged().len()];
    let (copies, spare) = (Vec::new(), Vec::new());
    let circles = (hashing && world.has_liveness()).then(Circles::new);
    world.env.borrow_mut().naming = circles.is_some();
    let mut search =
        DepthFirst { world, copies, spare, copyable: true, hashing, circles, goals, judged };
    report.search = format!("exhaustive, {}", name(reduction));
    report.workers = 1;
    let failed = search.run(options, report);
    report.exhaustive = search.progress();
    let circles = search.circles.take();
    {
        let env = search.world.env.borrow();
        (report.refused, report.fitted) = (env.refused, env.fitted);
        if env.partly_split && report.stop == Stop::Exhausted {
            report.stop = Stop::PartlySplit;
        }
    }
    let ended = matches!(report.stop, Stop::Exhausted | Stop::Steps(_) | Stop::PartlySplit);
    match circles.filter(|_| failed.is_none() && ended) {
        Some(circles) => {
            let debtors = search.world.debtors();
            drop(search);
            judge_circles(setup, options, &circles, &debtors, report, seen)
        }
        None => failed,
    }
}

/// Judges the circles in which a property stays owed: the first from which a fair tail does not get
/// away either is a failure. If there are only others, nobody knows.
fn judge_circles<M: Message>(
    setup: &SharedSetup<M>,
    options: &Options,
    circles: &Circles,
    debtors: &[(String, bool)],
    report: &mut Report,
    seen: Option<(&Seen, Option<u64>)>,
) -> Option<Failed> {
    let mut unjudged = debtors.first().filter(|_| circles.full).map(|(name, _)| name);
    for (at, (name, at_end)) in debtors.iter().enumerate() {
        let endless = circles.endless(debtor_bit(at), *at_end);
        let states = endless.iter().take(CIRCLES_TRIED);
        let mut states = states.flat_map(|circle| circle.iter().take(CIRCLES_TRIED));
        let failed = states.find_map(|state| stay(setup, options, circles.path_to(*state), seen));
        if let Some(failed) = failed {
            return Some(Failed { index: report.executions.saturating_sub(1), ..failed });
        }
        unjudged = unjudged.or_else(|| (!endless.is_empty()).then_some(name));
    }
    if let Some(property) = unjudged.filter(|_| report.stop == Stop::Exhausted) {
        report.stop = Stop::Unjudged { property: property.clone() };
    }
    None
}

/// Goes to a state and continues with a fair tail; returns the execution if it fails.
fn stay<M: Message>(
    setup: &SharedSetup<M>,
    options: &Options,
    path: Vec<u32>,
    seen: Option<(&Seen, Option<u64>)>,
) -> Option<Failed> {
    let mut world = World::new(setup);
    show(&mut world, seen);
    let tail_at = path.len();
    world.env.borrow_mut().strategy = Box::new(RawReplay::new(path, Some(tail_at)));
    let run = Run { seed: options.seed, steps: options.bounds.steps_max, ..Run::default() };
    let outcome = execute(&mut world, &run, options.bounds);
    let log = world.env.borrow().log.clone();
    Some(Failed {
        index: 0,
        search: "exhaustive, a circle of states".to_owned(),
        seed: options.seed,
        failure: outcome.failure?,
        log,
        tail_at: outcome.tail_at,
    })
}

/// Runs one execution twice, in worlds that the setup describes anew: a program that is not a
/// function of its schedule cannot be searched exhaustively.
fn compare_one<M: Message>(
    setup: &SharedSetup<M>,
    options: &Options,
    seen: Option<(&Seen, Option<u64>)>,
) -> Option<Failed> {
    let mut world = World::new(setup);
    show(&mut world, seen);
    let run = Run { seed: options.seed, steps: options.bounds.steps_max, ..Run::default() };
    let outcome = execute(&mut world, &run, options.bounds);
    let env = world.env.borrow();
    if outcome.failure.is_some() {
        return None;
    }
    let failed = Failed {
        index: 0,
        search: "compared before the search".to_owned(),
        seed: options.seed,
        failure: Failure { cause: Cause::Nondeterminism, message: String::new() },
        log: env.log.clone(),
        tail_at: outcome.tail_at,
    };
    let mut replayer = Replayer::new(setup, options.bounds).seen(seen.map(|(seen, _)| seen));
    let (_, first) = replayer.raw(&failed);
    let (_, second) = replayer.raw(&failed);
    first_difference(&first, &second)?;
    Some(failed)
}

fn name(reduction: Reduction) -> &'static str {
    match reduction {
        Reduction::Orders => "orders reduced",
        Reduction::States | Reduction::Auto => "states seen once",
        Reduction::None => "nothing left out",
    }
}

/// The reduction that is sound for this world. Faults, tied clocks, bounded channels and choices of
/// the setup make steps of different nodes depend on each other, so orders are not reduced then.
fn supported<M: Message>(world: &World<M>, reduction: Reduction, report: &mut Report) -> Reduction {
    let env = world.env.borrow();
    let rules = &env.rules;
    let chosen = world.variants.is_some();
    let tied = rules.faults.total() > 0 || rules.clocks.are_tied() || rules.bounded || chosen;
    if reduction == Reduction::Orders && tied {
        report.problems.push(
            "orders are not reduced with faults, tied clocks, bounded channels or a setup that \
             chooses; states are told apart instead"
                .to_owned(),
        );
        return Reduction::States;
    }
    reduction
}

struct DepthFirst<M: Message> {
    world: World<M>,
    /// Copies of the world at branches of the present execution, outermost first.
    copies: Vec<Copy<M>>,
    spare: Vec<Copy<M>>,
    copyable: bool,
    hashing: bool,
    /// The graph of states, where progress may be owed for ever.
    circles: Option<Circles>,
    /// Goals that were reached, and properties that were decided, before the world was put back.
    goals: Vec<bool>,
    judged: Vec<bool>,
}

/// The world at a branch.
struct Copy<M> {
    state: State<M>,
    processes: Vec<Box<dyn Process<M>>>,
    hashes: Vec<u64>,
    hash: u64,
    choices: usize,
    /// Its number in the graph of states.
    place: u32,
    open: Vec<bool>,
    properties: Option<Properties>,
    /// The nodes at which something happened since, as bits; all bits are set if there are many
    /// nodes.
    touched: u64,
}

/// The world before a step.
struct Began {
    /// The number of choices so far.
    choices: usize,
    /// The number of faults so far, by kind.
    faults: [u32; FaultKind::ALL.len()],
}

/// The way in which a path ended.
enum End {
    Leaf,
    Pruned,
    Bounded,
    Failed,
}

impl<M: Message> DepthFirst<M> {
    /// Runs all executions; returns the one that fails, if one does.
    fn run(&mut self, options: &Options, report: &mut Report) -> Option<Failed> {
        if let Err(panic) = quietly(|| self.search(options, report)) {
            report.executions += 1;
            blame(&mut self.world, panic);
            let undecided = self.world.env.borrow_mut().undecided.take();
            if let Some(undecided) = undecided {
                report.stop = Stop::Undecided { bound: undecided.bound.clone() };
                report.give_up(undecided);
            }
        }
        report.steps = self.progress().map_or(0, |progress| progress.transitions);
        self.keep_goals();
        report.expected.see(&self.world.kinds, &self.judged);
        for (goal, reached) in report.goals.iter_mut().zip(&self.goals) {
            goal.reached |= u64::from(*reached);
        }
        let failed = self.world.env.borrow().failure.is_some();
        failed.then(|| self.failed(options.seed, report.executions))
    }

    fn search(&mut self, options: &Options, report: &mut Report) {
        let watch = Stopwatch::start();
        let run = Run { seed: options.seed, steps: options.bounds.steps_max, ..Run::default() };
        self.world.env.borrow_mut().strategy.begin(&run);
        self.start(options.seed);
        loop {
            let end = self.walk(options.bounds.steps_max);
            self.count(&end, report);
            if matches!(end, End::Failed) {
                return;
            }
            if report.executions >= options.executions {
                report.stop = Stop::Executions(options.executions);
                return;
            }
            if report.executions.is_multiple_of(CLOCK_ONE_IN)
                && let Some(stop) = out_of_budget(options, watch)
            {
                report.stop = stop;
                return;
            }
            let next = self.world.env.borrow_mut().strategy.shared_prefix();
            let Some(choices) = next else { break };
            self.go_back(choices, options.seed);
        }
        let steps = Stop::Steps(options.bounds.steps_max);
        report.stop = if report.bounded == 0 { Stop::Exhausted } else { steps };
    }

    fn count(&self, end: &End, report: &mut Report) {
        report.executions += 1;
        if matches!(end, End::Bounded) {
            report.bounded += 1;
            if let Some(owed) = self.world.hot() {
                report.unjudged += 1;
                report.expected.unjudged.get_or_insert_with(|| owed.name().to_owned());
            }
        }
        if matches!(end, End::Leaf) {
            report.coverage.orders.add(self.world.env.borrow().state.partial_order());
        }
    }

    fn progress(&self) -> Option<ExhaustiveProgress> {
        self.world.env.borrow().strategy.progress()
    }

    /// Runs from the world's present state to the end of an execution.
    fn walk(&mut self, steps_max: u32) -> End {
        if self.world.env.borrow().failure.is_some() {
            return End::Failed;
        }
        loop {
            let env = self.world.env.borrow();
            if env.state.step >= steps_max {
                return End::Bounded;
            }
            let branches = env.state.moves.picks() > 1;
            let began = Began { choices: env.log.len(), faults: env.state.injected };
            drop(env);
            if branches && self.copyable {
                self.copy();
            }
            match self.world.step() {
                Stepped::At(node) => {
                    self.touch(node);
                    if !self.world.check() {
                        return End::Failed;
                    }
                    let fingerprint = if self.hashing { self.world.fingerprint() } else { 0 };
                    self.note(fingerprint, &began);
                    if !self.tell(fingerprint) {
                        return End::Pruned;
                    }
                }
                Stepped::Failed => return End::Failed,
                Stepped::Quiet if judge_quiet(&self.world) == Ended::Quiet => return End::Leaf,
                Stepped::Quiet => return End::Failed,
                Stepped::Ended => return End::Pruned,
            }
        }
    }

    fn tell(&mut self, fingerprint: u64) -> bool {
        let mut env = self.world.env.borrow_mut();
        let (notified, depth) = (env.touched_monitors, env.state.step);
        let done = Done { notified, fingerprint, depth };
        let Env { strategy, state, .. } = &mut *env;
        strategy.after(&done, &state.moves)
    }

    fn touch(&mut self, node: NodeId) {
        if let Some(copy) = self.copies.last_mut() {
            copy.touched |= if node.0 < u64::BITS { 1 << node.0 } else { u64::MAX };
        }
    }

    /// Copies the present world, unless it was just restored to this point.
    fn copy(&mut self) {
        let choices = self.world.env.borrow().log.len();
        if self.copies.last().is_some_and(|copy| copy.choices == choices) {
            return;
        }
        let mut copy = self.spare.pop().unwrap_or_else(Copy::empty);
        self.copyable = copy.take(&self.world, choices);
        if self.copyable {
            copy.place = self.circles.as_ref().map_or(0, |circles| circles.at);
            self.copies.push(copy);
        }
    }

    /// Puts the world back to the point at which the next alternative is to be tried.
    fn go_back(&mut self, choices: usize, seed: u64) {
        while self.copies.last().is_some_and(|copy| copy.choices > choices) {
            let inner = self.copies.pop().expect("it was just seen");
            if let Some(outer) = self.copies.last_mut() {
                outer.touched |= inner.touched;
            }
            self.spare.push(inner);
        }
        match self.copies.last() {
            Some(_) if self.copyable => {
                if self.world.properties.is_some() {
                    self.keep_goals();
                }
                let copy = self.copies.last_mut().expect("it was just seen");
                copy.restore(&mut self.world);
                let at = copy.choices;
                if let Some(circles) = &mut self.circles {
                    circles.at = copy.place;
                }
                let mut env = self.world.env.borrow_mut();
                env.strategy.rewind(at);
            }
            _ => {
                self.copies.clear();
                self.keep_goals();
                self.world.env.borrow_mut().strategy.rewind(0);
                self.start(seed);
            }
        }
    }

    /// Starts an execution from the beginning.
    fn start(&mut self, seed: u64) {
        self.world.start(seed);
        self.world.check();
        if let Some(circles) = &mut self.circles {
            let log = &self.world.env.borrow().log;
            circles.begin(self.world.fingerprint(), self.world.owed(), log);
        }
    }

    /// Adds a step to the graph of states. Its name is what was picked and what was chosen then.
    fn note(&mut self, fingerprint: u64, began: &Began) {
        let Some(circles) = &mut self.circles else { return };
        let env = self.world.env.borrow();
        let choices = &env.log[began.choices..];
        let picked = env.state.last_move;
        let name = if env.state.injected == began.faults {
            choices[1..].iter().fold(picked, |name, value| mix(name, u64::from(*value)))
        } else {
            FAULT
        };
        circles.go(fingerprint, self.world.owed(), name, choices);
    }

    /// Keeps the goals that were reached and the properties that were decided, because putting the
    /// world back forgets them.
    fn keep_goals(&mut self) {
        let reached = self.world.reached_goals();
        self.goals.iter_mut().zip(reached).for_each(|(goal, reached)| *goal |= reached);
        let judged = self.world.judged();
        self.judged.iter_mut().zip(judged).for_each(|(all, judged)| *all |= judged);
    }

    fn failed(&self, seed: u64, executions: u64) -> Failed {
        let env = self.world.env.borrow();
        Failed {
            index: executions - 1,
            search: "exhaustive".to_owned(),
            seed,
            failure: env.failure.clone().expect("the execution failed"),
            log: env.log.clone(),
            tail_at: None,
        }
    }
}

impl<M: Message> Copy<M> {
    fn empty() -> Self {
        Copy {
            state: State::empty(),
            processes: Vec::new(),
            hashes: Vec::new(),
            hash: 0,
            choices: 0,
            place: 0,
            open: Vec::new(),
            properties: None,
            touched: 0,
        }
    }

    /// Copies the world; false if some node cannot be copied.
    fn take(&mut self, world: &World<M>, choices: usize) -> bool {
        let env = world.env.borrow();
        self.state.copy_from(&env.state, None);
        self.processes.truncate(world.slots.len());
        for (at, slot) in world.slots.iter().enumerate() {
            if self.processes.get_mut(at).is_some_and(|copy| copy.copy_from(&*slot.process)) {
                continue;
            }
            let Some(process) = slot.process.fork() else { return false };
            match self.processes.get_mut(at) {
                Some(place) => *place = process,
                None => self.processes.push(process),
            }
        }
        self.hashes.clear();
        self.hashes.extend(world.slots.iter().map(|slot| slot.hash));
        (self.hash, self.choices, self.touched) = (world.hash, choices, 0);
        self.open.clone_from(&world.open);
        self.properties.clone_from(&world.properties);
        true
    }

    /// Puts the world back to this point; only the parts that were touched since are copied. Goals
    /// stay reached: an exhaustive search asks whether they are, not how often.
    fn restore(&mut self, world: &mut World<M>) {
        let mut env = world.env.borrow_mut();
        let added = world.slots.len() != self.processes.len();
        // Senders change the inboxes of tracked nodes, so those change without a step of their own.
        let tied = added || env.state.nodes.iter().any(|node| node.tracked);
        let all = tied || self.processes.len() > 64 || env.rules.clocks.are_tied();
        env.state.copy_from(&self.state, (!all).then_some(self.touched));
        env.log.truncate(self.choices);
        env.failure = None;
        world.slots.truncate(self.processes.len());
        world.names.truncate(self.processes.len());
        for (at, (slot, process)) in world.slots.iter_mut().zip(&self.processes).enumerate() {
            if all || (self.touched >> at) & 1 == 1 {
                let copied = slot.process.copy_from(&**process);
                debug_assert!(copied, "a node that was copied can be copied back");
                slot.hash = self.hashes[at];
            }
        }
        world.hash = self.hash;
        world.open.clone_from(&self.open);
        world.properties.clone_from(&self.properties);
        self.touched = 0;
    }
}

//! One execution from start to end.

use std::cell::RefCell;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::time::Duration;

use everhold_node::Message;

use crate::failure::{Cause, Failure};
use crate::halt::Halt;
use crate::liveness::Lasso;
use crate::moves::Moves;
use crate::report::text::count;
use crate::strategy::Run;
use crate::tail::periods;
use crate::world::{Stepped, World};

/// The bounds on the length of an execution. Reaching one is a named outcome, never "holds".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The largest number of steps under the strategy, not counting idle ticks (timers that send,
    /// notify and choose nothing). Systems with periodic timers never end by themselves; one in
    /// which every node has only ticked, 64 times, is taken to have ended. An exhaustive search
    /// counts every step.
    pub steps_max: u32,
    /// The smallest number of steps of the fair tail, which follows if progress is owed at the end.
    /// A monitor that stays hot for this long, and for 128 times the longest timer of virtual time
    /// (8 times for each node where that is more), is taken to stay hot for ever.
    pub temperature_max: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { steps_max: 1_000, temperature_max: 2_000 }
    }
}

/// A *round* is a stretch of an execution that ends in the state in which it began. One is accepted
/// as endless after `1/ROUND_PATIENCE` of the steps that are needed without a round, and after as
/// many repetitions as [`periods`] are needed otherwise: a system that makes progress only with
/// probability one may repeat a state for a while.
const ROUND_PATIENCE: u32 = 4;
/// Progress is not judged where the longest timer is so long that patience would take more than
/// this many times `temperature_max` steps (for at most four nodes; in proportion for more).
const PATIENCE_MAX: u32 = 128;

/// The number of periods of the longest timer for which a `finally` must stay true, and the number
/// of times `temperature_max` steps after which that is enough however long the timer is.
const CALM_PERIODS: u32 = 4;
const CALM_MAX: u32 = 2;
/// The number of times that a `finally` may become false again before its execution is given up,
/// if no state comes again.
const FLICKERS_MAX: u32 = 4;

/// The number of rounds of all timers with nothing but idle ticks after which an execution is over.
const SETTLED: u32 = 64;
/// The number of idle ticks that an execution may have for each step that counts.
const TICKS_MAX: u32 = 16;

/// How an execution ended.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) ended: Ended,
    pub(crate) steps: u32,
    pub(crate) failure: Option<Failure>,
    /// The choice at which the fair tail began.
    pub(crate) tail_at: Option<usize>,
    pub(crate) lasso: Option<(usize, usize)>,
    /// The bound of a checker that was reached.
    pub(crate) undecided: Option<Undecided>,
    /// The property of which nobody knows whether it would have become true.
    pub(crate) unjudged: Option<String>,
}

/// A checker that gave up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Undecided {
    /// The monitor that it is in.
    pub(crate) monitor: Option<String>,
    /// The monitor and the bound in words.
    pub(crate) bound: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Nothing more can happen.
    Quiet,
    /// The step bound was reached.
    Bounded,
    /// Only idle ticks happened for a long time.
    Settled,
    /// Progress was owed, and the longest timer is too long to wait for it.
    Unjudged,
    /// A checker reached its bound.
    Undecided,
    /// The strategy ended the execution: its schedule was over, or a state was seen before.
    Stopped,
    Failed,
}

/// Runs one execution with the strategy that is in the world.
pub(crate) fn execute<M: Message>(world: &mut World<M>, run: &Run, bounds: Bounds) -> Outcome {
    let mut execution = Execution::new(bounds);
    let result = quietly(|| {
        world.env.borrow_mut().strategy.begin(run);
        world.start(run.seed);
        world.check();
        execution.go(world)
    });
    let ended = match result {
        Ok(ended) => ended,
        Err(panic) => blame(world, panic),
    };
    let mut env = world.env.borrow_mut();
    let lasso = execution.lasso.and_then(|lasso| lasso.shortest);
    let (steps, failure) = (env.state.step, env.failure.take());
    env.failure.clone_from(&failure);
    let undecided = env.undecided.take();
    let Execution { tail_at, unjudged, .. } = execution;
    Outcome { ended, steps, failure, tail_at, lasso, undecided, unjudged }
}

struct Execution {
    bounds: Bounds,
    tail_at: Option<usize>,
    tail_steps: u32,
    /// Steps of the tail since nothing was owed.
    calm: u32,
    /// The time in the tail when something became owed, or ceased to be.
    since: f64,
    /// The number of times that something became owed again.
    flickers: u32,
    lasso: Option<Lasso>,
    /// The idle ticks so far, and those since the last step that was not one.
    ticks: u32,
    in_a_row: u32,
    unjudged: Option<String>,
}

impl Execution {
    fn new(bounds: Bounds) -> Self {
        Execution {
            bounds,
            tail_at: None,
            tail_steps: 0,
            calm: 0,
            since: 0.0,
            flickers: 0,
            lasso: None,
            ticks: 0,
            in_a_row: 0,
            unjudged: None,
        }
    }

    fn go<M: Message>(&mut self, world: &mut World<M>) -> Ended {
        if world.env.borrow().failure.is_some() {
            return Ended::Failed;
        }
        loop {
            if let Some(ended) = self.at_bound(world) {
                return ended;
            }
            match world.step() {
                Stepped::Failed => return Ended::Failed,
                Stepped::At(_) if world.check() => {}
                Stepped::At(_) => return Ended::Failed,
                Stepped::Quiet => return judge_quiet(world),
                Stepped::Ended if world.env.borrow_mut().strategy.wants_tail() => {
                    self.begin_tail(world);
                }
                Stepped::Ended => return Ended::Stopped,
            }
        }
    }

    /// Ends an execution that was long enough, or starts its fair tail if progress is owed.
    #[inline]
    fn at_bound<M: Message>(&mut self, world: &mut World<M>) -> Option<Ended> {
        if self.tail_at.is_some() {
            return self.in_tail(world);
        }
        let env = world.env.borrow();
        if env.was_idle_tick() {
            self.ticks += 1;
            self.in_a_row += 1;
        } else {
            self.in_a_row = 0;
        }
        let settled = self.in_a_row > 0 && self.is_settled(&env.state.moves);
        let steps_max = self.bounds.steps_max;
        let is_long = env.state.step - self.ticks >= steps_max
            || self.ticks >= steps_max.saturating_mul(TICKS_MAX);
        if !(is_long || settled) || env.strategy.is_replay() {
            return None;
        }
        drop(env);
        // A `finally` that is true now must stay true.
        if !world.has_liveness() || (world.hot().is_none() && !world.has_finally()) {
            return Some(if settled { Ended::Settled } else { Ended::Bounded });
        }
        self.begin_tail(world);
        None
    }

    /// Whether every timer ticked often enough without a consequence, and nothing else can happen.
    fn is_settled(&self, moves: &Moves) -> bool {
        moves.ready() == 0 && self.in_a_row >= SETTLED.saturating_mul(moves.idle().max(1))
    }

    fn begin_tail<M: Message>(&mut self, world: &mut World<M>) {
        let mut env = world.env.borrow_mut();
        self.tail_at = Some(env.log.len());
        env.begin_tail();
        drop(env);
        world.settle_all();
    }

    fn in_tail<M: Message>(&mut self, world: &mut World<M>) -> Option<Ended> {
        let Bounds { temperature_max, .. } = self.bounds;
        let is_hot = world.is_hot();
        if !is_hot && !world.has_finally() {
            return Some(Ended::Bounded);
        }
        self.tail_steps += 1;
        self.look_for_round(world);
        if !is_hot {
            return self.has_lasted(world).then_some(Ended::Bounded);
        }
        if std::mem::take(&mut self.calm) > 0 {
            self.flickers += 1;
            self.since = time_of(world);
        }
        let rounds = self.lasso.as_ref().map_or(0, |lasso| lasso.rounds);
        let enough = periods(world.slots.len());
        if rounds >= enough && self.tail_steps > temperature_max / ROUND_PATIENCE {
            return Some(self.owed(world, self.round(rounds)));
        }
        if self.tail_steps <= temperature_max {
            return None;
        }
        if self.flickers > FLICKERS_MAX && rounds == 0 {
            // True and false in turn, without a round: whether it ever becomes true for good is
            // unknown.
            return Some(self.unjudged(world));
        }
        self.at_patience(world, rounds, enough)
    }

    /// Whether nothing has been owed for so long that it is taken to last: a number of steps, and
    /// some periods of the longest timer, which may be the one that ends it.
    fn has_lasted<M: Message>(&mut self, world: &World<M>) -> bool {
        if self.calm == 0 {
            self.since = time_of(world);
        }
        self.calm += 1;
        let Bounds { temperature_max, .. } = self.bounds;
        let is_long = self.calm > temperature_max / ROUND_PATIENCE
            && world.env.borrow().is_long_tail(self.since, CALM_PERIODS);
        is_long || self.calm > temperature_max.saturating_mul(CALM_MAX)
    }

    /// The words for an execution that went round.
    fn round(&self, rounds: u32) -> String {
        if self.flickers > 1 { became_false(rounds) } else { went_round(rounds) }
    }

    fn unjudged<M: Message>(&mut self, world: &World<M>) -> Ended {
        self.unjudged = world.hot().map(|hot| hot.name().to_owned());
        Ended::Unjudged
    }

    /// Ends an execution in which progress was owed for so long that it is taken to be owed for
    /// ever, or that cannot be judged.
    fn at_patience<M: Message>(
        &mut self,
        world: &World<M>,
        rounds: u32,
        enough: u32,
    ) -> Option<Ended> {
        let nodes = u32::try_from(world.slots.len()).unwrap_or(u32::MAX);
        if world.env.borrow().is_long_tail(self.since, enough) {
            let message = if rounds > 0 { self.round(rounds) } else { self.out_of_patience(world) };
            return Some(self.owed(world, message));
        }
        let most = self.bounds.temperature_max.saturating_mul(PATIENCE_MAX);
        let at_most = self.tail_steps > most.saturating_mul((nodes / 4).max(1));
        at_most.then(|| self.unjudged(world))
    }

    /// Compares states, from the start of the tail if the execution is recorded for a picture.
    /// Rounds count only from a later step on, in either case: findings must not depend on
    /// recording.
    fn look_for_round<M: Message>(&mut self, world: &mut World<M>) {
        let counted_from = self.bounds.temperature_max / (2 * ROUND_PATIENCE);
        if self.tail_steps == counted_from.max(1) {
            let shortest = self.lasso.take().and_then(|lasso| lasso.shortest);
            self.begin_lasso(world);
            if let Some(lasso) = &mut self.lasso {
                lasso.shortest = shortest;
            }
        } else if self.tail_steps == 1 && world.env.borrow().recorder.is_some() {
            self.begin_lasso(world);
        }
        if let Some(lasso) = &mut self.lasso {
            lasso.look(world);
        }
    }

    fn begin_lasso<M: Message>(&mut self, world: &mut World<M>) {
        self.lasso = world.is_transparent().then(Lasso::default);
        if self.lasso.is_some() {
            world.begin_hashing();
        }
    }

    fn owed<M: Message>(&self, world: &World<M>, message: String) -> Ended {
        let hot = world.hot().expect("progress is owed");
        fail(world, hot, message)
    }

    fn out_of_patience<M: Message>(&self, world: &World<M>) -> String {
        let env = world.env.borrow();
        let tail = env.tail.as_ref().expect("the tail has begun");
        let time = Duration::from_nanos(tail.time as u64);
        let longest = Duration::from_nanos(tail.longest);
        let timers = match tail.longest {
            0 => String::new(),
            _ => format!(" (the longest timer takes {longest:.1?})"),
        };
        format!(
            "patience ended: still owed after {} without faults and {time:.1?} of virtual \
             time{timers}; no state came again, so the system may only be slow",
            count(u64::from(self.tail_steps - 1), "fair step")
        )
    }
}

/// The time in the fair tail.
fn time_of<M: Message>(world: &World<M>) -> f64 {
    world.env.borrow().tail.as_ref().map_or(0.0, |tail| tail.time)
}

fn went_round(rounds: u32) -> String {
    format!(
        "still owed, and the system went round {rounds} times: the same state came again, with the \
         same messages under way and the same time left on every timer, after everything that could \
         happen had happened"
    )
}

fn became_false(rounds: u32) -> String {
    format!(
        "true at times, but false again and again: the system went round {rounds} times through the \
         same state in which it is false"
    )
}

/// Judges an execution in which nothing more can happen: then nothing may be owed.
pub(crate) fn judge_quiet<M: Message>(world: &World<M>) -> Ended {
    if let Some((node, what)) = world.waiting() {
        let message = format!("nothing can happen any more, but at {} {what}", world.name_of(node));
        return fail(world, Cause::Deadlock(world.kind_of(node).to_owned()), message);
    }
    if let Some(hot) = world.hot() {
        let message = "still owed, but nothing can happen any more".to_owned();
        return fail(world, hot, message);
    }
    Ended::Quiet
}

fn fail<M: Message>(world: &World<M>, cause: Cause, message: String) -> Ended {
    world.env.borrow_mut().fail_with(Failure { cause, message });
    Ended::Failed
}

/// Turns a panic into a failure of the node, monitor or property in which it happened, and a bound
/// into the outcome that it stands for.
pub(crate) fn blame<M: Message>(world: &mut World<M>, panic: Panic) -> Ended {
    let property = world.panicking_property();
    let in_setup = world.variants.as_ref().is_some_and(|variants| variants.describing);
    let mut env = world.env.borrow_mut();
    let step = env.state.step;
    let monitor = env.in_monitor.take().map(|index| env.state.monitors[index].name.clone());
    let node = world.name_of(world.current);
    let failure = match (panic.halt, monitor, property) {
        (Some(Halt::Undecided(text)), monitor, _) => {
            let whose =
                monitor.as_ref().map(|name| format!("monitor \"{name}\": ")).unwrap_or_default();
            env.undecided = Some(Undecided { bound: format!("{whose}{text}"), monitor });
            return Ended::Undecided;
        }
        (Some(Halt::TooMuch(text)), ..) => Failure {
            cause: Cause::Flood(world.kind_of(world.current).to_owned()),
            message: format!("{node} {text} (step {step}); look for an endless loop there"),
        },
        (None, Some(name), _) => Failure { cause: Cause::Monitor(name), message: panic.message },
        (None, None, Some(name)) => Failure {
            cause: Cause::Panic(panic.place),
            message: format!("in the property \"{name}\": {}", panic.message),
        },
        (None, None, None) if in_setup => Failure {
            cause: Cause::Panic(panic.place),
            message: format!("in the setup closure: {}", panic.message),
        },
        (None, None, None) => Failure {
            cause: Cause::Panic(panic.place),
            message: format!("{node}: {}", panic.message),
        },
    };
    env.fail_with(failure);
    Ended::Failed
}

/// The message and the place of a panic.
#[derive(Clone, Debug, Default)]
pub struct Panic {
    /// The panic's message.
    pub message: String,
    /// The place in the source.
    pub place: String,
    /// The bound that was reached, if it was not a real panic.
    pub halt: Option<Halt>,
}

/// Whether panics on this thread are findings.
pub(crate) fn is_muted() -> bool {
    MUTED.with_borrow(Option::is_some)
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a panic at {}: {}", self.place, self.message)
    }
}

/// Does something outside the exploration itself that may fail; a panic counts as an error.
///
/// # Errors
///
/// The error of `body`, or its panic.
pub fn attempt<T>(what: &str, body: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    quietly(body).unwrap_or_else(|panic| Err(format!("{what} failed: {panic}")))
}

thread_local! {
    /// Set while a search runs on this thread: panics are findings, not noise.
    static MUTED: RefCell<Option<Panic>> = const { RefCell::new(None) };
}

/// Runs `body` with panics caught and not printed.
///
/// # Errors
///
/// The panic of `body`.
pub fn quietly<T>(body: impl FnOnce() -> T) -> Result<T, Panic> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let muted = MUTED.with_borrow_mut(|muted| {
                let Some(panic) = muted else { return false };
                panic.message =
                    info.payload_as_str().unwrap_or("a panic without a text").to_owned();
                panic.place = info.location().map(|at| short(&at.to_string())).unwrap_or_default();
                true
            });
            if !muted {
                usual(info);
            }
        }));
    });
    let outer = MUTED.replace(Some(Panic::default()));
    let result = panic::catch_unwind(AssertUnwindSafe(body));
    let panic = MUTED.replace(outer).unwrap_or_default();
    result.map_err(|payload| match Halt::of(&*payload) {
        Some(halt) => Panic { message: halt.text().to_owned(), halt: Some(halt), ..panic },
        None => panic,
    })
}

/// Shortens a place in another crate by the folder in which this machine keeps the crate, because
/// the place goes into files that are shared.
fn short(place: &str) -> String {
    let parts: Vec<&str> = place.split('/').collect();
    match parts.iter().rposition(|part| *part == "src") {
        Some(src) if place.starts_with('/') && src > 0 => parts[src - 1..].join("/"),
        _ => place.to_owned(),
    }
}

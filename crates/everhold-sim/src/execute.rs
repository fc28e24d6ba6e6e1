//! One execution from start to end.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use everhold_node::Message;

use crate::failure::{Cause, Failure};
use crate::liveness::Lasso;
use crate::strategy::Run;
use crate::world::{Stepped, World};

/// How long an execution may be. Reaching a bound is a named outcome, never "holds".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Steps under the strategy. Systems with periodic timers never end by themselves.
    pub steps_max: u32,
    /// Steps of the fair tail that follows if progress is owed then. A monitor that stays hot
    /// this long is taken to stay hot for ever.
    pub temperature_max: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { steps_max: 1_000, temperature_max: 2_000 }
    }
}

/// A round is believed after this share of the patience that is needed without one: a system that
/// makes progress only with probability one may go round fairly for a while.
const ROUND_PATIENCE: u32 = 4;

/// How an execution ended.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) ended: Ended,
    pub(crate) steps: u32,
    pub(crate) failure: Option<Failure>,
    /// The choice at which the fair tail began.
    pub(crate) tail_at: Option<usize>,
    pub(crate) lasso: Option<(usize, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Nothing more can happen.
    Quiet,
    /// The step bound was reached.
    Bounded,
    /// The strategy had enough: a schedule was over, a state was seen before.
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
        Err(panic) => {
            blame(world, panic);
            Ended::Failed
        }
    };
    let mut env = world.env.borrow_mut();
    let (steps, failure) = (env.state.step, env.failure.take());
    env.failure.clone_from(&failure);
    Outcome { ended, steps, failure, tail_at: execution.tail_at, lasso: execution.lasso_at }
}

struct Execution {
    bounds: Bounds,
    tail_at: Option<usize>,
    tail_steps: u32,
    lasso: Option<Lasso>,
    lasso_at: Option<(usize, usize)>,
}

impl Execution {
    fn new(bounds: Bounds) -> Self {
        Execution { bounds, tail_at: None, tail_steps: 0, lasso: None, lasso_at: None }
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
        if env.state.step < self.bounds.steps_max || env.strategy.is_replay() {
            return None;
        }
        drop(env);
        if !world.has_liveness() || world.hot().is_none() {
            return Some(Ended::Bounded);
        }
        self.begin_tail(world);
        None
    }

    fn begin_tail<M: Message>(&mut self, world: &mut World<M>) {
        let mut env = world.env.borrow_mut();
        self.tail_at = Some(env.log.len());
        env.begin_tail();
        drop(env);
        world.settle_all();
        self.lasso = world.is_transparent().then(Lasso::default);
        if self.lasso.is_some() {
            world.begin_hashing();
        }
    }

    fn in_tail<M: Message>(&mut self, world: &mut World<M>) -> Option<Ended> {
        let Some(hot) = world.hot() else { return Some(Ended::Bounded) };
        self.tail_steps += 1;
        let round = self.lasso.as_mut().and_then(|lasso| lasso.look(world));
        // The shortest round is the easiest to follow.
        self.lasso_at = self.lasso_at.into_iter().chain(round).min_by_key(|(from, to)| to - from);
        let patient = self.tail_steps > self.bounds.temperature_max / ROUND_PATIENCE;
        if let Some((from, to)) = self.lasso_at.filter(|_| patient) {
            let message = format!(
                "still owed after the system went round from step {from} to step {to} and \
                 everything that could happen did"
            );
            return Some(fail(world, Cause::Liveness(hot), message));
        }
        if self.tail_steps > self.bounds.temperature_max {
            let steps = self.bounds.temperature_max;
            let message = format!("still owed after {steps} fair steps without faults");
            return Some(fail(world, Cause::Liveness(hot), message));
        }
        None
    }
}

/// Nothing can happen: then nothing may be owed.
pub(crate) fn judge_quiet<M: Message>(world: &World<M>) -> Ended {
    if let Some((node, what)) = world.waiting() {
        let message = format!("nothing can happen any more, but at {} {what}", world.name_of(node));
        return fail(world, Cause::Deadlock(world.kind_of(node).to_owned()), message);
    }
    if let Some(hot) = world.hot() {
        let message = "still owed, but nothing can happen any more".to_owned();
        return fail(world, Cause::Liveness(hot), message);
    }
    Ended::Quiet
}

fn fail<M: Message>(world: &World<M>, cause: Cause, message: String) -> Ended {
    world.env.borrow_mut().fail_with(Failure { cause, message });
    Ended::Failed
}

/// Turns a panic into a failure of the node or monitor in which it happened.
pub(crate) fn blame<M: Message>(world: &World<M>, panic: Panic) {
    let mut env = world.env.borrow_mut();
    let failure = match env.in_monitor.take() {
        Some(index) => Failure {
            cause: Cause::Monitor(env.state.monitors[index].name.clone()),
            message: panic.message,
        },
        None => Failure {
            cause: Cause::Panic(panic.place),
            message: format!("{}: {}", world.name_of(world.current), panic.message),
        },
    };
    env.fail_with(failure);
}

/// What a panic said and where.
#[derive(Clone, Debug, Default)]
pub(crate) struct Panic {
    pub(crate) message: String,
    pub(crate) place: String,
}

thread_local! {
    /// Set while a search runs on this thread: panics are findings, not noise.
    static MUTED: RefCell<Option<Panic>> = const { RefCell::new(None) };
}

/// Runs `body` with panics caught and not printed.
pub(crate) fn quietly<T>(body: impl FnOnce() -> T) -> Result<T, Panic> {
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
    MUTED.set(Some(Panic::default()));
    let result = panic::catch_unwind(AssertUnwindSafe(body));
    let panic = MUTED.take().unwrap_or_default();
    result.map_err(|_| panic)
}

/// A place in another crate, without the folder in which this machine keeps it: it goes into files
/// that are shared.
fn short(place: &str) -> String {
    let parts: Vec<&str> = place.split('/').collect();
    match parts.iter().rposition(|part| *part == "src") {
        Some(src) if place.starts_with('/') && src > 0 => parts[src - 1..].join("/"),
        _ => place.to_owned(),
    }
}

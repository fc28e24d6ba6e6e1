//! Handlers and properties that do not return: work is done on a thread that may be left behind.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use everhold_node::Message;

use crate::execute::execute;
use crate::explore::Options;
use crate::failure::{Cause, Failure};
use crate::record::RunRecord;
use crate::report::{Finding, Origin};
use crate::schedule::{Choice, Schedule};
use crate::shrink::Shrunk;
use crate::worker::{Epoch, SharedSetup};
use crate::world::{World, node_of_beat};

/// The interval between looks at a thread that may be stuck.
const LOOK: Duration = Duration::from_millis(10);

/// The evidence that the thread that gets stuck leaves behind.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    pub(crate) choices: Vec<Choice>,
    /// The names and kinds of the nodes so far.
    pub(crate) nodes: Vec<(String, String)>,
    /// The property that is being evaluated by itself.
    pub(crate) property: Option<String>,
    /// The smallest schedule so far of a finding that is being shrunk.
    pub(crate) smallest: Option<Schedule>,
    /// The choices of the execution up to the suspected handler, by position.
    pub(crate) log: Option<Vec<u32>>,
    /// The system's account of the thread.
    account: Option<Account>,
}

/// The folder in which Linux tells what a thread does.
#[derive(Clone, Debug)]
struct Account(PathBuf);

impl Account {
    /// The account of this thread, where there is one.
    fn of_this_thread() -> Option<Account> {
        let thread = fs::read_link("/proc/thread-self").ok()?;
        Some(Account(PathBuf::from("/proc").join(thread)))
    }

    /// The processor time that the thread has used.
    fn used(&self) -> Option<Duration> {
        let text = fs::read_to_string(self.0.join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
    }

    /// Whether the thread runs or would run if it had a processor; otherwise it waits for something.
    fn is_runnable(&self) -> Option<bool> {
        let text = fs::read_to_string(self.0.join("stat")).ok()?;
        // The name before the state may contain anything.
        let state = text.rsplit_once(')')?.1.trim_start();
        Some(state.starts_with('R'))
    }
}

/// The patience that a thread has used up: its processor time while it runs, and the time that
/// passes while it waits for something. A machine that stands still or is busy with something else
/// is no reason to suspect a handler.
#[derive(Default)]
struct Spent {
    account: Option<Account>,
    used: Duration,
    all: Duration,
}

impl Spent {
    /// Starts anew: the thread has moved.
    fn reset(&mut self, account: Option<Account>) {
        let used = account.as_ref().and_then(Account::used).unwrap_or_default();
        *self = Spent { account, used, all: Duration::ZERO };
    }

    /// Adds the time since the last look.
    fn look(&mut self) {
        let account = self.account.as_ref();
        let Some((used, true)) = account.and_then(|one| Some((one.used()?, one.is_runnable()?)))
        else {
            self.all += LOOK;
            return;
        };
        self.all += used.saturating_sub(self.used);
        self.used = used;
    }
}

/// The parts of work on a thread of its own that can be seen from outside.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Grows with every handler that is called.
    beats: Arc<AtomicU64>,
    witness: Arc<Mutex<Witness>>,
}

impl Seen {
    pub(crate) fn witness(&self) -> MutexGuard<'_, Witness> {
        self.witness.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a world show that it moves.
    pub(crate) fn follow<M: Message>(&self, world: &mut World<M>) {
        world.pulse = Some(Arc::clone(&self.beats));
        let named = |info: &crate::record::NodeRecord| (info.name.clone(), info.kind.clone());
        self.witness().nodes = world.names.iter().map(named).collect();
    }

    /// Lets a world that is recorded write down every step before it is taken.
    pub(crate) fn follow_closely<M: Message>(&self, world: &mut World<M>) {
        self.follow(world);
        world.witness = Some(Arc::clone(&self.witness));
    }

    /// The last handler that was called, as a number.
    pub(crate) fn beat(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// The culprit in words, and the cause.
    fn culprit(&self) -> (String, Cause) {
        let witness = self.witness();
        if let Some(name) = &witness.property {
            return (
                format!("the property \"{name}\" did not return"),
                Cause::StuckProperty(name.clone()),
            );
        }
        let node = node_of_beat(self.beat()).index();
        let (name, kind) = witness.nodes.get(node).cloned().unwrap_or_default();
        (format!("{name} did not return from its handler"), Cause::Stuck(kind))
    }

    /// The end of work that was left behind, in words.
    pub(crate) fn words(&self, patience: Duration) -> String {
        format!("{} within {patience:?}", self.culprit().0)
    }

    /// The finding that a handler hangs whenever its execution is run.
    pub(crate) fn finding(&self, seed: u64, origin: Origin, patience: Duration) -> Finding {
        let (culprit, cause) = self.culprit();
        let choices = self.witness().choices.clone();
        let event = choices.last().map_or("the start".to_owned(), ToString::to_string);
        let message = format!(
            "{culprit} ({event}) within {patience:?}, nor when the execution was run again alone; look \
             for an endless loop or a blocking call there, or raise `Explorer::patience` if it is only \
             slow. The thread cannot be ended and stays behind"
        );
        let schedule = Schedule { seed, choices };
        Finding {
            failure: Failure { cause, message },
            original: schedule.clone(),
            schedule,
            recording: RunRecord::default(),
            shrunk: Shrunk::default(),
            origin,
        }
    }
}

/// Does something on a thread of its own. If a handler does not return there, the thread is left
/// behind, and the error is what was seen of it.
pub(crate) fn aside<T: Send + 'static>(
    patience: Duration,
    work: impl FnOnce(&Seen) -> T + Send + 'static,
) -> Result<T, Seen> {
    let (tell, told) = channel();
    let seen = Seen::default();
    let mine = seen.clone();
    let run = move || {
        mine.witness().account = Account::of_this_thread();
        // Nobody listens any more if the thread was left behind.
        let _ = tell.send(catch_unwind(AssertUnwindSafe(|| work(&mine))));
    };
    thread::Builder::new()
        .name("everhold-aside".to_owned())
        .spawn(run)
        .expect("the operating system starts a thread");
    let (mut beat, mut spent) = (u64::MAX, Spent::default());
    loop {
        match told.recv_timeout(LOOK) {
            Ok(Ok(result)) => return Ok(result),
            Ok(Err(panic)) => resume_unwind(panic),
            Err(RecvTimeoutError::Disconnected) => return Err(seen),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = seen.beat();
        if now != beat {
            beat = now;
            spent.reset(seen.witness().account.clone());
        }
        spent.look();
        if spent.all > patience {
            return Err(seen);
        }
    }
}

/// Does something aside that always takes the same steps, and once more if a handler hangs in it: a
/// verdict needs more than a wall clock.
pub(crate) fn aside_twice<T, F>(patience: Duration, work: F) -> Result<T, Seen>
where
    T: Send + 'static,
    F: Fn(&Seen) -> T + Clone + Send + 'static,
{
    aside(patience, work.clone()).or_else(|_| aside(patience, work))
}

/// Runs the execution again, alone, with every step written down before it is taken. Returns a
/// finding if it hangs there as well.
pub(crate) fn hangs_again<M: Message>(
    setup: &SharedSetup<M>,
    epoch: &Arc<Epoch>,
    index: u64,
    options: &Options,
) -> Option<Finding> {
    let search = epoch.searches[epoch.search_of(index) as usize].clone();
    let origin = Origin { execution: Some(index), search: search.to_string() };
    let (setup, again) = (Arc::clone(setup), Arc::clone(epoch));
    let rerun = move |seen: &Seen| {
        let mut world: World<M> = World::new(&setup);
        let faults = world.faults_max();
        world.env.borrow_mut().strategy = search.strategy();
        world.set_recording(true);
        seen.follow_closely(&mut world);
        execute(&mut world, &again.run_of(index, faults), again.bounds);
    };
    let seen = aside(options.patience, rerun).err()?;
    Some(seen.finding(epoch.run_of(index, 0).seed, origin, options.patience))
}

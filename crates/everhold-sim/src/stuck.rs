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
    /// The system's account of how long the thread ran and how long it waited for a processor.
    account: Option<PathBuf>,
}

impl Witness {
    /// The time for which the thread was ready to run but had no processor; nothing where the
    /// system does not tell.
    fn queued(&self) -> Duration {
        let account = self.account.as_ref().and_then(|path| fs::read_to_string(path).ok());
        let nanos = account.and_then(|text| text.split_whitespace().nth(1)?.parse().ok());
        Duration::from_nanos(nanos.unwrap_or(0))
    }
}

/// The account of this thread, which Linux keeps.
fn account() -> Option<PathBuf> {
    let thread = fs::read_link("/proc/thread-self").ok()?;
    Some(PathBuf::from("/proc").join(thread).join("schedstat"))
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
        mine.witness().account = account();
        // Nobody listens any more if the thread was left behind.
        let _ = tell.send(catch_unwind(AssertUnwindSafe(|| work(&mine))));
    };
    thread::Builder::new()
        .name("everhold-aside".to_owned())
        .spawn(run)
        .expect("the operating system starts a thread");
    // Counts looks, not time, and leaves out the time for which the thread waited for a processor:
    // if the machine stands still or is busy with something else, that is no reason to suspect a
    // handler.
    let (mut beat, mut looked, mut queued) = (u64::MAX, Duration::ZERO, Duration::ZERO);
    loop {
        match told.recv_timeout(LOOK) {
            Ok(Ok(result)) => return Ok(result),
            Ok(Err(panic)) => resume_unwind(panic),
            Err(RecvTimeoutError::Disconnected) => return Err(seen),
            Err(RecvTimeoutError::Timeout) => {}
        }
        looked += LOOK;
        let (now, queues) = (seen.beat(), seen.witness().queued());
        if now != beat {
            (beat, looked, queued) = (now, Duration::ZERO, queues);
        }
        if looked.saturating_sub(queues.saturating_sub(queued)) > patience {
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

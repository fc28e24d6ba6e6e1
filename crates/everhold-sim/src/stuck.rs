//! Handlers that do not return: the execution is run again in a thread that may be left behind.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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
    pub(crate) node: String,
    pub(crate) kind: String,
    /// The system's account of how long the thread ran and how long it waited for a processor.
    account: Option<PathBuf>,
    finished: bool,
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

/// Runs the execution again, alone, with every step written down before it is taken. Returns a
/// finding if it hangs there as well.
pub(crate) fn hangs_again<M: Message>(
    setup: &SharedSetup<M>,
    epoch: &Arc<Epoch>,
    index: u64,
    options: &Options,
) -> Option<Finding> {
    let witness = Arc::new(Mutex::new(Witness::default()));
    let search = epoch.searches[epoch.search_of(index) as usize].clone();
    let (job, name) =
        ((Arc::clone(setup), Arc::clone(epoch), Arc::clone(&witness)), search.to_string());
    let rerun = move || {
        let (setup, epoch, witness) = job;
        let _finished = Finished(Arc::clone(&witness));
        lock(&witness).account = account();
        let mut world: World<M> = World::new(&setup);
        let faults = world.faults_max();
        world.env.borrow_mut().strategy = search.strategy();
        world.set_recording(true);
        world.witness = Some(Arc::clone(&witness));
        execute(&mut world, &epoch.run_of(index, faults), epoch.bounds);
    };
    thread::Builder::new()
        .name("everhold-stuck".to_owned())
        .spawn(rerun)
        .expect("the operating system starts a thread");
    wait(&witness, options.patience);
    let witness = lock(&witness);
    let seed = epoch.run_of(index, 0).seed;
    (!witness.finished).then(|| finding(&witness, index, name, seed, options.patience))
}

/// Notes that the thread is done, even if it panics.
struct Finished(Arc<Mutex<Witness>>);

impl Drop for Finished {
    fn drop(&mut self) {
        lock(&self.0).finished = true;
    }
}

fn lock(witness: &Mutex<Witness>) -> std::sync::MutexGuard<'_, Witness> {
    witness.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until no step was added for a while. Counts looks, not time, and leaves out the time for
/// which the thread waited for a processor: if the machine stands still or is busy with something
/// else, that is no reason to suspect a handler.
#[expect(clippy::disallowed_methods, reason = "waits in wall time for a thread that may be stuck")]
fn wait(witness: &Mutex<Witness>, patience: Duration) {
    let (mut length, mut looked) = (usize::MAX, Duration::ZERO);
    let mut queued = Duration::ZERO;
    while !lock(witness).finished {
        thread::sleep(LOOK);
        looked += LOOK;
        let witness = lock(witness);
        let queues = witness.queued();
        if witness.choices.len() != length {
            (length, looked, queued) = (witness.choices.len(), Duration::ZERO, queues);
        }
        if looked.saturating_sub(queues.saturating_sub(queued)) > patience {
            return;
        }
    }
}

/// Reports on standard error that a handler does not return, where nothing else can be done: in an
/// exhaustive search, a replay or the shrinker, which run on the caller's own thread.
#[derive(Debug)]
pub(crate) struct Watchdog {
    done: Arc<AtomicBool>,
    thread: thread::Thread,
}

impl Watchdog {
    pub(crate) fn over<M: Message>(
        world: &mut World<M>,
        what: &'static str,
        patience: Duration,
    ) -> Watchdog {
        let beats = Arc::clone(world.pulse.get_or_insert_default());
        let names: Vec<String> = world.names.iter().map(|info| info.name.clone()).collect();
        let done = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&done);
        let watch = move || watch(&beats, &ended, &names, what, patience);
        let spawned = thread::Builder::new().name("everhold-watchdog".to_owned()).spawn(watch);
        let thread = spawned.expect("the operating system starts a thread").thread().clone();
        Watchdog { done, thread }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        self.thread.unpark();
    }
}

fn watch(beats: &AtomicU64, ended: &AtomicBool, names: &[String], what: &str, patience: Duration) {
    let mut told = None;
    loop {
        let before = beats.load(Ordering::Relaxed);
        thread::park_timeout(patience);
        if ended.load(Ordering::Relaxed) {
            return;
        }
        let beat = beats.load(Ordering::Relaxed);
        if beat == before && told != Some(beat) {
            told = Some(beat);
            let name = names.get(node_of_beat(beat).index()).map_or("a node", String::as_str);
            eprintln!(
                "everhold: in {what}, {name} has not returned from its handler for {patience:?}; this \
                 cannot be ended from outside. Look for an endless loop or a blocking call there"
            );
        }
    }
}

fn finding(
    witness: &Witness,
    index: u64,
    search: String,
    seed: u64,
    patience: Duration,
) -> Finding {
    let event = witness.choices.last().map_or("its start".to_owned(), ToString::to_string);
    let message = format!(
        "{} did not return from its handler ({event}) within {patience:?}, nor when the execution \
         was run again alone; look for an endless loop or a blocking call there, or raise \
         `Explorer::patience` if it is only slow. The thread cannot be ended and stays behind",
        witness.node
    );
    let schedule = Schedule { seed, choices: witness.choices.clone() };
    Finding {
        failure: Failure { cause: Cause::Stuck(witness.kind.clone()), message },
        original: schedule.clone(),
        schedule,
        recording: RunRecord::default(),
        shrunk: Shrunk::default(),
        origin: Origin { execution: Some(index), search },
    }
}

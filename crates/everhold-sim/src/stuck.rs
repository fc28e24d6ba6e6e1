//! A handler that does not return: found again in a thread that may stay behind.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use everhold_node::Message;

use crate::clock::Stopwatch;
use crate::execute::execute;
use crate::explore::Options;
use crate::failure::{Cause, Failure};
use crate::record::Recording;
use crate::report::{Finding, Origin};
use crate::rng::seed_of;
use crate::schedule::{Choice, Schedule};
use crate::shrink::Shrunk;
use crate::strategy::Run;
use crate::worker::{Epoch, Setup};
use crate::world::World;

/// What the thread that gets stuck leaves behind.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    pub(crate) choices: Vec<Choice>,
    pub(crate) node: String,
    pub(crate) kind: String,
    finished: bool,
}

/// Runs the execution again, with every step written down before it is taken.
pub(crate) fn investigate<M: Message>(
    setup: &Setup<M>,
    epoch: &Arc<Epoch>,
    index: u64,
    options: &Options,
) -> Finding {
    let witness = Arc::new(Mutex::new(Witness::default()));
    let search = epoch.searches[epoch.plan[(index - epoch.first) as usize] as usize].clone();
    let seed = seed_of(epoch.seed, index);
    let (job, name) =
        ((Arc::clone(setup), Arc::clone(epoch), Arc::clone(&witness)), search.to_string());
    let rerun = move || {
        let (setup, epoch, witness) = job;
        let mut world: World<M> = World::new(&*setup);
        let faults = world.env.borrow().rules.faults.total();
        world.env.borrow_mut().strategy = search.strategy();
        world.set_recording(true);
        world.witness = Some(Arc::clone(&witness));
        let run = Run { seed, steps: epoch.steps, faults, parent: None };
        execute(&mut world, &run, epoch.bounds);
        lock(&witness).finished = true;
    };
    thread::Builder::new()
        .name("everhold-stuck".to_owned())
        .spawn(rerun)
        .expect("the operating system starts a thread");
    wait(&witness, options.patience);
    epoch.halt.store(true, Ordering::Relaxed);
    finding(&lock(&witness), index, name, seed, options.patience)
}

fn lock(witness: &Mutex<Witness>) -> std::sync::MutexGuard<'_, Witness> {
    witness.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Until no step was added for a while.
#[expect(clippy::disallowed_methods, reason = "waits in wall time for a thread that may be stuck")]
fn wait(witness: &Mutex<Witness>, patience: Duration) {
    let (mut length, mut since) = (usize::MAX, Stopwatch::start());
    while since.elapsed() < patience && !lock(witness).finished {
        thread::sleep(Duration::from_millis(10));
        let now = lock(witness).choices.len();
        if now != length {
            (length, since) = (now, Stopwatch::start());
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
        "{} did not return from its handler ({event}) within {patience:?}; look for an endless \
         loop or a blocking call there, or raise `Explorer::patience` if it is only slow. The \
         thread cannot be ended and stays behind",
        witness.node
    );
    let schedule = Schedule { seed, choices: witness.choices.clone() };
    Finding {
        failure: Failure { cause: Cause::Stuck(witness.kind.clone()), message },
        original: schedule.clone(),
        schedule,
        recording: Recording::default(),
        shrunk: Shrunk::default(),
        origin: Origin { execution: Some(index), search },
    }
}

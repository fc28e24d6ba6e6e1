//! Ping-pong for Shuttle: as threads with its channels, and as async tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::StreamExt;
use futures::channel::mpsc as tasks_mpsc;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Schedule, Scheduler, Task, TaskId};
use shuttle::sync::mpsc;
use shuttle::{Config, Runner, future, thread};

use crate::explore::ping_pong::Shape;
use crate::measure::Work;

const SEED: u64 = 0xE7E2_401D;

/// The mode of Shuttle.
#[derive(Clone, Copy)]
pub(super) enum By {
    Random,
    Pct { depth: usize },
}

/// Actors as threads.
pub(super) fn threads(shape: Shape, by: By, executions: u64) -> Work {
    explore(shape, by, executions, move || {
        let mut handles = Vec::new();
        for _ in 0..shape.pairs() {
            let (ping, pings) = mpsc::channel::<u32>();
            let (pong, pongs) = mpsc::channel::<u32>();
            handles.push(thread::spawn(move || {
                for round in 0..shape.rounds {
                    ping.send(round).expect("the ponger listens");
                    pongs.recv().expect("the ponger answers");
                }
            }));
            handles.push(thread::spawn(move || {
                for _ in 0..shape.rounds {
                    let round = pings.recv().expect("the pinger asks");
                    pong.send(round).expect("the pinger listens");
                }
            }));
        }
        for handle in handles {
            handle.join().expect("actors do not panic");
        }
    })
}

/// Actors as async tasks.
pub(super) fn tasks(shape: Shape, by: By, executions: u64) -> Work {
    explore(shape, by, executions, move || {
        let mut handles = Vec::new();
        for _ in 0..shape.pairs() {
            let (ping, mut pings) = tasks_mpsc::unbounded::<u32>();
            let (pong, mut pongs) = tasks_mpsc::unbounded::<u32>();
            handles.push(future::spawn(async move {
                for round in 0..shape.rounds {
                    ping.unbounded_send(round).expect("the ponger listens");
                    pongs.next().await.expect("the ponger answers");
                }
            }));
            handles.push(future::spawn(async move {
                for _ in 0..shape.rounds {
                    let round = pings.next().await.expect("the pinger asks");
                    pong.unbounded_send(round).expect("the pinger listens");
                }
            }));
        }
        future::block_on(async {
            for handle in handles {
                handle.await.expect("actors do not panic");
            }
        });
    })
}

fn explore(shape: Shape, by: By, executions: u64, body: impl Fn() + Send + Sync + 'static) -> Work {
    let count = usize::try_from(executions).expect("a turn's executions fit");
    let steps = Arc::new(AtomicU64::new(0));
    match by {
        By::Random => run(RandomScheduler::new_from_seed(SEED, count), &steps, body),
        By::Pct { depth } => run(PctScheduler::new_from_seed(SEED, depth, count), &steps, body),
    }
    let steps = steps.load(Ordering::Relaxed);
    Work { executions, units: executions * shape.messages(), steps }
}

fn run<S: Scheduler + 'static>(
    inner: S,
    steps: &Arc<AtomicU64>,
    body: impl Fn() + Send + Sync + 'static,
) {
    let counted = Counted { inner, count: 0, steps: Arc::clone(steps) };
    Runner::new(counted, Config::default()).run(body);
}

/// Counts the decisions of a scheduler.
struct Counted<S> {
    inner: S,
    count: u64,
    steps: Arc<AtomicU64>,
}

impl<S: Scheduler> Scheduler for Counted<S> {
    fn new_execution(&mut self) -> Option<Schedule> {
        self.steps.store(self.count, Ordering::Relaxed);
        self.inner.new_execution()
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        self.count += 1;
        self.inner.next_task(runnable, current, is_yielding)
    }

    fn next_u64(&mut self) -> u64 {
        self.inner.next_u64()
    }
}

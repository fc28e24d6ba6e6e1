//! Runs the search in a process of its own, and passes on what it says.

use std::panic::Location;
use std::sync::Arc;

use everhold_sim::{Explorer, Report, Schedule};
use serde::{Deserialize, Serialize};

use crate::net::Net;

/// The bound on the steps of an execution: hosts take many small ones.
const STEPS_MAX: u32 = 100_000;

type Setup = Arc<dyn Fn(&mut Net<'_>) + Send + Sync>;

/// Where a thread may be interrupted by others of its host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Preemption {
    /// At calls into the C library that concern others.
    #[default]
    Calls,
    /// Also before the program's atomic instructions that exchange a word, by which a lock that
    /// nobody holds is taken and given back, and where a thread spins. The program must not be
    /// stripped of its symbols.
    Atomics,
}

/// A search over the executions of unmodified programs; see [`hosts`].
#[must_use = "a search runs when it is asked for its result"]
#[derive(Clone)]
pub struct Hosts {
    setup: Setup,
    explorer: Explorer,
    preemption: Preemption,
    place: &'static Location<'static>,
}

impl std::fmt::Debug for Hosts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hosts").field("explorer", &self.explorer).finish_non_exhaustive()
    }
}

/// Explores what programs do together, each on a host of its own, as they are: with their threads,
/// sockets, clocks and runtimes.
///
/// The search runs in a copy of the test's process. The programs are functions; a host that
/// crashes and restarts runs its function again, with fresh statics.
///
/// ```
/// use std::io::{Read, Write};
/// use std::net::{TcpListener, TcpStream};
///
/// everhold_host::hosts(|net| {
///     net.host("echo", || {
///         let listener = TcpListener::bind("0.0.0.0:7").unwrap();
///         for stream in listener.incoming() {
///             let mut stream = stream.unwrap();
///             let mut byte = [0];
///             stream.read_exact(&mut byte).unwrap();
///             stream.write_all(&byte).unwrap();
///         }
///     });
///     net.client("user", || {
///         let mut stream = loop {
///             match TcpStream::connect("echo:7") {
///                 Ok(stream) => break stream,
///                 Err(_) => std::thread::sleep(std::time::Duration::from_millis(10)),
///             }
///         };
///         stream.write_all(b"!").unwrap();
///         let mut byte = [0];
///         stream.read_exact(&mut byte).unwrap();
///         assert_eq!(byte, *b"!");
///     });
/// })
/// .explorer(|explorer| explorer.executions(50))
/// .assert_holds();
/// ```
#[track_caller]
pub fn hosts(setup: impl Fn(&mut Net<'_>) + Send + Sync + 'static) -> Hosts {
    let explorer = Explorer::new().steps(STEPS_MAX);
    let (preemption, place) = (Preemption::default(), Location::caller());
    Hosts { setup: Arc::new(setup), explorer, preemption, place }
}

/// The result of a search.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Outcome {
    /// The report, as text.
    pub report: String,
    /// The reason why the test fails, if it does.
    pub failed: Option<String>,
    /// The schedule of the first finding, as a token.
    pub schedule: Option<String>,
    /// The page about the first finding: a file of HTML that opens anywhere.
    pub page: Option<String>,
    /// The number of executions.
    pub executions: u64,
    /// The number of steps of all executions together.
    pub steps: u64,
}

impl Hosts {
    /// Changes the settings of the search.
    pub fn explorer(self, change: impl FnOnce(Explorer) -> Explorer) -> Hosts {
        Hosts { explorer: change(self.explorer), ..self }
    }

    /// Sets where threads may be interrupted.
    pub fn preemption(self, preemption: Preemption) -> Hosts {
        Hosts { preemption, ..self }
    }

    /// Runs the search and ends the test: prints the report, and panics if the test fails.
    ///
    /// # Panics
    ///
    /// If there is a finding, for the other reasons of
    /// [`Report::assert_holds`](everhold_sim::Report::assert_holds), or if the worker dies.
    #[track_caller]
    pub fn assert_holds(self) {
        let Outcome { report, failed, .. } = self.in_worker(true);
        println!("{report}");
        if let Some(words) = failed {
            panic!("{words}");
        }
    }

    /// Runs the search and leaves no files behind.
    #[must_use]
    pub fn run(self) -> Outcome {
        self.in_worker(false)
    }

    fn in_worker(self, keeps: bool) -> Outcome {
        let again = self.clone();
        let mut outcome = self.in_one_worker(keeps);
        let replays = std::env::var_os("EVERHOLD_REPLAY").is_some();
        if let Some(schedule) = outcome.schedule.clone().filter(|_| !replays) {
            again.confirm(&schedule, &mut outcome);
        }
        outcome
    }

    /// Repeats a finding in a fresh process. If it does not happen there, the program depends on
    /// something that hosts do not control.
    fn confirm(self, schedule: &str, outcome: &mut Outcome) {
        let Ok(schedule) = Schedule::parse(schedule) else { return };
        let explorer = self.explorer.regressions(false).replay(schedule);
        let fresh = Hosts { explorer, ..self }.in_one_worker(false);
        if fresh.schedule.is_some() {
            return;
        }
        let reason = "the finding did not happen again in a fresh process: the program depends on \
                      something that hosts do not control, such as addresses of its statics";
        let found = outcome.failed.take().unwrap_or_default();
        outcome.failed = Some(format!("{found}\n{reason}"));
        outcome.report += &format!("{reason}\n");
    }

    fn in_one_worker(self, keeps: bool) -> Outcome {
        let failed = |reason: String| Outcome { failed: Some(reason), ..Outcome::default() };
        // The hook for panics belongs to the whole process; another thread that panics while the
        // worker is made would keep it locked there for ever.
        let _ = everhold_sim::engine::quietly(|| ());
        let told = match everhold_sys::in_worker(|| {
            serde_json::to_vec(&self.explore(keeps)).expect("texts can be written")
        }) {
            Err(error) => return failed(format!("no process for hosts can be started: {error}")),
            Ok(Err(died)) => return failed(format!("the process in which the hosts ran {died}")),
            Ok(Ok(told)) => told,
        };
        serde_json::from_slice(&told)
            .unwrap_or_else(|error| failed(format!("the worker's result cannot be read: {error}")))
    }

    /// In the worker: the search.
    fn explore(self, keeps: bool) -> Outcome {
        let ready = everhold_sys::check().and_then(|()| everhold_sys::arm()).and_then(|()| {
            match self.preemption {
                Preemption::Calls => Ok(()),
                Preemption::Atomics => everhold_sys::patch().map(drop),
            }
        });
        if let Err(reason) = ready {
            let failed = Some(format!("hosts cannot be simulated here: {reason}"));
            return Outcome { failed, ..Outcome::default() };
        }
        let Hosts { setup, explorer, preemption, place } = self;
        let describe = move |system: &mut everhold_sim::System<crate::Packet>| {
            let mut net = Net::new(system, preemption);
            setup(&mut net);
            net.finish();
        };
        let report = explorer.inline().run_for(place, describe);
        let mut outcome = Outcome {
            executions: report.executions,
            steps: report.steps,
            schedule: report.finding().map(|finding| finding.schedule.token()),
            ..Outcome::default()
        };
        if keeps {
            let mut show = |part: &str| outcome.report += &format!("{part}\n");
            outcome.failed = report.conclude(&mut show).err();
        } else {
            outcome.report = report.to_string();
            outcome.page = report.finding().map(|_| report.page().html());
            outcome.failed = reason(&report);
        }
        outcome
    }
}

/// The reason why a test with this report fails.
fn reason(report: &Report) -> Option<String> {
    if let Some(finding) = report.finding() {
        return Some(finding.failure.to_string());
    }
    let untested = report.untested();
    (!untested.is_empty()).then(|| format!("never tested: {untested:?}"))
}

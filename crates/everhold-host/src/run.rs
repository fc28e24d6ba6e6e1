//! Runs the search in a process of its own, and passes on what it says.

use std::panic::Location;
use std::sync::Arc;

use everhold_sim::Explorer;
use serde::{Deserialize, Serialize};

use crate::net::Net;

/// The bound on the steps of an execution: hosts take many small ones.
const STEPS_MAX: u32 = 100_000;

type Setup = Arc<dyn Fn(&mut Net<'_>) + Send + Sync>;

/// A search over the executions of unmodified programs; see [`hosts`].
#[must_use = "a search runs when it is asked for its result"]
pub struct Hosts {
    setup: Setup,
    explorer: Explorer,
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
    Hosts { setup: Arc::new(setup), explorer, place: Location::caller() }
}

/// The result of a search, as the worker writes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Told {
    /// The parts of the report.
    shown: Vec<String>,
    /// The reason why the test fails, if it does.
    failed: Option<String>,
}

impl Hosts {
    /// Changes the settings of the search.
    pub fn explorer(self, change: impl FnOnce(Explorer) -> Explorer) -> Hosts {
        Hosts { explorer: change(self.explorer), ..self }
    }

    /// Runs the search and ends the test: prints the report, and panics if the test fails.
    ///
    /// # Panics
    ///
    /// If there is a finding, for the other reasons of
    /// [`Report::assert_holds`](everhold_sim::Report::assert_holds), or if the worker dies.
    #[track_caller]
    pub fn assert_holds(self) {
        if let Err(words) = self.run() {
            panic!("{words}");
        }
    }

    /// Runs the search and prints the report.
    ///
    /// # Errors
    ///
    /// The reason why the test fails, if it does.
    pub fn run(self) -> Result<(), String> {
        let told = everhold_sys::in_worker(|| self.explore().to_bytes())
            .map_err(|error| format!("no process for the hosts can be started: {error}"))?
            .map_err(|died| format!("the process in which the hosts ran {died}"))?;
        let Told { shown, failed } = Told::of_bytes(&told)?;
        for part in shown {
            println!("{part}");
        }
        failed.map_or(Ok(()), Err)
    }

    /// In the worker: the search.
    fn explore(self) -> Told {
        let mut shown = Vec::new();
        let failed = match everhold_sys::check() {
            Err(reason) => Some(format!("hosts cannot be simulated here: {reason}")),
            Ok(()) => {
                let Hosts { setup, explorer, place } = self;
                let describe = move |system: &mut everhold_sim::System<crate::Packet>| {
                    let mut net = Net::new(system);
                    setup(&mut net);
                    net.finish();
                };
                let report = explorer.inline().run_for(place, describe);
                report.conclude(&mut |part| shown.push(part.to_owned())).err()
            }
        };
        Told { shown, failed }
    }
}

impl Told {
    fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts can be written")
    }

    fn of_bytes(bytes: &[u8]) -> Result<Told, String> {
        serde_json::from_slice(bytes).map_err(|error| format!("the worker's result: {error}"))
    }
}

//! The calls that `everhold instrument` inserts into the copy of a package.
//!
//! Nobody writes these by hand: use a [`Probe`] instead. The nodes of an instrumented
//! process are the process itself and, if `everhold instrument` was told or has found a type whose
//! values are nodes, each value of that type. Each node has a probe, which records into a folder
//! of the run; a run begins with `main`, with a test, or with the first observation of a process
//! that has neither. Without the environment variable [`FOLDER`] every call returns at once.
//!
//! ```
//! let _run = everhold_live::inserted::begin("main");
//! let (term, log) = (3_u64, vec!["a"]);
//! everhold_live::see!("serve" @ 0, None; "serve_term" = term, "serve_log" = log);
//! ```
//!
//! A type that cannot be shown is left out, so that an inserted call compiles for every type.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use everhold_trace::wire::{Name, What};
use everhold_trace::{EventKind, NodeId, Value};

use crate::{Probe, Recording};

mod look;

pub use look::{Counted, Debugged, Look, Nothing, Plain, Show};

/// The traits among which an inserted call chooses.
#[doc(hidden)]
pub mod levels {
    pub use super::look::{Counted, Debugged, Nothing, Plain};
}

/// The environment variable with the folder into which instrumented processes record.
pub const FOLDER: &str = "EVERHOLD_RECORD";

/// The environment variable with the name of a process, for systems of several processes.
pub const NODE: &str = "EVERHOLD_NODE";

/// The environment variable with the number of observations of each place per second; further ones
/// are left out, and the place is named in the file `sampled` of the run.
pub const RATE: &str = "EVERHOLD_RATE";

/// The number of nodes of a run that are recorded. Values of the node type beyond it are not.
const NODES_MAX: usize = 32;

/// The default of [`RATE`].
const RATE_DEFAULT: u32 = 2_000;

/// The base folder, if there is something to record.
static BASE: LazyLock<Option<PathBuf>> =
    LazyLock::new(|| std::env::var_os(FOLDER).map(PathBuf::from));

static RUN: Mutex<Option<Run>> = Mutex::new(None);

/// The probes of a run.
#[derive(Debug)]
struct Run {
    folder: PathBuf,
    nodes: BTreeMap<String, Probe>,
    /// The numbers of nodes that are identified by their addresses.
    addresses: BTreeMap<usize, usize>,
    is_full: bool,
    /// Whether a function owns it, so that it ends with that function.
    is_owned: bool,
}

impl Run {
    fn new(base: &Path, name: &str, is_owned: bool) -> Run {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let name: String =
            name.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        let folder = base.join(format!("{}-{number:05}-{name}", std::process::id()));
        let (nodes, addresses) = (BTreeMap::new(), BTreeMap::new());
        Run { folder, nodes, addresses, is_full: false, is_owned }
    }
}

/// A run, which ends when this is dropped; see [`begin`].
#[derive(Debug)]
#[must_use = "the run ends when this is dropped"]
pub struct Running {
    is_owner: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_owner {
            // The probes write what is left, outside of the lock.
            let ended = lock().take();
            drop(ended);
        }
    }
}

/// Begins a run with this name, unless one is under way or nothing is to be recorded.
pub fn begin(name: &str) -> Running {
    let Some(base) = &*BASE else { return Running { is_owner: false } };
    let mut run = lock();
    if run.as_ref().is_some_and(|run| run.is_owned) {
        return Running { is_owner: false };
    }
    let before = run.replace(Run::new(base, name, true));
    drop(run);
    drop(before);
    Running { is_owner: true }
}

fn lock() -> std::sync::MutexGuard<'static, Option<Run>> {
    RUN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The place of an inserted call.
#[derive(Debug)]
pub struct Site {
    name: &'static str,
    seen: AtomicU64,
    left: AtomicU32,
    is_sampled: AtomicBool,
}

impl Site {
    /// A place with this name.
    #[must_use]
    pub const fn new(name: &'static str) -> Site {
        Site {
            name,
            seen: AtomicU64::new(u64::MAX),
            left: AtomicU32::new(0),
            is_sampled: AtomicBool::new(false),
        }
    }

    /// Returns whether an observation is recorded here and now.
    #[inline]
    pub fn is_open(&self) -> bool {
        BASE.is_some() && self.take()
    }

    /// Takes one of the observations of this second.
    fn take(&self) -> bool {
        static START: OnceLock<(Instant, u32)> = OnceLock::new();
        let (start, rate) = START.get_or_init(|| {
            let rate = std::env::var(RATE).ok().and_then(|text| text.parse().ok());
            (Instant::now(), rate.unwrap_or(RATE_DEFAULT))
        });
        let now = start.elapsed().as_secs();
        if self.seen.swap(now, Ordering::Relaxed) != now {
            self.left.store(*rate, Ordering::Relaxed);
        }
        let less = |left: u32| left.checked_sub(1);
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
        if !taken && !self.is_sampled.swap(true, Ordering::Relaxed) {
            self.tell();
        }
        taken
    }

    /// Notes that observations of this place are left out.
    #[cold]
    fn tell(&self) {
        let Some(folder) = lock().as_ref().map(|run| run.folder.clone()) else { return };
        // The note is an explanation; the service continues without it.
        let _ = fs::create_dir_all(&folder);
        let file = OpenOptions::new().create(true).append(true).open(folder.join("sampled"));
        let _ = file.and_then(|mut file| writeln!(file, "{}", self.name));
    }
}

/// The node of an observation: a kind and a name.
pub type Instance = (&'static str, String);

/// Returns the node that a value is, identified by one of its fields or by its address.
#[must_use]
pub fn instance(kind: &'static str, identity: Option<Value>) -> Option<Instance> {
    let text = match identity? {
        Value::Null => return None,
        Value::Text(text) => text,
        value => value.to_string(),
    };
    let name: String = text.chars().take(40).map(plain).collect();
    Some((kind, format!("{kind}-{name}")))
}

/// Returns the node that a value is, identified by its address.
#[must_use]
pub fn at<T: ?Sized>(kind: &'static str, value: &T) -> Option<Instance> {
    let address = std::ptr::from_ref(value).cast::<()>().addr();
    let mut guard = lock();
    let base = BASE.as_ref()?;
    let run = guard.get_or_insert_with(|| Run::new(base, "process", false));
    let addresses = &mut run.addresses;
    let next = addresses.len() + 1;
    let number = addresses.entry(address).or_insert(next);
    Some((kind, format!("{kind}-{number}")))
}

/// Keeps the letters of a name that can be part of a file's name.
fn plain(letter: char) -> char {
    if letter.is_alphanumeric() || "-_.".contains(letter) { letter } else { '_' }
}

/// Records values that were seen at a place.
pub fn saw(site: &Site, node: Option<Instance>, values: Vec<(&'static str, Option<Value>)>) {
    let values: Vec<(Name, Value)> =
        values.into_iter().filter_map(|(name, value)| Some((Name::from(name), value?))).collect();
    if values.is_empty() {
        return;
    }
    if let Some(probe) = probe(node) {
        probe.event(EventKind::Local { name: site.name.to_owned() });
        probe.record(What::Observe(values));
    }
}

/// Returns the probe of a node of the present run, which is made when the node first appears.
fn probe(node: Option<Instance>) -> Option<Probe> {
    let mut guard = lock();
    let base = BASE.as_ref()?;
    let run = guard.get_or_insert_with(|| Run::new(base, "process", false));
    let (kind, name) = node.map_or_else(process, |(kind, name)| (kind.to_owned(), name));
    if let Some(probe) = run.nodes.get(&name) {
        return Some(probe.clone());
    }
    if run.nodes.len() >= NODES_MAX {
        if !run.is_full {
            run.is_full = true;
            eprintln!("everhold: more than {NODES_MAX} nodes; {name} and others are not recorded");
        }
        return None;
    }
    let number = NodeId(u32::try_from(run.nodes.len()).expect("nodes are few"));
    let probe = Probe::to_checkers([])
        .system("instrumented")
        .node(number, &name, &kind)
        .recording(Recording::into(&run.folder))
        .start();
    run.nodes.insert(name, probe.clone());
    Some(probe)
}

/// The kind and name of this process.
fn process() -> (String, String) {
    let kind = std::env::current_exe().ok();
    let kind = kind.as_deref().and_then(Path::file_stem).and_then(|name| name.to_str());
    // Cargo puts a hash behind the names of tests.
    let kind = kind.map_or("process", |name| name.split_once('-').map_or(name, |(name, _)| name));
    let name = std::env::var(NODE).unwrap_or_else(|_| format!("{kind}-{}", std::process::id()));
    (kind.to_owned(), name.chars().map(plain).collect())
}

/// Records variables at a place of a program: `see!("place", node; "name" = variable, ...)`.
/// Inserted by `everhold instrument`.
#[macro_export]
macro_rules! see {
    ($site:literal @ $line:literal, $node:expr; $($name:literal = $value:expr),* $(,)?) => {{
        static SITE: $crate::inserted::Site = $crate::inserted::Site::new($site);
        if SITE.is_open() {
            $crate::inserted::saw(&SITE, $node, ::std::vec![$(($name, $crate::look!($value))),*]);
        }
    }};
}

/// Shows a value of any type as far as its type allows, as an `Option<Value>`.
#[macro_export]
#[doc(hidden)]
macro_rules! look {
    ($value:expr) => {{
        use $crate::inserted::levels::*;
        (&&&&$crate::inserted::Look(&$value)).look()
    }};
}

//! A running host: its kernel, its threads, and the end of its process.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use everhold_os::{Action, Clocks, Delivery, Host, Reason, Settings, Stop, ThreadId};
use everhold_sys::{Answer, Fiber, Routine, SignalAction, suspend};

use crate::link::{Link, Places};
use crate::operator::name_of;
use crate::run::Preemption;
use crate::shown::Shown;

/// Reads of the clock in a row after which a thread is taken for one that waits for time to pass.
const READS_MAX: u32 = 256;
/// The time by which the clock goes on at such a read; each further one doubles it.
const READ_STEP: u64 = 1_000;

/// The most starts by an operator between two crashes whose connections are told apart.
const STARTS_MAX: u32 = 1 << 12;

/// The choice of a host's time of day.
const SKEW: &str = "clock skew";

/// The choice of when a thread is preempted at an atomic exchange, the numbers of exchanges before
/// that, where none is never, and how likely they are.
const GAP: &str = "preempted after";
const GAPS: [u32; 16] = [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64, 128];
const GAP_WEIGHTS: [u32; 16] = [15, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];

/// The number of the first thread of a host, as its own code sees it.
const FIRST_THREAD: i32 = 1_000;

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Code(i32),
    /// A signal ended it, as somebody wanted.
    Signal,
    /// A thread did something for which a process is ended.
    Fault(ThreadId, &'static str),
}

pub(crate) struct Machine {
    name: String,
    pub(crate) link: Link,
    pub(crate) places: Rc<Places>,
    pub(crate) os: RefCell<Host>,
    pub(crate) threads: RefCell<Threads>,
    /// The thread that runs.
    pub(crate) running: Cell<ThreadId>,
    /// How the process ended, once it has.
    pub(crate) exited: Cell<Option<Exit>>,
    /// The last panic of any thread: its message and place.
    pub(crate) panic: RefCell<Option<(String, String)>>,
    /// The thread that last woke nobody at a word of memory.
    pub(crate) missed: RefCell<BTreeMap<usize, ThreadId>>,
    /// The state that the program shows.
    pub(crate) shown: RefCell<Shown>,
    /// Whether that has changed since the last look.
    pub(crate) shows: Cell<bool>,
    reads: Cell<u32>,
    /// Whether the faults of the test include crashes of this host.
    may_crash: bool,
    /// Output that does not end with the end of a line yet.
    partial: RefCell<Vec<u8>>,
}

/// The threads of a host and what its own code calls them.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    /// Those that were created while another one ran.
    pub(crate) new: Vec<(ThreadId, Fiber)>,
    handles: BTreeMap<usize, ThreadId>,
    /// The results of threads that ended and were not joined.
    results: BTreeMap<ThreadId, usize>,
    /// Those that nobody refers to any more.
    pub(crate) forgotten: Vec<ThreadId>,
    detached: Vec<ThreadId>,
}

impl Threads {
    pub(crate) fn began(&mut self, thread: ThreadId, handle: usize) {
        self.handles.insert(handle, thread);
    }

    pub(crate) fn ended(&mut self, thread: ThreadId, result: usize) {
        if self.detached.contains(&thread) {
            self.forget(thread);
        } else {
            self.results.insert(thread, result);
        }
    }

    pub(crate) fn of_handle(&self, handle: usize) -> Option<ThreadId> {
        self.handles.get(&handle).copied()
    }

    fn forget(&mut self, thread: ThreadId) {
        self.handles.retain(|_, known| *known != thread);
        self.results.remove(&thread);
        self.forgotten.push(thread);
    }

    pub(crate) fn detach(&mut self, thread: ThreadId) {
        if self.results.contains_key(&thread) {
            self.forget(thread);
        } else {
            self.detached.push(thread);
        }
    }

    pub(crate) fn joined(&mut self, thread: ThreadId) -> usize {
        let result = self.results.get(&thread).copied().unwrap_or(0);
        self.forget(thread);
        result
    }
}

impl Machine {
    pub(crate) fn new(
        name: &str,
        may_crash: bool,
        link: Link,
        places: Rc<Places>,
        starts: u32,
        skew_max: Duration,
    ) -> Self {
        let settings = settings(&link, &places, starts, skew_max);
        Machine {
            name: name.to_owned(),
            may_crash,
            os: RefCell::new(Host::new(settings, Box::new(link.clone()))),
            link,
            places,
            threads: RefCell::default(),
            running: Cell::default(),
            exited: Cell::default(),
            panic: RefCell::default(),
            missed: RefCell::default(),
            shown: RefCell::new(Shown::of(name)),
            shows: Cell::new(false),
            reads: Cell::new(0),
            partial: RefCell::default(),
        }
    }

    pub(crate) fn name(&self) -> String {
        self.name.clone()
    }

    /// Makes a call until it has an answer. Before it, other threads may run.
    pub(crate) fn wait<T>(
        &self,
        call: impl FnMut(&mut Host) -> everhold_os::Answer<T>,
    ) -> Answer<T> {
        self.point();
        self.wait_here(call)
    }

    /// The same for a call before which it makes no difference who runs.
    pub(crate) fn wait_here<T>(
        &self,
        mut call: impl FnMut(&mut Host) -> everhold_os::Answer<T>,
    ) -> Answer<T> {
        loop {
            let answer = self.at_once(&mut call);
            match answer {
                Ok(value) => {
                    self.after_waking();
                    return Ok(value);
                }
                Err(Stop::Failed(number)) => return Err(number.0),
                Err(Stop::Blocked) => self.suspend(),
            }
        }
    }

    /// A call that never waits.
    pub(crate) fn at_once<R>(&self, call: impl FnOnce(&mut Host) -> R) -> R {
        let mut os = self.os.borrow_mut();
        os.enter(self.running.get());
        call(&mut os)
    }

    /// Lets others run after a call that woke one of them up.
    fn after_waking(&self) {
        let woken = self.os.borrow_mut().take_woken();
        if woken.iter().any(|thread| *thread != self.running.get()) {
            self.suspend();
        }
    }

    fn suspend(&self) {
        self.reads.set(0);
        suspend();
    }

    /// Lets other threads run first, if any of them could do something here.
    pub(crate) fn point(&self) {
        if self.has_rivals() {
            self.suspend();
        }
    }

    /// After how many atomic exchanges the thread that runs next lets others go first, if the
    /// test asks for that.
    pub(crate) fn gap(&self) -> Option<u32> {
        if self.places.preemption != Preemption::Atomics || !self.has_rivals() {
            return None;
        }
        let at = self.link.choose_of(GAP, &GAP_WEIGHTS);
        Some(GAPS[at as usize]).filter(|gap| *gap > 0)
    }

    fn has_rivals(&self) -> bool {
        let os = self.os.borrow();
        let me = self.running.get();
        if os.runnable().any(|thread| thread != me) || os.next_deadline().is_some() {
            return true;
        }
        (0..os.thread_count()).map(ThreadId).any(|thread| {
            thread != me
                && matches!(os.waiting(thread), Some(Reason::Descriptor(..) | Reason::Poll))
        })
    }

    /// Lets the machine crash before a change of its disk, if it may crash at all.
    pub(crate) fn before_disk(&self) {
        if self.may_crash {
            self.suspend();
        } else {
            self.point();
        }
    }

    /// A thread that looks at the clock again and again waits for time to pass.
    pub(crate) fn look_at_clock(&self) {
        let reads = self.reads.get() + 1;
        self.reads.set(reads);
        if reads > READS_MAX {
            let step = READ_STEP << (reads - READS_MAX).min(20);
            let mut os = self.os.borrow_mut();
            let later = os.now() + Duration::from_nanos(step);
            os.advance(later);
        }
    }

    pub(crate) fn spawn(&self, routine: Routine) -> usize {
        let thread = self.os.borrow_mut().spawn();
        let fiber = Fiber::thread(self.number_of(thread) as u32, routine);
        let handle = fiber.handle();
        let mut threads = self.threads.borrow_mut();
        threads.began(thread, handle);
        threads.new.push((thread, fiber));
        handle
    }

    /// Carries out what signals do: handlers run on threads of their own.
    pub(crate) fn deliver_signals(&self) {
        let deliveries = self.os.borrow_mut().take_deliveries();
        for delivery in deliveries {
            match delivery {
                Delivery::End(signal) => {
                    self.link.note(|| format!("{} ends the process", name_of(signal)));
                    self.exited.set(Some(Exit::Signal));
                }
                Delivery::Handler(signal, Action { handler, flags, mask }) => {
                    self.link.note(|| format!("{} arrives", name_of(signal)));
                    let action = SignalAction { handler, flags, mask };
                    let thread = self.os.borrow_mut().spawn_handler();
                    let number = self.number_of(thread) as u32;
                    let fiber = Fiber::handler(number, signal, action);
                    let mut threads = self.threads.borrow_mut();
                    threads.began(thread, fiber.handle());
                    threads.detach(thread);
                    threads.new.push((thread, fiber));
                }
            }
        }
    }

    /// The same in a call of one of the host's threads, which may end its process.
    pub(crate) fn take_signals(&self) {
        self.deliver_signals();
        if self.exited.get().is_some() {
            suspend();
        }
    }

    pub(crate) fn number_of(&self, thread: ThreadId) -> i32 {
        FIRST_THREAD + thread.0 as i32
    }

    /// Ends the process, from one of its threads.
    pub(crate) fn end(&self, code: i32) -> ! {
        self.exited.set(Some(Exit::Code(code)));
        suspend();
        unreachable!("a process that ended does not run")
    }

    /// Ends the process for what the running thread did.
    pub(crate) fn end_by(&self, what: &'static str) {
        self.exited.set(Some(Exit::Fault(self.running.get(), what)));
        suspend();
        unreachable!("a process that ended does not run")
    }

    /// Output becomes notes, line by line.
    pub(crate) fn print(&self, bytes: &[u8]) {
        let mut partial = self.partial.borrow_mut();
        partial.extend_from_slice(bytes);
        while let Some(end) = partial.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = partial.drain(..=end).collect();
            self.link.note(|| String::from_utf8_lossy(&line).trim_end().to_owned());
        }
    }
}

/// How far the time of day of this host is ahead or behind, in nanoseconds: a choice.
fn skew(link: &Link, skew_max: Duration) -> i64 {
    if skew_max.is_zero() {
        return 0;
    }
    let most = i64::try_from(skew_max.as_nanos()).unwrap_or(i64::MAX);
    match link.choose_of(SKEW, &[1; 5]) {
        0 => 0,
        1 => most,
        2 => -most,
        3 => most / 2,
        _ => -most / 2,
    }
}

fn settings(link: &Link, places: &Places, starts: u32, skew_max: Duration) -> Settings {
    Settings {
        clocks: Clocks { skew: skew(link, skew_max), ..Clocks::default() },
        addresses: places.addresses[link.node().index()].clone(),
        names: places.names.clone(),
        incarnation: link.incarnation() * STARTS_MAX + starts,
        retransmission: None,
        splits: true,
        ..Settings::default()
    }
}

//! The settings of a probe.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use everhold_tls::ClientTls;
use everhold_trace::NodeId;
use everhold_trace::tap;
use everhold_trace::wire::{Hello, Ordering, VERSION};

use super::drain::{Drain, Refresh};
use super::envelope::NOBODY;
use super::link::{Credentials, Link};
use super::{DrainGuard, Probe, Shared, Timer};
use crate::recording::Recording;
use crate::report::Report;

/// The settings of a probe; [`start`](Builder::start) makes it.
#[derive(Debug)]
#[must_use = "`start` makes the probe"]
pub struct Builder {
    checkers: Vec<SocketAddr>,
    hello: Hello,
    knows: Credentials,
    recording: Option<Recording>,
    heartbeat: Duration,
    ring_words: usize,
    first_message: u64,
    report: Report,
    refresh: Option<Refresh>,
    clock_offset: i64,
}

impl Builder {
    pub(super) fn new(checkers: Vec<SocketAddr>) -> Builder {
        let hello = Hello {
            version: VERSION,
            system: "system".to_owned(),
            node: NOBODY,
            name: String::new(),
            kind: "node".to_owned(),
            incarnation: crate::time::micros(),
            order: Ordering::Clocks,
            proof: None,
        };
        Builder {
            checkers,
            hello,
            knows: Credentials::default(),
            recording: None,
            heartbeat: Duration::from_millis(50),
            ring_words: 1 << 16,
            first_message: 0,
            report: Report::default(),
            refresh: None,
            clock_offset: 0,
        }
    }

    /// Sets the system to which the node belongs.
    pub fn system(mut self, name: &str) -> Builder {
        name.clone_into(&mut self.hello.system);
        self
    }

    /// Sets the node's number, which must be unique in the system, its name and its kind. This is
    /// required: a probe without a number shows nothing, and reports that through its [`Report`].
    pub fn node(mut self, id: NodeId, name: &str, kind: &str) -> Builder {
        self.hello.node = id;
        name.clone_into(&mut self.hello.name);
        kind.clone_into(&mut self.hello.kind);
        self
    }

    /// Sets the number of this start of the node, which must increase with each start. By default
    /// it is the time of day, which increases unless the clock is set back.
    pub fn incarnation(mut self, incarnation: u64) -> Builder {
        self.hello.incarnation = incarnation;
        self
    }

    /// Sets the secret that checkers over a network require.
    pub fn secret(mut self, secret: impl Into<Vec<u8>>) -> Builder {
        self.knows.secret = Some(secret.into());
        self
    }

    /// Uses TLS with checkers, and connects only to those whose certificate is for their address,
    /// or for the name given with the files. Needs the feature `tls`.
    ///
    /// ```
    /// # #[cfg(feature = "tls")] {
    /// use everhold_live::tls::{ClientFiles, ClientTls};
    /// let files = ClientFiles { ca: Some("ca.pem".into()), ..ClientFiles::default() };
    /// match ClientTls::read(&files) {
    ///     Ok(tls) => drop(everhold_live::Probe::to_checkers([]).tls(tls).start()),
    ///     Err(error) => assert!(error.to_string().contains("ca.pem"), "{error}"),
    /// }
    /// # }
    /// ```
    pub fn tls(mut self, tls: ClientTls) -> Builder {
        self.knows.tls = Some(tls);
        self
    }

    /// Also records everything in files.
    pub fn recording(mut self, recording: Recording) -> Builder {
        self.recording = Some(recording);
        self
    }

    /// Sets the interval of heartbeats, which is also the longest delay of a record; 50 ms by
    /// default.
    pub fn heartbeat(mut self, period: Duration) -> Builder {
        self.heartbeat = period;
        self
    }

    /// Sets the size of each thread's ring, in words of eight bytes; an observation of a number or
    /// a tuple of two takes four. By default 65,536, half a mebibyte.
    pub fn ring_words(mut self, words: usize) -> Builder {
        self.ring_words = words;
        self
    }

    /// Sets the first count of messages, for nodes whose earlier incarnations sent some.
    pub fn first_message(mut self, seq: u64) -> Builder {
        self.first_message = seq;
        self
    }

    /// Sets the report to which problems are sent.
    pub fn report(mut self, report: Report) -> Builder {
        self.report = report;
        self
    }

    /// Sets a function that observes everything once. It runs on the probe's own thread when a
    /// checker connects, after records were dropped, and after the process was stopped for a while.
    /// A checker then knows the state of the node again, and forgets variables and tuples that were
    /// not observed. Without this function, lost observations stay unknown until they are made
    /// again.
    ///
    /// The function must hold the lock that guards the state: if another thread changed and
    /// observed a value between its being read and observed here, the two observations would be in
    /// the wrong order. All observations must fit into 64 times
    /// [`ring_words`](Builder::ring_words): a million tuples by default.
    pub fn refresh(mut self, refresh: impl Fn(&Probe) + Send + 'static) -> Builder {
        self.refresh = Some(Refresh { run: Box::new(refresh), is_whole: true });
        self
    }

    /// Sets a function that requests a refresh, whose observations follow later and are of
    /// variables only.
    pub(crate) fn refresh_later(mut self, refresh: impl Fn() + Send + 'static) -> Builder {
        self.refresh = Some(Refresh { run: Box::new(move |_| refresh()), is_whole: false });
        self
    }

    /// Shifts the wall clock of this machine by this many microseconds, for tests of clocks that
    /// disagree.
    pub fn clock_offset(mut self, micros: i64) -> Builder {
        self.clock_offset = micros;
        self
    }

    /// Starts the probe.
    #[must_use]
    pub fn start(self) -> Probe {
        let (node, words) = (self.hello.node, self.ring_words);
        let shared = |timer| Arc::new(Shared::new(node, self.first_message, words, timer));
        let has_use = !self.checkers.is_empty() || self.recording.is_some();
        if has_use && node == NOBODY {
            self.report.tell(
                "this probe shows nothing, since it has no number; name its node with \
                 `Builder::node`",
            );
        }
        if !has_use || node == NOBODY || tap::get().is_some() {
            return Probe { shared: shared(None), _drain: None };
        }
        let timer = Arc::new(Timer::new(self.clock_offset));
        let shared = shared(Some(Arc::clone(&timer)));
        let link = |address| {
            let (hello, knows) = (self.hello.clone(), self.knows.clone());
            Link::start(address, hello, knows, self.report.clone(), Arc::clone(&timer))
        };
        let links = self.checkers.iter().copied().map(link).collect();
        let mut recording = self.recording;
        if let Some(recording) = &mut recording {
            recording.begin(&self.hello, self.report.clone());
        }
        let (stop, stopped) = mpsc::channel();
        let (heartbeat, refresh, report) = (self.heartbeat, self.refresh, self.report.clone());
        let shown = Arc::clone(&shared);
        let drain = Drain::new(shown, timer, links, recording, heartbeat, refresh, report);
        let thread = thread::Builder::new()
            .name("everhold-probe".to_owned())
            .spawn(move || drain.run(&stopped))
            .expect("the system has a thread to spare");
        let guard = DrainGuard { stop: Mutex::new(Some(stop)), thread: Mutex::new(Some(thread)) };
        Probe { shared, _drain: Some(Arc::new(guard)) }
    }
}

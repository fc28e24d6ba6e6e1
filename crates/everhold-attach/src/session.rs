//! A session while it is attached: records become news of nodes, and processes come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use everhold_kernel::{ProcessHandle, monotonic_nanos, raise_open_files};
use everhold_live::{Agent, Report};
use everhold_trace::wire::What;
use everhold_trace::{EventKind, Value};

use crate::error::{AttachError, AttachErrorKind};
use crate::hook::Hooks;
use crate::language::{Action, Expr};
use crate::network::{self, Network, Passage};
use crate::nodes::{Node, Nodes};
use crate::order::Streams;
use crate::owners::Owners;
use crate::plan::Plan;
use crate::processes::{self, FileId};
use crate::record::{Record, Unreadable};
use crate::resolve::Resolved;

/// How long a record may take from its time to the ring, on another processor.
const HOLD: Duration = Duration::from_millis(5);

/// The interval at which counts are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// The interval at which processes are looked for.
const SEARCH: Duration = Duration::from_millis(500);

/// After how many looks in a row in which a probe sheds hits it is taken out.
const SHEDDING_MAX: u32 = 10;

/// Where the news go.
#[derive(Debug)]
pub struct Options {
    /// The watches that are told.
    pub checkers: Vec<SocketAddr>,
    /// The system that the nodes belong to.
    pub system: String,
    /// The kind of the nodes; the name of the program if it is empty.
    pub kind: String,
    /// The secret that watches over a network require.
    pub secret: Option<Vec<u8>>,
    /// Whether the watch reads the clock of this machine.
    pub same_clock: bool,
    /// Whether the order of messages over TCP is observed.
    pub order: bool,
    /// The folder to record into.
    pub record: Option<PathBuf>,
    /// The size of the ring between the kernel and this process, a power of two.
    pub ring_bytes: u32,
    /// Where problems are told.
    pub report: Report,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            checkers: Vec::new(),
            system: "system".to_owned(),
            kind: String::new(),
            secret: None,
            same_clock: false,
            order: false,
            record: None,
            ring_bytes: 8 << 20,
            report: Report::default(),
        }
    }
}

/// The observations so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Hits of probes.
    pub hits: u64,
    /// Records that arrived.
    pub records: u64,
    /// Records that found the ring full.
    pub lost: u64,
    /// Hits over the budget of their probe.
    pub shed: u64,
    /// Records with a value that could not be read.
    pub unreadable: u64,
    /// Returns of calls that were entered before.
    pub unpaired: u64,
    /// Messages that were seen to arrive.
    pub messages: u64,
    /// Sends whose receive was not seen: what was sent to somebody who is not observed, or was not
    /// read. They are no part of the order.
    pub unread: u64,
    /// Receives of connections on which nobody who is observed was seen to send.
    pub unsent: u64,
    /// Sends and receives of processes that show several nodes, of which it is not known whose they
    /// are. They are no part of the order.
    pub unassigned: u64,
    /// Nodes that were seen.
    pub nodes: usize,
}

/// A process that is observed.
#[derive(Debug)]
struct Process {
    handle: ProcessHandle,
    executable: Option<FileId>,
    /// The number of its network namespace.
    namespace: u64,
}

/// Breakpoints in force. When it is dropped, they are gone.
#[derive(Debug)]
pub struct Attached {
    plan: Plan,
    hooks: Hooks,
    agent: Agent,
    nodes: Nodes,
    processes: BTreeMap<u32, Process>,
    /// Processes that cannot be named, of which that was told.
    nameless: BTreeSet<u32>,
    /// The order of messages, if it is observed.
    network: Option<Network>,
    streams: Streams,
    owners: Owners,
    pending: Vec<Record>,
    looked: Instant,
    searched: Instant,
    totals: Totals,
    report: Report,
    /// How long attaching took.
    pub took: Duration,
}

impl Attached {
    /// Sets the breakpoints of a plan.
    ///
    /// # Errors
    ///
    /// If a capability is missing or the kernel refuses something; nothing is then attached.
    pub fn start(plan: Plan, options: Options) -> Result<Attached, AttachError> {
        let begun = Instant::now();
        // Every process takes a file, and its recording another.
        raise_open_files();
        let mut agent =
            Agent::new(options.checkers.iter().copied(), &options.system, options.report.clone());
        if let Some(secret) = options.secret {
            agent = agent.secret(secret);
        }
        if options.same_clock {
            agent = agent.same_clock();
        }
        let hooks = Hooks::set(&plan, options.ring_bytes)?;
        let network = match options.order.then(|| hooks.network()) {
            // The state that probes show is useful even if the kernel refuses to show messages.
            Some(Err(error)) => {
                options.report.tell(&format!(
                    "{error}; sends and receives are not seen, so events are ordered by their times"
                ));
                None
            }
            Some(Ok(network)) => Some(network),
            None => None,
        };
        let now = Instant::now();
        let nodes = Nodes::new(options.kind, options.record, &plan.file.identity);
        let mut attached = Attached {
            plan,
            hooks,
            agent,
            nodes,
            processes: BTreeMap::new(),
            nameless: BTreeSet::new(),
            network,
            streams: Streams::default(),
            owners: Owners::default(),
            pending: Vec::new(),
            looked: now,
            searched: now,
            totals: Totals::default(),
            report: options.report,
            took: begun.elapsed(),
        };
        attached.agent.follow([]);
        attached.search();
        Ok(attached)
    }

    /// The observations so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals {
            nodes: self.nodes.known(),
            unread: self.streams.unread(),
            unsent: self.streams.unsent,
            ..self.totals.clone()
        }
    }

    /// Whether a process that is observed is left, or may still come.
    #[must_use]
    pub fn has_use(&self) -> bool {
        !self.processes.is_empty()
            || self.plan.targets.iter().any(|target| target.processes.is_none())
    }

    /// The present states of the nodes, by name.
    #[must_use]
    pub fn states(&self) -> BTreeMap<String, Value> {
        self.nodes.iter().map(|(name, node)| (name.clone(), node.feed.state())).collect()
    }

    /// Takes in what happened since the last turn and passes it on. Call it every few milliseconds.
    pub fn turn(&mut self) {
        self.agent.follow(self.nodes.feeds());
        let (began, began_nanos) = (Instant::now(), monotonic_nanos());
        let pending = &mut self.pending;
        let (count, _) = self.hooks.ring.read(|bytes| pending.extend(Record::read(bytes)));
        self.totals.records += count;
        self.pending.sort_by_key(|record| record.time);
        let until = began_nanos.saturating_sub(nanos(HOLD));
        let ripe = self.pending.partition_point(|record| record.time < until);
        let instant = |time: u64| {
            began
                .checked_sub(Duration::from_nanos(began_nanos.saturating_sub(time)))
                .unwrap_or(began)
        };
        for record in self.pending.drain(..ripe).collect::<Vec<_>>() {
            self.take(&record, instant(record.time));
        }
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            self.look();
        }
        self.bury(instant(until));
        if self.searched.elapsed() >= SEARCH {
            self.searched = Instant::now();
            self.search();
        }
        let passed = instant(until);
        self.nodes.pass(&self.agent, passed);
    }

    /// Removes every breakpoint and says goodbye for the nodes.
    #[must_use]
    pub fn leave(mut self) -> Totals {
        for number in 0..self.hooks.hooks.len() {
            self.hooks.let_go(number);
        }
        self.network = None;
        // What was seen before is still in the ring.
        std::thread::sleep(HOLD);
        self.turn();
        self.look();
        let totals = self.totals();
        self.nodes.close_all(&self.agent, Instant::now());
        totals
    }

    /// One record becomes news of a node.
    fn take(&mut self, record: &Record, at: Instant) {
        if record.number >= network::SEND {
            return self.passage(record, at);
        }
        let Some(hook) = self.hooks.hooks.get(record.number as usize) else { return };
        let resolved = &self.plan.targets[hook.target].resolution.resolved[hook.resolved];
        let probe = &self.plan.file.probes[resolved.probe];
        match record.satisfies(resolved, &probe.conditions) {
            Ok(true) => {}
            Ok(false) => return,
            Err(Unreadable) => return self.unreadable(record.process),
        }
        let of = match &probe.of {
            None => None,
            Some(of) => match record.value(resolved, of) {
                Ok(value) => Some(value),
                Err(Unreadable) => return self.unreadable(record.process),
            },
        };
        let Ok(whats) = news(record, resolved, &probe.action) else {
            return self.unreadable(record.process);
        };
        if !self.processes.contains_key(&record.process) {
            self.meet(record.process);
        }
        self.show(record, of, whats, at);
    }

    /// A send or a receive becomes one of messages.
    fn passage(&mut self, record: &Record, at: Instant) {
        let Some(process) = self.processes.get(&record.process) else { return };
        let passage = Passage::read(record.number, &record.body, process.namespace);
        let Some(passage) = passage else { return };
        let name = match self.shows_several() {
            true => match self.owners.owner(record.process, record.thread) {
                Some(name) => name.to_owned(),
                None => return self.unassigned(record.process),
            },
            false => match self.name(record.process, None) {
                Some(name) => name,
                None => return,
            },
        };
        let node = self.nodes.of(&self.agent, record.process, &name);
        for what in self.streams.passage(node.id, &passage) {
            self.totals.messages += u64::from(!passage.is_send);
            node.feed.record(&self.agent, at, what);
        }
    }

    /// Whether a process may show several nodes.
    fn shows_several(&self) -> bool {
        self.plan.file.probes.iter().any(|probe| probe.of.is_some())
    }

    /// It is not known which node of a process a message belongs to.
    fn unassigned(&mut self, process: u32) {
        self.totals.unassigned += 1;
        if self.totals.unassigned == 1 {
            self.report.tell(&format!(
                "process {process} sends or receives in a thread that has shown no node, or several \
                 (in Go, threads say nothing); such messages are no part of the order, so what they \
                 order is ordered by time. If each process is one node, name it with `node is` \
                 instead of `of`"
            ));
        }
    }

    /// Reports a record of a probe as a step of its node.
    fn show(&mut self, record: &Record, of: Option<Value>, news: News, at: Instant) {
        let Some(name) = self.name(record.process, of) else { return };
        self.owners.shown(record.process, record.thread, &name);
        let agent = &self.agent;
        let node = self.nodes.of(agent, record.process, &name);
        self.streams.event(node.id);
        if !matches!(&news, News::Whats(whats) if matches!(whats[..], [What::Event(_)])) {
            let hook = &self.hooks.hooks[record.number as usize];
            let resolved = &self.plan.targets[hook.target].resolution.resolved[hook.resolved];
            let name = self.plan.file.probes[resolved.probe].function.clone();
            node.feed.record(agent, at, What::Event(EventKind::Local { name }));
        }
        for what in news.into_whats(node) {
            node.feed.record(agent, at, what);
        }
    }

    /// The name of the node that a record is of.
    fn name(&mut self, process: u32, of: Option<Value>) -> Option<String> {
        match of {
            Some(Value::Text(text)) => return Some(text),
            Some(other) => return Some(other.to_string()),
            None => {}
        }
        if let Some(known) = self.nodes.of_process(process) {
            return Some(known.to_owned());
        }
        match processes::node_name(process, &self.plan.file.identity) {
            Ok(name) => Some(self.nodes.whole(&self.agent, process, &name)),
            Err(why) => {
                // A process that has just ended has no name any more.
                let has_ended =
                    self.processes.get(&process).is_none_or(|known| known.handle.has_ended());
                if self.nameless.insert(process) && !has_ended {
                    self.report.tell(&format!("{why}; what it does is not shown"));
                }
                None
            }
        }
    }

    /// A value of a process could not be read, so what its nodes show is not known.
    fn unreadable(&mut self, process: u32) {
        self.totals.unreadable += 1;
        if self.totals.unreadable == 1 {
            self.report.tell(
                "a value could not be read, since its memory was not there: a wrong pointer or \
                 offset, or a page that was not loaded; what the node shows is unknown until it \
                 is seen again",
            );
        }
        self.nodes.lost(Some(process), 1);
    }

    /// Looks at the counts of all probes.
    fn look(&mut self) {
        let messages = self.hooks.lost_messages();
        if messages > 0 {
            self.totals.lost += messages;
            self.report.tell(&format!(
                "sends and receives lost, since the ring was full: {messages}; the order of the \
                 messages among them is that of their times"
            ));
        }
        for number in 0..self.hooks.hooks.len() {
            let news = self.hooks.news(number);
            self.totals.hits += news.hits;
            self.totals.lost += news.lost;
            self.totals.shed += news.shed;
            self.totals.unpaired += news.unpaired;
            let missed = news.lost + news.shed;
            if missed > 0 {
                // The kernel does not say whose they were.
                self.nodes.lost(None, missed);
                self.report.tell(&format!(
                    "{}: lost, since the ring was full: {}; shed, over the budget of {} a second: \
                     {}; what it shows is unknown until it is seen again",
                    self.called(number),
                    news.lost,
                    self.plan.file.budget,
                    news.shed
                ));
            }
            let hook = &mut self.hooks.hooks[number];
            hook.shedding = if news.shed > 0 { hook.shedding + 1 } else { 0 };
            if hook.shedding >= SHEDDING_MAX && self.hooks.is_set(number) {
                self.hooks.let_go(number);
                self.report.tell(&format!(
                    "{} is hit more often than {} times a second, so its breakpoint was taken out; \
                     probe a function that is called less often, or raise the `budget` of the file",
                    self.called(number),
                    self.plan.file.budget
                ));
            }
        }
    }

    fn called(&self, number: usize) -> String {
        let hook = &self.hooks.hooks[number];
        let resolved = &self.plan.targets[hook.target].resolution.resolved[hook.resolved];
        format!("line {} ({})", self.plan.file.probes[resolved.probe].line, resolved.function)
    }

    /// Closes the nodes of processes that have ended, or run another program now.
    fn bury(&mut self, at: Instant) {
        let search = self.searched.elapsed() >= SEARCH;
        let is_over = |(process, known): (&u32, &Process)| {
            let changed =
                || search && FileId::of(&processes::executable(*process)) != known.executable;
            (known.handle.has_ended() || changed()).then_some(*process)
        };
        let over: Vec<u32> = self.processes.iter().filter_map(is_over).collect();
        // What they did last is looked at first.
        for process in over {
            if self.pending.iter().any(|record| record.process == process) {
                continue;
            }
            self.processes.remove(&process);
            self.nameless.remove(&process);
            self.owners.forget(process);
            self.hooks.dismiss(process);
            for (name, id) in self.nodes.bury(&self.agent, process, at) {
                self.streams.forget(id);
                self.report.tell(&format!("{name} has ended (process {process})"));
            }
        }
    }

    /// Looks for processes that are to be observed.
    fn search(&mut self) {
        let mut found: Vec<u32> = Vec::new();
        for target in self.plan.targets.iter().filter(|t| t.file == t.executable) {
            match &target.processes {
                // One of them may run something else by now.
                Some(processes) => found.extend(processes.iter().filter(|process| {
                    FileId::of(&processes::executable(**process)) == Some(target.executable)
                })),
                None => found.extend(processes::running(target.file)),
            }
        }
        found.retain(|process| !self.processes.contains_key(process));
        let mut named: Vec<(String, u32)> = Vec::new();
        for process in found {
            if self.meet(process) {
                let name = processes::node_name(process, &self.plan.file.identity);
                named.extend(name.ok().map(|name| (name, process)));
            }
        }
        named.sort();
        let shows = self.plan.file.probes.iter().any(|probe| probe.of.is_none());
        for (name, process) in named.into_iter().filter(|_| shows) {
            self.nodes.whole(&self.agent, process, &name);
        }
    }

    /// Takes note of a process; returns whether it is there.
    fn meet(&mut self, process: u32) -> bool {
        let handle = match ProcessHandle::open(process) {
            Ok(handle) => handle,
            Err(error) => {
                self.unmet(process, &error);
                return false;
            }
        };
        if handle.has_ended() {
            return false;
        }
        let executable = FileId::of(&processes::executable(process));
        let namespace = processes::network_namespace(process);
        let own = self.plan.targets.iter().filter(|target| Some(target.executable) == executable);
        if own.flat_map(|target| &target.resolution.resolved).any(|resolved| resolved.is_go) {
            self.owners.threadless(process);
        }
        self.processes.insert(process, Process { handle, executable, namespace });
        if let Err(why) = self.hooks.admit(process) {
            self.report.tell(&why.to_string());
        }
        true
    }

    /// A process cannot be observed, since it has ended, which is nothing to tell, or since a limit was
    /// reached.
    fn unmet(&mut self, process: u32, error: &io::Error) {
        // The numbers of ENFILE and EMFILE.
        if matches!(error.raw_os_error(), Some(23 | 24)) && self.nameless.insert(process) {
            let place = format!("process {process}");
            let text = format!("it is not observed: {error}");
            self.report.tell(&AttachError::new(AttachErrorKind::Limit, place, text).to_string());
        }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// The contents of a record, before its node is known.
enum News {
    Whats(Vec<What>),
    Set(Vec<(Vec<String>, Value)>),
    /// The tuple under a key is removed, whatever its value.
    Remove(String, Value),
}

impl News {
    fn into_whats(self, node: &mut Node) -> Vec<What> {
        match self {
            News::Whats(whats) => whats,
            News::Set(fields) => vec![node.observe(fields)],
            News::Remove(relation, key) => node.remove(&relation, key).into_iter().collect(),
        }
    }
}

fn news(record: &Record, resolved: &Resolved, action: &Action) -> Result<News, Unreadable> {
    let values = |terms: &[Expr]| -> Result<Vec<Value>, Unreadable> {
        terms.iter().map(|term| record.value(resolved, term)).collect()
    };
    Ok(match action {
        Action::Add { relation, terms } => {
            News::Whats(vec![What::Add(Node::tuple(relation, values(terms)?))])
        }
        Action::Remove { relation, terms } => {
            let mut values = values(terms)?;
            match values.len() {
                1 => News::Remove(relation.clone(), values.remove(0)),
                _ => News::Whats(vec![What::Remove(Node::tuple(relation, values))]),
            }
        }
        Action::Set(fields) => {
            let read =
                fields.iter().map(|(names, of)| Ok((names.clone(), record.value(resolved, of)?)));
            News::Set(read.collect::<Result<_, Unreadable>>()?)
        }
        Action::Step(name) => {
            News::Whats(vec![What::Event(EventKind::Local { name: name.clone() })])
        }
    })
}

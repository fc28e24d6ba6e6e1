//! The system under test: nodes, environment, properties.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::path::Path;
use std::rc::Rc;

use everhold_node::{AsyncCx, Blueprint, Message, Monitor, Node, NodeId};
use everhold_property::{Library, Property, print};

use crate::env::{Rules, node_id};
use crate::fault::Faults;
use crate::links::Links;
use crate::monitor::MonitorSlot;
use crate::properties;
use crate::record::NodeRecord;
use crate::untested::Allowed;
use crate::view::View;

/// The order in which messages arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// In any order, as datagrams do.
    #[default]
    Datagrams,
    /// In the order of sending for each pair of nodes, as streams do, once and without gaps. Two
    /// nodes are connected from their first message on, until their connection breaks: by a crash
    /// of either, by a [lost](Faults::lose) message or by a [reset](Faults::reset). A crash loses
    /// the messages under way. Both ends are told ([`Node::disconnected`]), after the messages that
    /// still arrived.
    Streams,
    /// In the order of sending for each pair of nodes, without connections: a message that is
    /// [lost](Faults::lose) leaves a gap, one that arrives [twice](Faults::duplicate) does so twice
    /// in a row, and one that is [held back](Faults::delay) holds up those after it.
    Fifo,
}

/// The relation between the nodes' clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clocks {
    /// Clocks are independent: each node's timers fire in order of their deadlines, those of
    /// different nodes in any order. Correctness should not depend on more.
    #[default]
    Independent,
    /// One clock for all: timers fire in order of their deadlines over the whole system. For
    /// protocols that rely on exact clocks.
    Shared,
    /// Each clock runs a little fast, a little slow or exactly, all through an execution. The rate
    /// is a choice of the strategy for each node, recorded as `clock rate` and shrunk towards exact
    /// clocks. For protocols that rely on bounded drift, such as leases: give the bound that they
    /// allow for, and check that a larger one breaks them.
    ///
    /// Timers and [`Cx::now`](everhold_node::Cx::now) follow the node's own clock; the timers of
    /// the whole system fire in the order of the true times that follow from that.
    Drift {
        /// The largest drift of a clock, fast or slow, in parts per million; less than 1,000,000.
        max_ppm: u32,
    },
}

impl Clocks {
    /// Whether timers of different nodes fire in an order that time decides.
    pub(crate) fn are_tied(self) -> bool {
        self != Clocks::Independent
    }

    /// The largest drift of a clock, fast or slow, in parts per million.
    #[must_use]
    pub fn drift_max_ppm(self) -> u32 {
        match self {
            Clocks::Independent | Clocks::Shared => 0,
            Clocks::Drift { max_ppm } => max_ppm,
        }
    }
}

/// A setup closure with a name for its type, so that functions can return it and structs can hold
/// it. [`explore`](crate::explore()), [`Explorer::run`](crate::Explorer::run) and `Timed::new` take
/// it as they take any closure.
///
/// ```
/// use everhold_node::{Cx, Node, NodeId};
/// use everhold_sim::{Explorer, Setup};
/// use serde::Serialize;
///
/// #[derive(Clone, Serialize)]
/// struct Counter { total: u32 }
///
/// impl Node for Counter {
///     type Msg = u32;
///     fn message(&mut self, _: &mut Cx<u32>, _: NodeId, add: u32) { self.total += add; }
/// }
///
/// fn counters(count: usize) -> Setup<u32> {
///     Box::new(move |system| {
///         system.nodes("counter", count, |_| Counter { total: 0 });
///     })
/// }
///
/// for count in 1..4 {
///     Explorer::new().executions(10).run(counters(count)).assert_holds();
/// }
/// ```
pub type Setup<M> = Box<dyn Fn(&mut System<M>) + Send + Sync>;

/// The system under test, as the setup closure describes it.
///
/// The closure runs once for each worker and each replay, and must describe the same system every
/// time; every execution starts from copies of the nodes that it made. For inputs that differ
/// between executions let it [choose](System::choose): then it runs for every execution, and the
/// strategy decides. So nodes must not share memory with each other or with the closure: use
/// messages, monitors and properties. (Memory that is shared anyway shows up as an execution that
/// does not replay.)
pub struct System<M: Message> {
    pub(crate) nodes: Vec<(String, Rc<Blueprint<M>>)>,
    pub(crate) monitors: Vec<MonitorSlot>,
    pub(crate) always: Vec<Rule<M>>,
    pub(crate) sometimes: Vec<Rule<M>>,
    pub(crate) eventually: Vec<Rule<M>>,
    pub(crate) finally: Vec<Rule<M>>,
    pub(crate) properties: Vec<Property>,
    /// Where each property is declared, by its name.
    pub(crate) declared: BTreeMap<String, Declared>,
    pub(crate) library: Library,
    pub(crate) rules: Rules,
    /// Kinds of nodes that only generate load.
    pub(crate) load: Vec<String>,
    pub(crate) allowed: Allowed,
    /// The answers to the setup's choices so far.
    pub(crate) answers: Vec<u32>,
    /// The source of the answers; without one, the first possibility is chosen.
    pub(crate) oracle: Option<Oracle>,
}

/// The declaration of a property.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Declared {
    /// The file and line.
    pub(crate) place: String,
    /// Its text in the language; empty if it is code.
    pub(crate) text: String,
}

/// Answers a choice of the setup, given a label and the number of possibilities.
pub(crate) type Oracle = Box<dyn FnMut(&'static str, u32) -> u32>;

impl<M: Message> fmt::Debug for System<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("System").field("nodes", &self.nodes.len()).finish_non_exhaustive()
    }
}

/// A named closure over the live states.
pub struct Rule<M: Message> {
    /// Its name.
    pub name: String,
    /// The property; its error says what is wrong.
    pub holds: Box<dyn Fn(&View<'_, M>) -> Result<(), String>>,
}

/// The result of a property closure: a plain answer, or an error with the values that show what is
/// wrong.
pub trait Answer {
    /// `Ok` if the property holds, otherwise what is wrong.
    fn into_result(self) -> Result<(), String>;
}

impl Answer for bool {
    fn into_result(self) -> Result<(), String> {
        if self { Ok(()) } else { Err(String::new()) }
    }
}

impl<E: fmt::Display> Answer for Result<(), E> {
    fn into_result(self) -> Result<(), String> {
        self.map_err(|error| error.to_string())
    }
}

impl<M: Message> fmt::Debug for Rule<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The parts of a system, for another engine.
#[derive(Debug)]
pub struct Parts<M: Message> {
    /// The nodes that are there from the start.
    pub nodes: Vec<Rc<Blueprint<M>>>,
    /// Their names and kinds.
    pub names: Vec<NodeRecord>,
    /// The monitors.
    pub monitors: Vec<MonitorSlot>,
    /// The `always` closures.
    pub always: Vec<Rule<M>>,
    /// The `eventually` closures.
    pub eventually: Vec<Rule<M>>,
    /// The `finally` closures.
    pub finally: Vec<Rule<M>>,
    /// The properties in the language.
    pub properties: Vec<Property>,
    /// The functions that these may use.
    pub library: Library,
    /// The order in which messages arrive.
    pub network: Network,
    /// The relation between the nodes' clocks.
    pub clocks: Clocks,
    /// The faults that may occur.
    pub faults: Faults,
    /// The rules for links.
    pub links: Links,
    /// Kinds of nodes that only generate load.
    pub load: Vec<String>,
}

impl<M: Message> Parts<M> {
    /// The system that `setup` describes.
    pub fn of(setup: &dyn Fn(&mut System<M>)) -> Parts<M> {
        let mut system = System::new();
        setup(&mut system);
        let names = system.names();
        let System { nodes, monitors, always, properties, library, rules, load, .. } = system;
        let System { eventually, finally, .. } = system;
        let Rules { network, clocks, faults, links, .. } = rules;
        let nodes = nodes.into_iter().map(|(_, blueprint)| blueprint).collect();
        Parts {
            nodes,
            names,
            monitors,
            always,
            eventually,
            finally,
            properties,
            library,
            network,
            clocks,
            faults,
            links,
            load,
        }
    }
}

impl<M: Message> System<M> {
    pub(crate) fn new() -> Self {
        System {
            nodes: Vec::new(),
            monitors: Vec::new(),
            always: Vec::new(),
            sometimes: Vec::new(),
            eventually: Vec::new(),
            finally: Vec::new(),
            properties: Vec::new(),
            declared: BTreeMap::new(),
            library: Library::new(),
            rules: Rules {
                network: Network::default(),
                clocks: Clocks::default(),
                faults: Faults::none(),
                links: Links::new(),
                patience: None,
                lines: Vec::new(),
                bounded: false,
            },
            load: Vec::new(),
            allowed: Allowed::default(),
            answers: Vec::new(),
            oracle: None,
        }
    }

    /// One of `domain` possibilities, for generated inputs: the operations that clients will
    /// request, the number of nodes, settings. The strategy decides, for every execution anew; the
    /// answer is part of the schedule, so it replays, and shrinks towards zero.
    ///
    /// A setup that chooses runs once for every execution, and an exhaustive search goes through
    /// all its answers. Whatever it chooses, it must state the same properties, goals and monitors,
    /// in the same order. Where there is no strategy, on a virtual clock
    /// (`everhold::Timed`) and in the replay of a recording, the answer is 0.
    ///
    /// ```
    /// # use everhold_sim::System;
    /// # #[derive(Clone, serde::Serialize)]
    /// # struct Client { operations: Vec<usize> }
    /// # impl everhold_node::Node for Client {
    /// #     type Msg = u32;
    /// #     fn message(&mut self, _: &mut everhold_node::Cx<u32>, _: everhold_node::NodeId, _: u32) {}
    /// # }
    /// # fn setup(system: &mut System<u32>) {
    /// let length = system.choose("operations", 8);
    /// let operations = (0..length).map(|_| system.choose("operation", 3)).collect();
    /// system.node("client", Client { operations });
    /// # }
    /// # everhold_sim::explore(setup).assert_holds();
    /// ```
    ///
    /// # Panics
    ///
    /// If `domain` is zero.
    #[track_caller]
    pub fn choose(&mut self, label: &'static str, domain: usize) -> usize {
        assert!(domain > 0, "choose(\"{label}\") needs at least one possibility");
        let domain = u32::try_from(domain).expect("a choice has fewer than 2^32 possibilities");
        let oracle = self.oracle.as_mut().filter(|_| domain > 1);
        let answer = oracle.map_or(0, |oracle| oracle(label, domain));
        self.answers.push(answer);
        answer as usize
    }

    /// A boolean that the strategy chooses, as with [`choose`](Self::choose); shrinks towards
    /// `false`.
    #[track_caller]
    pub fn flip(&mut self, label: &'static str) -> bool {
        self.choose(label, 2) == 1
    }

    /// Adds a node with handlers.
    pub fn node<N: Node<Msg = M> + Clone>(&mut self, kind: &str, node: N) -> NodeId {
        self.add(kind, Blueprint::copy_of(node))
    }

    /// Adds a node that cannot be copied and is therefore made anew for every execution, and after
    /// every crash.
    pub fn node_with<N: Node<Msg = M>>(
        &mut self,
        kind: &str,
        make: impl Fn() -> N + 'static,
    ) -> NodeId {
        self.add(kind, Blueprint::made_by(make))
    }

    /// Adds `count` nodes of a kind; `make` gets the number within the kind.
    pub fn nodes<N: Node<Msg = M> + Clone>(
        &mut self,
        kind: &str,
        count: usize,
        mut make: impl FnMut(usize) -> N,
    ) -> Vec<NodeId> {
        (0..count).map(|number| self.node(kind, make(number))).collect()
    }

    /// Adds an async node.
    pub fn spawn<F, Fut>(&mut self, kind: &str, program: F) -> NodeId
    where
        F: Fn(AsyncCx<M>) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        self.add(kind, Blueprint::program(program))
    }

    /// Adds a node of another form, such as a host.
    #[doc(hidden)]
    pub fn process(&mut self, kind: &str, blueprint: Blueprint<M>) -> NodeId {
        self.add(kind, blueprint)
    }

    fn add(&mut self, kind: &str, blueprint: Blueprint<M>) -> NodeId {
        self.nodes.push((kind.to_owned(), Rc::new(blueprint)));
        node_id(self.nodes.len() - 1)
    }

    /// Marks the nodes of a kind as load generators: they stand for users, and the time for which
    /// they wait is not the system's doing. A performance analysis does not count their own
    /// waiting, and blames neither them nor their messages. Exploration treats them like other
    /// nodes.
    ///
    /// ```
    /// # fn setup(system: &mut everhold_sim::System<u32>) {
    /// system.spawn("user", |cx| async move {
    ///     cx.sleep(std::time::Duration::from_millis(cx.random() % 5_000)).await;
    ///     cx.call(everhold_node::NodeId(1), 1).await;
    /// });
    /// system.load("user");
    /// # }
    /// ```
    pub fn load(&mut self, kind: &str) {
        self.load.push(kind.to_owned());
    }

    /// Sets the faults that may occur. Without this call there are none, but messages arrive in any
    /// order.
    pub fn faults(&mut self, faults: Faults) {
        self.rules.faults = faults;
    }

    /// Sets the order in which messages arrive.
    pub fn network(&mut self, network: Network) {
        self.rules.network = network;
    }

    /// Gives links and kinds of messages network rules of their own; see [`Links`].
    pub fn links(&mut self, links: Links) {
        self.rules.links = links;
    }

    /// Sets the relation between the nodes' clocks.
    ///
    /// ```
    /// use everhold_sim::{Clocks, System};
    /// # fn setup(system: &mut System<u32>) {
    /// // Clocks that are wrong by up to 100 ms in a second.
    /// system.clocks(Clocks::Drift { max_ppm: 100_000 });
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If clocks may drift by 1,000,000 parts per million or more: they would stand still.
    #[track_caller]
    pub fn clocks(&mut self, clocks: Clocks) {
        let max_ppm = clocks.drift_max_ppm();
        assert!(
            max_ppm < 1_000_000,
            "a drift of {max_ppm} ppm would stop a clock; give less than 1,000,000"
        );
        self.rules.clocks = clocks;
    }

    /// Bounds the virtual time for which messages and tasks wait on [shared](Clocks::Shared) clocks:
    /// no timer fires after it while something waits for longer. Without a bound, a message may be
    /// slower than every timeout.
    #[doc(hidden)]
    pub fn patience(&mut self, patience: std::time::Duration) {
        self.rules.patience = Some(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds a property of every reachable state, which is checked after each step.
    ///
    /// Return `bool`, or `Result<(), impl Display>` to say which values are wrong.
    #[track_caller]
    pub fn always<A: Answer>(&mut self, name: &str, holds: impl Fn(&View<'_, M>) -> A + 'static) {
        self.declare(name);
        self.always.push(rule(name, holds));
    }

    /// Adds a goal: a state that some execution should reach. If no execution of a search does,
    /// [`Report::assert_holds`](crate::Report::assert_holds) fails: otherwise a system that does
    /// nothing would pass. [`may_be_missed`](Self::may_be_missed) allows it.
    #[track_caller]
    pub fn sometimes(&mut self, name: &str, reached: impl Fn(&View<'_, M>) -> bool + 'static) {
        self.declare(name);
        self.sometimes.push(rule(name, reached));
    }

    /// Adds a state that every execution must reach at some point, if it is fair and faults end.
    /// The states after that do not matter; [`finally`](Self::finally) is about the end.
    ///
    /// It is violated if an execution ends by itself without it, or if it is not reached in a long
    /// fair tail without faults. Where an execution is cut off in another way, nothing is known.
    #[track_caller]
    pub fn eventually(&mut self, name: &str, reached: impl Fn(&View<'_, M>) -> bool + 'static) {
        self.declare(name);
        self.eventually.push(rule(name, reached));
    }

    /// Adds a property that must be true when an execution has ended. Before the end, it may be
    /// false at times.
    ///
    /// It is violated if nothing can happen any more while it is false; if it stays false in a long
    /// fair tail without faults; and if the system repeats a round in the tail in which it is false
    /// again and again. Where an execution is cut off in another way, nothing is known.
    ///
    /// ```
    /// # fn setup(system: &mut everhold_sim::System<u32>) {
    /// system.finally("all replicas agree", |s| {
    ///     let values: Vec<_> = s.all::<Replica>().map(|(_, replica)| replica.value).collect();
    ///     values.windows(2).all(|pair| pair[0] == pair[1])
    /// });
    /// # }
    /// # #[derive(Clone, serde::Serialize)]
    /// # struct Replica { value: u32 }
    /// # impl everhold_node::Node for Replica {
    /// #     type Msg = u32;
    /// #     fn message(&mut self, _: &mut everhold_node::Cx<u32>, _: everhold_node::NodeId, new: u32) {
    /// #         self.value = new;
    /// #     }
    /// # }
    /// ```
    #[track_caller]
    pub fn finally(&mut self, name: &str, holds: impl Fn(&View<'_, M>) -> bool + 'static) {
        self.declare(name);
        self.finally.push(rule(name, holds));
    }

    /// Adds properties in the language, as text; `everhold help properties` describes it.
    ///
    /// ```
    /// # fn setup(system: &mut everhold_sim::System<u32>) {
    /// system.property(r#"
    ///     always "one leader per term":
    ///       forall a, b in nodes where a != b:
    ///         not (a.role == "leader" and b.role == "leader" and a.term == b.term)
    /// "#);
    /// # }
    /// ```
    ///
    /// A bound in time (`within 5s`) is judged on [shared](Clocks::Shared) and
    /// [drifting](Clocks::Drift) clocks, in true time; on independent clocks time means nothing,
    /// and what is owed is judged at the end.
    ///
    /// # Panics
    ///
    /// If the text has errors; the message shows all of them, each with its place and a remedy.
    #[track_caller]
    pub fn property(&mut self, text: &str) {
        let caller = Location::caller().to_string();
        match properties::read(text, &caller) {
            Ok(properties) => self.declare_all(properties, &caller),
            Err(errors) => panic!("{errors}"),
        }
    }

    /// Adds properties from a `.prop` file, as `everhold check` reads it. A relative path is looked
    /// up from the package's folder upwards.
    ///
    /// # Panics
    ///
    /// If the file cannot be read or has errors.
    #[track_caller]
    pub fn property_file(&mut self, path: impl AsRef<Path>) {
        let path = path.as_ref();
        let here = std::env::current_dir().unwrap_or_default();
        let found = here.ancestors().map(|folder| folder.join(path)).find(|path| path.is_file());
        let Some(file) = found else {
            panic!("there is no file {} in {} or above it", path.display(), here.display())
        };
        let text = std::fs::read_to_string(&file)
            .unwrap_or_else(|error| panic!("{} cannot be read: {error}", file.display()));
        match properties::read(&text, &file.display().to_string()) {
            Ok(properties) => self.declare_all(properties, &path.display().to_string()),
            Err(errors) => panic!("{errors}"),
        }
    }

    /// Adds properties that were read already, such as inferred ones.
    pub fn properties(&mut self, properties: &[Property]) {
        self.properties.extend_from_slice(properties);
    }

    /// Notes where a property is declared: at the caller of the method that calls this one.
    #[track_caller]
    fn declare(&mut self, name: &str) {
        let caller = Location::caller();
        let place = format!("{}:{}", caller.file(), caller.line());
        self.declared.insert(name.to_owned(), Declared { place, text: String::new() });
    }

    /// Adds properties in the language that were read at a place.
    fn declare_all(&mut self, properties: Vec<Property>, place: &str) {
        for property in &properties {
            let declared = Declared { place: place.to_owned(), text: print(property) };
            self.declared.insert(property.name.clone(), declared);
        }
        self.properties.extend(properties);
    }

    /// The constants and functions that properties in the language may use.
    pub fn library(&mut self, library: Library) {
        self.library = library;
    }

    /// Adds a monitor, a specification with a memory; see [`Monitor`].
    #[track_caller]
    pub fn monitor(&mut self, name: &str, monitor: impl Monitor) {
        self.declare(name);
        self.monitors.push(MonitorSlot::new(name, monitor));
    }

    /// Lets the search pass although no execution reaches this `sometimes` goal, whether it is a
    /// closure or in the language: for goals that are too rare for the budget of every run.
    pub fn may_be_missed(&mut self, goal: &str) {
        self.allowed.goals.insert(goal.to_owned());
    }

    /// Lets the search pass although properties, faults or rules of links name this kind of node and
    /// no execution has one: for property files that several systems share.
    pub fn may_be_absent(&mut self, kind: &str) {
        self.allowed.kinds.insert(kind.to_owned());
    }

    /// Lets the search pass although this property in the language is unknown, or out of its scope,
    /// in every state; or although no execution could judge this property or monitor, because a
    /// timer takes too long or a checker reached its bound.
    pub fn may_be_untested(&mut self, property: &str) {
        self.allowed.properties.insert(property.to_owned());
    }

    pub(crate) fn names(&self) -> Vec<NodeRecord> {
        let kinds: Vec<&str> = self.nodes.iter().map(|(kind, _)| kind.as_str()).collect();
        let name = |at: usize| {
            let kind = kinds[at];
            let alike = kinds.iter().filter(|other| **other == kind).count();
            let number = kinds[..at].iter().filter(|other| **other == kind).count();
            let name = if alike == 1 { kind.to_owned() } else { format!("{kind}-{number}") };
            NodeRecord { name, kind: kind.to_owned() }
        };
        (0..kinds.len()).map(name).collect()
    }
}

fn rule<M: Message, A: Answer>(name: &str, holds: impl Fn(&View<'_, M>) -> A + 'static) -> Rule<M> {
    Rule { name: name.to_owned(), holds: Box::new(move |view| holds(view).into_result()) }
}

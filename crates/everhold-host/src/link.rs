//! The way from a host to the explorer.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use everhold_node::{Handle, NodeId, Runtime, Tag, Time, Timer, Weights};
use everhold_os::Choices;

use crate::packet::Packet;
use crate::run::Preemption;

/// The name of the timer that stands for a host's next deadline.
const DEADLINE: &str = "deadline";

/// The choice whether a piece of a stream comes in parts, and how likely that is.
const PARTS: &str = "in parts";
const WHOLE_OR_PARTS: [u32; 2] = [15, 1];

/// The explorer, as one host asks it.
#[derive(Clone, Default)]
pub(crate) struct Link(Rc<Ends>);

#[derive(Default)]
struct Ends {
    runtime: RefCell<Option<Handle<Packet>>>,
    node: Cell<NodeId>,
}

impl Link {
    /// The host is this node from now on.
    pub(crate) fn connect(&self, runtime: &Handle<Packet>, node: NodeId) {
        self.0.node.set(node);
        *self.0.runtime.borrow_mut() = Some(Rc::clone(runtime));
    }

    pub(crate) fn node(&self) -> NodeId {
        self.0.node.get()
    }

    fn ask<R>(&self, work: impl FnOnce(&mut dyn Runtime<Packet>, NodeId) -> R) -> R {
        let runtime = self.0.runtime.borrow();
        let runtime = runtime.as_ref().expect("a host that runs is a node");
        work(&mut *runtime.borrow_mut(), self.node())
    }

    pub(crate) fn now(&self) -> Time {
        self.ask(|runtime, node| runtime.now(node))
    }

    pub(crate) fn incarnation(&self) -> u32 {
        self.ask(|runtime, node| runtime.incarnation(node)) as u32
    }

    pub(crate) fn send(&self, to: NodeId, packet: impl Into<Packet>) {
        let packet = packet.into();
        self.ask(|runtime, node| runtime.send(node, to, Tag::None, packet));
    }

    /// Sets the host's one timer, or takes it back.
    pub(crate) fn set_deadline(&self, after: Option<Duration>) {
        self.ask(|runtime, node| match after {
            Some(after) => runtime.set_timer(node, Timer::from(DEADLINE), after),
            None => {
                runtime.cancel_timer(node, Timer::from(DEADLINE));
            }
        });
    }

    pub(crate) fn fail(&self, assertion: &str, message: String) {
        self.ask(|runtime, node| runtime.fail(node, assertion, message));
    }

    pub(crate) fn note(&self, text: impl FnOnce() -> String) {
        self.ask(|runtime, node| {
            if runtime.is_recorded() {
                runtime.note(node, text());
            }
        });
    }

    /// Whether something that could travel whole comes in parts: seldom.
    fn splits(&self) -> bool {
        let weights = Weights::new(PARTS, &WHOLE_OR_PARTS);
        self.ask(|runtime, node| runtime.choose_weighted(node, PARTS, weights)) == 1
    }

    pub(crate) fn choose_of(&self, label: &'static str, weights: &[u32]) -> u32 {
        let weights = Weights::new(label, weights);
        self.ask(|runtime, node| runtime.choose_weighted(node, label, weights))
    }

    pub(crate) fn halt(&self, node: NodeId) {
        self.ask(|runtime, _| runtime.halt(node));
    }
}

impl Choices for Link {
    fn choose(&mut self, label: &str, domain: u32) -> u32 {
        let label = kept(label);
        // A read takes all that is there, as programs that wait for edges rely on; only segments
        // are split.
        if label == "bytes of a read" || label.starts_with("bytes of ") && !self.splits() {
            return 0;
        }
        self.ask(|runtime, node| runtime.choose(node, label, domain))
    }

    fn random(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(size_of::<u64>()) {
            let number = self.ask(|runtime, node| runtime.random(node)).to_le_bytes();
            part.copy_from_slice(&number[..part.len()]);
        }
    }
}

/// A label that lives for ever. There are few of them.
fn kept(label: &str) -> &'static str {
    thread_local! {
        static KEPT: RefCell<BTreeMap<String, &'static str>> = const { RefCell::new(BTreeMap::new()) };
    }
    KEPT.with_borrow_mut(|kept| {
        if let Some(known) = kept.get(label) {
            return *known;
        }
        let leaked: &'static str = Box::leak(label.to_owned().into_boxed_str());
        kept.insert(label.to_owned(), leaked);
        leaked
    })
}

/// All hosts of a system, as each of them knows it.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// The node at each address.
    pub(crate) nodes: BTreeMap<IpAddr, NodeId>,
    /// The node of each host, by its name.
    pub(crate) by_name: BTreeMap<String, NodeId>,
    /// The addresses of each host, by its node.
    pub(crate) addresses: Vec<Vec<IpAddr>>,
    pub(crate) names: everhold_os::Names,
    pub(crate) preemption: Preemption,
    /// The number of clients, and of those whose `main` has not returned in this execution.
    pub(crate) clients: Cell<u32>,
    pub(crate) clients_left: Cell<u32>,
}

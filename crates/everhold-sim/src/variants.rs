//! Setups that choose: they are run for every execution, with answers of the strategy.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use everhold_node::{Message, fingerprint};

use crate::env::Env;
use crate::execute::quietly;
use crate::system::{Rule, System};
use crate::worker::SharedSetup;

/// The number of answers with which a setup is tried beforehand, to see how many faults it may
/// allow.
const TRIED: u32 = 16;

/// Describes a system anew, with other answers.
pub(crate) struct Variants<M: Message> {
    setup: SharedSetup<M>,
    properties: Vec<String>,
    /// A hash of the answers of the present execution.
    pub(crate) now: u64,
    /// The largest number of faults that one of the systems allows, as far as they were tried.
    pub(crate) faults_max: u32,
    /// Whether the setup is running.
    pub(crate) describing: bool,
}

impl<M: Message> Variants<M> {
    /// For a setup that chose while it described `system`.
    pub(crate) fn of(setup: &SharedSetup<M>, system: &System<M>) -> Option<Self> {
        if system.answers.is_empty() {
            return None;
        }
        let tried = (1..TRIED).filter_map(|answer| faults_with(setup, answer));
        Some(Variants {
            setup: Arc::clone(setup),
            properties: properties_of(system),
            now: 0,
            faults_max: tried.max().unwrap_or(0),
            describing: false,
        })
    }

    /// The system of the next execution.
    pub(crate) fn next(&mut self, env: &Rc<RefCell<Env<M>>>) -> System<M> {
        self.describing = true;
        let env = Rc::clone(env);
        let mut system = System::new();
        system.oracle =
            Some(Box::new(move |label, domain| env.borrow_mut().choose_in_setup(label, domain)));
        (self.setup)(&mut system);
        assert!(!system.nodes.is_empty(), "it described a system without nodes");
        let properties = properties_of(&system);
        assert!(
            properties == self.properties,
            "it must state the same properties whatever it chooses, but stated {properties:?} instead \
             of {:?}; put what differs into the properties themselves",
            self.properties
        );
        self.now = fingerprint::hash(&system.answers);
        self.describing = false;
        system
    }
}

/// The number of faults that the system allows in which every choice is answered like this, as far
/// as possible.
fn faults_with<M: Message>(setup: &SharedSetup<M>, answer: u32) -> Option<u32> {
    let described = quietly(|| {
        let mut system = System::new();
        system.oracle = Some(Box::new(move |_, domain| answer.min(domain - 1)));
        setup(&mut system);
        system.rules.faults.total()
    });
    described.ok()
}

/// The names of everything that is judged, in order.
fn properties_of<M: Message>(system: &System<M>) -> Vec<String> {
    let named = |what: &str, rules: &[Rule<M>]| {
        let names = rules.iter().map(|rule| format!("{what} {}", rule.name));
        names.collect::<Vec<_>>()
    };
    let mut all = named("always", &system.always);
    all.extend(named("sometimes", &system.sometimes));
    all.extend(named("eventually", &system.eventually));
    all.extend(named("finally", &system.finally));
    all.extend(system.properties.iter().map(|property| format!("property {}", property.name)));
    all.extend(system.monitors.iter().map(|monitor| format!("monitor {}", monitor.name)));
    all
}

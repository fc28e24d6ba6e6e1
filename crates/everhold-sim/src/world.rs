//! The nodes and their environment in one execution: a step function that decides nothing itself.

mod judging;
mod recording;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use everhold_node::fingerprint::{self, mix};
use everhold_node::{Blueprint, CrashModel, Handle, Message, NodeId, Process, TaskId};
use everhold_property::Library;

pub(crate) use judging::debtor_bit;

use crate::coverage::Coverage;
use crate::env::{Action, Env, NodeState, State, Status, node_id};
use crate::properties::Properties;
use crate::record::NodeRecord;
use crate::strategy::{Random, Strategy};
use crate::stuck::Witness;
use crate::system::{Declared, Rule, System};
use crate::untested::Allowed;
use crate::variants::Variants;
use crate::worker::SharedSetup;

/// The number of bits of a beat that hold the node.
const NODE_BITS: u32 = 20;
const NODE_MASK: u64 = (1 << NODE_BITS) - 1;

/// A node as the world holds it.
pub(crate) struct Slot<M> {
    pub(crate) process: Box<dyn Process<M>>,
    blueprint: Rc<Blueprint<M>>,
    tasks: bool,
    /// Whether it has no guard, no tasks and no streams: nothing to look after when a step is done.
    plain: bool,
    /// A hash of the node's own state and of the state that the environment keeps for it.
    pub(crate) hash: u64,
}

/// The result of a step.
pub(crate) enum Stepped {
    /// Something happened at this node.
    At(NodeId),
    /// Something happened at a node, and the execution fails.
    Failed,
    /// Nothing can happen.
    Quiet,
    /// The strategy ends the execution.
    Ended,
}

pub(crate) struct World<M: Message> {
    pub(crate) env: Rc<RefCell<Env<M>>>,
    handle: Handle<M>,
    pub(crate) slots: Vec<Slot<M>>,
    pub(crate) names: Vec<NodeRecord>,
    /// Every kind of node that an execution had so far.
    pub(crate) kinds: Vec<String>,
    initial: usize,
    pub(crate) always: Vec<Rule<M>>,
    pub(crate) sometimes: Vec<Rule<M>>,
    pub(crate) eventually: Vec<Rule<M>>,
    pub(crate) finally: Vec<Rule<M>>,
    /// Properties in the language.
    pub(crate) properties: Option<Properties>,
    /// Where the properties are declared, by their names.
    declared: BTreeMap<String, Declared>,
    library: Library,
    allowed: Allowed,
    has_no_rules: bool,
    /// Goals reached in this execution.
    pub(crate) reached: Vec<bool>,
    /// `eventually` rules that have not been true yet, then `finally` rules that are not true now.
    pub(crate) open: Vec<bool>,
    /// Where the present step happens, for blaming a panic.
    pub(crate) current: NodeId,
    ready: Vec<TaskId>,
    /// Whether properties are being evaluated.
    judging: bool,
    /// Counts steps, so that observers see that the world still moves.
    pub(crate) pulse: Option<Arc<AtomicU64>>,
    beats: u64,
    /// Whether this execution is examined closely.
    watched: bool,
    /// The coverage, while the execution is examined closely.
    pub(crate) coverage: Option<Coverage>,
    phase: String,
    /// Is told of every handler before it is called, where one may not return.
    pub(crate) witness: Option<Arc<Mutex<Witness>>>,
    /// The handler, by its number, at which the witness is given the log.
    pub(crate) suspect: Option<u64>,
    /// Sum of the slots' hashes.
    pub(crate) hash: u64,
    /// Nodes that died in the middle of their start and are not down yet.
    fallen: Vec<(NodeId, CrashModel)>,
    /// Describes the system anew for every execution, if it chooses.
    pub(crate) variants: Option<Variants<M>>,
}

impl<M: Message> World<M> {
    pub(crate) fn new(setup: &SharedSetup<M>) -> Self {
        let mut system = System::new();
        setup(&mut system);
        let variants = Variants::of(setup, &system);
        let names = system.names();
        let System { nodes, monitors, always, sometimes, eventually, finally, .. } = system;
        let System { properties, declared, library, rules, allowed, .. } = system;
        let properties = Properties::new(&properties, &library);
        let strategy: Box<dyn Strategy> = Box::new(Random::default());
        let mut env = Env::new(rules, strategy);
        env.state.monitors = monitors;
        let env = Rc::new(RefCell::new(env));
        let handle: Handle<M> = env.clone();
        let mut world = World {
            env,
            handle,
            slots: Vec::new(),
            names,
            kinds: Vec::new(),
            initial: nodes.len(),
            reached: vec![false; sometimes.len()],
            open: vec![true; eventually.len() + finally.len()],
            has_no_rules: always.is_empty()
                && sometimes.is_empty()
                && eventually.is_empty()
                && finally.is_empty()
                && properties.is_none(),
            properties,
            declared,
            library,
            allowed,
            always,
            sometimes,
            eventually,
            finally,
            current: NodeId(0),
            ready: Vec::new(),
            judging: false,
            pulse: None,
            beats: 0,
            watched: false,
            coverage: None,
            phase: String::new(),
            witness: None,
            suspect: None,
            hash: 0,
            fallen: Vec::new(),
            variants,
        };
        world.adopt_all(nodes);
        world
    }

    fn adopt_all(&mut self, nodes: Vec<(String, Rc<Blueprint<M>>)>) {
        for (kind, blueprint) in nodes {
            let node = self.adopt(&kind, blueprint);
            self.env.borrow_mut().state.nodes.push(node);
        }
    }

    /// Becomes the system that the setup describes with the strategy's answers.
    fn describe_anew(&mut self) {
        let Some(variants) = &mut self.variants else { return };
        let system = variants.next(&self.env);
        let names = system.names();
        let System { nodes, monitors, always, sometimes, eventually, finally, .. } = system;
        let System { properties, library, rules, .. } = system;
        // Dropping an async program may still cancel its timers.
        self.slots.clear();
        self.initial = nodes.len();
        (self.always, self.sometimes) = (always, sometimes);
        (self.eventually, self.finally) = (eventually, finally);
        if let Some(before) = &self.properties {
            let judged = before.judged();
            self.properties = Properties::new(&properties, &library);
            self.properties.iter_mut().for_each(|now| now.remember(&judged));
        }
        {
            let mut env = self.env.borrow_mut();
            env.set_rules(rules);
            env.state.nodes.clear();
            env.state.monitors = monitors;
            if let Some(recorder) = &mut env.recorder {
                recorder.recording.nodes.clone_from(&names);
            }
        }
        (self.names, self.library) = (names, library);
        self.adopt_all(nodes);
        let mut env = self.env.borrow_mut();
        env.reset_state(self.initial);
        env.state.nodes[0].history = self.variant();
    }

    /// A number that distinguishes the systems that a setup chose.
    fn variant(&self) -> u64 {
        self.variants.as_ref().map_or(0, |variants| variants.now)
    }

    /// The largest number of faults that an execution may have.
    pub(crate) fn faults_max(&self) -> u32 {
        let own = self.env.borrow().rules.faults.total();
        self.variants.as_ref().map_or(own, |variants| own.max(variants.faults_max))
    }

    /// Makes the process of a node and the environment's part of it.
    fn adopt(&mut self, kind: &str, blueprint: Rc<Blueprint<M>>) -> NodeState {
        let process = blueprint.make();
        let (guarded, tasks) = (process.is_guarded(), process.has_tasks());
        let mut state = NodeState::fresh(self.kind_number(kind), false, guarded);
        {
            let rules = &self.env.borrow().rules;
            rules.place(kind, &mut state);
            state.tracked |= rules.is_ordered(&state);
            state.strikes = rules.faults.strikes(kind);
        }
        let plain = !tasks && !state.tracked;
        self.slots.push(Slot { process, blueprint, tasks, plain, hash: 0 });
        state
    }

    fn kind_number(&mut self, kind: &str) -> u32 {
        let known = self.kinds.iter().position(|known| known == kind);
        let at = known.unwrap_or_else(|| {
            self.kinds.push(kind.to_owned());
            self.kinds.len() - 1
        });
        at as u32
    }

    pub(crate) fn kind_of(&self, node: NodeId) -> &str {
        self.names.get(node.index()).map_or("", |info| info.kind.as_str())
    }

    pub(crate) fn name_of(&self, node: NodeId) -> &str {
        self.names.get(node.index()).map_or("?", |info| info.name.as_str())
    }

    /// Resets everything to the beginning and starts all nodes.
    pub(crate) fn start(&mut self, seed: u64) {
        self.slots.truncate(self.initial);
        self.names.truncate(self.initial);
        self.fallen.clear();
        for slot in &mut self.slots {
            slot.blueprint.reset(&mut slot.process);
        }
        self.watched = {
            let env = self.env.borrow();
            env.recorder.is_some() || env.hashing || self.coverage.is_some()
        };
        // After the processes: dropping an async program may still cancel its timers.
        self.env.borrow_mut().reset(seed, self.initial);
        self.judging = false;
        self.reached.fill(false);
        self.open.fill(true);
        self.record_start();
        self.describe_anew();
        if self.env.borrow().follows {
            // A real execution begins with the clock of each node.
            for _ in 0..self.initial {
                self.env.borrow_mut().follow();
            }
        }
        for index in 0..self.initial {
            self.env.borrow_mut().set_clock(node_id(index));
        }
        for index in 0..self.initial {
            let id = node_id(index);
            self.current = id;
            self.tell_pulse(id);
            let died = self.survive(|world| world.slots[index].process.start(&world.handle, id));
            if let Some(model) = died {
                self.forget_memory(id);
                self.fallen.push((id, model));
            }
        }
        for index in 0..self.initial {
            self.settle(node_id(index));
        }
        if self.env.borrow().hashing {
            self.rehash_all();
        }
        self.record_initial();
        self.fall_after_start();
    }

    /// Carries out one pick of the strategy.
    pub(crate) fn step(&mut self) -> Stepped {
        let picked = {
            let mut env = self.env.borrow_mut();
            let picked = env.pick();
            if picked.is_none() && !env.state.moves.is_empty() {
                return Stepped::Ended;
            }
            picked
        };
        let Some((action, node)) = picked else { return Stepped::Quiet };
        self.current = node;
        self.tell_pulse(node);
        if self.watched {
            self.step_watched(action, node);
        } else {
            self.attempt(action, node);
            self.settle(node);
        }
        if !self.fallen.is_empty() {
            self.env.borrow_mut().state.step += self.fallen.len() as u32;
            self.fall_after_start();
        }
        if self.env.borrow().failure.is_some() { Stepped::Failed } else { Stepped::At(node) }
    }

    /// Tells outside observers that a handler of this node is called.
    #[inline]
    fn tell_pulse(&mut self, node: NodeId) {
        if let Some(pulse) = &self.pulse {
            self.beats += 1;
            pulse.store(beat(self.beats, node), Ordering::Relaxed);
            if self.witness.is_some() {
                self.tell_witness();
            }
        }
    }

    /// Carries out a step in an execution that is examined closely.
    fn step_watched(&mut self, action: Action<M>, node: NodeId) {
        if self.coverage.is_some() {
            self.cover_pair(&action, node);
        }
        self.attempt(action, node);
        self.settle(node);
        if self.env.borrow().hashing {
            self.rehash(node);
        }
        if self.coverage.is_some() {
            self.cover_state();
        }
        if self.env.borrow().recorder.is_some() {
            self.record_step(node);
        }
    }

    /// Carries out an event in which the node may crash in the middle.
    #[inline]
    fn attempt(&mut self, action: Action<M>, node: NodeId) {
        if !self.env.borrow().may_upset() {
            self.perform(action, node);
            if self.env.borrow().at_disk.is_some() {
                self.env.borrow_mut().end_at_disk();
            }
            return;
        }
        if let Some(model) = self.survive(|world| world.perform(action, node)) {
            self.forget_memory(node);
            self.env.borrow_mut().state.step += 1;
            self.fall(node, model);
        }
    }

    /// Runs an event. If its node dies in the middle, the rest of the event is a ghost, whose
    /// panics are ignored; returns the model of the crash then.
    fn survive(&mut self, event: impl FnOnce(&mut Self)) -> Option<CrashModel> {
        let result = panic::catch_unwind(AssertUnwindSafe(|| event(self)));
        let died = self.env.borrow_mut().end_at_disk();
        match (result, died) {
            (Err(panic), None) => panic::resume_unwind(panic),
            (_, died) => died,
        }
    }

    /// Takes down the nodes that died in the middle of their start, after everything else is
    /// recorded.
    fn fall_after_start(&mut self) {
        for (node, model) in std::mem::take(&mut self.fallen) {
            self.fall(node, model);
            self.env.borrow_mut().close_record(node);
            if self.env.borrow().hashing {
                self.rehash(node);
            }
        }
    }

    fn forget_memory(&mut self, node: NodeId) {
        let slot = &mut self.slots[node.index()];
        slot.blueprint.reset(&mut slot.process);
    }

    /// Takes down a node that died in the middle of an event; its disk keeps what the crash leaves.
    fn fall(&mut self, node: NodeId, model: CrashModel) {
        let mut env = self.env.borrow_mut();
        env.fall_inside(node);
        env.crash_disk(node, model);
    }

    #[inline]
    fn perform(&mut self, action: Action<M>, node: NodeId) {
        let slot = &mut self.slots[node.index()];
        match action {
            Action::Deliver { to, from, tag, msg } => {
                slot.process.message(&self.handle, to, from, tag, msg);
            }
            Action::Timer { node, timer } => slot.process.timer(&self.handle, node, timer),
            Action::Poll { node, task } => slot.process.poll(&self.handle, node, task),
            Action::Restart(node) => {
                self.env.borrow_mut().come_back(node);
                slot.process.restart(&self.handle, node);
            }
            Action::Crash(node) => {
                slot.blueprint.reset(&mut slot.process);
                let model = self.env.borrow().rules.faults.crash_model;
                self.env.borrow_mut().crash_disk(node, model);
            }
            Action::Disconnected { node, peer } => {
                slot.process.disconnected(&self.handle, node, peer);
            }
            Action::Reset(one, other) => self.env.borrow_mut().reset_between(one, other),
            Action::Healed | Action::Faulted => {}
        }
    }

    /// Updates the world after a step at `node`: adopts new nodes, asks guards, lists tasks.
    #[inline]
    fn settle(&mut self, node: NodeId) {
        let plain = self.slots[node.index()].plain;
        if !plain || self.env.borrow().has_news() {
            self.settle_slowly(node);
        }
    }

    fn settle_slowly(&mut self, node: NodeId) {
        if self.slots[node.index()].tasks {
            self.list_tasks(node);
        }
        let halted = std::mem::take(&mut self.env.borrow_mut().halted);
        for gone in halted {
            self.env.borrow_mut().leave(gone);
        }
        self.adopt_spawned();
        if !self.slots[node.index()].plain {
            self.refresh(node);
        }
        let mut unchecked = std::mem::take(&mut self.env.borrow_mut().unchecked);
        unchecked.sort_unstable();
        unchecked.dedup();
        for waiting in unchecked.drain(..) {
            self.refresh(waiting);
        }
        self.env.borrow_mut().unchecked = unchecked;
    }

    fn adopt_spawned(&mut self) {
        let parent = self.current;
        loop {
            let next = self.env.borrow_mut().spawned.pop_front();
            let Some((kind, blueprint)) = next else { break };
            self.adopt_one(&kind, Rc::new(blueprint));
        }
        self.current = parent;
    }

    /// The name and the kind of a node that is added now.
    fn introduce(&mut self, kind: &str) -> NodeRecord {
        let number = self.names.iter().filter(|info| info.kind == kind).count();
        let info = NodeRecord { name: format!("{kind}-{number}"), kind: kind.to_owned() };
        self.names.push(info.clone());
        info
    }

    fn adopt_one(&mut self, kind: &str, blueprint: Rc<Blueprint<M>>) {
        let id = node_id(self.slots.len());
        let state = self.adopt(kind, blueprint);
        let info = self.introduce(kind);
        {
            let mut env = self.env.borrow_mut();
            let inbox = std::mem::take(&mut env.state.nodes[id.index()].inbox);
            env.state.nodes[id.index()] = state;
            env.state.nodes[id.index()].inbox = inbox;
            env.state.forget_targets();
            // Messages may wait for it already; let the one path that knows the rules offer them.
            env.state.nodes[id.index()].tracked = true;
            if let Some(recorder) = &mut env.recorder {
                recorder.spawn(id, info);
            }
            env.set_clock(id);
        }
        self.current = id;
        self.tell_pulse(id);
        self.slots[id.index()].plain = false;
        let died = self.survive(|world| world.slots[id.index()].process.start(&world.handle, id));
        if let Some(model) = died {
            self.forget_memory(id);
            self.fallen.push((id, model));
        }
        if self.slots[id.index()].tasks {
            self.list_tasks(id);
        }
        self.refresh(id);
        if self.env.borrow().hashing {
            self.rehash(id);
        }
        let recorded = self.env.borrow().recorder.is_some();
        let observed = recorded.then(|| self.observe(id));
        if let (Some(recorder), Some(state)) = (&mut self.env.borrow_mut().recorder, observed) {
            recorder.spawned(id, state);
        }
    }

    fn refresh(&mut self, node: NodeId) {
        let process = &self.slots[node.index()].process;
        let accepts = |from, tag, msg: &M| process.accepts(from, tag, msg);
        self.env.borrow_mut().refresh(node, accepts);
    }

    fn list_tasks(&mut self, node: NodeId) {
        self.ready.clear();
        self.slots[node.index()].process.ready(&mut self.ready);
        let mut env = self.env.borrow_mut();
        if !self.ready.is_empty() || !env.state.nodes[node.index()].polls.is_empty() {
            env.offer_polls(node, &self.ready);
        }
    }

    /// A hash of the whole state. Nodes whose state cannot be seen count by their history, so that
    /// two different states are never taken for equal.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint_in(&self.env.borrow().state)
    }

    /// The same, for a caller that has borrowed the environment already.
    pub(crate) fn fingerprint_in(&self, state: &State<M>) -> u64 {
        let hash = mix(self.hash ^ self.variant(), state.fingerprint());
        // Rules that remember distinguish states: where one is still owed, the future matters
        // differently.
        let once = &self.open[..self.eventually.len()];
        let hash = if once.is_empty() { hash } else { mix(hash, fingerprint::hash(&once)) };
        let memory = self.properties.as_ref().and_then(Properties::memory);
        memory.map_or(hash, |memory| mix(hash, memory))
    }

    fn rehash(&mut self, node: NodeId) {
        let slot = &mut self.slots[node.index()];
        let env = self.env.borrow();
        let state = &env.state.nodes[node.index()];
        let own = slot.process.fingerprint().unwrap_or(state.history);
        let hash = mix(u64::from(node.0) + 1, mix(own, state.fingerprint()));
        self.hash = self.hash.wrapping_sub(slot.hash).wrapping_add(hash);
        slot.hash = hash;
    }

    /// Hash of the nodes' states, computed from scratch.
    pub(crate) fn end_state(&mut self) -> u64 {
        self.rehash_all();
        self.hash
    }

    fn rehash_all(&mut self) {
        self.hash = 0;
        for index in 0..self.slots.len() {
            self.slots[index].hash = 0;
            self.rehash(node_id(index));
        }
    }

    fn cover_pair(&mut self, action: &Action<M>, node: NodeId) {
        let Action::Deliver { msg, .. } = action else { return };
        self.slots[node.index()].process.phase(&mut self.phase);
        let kind = self.env.borrow().state.nodes[node.index()].kind;
        if let Some(coverage) = &mut self.coverage {
            let name = self.kinds.get(kind as usize).map_or("", String::as_str);
            coverage.add_pair(kind, name, &self.phase, fingerprint::kind(msg));
        }
    }

    fn cover_state(&mut self) {
        let fingerprint = self.fingerprint();
        if let Some(coverage) = &mut self.coverage {
            coverage.states.add(fingerprint);
        }
    }

    /// Starts hashing states in the middle of an execution.
    pub(crate) fn begin_hashing(&mut self) {
        {
            let mut env = self.env.borrow_mut();
            env.hashing = true;
            env.state.rehash_network();
        }
        self.watched = true;
        self.rehash_all();
    }

    /// Updates the world after a change of the environment that concerns all nodes.
    pub(crate) fn settle_all(&mut self) {
        for index in 0..self.slots.len() {
            self.settle(node_id(index));
        }
    }

    /// True if every node's state can be seen whole.
    pub(crate) fn is_transparent(&self) -> bool {
        self.slots.iter().all(|slot| slot.process.fingerprint().is_some())
    }

    /// The nodes that are not up.
    pub(crate) fn down(&self) -> Vec<NodeId> {
        let env = self.env.borrow();
        let is_down = |node: &NodeId| env.state.nodes[node.index()].status != Status::Up;
        (0..self.slots.len()).map(node_id).filter(is_down).collect()
    }

    /// A node that waits although nothing can happen.
    pub(crate) fn waiting(&self) -> Option<(NodeId, String)> {
        (0..self.slots.len()).map(node_id).find_map(|node| {
            let up = self.env.borrow().state.nodes[node.index()].status == Status::Up;
            let waiting = self.slots[node.index()].process.waiting().filter(|_| up)?;
            Some((node, waiting.what))
        })
    }
}

/// A number that differs from step to step and says at which node the step is.
fn beat(beats: u64, node: NodeId) -> u64 {
    beats << NODE_BITS | u64::from(node.0) & NODE_MASK
}

/// The number of a beat.
pub(crate) fn number_of_beat(beat: u64) -> u64 {
    beat >> NODE_BITS
}

/// The node in a beat.
pub(crate) fn node_of_beat(beat: u64) -> NodeId {
    NodeId((beat & NODE_MASK) as u32)
}

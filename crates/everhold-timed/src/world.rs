//! One timed execution: nodes with their environment, and a step function.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use everhold_node::{Blueprint, Handle, Message, NodeId, Process, TaskId, Time};
use everhold_sim::View;
use everhold_sim::engine::{
    Halt, Names, Panic, Properties, Rule, Scene, Stage, Stopwatch, node_id, quietly,
};
use everhold_sim::record::NodeRecord;
use everhold_sim::{Cause, Failure};
use everhold_trace::Value;

use super::busy::Busy;
use super::draws::{Change, Draws};
use super::durations::nanoseconds;
use super::env::{Env, Item, Next, State, What};
use super::fault::TimedFault;
use super::kinds::{Class, Kinds};
use super::model::Model;
use super::record::{Recorded, Recorder};
use super::run::{Ended, TimedRun};
use super::stop::Nearness;

/// A node in a timed world.
pub(crate) struct Slot<M> {
    pub(crate) process: Box<dyn Process<M>>,
    blueprint: Rc<Blueprint<M>>,
    tasks: bool,
}

/// Nodes and environment at one moment, as properties see them.
pub(crate) struct Stand<'a, M: Message> {
    slots: &'a [Slot<M>],
    env: &'a Env<M>,
}

impl<M: Message> Stand<'_, M> {
    pub(crate) fn is_gone(&self, node: NodeId) -> bool {
        self.env.is_gone(node)
    }
}

impl<M: Message> Stage<M> for Stand<'_, M> {
    #[inline]
    fn nodes(&self) -> usize {
        self.slots.len()
    }
    #[inline]
    fn process(&self, index: usize) -> Option<&dyn Process<M>> {
        self.slots.get(index).map(|slot| &*slot.process)
    }
    #[inline]
    fn is_up(&self, node: NodeId) -> bool {
        self.env.is_up(node)
    }
    fn places(&self) -> usize {
        self.env.places()
    }
    fn flight(&self, place: usize) -> Option<(NodeId, NodeId, &M)> {
        self.env.flight(place)
    }
    fn sent(&self, node: NodeId) -> u32 {
        self.env.sent(node)
    }
    fn delivered(&self) -> Option<(NodeId, u32)> {
        self.env.delivered()
    }
    fn now(&self) -> u64 {
        self.env.now_ns()
    }
}

/// A timed execution that advances event by event; made by [`Sim::start`](super::Sim::start).
pub struct World<M: Message> {
    model: Rc<Model<M>>,
    pub(super) env: Rc<RefCell<Env<M>>>,
    handle: Handle<M>,
    slots: Vec<Slot<M>>,
    names: Vec<NodeRecord>,
    progress: Nearness,
    properties: Option<Properties>,
    /// The `eventually` closures that have not been true yet.
    open: Vec<bool>,
    ended: Option<Ended>,
    started: bool,
    current: NodeId,
    ready: Vec<TaskId>,
    /// Receives every handler's real duration during training.
    pub(super) probe: Option<super::train::Probe>,
    /// The closure that is being evaluated, for blaming a panic.
    judging: Cell<Option<Judging>>,
}

/// A closure over the states.
#[derive(Clone, Copy)]
enum Judging {
    /// The `always` closure with this number.
    Always(usize),
    /// The `eventually` closure with this number.
    Eventually(usize),
    /// The `finally` closure with this number.
    Finally(usize),
    /// The stopping condition.
    Stop,
}

impl<M: Message> fmt::Debug for World<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("now", &self.now()).finish_non_exhaustive()
    }
}

impl<M: Message> World<M> {
    pub(super) fn new(model: Rc<Model<M>>, kinds: Kinds) -> Self {
        let env = Rc::new(RefCell::new(Env::new(Rc::clone(&model), kinds)));
        let handle: Handle<M> = env.clone();
        let slots = model.blueprints.iter().map(|blueprint| Slot::new(Rc::clone(blueprint)));
        World {
            slots: slots.collect(),
            names: model.names.clone(),
            progress: model.progress.clone(),
            properties: model.properties.clone(),
            open: vec![true; model.eventually.len()],
            model,
            env,
            handle,
            ended: None,
            started: false,
            current: NodeId(0),
            ready: Vec::new(),
            probe: None,
            judging: Cell::new(None),
        }
    }

    /// Resets the world for another execution.
    pub(super) fn reset(&mut self, draws: Draws, recorder: Option<Recorder>) {
        let initial = self.model.blueprints.len();
        self.slots.truncate(initial);
        self.names.truncate(initial);
        if self.started {
            for slot in &mut self.slots {
                slot.blueprint.reset(&mut slot.process);
            }
        }
        let guarded: Vec<bool> = self.slots.iter().map(|slot| slot.process.is_guarded()).collect();
        let mut env = self.env.borrow_mut();
        env.recorder = recorder.map(Box::new);
        env.reset(draws, &guarded);
        drop(env);
        self.progress.start();
        self.open.fill(true);
        (self.ended, self.started) = (None, true);
        if self.model.properties.is_some() {
            self.check_properties(true);
        }
    }

    /// Returns the start of the present event.
    #[must_use]
    pub fn now(&self) -> Time {
        Time(self.env.borrow().state.now)
    }

    /// Returns the end of the last event, which may still be in the future.
    #[must_use]
    pub fn time(&self) -> Time {
        Time(self.env.borrow().state.end)
    }

    /// Returns the number of events so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.env.borrow().state.events
    }

    /// Returns the reason for which the execution ended, if it has.
    #[must_use]
    pub fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    /// Returns true if the stopping condition was reached.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.ended == Some(Ended::Done)
    }

    /// Returns the draws with which this execution can be replayed, including the changes of seed
    /// at forks.
    #[must_use]
    pub fn draws(&self) -> Draws {
        (*self.env.borrow().draws).clone()
    }

    /// Passes a view of the live states to a function.
    pub fn look<T>(&self, with: impl FnOnce(&View<'_, M>) -> T) -> T {
        let env = self.env.borrow();
        with(&View::of(&Stand { slots: &self.slots, env: &env }))
    }

    /// Advances by one event; returns false if the execution has ended.
    pub fn step(&mut self) -> bool {
        self.go(|world| {
            world.advance();
        });
        self.ended.is_none()
    }

    /// Advances until an event begins at or after a time; returns false if the execution ends
    /// first.
    pub fn run_until(&mut self, time: Time) -> bool {
        self.go(
            |world| {
                while world.next_time().is_some_and(|next| next < time.0) && world.advance() {}
            },
        );
        if self.next_time().is_none() {
            self.step();
        }
        self.ended.is_none()
    }

    /// Advances until this many events have happened in total; returns false if the execution ends
    /// first.
    pub fn run_events(&mut self, events: u64) -> bool {
        self.go(|world| while world.events() < events && world.advance() {});
        self.ended.is_none()
    }

    /// Advances to the end.
    pub fn finish(&mut self) -> TimedRun {
        let watch = Stopwatch::start();
        self.go(|world| while world.advance() {});
        self.summary(watch.elapsed())
    }

    /// Advances to the end, or until simulated time exceeds `limit`: the outcome is then unknown.
    pub fn finish_by(&mut self, limit: Time) -> TimedRun {
        self.env.borrow_mut().time_max = limit.0.min(self.model.time_max);
        self.finish()
    }

    fn summary(&self, wall: Duration) -> TimedRun {
        let env = self.env.borrow();
        let ended = self.ended.clone().expect("an execution that is over has ended somehow");
        let time = match ended {
            Ended::TimeLimit(_) => env.time_max,
            _ => env.state.end,
        };
        TimedRun { time: Duration::from_nanos(time), events: env.state.events, ended, wall }
    }

    /// Copies the execution, with another seed for the rest if one is given; returns `None` if a
    /// node cannot be copied. In that case, [replay](super::Sim::start) the [`draws`](World::draws)
    /// with an added [`Change::Reseed`] after [`events`](World::events).
    #[must_use]
    pub fn fork(&self, seed: Option<u64>) -> Option<World<M>> {
        let copy = |slot: &Slot<M>| {
            let (blueprint, tasks) = (Rc::clone(&slot.blueprint), slot.tasks);
            Some(Slot { process: slot.process.fork()?, blueprint, tasks })
        };
        let slots = self.slots.iter().map(copy).collect::<Option<Vec<_>>>()?;
        let env = Rc::new(RefCell::new(self.env.borrow().fork()));
        let handle: Handle<M> = env.clone();
        let mut world = World {
            model: Rc::clone(&self.model),
            env,
            handle,
            slots,
            names: self.names.clone(),
            progress: self.progress.clone(),
            properties: self.properties.clone(),
            open: self.open.clone(),
            ended: self.ended.clone(),
            started: true,
            current: self.current,
            ready: Vec::new(),
            probe: None,
            judging: Cell::new(None),
        };
        if let Some(seed) = seed {
            world.reseed(seed);
        }
        Some(world)
    }

    /// Draws everything anew from here on.
    pub fn reseed(&mut self, seed: u64) {
        let mut env = self.env.borrow_mut();
        let after = env.state.events;
        let mut draws = (*env.draws).clone();
        let later = |c: &Change| matches!(c, Change::Reseed { after: at, .. } if *at >= after);
        draws.changes.retain(|change| !later(change));
        draws.changes.push(Change::Reseed { after, seed });
        env.draws = Rc::new(draws);
        env.state.seed = seed;
        env.state.reseed = None;
    }

    fn next_time(&self) -> Option<u64> {
        self.env.borrow_mut().state.queue.next_time()
    }

    /// Runs a function and turns panics into failures.
    fn go(&mut self, body: impl FnOnce(&mut Self)) {
        if self.ended.is_some() {
            return;
        }
        if let Err(panic) = quietly(|| body(self)) {
            self.blame(panic);
        }
    }

    /// Turns a panic into a failure of the node, monitor or closure in which it happened, and a
    /// bound into the outcome that it stands for.
    fn blame(&mut self, panic: Panic) {
        let mut env = self.env.borrow_mut();
        let monitor = env.in_monitor.take().map(|index| env.state.monitors[index].name.clone());
        drop(env);
        let info = self.names.get(self.current.index());
        let name = info.map_or("?", |info| &info.name);
        let of = |rule: &Rule<M>| format!("in the property \"{}\"", rule.name);
        let closure = self.judging.take().map(|judging| match judging {
            Judging::Always(index) => of(&self.model.always[index]),
            Judging::Eventually(index) => of(&self.model.eventually[index]),
            Judging::Finally(index) => of(&self.model.finally[index]),
            Judging::Stop => "in the stopping condition".to_owned(),
        });
        let failure = match (panic.halt, monitor) {
            (Some(Halt::Undecided(text)), monitor) => {
                let whose = monitor.map(|name| format!("monitor \"{name}\": "));
                let bound = format!("{}{text}", whose.unwrap_or_default());
                self.ended = Some(Ended::Undecided(bound));
                return;
            }
            (Some(Halt::TooMuch(text)), _) => Failure {
                cause: Cause::Flood(info.map_or_else(String::new, |info| info.kind.clone())),
                message: format!("{name} {text}; look for an endless loop there"),
            },
            (None, Some(name)) => Failure { cause: Cause::Monitor(name), message: panic.message },
            (None, None) => {
                let place = closure.as_deref().unwrap_or(name);
                let message = format!("{place}: {}", panic.message);
                Failure { cause: Cause::Panic(panic.place), message }
            }
        };
        self.ended = Some(Ended::Failed(failure));
    }

    /// Handles one event; returns false if the execution has ended.
    #[inline]
    fn advance(&mut self) -> bool {
        let next = self.env.borrow_mut().next();
        let (node, what) = match next {
            Next::Run(node, what) => (node, what),
            Next::Choose(node) => return self.choose(node),
            Next::Upset(what) => return self.upset(what),
            Next::Quiet => return self.end(Ended::Quiet, Some(u64::MAX)),
            Next::Late => {
                let time_max = self.env.borrow().time_max;
                return self.end(Ended::TimeLimit, Some(time_max));
            }
        };
        self.run(node, what)
    }

    /// Handles an event that has begun, and checks whether the execution has ended.
    #[inline]
    fn run(&mut self, node: NodeId, what: What<M>) -> bool {
        self.current = node;
        let probe = self.probe.is_some().then(Busy::start);
        let process = &mut self.slots[node.index()].process;
        match what {
            What::Message(flight) => {
                process.message(&self.handle, node, flight.from, flight.tag, flight.msg);
            }
            What::Timer(timer, _) => process.timer(&self.handle, node, timer),
            What::Poll(task) => self.poll(node, task),
            What::Start => process.start(&self.handle, node),
            What::Restart => process.restart(&self.handle, node),
            What::Disconnected(peer) => process.disconnected(&self.handle, node, peer),
            What::Input(msg) => {
                process.message(&self.handle, node, node, everhold_node::Tag::None, msg);
            }
            What::Fault(_) | What::Heal | What::Departing(_) | What::Vacant => {}
        }
        if let (Some(probe), Some(watch)) = (&mut self.probe, probe) {
            probe.add(self.env.borrow().kind_of_event, watch.elapsed());
        }
        self.settle(node);
        self.judge(node)
    }

    /// Ends an event: runs tasks, starts new nodes, removes nodes that leave.
    #[inline]
    fn settle(&mut self, node: NodeId) {
        if self.slots[node.index()].tasks {
            self.line_up_tasks(node);
        }
        let mut env = self.env.borrow_mut();
        env.finish(node);
        let news = !env.spawned.is_empty() || !env.halted.is_empty();
        drop(env);
        if news {
            self.adopt_and_leave();
        }
        if self.env.borrow().recorder.as_ref().is_some_and(|recorder| recorder.full) {
            let process = &self.slots[node.index()].process;
            if let Some(recorder) = &mut self.env.borrow_mut().recorder {
                let has_room = recorder.room.takes(process.size());
                recorder.states.push(if has_room { process.observe() } else { Value::Null });
            }
        }
    }

    /// Checks whether the execution failed, reached its stopping condition, or exceeded a limit.
    #[inline]
    fn judge(&mut self, node: NodeId) -> bool {
        let env = self.env.borrow();
        let rules = !self.model.always.is_empty() || self.open.contains(&true);
        if env.failure.is_some() || rules || self.properties.is_some() {
            drop(env);
            return self.judge_rules(node) && self.judge_done(node);
        }
        drop(env);
        self.judge_done(node)
    }

    #[inline]
    fn judge_done(&mut self, node: NodeId) -> bool {
        let env = self.env.borrow();
        let stand = Stand { slots: &self.slots, env: &env };
        self.judging.set(Some(Judging::Stop));
        let done = self.progress.look(&self.model.stopping, &stand, &Names(&self.names), node);
        self.judging.set(None);
        if done {
            drop(env);
            self.ended = Some(Ended::Done);
            return false;
        }
        let over = env.state.events >= env.events_max;
        drop(env);
        if over { self.end(Ended::EventLimit, None) } else { true }
    }

    #[cold]
    fn judge_rules(&mut self, node: NodeId) -> bool {
        self.current = node;
        self.check_properties(false);
        let wrong = self.model.always.iter().enumerate().find_map(|(index, rule)| {
            self.judging.set(Some(Judging::Always(index)));
            let why = self.look(|view| (rule.holds)(view)).err()?;
            Some(Failure { cause: Cause::Always(rule.name.clone()), message: why })
        });
        for index in (0..self.open.len()).filter(|index| self.open[*index]).collect::<Vec<_>>() {
            self.judging.set(Some(Judging::Eventually(index)));
            self.open[index] = self.look(|v| (self.model.eventually[index].holds)(v)).is_err();
        }
        self.judging.set(None);
        let failure = self.env.borrow_mut().failure.take().or(wrong);
        match failure {
            Some(failure) => {
                self.ended = Some(Ended::Failed(failure));
                false
            }
            None => true,
        }
    }

    fn check_properties(&mut self, first: bool) {
        let Some(properties) = &mut self.properties else { return };
        let env = self.env.borrow();
        let stand = Stand { slots: &self.slots, env: &env };
        let names = Names(&self.names);
        let failure = match first {
            true => properties.start(Scene::of(&stand), &names),
            false => properties.step(Scene::of(&stand), &names, self.current),
        };
        drop(env);
        if let Some(failure) = failure {
            self.env.borrow_mut().failure.get_or_insert(failure);
        }
    }

    /// Ends an execution at a moment of virtual time up to which nothing else happens: progress
    /// whose deadline has passed by then is violated. Where time has no end, so is all other
    /// progress that is owed.
    fn end(&mut self, how: impl FnOnce(Option<String>) -> Ended, until: Option<u64>) -> bool {
        if let Some(failure) = until.and_then(|until| self.owed_until(until)) {
            self.ended = Some(Ended::Failed(failure));
            return false;
        }
        let env = self.env.borrow();
        let stand = Stand { slots: &self.slots, env: &env };
        let (stopping, library) = (&self.model.stopping, &self.model.library);
        let nearest = self.progress.nearest(stopping, &stand, &Names(&self.names), library);
        drop(env);
        self.ended = Some(how(nearest));
        false
    }

    /// The progress that is owed and will be owed until this moment, too late.
    fn owed_until(&mut self, until: u64) -> Option<Failure> {
        if !self.model.checked {
            return None;
        }
        let late = self.properties.as_mut().and_then(|properties| properties.close(until));
        late.or_else(|| {
            let cause = self.owed().filter(|_| until == u64::MAX)?;
            let message = "still owed, but nothing can happen any more".to_owned();
            Some(Failure { cause, message })
        })
    }

    /// The first property or monitor that owes progress.
    fn owed(&self) -> Option<Cause> {
        let once = self.open.iter().position(|open| *open);
        if let Some(index) = once {
            return Some(Cause::Liveness(self.model.eventually[index].name.clone()));
        }
        for (index, rule) in self.model.finally.iter().enumerate() {
            self.judging.set(Some(Judging::Finally(index)));
            let holds = self.look(|view| (rule.holds)(view)).is_ok();
            self.judging.set(None);
            if !holds {
                return Some(Cause::Finally(rule.name.clone()));
            }
        }
        let env = self.env.borrow();
        let hot = env.state.monitors.iter().find(|monitor| monitor.is_hot());
        let hot = hot.map(|monitor| Cause::Liveness(monitor.name.clone()));
        hot.or_else(|| self.properties.as_ref().and_then(Properties::hot))
    }

    /// Lets a node that refuses some messages take the first one that it accepts.
    #[cold]
    fn choose(&mut self, node: NodeId) -> bool {
        let process = &self.slots[node.index()].process;
        let mut env = self.env.borrow_mut();
        let accepted = |slot: &u32| match &env.state.items[*slot as usize].what {
            What::Message(flight) => process.accepts(flight.from, flight.tag, &flight.msg),
            What::Input(msg) => process.accepts(node, everhold_node::Tag::None, msg),
            _ => true,
        };
        let Some(slot) = env.state.line(node).find(accepted) else { return true };
        env.state.leave_line(slot);
        let next = env.begin_waiting(node, slot);
        drop(env);
        match next {
            Some(Next::Run(node, what)) => self.run(node, what),
            _ => true,
        }
    }

    fn poll(&mut self, node: NodeId, task: TaskId) {
        let process = &mut self.slots[node.index()].process;
        self.ready.clear();
        process.ready(&mut self.ready);
        if self.ready.contains(&task) {
            process.poll(&self.handle, node, task);
        }
    }

    /// Puts tasks that can continue into their node's waiting line.
    fn line_up_tasks(&mut self, node: NodeId) {
        self.ready.clear();
        self.slots[node.index()].process.ready(&mut self.ready);
        let mut env = self.env.borrow_mut();
        let kind = env.kind(Class::Other, "task");
        for &task in &self.ready {
            if !env.state.nodes[node.index()].rest.polls.contains(&task) {
                env.state.nodes[node.index()].rest.polls.push(task);
                let mut item = Item::new(node, kind, What::Poll(task));
                item.ready = env.state.end;
                let slot = env.state.put(item);
                env.state.nodes[node.index()].free_at = env.state.end;
                env.state.stand_in_line(slot);
            }
        }
    }

    #[cold]
    fn adopt_and_leave(&mut self) {
        let (spawned, halted) = {
            let mut env = self.env.borrow_mut();
            (std::mem::take(&mut env.spawned), std::mem::take(&mut env.halted))
        };
        for (kind, blueprint) in spawned {
            let slot = Slot::new(Rc::new(blueprint));
            let node = node_id(self.slots.len());
            let number = self.names.iter().filter(|info| info.kind == kind).count();
            self.names.push(NodeRecord { name: format!("{kind}-{number}"), kind });
            self.env.borrow_mut().welcome(node, slot.process.is_guarded());
            self.slots.push(slot);
        }
        for node in halted {
            self.env.borrow_mut().leave(node);
        }
    }

    /// Begins or ends a fault.
    #[cold]
    fn upset(&mut self, what: What<M>) -> bool {
        let mut env = self.env.borrow_mut();
        match what {
            What::Heal => {
                env.note_fault("the network is whole again");
                env.heal();
            }
            What::Fault(TimedFault::Crash { node, down }) if env.is_up(node) => {
                env.record_crash(node);
                env.crash(node, nanoseconds(down));
                drop(env);
                let slot = &mut self.slots[node.index()];
                slot.blueprint.reset(&mut slot.process);
                return self.judge(node);
            }
            What::Fault(TimedFault::Stop(node)) if env.is_up(node) => {
                env.stop(node);
                drop(env);
                // This may have been the last node that did not satisfy the stopping condition.
                return self.judge(node);
            }
            What::Fault(fault) => env.upset(fault),
            _ => {}
        }
        true
    }

    /// Returns the notes of this execution so far, if it is [recorded](super::Sim::record).
    #[must_use]
    pub(super) fn recorded(&self, run: TimedRun) -> Option<Recorded> {
        let mut env = self.env.borrow_mut();
        let notes = *env.recorder.take()?;
        Some(Recorded {
            run,
            draws: (*env.draws).clone(),
            nodes: self.names.clone(),
            load: self.model.load.clone(),
            kinds: env.state.kinds.labels(),
            events: notes.events,
            messages: notes.messages,
            timers: notes.timers,
            notes: notes.notes,
            states: notes.states,
            payloads: notes.payloads,
        })
    }
}

impl<M: Message> Slot<M> {
    fn new(blueprint: Rc<Blueprint<M>>) -> Self {
        let process = blueprint.make();
        let tasks = process.has_tasks();
        Slot { process, blueprint, tasks }
    }
}

impl<M: Message> Env<M> {
    fn fork(&self) -> Env<M> {
        let state: State<M> = self.state.clone();
        Env {
            model: Rc::clone(&self.model),
            draws: Rc::clone(&self.draws),
            state,
            effects: 0,
            failure: self.failure.clone(),
            recorder: self.recorder.clone(),
            spawned: Vec::new(),
            halted: Vec::new(),
            in_monitor: None,
            time_max: self.time_max,
            events_max: self.events_max,
            kind_of_event: self.kind_of_event,
        }
    }
}

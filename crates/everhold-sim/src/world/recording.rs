//! The recording of an execution, and the notes about a handler that may not return.

use std::sync::Mutex;

use everhold_node::{Message, NodeId};
use everhold_trace::Value;

use super::World;
use crate::env::{Status, node_id};
use crate::execute::quietly;
use crate::record::{NodeRecord, Recorder, RunRecord};
use crate::scene::Scene;
use crate::stuck::Witness;
use crate::view::View;

impl<M: Message> World<M> {
    /// The node's state for the recording. A `Serialize` that panics does not end the execution.
    pub(super) fn observe(&self, node: NodeId) -> Value {
        let process = &self.slots[node.index()].process;
        let shown = quietly(|| process.size()).and_then(|bytes| {
            let recorder = &mut self.env.borrow_mut().recorder;
            let has_room = recorder.as_mut().is_none_or(|recorder| recorder.has_room(bytes));
            if has_room { quietly(|| process.observe()) } else { Ok(Value::Null) }
        });
        shown.unwrap_or_else(|panic| {
            if let Some(recorder) = &mut self.env.borrow_mut().recorder {
                recorder.unshown(&format!("the state of {}", self.name_of(node)), panic);
            }
            Value::Null
        })
    }

    pub(super) fn record_start(&mut self) {
        let nodes = self.names.clone();
        if let Some(recorder) = &mut self.env.borrow_mut().recorder {
            **recorder = Recorder::default();
            recorder.recording.nodes = nodes;
            recorder.start();
        }
    }

    pub(super) fn record_initial(&mut self) {
        if self.env.borrow().recorder.is_none() {
            return;
        }
        let states = (0..self.initial).map(|index| self.observe(node_id(index))).collect();
        if let Some(recorder) = &mut self.env.borrow_mut().recorder {
            recorder.recording.initial = states;
        }
    }

    pub(super) fn record_step(&mut self, node: NodeId) {
        let state = self.observe(node);
        let mut env = self.env.borrow_mut();
        let up = env.state.nodes[node.index()].status == Status::Up;
        if let Some(recorder) = &mut env.recorder {
            // A node that is down shows nothing new; what it lost shows when it is back.
            let state = if up { state } else { recorder.last_state(node) };
            recorder.close(state);
        }
    }

    /// Starts or stops recording.
    pub(crate) fn set_recording(&mut self, on: bool) {
        self.env.borrow_mut().recorder = on.then(Box::default);
    }

    /// The recording of the execution that just ran.
    pub(crate) fn take_recording(&mut self) -> RunRecord {
        // Nodes that were to be added when a handler panicked; messages may be on their way there.
        let missed: Vec<String> =
            self.env.borrow_mut().spawned.drain(..).map(|(kind, _)| kind).collect();
        let missed: Vec<NodeRecord> = missed.iter().map(|kind| self.introduce(kind)).collect();
        let mut env = self.env.borrow_mut();
        let recorder = env.recorder.take().expect("the execution was recorded");
        let mut recording = recorder.recording;
        recording.nodes.extend(missed);
        recording.cut_flood(env.failure.as_ref());
        recording.failure = env.failure.clone();
        for monitor in &env.state.monitors {
            match quietly(|| monitor.value()) {
                Ok(state) => recording.monitors.push((monitor.name.clone(), state)),
                Err(panic) => recording
                    .problems
                    .push(format!("monitor {} cannot be shown: {panic}", monitor.name)),
            }
        }
        recording
    }

    /// Writes down what leads to the handler that is called next, in case that it does not return.
    #[cold]
    pub(super) fn tell_witness(&self) {
        let Some(mut witness) = self.witness.as_ref().and_then(|w| w.lock().ok()) else { return };
        let env = self.env.borrow();
        if let Some(recorder) = &env.recorder {
            let choices = &recorder.recording.choices;
            if choices.len() < witness.choices.len() {
                // Another execution has begun.
                witness.choices.clear();
            }
            let known = witness.choices.len();
            witness.choices.extend_from_slice(&choices[known..]);
        }
        let added = self.names.iter().skip(witness.nodes.len());
        witness.nodes.extend(added.map(|info| (info.name.clone(), info.kind.clone())));
        if self.suspect == Some(self.beats) {
            witness.log = Some(env.log.clone());
        }
    }

    /// Evaluates every property by itself, so that one that does not return is known by name.
    #[cold]
    pub(super) fn try_rules(&self, witness: &Mutex<Witness>) {
        let tell = |name: Option<String>| {
            if let Ok(mut witness) = witness.lock() {
                witness.property = name;
            }
        };
        let env = self.env.borrow();
        let view = View { scene: Scene::explored(&self.slots, &env), looked: None };
        for rule in
            [&self.sometimes, &self.eventually, &self.finally, &self.always].into_iter().flatten()
        {
            tell(Some(rule.name.clone()));
            let _ = quietly(|| (rule.holds)(&view));
        }
        tell(None);
    }
}

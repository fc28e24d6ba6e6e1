//! The stopping condition of executions.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use everhold_node::{Message, NodeId};
use everhold_property::{Checker, Library, Modality, Property, Rule};
use everhold_sim::View;
use everhold_sim::engine::{Names, Properties, Scene, Stage, node_id};

use super::world::Stand;

/// A condition on the live states.
pub(crate) type Condition<M> = Arc<dyn Fn(&View<'_, M>) -> bool + Send + Sync>;
/// A condition on one node's state; `None` if the node is of another type.
pub(crate) type Local = Arc<dyn Fn(&dyn Any) -> Option<bool> + Send + Sync>;

/// The stopping condition as it was set: all parts must be true at the same time.
pub(crate) struct Stopping<M: Message> {
    pub(crate) each: Option<Local>,
    pub(crate) whole: Option<Condition<M>>,
    pub(crate) property: Option<Property>,
}

impl<M: Message> Clone for Stopping<M> {
    fn clone(&self) -> Self {
        let Stopping { each, whole, property } = self;
        Stopping { each: each.clone(), whole: whole.clone(), property: property.clone() }
    }
}

impl<M: Message> Default for Stopping<M> {
    fn default() -> Self {
        Stopping { each: None, whole: None, property: None }
    }
}

impl<M: Message> fmt::Debug for Stopping<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stopping").field("property", &self.property).finish_non_exhaustive()
    }
}

impl<M: Message> Stopping<M> {
    pub(crate) fn is_never(&self) -> bool {
        self.each.is_none() && self.whole.is_none() && self.property.is_none()
    }
}

/// The state of the stopping condition in an execution.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nearness {
    /// Whether each node satisfies the condition on single nodes.
    each: Vec<bool>,
    missing: usize,
    property: Option<Properties>,
    started: bool,
}

impl Nearness {
    pub(crate) fn new<M: Message>(stopping: &Stopping<M>, library: &Library) -> Self {
        let property = stopping.property.clone();
        let property = property.and_then(|property| Properties::new(&[property], library));
        Nearness { property, ..Nearness::default() }
    }

    /// Prepares for a new execution.
    pub(crate) fn start(&mut self) {
        self.each.clear();
        (self.missing, self.started) = (0, false);
    }

    /// Evaluates the condition after an event at `node`.
    #[inline]
    pub(crate) fn look<M: Message>(
        &mut self,
        stopping: &Stopping<M>,
        stand: &Stand<'_, M>,
        names: &Names<'_>,
        node: NodeId,
    ) -> bool {
        if let Some(local) = &stopping.each {
            self.look_at(local, stand, node);
            if self.missing > 0 {
                return false;
            }
        }
        if stopping.whole.is_none() && self.property.is_none() {
            return stopping.each.is_some();
        }
        self.look_at_whole(stopping, stand, names, node)
    }

    fn look_at_whole<M: Message>(
        &mut self,
        stopping: &Stopping<M>,
        stand: &Stand<'_, M>,
        names: &Names<'_>,
        node: NodeId,
    ) -> bool {
        let holds = |whole: &Condition<M>| whole(&View::of(stand));
        if !stopping.whole.as_ref().is_none_or(holds) {
            return false;
        }
        let Some(property) = &mut self.property else { return true };
        if self.started && stopping.each.is_none() && stopping.whole.is_none() {
            property.step(Scene::of(stand), names, node);
        } else {
            // The property is not evaluated after every event here, so the changes since the last
            // evaluation are unknown, and it starts anew.
            property.start(Scene::of(stand), names);
        }
        self.started = true;
        property.reached().all(|reached| reached)
    }

    fn look_at<M: Message>(&mut self, local: &Local, stand: &Stand<'_, M>, node: NodeId) {
        while self.each.len() < stand.nodes() {
            self.each.push(true);
            let added = node_id(self.each.len() - 1);
            self.look_at_one(local, stand, added);
        }
        self.look_at_one(local, stand, node);
    }

    #[inline]
    fn look_at_one<M: Message>(&mut self, local: &Local, stand: &Stand<'_, M>, node: NodeId) {
        let state = stand.process(node.index()).and_then(|process| process.state());
        let fine = match state.and_then(|state| local(state)) {
            Some(fine) => (fine && stand.is_up(node)) || stand.is_gone(node),
            None => true,
        };
        let before = std::mem::replace(&mut self.each[node.index()], fine);
        self.missing = self.missing + usize::from(before) - usize::from(fine);
    }

    /// Describes the unmet part of the condition at the end.
    pub(crate) fn nearest<M: Message>(
        &self,
        stopping: &Stopping<M>,
        stand: &Stand<'_, M>,
        names: &Names<'_>,
        library: &Library,
    ) -> Option<String> {
        if self.missing > 0 {
            let missing = self.each.iter().enumerate().filter(|(_, fine)| !**fine);
            let named: Vec<&str> = missing.take(5).map(|(at, _)| names.of(at).0).collect();
            let (count, all) = (self.missing, self.each.len());
            let more = if count > named.len() { ", ..." } else { "" };
            return Some(format!("{count} of {all} nodes ({}{more})", named.join(", ")));
        }
        let goal = stopping.property.as_ref()?;
        // The goal is checked as an invariant: its violation names the values that make it false.
        let demand = Property { modality: Modality::Always, ..goal.clone() };
        let checker = Checker::new(&Rule::new(&demand, library));
        let failure = Properties::of(vec![checker]).start(Scene::of(stand), names)?;
        Some(failure.message)
    }
}

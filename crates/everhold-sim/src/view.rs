//! The view of a property closure: the live states, by type.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;

use everhold_node::{Message, NodeId};

use crate::scene::{Scene, Stage};

/// The states of all nodes at one moment of an execution.
pub struct View<'a, M: Message> {
    pub(crate) scene: Scene<'a, M>,
    /// The nodes whose states the property looked at, if they are to be recorded.
    pub(crate) looked: Option<&'a RefCell<BTreeSet<NodeId>>>,
}

impl<M: Message> fmt::Debug for View<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("nodes", &self.scene.nodes()).finish_non_exhaustive()
    }
}

impl<'a, M: Message> View<'a, M> {
    /// The states at a moment of another engine's execution.
    #[doc(hidden)]
    #[must_use]
    pub fn of(stage: &'a dyn Stage<M>) -> Self {
        View { scene: Scene::of(stage), looked: None }
    }

    /// The state of a node, or `None` while it is down, gone, or of another type.
    ///
    /// For an async node it is the value that the node last gave to `observe`.
    #[must_use]
    pub fn get<T: Any>(&self, node: NodeId) -> Option<&'a T> {
        if !self.is_up(node) {
            return None;
        }
        let state = self.scene.process(node.index())?.state()?.downcast_ref::<T>();
        if let (Some(looked), Some(_)) = (self.looked, state) {
            looked.borrow_mut().insert(node);
        }
        state
    }

    /// The states of all nodes of a type that are up.
    pub fn all<T: Any>(&self) -> impl Iterator<Item = (NodeId, &'a T)> + '_ {
        (0..self.scene.nodes()).filter_map(|index| {
            let node = crate::env::node_id(index);
            self.get(node).map(|state| (node, state))
        })
    }

    /// False while a node is crashed or after it left.
    #[must_use]
    pub fn is_up(&self, node: NodeId) -> bool {
        self.scene.is_up(node)
    }

    /// The messages under way: sender, receiver, content.
    pub fn in_flight(&self) -> impl Iterator<Item = (NodeId, NodeId, &'a M)> {
        let scene = self.scene;
        (0..scene.places()).filter_map(move |place| scene.flight(place))
    }
}

//! A node that makes a weighted choice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use everhold_node::{Cx, Node, NodeId};
use serde::Serialize;

/// The number of times that each option was taken.
pub(crate) type Taken = Arc<Mutex<BTreeMap<usize, u32>>>;

/// Chooses when it starts.
#[derive(Clone, Serialize)]
pub(crate) struct Chooser {
    weights: Vec<u32>,
    pub(crate) option: usize,
    #[serde(skip)]
    taken: Taken,
}

impl Chooser {
    pub(crate) fn new(weights: &[u32], taken: &Taken) -> Chooser {
        Chooser { weights: weights.to_vec(), option: 0, taken: Arc::clone(taken) }
    }
}

impl Node for Chooser {
    type Msg = u32;
    fn start(&mut self, cx: &mut Cx<u32>) {
        self.option = cx.choose_weighted("size", &self.weights);
        *self.taken.lock().unwrap().entry(self.option).or_default() += 1;
    }
    fn message(&mut self, cx: &mut Cx<u32>, _: NodeId, msg: u32) {
        cx.unexpected(msg);
    }
}

//! Weighted choices, and setups that functions return.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use everhold_node::{Cx, Node, NodeId};
use everhold_sim::Setup;
use everhold_timed::{Draws, Timed};
use serde::Serialize;

/// The number of times each option was taken.
type Taken = Arc<Mutex<BTreeMap<usize, u32>>>;

/// Makes a choice when it starts.
#[derive(Clone, Serialize)]
struct Chooser {
    weights: Vec<u32>,
    option: usize,
    #[serde(skip)]
    taken: Taken,
}

impl Chooser {
    fn new(weights: &[u32], taken: &Taken) -> Chooser {
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

const WEIGHTS: [u32; 4] = [16, 0, 3, 1];

#[test]
fn a_virtual_clock_draws_by_weight() {
    let taken = Taken::default();
    let counted = Arc::clone(&taken);
    let timed = Timed::new(move |system| {
        system.node("chooser", Chooser::new(&WEIGHTS, &counted));
    });
    let mut sim = timed.sim();
    for seed in 0..1_000 {
        sim.run(Draws::seed(seed));
    }
    let taken = taken.lock().unwrap();
    assert!((740..860).contains(&taken[&0]) && !taken.contains_key(&1), "{taken:?}");
}

#[test]
fn a_setup_can_be_returned() {
    let setup: Setup<u32> = Box::new(|system| {
        system.node("chooser", Chooser::new(&WEIGHTS, &Taken::default()));
    });
    assert_eq!(Timed::new(setup).sim().run(Draws::seed(0)).events, 1);
}

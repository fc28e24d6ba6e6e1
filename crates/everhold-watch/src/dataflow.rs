//! Checks written in Rust: a graph of stages over the tuples of a snapshot (D3S, sections 2.3 to
//! 2.5).
//!
//! - [`Stage`]: sequential code over a collection of tuples.
//! - [`Graph`]: stages in a row or in a graph without cycles, each spread over shards by key.
//! - [`Flow`]: a graph fed from a relation, judged at every timestamp or at sampled ones.
//!
//! Stages pass on only what changed. A stage may know how to follow a change
//! ([`Stage::execute_change`]); one that does not is given the whole collection of its shard.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use everhold_trace::Value;
use everhold_trace::wire::Stamp;

use crate::log::partition_of;
use crate::world::hash_of;

pub(crate) mod flow;

pub use flow::{Flow, FlowFinding};

/// Tuples with how often each occurs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collection(BTreeMap<Value, i64>);

impl Collection {
    /// The tuples, in order, each as often as it occurs.
    pub fn iter(&self) -> impl Iterator<Item = &Value> {
        self.0.iter().flat_map(|(tuple, times)| (0..(*times).max(0)).map(move |_| tuple))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn apply(&mut self, delta: &Delta) {
        for (tuple, times) in delta {
            let held = self.0.entry(tuple.clone()).or_default();
            *held += times;
            if *held == 0 {
                self.0.remove(tuple);
            }
        }
    }

    /// The changes that turn `self` into `new`.
    fn delta_to(&self, new: &Collection) -> Delta {
        let mut delta = Delta::new();
        for (tuple, times) in &new.0 {
            let more = times - self.0.get(tuple).copied().unwrap_or_default();
            if more != 0 {
                delta.push((tuple.clone(), more));
            }
        }
        for (tuple, times) in &self.0 {
            if !new.0.contains_key(tuple) {
                delta.push((tuple.clone(), -times));
            }
        }
        delta
    }
}

impl FromIterator<Value> for Collection {
    fn from_iter<I: IntoIterator<Item = Value>>(tuples: I) -> Collection {
        let mut collection = Collection::default();
        for tuple in tuples {
            *collection.0.entry(tuple).or_default() += 1;
        }
        collection
    }
}

/// Tuples that appear (positive) and disappear (negative), and how often.
pub type Delta = Vec<(Value, i64)>;

/// One vertex of a graph: sequential code, unaware of shards and time.
pub trait Stage: Send {
    /// The output for a snapshot of the input. It must depend on nothing else.
    fn execute(&mut self, snapshot: &Collection) -> Vec<Value>;

    /// The output after a change, from the output before it; `None` asks for
    /// [`execute`](Stage::execute).
    fn execute_change(&mut self, delta: &Delta, last: &[Value]) -> Option<Vec<Value>> {
        let _ = (delta, last);
        None
    }

    /// The key of an input tuple: tuples with one key meet in one shard. The whole tuple, unless
    /// the stage says otherwise.
    fn key(&self, tuple: &Value) -> Value {
        tuple.clone()
    }
}

/// How a stage is spread and thinned out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Over how many shards.
    pub shards: u32,
    /// Which share of the keys is looked at, from 0 to 1. Fewer may miss violations and never
    /// invents one for stages that judge each key by itself.
    pub keys: f64,
}

impl Default for Spread {
    fn default() -> Spread {
        Spread { shards: 1, keys: 1.0 }
    }
}

/// Where the input of a stage comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The tuples of the snapshot.
    Source,
    /// The output of an earlier stage, by its number.
    Stage(usize),
}

struct Shard {
    stage: Box<dyn Stage>,
    held: Collection,
    output: Vec<Value>,
    emitted: Collection,
    ran: bool,
}

struct Vertex {
    inputs: Vec<Input>,
    spread: Spread,
    shards: Vec<Shard>,
    incremental: bool,
}

/// Stages and how they are connected; the last one added is the final one.
#[derive(Default)]
pub struct Graph {
    vertices: Vec<Vertex>,
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("stages", &self.vertices.len()).finish()
    }
}

impl Graph {
    /// A graph without stages.
    #[must_use]
    pub fn new() -> Graph {
        Graph::default()
    }

    /// Adds a stage that reads what the one before it puts out (the snapshot, if it is the first).
    #[must_use]
    pub fn then<S: Stage + 'static>(self, spread: Spread, make: impl Fn() -> S) -> Graph {
        let input = self.vertices.len().checked_sub(1).map_or(Input::Source, Input::Stage);
        self.stage(&[input], spread, make)
    }

    /// Adds a stage with these inputs.
    ///
    /// # Panics
    ///
    /// If an input is not an earlier stage.
    #[must_use]
    pub fn stage<S: Stage + 'static>(
        mut self,
        inputs: &[Input],
        spread: Spread,
        make: impl Fn() -> S,
    ) -> Graph {
        let known = |input: &Input| match input {
            Input::Source => true,
            Input::Stage(number) => *number < self.vertices.len(),
        };
        assert!(inputs.iter().all(known), "a stage reads from earlier stages");
        let shard = |_| Shard {
            stage: Box::new(make()),
            held: Collection::default(),
            output: Vec::new(),
            emitted: Collection::default(),
            ran: false,
        };
        self.vertices.push(Vertex {
            inputs: inputs.to_vec(),
            spread,
            shards: (0..spread.shards.max(1)).map(shard).collect(),
            incremental: true,
        });
        self
    }

    /// The slow twin: every stage is given its whole collection.
    #[must_use]
    pub fn without_changes(mut self) -> Graph {
        self.vertices.iter_mut().for_each(|vertex| vertex.incremental = false);
        self
    }

    /// Follows a change of the snapshot; returns what the final stage puts out.
    pub fn step(&mut self, change: &Delta) -> Vec<Value> {
        let mut outputs: Vec<Delta> = Vec::new();
        for vertex in &mut self.vertices {
            let mut input = Delta::new();
            for from in &vertex.inputs {
                match from {
                    Input::Source => input.extend_from_slice(change),
                    Input::Stage(number) => input.extend_from_slice(&outputs[*number]),
                }
            }
            outputs.push(vertex.step(input));
        }
        self.vertices.last().map(Vertex::output).unwrap_or_default()
    }

    /// Follows many changes, each stage in a thread of its own and at its own timestamp; the
    /// results come in order.
    pub fn run(
        self,
        changes: impl IntoIterator<Item = (Stamp, Delta)>,
        mut take: impl FnMut(Stamp, Vec<Value>),
    ) {
        let last = self.vertices.len().saturating_sub(1);
        let mut sources: Vec<SyncSender<(Stamp, Arc<Delta>)>> = Vec::new();
        let mut readers: Vec<Vec<SyncSender<(Stamp, Arc<Delta>)>>> = Vec::new();
        let (results, finished) = sync_channel(DEPTH);
        std::thread::scope(|scope| {
            let mut inboxes = Vec::new();
            for vertex in &self.vertices {
                readers.push(Vec::new());
                let mut inbox: Vec<Receiver<(Stamp, Arc<Delta>)>> = Vec::new();
                for from in &vertex.inputs {
                    let (sender, receiver) = sync_channel(DEPTH);
                    match from {
                        Input::Source => sources.push(sender),
                        Input::Stage(number) => readers[*number].push(sender),
                    }
                    inbox.push(receiver);
                }
                inboxes.push(inbox);
            }
            let work = self.vertices.into_iter().zip(inboxes).zip(readers).enumerate();
            for (number, ((vertex, inbox), readers)) in work {
                let results = (number == last).then(|| results.clone());
                scope.spawn(move || work_off(vertex, &inbox, &readers, results.as_ref()));
            }
            drop(results);
            let feeder = scope.spawn({
                let changes: Vec<(Stamp, Delta)> = changes.into_iter().collect();
                move || feed(changes, &sources)
            });
            for (at, output) in finished {
                take(at, output);
            }
            let _ = feeder.join();
        });
    }
}

/// The largest number of timestamps between two stages.
const DEPTH: usize = 64;

fn feed(changes: Vec<(Stamp, Delta)>, sources: &[SyncSender<(Stamp, Arc<Delta>)>]) {
    for (at, delta) in changes {
        let delta = Arc::new(delta);
        for source in sources {
            if source.send((at, Arc::clone(&delta))).is_err() {
                return;
            }
        }
    }
}

fn work_off(
    mut vertex: Vertex,
    inbox: &[Receiver<(Stamp, Arc<Delta>)>],
    readers: &[SyncSender<(Stamp, Arc<Delta>)>],
    results: Option<&SyncSender<(Stamp, Vec<Value>)>>,
) {
    loop {
        let mut input = Delta::new();
        let mut at = Stamp(0);
        for receiver in inbox {
            let Ok((stamp, delta)) = receiver.recv() else { return };
            at = stamp;
            input.extend_from_slice(&delta);
        }
        let output = Arc::new(vertex.step(input));
        for reader in readers {
            if reader.send((at, Arc::clone(&output))).is_err() {
                return;
            }
        }
        if let Some(results) = results
            && results.send((at, vertex.output())).is_err()
        {
            return;
        }
    }
}

impl Vertex {
    /// Follows a change; returns how the output changed.
    fn step(&mut self, input: Delta) -> Delta {
        let count = u32::try_from(self.shards.len()).unwrap_or(1);
        let mut parts: Vec<Delta> = vec![Delta::new(); self.shards.len()];
        for (tuple, times) in input {
            let hash = hash_of(&self.shards[0].stage.key(&tuple)).wrapping_mul(MIX);
            if sampled(hash, self.spread.keys) {
                parts[partition_of(hash, count) as usize].push((tuple, times));
            }
        }
        let incremental = self.incremental;
        let shards = self.shards.iter_mut().zip(parts);
        shards.flat_map(|(shard, part)| shard.step(&part, incremental)).collect()
    }

    fn output(&self) -> Vec<Value> {
        self.shards.iter().flat_map(|shard| shard.output.iter().cloned()).collect()
    }
}

/// Spreads hashes once more, so that sampling and sharding of one key are independent.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

fn sampled(hash: u64, share: f64) -> bool {
    share >= 1.0 || ((hash.rotate_left(32) >> 11) as f64) < share * (1_u64 << 53) as f64
}

impl Shard {
    fn step(&mut self, delta: &Delta, incremental: bool) -> Delta {
        if delta.is_empty() && self.ran {
            return Delta::new();
        }
        self.held.apply(delta);
        let quick = match incremental && self.ran {
            true => self.stage.execute_change(delta, &self.output),
            false => None,
        };
        self.output = quick.unwrap_or_else(|| self.stage.execute(&self.held));
        self.ran = true;
        let new: Collection = self.output.iter().cloned().collect();
        let change = self.emitted.delta_to(&new);
        self.emitted = new;
        change
    }
}

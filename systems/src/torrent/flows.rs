//! The predicates of D3S's section 5.5, each a graph of two stages: the first looks at the peers of one
//! shard, the second aggregates.

use std::collections::{BTreeMap, BTreeSet};

use everhold::Value;
use everhold_trace::wire::Stamp;
use everhold_watch::{Collection, Flow, FlowFinding, Graph, Spread, Stage};

use super::{PEERS, PIECES};

/// The number of shards of the first stages.
const SHARDS: Spread = Spread { shards: 4, keys: 1.0 };

/// The node and the value of a tuple `[node, null, value]`.
fn parts(tuple: &Value) -> Option<(&Value, &Value)> {
    match tuple {
        Value::List(parts) => Some((parts.first()?, parts.get(2)?)),
        _ => None,
    }
}

fn elements(value: &Value) -> Vec<&Value> {
    match value {
        Value::List(all) => all.iter().collect(),
        Value::Set(all) => all.iter().collect(),
        _ => Vec::new(),
    }
}

fn number(node: &Value) -> Option<i64> {
    match node {
        Value::Node(node) => Some(i64::from(node.0)),
        other => other.as_int(),
    }
}

/// Runs a function on every snapshot of a shard, or on all that the shards put out.
struct Each<F> {
    run: F,
    gathers: bool,
}

impl<F: Fn(&Collection) -> Vec<Value> + Send> Stage for Each<F> {
    fn execute(&mut self, snapshot: &Collection) -> Vec<Value> {
        (self.run)(snapshot)
    }

    fn key(&self, tuple: &Value) -> Value {
        match (self.gathers, parts(tuple)) {
            (false, Some((node, _))) => node.clone(),
            _ => Value::Null,
        }
    }
}

fn in_shards<F>(run: F) -> Each<F> {
    Each { run, gathers: false }
}

fn gathered<F>(run: F) -> Each<F> {
    Each { run, gathers: true }
}

fn list(numbers: impl IntoIterator<Item = i64>) -> Value {
    Value::List(numbers.into_iter().map(Value::Int).collect())
}

/// A row of the graph: a peer, the length of its list, and its different neighbours.
fn row(tuple: &Value) -> Option<Value> {
    let (node, neighbours) = parts(tuple)?;
    let all = elements(neighbours);
    let different: BTreeSet<i64> = all.iter().filter_map(|node| number(node)).collect();
    let head = [number(node)?, all.len() as i64];
    Some(list(head.into_iter().chain(different)))
}

/// The graph of neighbours, after every change: the longest list is passed to `each`.
pub fn neighbour_graph(mut each: impl FnMut(Stamp, i64) + Send + 'static) -> Flow {
    let graph = Graph::new()
        .then(SHARDS, || in_shards(|rows: &Collection| rows.iter().filter_map(row).collect()))
        .then(Spread::default(), || gathered(|rows: &Collection| rows.iter().cloned().collect()));
    let lengths = |output: &[Value]| -> Vec<(i64, i64)> {
        let pair = |row: &Value| match row {
            Value::List(row) => Some((row.first()?.as_int()?, row.get(1)?.as_int()?)),
            _ => None,
        };
        output.iter().filter_map(pair).collect()
    };
    let judge = move |output: &[Value]| {
        let long = lengths(output).into_iter().filter(|(_, length)| *length > i64::from(PEERS));
        let finding = |(peer, length)| FlowFinding {
            key: Value::Int(peer),
            reason: format!("it has {length} neighbours, and there are {PEERS} peers"),
        };
        long.map(finding).collect()
    };
    let flow =
        Flow::new("neighbour lists are no longer than the group", "neighbours", graph, judge);
    flow.each(move |at, output| {
        each(at, lengths(output).into_iter().map(|(_, length)| length).max().unwrap_or(0));
    })
}

/// The number of peers that have each piece.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution(pub Vec<i64>);

impl Distribution {
    /// The average share of the peers that have a piece, from 0 to 1.
    #[must_use]
    pub fn progress(&self) -> f64 {
        self.mean() / f64::from(PEERS)
    }

    fn mean(&self) -> f64 {
        self.0.iter().sum::<i64>() as f64 / self.0.len().max(1) as f64
    }

    /// The standard deviation over the mean: near 0 if pieces spread evenly.
    #[must_use]
    pub fn unevenness(&self) -> f64 {
        let mean = self.mean();
        let squares = self.0.iter().map(|count| (*count as f64 - mean).powi(2)).sum::<f64>();
        (squares / self.0.len().max(1) as f64).sqrt() / mean.max(1.0)
    }

    fn of(output: &[Value]) -> Distribution {
        let counts = output.first().map(elements).unwrap_or_default();
        Distribution(counts.into_iter().filter_map(Value::as_int).collect())
    }

    /// Whether enough was downloaded, and not too much, for the distribution to mean something.
    fn is_telling(&self) -> bool {
        (0.2..0.6).contains(&self.progress())
    }
}

/// Above this, peers converge on the same pieces. Rarest-first with random ties stays below a half.
const UNEVEN: f64 = 0.75;

/// Counts how often each piece occurs.
fn count(tuples: &Collection, pieces: impl Fn(&Value) -> Vec<i64>) -> Vec<Value> {
    let mut counts = vec![0; PIECES as usize];
    for tuple in tuples.iter() {
        for (count, more) in counts.iter_mut().zip(pieces(tuple)) {
            *count += more;
        }
    }
    vec![list(counts)]
}

/// A vector with a one for each piece that a peer has.
fn vector(tuple: &Value) -> Vec<i64> {
    let mut vector = vec![0; PIECES as usize];
    for piece in parts(tuple).map(|(_, pieces)| elements(pieces)).unwrap_or_default() {
        if let Some(place) = piece.as_int().and_then(|at| vector.get_mut(at as usize)) {
            *place = 1;
        }
    }
    vector
}

/// The distribution of pieces over peers (figure 9), passed to `each` after every change.
pub fn piece_distribution(mut each: impl FnMut(Stamp, Distribution) + Send + 'static) -> Flow {
    let sum = |counts: &Value| elements(counts).into_iter().filter_map(Value::as_int).collect();
    let graph = Graph::new()
        .then(SHARDS, || in_shards(|peers: &Collection| count(peers, vector)))
        .then(Spread::default(), move || gathered(move |sums: &Collection| count(sums, sum)));
    let judge = |output: &[Value]| {
        let distribution = Distribution::of(output);
        let uneven = distribution.unevenness();
        if !distribution.is_telling() || uneven <= UNEVEN {
            return Vec::new();
        }
        let percent = (distribution.progress() * 100.0).round();
        let reason = format!("at {percent} %, the pieces deviate by {uneven:.2} of their mean");
        vec![FlowFinding { key: Value::Null, reason }]
    };
    let flow = Flow::new("pieces spread evenly", "pieces", graph, judge);
    flow.each(move |at, output| each(at, Distribution::of(output)))
}

/// The number of rounds of the iteration, after which it has converged.
const ROUNDS: usize = 20;
/// The weight of the trust that everybody has from the beginning.
const BEGINNING: f64 = 0.15;
/// The precision of trust as a whole number.
const MILLIONTHS: f64 = 1_000_000.0;

/// The number of pieces that a peer received from each other one: `[peer, source, count, source, count, ..]`.
fn received(tuple: &Value) -> Option<Value> {
    let (node, sources) = parts(tuple)?;
    let Value::Map(sources) = sources else { return None };
    let pair = |(source, count): (&Value, &Value)| Some([number(source)?, count.as_int()?]);
    let pairs = sources.iter().filter_map(pair).flatten();
    Some(list([number(node)?].into_iter().chain(pairs)))
}

/// EigenTrust (Kamvar et al., WWW 2003): a peer trusts others by what it received from them, and trusts
/// what is trusted by those whom it trusts. Returns `[peer, trust in millionths]`.
fn eigentrust(rows: &Collection) -> Vec<Value> {
    let mut given: BTreeMap<i64, Vec<(i64, f64)>> = BTreeMap::new();
    for row in rows.iter() {
        let row: Vec<i64> = elements(row).into_iter().filter_map(Value::as_int).collect();
        let Some((peer, pairs)) = row.split_first() else { continue };
        let total: i64 = pairs.chunks(2).map(|pair| pair[1]).sum();
        let share = |pair: &[i64]| (pair[0], pair[1] as f64 / total.max(1) as f64);
        given.insert(*peer, pairs.chunks(2).map(share).collect());
    }
    let peers: BTreeSet<i64> = given.keys().copied().collect();
    let even = 1.0 / peers.len().max(1) as f64;
    let mut trust: BTreeMap<i64, f64> = peers.iter().map(|peer| (*peer, even)).collect();
    for _ in 0..ROUNDS {
        let mut next: BTreeMap<i64, f64> =
            peers.iter().map(|peer| (*peer, BEGINNING * even)).collect();
        for (peer, shares) in &given {
            // A peer that received nothing trusts all alike.
            let nobody: Vec<(i64, f64)> = peers.iter().map(|peer| (*peer, even)).collect();
            let shares = if shares.is_empty() { &nobody } else { shares };
            for (source, share) in shares {
                *next.entry(*source).or_default() += (1.0 - BEGINNING) * trust[peer] * share;
            }
        }
        next.retain(|peer, _| peers.contains(peer));
        trust = next;
    }
    let pair = |(peer, trust): (i64, f64)| list([peer, (trust * MILLIONTHS).round() as i64]);
    trust.into_iter().map(pair).collect()
}

/// The contributions of the peers (figure 10), as pairs of a peer and its trust in millionths: passed to
/// `each` after every change. A finding is a peer with less than half of the median: a free rider.
pub fn trust(mut each: impl FnMut(Stamp, Vec<(i64, i64)>) + Send + 'static) -> Flow {
    let graph = Graph::new()
        .then(SHARDS, || {
            in_shards(|peers: &Collection| peers.iter().filter_map(received).collect())
        })
        .then(Spread::default(), || gathered(eigentrust));
    let pairs = |output: &[Value]| -> Vec<(i64, i64)> {
        let pair = |row: &Value| match row {
            Value::List(row) => Some((row.first()?.as_int()?, row.get(1)?.as_int()?)),
            _ => None,
        };
        output.iter().filter_map(pair).collect()
    };
    let judge = move |output: &[Value]| {
        let pairs = pairs(output);
        let mut sorted: Vec<i64> = pairs.iter().map(|(_, trust)| *trust).collect();
        sorted.sort_unstable();
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
        let low = pairs.into_iter().filter(|(_, trust)| trust * 2 < median);
        let finding = |(peer, trust)| FlowFinding {
            key: Value::Int(peer),
            reason: format!("its contribution is {trust} millionths, the median {median}"),
        };
        low.map(finding).collect()
    };
    let flow = Flow::new("peers contribute", "sources", graph, judge);
    flow.each(move |at, output| each(at, pairs(output)))
}

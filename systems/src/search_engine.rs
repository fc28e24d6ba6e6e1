//! A web search engine, after the one whose response times D3S examines (NSDI 2008, section 5.3).
//!
//! A front end sends every query to all index servers and waits for all of them, so that the slowest one
//! determines the response time. Each server has divided its part of the index into five tiers by the
//! popularity of documents: it looks into one tier after the other until it has enough hits. The work on
//! a tier takes time, more for queries of several terms; here it is a timer.
//!
//! The paper finds servers that take more than twice the mean for some queries, by a predicate that was
//! refined while it ran. The imbalance there is a consequence of how documents are spread; here one tier
//! of one server is slow, so that a test can tell whether the predicate leads there.

use std::collections::{BTreeMap, VecDeque};

use everhold::System;
use everhold::prelude::*;

/// The first predicate: no server takes more than twice the average.
pub const BALANCED: &str = r#"
always "response times are balanced":
  (forall s in server nodes: s.answered >= 32)
    implies max(s in server nodes: s.response_us) <= 2 * avg(s in server nodes: s.response_us)
"#;
/// The name of the first predicate.
pub const RESPONSE_TIMES: &str = "response times are balanced";

/// The refined predicate: on no tier does a server take more than twice the average.
pub const BALANCED_TIERS: &str = r#"
always "tiers are balanced":
  forall t in 0..5:
    (forall s in server nodes: s.visits[t] >= 32)
      implies max(s in server nodes: s.tier_us[t]) <= 2 * avg(s in server nodes: s.tier_us[t])
"#;
/// The name of the refined predicate.
pub const TIER_TIMES: &str = "tiers are balanced";

/// The front end.
pub const FRONT_END: NodeId = NodeId(0);
/// The number of index servers.
pub const SERVERS: u32 = 10;
/// The number of tiers.
pub const TIERS: usize = 5;
/// The slow part of the index.
pub const SLOW: (NodeId, usize) = (NodeId(4), 2);

/// The time that a query of one term takes on each tier, on average.
const COSTS: [Duration; TIERS] = [
    Duration::from_micros(1_500),
    Duration::from_micros(4_000),
    Duration::from_micros(8_000),
    Duration::from_micros(10_000),
    Duration::from_micros(12_000),
];
/// The factor of the slow part.
const SLOWER: u64 = 6;
/// The number of hits that are enough.
const HITS: u64 = 100;
/// The interval between queries.
const QUERY: Duration = Duration::from_millis(140);
/// The number of queries over which averages are taken.
const WINDOW: u64 = 32;

/// The known problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// None.
    None,
    /// One tier of one server is slow.
    SlowTier,
}

/// The messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Msg {
    /// Front end to servers: a query with this number and so many terms.
    Query(u64, u64),
    /// Server to front end: the hits of a query.
    Hits(u64, u64),
}

/// Distributes queries, and collects their results.
#[derive(Clone, Debug, Serialize)]
pub struct FrontEnd {
    /// The number of queries.
    queries: u64,
    /// The number of queries that all servers have answered.
    answered: u64,
    /// The answers of queries that are not complete, by number.
    #[serde(skip)]
    open: BTreeMap<u64, u32>,
}

impl FrontEnd {
    /// A front end.
    #[must_use]
    pub fn new() -> FrontEnd {
        FrontEnd { queries: 0, answered: 0, open: BTreeMap::new() }
    }
}

impl Default for FrontEnd {
    fn default() -> FrontEnd {
        FrontEnd::new()
    }
}

impl Node for FrontEnd {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("query", QUERY);
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        self.queries += 1;
        let terms = 1 + cx.random() % 3;
        for server in 1..=SERVERS {
            cx.send(NodeId(server), Msg::Query(self.queries, terms));
        }
        self.open.insert(self.queries, 0);
        cx.set_timer("query", QUERY);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        let Msg::Hits(number, _) = msg else { return cx.unexpected(msg) };
        let Some(answers) = self.open.get_mut(&number) else { return };
        *answers += 1;
        if *answers == SERVERS {
            self.open.remove(&number);
            self.answered += 1;
        }
    }
}

/// A query at a server.
#[derive(Clone, Debug, Serialize)]
struct Work {
    number: u64,
    terms: u64,
    arrived: u64,
    tier: usize,
    hits: u64,
}

/// An index server. Its observed state are averages over the last queries.
#[derive(Clone, Debug, Serialize)]
pub struct Server {
    #[serde(skip)]
    bug: Bug,
    #[serde(skip)]
    me: NodeId,
    /// The number of queries that it answered.
    answered: u64,
    /// The time from a query's arrival to its answer, in microseconds.
    response_us: u64,
    /// The time on each tier.
    tier_us: [u64; TIERS],
    /// The number of visits of each tier.
    visits: [u64; TIERS],
    #[serde(skip)]
    waiting: VecDeque<Work>,
    /// The time at which the work on the present tier began.
    #[serde(skip)]
    began: u64,
}

/// Moves an average towards a value, the `count`th one.
fn average(average: &mut u64, value: u64, count: u64) {
    let weight = count.clamp(1, WINDOW);
    *average = (*average * (weight - 1) + value) / weight;
}

impl Server {
    /// A server.
    #[must_use]
    pub fn new(me: NodeId, bug: Bug) -> Server {
        Server {
            bug,
            me,
            answered: 0,
            response_us: 0,
            tier_us: [0; TIERS],
            visits: [0; TIERS],
            waiting: VecDeque::new(),
            began: 0,
        }
    }

    /// Begins to work on the present tier of the first query.
    fn work(&mut self, cx: &mut Cx<Msg>) {
        let Some(work) = self.waiting.front() else { return };
        self.began = micros(cx);
        // Between half and one and a half of the average.
        let percent = 50 + cx.random() % 101;
        let is_slow = self.bug == Bug::SlowTier && (self.me, work.tier) == SLOW;
        let factor = if is_slow { SLOWER } else { 1 };
        let cost = COSTS[work.tier].as_micros() as u64 * work.terms * factor * percent / 100;
        cx.set_timer("tier", Duration::from_micros(cost));
    }

    /// Goes on to the next tier, unless there are hits enough.
    fn looked(&mut self, cx: &mut Cx<Msg>) {
        let (now, found) = (micros(cx), 10 + cx.random() % 60);
        let Some(work) = self.waiting.front_mut() else { return };
        self.visits[work.tier] += 1;
        average(&mut self.tier_us[work.tier], now - self.began, self.visits[work.tier]);
        work.hits += found;
        work.tier += 1;
        if work.hits < HITS && work.tier < TIERS {
            return self.work(cx);
        }
        let (response, answer) = (now - work.arrived, Msg::Hits(work.number, work.hits));
        self.waiting.pop_front();
        self.answered += 1;
        average(&mut self.response_us, response, self.answered);
        cx.send(FRONT_END, answer);
        self.work(cx);
    }
}

fn micros(cx: &Cx<Msg>) -> u64 {
    cx.now().0 / 1_000
}

impl Node for Server {
    type Msg = Msg;

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        let Msg::Query(number, terms) = msg else { return cx.unexpected(msg) };
        let arrived = micros(cx);
        self.waiting.push_back(Work { number, terms, arrived, tier: 0, hits: 0 });
        if self.waiting.len() == 1 {
            self.work(cx);
        }
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        self.looked(cx);
    }
}

/// A front end and its servers, without a property: the explorer's clock does not measure work.
pub fn system(bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        system.node("front end", FrontEnd::new());
        for server in 1..=SERVERS {
            system.node("server", Server::new(NodeId(server), bug));
        }
    }
}

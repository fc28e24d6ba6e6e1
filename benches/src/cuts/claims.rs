//! Claims about all consistent cuts of a long execution of many nodes, decided without walking the
//! cuts: sums, mutual exclusion, bounds and pairs.

use everhold::property::{Library, Limits, Method, Rule, Verdict, check_ordered, parse};
use everhold_trace::{EventKind, Execution, NodeId, Order, TraceBuilder, Value};

use crate::cuts::timed;
use crate::cuts::traces::random;
use crate::measure::{Bound, Scorecard, Size};
use everhold_trace::text::thousands;

use crate::table::Table;

const NODES: u32 = 100;
const EACH: i64 = 1_000;

/// A claim, the method that decides it, and the CPU seconds that it may take.
struct Claim {
    name: &'static str,
    body: String,
    method: Method,
    seconds: f64,
}

pub(super) fn run(size: Size, scores: &mut Scorecard) {
    let events = size.pick(4_000, 1_000_000);
    let execution = bank(events);
    let order = Order::of(&execution);
    let mut table = Table::new(&["claim on every consistent cut", "CPU s", "bar"]);
    for claim in claims() {
        let text = format!("always \"{}\": {}", claim.name, claim.body);
        let rule = Rule::new(&parse(&text).properties[0], &Library::new());
        let (outcome, seconds) =
            timed(|| check_ordered(&rule, &execution, &order, Limits::default()));
        assert_eq!(outcome.verdict, Verdict::Holds, "{text}");
        if size == Size::Full {
            assert_eq!(outcome.method, claim.method, "{text}");
        }
        table.row(vec![claim.name.into(), format!("{seconds:.2}"), claim.seconds.to_string()]);
        let bar = format!(
            "{}, {} events, to {} CPU s",
            claim.name,
            thousands(events as u64),
            claim.seconds
        );
        scores.hold(bar, seconds / claim.seconds, Bound::AtMost(1.0));
    }
    let events = thousands(execution.events().len() as u64);
    table.print(&format!("Claims about all cuts of {events} events of {NODES} nodes"));
}

fn claims() -> Vec<Claim> {
    let total = EACH * i64::from(NODES);
    let claim =
        |name, body: &str, method, seconds| Claim { name, body: body.into(), method, seconds };
    vec![
        claim(
            "a constant sum with messages",
            &format!("sum(n in nodes: n.balance) + sum(m in messages(\"Transfer\"): m) == {total}"),
            Method::Weights,
            0.5,
        ),
        claim(
            "at most one holder",
            "count(n in nodes where reported(n): n.holds) <= 1",
            Method::Weights,
            0.5,
        ),
        claim(
            "a bounded sum",
            &format!("sum(n in nodes where reported(n): n.balance) <= {total}"),
            Method::Weights,
            3.0,
        ),
        claim("a bounded number of messages", "in_flight(\"Token\") <= 1", Method::Weights, 3.0),
        claim(
            "pairs with an equality",
            "forall a, b in nodes where a != b and a.holds and b.holds: a.round != b.round",
            Method::Windows,
            4.0,
        ),
        claim(
            "pairs with an order",
            &format!("forall a, b in nodes where a != b: a.balance - {total} <= b.balance"),
            Method::Windows,
            4.0,
        ),
    ]
}

/// Nodes transfer money, and one of them at a time holds a token, which it passes on.
fn bank(events: usize) -> Execution {
    let mut below = random();
    let mut trace = TraceBuilder::new();
    for node in 0..NODES {
        trace.add_node(&format!("node-{node}"), "account");
    }
    let mut balance = vec![EACH; NODES as usize];
    let (mut holder, mut round) = (NodeId(0), 0_i64);
    let state = |balance: i64, holds: bool, round: i64| {
        Value::record([
            ("balance", Value::Int(balance)),
            ("holds", holds.into()),
            ("round", round.into()),
        ])
    };
    for node in (0..NODES).map(NodeId) {
        trace.begin(node, EventKind::Start);
        trace.observe(state(EACH, node == holder, round));
    }
    for step in (NODES as usize..events).step_by(2) {
        let (from, to) = (NodeId(below(NODES)), NodeId(below(NODES)));
        let (label, payload) = if step.is_multiple_of(20) {
            ("Token", None)
        } else {
            ("Transfer", Some(1 + below(9)))
        };
        let from = if payload.is_none() { holder } else { from };
        trace.begin(from, EventKind::Local { name: "send".into() });
        let amount = i64::from(payload.unwrap_or(0));
        balance[from.index()] -= amount;
        trace.observe(state(balance[from.index()], payload.is_some() && from == holder, round));
        let message = trace.send(to, label, payload.map(|amount| Value::Int(i64::from(amount))));
        if payload.is_none() {
            (holder, round) = (to, round + 1);
        }
        trace.begin(to, EventKind::Deliver { message });
        balance[to.index()] += amount;
        trace.observe(state(balance[to.index()], to == holder, round));
    }
    trace.finish()
}

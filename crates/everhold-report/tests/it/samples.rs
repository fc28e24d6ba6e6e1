//! Pages of every kind.

use everhold_report::{
    Axis, Chart, Form, Kind, Line, Link, Page, Row, Series, Table, Unit, Window, judged,
};
use everhold_trace::{EventKind, Execution, NodeId, Time, TraceBuilder, Value};

fn state(role: &str, term: i64, votes: &[i64]) -> Value {
    let votes = Value::set(votes.iter().map(|v| Value::Int(*v)));
    Value::record([("role", Value::from(role)), ("term", Value::Int(term)), ("votes", votes)])
}

/// Two leaders in a term: a vote is forgotten in a crash, a message is lost, the network is
/// partitioned.
pub(crate) fn election() -> Execution {
    let mut trace = TraceBuilder::new();
    trace.name("election");
    let nodes: Vec<NodeId> = (1..=3).map(|n| trace.add_node(&format!("n{n}"), "server")).collect();
    let mut clock = 0;
    let mut begin = |trace: &mut TraceBuilder, node: NodeId, kind: EventKind| {
        clock += if matches!(kind, EventKind::Timer { .. }) { 150_000_000 } else { 700_000 };
        trace.begin(node, kind);
        trace.time(Time::logical(clock));
    };
    for node in &nodes {
        begin(&mut trace, *node, EventKind::Start);
        trace.observe(state("follower", 0, &[]));
    }
    let election = || EventKind::Timer { name: "election".to_owned() };
    begin(&mut trace, nodes[0], election());
    let vote = trace.send(nodes[1], "Vote", Some(Value::record([("term", 1)])));
    let lost = trace.send(nodes[2], "Vote", Some(Value::record([("term", 1)])));
    trace.observe(state("candidate", 1, &[1]));
    trace.lost(lost);
    begin(&mut trace, nodes[1], EventKind::Deliver { message: vote });
    let granted = trace.send(nodes[0], "Granted", Some(Value::record([("term", 1)])));
    trace.observe(state("follower", 1, &[]));
    trace.text("votes for n1");
    begin(&mut trace, nodes[1], EventKind::Crash);
    trace.partition(vec![vec![nodes[0]], vec![nodes[1], nodes[2]]]);
    begin(&mut trace, nodes[1], EventKind::Restart);
    trace.observe(state("follower", 0, &[]));
    begin(&mut trace, nodes[2], election());
    let second = trace.send(nodes[1], "Vote", Some(Value::record([("term", 1)])));
    trace.observe(state("candidate", 1, &[3]));
    begin(&mut trace, nodes[1], EventKind::Deliver { message: second });
    let again = trace.send(nodes[2], "Granted", Some(Value::record([("term", 1)])));
    trace.observe(state("follower", 1, &[]));
    trace.heal();
    begin(&mut trace, nodes[0], EventKind::Deliver { message: granted });
    trace.observe(state("leader", 1, &[1, 2]));
    begin(&mut trace, nodes[2], EventKind::Deliver { message: again });
    trace.observe(state("leader", 1, &[2, 3]));
    trace.finish()
}

const ONE_LEADER: &str = r#"
always "one leader per term":
  forall a, b in nodes where a != b:
    not (a.role == "leader" and b.role == "leader" and a.term == b.term)
"#;

pub(crate) fn violation() -> Page {
    let execution = election();
    let mut page = Page::new(Kind::Violation, "one leader per term", "tests::election");
    page.message("a = n1, b = n3, a.term = 1, b.term = 1");
    page.fact("found in", "execution 1,204 of 10,000 (portfolio), seed 0xe7e2401d");
    page.fact("shrunk", "214 → 11 steps, 3 → 1 faults; replayed twice, same result");
    page.command("replay", "EVERHOLD_REPLAY=eh1-7f3a91c2 cargo test election");
    page.command("look", "everhold view target/everhold/7f3a91c2");
    let property = &everhold_property::parse(ONE_LEADER).into_result().expect("it parses")[0];
    let rule = everhold_property::Rule::new(property, &everhold_property::Library::new());
    page.property(judged(&rule, &execution));
    let last = execution.events().len() - 1;
    let turning = Some((5, "turns bad here: 4 % → 71 %".to_owned()));
    let window = Window { violating: Some(last), turning, simulated: true, ..Window::default() };
    page.execution("the smallest failing execution", &execution, &window);
    page
}

/// Two events whose steps have the numbers 0 and 7; the second puts a key in front of others.
pub(crate) fn numbered() -> Page {
    let keys = |keys: &[i64]| {
        let keys = keys.iter().map(|key| Value::Int(*key)).collect();
        Value::record([("owned", Value::List(keys))])
    };
    let mut trace = TraceBuilder::new();
    let node = trace.add_node("n1", "server");
    trace.begin(node, EventKind::Start);
    trace.time(Time::logical(0));
    trace.observe(keys(&[1, 2]));
    trace.begin(node, EventKind::Timer { name: "take".to_owned() });
    trace.time(Time::logical(7));
    trace.observe(keys(&[0, 1, 2]));
    let mut page = Page::new(Kind::Violation, "every owned key", "tests::keys");
    page.property(everhold_report::PropertyView {
        name: "every owned key".to_owned(),
        text: "always \"every owned key\":\n  forall n in nodes: 0 not in n.owned".to_owned(),
        verdict: "violated".to_owned(),
        changes: vec![(0, "holds".to_owned()), (1, "violated".to_owned())],
        witness: vec![
            ("owned".to_owned(), "= corrupted".to_owned()),
            ("n.owned".to_owned(), "= [0, 1, 2]".to_owned()),
        ],
        ..everhold_report::PropertyView::default()
    });
    let window = Window { violating: Some(1), steps: true, ..Window::default() };
    page.execution("the execution", &trace.finish(), &window);
    page
}

/// Text with markup, which every field receives.
pub(crate) const HOSTILE: &str =
    "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked=1'>";

pub(crate) fn hostile() -> Page {
    let mut trace = TraceBuilder::new();
    trace.name(HOSTILE);
    let node = trace.add_node(HOSTILE, HOSTILE);
    trace.begin(node, EventKind::Start);
    trace.observe(Value::record([(HOSTILE, Value::from(HOSTILE))]));
    let message = trace.send(node, HOSTILE, Some(Value::from(HOSTILE)));
    trace.begin(node, EventKind::Deliver { message });
    trace.observe(Value::record([(HOSTILE, Value::from("other"))]));
    trace.text(HOSTILE);
    trace.begin(node, EventKind::Local { name: HOSTILE.to_owned() });
    trace.fault(None, HOSTILE);
    trace.partition(vec![vec![node]]);
    let mut page = Page::new(Kind::Violation, HOSTILE, HOSTILE);
    page.message(HOSTILE);
    page.fact(HOSTILE, HOSTILE);
    page.command(HOSTILE, HOSTILE);
    page.note(HOSTILE);
    page.property(everhold_report::PropertyView {
        name: HOSTILE.to_owned(),
        text: HOSTILE.to_owned(),
        verdict: "violated".to_owned(),
        changes: vec![(1, "violated".to_owned())],
        witness: vec![(HOSTILE.to_owned(), HOSTILE.to_owned())],
        message: Some(HOSTILE.to_owned()),
        links: vec![(HOSTILE.to_owned(), Link { execution: 0, event: 1 })],
    });
    let window =
        Window { violating: Some(1), turning: Some((0, HOSTILE.to_owned())), ..Window::default() };
    page.execution(HOSTILE, &trace.finish(), &window);
    page.table(Table {
        title: HOSTILE.to_owned(),
        text: Some(HOSTILE.to_owned()),
        columns: vec![HOSTILE.to_owned()],
        rows: vec![Row { cells: vec![HOSTILE.to_owned()], link: None }],
    });
    page.chart(distribution(HOSTILE));
    page.chart(Chart {
        title: HOSTILE.to_owned(),
        text: Some(HOSTILE.to_owned()),
        x: Axis::named(HOSTILE, vec![HOSTILE.to_owned()]),
        y: Axis::new(HOSTILE, Unit::Number),
        series: vec![Series::new(HOSTILE, Form::Points, vec![(0.0, 1.0)])],
        lines: vec![Line { at: 0.0, label: HOSTILE.to_owned() }],
    });
    page
}

/// The status of a watch, with markup in every field.
pub(crate) fn hostile_status() -> serde_json::Value {
    let violation = |number: u64, resolved: serde_json::Value| {
        serde_json::json!({
            "number": number, "id": format!("{HOSTILE}{number}"), "rule": HOSTILE, "text": HOSTILE,
            "key": HOSTILE, "at": 1_795_000_000_000_000_000u64 + number, "resolved": resolved,
            "reason": HOSTILE, "witness": { HOSTILE: HOSTILE },
        })
    };
    let mut status = status(4);
    status["rules"] = serde_json::json!([
        { "name": HOSTILE, "text": HOSTILE, "verdict": HOSTILE, "firing": 1, "violations": 1,
          "evaluations": 1, "unknown": 0, "seconds": 1e-6 },
        { "name": "aside", "verdict": "not watched", "reason": HOSTILE },
    ]);
    status["nodes"] = serde_json::json!([
        { "id": 0, "name": HOSTILE, "kind": HOSTILE, "up": true, "known": false },
    ]);
    status["violations"] = serde_json::json!([
        violation(1, serde_json::Value::Null),
        violation(2, 1_795_000_002_000_000_000u64.into()),
    ]);
    status["notices"] = serde_json::json!([
        { "number": 3, "event": HOSTILE, "name": HOSTILE, "reason": HOSTILE, "at": 1 },
        { "number": 4, "event": "rules", "names": [HOSTILE], "refused": [HOSTILE] },
    ]);
    status
}

/// The status of a watch at a given time: one lock that two clients hold, and another that one
/// holds.
pub(crate) fn status(number: u64) -> serde_json::Value {
    let at = 1_795_000_000_000_000_000u64;
    let rule = |name: &str, verdict: &str, firing: u64| {
        serde_json::json!({
            "name": name, "text": format!("always \"{name}\": forall a, b in nodes where a != b: ..."),
            "verdict": verdict, "firing": firing, "violations": firing + 1,
            "evaluations": 18_412 + number * 90, "unknown": 12, "seconds": 0.031,
        })
    };
    let violation = |number: u64, key: u64, resolved: serde_json::Value| {
        serde_json::json!({
            "number": number, "id": format!("5f3a0{number}"), "rule": "lock holders are consistent",
            "text": "", "key": key, "at": at + number * 400_000_000, "resolved": resolved,
            "reason": "became false with n2.locks[7]",
            "witness": { "a": "n1", "b": "n2", "a.locks[key]": "Exclusive", "b.locks[key]": "Shared" },
        })
    };
    serde_json::json!({
        "version": 1, "now": at + number * 1_000_000_000, "number": 3,
        "verdict": "violated", "failing": [],
        "rules": [
            rule("lock holders are consistent", "violated", 1),
            rule("a lease is shorter than the grace", "holds", 0),
            rule("the server knows every holder", "unknown", 0),
            { "name": "told along", "verdict": "not watched",
              "reason": "on delivery compares states of different times" },
        ],
        "nodes": (0..4).map(|id| serde_json::json!({
            "id": id, "name": format!("n{id}"), "kind": "client", "up": id != 3, "known": id != 2,
        })).collect::<Vec<_>>(),
        "lag_ms": 12.0 + (number % 7) as f64 * 9.0, "records": 40_000 + number * 2_100, "late": 0,
        "dropped": 3, "clock_ahead": 0, "keys": 12, "waiting": 2, "partitions": [0],
        "connections": 4, "refused": 0,
        "violations": [
            violation(1, 3, (at + 1_900_000_000).into()), violation(2, 7, serde_json::Value::Null),
        ],
        "notices": [
            { "number": 3, "event": "incomplete", "name": "n2", "at": at + 3_000_000_000,
              "reason": "it stays behind" },
        ],
    })
}

fn distribution(title: &str) -> Chart {
    let fast = (1..=90).map(|n| (6e6 + f64::from(n) * 4e4, f64::from(n) / 100.0));
    let slow = (91..=100).map(|n| (1e10 + f64::from(n) * 1e6, f64::from(n) / 100.0));
    Chart {
        title: title.to_owned(),
        text: Some("two modes: 7.8 ms and 10.1 s".to_owned()),
        x: Axis::new("time to join", Unit::Ns).log(),
        y: Axis::new("share of executions", Unit::Share),
        series: vec![Series::new("executions", Form::Steps, fast.chain(slow).collect())],
        lines: vec![Line { at: 1e10, label: "1 x recovery timer".to_owned() }],
    }
}

/// A ring of nodes that pass a token, with a long wait in the slow variant.
fn ring(nodes: u32, steps: u32, wait_at: Option<u32>) -> Execution {
    let mut trace = TraceBuilder::new();
    let ids: Vec<NodeId> =
        (0..nodes).map(|n| trace.add_node(&format!("node-{n}"), "node")).collect();
    let mut clock = 0;
    let mut token = None;
    for step in 0..steps {
        let at = (step % nodes) as usize;
        clock += if wait_at == Some(step) { 10_000_000_000 } else { 1_500_000 };
        let kind = match token {
            Some(message) if wait_at != Some(step) => EventKind::Deliver { message },
            _ if wait_at == Some(step) => EventKind::Timer { name: "recovery".to_owned() },
            _ => EventKind::Start,
        };
        trace.begin(ids[at], kind);
        trace.time(Time::logical(clock));
        let to = ids[(at + 1) % nodes as usize];
        token = Some(trace.send(to, "Token", Some(Value::Int(i64::from(step)))));
        trace.observe(Value::record([("passed", Value::Int(i64::from(step / nodes)))]));
    }
    trace.finish()
}

pub(crate) fn slow() -> Page {
    let mut page = Page::new(Kind::Slow, "10.0 s instead of 0.006 s", "randtree, 15 nodes");
    page.message("JoinReply n2 → n1 arrived after Join n0 → n1; delaying the latter by more than 3 ms removes it");
    page.fact("slow executions", "9.8 % of 2,000");
    page.command("replay", "everhold perf replay eh1-77aa");
    for (title, wait) in [("slow: 10.05 s", Some(14)), ("nearest fast: 45 ms", None)] {
        let window = Window {
            turning: Some((12, "P(good) falls from 0.91 to 0.03".to_owned())),
            path: if wait.is_some() { (8..32).step_by(3).collect() } else { Vec::new() },
            simulated: true,
            ..Window::default()
        };
        page.execution(title, &ring(4, 32, wait), &window);
    }
    let good: Vec<(f64, f64)> =
        (0..32).map(|n| (f64::from(n), if n < 12 { 0.93 } else { 0.03 })).collect();
    let mut curve = Series::new("P(good)", Form::Line, good.clone());
    curve.band = good.iter().map(|(_, p)| ((p - 0.05f64).max(0.0), (p + 0.05).min(1.0))).collect();
    curve.links = (0..32).map(|event| Some(Link { execution: 0, event })).collect();
    page.chart(Chart {
        title: "Chance of a normal time, from each event on".to_owned(),
        text: None,
        x: Axis::new("event", Unit::Number),
        y: Axis::new("P(good)", Unit::Share),
        series: vec![curve],
        lines: vec![Line { at: 12.0, label: "divergence".to_owned() }],
    });
    page.chart(distribution("Times of all executions"));
    page
}

pub(crate) fn almost() -> Page {
    let mut page = Page::new(Kind::Almost, "parent not in children", "20,000 states of 15 nodes");
    page.fact("holds in", "99.93 % (99.90 to 99.95 %)");
    let execution = ring(3, 60, Some(30));
    page.execution("run 7", &execution, &Window { violating: Some(31), ..Window::default() });
    page.execution("run 12", &election(), &Window { violating: Some(8), ..Window::default() });
    let rows = [(0, 31, "run 7"), (1, 8, "run 12")].map(|(run, event, name)| Row {
        cells: vec![name.to_owned(), event.to_string(), "after a restart".to_owned()],
        link: Some(Link { execution: run, event }),
    });
    let first = [("run 7 after e31", 0, 31), ("run 12 after e8", 1, 8)];
    page.property(everhold_report::PropertyView {
        name: "1. parent not in children".to_owned(),
        text: "always \"parent not in children\": forall n in nodes: not (n.parent in n.children)"
            .to_owned(),
        verdict: "almost".to_owned(),
        message: Some("held in 99.93 % (99.90 to 99.95 %) of 20,000 evaluations".to_owned()),
        links: first
            .map(|(words, execution, event)| (words.to_owned(), Link { execution, event }))
            .to_vec(),
        ..everhold_report::PropertyView::default()
    });
    let mut exceptions = Series::new("1.", Form::Points, vec![(31.0, 0.0), (8.0, 1.0)]);
    exceptions.links = first.map(|(_, execution, event)| Some(Link { execution, event })).to_vec();
    page.chart(Chart {
        title: "Exceptions over time".to_owned(),
        text: None,
        x: Axis::new("event", Unit::Number),
        y: Axis::named("run", vec!["run 7".to_owned(), "run 12".to_owned()]),
        series: vec![exceptions],
        lines: Vec::new(),
    });
    page.table(Table {
        title: "Exceptions".to_owned(),
        text: Some("both follow a restart".to_owned()),
        columns: ["run", "event", "what they share", ""].map(str::to_owned).to_vec(),
        rows: rows.to_vec(),
    });
    page
}

pub(crate) fn clean() -> Page {
    let mut page = Page::new(Kind::Clean, "no violation in 10,000 executions", "tests::storage");
    page.note("Stopped by the budget of executions: this is not a proof.");
    page.fact("steps", "96,112");
    let curve =
        (1..=20).map(|n| (f64::from(n * 500), 4_000.0 * (1.0 - (-f64::from(n) / 4.0).exp())));
    page.chart(Chart {
        title: "Distinct states".to_owned(),
        text: None,
        x: Axis::new("executions", Unit::Number),
        y: Axis::new("states", Unit::Number),
        series: vec![Series::new("states", Form::Line, curve.collect())],
        lines: Vec::new(),
    });
    page
}

pub(crate) fn long(events: u32) -> Page {
    let mut page = Page::new(Kind::Trace, "a long execution", "ring");
    page.execution("ring", &ring(8, events, Some(events / 2)), &Window::default());
    page
}

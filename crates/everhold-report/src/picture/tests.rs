//! Pictures of executions from any source.

use everhold_trace::{EventKind, Execution, NodeId, Time, TraceBuilder, Value, notes};

use super::*;

fn timer(name: &str) -> EventKind {
    EventKind::Timer { name: name.to_owned() }
}

fn term(term: i64) -> Value {
    Value::record([("term", term)])
}

/// A ping that is lost, one that arrives twice, a crash and a partition.
fn faulty() -> Execution {
    let mut trace = TraceBuilder::new();
    let nodes = ["client", "server", "other"].map(|name| trace.add_node(name, ""));
    let [client, server, other] = nodes;
    for node in nodes {
        trace.begin(node, EventKind::Start);
        trace.observe(term(0));
    }
    trace.begin(client, timer("retry"));
    let ping = Value::Variant {
        name: "Ping".to_owned(),
        payload: Box::new(Value::record([("from", Value::Node(client))])),
    };
    let first = trace.send(server, "Ping", Some(ping));
    let second = trace.send(server, "Ping", None);
    let bye = trace.send(other, "", None);
    trace.lost(bye);
    trace.begin(server, EventKind::Deliver { message: second });
    trace.observe(term(1));
    trace.lost(first);
    trace.duplicated(second);
    trace.begin(server, EventKind::Deliver { message: second });
    trace.text("seen before\nignored");
    trace.partition(vec![vec![client], vec![server, other]]);
    trace.fault(Some(server), "stop");
    trace.fault(None, "the clocks of all nodes jump");
    trace.begin(server, EventKind::Crash);
    trace.heal();
    trace.begin(server, EventKind::Restart);
    trace.observe(term(0));
    trace.finish()
}

#[track_caller]
fn check(execution: &Execution, part: &Part, paper: &Paper, expected: &str) {
    let drawn = Picture::of(execution, part, paper).draw(paper);
    assert!(drawn == expected.trim_start_matches('\n'), "drawn:\n{drawn}\nexpected:{expected}");
}

#[test]
fn faults_of_a_trace_are_drawn() {
    check(
        &faulty(),
        &Part::default(),
        &Paper::default(),
        r#"
                     client               server               other
   0  start          ●                    │                    │       {term:0}
   1  start          │                    ●                    │       {term:0}
   2  start          │                    │                    ●       {term:0}
   3  timer retry    ●                    │                    │       client#2 → other is lost
   4  sent at 3      ├───────Ping────────▶●                    │       term 0 → 1
      ! lose         ├╌Ping{from:client}╌✗│                    │       never arrives
      ! duplicate    ├╌╌╌╌╌╌╌Ping╌╌╌╌╌╌╌×2│                    │       will arrive twice
   5  again, from 3  ├───────Ping────────▶●                    │       seen before · ignored
      ! partition    ╥                    │                    │       client | server, other
      ! stop         ║                    ●                    │
      ! fault        ║                    │                    │       the clocks of all nodes jump
   6  ! crash        ║                    ╳                    │
      heal           ╨                    ┊                    │
   7  restart        │                    ○                    │       term 1 → 0
"#,
    );
}

#[test]
fn a_part_keeps_the_numbers_of_its_events() {
    let part = Part { events: Some(4..6), nodes: vec![NodeId(1)] };
    check(
        &faulty(),
        &part,
        &Paper::default(),
        r#"
                     client               server
   4  sent at 3      ├───────Ping────────▶●        term 0 → 1
      ! lose         ├╌Ping{from:client}╌✗│        never arrives
      ! duplicate    ├╌╌╌╌╌╌╌Ping╌╌╌╌╌╌╌×2│        will arrive twice
   5  again, from 3  ├───────Ping────────▶●        seen before · ignored
      ! partition    ╥                    │        client | server, other
      ! stop         ║                    ●
      ! fault        ║                    │        the clocks of all nodes jump
"#,
    );
}

#[test]
fn what_lanes_have_no_room_for_becomes_a_list() {
    let paper = Paper { width_max: 56, rows_max: 8, charset: Charset::Ascii };
    assert!(!Picture::of(&faulty(), &Part::default(), &paper).has_lanes(&paper));
    check(
        &faulty(),
        &Part::default(),
        &paper,
        r#"
step  node    event                  change
   0  client  start                  {term:0}
   1  server  start                  {term:0}
   :                                 8 steps left out
              ! fault                the clocks of all..
   6  server  ! crash
              heal
   7  server  restart                term 1 -> 0
"#,
    );
}

#[test]
fn the_violation_is_named_where_its_event_is_shown() {
    let mut trace = TraceBuilder::new();
    let node = trace.add_node("a\u{1b}[2J", "");
    for tick in 0..3 {
        trace.begin(node, timer("tick\u{7}"));
        trace.time(Time::logical(tick));
    }
    trace.note(notes::PROPERTY, "always \"calm\"");
    trace.note(notes::STEP, 1_u64);
    let execution = trace.finish();
    for (range, is_named) in [(0..3, true), (1..2, true), (2..3, false)] {
        let part = Part { events: Some(range), nodes: Vec::new() };
        let drawn = Picture::of(&execution, &part, &Paper::default()).draw(&Paper::default());
        assert_eq!(drawn.contains("✗ always \"calm\" violated at 1"), is_named, "{drawn}");
        assert!(!drawn.contains(['\u{1b}', '\u{7}']), "{drawn:?}");
    }
}

#[test]
fn nothing_to_draw() {
    check(&TraceBuilder::new().finish(), &Part::default(), &Paper::default(), "");
}

//! Exported files are as the other tool expects them; those that can be imported come back whole.

use everhold_trace::{EventKind, Execution, Time, TraceBuilder, Value, export, notes};

use crate::random::{Random, Shape, execution};

fn sample() -> Execution {
    let mut trace = TraceBuilder::new();
    trace.note(notes::SEED, 7);
    let a = trace.add_node("a", "server");
    let b = trace.add_node("the b", "server");
    trace.begin(a, EventKind::Start);
    trace.observe(Value::record([("term", 1)]));
    let ping = trace.send(b, "Ping", None);
    let lost = trace.send(b, "Pong", None);
    trace.lost(lost);
    trace.begin(b, EventKind::Deliver { message: ping });
    trace.text("got; it");
    trace.partition(vec![vec![a], vec![b]]);
    trace.begin(a, EventKind::Timer { name: "retry".into() });
    trace.time(Time::logical(9));
    trace.observe(Value::record([("term", 2)]));
    trace.heal();
    trace.finish()
}

fn written(write: impl Fn(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn text_is_in_fixed_columns() {
    let expected = "\
seed: 7
 step  node   what                                  sends, changes
    0  a      start                                 Ping -> the b; Pong -> the b; {term: 1}
              * lost: Pong from a
    1  the b  deliver Ping from a
              * partition: a | the b
    2  a      timer retry                           term: 1 -> 2
              * partition heals
";
    assert_eq!(written(|out| export::text(&sample(), out)), expected);
}

#[test]
fn mermaid_draws_messages_and_faults() {
    let expected = "\
sequenceDiagram
    participant n0 as a
    participant n1 as the b
    Note over n0: start
    n0--xn1: Pong lost
    n0->>n1: Ping
    Note over n1: got, it
    Note over n0,n1: partition n0 | n1
    Note over n0: timer retry
    Note over n0,n1: partition heals
";
    assert_eq!(written(|out| export::mermaid(&sample(), out)), expected);
}

#[test]
fn csv_has_a_column_a_variable() {
    let expected = "\
run,node,kind,name,received,sent,time,wall_ns,text,term
1,a,start,,,the_b#0 the_b#1!,,,,1
1,the_b,deliver,,a#0,,,,got; it,
1,a,timer,retry,,,9,,,2
";
    assert_eq!(written(|out| export::csv(&[sample()], out)), expected);
}

#[test]
fn chrome_traces_are_json_with_an_arrow_a_message() {
    let mut random = Random(21);
    for _ in 0..100 {
        let shape = Shape::full(&mut random);
        let execution = execution(&mut random, shape);
        let json = written(|out| export::chrome(&execution, out));
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let rows = json["traceEvents"].as_array().unwrap();
        let count = |phase: &str| rows.iter().filter(|row| row["ph"] == phase).count();
        assert_eq!(count("M"), execution.nodes().len());
        assert_eq!(count("X"), execution.events().len());
        let received: usize = execution.events().iter().map(|e| e.received().count()).sum();
        assert_eq!(count("f"), received);
    }
}

/// Exports of random executions hold a line or row an event, whatever their values.
#[test]
fn every_execution_can_be_exported() {
    let mut random = Random(22);
    for _ in 0..200 {
        let shape = Shape::full(&mut random);
        let execution = execution(&mut random, shape);
        assert!(
            written(|out| export::text(&execution, out)).lines().count() > execution.events().len()
        );
        let diagram = written(|out| export::mermaid(&execution, out));
        assert!(diagram.lines().skip(1).all(|line| line.starts_with("    ")));
    }
}

#[cfg(feature = "import")]
mod round_trips {
    use everhold_trace::format::ReadOptions;
    use everhold_trace::import::{csv, shiviz};
    use everhold_trace::{Order, Slice};

    use super::*;

    /// ShiViz keeps only the order: the imported messages are those that no others imply.
    #[test]
    fn shiviz_keeps_happens_before() {
        let mut random = Random(23);
        for _ in 0..500 {
            let shape = Shape { nodes: 4, steps: 20, ..Shape::small(&mut random) };
            let original = execution(&mut random, shape).with_name("a run");
            if original.events().is_empty() {
                continue;
            }
            let log = written(|out| export::shiviz(std::slice::from_ref(&original), out));
            let format = shiviz::Format::detect();
            let read = shiviz::read(log.as_bytes(), &format, &ReadOptions::strict()).unwrap();
            let read = &read.executions[0];
            assert_eq!(read.name(), "a run");
            let (a, b) = (Order::of(&original), Order::of(read));
            for node in original.node_ids().filter(|node| !original.events_of(*node).is_empty()) {
                let name = original.node(node).name.replace(' ', "_");
                let same = read.node_named(&name).unwrap();
                assert_eq!(a.events_of(node), b.events_of(same));
                for state in 0..=a.events_of(node) {
                    for other in original.node_ids() {
                        let name = original.node(other).name.replace(' ', "_");
                        let there =
                            read.node_named(&name).map_or(0, |n| b.clock(same, state)[n.index()]);
                        assert_eq!(a.clock(node, state)[other.index()], there);
                    }
                }
            }
        }
    }

    /// CSV keeps states and messages, so also the quiet cuts.
    #[test]
    fn csv_keeps_states_and_messages() {
        let mut random = Random(24);
        for _ in 0..300 {
            let shape = Shape { states: false, ..Shape::full(&mut random) };
            let original = execution(&mut random, shape);
            let table = written(|out| export::csv(std::slice::from_ref(&original), out));
            let read = csv::read(table.as_bytes(), &ReadOptions::strict()).unwrap();
            let Some(read) = read.executions.first() else { continue };
            assert_eq!(read.events().len(), original.events().len());
            let (a, b) = (Order::of(&original), Order::of(read));
            assert_eq!(a.deliveries().len(), b.deliveries().len());
            let states = |order: &Order| -> usize {
                let slice = Slice::quiet(order);
                (0..slice.nodes().len()).map(|place| slice.states(place).len() - 1).sum()
            };
            assert_eq!(states(&a), states(&b));
        }
        let read = written(|out| export::csv(&[sample()], out));
        let read = csv::read(read.as_bytes(), &ReadOptions::strict()).unwrap().executions.remove(0);
        let node = read.node_named("a").unwrap();
        assert_eq!(read.local_states().at(node, 2), sample().local_states().at(node, 2));
    }
}

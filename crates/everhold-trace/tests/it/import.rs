//! Real logs of other tools, and what is wrong with broken ones.

use everhold_trace::format::{ReadError, ReadOptions, TraceFile};
use everhold_trace::import::shiviz::{self, Format};
use everhold_trace::import::{csv, dinv, messages, ndjson};
use everhold_trace::{EventId, Execution, NodeId, Order, Slice, Value};

use crate::native::damage;
use crate::random::Random;

const CHORD: &str = include_str!("../../testdata/chord.log");
const CHORD_PARSER: &str = r"(?<host>\S*) (?<clock>{.*})\n(?<event>.*)";
const EWD998: &str = include_str!("../../testdata/ewd998.log");
const EWD998_PARSER: &str = r#"^State [0-9]+: <(?<event>\w*) .*>\n\/\\ Host = (?<host>.*)\n\/\\ Clock = "(?<clock>.*)"\n\/\\ active = (?<active>.*)\n\/\\ color = (?<color>.*)\n\/\\ counter = (?<counter>.*)"#;
const EWD998_RUNS: &str = "^=== (?<trace>.*) ===$";
const ETCD: &str = include_str!("../../testdata/etcd-raft-example.ndjson");
const CHANNELS: &str = include_str!("../../testdata/ewd998-chan.ndjson");
const ETCD_MAPPING: &str = include_str!("../../testdata/etcd-raft.mapping.json");

fn strict(text: &str, parser: &str, delimiter: &str) -> TraceFile {
    let format = Format::new(parser, delimiter);
    shiviz::read(text.as_bytes(), &format, &ReadOptions::strict()).unwrap()
}

fn chord() -> Execution {
    strict(CHORD, CHORD_PARSER, "").executions.remove(0)
}

fn etcd() -> Execution {
    let mapping = ndjson::Mapping::parse(ETCD_MAPPING).unwrap();
    ndjson::read(ETCD.as_bytes(), &mapping, &ReadOptions::strict()).unwrap().executions.remove(0)
}

/// The numbers of the research on this log.
#[test]
fn chord_has_its_known_slice() {
    let execution = chord();
    assert_eq!(execution.nodes().len(), 8);
    assert_eq!(execution.events().len(), 1_235);
    assert_eq!(execution.messages().len(), 541);
    let order = Order::of(&execution);
    let slice = Slice::quiet(&order);
    let components = slice.components().unwrap();
    assert_eq!((components.count, components.largest), (681, 4));
    let mut cuts = slice.cuts();
    let mut quiet = 0;
    while cuts.next_cut().is_some() {
        quiet += 1;
    }
    assert_eq!(quiet, 52_745);
    // 97.9 % of the states after an event occur in some quiet cut.
    let usable: usize = (0..8).map(|place| slice.states(place).len() - 1).sum();
    assert_eq!((usable * 1000 + 617) / 1_235, 979);
}

#[test]
fn rebuilt_clocks_are_the_logged_ones() {
    let execution = chord();
    let order = Order::of(&execution);
    let mut lines = CHORD.lines();
    let mut next = vec![0; execution.nodes().len()];
    while let (Some(head), Some(_event)) = (lines.next(), lines.next()) {
        let (host, clock) = head.split_once(' ').unwrap();
        let clock: serde_json::Value = serde_json::from_str(clock).unwrap();
        let node = execution.node_named(host).unwrap();
        let state = u32::try_from(clock[host].as_u64().unwrap()).unwrap();
        next[node.index()] += 1;
        for other in execution.node_ids() {
            let logged = clock[&execution.node(other).name].as_u64().unwrap_or(0);
            assert_eq!(u64::from(order.clock(node, state)[other.index()]), logged);
        }
    }
    assert_eq!(next.iter().sum::<usize>(), 1_235);
}

#[test]
fn ewd998_has_three_runs_with_states() {
    let recording = strict(EWD998, EWD998_PARSER, EWD998_RUNS);
    let sizes: Vec<_> = recording.executions.iter().map(|e| e.nodes().len()).collect();
    assert_eq!(sizes.len(), 3);
    assert!(sizes.iter().all(|size| (5..=7).contains(size)), "{sizes:?}");
    let events: usize = recording.executions.iter().map(|e| e.events().len()).sum();
    assert_eq!(events, 990, "993 states, less the initial ones, which have no host");
    assert!(recording.executions[0].name().starts_with("78 actions"));
    let execution = &recording.executions[0];
    let node = execution.node_named("n6").unwrap();
    let state = execution.local_states().at(node, 1).unwrap().clone();
    assert_eq!(state.to_string(), r#"{active: true, color: "white", counter: 1}"#);
}

#[test]
fn a_group_may_keep_the_global_state() {
    let parser = EWD998_PARSER.replace("?<counter>", "?<all_counter>");
    let recording = strict(EWD998, &parser, EWD998_RUNS);
    let execution = &recording.executions[1];
    let state = execution.local_states().at(NodeId(0), 1).unwrap().clone();
    assert_eq!(
        state.get("all_counter").unwrap().to_string(),
        "{n1: 0, n2: 0, n3: 0, n4: 0, n5: 0}"
    );
}

#[test]
fn etcd_raft_has_states_and_messages() {
    let execution = etcd();
    assert_eq!(execution.nodes().len(), 10);
    assert_eq!(execution.events().len(), 4_888);
    let order = Order::of(&execution);
    let between = order.deliveries().iter().filter(|d| d.from != d.to).count();
    assert_eq!((between, order.deliveries().len() - between), (1_536, 125));
    let never = execution.messages().iter().filter(|m| m.delivered.is_empty()).count();
    assert_eq!(never, 126);
    let leader = execution.node_named("2").unwrap();
    let states = execution.local_states();
    let last = states.at(leader, execution.events_of(leader).len()).unwrap();
    assert_eq!(last.get("role"), Some(&Value::from("StateLeader")));
    // The whole system is almost never quiet; pairs of nodes are.
    let quiet = Slice::quiet(&order);
    let usable: usize = (0..10).map(|place| quiet.states(place).len() - 1).sum();
    assert!(usable * 100 < 4_888 * 4, "{usable}");
    let pair = Slice::quiet_among(&order, &[NodeId(0), NodeId(4)]);
    assert!(pair.states(0).len() > quiet.states(0).len());
}

#[test]
fn the_format_may_stand_in_the_file() {
    let text = format!("{CHORD_PARSER}\n\n{CHORD}");
    let read = shiviz::read(text.as_bytes(), &Format::detect(), &ReadOptions::strict()).unwrap();
    assert_eq!(read.executions, [chord()]);
    let read = shiviz::read(CHORD.as_bytes(), &Format::detect(), &ReadOptions::strict()).unwrap();
    assert_eq!(read.executions, [chord()]);
    let default = "hello\na {\"a\":1}\nworld\na {\"a\":2}\n";
    let read = shiviz::read(default.as_bytes(), &Format::detect(), &ReadOptions::strict()).unwrap();
    assert_eq!(read.executions[0].events()[1].text.as_deref(), Some("world"));
}

#[test]
fn timestamps_of_tsviz_are_physical_times() {
    let log = "1500 a {\"a\":1}\nINFO x\n1600 b {\"a\":1, \"b\":1}\nINFO y\n";
    let read = shiviz::read_logs(
        [log.as_bytes(), b"1700 c {\"c\":1}\nINFO z"],
        &Format::go_vector(),
        &ReadOptions::strict(),
    )
    .unwrap();
    let times: Vec<_> = read.executions[0].events().iter().map(|e| e.time.physical_ns).collect();
    assert_eq!(times, [Some(1500), Some(1600), Some(1700)]);
}

#[track_caller]
fn check_bad(log: &str, expected: &str, kept: usize) {
    let format = Format::go_vector();
    let error = shiviz::read(log.as_bytes(), &format, &ReadOptions::strict()).unwrap_err();
    assert!(error.to_string().contains(expected), "{error}");
    let recording = shiviz::read(log.as_bytes(), &format, &ReadOptions::lenient()).unwrap();
    assert!(recording.diagnostics.iter().any(|d| d.to_string().contains(expected)));
    let events: usize = recording.executions.iter().map(|e| e.events().len()).sum();
    assert_eq!(events, kept);
}

#[test]
fn clocks_that_contradict_each_other_name_their_line() {
    check_bad("a {\"a\":1}\nx\na {\"a\":1}\ny\n", "line 3: clocks contradict each other", 2);
    check_bad("a {\"a\":1}\nx\na {\"a\":3}\ny\n", "line 3: `a` goes from count 1 to 3", 2);
    check_bad("a {\"b\":1}\nx\n", "line 1: the clock of `a` has no entry for `a` itself", 0);
    check_bad(
        "a {\"a\":1,\"b\":2}\nx\nb {\"b\":1}\ny\n",
        "line 1: the clock knows event 2 of `b`",
        2,
    );
    check_bad("a {\"a\":x}\ny\n", "line 1: the clock of `a` is no JSON object", 0);
    let back = "b {\"b\":1}\nx\na {\"a\":1,\"b\":1}\ny\na {\"a\":2}\nz\n";
    check_bad(back, "line 5: clocks contradict each other: the host knew event 1 of `b`", 3);
    let ahead = "c {\"c\":1}\nw\nb {\"b\":1,\"c\":1}\nx\na {\"a\":1,\"b\":1}\ny\n";
    check_bad(ahead, "line 5: clocks contradict each other: it knows event 1 of `b`", 3);
    check_bad("no events here", "no event matches the parser", 0);
}

#[test]
fn parsers_that_cannot_be_used_say_why() {
    let check = |parser: &str, expected: &str| {
        let format = Format::new(parser, "");
        let error = shiviz::read(CHORD.as_bytes(), &format, &ReadOptions::strict()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    };
    check("(?<host>x", "cannot be used");
    check("(?<host>x)", "lacks the group (?<clock>..)");
    check("(?<host>x)(?<clock>y)(?<event>(?=z))", "lookaround");
}

/// A gob of {"a": 2, "bb": 300}, and points laid over a GoVector log.
#[test]
fn dinv_points_are_states_of_their_events() {
    let gob = gob(&[("a", 2), ("bb", 300)]);
    let clock = dinv::gob_clock(&gob).unwrap();
    assert_eq!(clock, [("a".to_owned(), 2), ("bb".to_owned(), 300)].into());
    for end in 0..gob.len() {
        assert_eq!(dinv::gob_clock(&gob[..end]), None);
    }
    let log = "a {\"a\":1}\nx\na {\"a\":2}\ny\nb {\"a\":2, \"b\":1}\nz\n";
    let point = |x: u32, count: u64| {
        let clock = base64(&self::gob(&[("a", count)]));
        format!(
            "{{\"Dump\":[{{\"VarName\":\"x\",\"Value\":{x},\"Type\":\"int\"}}],\
             \"Id\":\"L1\",\"VectorClock\":\"{clock}\",\"CommunicationDelta\":0}}"
        )
    };
    let points = point(5, 1) + &point(6, 1) + "\n" + &point(7, 2);
    let points = [("a".to_owned(), points.as_bytes())];
    let read = dinv::read([log.as_bytes()], points, &ReadOptions::strict()).unwrap();
    let execution = &read.executions[0];
    let states = execution.local_states();
    let a = execution.node_named("a").unwrap();
    let xs: Vec<_> =
        (0..=5).map(|count| states.at(a, count).and_then(|s| s.get("x")?.as_int())).collect();
    assert_eq!(xs, [None, None, Some(5), Some(6), Some(6), Some(7)]);
    assert_eq!(execution.messages().len(), 1);
    // What follows a broken point cannot be read.
    let lost = format!("{}{{\"Dump\": 5}}{}", point(5, 1), point(6, 1).repeat(3));
    let lost = [("a".to_owned(), lost.as_bytes())];
    let error = dinv::read([log.as_bytes()], lost, &ReadOptions::lenient()).unwrap_err();
    assert!(error.to_string().starts_with("only 1 of 4 points could be read"), "{error}");
}

fn gob(entries: &[(&str, u64)]) -> Vec<u8> {
    let uint = |value: u64| {
        let bytes: Vec<u8> = value.to_be_bytes().into_iter().skip_while(|b| *b == 0).collect();
        if value < 128 {
            vec![u8::try_from(value).unwrap()]
        } else {
            [vec![u8::try_from(256 - bytes.len()).unwrap()], bytes].concat()
        }
    };
    let mut map = [uint(65), vec![0], uint(entries.len() as u64)].concat();
    for (name, count) in entries {
        map.extend([uint(name.len() as u64), name.as_bytes().to_vec(), uint(*count)].concat());
    }
    let definition = [1, 2, 3];
    [uint(3), definition.to_vec(), uint(map.len() as u64), map].concat()
}

fn base64(bytes: &[u8]) -> String {
    let json = everhold_trace::value::json::to_json(&Value::Bytes(bytes.to_vec()));
    json["$bytes"].as_str().unwrap().to_owned()
}

#[test]
fn snapshots_in_a_table_are_executions() {
    let table = "snapshot,node,term,role\n1,a,3,leader\n1,b,3,\n2,a,4,\"fol\"\"lower\"\n2,b,4,x\n";
    let read = csv::read(table.as_bytes(), &ReadOptions::strict()).unwrap();
    assert_eq!(read.executions.len(), 2);
    let states = read.executions[0].local_states();
    assert_eq!(states.at(NodeId(1), 1).unwrap().to_string(), "{term: 3}");
    assert_eq!(
        read.executions[1].local_states().at(NodeId(0), 1).unwrap().to_string(),
        r#"{role: "fol\"lower", term: 4}"#
    );
    let bad = |table: &str, expected: &str| {
        let error = csv::read(table.as_bytes(), &ReadOptions::strict()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    };
    bad("a,b\n1,2\n", "line 1: the first row must name the columns");
    bad("node,x\na,1,2\n", "line 2: 3 cells, expected 2");
    bad("node,time\na,soon\n", "line 2: `soon` in column `time`");
}

#[test]
fn mappings_and_lines_that_do_not_fit_say_so() {
    let mapping = ndjson::Mapping::parse(ETCD_MAPPING).unwrap();
    let bad = |log: &str, expected: &str| {
        let error = ndjson::read(log.as_bytes(), &mapping, &ReadOptions::strict()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        // Nothing that can be judged is left where the only line is broken.
        let lenient = ndjson::read(log.as_bytes(), &mapping, &ReadOptions::lenient());
        assert!(lenient.map_or_else(
            |error| error.to_string().contains("only 0 of 1 lines could be read"),
            |read| !read.diagnostics.is_empty(),
        ));
    };
    bad("{\"tag\":\"trace\"}", "line 1: no field `event.nid`");
    bad("{\"tag\":\"tr", "line 1: the line ends in the middle");
    bad("{}\n", "no line matches the mapping");
    let receive = ETCD.lines().find(|line| line.contains("ReceiveAppend")).unwrap();
    bad(receive, "line 1: a receive from `2` without a send");
    let error = ndjson::Mapping::parse("{\"nod\":\"x\"}").unwrap_err();
    assert!(error.to_string().contains("unknown field `nod`"), "{error}");
}

/// A trace with which a TLA+ specification is validated: its lines are in no order.
#[test]
fn a_trace_for_validation_is_read_whole() {
    let events = r#""where": {"event": ["<", ">", "d"]}, "node": "node", "name": "event""#;
    let clock = r#""clock": "pkt.vc""#;
    let sides = r#""send": {"where": {"event": ">"}, "to": "pkt.rcv", "id": ["pkt.msg"],
                            "label": "pkt.msg.type", "payload": "pkt.msg"},
                   "receive": {"where": {"event": "<"}, "from": "pkt.snd", "id": ["pkt.msg"]}"#;
    let read = |mapping: &str| {
        let mapping = ndjson::Mapping::parse(mapping).unwrap();
        ndjson::read(CHANNELS.as_bytes(), &mapping, &ReadOptions::strict())
    };
    // The messages from the clocks: what is rebuilt from them are the clocks.
    let from_clocks = read(&format!("{{{events}, {clock}}}")).unwrap().executions.remove(0);
    assert_eq!((from_clocks.nodes().len(), from_clocks.events().len()), (5, 654));
    let order = Order::of(&from_clocks);
    let mut logged = 0;
    for line in CHANNELS.lines().skip(1) {
        let json: serde_json::Value = serde_json::from_str(line).unwrap();
        let node = from_clocks.node_named(&json["node"].to_string()).unwrap();
        let clock = &json["pkt"]["vc"];
        let count = |name: &str| u32::try_from(clock[name].as_u64().unwrap_or(0)).unwrap();
        let rebuilt = order.clock(node, count(&json["node"].to_string()));
        for other in from_clocks.node_ids() {
            assert_eq!(rebuilt[other.index()], count(&from_clocks.node(other).name), "{line}");
            logged += 1;
        }
    }
    assert_eq!(logged, 654 * 5);
    // The messages by what they say: a receive of a token that a node has put back is a step.
    let by_content = read(&format!("{{{events}, {clock}, {sides}}}")).unwrap();
    let execution = &by_content.executions[0];
    assert_eq!((execution.events().len(), execution.messages().len()), (654, 228));
    assert!(execution.messages().iter().all(|message| message.sent.is_some()));
    // Without the clocks, the file is in no order that could have happened.
    assert!(read(&format!("{{{events}, {sides}}}")).is_err());
}

#[test]
fn clocks_may_be_given_by_position() {
    let parser = r"^(?<host>\w+) (?<clock>\([\d, ]+\)) (?<event>.*)$";
    let log = "n2 (0,1,0) x\nn10 (0,1,1) y\nn1 (1,0,0) z\n";
    let execution = strict(log, parser, "").executions.remove(0);
    assert_eq!((execution.nodes().len(), execution.messages().len()), (3, 1));
    let mapping = r#"{"node": "at", "clock": "vc"}"#;
    let lines = r#"{"at": "n10", "vc": [0, 1, 1]}
        {"at": "n2", "vc": [0, 1, 0]}
        {"at": "n1", "vc": [1, 0, 0]}"#;
    let mapping = ndjson::Mapping::parse(mapping).unwrap();
    let read = ndjson::read(lines.as_bytes(), &mapping, &ReadOptions::strict()).unwrap();
    assert_eq!(read.executions[0].messages().len(), 1);
    let short = "n2 (0,1) x\nn10 (0,1,1) y\nn1 (1,0,0) z\n";
    let error = shiviz::read(short.as_bytes(), &Format::new(parser, ""), &ReadOptions::strict());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("has 2 counts, but the log has 3 hosts: n1, n2, n10"), "{error}");
}

#[test]
fn blanks_at_the_ends_of_lines_and_a_mark_do_no_harm() {
    let blanks = format!("\u{feff}{}", CHORD.replace('\n', " \t\r\n"));
    let read = shiviz::read(blanks.as_bytes(), &Format::go_vector(), &ReadOptions::strict());
    assert_eq!(read.unwrap().executions[0].events().len(), 1_235);
    let mapping = ndjson::Mapping::parse(ETCD_MAPPING).unwrap();
    let blanks = format!("\u{feff}{}", ETCD.replace('\n', " \r\n"));
    let read = ndjson::read(blanks.as_bytes(), &mapping, &ReadOptions::strict()).unwrap();
    assert_eq!(read.executions[0].events().len(), 4_888);
}

/// Some events of this log begin with a time that the parser does not expect.
#[test]
fn the_first_lines_that_do_not_match_are_named() {
    let event = |at: u32| match at % 10 {
        0 | 2..=6 => format!("a {{\"a\":{}}}\nx\n", at + 1),
        _ => format!("12:00 - a {{\"a\":{}}}\nx\n", at + 1),
    };
    let log: String = (0..20).map(event).collect();
    let parser = Format::new(r"^(?<host>\S+) (?<clock>\{.*\})\n(?<event>.*)$", "");
    let error = shiviz::read(log.as_bytes(), &parser, &ReadOptions::strict()).unwrap_err();
    let all: Vec<String> = error.diagnostics().iter().map(ToString::to_string).collect();
    assert!(all.iter().any(|text| text.starts_with("line 3: no event: it has a clock")), "{all:?}");
    let read = shiviz::read(log.as_bytes(), &parser, &ReadOptions::lenient()).unwrap();
    assert!(read.diagnostics.iter().any(|d| d.to_string() == "12 of 20 events were kept"));
    // Less than half is refused, leniently too.
    let log: String = (0..500).map(|at| event(at + u32::from(at > 8))).collect();
    let log = log.replace("\na {", "\n12:00 - a {");
    let error = shiviz::read(log.as_bytes(), &parser, &ReadOptions::lenient()).unwrap_err();
    assert!(error.to_string().contains("too few to judge"), "{error}");
}

/// A log of which less than half can be read is refused, leniently too, with the first places; of any
/// other one it is said what share was kept.
#[test]
fn the_share_that_was_read_counts() {
    let lenient = ReadOptions::lenient();
    let mapping = ndjson::Mapping::parse(r#"{"node": "n", "state": {"x": "x"}}"#).unwrap();
    let table = |text: &str| csv::read(text.as_bytes(), &lenient);
    let lines = |text: &str| messages::read(text.as_bytes(), &lenient);
    let json = |text: &str| ndjson::read(text.as_bytes(), &mapping, &lenient);
    check_share(table, "node,x\n", "a,1\n", "a,1,2\n", "rows");
    check_share(lines, "", "a,b,Ask\n", "nobody\n", "lines");
    check_share(json, "", "{\"n\": \"a\", \"x\": 1}\n", "{\"m\": \"a\"}\n", "lines");
}

#[track_caller]
fn check_share(
    read: impl Fn(&str) -> Result<TraceFile, ReadError>,
    head: &str,
    good: &str,
    bad: &str,
    of: &str,
) {
    let file =
        |goods: usize, bads: usize| format!("{head}{}{}", good.repeat(goods), bad.repeat(bads));
    let kept = read(&file(6, 4)).unwrap();
    assert_eq!(kept.diagnostics[0].to_string(), format!("6 of 10 {of} were kept"));
    assert_eq!(kept.diagnostics.len(), 5);
    for (goods, bads) in [(4, 6), (0, 5)] {
        let error = read(&file(goods, bads)).unwrap_err();
        let all: Vec<String> = error.diagnostics().iter().map(ToString::to_string).collect();
        let share =
            format!("only {goods} of {} {of} could be read, too few to judge", goods + bads);
        assert!(all[0].starts_with(&share), "{all:?}");
        let first = format!("line {}: ", head.lines().count() + goods + 1);
        assert!(all.len() == 4 && all[1].starts_with(&first), "{all:?}");
    }
    assert!(read(&file(3, 0)).unwrap().diagnostics.is_empty());
}

#[test]
fn a_group_without_a_match_leaves_its_variable() {
    let parser = r"^(?<host>\w) (?<clock>\{.*\})(?: x=(?<x>\d+))?(?: y=(?<y>\d+))? (?<event>.*)$";
    let log = "a {\"a\":1} x=1 y=2 set\na {\"a\":2} y=3 set\na {\"a\":3} rest\n";
    let execution = strict(log, parser, "").executions.remove(0);
    let states = execution.local_states();
    let shown: Vec<_> =
        (1..=3).map(|count| states.at(NodeId(0), count).unwrap().to_string()).collect();
    assert_eq!(shown, ["{x: 1, y: 2}", "{x: 1, y: 3}", "{x: 1, y: 3}"]);
}

#[test]
fn lines_of_messages_are_an_execution() {
    let plain = "client, server, Request\nserver, db, Query\ndb, server, Rows\n";
    let named = "message,to,from,time\nRequest,server,client,1.5\nQuery,db,server,2\n";
    let read = messages::read(plain.as_bytes(), &ReadOptions::strict()).unwrap();
    let execution = &read.executions[0];
    assert_eq!((execution.nodes().len(), execution.events().len()), (3, 6));
    let order = Order::of(execution);
    assert!(order.happens_before(EventId(0), EventId(5)));
    let read = messages::read(named.as_bytes(), &ReadOptions::strict()).unwrap();
    let execution = &read.executions[0];
    assert_eq!(execution.events()[0].time.physical_ns, Some(1_500_000_000));
    assert_eq!(execution.events()[2].sends[0].label, "Query");
    let error = messages::read("a, b, x\nb\n".as_bytes(), &ReadOptions::strict()).unwrap_err();
    assert!(error.to_string().contains("line 2: expected `from, to, message`"), "{error}");
}

#[test]
fn damaged_logs_never_panic() {
    let mut random = Random(9);
    let mapping = ndjson::Mapping::parse(ETCD_MAPPING).unwrap();
    let chord = &CHORD.as_bytes()[..9_000];
    let etcd = &ETCD.as_bytes()[..20_000];
    let table = b"run,node,kind,received,sent,x\n1,a,start,,b#0,\"1\"\n1,b,,a#0,*#1,{}\n".to_vec();
    for _ in 0..300 {
        for (which, original) in [chord, etcd, &table].into_iter().enumerate() {
            let mut log = original.to_vec();
            (0..=random.below(4)).for_each(|_| damage(&mut log, &mut random));
            for options in [ReadOptions::strict(), ReadOptions::lenient()] {
                let _ = match which {
                    0 => shiviz::read(log.as_slice(), &Format::go_vector(), &options),
                    1 => ndjson::read(log.as_slice(), &mapping, &options),
                    _ => csv::read(log.as_slice(), &options),
                };
            }
        }
    }
}

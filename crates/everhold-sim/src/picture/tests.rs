//! Pictures of hand-made executions. A script has a line per step; see [`Script::step`].

use std::collections::BTreeMap;

use everhold_node::NodeId;
use everhold_report::picture::{Charset, Paper};
use everhold_trace::Value;

use super::draw;
use crate::env::DUPLICATE;
use crate::failure::{Cause, Failure};
use crate::fault::{Fault, MessageName, Side};
use crate::record::{EventRecord, NodeRecord, RunRecord, SendRecord, StepRecord};

struct Script {
    recording: RunRecord,
    states: Vec<BTreeMap<String, Value>>,
    sent: Vec<u32>,
}

/// The first line names the nodes; each further line is a step.
fn script(text: &str) -> RunRecord {
    let mut lines = text.trim().lines().map(str::trim);
    let names = lines.next().expect("a line of names").split(' ');
    let info = |name: &str| NodeRecord { name: name.to_owned(), kind: "node".to_owned() };
    let nodes: Vec<NodeRecord> = names.map(info).collect();
    let mut script = Script {
        states: vec![BTreeMap::from([("x".to_owned(), Value::Int(0))]); nodes.len()],
        sent: vec![0; nodes.len()],
        recording: RunRecord { nodes, ..RunRecord::default() },
    };
    script.recording.initial =
        script.states.iter().map(|state| Value::Record(state.clone())).collect();
    script.step("a start");
    lines.for_each(|line| script.step(line));
    script.recording
}

impl Script {
    /// `node event | field=value field=value | to Text, to Text | note, note`.
    fn step(&mut self, line: &str) {
        let mut parts = line.split('|').map(str::trim);
        let (node, event) = parts.next().and_then(|part| part.split_once(' ')).expect("an event");
        let node = self.node(node);
        let event = self.event(node, event);
        let mut items = |separator: &'static str| {
            let part = parts.next().unwrap_or_default();
            part.split(separator).map(str::trim).filter(|item| !item.is_empty()).collect::<Vec<_>>()
        };
        for assignment in items(" ") {
            let (field, value) = assignment.split_once('=').expect("field=value");
            let value = value.parse().map_or_else(|_| Value::from(value), Value::Int);
            self.states[node.index()].insert(field.to_owned(), value);
        }
        let sends = items(", ").iter().map(|send| self.send(node, send)).collect();
        let notes = items(", ").iter().map(|note| (*note).to_owned()).collect();
        let state = match event {
            EventRecord::Start => Value::Null,
            _ => Value::Record(self.states[node.index()].clone()),
        };
        self.recording.steps.push(StepRecord { node, event, sends, notes, state, spawned: vec![] });
    }

    fn node(&self, name: &str) -> NodeId {
        let named = self.recording.nodes.iter().position(|info| info.name == name);
        NodeId(named.unwrap_or_default() as u32)
    }

    fn send(&mut self, from: NodeId, send: &str) -> SendRecord {
        let (to, text) = send.split_once(' ').expect("to and text");
        let sequence = self.sent[from.index()];
        self.sent[from.index()] += 1;
        SendRecord {
            to: self.node(to.trim_end_matches('!')),
            message: MessageName { from, sequence },
            kind: "message",
            text: text.to_owned(),
            payload: Value::Null,
            lost: to.ends_with('!'),
        }
    }

    /// `recv a.0` is the first message of `a`, `again a.0` its second arrival.
    fn event(&self, node: NodeId, event: &str) -> EventRecord {
        let (word, rest) = event.split_once(' ').unwrap_or((event, ""));
        match word {
            "start" => EventRecord::Start,
            "recv" => self.deliver(self.message(rest), 0),
            "again" => self.deliver(self.message(rest), DUPLICATE),
            "timer" => EventRecord::Timer(rest.to_owned()),
            "task" => EventRecord::Poll(rest.parse().expect("a number")),
            "restart" => EventRecord::Restart,
            "heal" => EventRecord::Heal,
            "crash" => EventRecord::Fault(Fault::Crash(node)),
            "stop" => EventRecord::Fault(Fault::Stop(node)),
            "skew" => EventRecord::Fault(Fault::Skew(node, 2)),
            "lose" => EventRecord::Fault(Fault::Lose(self.message(rest))),
            "duplicate" => EventRecord::Fault(Fault::Duplicate(self.message(rest))),
            "delay" => EventRecord::Fault(Fault::Delay(self.message(rest))),
            "partition" => {
                let side = rest.split(' ').map(|name| self.node(name));
                let mask = Side::of(side).expect("few nodes");
                EventRecord::Fault(Fault::Partition(mask))
            }
            other => panic!("no event {other}"),
        }
    }

    fn message(&self, text: &str) -> MessageName {
        let (from, sequence) = text.rsplit_once('.').expect("a message");
        MessageName { from: self.node(from), sequence: sequence.parse().expect("a number") }
    }

    fn deliver(&self, message: MessageName, bit: u32) -> EventRecord {
        let mut sends = self.recording.steps.iter().flat_map(|step| &step.sends);
        let sent = sends.find(|send| send.message == message).expect("it was sent");
        EventRecord::Deliver {
            message: MessageName { sequence: message.sequence | bit, ..message },
            kind: "message",
            text: sent.text.clone(),
            payload: Value::Null,
        }
    }
}

fn failing(recording: RunRecord, cause: Cause, message: &str) -> RunRecord {
    RunRecord { failure: Some(Failure { cause, message: message.to_owned() }), ..recording }
}

fn always(name: &str) -> Cause {
    Cause::Always(name.to_owned())
}

#[track_caller]
fn check(recording: &RunRecord, expected: &str) {
    check_with(recording, &Paper::default(), expected);
}

#[track_caller]
fn check_with(recording: &RunRecord, paper: &Paper, expected: &str) {
    let drawn = draw(recording, paper);
    for line in drawn.lines() {
        assert!(line.chars().count() <= paper.width_max, "too wide: {line}");
    }
    assert!(drawn.lines().count() <= paper.rows_max, "too long:\n{drawn}");
    assert!(drawn == expected.trim_start_matches('\n'), "drawn:\n{drawn}\nexpected:{expected}");
}

const VOTES: &str = "
n1 n2 n3
n1 timer election | role=candidate term=1 | n2 Vote { term: 1 }, n3 Vote { term: 1 }
n2 recv n1.0 | voted=n1 | n1 Granted
n2 crash
n2 restart | voted=none
n3 timer election | role=candidate term=1 | n2 Vote { term: 1 }
n2 recv n3.0 | voted=n3 | n3 Granted
n1 recv n2.0 | role=leader
n3 recv n2.1 | role=leader | | notifies Elected(NodeId(2))
";

#[test]
fn crash_and_restart() {
    let recording = failing(script(VOTES), always("one leader per term"), "term 1: n1, n3");
    check(
        &recording,
        r#"
                      n1              n2              n3
   1  timer election  ●               │               │    role + candidate · term + 1
   2  sent at 1       ├─Vote{term:1}─▶●               │    voted + n1
   3  ! crash         │               ╳               │
   4  restart         │               ○               │    voted n1 → none
   5  timer election  │               │               ●    role + candidate · term + 1
   6  sent at 5       │               ●◀─Vote{term:1}─┤    voted none → n3
   7  sent at 2       ●◀───Granted────┤               │    role candidate → leader
   8  sent at 6       │               ├───Granted────▶✗    role candidate → leader
                      │               │               │    notifies Elected(n3)
      ✗ always "one leader per term" violated: term 1: n1, n3
"#,
    );
}

#[test]
fn the_same_in_ascii() {
    let recording = failing(script(VOTES), always("one leader per term"), "term 1: n1, n3");
    check_with(
        &recording,
        &Paper { charset: Charset::Ascii, ..Paper::default() },
        r#"
                      n1              n2              n3
   1  timer election  *               |               |    role + candidate; term + 1
   2  sent at 1       |-Vote{term:1}->*               |    voted + n1
   3  ! crash         |               X               |
   4  restart         |               o               |    voted n1 -> none
   5  timer election  |               |               *    role + candidate; term + 1
   6  sent at 5       |               *<-Vote{term:1}-|    voted none -> n3
   7  sent at 2       *<---Granted----|               |    role candidate -> leader
   8  sent at 6       |               |---Granted---->x    role candidate -> leader
                      |               |               |    notifies Elected(n3)
      x always "one leader per term" violated: term 1: n1, n3
"#,
    );
}

#[test]
fn crossing_messages_and_troubled_ones() {
    let recording = script(
        "
client left right
client task 0 | | left Put(1), left Put(2), right Put(3), client Tick
left recv client.1 | x=2 | right Copy(2)
left recv client.0 | x=1 | right Copy(1)
right recv left.1 | x=1
right recv left.0 | x=2 | client Done, client! Bye
right lose client.2
client duplicate right.0
client delay right.0
client recv client.3 | ticks=1
client recv right.0 | done=1
client again right.0 | done=2
right skew
right stop
",
    );
    check(
        &recording,
        r#"
                     client     left       right
   1  task 0         ●          │          │
   2  sent at 1      ├─Put(2)──▶●          │       x 0 → 2
   3  sent at 1      ├─Put(1)──▶●          │       x 2 → 1
   4  sent at 3      │          ├─Copy(1)─▶●       x 0 → 1
   5  sent at 2      │          ├─Copy(2)─▶●       x 1 → 2 · Bye → client is lost
   6  ! lose         ├╌╌Put(3)╌╌┼╌╌╌╌╌╌╌╌╌✗│       never arrives
   7  ! duplicate    │×2╌╌╌╌╌╌╌╌┼╌╌╌Done╌╌╌┤       will arrive twice
   8  ! delay        │…╌╌╌╌╌╌╌╌╌┼╌╌╌Done╌╌╌┤       waits until nothing else can happen
   9  sent at 1      ●          │          │       Tick ← itself · ticks + 1
  10  sent at 5      ●◀─────────┼───Done───┤       done + 1
  11  again, from 5  ●◀─────────┼───Done───┤       done 1 → 2
  12  ! skew         │          │          ●       clock +50 % of the largest jump
  13  ! stop         │          │          ■       for good
"#,
    );
}

#[test]
fn a_partition_shows_who_is_cut_off() {
    let recording = script(
        "
a b c d
a timer beat | | b Beat, d Beat
b partition b c
d recv a.1 | seen=1 | c Echo
b timer beat | | c Beat
c recv b.0 | seen=1
b heal
b recv a.0 | seen=1
c recv d.0 | seen=2
",
    );
    check(
        &recording,
        r#"
                   a        b        c        d
   1  timer beat   ●        │        │        │
   2  ! partition  │        ╥        ╥        │   b, c | a, d
   3  sent at 1    ├──Beat──╫────────╫───────▶●   seen + 1
   4  timer beat   │        ●        ║        │
   5  sent at 4    │        ├─Beat──▶●        │   seen + 1
   6  heal         │        ╨        ╨        │
   7  sent at 1    ├─Beat──▶●        │        │   seen + 1
   8  sent at 3    │        │        ●◀─Echo──┤   seen 1 → 2
"#,
    );
}

#[test]
fn many_nodes_become_a_list() {
    let recording = script(
        "
n0 n1 n2 n3 n4 n5 n6 n7 n8 n9
n0 timer round | round=1 | n1 Token(1), n2 Token(1), n3 Token(1), n4 Token(1), n5 Token(1), n6 Token(1), n7 Token(1), n8 Token(1), n9 Token(1)
n1 recv n0.0 | x=1
n2 recv n0.1 | x=1
n3 lose n0.2
n4 crash
n4 restart
n5 recv n0.4 | x=1
n6 partition n6 n7
n6 heal
n7 recv n0.6 | x=1
n8 recv n0.7 | x=1
n9 duplicate n0.8
n9 again n0.8 | x=1 | | a rather long note that goes on and on until it reaches the edge of the paper
",
    );
    let deadlock = Cause::Deadlock("node".to_owned());
    check(
        &failing(recording, deadlock, "nothing can happen any more"),
        r#"
step  node  event                           change
   1  n0    timer round                     round + 1
   2  n1    Token(1) ← n0 (sent at 1)       x 0 → 1
   3  n2    Token(1) ← n0 (sent at 1)       x 0 → 1
   4  n3    ! lose Token(1) ← n0            never arrives
   5  n4    ! crash
   6  n4    restart
   7  n5    Token(1) ← n0 (sent at 1)       x 0 → 1
   8        ! partition                     n6, n7 | n0, n1, n2, n3, n4, n5, n8, n9
   9        heal
  10  n7    Token(1) ← n0 (sent at 1)       x 0 → 1
  11  n8    Token(1) ← n0 (sent at 1)       x 0 → 1
  12  n9    ! duplicate Token(1) ← n0       will arrive twice
  13  n9    Token(1) ← n0 (again, from 1)   x 0 → 1
                                            a rather long note that goes on and on until it reaches
                                            the edge of the paper
      ✗ no deadlock (kind "node") violated: nothing can happen any more
"#,
    );
}

#[test]
fn a_long_execution_loses_its_middle() {
    let mut text = "ping pong\nping timer go | | pong Ball(0)".to_owned();
    for round in 0..40 {
        text += &format!("\npong recv ping.{round} | x={round} | ping Ball({round})");
        if round == 20 {
            text += "\npong crash\npong restart | x=0";
        }
        text += &format!("\nping recv pong.{round} | x={round} | pong Ball({})", round + 1);
    }
    let recording = failing(script(&text), always("x < 39"), "x = 39");
    check_with(
        &recording,
        &Paper { rows_max: 20, ..Paper::default() },
        r#"
                  ping        pong
   1  timer go    ●           │
   2  sent at 1   ├─Ball(0)──▶●
   3  sent at 2   ●◀─Ball(0)──┤
   ⋮              ┊           ┊      39 steps left out
  43  ! crash     │           ╳
  44  restart     │           ○      x 20 → 0
   ⋮              ┊           ┊      28 steps left out
  73  sent at 72  ●◀─Ball(34)─┤      x 33 → 34
  74  sent at 73  ├─Ball(35)─▶●      x 34 → 35
  75  sent at 74  ●◀─Ball(35)─┤      x 34 → 35
  76  sent at 75  ├─Ball(36)─▶●      x 35 → 36
  77  sent at 76  ●◀─Ball(36)─┤      x 35 → 36
  78  sent at 77  ├─Ball(37)─▶●      x 36 → 37
  79  sent at 78  ●◀─Ball(37)─┤      x 36 → 37
  80  sent at 79  ├─Ball(38)─▶●      x 37 → 38
  81  sent at 80  ●◀─Ball(38)─┤      x 37 → 38
  82  sent at 81  ├─Ball(39)─▶●      x 38 → 39
  83  sent at 82  ●◀─Ball(39)─┤      x 38 → 39
                  ╰─ ✗ always "x < 39" violated: x = 39
"#,
    );
    assert_eq!(draw(&recording, &Paper::default()).lines().count(), 40);
}

#[test]
fn a_round_is_bracketed() {
    let mut recording = script(
        "
worker lock
worker timer retry | tries=1 | lock Acquire
lock recv worker.0 | | worker Busy
worker recv lock.0 | state=waiting
worker timer retry | | lock Acquire
lock recv worker.1 | | worker Busy
worker recv lock.1
",
    );
    recording.tail_at = Some(3);
    recording.lasso = Some((3, 6));
    let liveness = Cause::Liveness("the lock is acquired".to_owned());
    let message = "still owed after the system went round from step 3 to step 6 and everything \
                   that could happen did";
    check(
        &failing(recording, liveness, message),
        r#"
                   worker     lock
   1  timer retry  ●          │      tries + 1
   2  sent at 1    ├─Acquire─▶●
                   │          │      ── fair from here on, no more faults
   3  sent at 2    ●◀──Busy───┤      state + waiting
╭  4  timer retry  ●          │
│  5  sent at 4    ├─Acquire─▶●
│  6  sent at 5    ●◀──Busy───┤
╰                  │          │      ↺ steps 4 to 6 repeat for ever
      ✗ eventually "the lock is acquired" violated: still owed after the system went round from step
        3 to step 6 and everything that could happen did
"#,
    );
}

#[test]
fn changes_wrap_and_failures_say_their_first_line() {
    let fields: Vec<String> = (0..12).map(|n| format!("field{n}=value{n}")).collect();
    let recording =
        script(&format!("a b\na timer tick | {} | b Hello\nb recv a.0", fields.join(" ")));
    let message = "no order explains this\n  everything before it fits\n    n1 Write   before it";
    check(
        &failing(recording, Cause::Monitor("register".to_owned()), message),
        r#"
                  a        b
   1  timer tick  ●        │   field0 + value0 · field1 + value1 · field10 + value10
                  │        │   field11 + value11 · field2 + value2 · field3 + value3
                  │        │   field4 + value4 · field5 + value5 · field6 + value6 · field7 + value…
   2  sent at 1   ├─Hello─▶●
                           ╰─ ✗ monitor "register" violated: no order explains this
"#,
    );
}

/// Whatever the room, a picture stays within it.
#[test]
fn no_picture_is_larger_than_its_paper() {
    let busy = "a-node-with-a-long-name b\na-node-with-a-long-name timer t | x=1 | b M\n\
                b recv a-node-with-a-long-name.0 | x=2\nb stop";
    let mut lasso = script(VOTES);
    (lasso.lasso, lasso.tail_at) = (Some((2, 6)), Some(2));
    let lasso = failing(lasso, Cause::Liveness("end".to_owned()), "a b c d e f g");
    for recording in [script(VOTES), script(busy), lasso] {
        for (width_max, rows_max) in (30..120).flat_map(|width| [(width, 12), (width, 40)]) {
            let paper = Paper { width_max, rows_max, ..Paper::default() };
            let drawn = draw(&recording, &paper);
            assert!(drawn.lines().count() <= rows_max, "{paper:?}\n{drawn}");
            assert!(drawn.lines().all(|line| line.chars().count() <= width_max), "{drawn}");
        }
    }
}

#[test]
fn nothing_to_draw() {
    check(&RunRecord::default(), "");
}

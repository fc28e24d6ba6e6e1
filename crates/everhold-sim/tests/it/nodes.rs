//! The abilities of nodes, in both forms.

use std::time::Duration;

use everhold_node::{AsyncCx, Cx, Either, Elapsed, Monitor, Node, NodeId, Timer};
use everhold_sim::{Cause, Explorer, Faults, Network, Report, System};
use serde::Serialize;

use crate::toys::{Log, Msg, Sender};

fn explore(setup: impl Fn(&mut System<Msg>) + Send + Sync + 'static) -> Report {
    Explorer::new().executions(2_000).steps(200).run(setup)
}

/// Every goal is reached and nothing is wrong.
#[track_caller]
fn check(setup: impl Fn(&mut System<Msg>) + Send + Sync + 'static) {
    let report = explore(setup);
    assert!(report.findings.is_empty(), "{report}");
    assert_eq!(report.missed_goals().count(), 0, "{report}");
}

/// The first finding has this cause; returns the report's text and the schedule's length.
#[track_caller]
fn check_fails(
    cause: &Cause,
    setup: impl Fn(&mut System<Msg>) + Send + Sync + 'static,
) -> (String, usize) {
    let report = explore(setup);
    let finding = report.finding().unwrap_or_else(|| panic!("nothing was found\n{report}"));
    assert_eq!(finding.failure.cause, *cause, "{report}");
    (report.to_string(), finding.schedule.steps())
}

/// Takes nothing but 0 first, then everything.
#[derive(Clone, Default, Serialize)]
struct Door {
    open: bool,
    received: Vec<Msg>,
}

impl Node for Door {
    type Msg = Msg;
    const GUARDED: bool = true;
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        self.open = true;
        self.received.push(msg);
    }
    fn accepts(&self, _: NodeId, msg: &Msg) -> bool {
        self.open || *msg == 0
    }
}

#[test]
fn a_guard_makes_messages_wait() {
    check(|system| {
        let door = system.node("door", Door::default());
        system.node("sender", Sender { to: vec![(door, 1), (door, 2), (door, 3)] });
        system.node("opener", Sender { to: vec![(door, 0)] });
        system.always("0 comes first", |s| {
            s.all::<Door>().all(|(_, door)| door.received.first().is_none_or(|first| *first == 0))
        });
        // All three waited before the door opened, so they keep their sender's order.
        system.always("what waited is not reordered", |s| {
            s.all::<Door>().all(|(_, door)| door.received.is_sorted())
        });
        system.sometimes("all arrive", |s| s.all::<Door>().any(|(_, d)| d.received.len() == 4));
    });
}

/// Refuses, but does not say that it is guarded.
#[derive(Clone, Serialize)]
struct SecretDoor;

impl Node for SecretDoor {
    type Msg = Msg;
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {}
    fn accepts(&self, _: NodeId, _: &Msg) -> bool {
        false
    }
}

#[test]
fn a_guard_that_is_not_declared_is_reported() {
    let (text, _) = check_fails(&Cause::Assertion("guards are declared".to_owned()), |system| {
        let door = system.node("door", SecretDoor);
        system.node("sender", Sender { to: vec![(door, 1)] });
    });
    assert!(text.contains("const GUARDED"), "{text}");
}

#[test]
fn streams_keep_their_order_and_datagrams_do_not() {
    let build = |network| {
        move |system: &mut System<Msg>| {
            system.network(network);
            let log = system.node("log", Log::default());
            for sender in 0..2 {
                let to = (0..3).map(|at| (log, sender * 10 + at)).collect();
                system.node("sender", Sender { to });
            }
            system.always("each sender's order is kept", |s| {
                s.all::<Log>().all(|(_, log)| {
                    (0..2).all(|sender| {
                        log.received.iter().filter(|msg| **msg / 10 == sender).is_sorted()
                    })
                })
            });
            system.sometimes("senders interleave", |s| {
                s.all::<Log>().any(|(_, log)| log.received.starts_with(&[0, 10, 1]))
            });
        }
    };
    check(build(Network::Streams));
    check_fails(
        &Cause::Always("each sender's order is kept".to_owned()),
        build(Network::Datagrams),
    );
}

#[test]
fn unexpected_messages_are_findings() {
    check_fails(&Cause::Assertion("no unexpected message".to_owned()), |system| {
        let log = system.node("log", Log::default());
        let first = system.node("sender", Sender { to: vec![(log, 1)] });
        system.node("sender", Sender { to: vec![(first, 1)] });
    });
}

/// Panics at a number, or notifies the monitor.
#[derive(Clone, Serialize)]
struct Fragile {
    breaks_at: Msg,
}

impl Node for Fragile {
    type Msg = Msg;
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        assert!(msg != self.breaks_at, "cannot take {msg}");
        cx.notify(msg);
    }
}

#[test]
fn a_panic_is_a_finding_with_its_place() {
    let report = explore(|system| {
        let fragile = system.node("fragile", Fragile { breaks_at: 2 });
        system.node("sender", Sender { to: vec![(fragile, 1), (fragile, 2)] });
    });
    let failure = &report.finding().expect("2 arrives").failure;
    assert!(
        matches!(&failure.cause, Cause::Panic(place) if place.contains("nodes.rs")),
        "{failure}"
    );
    assert_eq!(failure.message, "fragile: cannot take 2");
}

#[derive(Clone, Default, Serialize)]
struct Sum(u32);

impl Monitor for Sum {
    type Event = Msg;
    fn observe(&mut self, event: &Msg) {
        self.0 += event;
        assert!(self.0 < 6, "the sum is {}", self.0);
    }
}

#[test]
fn a_monitor_remembers() {
    let (text, steps) = check_fails(&Cause::Monitor("small sum".to_owned()), |system| {
        let node = system.node("fragile", Fragile { breaks_at: 99 });
        system.node("sender", Sender { to: vec![(node, 1), (node, 5), (node, 1)] });
        system.monitor("small sum", Sum::default());
    });
    // 5 and one of the others are the shortest way to 6.
    assert_eq!(steps, 2, "{text}");
}

/// Three timers, one cancelled, one periodic.
#[derive(Clone, Default, Serialize)]
struct Clockwork {
    fired: Vec<String>,
}

impl Node for Clockwork {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("late", Duration::from_millis(30));
        cx.set_timer("never", Duration::from_millis(20));
        cx.set_timer(Timer::from("tick").with(1), Duration::from_millis(10));
    }
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        cx.unexpected(msg);
    }
    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        self.fired.push(timer.to_string());
        if timer.name == "tick" && timer.id < 3 {
            assert!(timer.id > 1 || cx.cancel_timer("never"), "it was set");
            assert!(!cx.cancel_timer("never"), "it was cancelled");
            cx.set_timer(timer.with(timer.id + 1), Duration::from_millis(10));
        }
    }
}

#[test]
fn timers_fire_in_order_of_their_deadlines() {
    check(|system| {
        let node = system.node("clockwork", Clockwork::default());
        // Set at 0 for 30, before tick#3, which is set at 20 for 30: the first setting wins a tie.
        let expected = ["tick#1", "tick#2", "late", "tick#3"];
        system.always("in order", move |s| {
            s.get::<Clockwork>(node).is_none_or(|c| {
                c.fired.iter().zip(expected).all(|(fired, expected)| fired == expected)
            })
        });
        system.sometimes("all fire", move |s| {
            s.get::<Clockwork>(node).is_some_and(|c| c.fired.len() == 4)
        });
    });
}

/// Writes, and says so; after a restart it reads.
#[derive(Clone, Default, Serialize)]
struct Writer {
    syncs: bool,
    found: Option<u32>,
    restarted: bool,
}

impl Node for Writer {
    type Msg = Msg;
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        cx.disk().save("value", &msg);
        if self.syncs {
            cx.disk().sync();
        }
    }
    fn restart(&mut self, cx: &mut Cx<Msg>) {
        self.restarted = true;
        self.found = cx.disk().load("value").expect("nothing is torn");
    }
}

fn writer(syncs: bool) -> impl Fn(&mut System<Msg>) + Send + Sync + 'static {
    move |system| {
        let writer = system.node("writer", Writer { syncs, ..Writer::default() });
        system.node("sender", Sender { to: vec![(writer, 7)] });
        system.faults(Faults::none().crash(1).only(["writer"]));
        system.sometimes("it restarts with the value", move |s| {
            s.get::<Writer>(writer).is_some_and(|w| w.restarted && w.found == Some(7))
        });
    }
}

#[test]
fn a_disk_keeps_what_was_synced() {
    check(writer(true));
    check(writer(false));
    let lost = explore(move |system| {
        writer(false)(system);
        system.always("nothing is lost", |s| {
            s.all::<Writer>()
                .all(|(_, w)| !w.restarted || w.found.is_some() || s.in_flight().next().is_some())
        });
    });
    assert_eq!(lost.finding().expect("it may be lost").schedule.faults(), 1, "{lost}");
}

/// Starts a log for every number it receives, and leaves at 0.
#[derive(Clone, Serialize)]
struct Parent {
    children: Vec<NodeId>,
}

impl Node for Parent {
    type Msg = Msg;
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        if msg == 0 {
            return cx.halt();
        }
        let child = cx.spawn("log", Log::default());
        cx.send(child, msg);
        self.children.push(child);
    }
}

#[test]
fn nodes_come_and_go() {
    check(|system| {
        let parent = system.node("parent", Parent { children: Vec::new() });
        system.node("sender", Sender { to: vec![(parent, 1), (parent, 2), (parent, 0)] });
        system.sometimes("two children received", |s| {
            s.all::<Log>().filter(|(_, log)| log.received.len() == 1).count() == 2
        });
        system.sometimes("the parent is gone", move |s| !s.is_up(parent));
        system.sometimes("it left before the others came", move |s| {
            !s.is_up(parent) && s.all::<Log>().count() == 0 && s.in_flight().next().is_none()
        });
    });
}

/// Starts an async node and sends it a number.
#[derive(Clone, Default, Serialize)]
struct Delegating;

impl Node for Delegating {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        let child = cx.spawn_async("reader", reader);
        cx.send(child, 7);
    }
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        cx.unexpected(msg);
    }
}

/// Shows the first number that it receives.
async fn reader(cx: AsyncCx<Msg>) {
    let request = cx.recv().await;
    cx.observe(Got(vec![request.msg]));
}

#[test]
fn a_node_with_handlers_adds_an_async_node() {
    check(|system| {
        system.node("parent", Delegating);
        system.sometimes("it received the number", |s| s.all::<Got>().any(|(_, got)| got.0 == [7]));
    });
}

/// Answers requests with their double, in any order it likes.
async fn doubler(cx: AsyncCx<Msg>) {
    loop {
        let request = cx.recv().await;
        let answer = request.msg * 2;
        cx.reply(&request, answer);
    }
}

#[derive(Serialize)]
struct Got(Vec<Msg>);

/// Two calls at once: answers find their requests even if they overtake each other.
async fn two_calls(cx: AsyncCx<Msg>, server: NodeId) {
    let (first, second) = (cx.call(server, 10), cx.call(server, 20));
    let (mut first, mut second) = (Box::pin(first), Box::pin(second));
    let (a, b) = match cx.race(&mut first, &mut second).await {
        Either::Left(a) => (a, second.await),
        Either::Right(b) => (first.await, b),
    };
    assert_eq!((a, b), (20, 40), "an answer belongs to its request");
    cx.observe(Got(vec![a, b]));
}

#[test]
fn answers_find_their_requests() {
    check(|system| {
        let server = system.spawn("server", doubler);
        system.spawn("client", move |cx| two_calls(cx, server));
        system.sometimes("both are answered", |s| s.all::<Got>().count() == 1);
    });
}

/// Gives up after a while; the late answer is dropped.
async fn impatient(cx: AsyncCx<Msg>, server: NodeId) {
    let answer = cx.timeout(Duration::from_millis(5), cx.call(server, 1)).await;
    assert!(answer == Ok(2) || answer == Err(Elapsed));
    cx.observe(Got(answer.into_iter().collect()));
    cx.sleep(Duration::from_millis(50)).await;
}

#[test]
fn a_call_can_be_given_up() {
    check(|system| {
        let server = system.spawn("server", doubler);
        system.spawn("client", move |cx| impatient(cx, server));
        system.sometimes("it is answered", |s| s.all::<Got>().any(|(_, got)| got.0 == [2]));
        system.sometimes("it gives up", |s| s.all::<Got>().any(|(_, got)| got.0.is_empty()));
    });
}

/// Calls someone who never answers.
#[test]
fn waiting_for_ever_is_a_deadlock() {
    let (text, _) = check_fails(&Cause::Deadlock("client".to_owned()), |system| {
        let log = system.node("log", Log::default());
        system.spawn("client", move |cx| async move {
            cx.call(log, 1).await;
        });
    });
    assert!(text.contains("waits for an answer from n0"), "{text}");
}

/// Tasks of one node that meet in channels of other crates.
async fn with_channels(cx: AsyncCx<Msg>) {
    let (numbers, mut inbox) = tokio::sync::mpsc::channel::<u32>(1);
    let (done, finished) = futures_channel::oneshot::channel::<u32>();
    for number in [1, 2] {
        let numbers = numbers.clone();
        cx.spawn(async move {
            numbers.send(number).await.expect("the receiver waits");
        });
    }
    drop(numbers);
    cx.spawn(async move {
        let mut order = 0;
        while let Some(number) = inbox.recv().await {
            order = order * 10 + number;
        }
        done.send(order).expect("the program waits");
    });
    let order = finished.await.expect("the task sends");
    cx.observe(Got(vec![order]));
}

#[test]
fn tasks_meet_in_channels_of_other_crates() {
    check(|system| {
        system.spawn("program", with_channels);
        system.sometimes("in one order", |s| s.all::<Got>().any(|(_, got)| got.0 == [12]));
        system.sometimes("in the other", |s| s.all::<Got>().any(|(_, got)| got.0 == [21]));
    });
}

#[test]
fn a_task_that_waits_for_nothing_is_a_deadlock() {
    check_fails(&Cause::Deadlock("program".to_owned()), |system| {
        system.spawn("program", |cx| async move {
            let (never, waits) = futures_channel::oneshot::channel::<()>();
            let background = waits;
            cx.spawn_background(async move {
                let _ = background.await;
            });
            // Kept alive, so the channel does not close.
            std::mem::forget(never);
            let (kept, waits) = futures_channel::oneshot::channel::<()>();
            std::mem::forget(kept);
            let _ = waits.await;
        });
    });
}

/// Takes high numbers first; the low ones wait in the network.
async fn picky(cx: AsyncCx<Msg>) {
    let mut got = Vec::new();
    got.push(cx.recv_if(|_, msg| *msg > 10).await.msg);
    got.push(cx.recv().await.msg);
    cx.observe(Got(got));
}

#[test]
fn a_selective_receive_leaves_the_rest() {
    check(|system| {
        let picky = system.spawn("picky", picky);
        system.node("sender", Sender { to: vec![(picky, 1), (picky, 11)] });
        system.always("high before low", |s| s.all::<Got>().all(|(_, got)| got.0 == [11, 1]));
        system.sometimes("it gets both", |s| s.all::<Got>().count() == 1);
    });
}

/// A node that must not be left waiting says so.
#[derive(Clone, Serialize)]
struct Expectant {
    waiting: bool,
}

impl Node for Expectant {
    type Msg = Msg;
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {
        self.waiting = false;
    }
    fn is_waiting(&self) -> bool {
        self.waiting
    }
}

#[test]
fn a_handler_node_can_say_that_it_waits() {
    let build = |losses| {
        move |system: &mut System<Msg>| {
            let node = system.node("expectant", Expectant { waiting: true });
            system.node("sender", Sender { to: vec![(node, 1)] });
            system.faults(Faults::none().lose(losses));
        }
    };
    check(build(0));
    check_fails(&Cause::Deadlock("expectant".to_owned()), build(1));
}

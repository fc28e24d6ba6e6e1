//! Nodes on the virtual clock.

use std::time::Duration;

use everhold_node::{Cx, Node, NodeId, Time, Timer};
use everhold_sim::{Faults, Network, SimVerdict};
use everhold_timed::{
    ClockModel, Delay, DiskModel, Driver, Durations, Ended, Fate, Link, Net, OnLink, Quantiles,
    Queueing, Recorded, Sharing, Timed, TimedFault, Transport, Trigger,
};
use serde::Serialize;

const MS: Duration = Duration::from_millis(1);

#[derive(Clone, Debug, Serialize)]
enum Msg {
    Token(u64, u64),
    Bulk(u32),
}

/// Passes tokens to random nodes.
#[derive(Clone, Serialize)]
struct Passer {
    nodes: u64,
    tokens: u32,
    seen: u32,
}

impl Node for Passer {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        for _ in 0..self.tokens {
            self.pass(cx, 0);
        }
    }
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        let Msg::Token(hops, _) = msg else { return cx.unexpected(msg) };
        self.seen += 1;
        self.pass(cx, hops + 1);
    }
}

impl Passer {
    fn pass(&self, cx: &mut Cx<Msg>, hops: u64) {
        let to = (cx.random() % self.nodes) as u32;
        cx.send(NodeId(to), Msg::Token(hops, 0));
    }
}

fn tokens(nodes: u64) -> Timed<Msg> {
    Timed::new(move |system| {
        system.nodes("passer", nodes as usize, |_| Passer { nodes, tokens: 2, seen: 0 });
        system.network(Network::Streams);
    })
    .durations(Durations::uniform(MS / 50, MS / 5))
    .stop_when_each(|passer: &Passer| passer.seen >= 20)
}

/// A golden test: the numbers may change only together with the format of tokens.
#[test]
fn a_golden_execution() {
    let run = tokens(8).run(7);
    assert!(run.is_done(), "{run}");
    assert_eq!((run.time.as_nanos(), run.events), (23_967_784, 244));
}

#[test]
fn the_same_draws_are_the_same_execution() {
    let timed = tokens(8);
    let mut sim = timed.sim();
    let runs: Vec<_> = (0..5).map(|seed| sim.run(seed)).collect();
    for (seed, run) in runs.iter().enumerate() {
        let again = timed.run(seed as u64);
        assert_eq!((again.time, again.events), (run.time, run.events));
    }
    assert_ne!(runs[0].time, runs[1].time);
    let recorded = sim.record(3);
    assert_eq!(recorded.run.time, runs[3].time);
    assert_eq!(recorded.events.len() as u64, runs[3].events);
}

/// At every event, a fork continues like the original, and with another seed like its replay.
#[test]
fn a_fork_is_a_replay() {
    let mut sim = tokens(6).sim();
    let whole = sim.run(11);
    for events in [0, 1, 17, 100, whole.events - 1] {
        let mut world = sim.start(11);
        assert!(world.run_events(events));
        let mut same = world.fork(None).expect("passers are copied");
        let mut other = world.fork(Some(99)).expect("passers are copied");
        let (same, ran) = (same.finish(), other.finish());
        assert_eq!((same.time, same.events), (whole.time, whole.events));
        let draws = other.draws();
        let replayed = sim.run(draws.clone());
        assert_eq!((replayed.time, replayed.events), (ran.time, ran.events));
        let token = everhold_timed::Draws::parse(&draws.token()).unwrap();
        assert_eq!(sim.run(token).time, ran.time);
        let original = world.finish();
        assert_eq!((original.time, original.events), (whole.time, whole.events));
    }
}

/// Returns the link and the delay of each message.
fn delays(recorded: &Recorded) -> Vec<(OnLink, u64)> {
    recorded.messages.iter().map(|sent| (sent.link, sent.delay)).collect()
}

#[derive(Clone, Serialize)]
struct Sender {
    peers: Vec<NodeId>,
    messages: u32,
    got: Vec<u32>,
    refused: u32,
    asks: bool,
}

impl Node for Sender {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        for number in 0..self.messages {
            for peer in &self.peers {
                if !self.asks {
                    cx.send(*peer, Msg::Bulk(number));
                } else if cx.try_send(*peer, Msg::Bulk(number)).is_err() {
                    self.refused += 1;
                }
            }
        }
    }
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        if let Msg::Bulk(number) = msg {
            self.got.push(number);
        }
    }
}

/// One sender, all others receive; a message has 1,000 bytes.
fn bulk(receivers: u32, messages: u32, asks: bool) -> Timed<Msg> {
    let sender = move |peers: Vec<NodeId>, messages| Sender {
        peers,
        messages,
        got: Vec::new(),
        refused: 0,
        asks,
    };
    Timed::new(move |system| {
        system.network(Network::Streams);
        system.node("sender", sender((1..=receivers).map(NodeId).collect(), messages));
        system.nodes("receiver", receivers as usize, |_| sender(Vec::new(), 0));
    })
    .durations(Durations::none())
    .message_size(|_| 1_000)
    .network(Net::default().link(Link::ideal(MS).mbits(8.0)))
}

fn arrivals(recorded: &Recorded) -> Vec<u64> {
    recorded.messages.iter().filter_map(|sent| sent.arrives).map(|at| at.0).collect()
}

#[test]
fn changing_one_draw_leaves_the_others() {
    let timed = tokens(6);
    let mut sim = timed.sim();
    let before = sim.record(5);
    let target = before.messages[9].link;
    let draws = before.draws.clone().message(target, Delay::Plus(7 * MS));
    let after = sim.record(draws.clone());
    let (before, after) = (delays(&before), delays(&after));
    let same = |link: OnLink, all: &[(OnLink, u64)]| {
        all.iter().find(|(at, _)| *at == link).map(|(_, delay)| *delay)
    };
    let mut compared = 0;
    for (link, delay) in &before {
        if let Some(now) = same(*link, &after) {
            let more = if *link == target { 7_000_000 } else { 0 };
            assert_eq!(now, delay + more, "{link}");
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared}");
    let least = sim.record(draws.message(target, Delay::Least));
    assert_eq!(same(target, &delays(&least)), Some(1_000_000));
}

#[test]
fn kinds_and_links_can_be_scaled() {
    let fixed = Durations::uniform(MS, MS);
    let timed = bulk(1, 1, false).durations(fixed);
    let base = arrivals(&timed.record(1))[0];
    assert_eq!(base, 3_000_000, "a handler, a transmission and a propagation of 1 ms each");
    let draws = everhold_timed::Draws::seed(1);
    let slow = timed.record(draws.clone().scale_link(NodeId(0), NodeId(1), 300));
    assert_eq!(arrivals(&slow)[0], 5_000_000);
    let busy = timed.record(draws.scale_kind("start", 400));
    assert_eq!(arrivals(&busy)[0], 6_000_000);
}

#[test]
fn streams_keep_their_order_and_datagrams_do_not() {
    let heavy = Queueing::Pareto { scale: 10 * MS, shape: 1.0 };
    let net = Net::default().link(Link::ideal(MS).queueing(heavy));
    let order = |net: Net| {
        let mut sim = bulk(1, 40, false).network(net).sim();
        let mut world = sim.start(3);
        world.finish();
        world.look(|view| view.get::<Sender>(NodeId(1)).map(|node| node.got.clone())).unwrap()
    };
    let sorted: Vec<u32> = (0..40).collect();
    assert_eq!(order(net.clone()), sorted);
    let any = order(net.transport(Transport::datagrams("any")));
    assert_ne!(any, sorted);
    assert_eq!(any.len(), 40);
}

#[test]
fn heavy_flows_share_the_senders_bandwidth() {
    // One flow: 1 ms per kilobyte, one message after the other.
    let one = arrivals(&bulk(1, 3, false).record(1));
    assert_eq!(one, [2_000_000, 3_000_000, 4_000_000]);
    // The second and third flows find others under way.
    let three = arrivals(&bulk(3, 1, false).record(1));
    assert_eq!(three, [2_000_000, 3_000_000, 4_000_000]);
    let light = bulk(3, 1, false).network(
        Net::default()
            .link(Link::ideal(MS).mbits(8.0))
            .sharing(Sharing::Counted { threshold: 2_000 }),
    );
    assert_eq!(arrivals(&light.record(1)), [2_000_000; 3]);
}

#[test]
fn max_min_shares_are_exact() {
    let net = Net::default().link(Link::ideal(MS).mbits(8.0)).sharing(Sharing::MaxMin);
    let near = |got: &[u64], expected: &[u64]| {
        assert_eq!(got.len(), expected.len());
        let close = got.iter().zip(expected).all(|(a, b)| a.abs_diff(*b) < 10);
        assert!(close, "{got:?} is not {expected:?}");
    };
    near(&arrivals(&bulk(3, 1, false).network(net.clone()).record(1)), &[4_000_000; 3]);
    near(
        &arrivals(&bulk(1, 3, false).network(net.clone()).record(1)),
        &[2_000_000, 3_000_000, 4_000_000],
    );
    // A slow receiver leaves the remaining capacity to the others.
    let slow = everhold_timed::Access { up_mbits: 8.0, down_mbits: 2.0 };
    let net = net.access(NodeId(1), slow);
    near(&arrivals(&bulk(3, 1, false).network(net).record(1)), &[5_000_000, 3_666_667, 3_666_667]);
}

#[test]
fn full_send_buffers_refuse() {
    let net = |transport| Net::default().link(Link::ideal(MS).mbits(8.0)).transport(transport);
    let check = |transport: Transport, taken: usize| {
        for asks in [true, false] {
            let timed = bulk(1, 5, asks).network(net(transport.clone()));
            let mut sim = timed.sim();
            let mut world = sim.start(1);
            world.finish();
            let refused = world.look(|view| view.get::<Sender>(NodeId(0)).unwrap().refused);
            assert_eq!(refused as usize, if asks { 5 - taken } else { 0 });
            let recorded = timed.record(1);
            assert_eq!(arrivals(&recorded).len(), taken);
            let refused = recorded.messages.iter().filter(|m| m.fate == Fate::Refused).count();
            assert_eq!(refused, 5 - taken);
        }
    };
    check(Transport::stream("data").messages_max(2), 2);
    check(Transport::stream("data").bytes_max(3_500), 3);
    check(Transport::stream("data").bytes_max(10), 1);
    check(Transport::stream("main").messages_max(1), 1);
    let other = Transport::stream("main").carries(["Token"]);
    check(other, 5);
}

#[test]
fn losses_cost_datagrams_their_life_and_streams_a_round_trip() {
    let lossy = Net::default().link(Link::ideal(MS).loss(0.5));
    let datagrams = lossy.clone().transport(Transport::datagrams("all"));
    let recorded = bulk(1, 100, false).network(datagrams).record(2);
    let lost = recorded.messages.iter().filter(|m| m.fate == Fate::Lost).count();
    // Fewer than 20 or more than 80 of 100 fair coins have a probability below 1e-9.
    assert!((20..80).contains(&lost), "{lost}");
    let recorded = bulk(1, 100, false).network(lossy).record(2);
    assert_eq!(arrivals(&recorded).len(), 100);
    let slow = recorded.messages.iter().filter(|m| m.delay >= 3_000_000).count();
    assert!((20..80).contains(&slow), "{slow}");
}

#[test]
fn pairs_and_groups_have_links_of_their_own() {
    let far = Link::ideal(40 * MS);
    let net = Net::default()
        .link(Link::ideal(MS))
        .group("eu", [NodeId(0), NodeId(1)])
        .group("us", [NodeId(2)])
        .between("eu", "us", far.clone())
        .pair(NodeId(0), NodeId(3), far.propagation(9 * MS));
    let at = arrivals(&bulk(3, 1, false).network(net).record(1));
    assert_eq!(at, [1_000_000, 40_000_000, 9_000_000]);
}

/// Handles each event for a while, so that others wait.
#[test]
fn a_busy_node_lets_events_wait_in_line() {
    let timed = bulk(1, 3, false)
        .network(Net::ideal(MS))
        .durations(Durations::none().with("Bulk", Quantiles::constant(5 * MS)));
    let recorded = timed.record(1);
    let handled: Vec<_> = recorded
        .events
        .iter()
        .filter(|event| matches!(event.trigger, Trigger::Message(_)))
        .map(|event| (event.start.0 / 1_000_000, event.end.0 / 1_000_000))
        .collect();
    assert_eq!(handled, [(1, 6), (6, 11), (11, 16)]);
    let waits: Vec<_> = recorded.events.iter().map(|e| e.start.0 - e.ready.0).collect();
    assert!(waits.iter().any(|wait| *wait > 9_000_000), "{waits:?}");
    let cause = recorded.cause(recorded.events.len() as u32 - 1).unwrap();
    assert_eq!(recorded.events[cause as usize].node, NodeId(0));
}

#[derive(Clone, Serialize)]
struct Clocked {
    ticks: u32,
    shown: u64,
    saved: u32,
    cancelled: bool,
}

impl Node for Clocked {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        self.saved = cx.disk().load("saved").ok().flatten().unwrap_or(0);
        cx.set_timer("tick", 10 * MS);
        cx.set_timer(Timer::from("never").with(3), 15 * MS);
    }
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {
        self.ticks += 100;
    }
    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        assert_eq!(timer.name, "tick", "a cancelled timer fired");
        self.ticks += 1;
        self.cancelled |= cx.cancel_timer(Timer::from("never").with(3));
        cx.disk().save("saved", &self.ticks);
        cx.disk().sync();
        self.shown = cx.now().0;
        cx.set_timer("tick", 10 * MS);
    }
}

fn clocked(nodes: usize) -> Timed<Msg> {
    let node = |_| Clocked { ticks: 0, shown: 0, saved: 0, cancelled: false };
    Timed::new(move |system| drop(system.nodes("clock", nodes, node)))
        .durations(Durations::none())
        .stop_when(|view| view.all::<Clocked>().any(|(_, node)| node.ticks >= 10))
}

#[test]
fn timers_fire_when_due_and_cancelled_ones_do_not() {
    let run = clocked(1).run(1);
    assert!(run.is_done(), "{run}");
    assert_eq!((run.time, run.events), (100 * MS, 11));
}

#[test]
fn clocks_drift_and_are_ahead_or_behind() {
    let clocks = ClockModel { offset_max: Duration::from_secs(1), drift_max_ppm: 100_000 };
    let mut sim = clocked(4).clocks(clocks).sim();
    let mut world = sim.start(1);
    let run = world.finish();
    assert!(run.is_done() && run.time != 100 * MS, "{run}");
    assert!(run.time > 80 * MS && run.time < 120 * MS, "{run}");
    let shown: Vec<u64> = world.look(|view| view.all::<Clocked>().map(|(_, n)| n.shown).collect());
    assert_ne!(shown[0], shown[1]);
}

#[test]
fn disks_cost_time() {
    let disk = DiskModel { sync: Quantiles::constant(4 * MS), bytes_per_second: 1_000_000_000 };
    let run = clocked(1).disks(disk).run(1);
    let extra = run.time - 100 * MS;
    assert!(extra >= 4 * MS && extra < 5 * MS, "{run}");
}

#[test]
fn a_disk_may_be_slow_for_a_while() {
    let disk = DiskModel { sync: Quantiles::constant(4 * MS), bytes_per_second: 1_000_000_000 };
    let slow = |driver: &mut Driver<Msg>| {
        let fault = TimedFault::SlowDisk { node: NodeId(0), times: 3, lasts: 20 * MS };
        driver.fault(95 * MS, fault);
    };
    let run = clocked(1).disks(disk).driver(slow).run(1);
    let extra = run.time - 100 * MS;
    assert!(extra >= 12 * MS && extra < 13 * MS, "{run}");
}

#[test]
fn crashes_stops_partitions_and_skews_happen_at_their_times() {
    let crash = |driver: &mut Driver<Msg>| {
        let down = 30 * MS;
        driver.fault(25 * MS, TimedFault::Crash { node: NodeId(0), down });
    };
    let mut sim = clocked(1).driver(crash).sim();
    let mut world = sim.start(1);
    let run = world.finish();
    // Two ticks, down from 25 to 55 ms, then ten ticks from zero.
    assert_eq!((run.is_done(), run.time), (true, 155 * MS));
    assert_eq!(world.look(|view| view.get::<Clocked>(NodeId(0)).unwrap().saved), 2);

    let stop = |d: &mut Driver<Msg>| d.fault(25 * MS, TimedFault::Stop(NodeId(0)));
    let run = clocked(1).driver(stop).run(1);
    assert_eq!(run.ended, Ended::Quiet(None));

    // A stopped node is not evaluated any more, and an execution can end at the moment of its stop.
    let each = |ticks: u32| {
        clocked(2).stop_when(|_| true).stop_when_each(move |n: &Clocked| n.ticks >= ticks)
    };
    let run = each(2).driver(stop).run(1);
    assert_eq!((run.is_done(), run.time), (true, 20 * MS));
    let run = each(5).driver(stop).run(1);
    assert_eq!((run.is_done(), run.time), (true, 50 * MS));
    let both = move |d: &mut Driver<Msg>| {
        stop(d);
        d.fault(35 * MS, TimedFault::Stop(NodeId(1)));
    };
    let run = each(5).driver(both).run(1);
    assert_eq!((run.is_done(), run.time), (true, 35 * MS));

    let input = |driver: &mut Driver<Msg>| {
        driver.start(NodeId(0), 3 * MS);
        driver.input(7 * MS, NodeId(0), Msg::Bulk(1));
    };
    let run = clocked(1).driver(input).run(1);
    assert_eq!((run.time, run.events), (7 * MS, 2));

    let cut = |driver: &mut Driver<Msg>| {
        let cut = vec![NodeId(0)];
        driver.fault(Duration::ZERO, TimedFault::Partition { cut, lasts: 50 * MS });
    };
    let at = arrivals(&bulk(1, 2, false).driver(cut).record(1));
    assert!(at.iter().all(|at| *at > 50_000_000), "{at:?}");
    let datagrams = Net::ideal(MS).transport(Transport::datagrams("all"));
    let recorded = bulk(1, 2, false).driver(cut).network(datagrams).record(1);
    assert!(recorded.messages.iter().all(|m| m.fate == Fate::Lost));
}

#[test]
fn a_crash_breaks_streams() {
    let crash = |driver: &mut Driver<Msg>| {
        driver.fault(MS / 2, TimedFault::Crash { node: NodeId(1), down: MS });
    };
    let recorded = bulk(1, 2, false).driver(crash).record(1);
    assert!(recorded.messages.iter().all(|m| m.fate == Fate::Lost));
    let crashed = recorded.events.iter().any(|event| event.trigger == Trigger::Crash);
    let back = recorded.events.iter().any(|event| event.trigger == Trigger::Restart);
    assert!(crashed && back);
}

#[test]
fn a_budget_of_faults_is_spent_at_random_times() {
    let timed = Timed::new(|system| {
        system.nodes("passer", 6, |_| Passer { nodes: 6, tokens: 3, seen: 0 });
        system.faults(Faults::none().crash(1).lose(2).duplicate(1).delay(1).partition(1));
    })
    .durations(Durations::uniform(MS / 50, MS / 5))
    .time_max(Duration::from_secs(5));
    let mut sim = timed.sim();
    let notes: Vec<String> = sim.record(1).notes.iter().map(|(_, text)| text.clone()).collect();
    assert!(notes.iter().any(|note| note.contains("partition")), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("Lose")), "{notes:?}");
    let (one, two) = (sim.run(1), sim.run(1));
    assert_eq!((one.time, one.events), (two.time, two.events));
}

#[test]
fn limits_are_unknown_and_say_what_was_missing() {
    let never = clocked(3).stop_when_each(|node: &Clocked| node.ticks >= 1_000);
    let run = never.clone().time_max(50 * MS).run(1);
    assert_eq!((run.verdict(), run.time), (SimVerdict::Unknown, 50 * MS));
    let missing = "3 of 3 nodes (clock-0, clock-1, clock-2)";
    assert_eq!(run.ended, Ended::TimeLimit(Some(missing.to_owned())));
    let run = never.events_max(7).run(1);
    assert_eq!((run.events, run.verdict()), (7, SimVerdict::Unknown));
    assert!(run.to_string().contains("the limit of events"), "{run}");
    let nothing = Timed::<Msg>::new(|_| {}).run(1);
    assert_eq!(nothing.ended, Ended::Quiet(None));
}

#[test]
fn a_condition_in_the_language_ends_an_execution() {
    let timed = clocked(2).stop_when(|_| true).stop_when_property("forall n in nodes: n.ticks > 2");
    let run = timed.run(1);
    assert_eq!((run.is_done(), run.time), (true, 30 * MS));
    let never = timed.stop_when_property("forall n in nodes: n.ticks > 200");
    let run = never.time_max(35 * MS).run(1);
    let Ended::TimeLimit(Some(missing)) = run.ended else { panic!("{run}") };
    assert!(missing.contains("ticks"), "{missing}");
}

#[test]
fn violations_and_panics_end_an_execution() {
    let timed = Timed::<Msg>::new(|system| {
        let node = Clocked { ticks: 0, shown: 0, saved: 0, cancelled: false };
        system.node("clock", node);
        system.always("few ticks", |view| view.all::<Clocked>().all(|(_, n)| n.ticks < 3));
        system.property("always \"fewer\": forall n in nodes: n.ticks < 9");
    })
    .durations(Durations::none())
    .time_max(Duration::from_secs(1));
    let run = timed.run(1);
    assert_eq!((run.verdict(), run.time), (SimVerdict::Violated, 30 * MS));
    assert!(run.to_string().contains("few ticks"), "{run}");
    let free = timed.unchecked().run(1);
    assert_eq!(free.verdict(), SimVerdict::Unknown);
    let wrong = |d: &mut Driver<Msg>| d.input(MS, NodeId(0), Msg::Bulk(0));
    let run = tokens(2).driver(wrong).run(1);
    assert!(run.to_string().contains("no unexpected message"), "{run}");
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let check = |net: Net, expected: &str| {
        let error = tokens(2).network(net).check().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let mbits = |mbits| Net::default().link(Link::default().mbits(mbits));
    check(mbits(0.0), "the default link has a bandwidth of 0 Mbit/s; it must be more than zero");
    check(mbits(-3.0), "a bandwidth of -3 Mbit/s");
    check(mbits(f64::NAN), "a bandwidth of NaN Mbit/s");
    check(Net::default().link(Link::default().loss(2.0)), "a share from 0 to 1");
    let flat = Queueing::Pareto { scale: MS, shape: 0.0 };
    check(Net::default().link(Link::default().queueing(flat)), "Pareto shape 0");
    check(Net::default().between("a", "b", Link::default()), "`a` is not a group");
    let zero = Net::default().transport(Transport::stream("data").messages_max(0));
    check(zero, "transport `data` has a send buffer of zero");
    let pair = Net::default().pair(NodeId(0), NodeId(1), Link::default().mbits(-1.0));
    check(pair, "the link from n0 to n1");
}

#[test]
fn async_nodes_run_on_the_clock() {
    let timed = Timed::<u32>::new(|system| {
        let server = system.spawn("server", |cx| async move {
            loop {
                let asked = cx.recv().await;
                cx.sleep(5 * MS).await;
                let answer = asked.msg + 1;
                cx.reply(&asked, answer);
            }
        });
        system.spawn("client", move |cx| async move {
            for number in 0..3 {
                let answer = cx.call(server, number).await;
                cx.observe(answer);
            }
        });
    })
    .network(Net::ideal(MS))
    .durations(Durations::none())
    .stop_when(|view| view.get::<u32>(NodeId(1)).is_some_and(|answer| *answer == 3));
    let run = timed.run(1);
    assert_eq!((run.is_done(), run.time), (true, 21 * MS), "{run}");
    let mut sim = timed.sim();
    let mut world = sim.start(1);
    world.step();
    assert!(world.fork(None).is_none(), "async programs are not copied");
    assert_eq!(sim.run(1).time, run.time);
}

#[test]
fn durations_are_learned_by_kind() {
    let timed = tokens(4);
    let learned = timed.train(2);
    let kinds: Vec<&str> = learned.kinds().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["Token", "start"]);
    assert_eq!(Durations::parse(&learned.to_string()).unwrap(), learned);
    let mut sim = timed.sim();
    sim.run(1);
    assert_eq!(sim.untrained(), ["Token", "start"]);
    let mut sim = timed.durations(learned).sim();
    assert!(sim.run(1).is_done());
    assert!(sim.untrained().is_empty());
}

#[derive(Clone, Serialize)]
struct Sleeper;

impl Node for Sleeper {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.send(cx.id(), Msg::Bulk(0));
    }
    #[expect(clippy::disallowed_methods, reason = "what must not be measured is wall time")]
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {
        std::thread::sleep(20 * MS);
    }
}

/// A handler that waits for something else uses no processor time.
#[test]
fn training_measures_processor_time() {
    assert_eq!(Durations::MEASURED_AS, "CPU time");
    let timed = Timed::new(|system| {
        system.node("sleeper", Sleeper);
    });
    let learned = timed.stop_when(|_| false).train(3);
    let median = learned.get("Bulk").expect("it was handled").at(0.5);
    assert!(median < 5 * MS, "{median:?}");
}

#[test]
fn an_execution_is_a_trace_with_times() {
    let mut sim = clocked(1).sim();
    let trace = sim.trace(4);
    assert_eq!(trace.events().len(), 11);
    assert_eq!(trace.events()[10].time.logical, Some(100_000_000));
    let trace = tokens(3).sim().trace(4);
    assert!(trace.events().len() > 60);
}

#[test]
fn a_world_goes_on_to_a_time() {
    let mut sim = clocked(1).sim();
    let mut world = sim.start(1);
    assert!(world.run_until(Time(35_000_000)));
    assert_eq!((world.now(), world.events()), (Time(30_000_000), 4));
    let run = world.fork(None).unwrap().finish_by(Time(50_000_000));
    assert_eq!((run.verdict(), run.time), (SimVerdict::Unknown, 50 * MS));
    assert!(world.finish().is_done());
}

//! Links and kinds of messages with rules of their own; channels and mailboxes that are full.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everhold_node::{AsyncCx, Cx, Node, NodeId};
use everhold_sim::rng::Rng;
use everhold_sim::{
    Channel, Explorer, FaultKind, Faults, Links, Network, Reduction, Report, Schedule, Search,
    SimVerdict, Stop, System,
};
use serde::Serialize;

#[path = "../nodes/transfer.rs"]
mod transfer;
use transfer::{
    Msg::{self, Beat, Data},
    Sink, transfer,
};

fn exhaustive(reduction: Reduction) -> Explorer {
    let search = Search::Exhaustive { reduction };
    Explorer::new().search(search).executions(200_000).regressions(false)
}

type Seen = BTreeSet<Vec<Msg>>;

/// Everything that the sink sees at some moment of some execution.
fn seen(
    reduction: Reduction,
    setup: impl Fn(&mut System<Msg>) + Send + Sync + 'static,
) -> (Seen, Report) {
    let seen = Arc::new(Mutex::new(Seen::new()));
    let collect = Arc::clone(&seen);
    let report = exhaustive(reduction).run(move |system: &mut System<Msg>| {
        setup(system);
        let collect = Arc::clone(&collect);
        system.always("what is seen is collected", move |s| {
            let all = s.all::<Sink>().flat_map(|(_, sink)| sink.seen.clone()).collect();
            collect.lock().unwrap().insert(all);
            true
        });
    });
    let seen = seen.lock().unwrap().clone();
    (seen, report)
}

/// With these rules and faults the sink sees exactly these, and all prefixes of them, whether the
/// search distinguishes states or not.
#[track_caller]
fn check(links: &Links, faults: &Faults, list: &[Msg], ends: &[&[Msg]]) {
    let beginnings = ends.iter().flat_map(|end| (0..=end.len()).map(|to| end[..to].to_vec()));
    let expected: Seen = beginnings.collect();
    for reduction in [Reduction::None, Reduction::States] {
        let build = transfer(links.clone(), faults.clone(), list.to_vec());
        let (seen, report) = seen(reduction, build);
        assert_eq!(report.stop, Stop::Exhausted, "{report}");
        assert_eq!(seen, expected, "{reduction:?} {links:?} {faults:?}");
        assert!(report.problems.is_empty(), "{report}");
    }
}

const TWO: [Msg; 2] = [Data(1), Data(2)];
const MIXED: [Msg; 3] = [Data(1), Beat(7), Data(2)];

#[test]
fn a_link_keeps_its_order_in_a_network_without_one() {
    let fifo = Links::new().between("source", "sink", Channel::fifo());
    check(&fifo, &Faults::none(), &TWO, &[&TWO]);
    let any: &[&[Msg]] = &[&[Data(1), Data(2)], &[Data(2), Data(1)]];
    check(&Links::new(), &Faults::none(), &TWO, any);
    let data = Links::new().of("Data", Channel::fifo());
    let beat_anywhere: &[&[Msg]] =
        &[&[Beat(7), Data(1), Data(2)], &[Data(1), Beat(7), Data(2)], &[Data(1), Data(2), Beat(7)]];
    check(&data, &Faults::none(), &MIXED, beat_anywhere);
    let back = Links::new().all(Channel::new()).one_way("source", "sink", Channel::fifo());
    check(&back, &Faults::none(), &TWO, &[&TWO]);
}

#[test]
fn faults_strike_where_the_rules_let_them() {
    let fifo = Links::new().all(Channel::fifo());
    let lose = Faults::none().lose(1);
    // A gap, not an end.
    check(&fifo, &lose, &TWO, &[&TWO, &[Data(2)], &[Data(1)]]);
    let reliable = Links::new().all(Channel::fifo().reliable());
    let all = Faults::none().lose(2).duplicate(2).delay(2);
    check(&reliable, &all, &TWO, &[&TWO]);
    let beats = Links::new()
        .all(Channel::fifo().reliable())
        .of("Beat", Channel::fifo().without([FaultKind::Duplicate]));
    let beat_or_none: &[&[Msg]] = &[
        &[Beat(7), Data(1), Data(2)],
        &[Data(1), Beat(7), Data(2)],
        &[Data(1), Data(2), Beat(7)],
        &[Data(1), Data(2)],
    ];
    check(&beats, &lose, &MIXED, beat_or_none);
    check(&beats, &Faults::none().duplicate(1), &MIXED, &beat_or_none[..3]);
}

#[test]
fn what_a_fifo_link_brings_twice_it_brings_in_a_row() {
    let fifo = Links::new().all(Channel::fifo());
    let ends: &[&[Msg]] = &[&[Data(1), Data(1), Data(2)], &[Data(1), Data(2), Data(2)]];
    check(&fifo, &Faults::none().duplicate(1), &TWO, ends);
}

/// Streams on one link of a network of datagrams: its end is lost and noticed, not its middle.
#[test]
fn a_link_of_streams_breaks_as_streams_do() {
    let streams = Links::new().between("source", "sink", Channel::streams());
    let gone = Beat(99);
    let ends: &[&[Msg]] = &[&TWO, &[Data(1), gone], &[gone]];
    check(&streams, &Faults::none().lose(1), &TWO, ends);
    let resets: &[&[Msg]] = &[&[Data(1), Data(2), gone], &[Data(1), gone], &[gone]];
    check(&streams, &Faults::none().reset(1), &TWO, resets);
    let firm = Links::new().between("source", "sink", Channel::streams().reliable());
    check(&firm, &Faults::none().reset(1).lose(1).duplicate(1), &TWO, &[&TWO]);
}

/// A link that partitions spare delivers at once; others wait for the heal.
#[test]
fn partitions_spare_links() {
    for (kinds, spared) in [
        (vec![], false),
        (vec![FaultKind::Partition], false),
        (vec![FaultKind::Partition, FaultKind::OneWay], true),
    ] {
        let links = Links::new().all(Channel::new().without(kinds));
        for faults in [Faults::none().partition(1), Faults::none().one_way_partition(1)] {
            let cut_both = faults.partitions == 1;
            let build = transfer(links.clone(), faults, vec![Data(1)]);
            let report = exhaustive(Reduction::None).run(build);
            // The arrival and the fault in any order, and a heal after the fault.
            let free = spared || cut_both && links != Links::new().all(Channel::new());
            let longer = report.exhaustive.unwrap().transitions;
            let held = exhaustive(Reduction::None)
                .run(transfer(
                    Links::new(),
                    if cut_both {
                        Faults::none().partition(1)
                    } else {
                        Faults::none().one_way_partition(1)
                    },
                    vec![Data(1)],
                ))
                .exhaustive
                .unwrap()
                .transitions;
            assert_eq!(longer > held, free, "{longer} and {held}: {report}");
        }
    }
}

/// Sends as much as there is room for, and counts what was refused.
#[derive(Clone, Serialize)]
struct Pusher {
    to: NodeId,
    asks: bool,
    refused: u32,
}

impl Node for Pusher {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        for number in 0..5 {
            match self.asks {
                true => self.refused += u32::from(cx.try_send(self.to, Data(number)).is_err()),
                false => cx.send(self.to, Data(number)),
            }
        }
    }
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {}
}

fn push(
    links: Links,
    pushers: usize,
    asks: bool,
) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        let to = system.node("sink", Sink::default());
        system.nodes("pusher", pushers, |_| Pusher { to, asks, refused: 0 });
        system.network(Network::Fifo);
        system.links(links.clone());
    }
}

#[test]
fn a_full_channel_or_mailbox_refuses() {
    let link = Links::new().all(Channel::new().capacity(2));
    let mailbox = Links::new().mailbox("sink", 3);
    // Two pushers: two messages each on its own link, three altogether in one mailbox.
    for (links, refused) in [(Links::new(), 0), (link, 6), (mailbox, 7)] {
        for asks in [true, false] {
            let build = push(links.clone(), 2, asks);
            let report = exhaustive(Reduction::States).run(move |system: &mut System<Msg>| {
                build(system);
                let told = if asks { refused } else { 0 };
                system.always("so many are refused", move |s| {
                    s.all::<Pusher>().map(|(_, p)| p.refused).sum::<u32>() == told
                });
                system.always("the others arrive", move |s| {
                    s.all::<Sink>().all(|(_, sink)| sink.seen.len() <= 10 - refused as usize)
                });
                system.sometimes("all of them", move |s| {
                    s.all::<Sink>().any(|(_, sink)| sink.seen.len() == 10 - refused as usize)
                });
            });
            assert_eq!(report.verdict(), SimVerdict::Holds, "{report}");
            assert_eq!(report.missed_goals().count(), 0, "{report}");
            assert_eq!(report.refused, u64::from(refused), "{report}");
        }
    }
}

/// Room is there again when a message was handled.
#[test]
fn an_async_node_waits_for_room() {
    let explorer = Explorer::new().executions(200).regressions(false);
    let report = explorer.run(|system: &mut System<Msg>| {
        let to = system.node("sink", Sink::default());
        system.spawn("pusher", move |cx: AsyncCx<Msg>| async move {
            for number in 0..3 {
                while cx.try_send(to, Data(number)).is_err() {
                    cx.sleep(Duration::from_millis(1)).await;
                }
            }
        });
        system.links(Links::new().mailbox("sink", 1));
        system.always("in order", |s| s.all::<Sink>().all(|(_, sink)| sink.seen.is_sorted()));
        system.sometimes("all", |s| s.all::<Sink>().any(|(_, sink)| sink.seen.len() == 3));
    });
    assert!(report.findings.is_empty() && report.missed_goals().count() == 0, "{report}");
}

/// A comparison of searches: random rules, random lists, with and without distinguishing states,
/// and with orders reduced where that is allowed.
#[test]
fn reductions_lose_nothing_with_rules() {
    let mut compared = 0;
    for seed in 0..80 {
        let mut rng = Rng::new(seed);
        let mut channel = || {
            let channels =
                [Channel::new(), Channel::fifo(), Channel::streams(), Channel::datagrams()];
            let channel = channels[rng.below(4) as usize].clone();
            if rng.below(3) == 0 { channel.capacity(1 + rng.below(2)) } else { channel }
        };
        let links = Links::new().all(channel()).of("Beat", channel());
        let list: Vec<Msg> =
            (0..4).map(|n| if rng.below(2) == 0 { Data(n) } else { Beat(n) }).collect();
        let faults = match rng.below(4) {
            0 => Faults::none().lose(1),
            1 => Faults::none().duplicate(1).delay(1),
            2 => Faults::none().reset(1),
            _ => Faults::none(),
        };
        let build = transfer(links, faults, list);
        let (plain, report) = seen(Reduction::None, build.clone());
        if report.stop != Stop::Exhausted {
            continue;
        }
        compared += 1;
        for reduction in [Reduction::States, Reduction::Orders] {
            assert_eq!(seen(reduction, build.clone()).0, plain, "{reduction:?} with seed {seed}");
        }
    }
    assert!(compared > 60, "{compared}");
}

#[test]
fn a_finding_replays_and_does_not_depend_on_workers() {
    let links = Links::new().all(Channel::fifo()).of("Beat", Channel::datagrams());
    let build = transfer(links, Faults::none().lose(1).duplicate(1), MIXED.to_vec());
    let setup = move |system: &mut System<Msg>| {
        build(system);
        system.always("2 comes after 1", |s| {
            let early = |sink: &Sink| sink.seen.contains(&Data(2)) && !sink.seen.contains(&Data(1));
            s.all::<Sink>().all(|(_, sink)| !early(sink))
        });
    };
    let run = |workers| Explorer::new().workers(workers).regressions(false).run(setup.clone());
    let (one, two) = (run(1), run(2));
    let schedule = &one.finding().expect("a lost message leaves a gap").schedule;
    assert_eq!(schedule, &two.finding().expect("a lost message leaves a gap").schedule);
    assert_eq!(schedule.steps(), 2, "a loss and an arrival: {one}");
    let token = Schedule::parse(&schedule.token()).expect("a token can be read");
    let again = Explorer::new().regressions(false).replay(token).run(setup);
    assert_eq!(again.verdict(), SimVerdict::Violated, "{again}");
}

#[test]
fn rules_that_fit_nothing_are_told() {
    let links = Links::new()
        .between("source", "sink", Channel::fifo())
        .between("source", "sinc", Channel::fifo())
        .of("Bete", Channel::fifo())
        .mailbox("sinc", 3);
    let report = exhaustive(Reduction::None).run(transfer(links, Faults::none(), TWO.to_vec()));
    let told = report.problems.join("\n");
    for part in ["`source` to `sinc`", "`Bete`", "mailboxes of `sinc`"] {
        assert!(told.contains(part), "{told}");
    }
    assert!(!told.contains("`sink`"), "{told}");
}

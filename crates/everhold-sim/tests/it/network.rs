//! Streams lose their end or their connection and never their middle; both ends are told.

use everhold_node::{AsyncCx, Cx, Either, Node, NodeId};
use everhold_sim::{
    Choice, Explorer, Fault, FaultKind, Faults, MessageName, Network, Reduction, Report, Schedule,
    Search, Side, Stop, System,
};
use serde::Serialize;

use crate::toys::Msg;

#[path = "../nodes/ends.rs"]
mod ends;
use ends::{
    End,
    Seen::{self, Ended, Got},
};

fn exhaustive(setup: impl Fn(&mut System<Msg>) + Send + Sync + 'static) -> Report {
    let search = Search::Exhaustive { reduction: Reduction::None };
    Explorer::new().search(search).executions(200_000).run(setup)
}

/// With these faults the log, to which 1, 2, 3 is sent, sees exactly these in the end, whether the
/// search distinguishes states or not.
#[track_caller]
fn check(faults: &Faults, again: Option<Msg>, ends: &[&[Seen]]) {
    let ends: Vec<Vec<Seen>> = ends.iter().map(|end| end.to_vec()).collect();
    for reduction in [Reduction::None, Reduction::States] {
        let (ends, faults) = (ends.clone(), faults.clone());
        let search = Search::Exhaustive { reduction };
        let report = Explorer::new().search(search).executions(200_000).run(move |system| {
            let log = system.node("log", End::default());
            let first = vec![1, 2, 3];
            let sender = End { to: Some(log), first, then: again, ..End::default() };
            system.node("sender", sender);
            system.network(Network::Streams);
            system.faults(faults.clone());
            let seen = |s: &everhold_sim::View<'_, Msg>, log| {
                s.get::<End>(log).map(|end| end.seen.clone()).unwrap_or_default()
            };
            for (at, end) in ends.clone().into_iter().enumerate() {
                system.sometimes(&format!("end {at}"), move |s| seen(s, log) == end);
            }
            let ends = ends.clone();
            system.always("only these", move |s| {
                let seen = seen(s, log);
                if ends.iter().any(|end| end.starts_with(&seen)) {
                    return Ok(());
                }
                Err(format!("{seen:?}"))
            });
        });
        assert_eq!(report.stop, Stop::Exhausted, "{report}");
        assert!(report.findings.is_empty(), "{report}");
        assert_eq!(report.missed_goals().count(), 0, "{report}");
    }
}

#[test]
fn a_stream_loses_its_end_and_never_its_middle() {
    let ends: &[&[Seen]] =
        &[&[Got(1), Got(2), Got(3)], &[Got(1), Got(2), Ended], &[Got(1), Ended], &[Ended]];
    check(&Faults::none().lose(1), None, ends);
    check(&Faults::none().lose(2), None, ends);
}

#[test]
fn a_reset_loses_any_end_and_is_noticed_after_what_arrived() {
    let ends: &[&[Seen]] =
        &[&[Got(1), Got(2), Got(3), Ended], &[Got(1), Got(2), Ended], &[Got(1), Ended], &[Ended]];
    check(&Faults::none().reset(1), None, ends);
}

#[test]
fn a_new_connection_comes_after_the_end_of_the_old_one() {
    let ends: &[&[Seen]] = &[
        &[Got(1), Got(2), Got(3), Ended, Got(9)],
        &[Got(1), Got(2), Ended, Got(9)],
        &[Got(1), Ended, Got(9)],
        &[Ended, Got(9)],
    ];
    check(&Faults::none().reset(1), Some(9), ends);
}

#[test]
fn streams_never_duplicate() {
    check(&Faults::none().duplicate(2), None, &[&[Got(1), Got(2), Got(3)]]);
}

#[test]
fn both_ends_are_told_once_and_peers_of_a_crash_too() {
    for (faults, both) in [(Faults::none().reset(1), true), (Faults::none().crash(1), false)] {
        let report = exhaustive(move |system| {
            let log = system.node("log", End::default());
            let sender = End { to: Some(log), first: vec![1], ..End::default() };
            let sender = system.node("sender", sender);
            system.network(Network::Streams);
            system.faults(faults.clone().only(["log"]));
            let ended = move |s: &everhold_sim::View<'_, Msg>, node| {
                s.get::<End>(node).map_or(0, |e| e.seen.iter().filter(|s| **s == Ended).count())
            };
            system.sometimes("told", move |s| {
                ended(s, sender) == 1 && ended(s, log) == usize::from(both)
            });
            system.always("once", move |s| ended(s, sender) <= 1 && ended(s, log) <= 1);
        });
        assert_eq!(report.stop, Stop::Exhausted, "{report}");
        assert!(report.findings.is_empty(), "{report}");
        assert_eq!(report.missed_goals().count(), 0, "{report}");
    }
}

/// Messages that are sent before the sender knows that the connection broke go into the broken one.
#[test]
fn what_is_sent_into_a_broken_connection_is_lost() {
    /// Sends one more message for every message it gets.
    #[derive(Clone, Default, Serialize)]
    struct Echo {
        ended: bool,
        sent_before: bool,
    }
    impl Node for Echo {
        type Msg = Msg;
        fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
            self.sent_before = !self.ended;
            cx.send(from, msg + 100);
        }
        fn disconnected(&mut self, _: &mut Cx<Msg>, _: NodeId) {
            self.ended = true;
        }
    }
    let report = exhaustive(|system| {
        let echo = system.node("echo", Echo::default());
        let asker = End { to: Some(echo), first: vec![1], ..End::default() };
        let asker = system.node("asker", asker);
        system.network(Network::Streams);
        system.faults(Faults::none().reset(1));
        system.sometimes("the answer is lost", move |s| {
            let [echo, asker] = [s.get::<Echo>(echo).is_some_and(|e| e.sent_before && e.ended), {
                s.get::<End>(asker).is_some_and(|end| end.seen == [Ended])
            }];
            echo && asker && s.in_flight().next().is_none()
        });
        system.always("no answer after the end", move |s| {
            s.get::<End>(asker).is_none_or(|end| end.seen != [Ended, Got(101)])
        });
    });
    assert_eq!(report.stop, Stop::Exhausted, "{report}");
    assert!(report.findings.is_empty(), "{report}");
    assert_eq!(report.missed_goals().count(), 0, "{report}");
}

/// An async client that asks again over a new connection gets its answer; one that does not waits
/// for ever, and the finding shrinks to the reset, replays and shows it.
#[test]
fn async_nodes_hear_of_it() {
    #[derive(Clone, Serialize)]
    struct Server;
    impl Node for Server {
        type Msg = Msg;
        fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
            cx.reply(msg);
        }
    }
    async fn ask(cx: AsyncCx<Msg>, server: NodeId, again: bool) {
        if again {
            while let Either::Right(_) = cx.race(cx.call(server, 7), cx.disconnected()).await {}
        } else {
            cx.call(server, 7).await;
        }
    }
    let build = |again| {
        move |system: &mut System<Msg>| {
            let server = system.node("server", Server);
            system.spawn("client", move |cx| ask(cx, server, again));
            system.network(Network::Streams);
            system.faults(Faults::none().reset(2));
        }
    };
    let careful = Explorer::new().executions(2_000).run(build(true));
    assert!(careful.findings.is_empty(), "{careful}");
    let careless = Explorer::new().executions(2_000).run(build(false));
    let finding = careless.finding().expect("the answer can be lost");
    assert_eq!(finding.schedule.faults(), 1, "{careless}");
    let text = careless.to_string();
    assert!(
        text.contains("reset") && text.contains("disconnected") && text.contains("from server"),
        "{text}"
    );
    let again = Schedule::parse(&finding.schedule.token()).expect("it is a token");
    let again = Explorer::new().replay(again).run(build(false));
    assert!(again.finding().is_some(), "{again}");
}

/// Of `nodes` nodes the last two send each other a message. Which of the two can still arrive
/// after the fault, and after its end?
#[track_caller]
fn check_cut(nodes: u32, fault: impl Fn(Side) -> Fault, backward: bool, forward: bool) {
    let (a, b) = (NodeId(nodes - 2), NodeId(nodes - 1));
    let build = move |system: &mut System<Msg>| {
        system.nodes("idle", nodes as usize - 2, |_| End::default());
        for to in [b, a] {
            system.node("server", End { to: Some(to), first: vec![1], ..End::default() });
        }
        system.faults(Faults::none().partition(1).one_way_partition(1).only(["server"]));
    };
    let arrives = |from: NodeId, to: NodeId, heal: bool| {
        let cut = Choice::Fault(fault(Side::of([a]).expect("one node")));
        let message = MessageName { from, sequence: 0 };
        let deliver = Choice::Deliver { to, message, kind: "message".to_owned() };
        let heal = heal.then_some(Choice::Heal);
        let choices = [Some(cut), heal, Some(deliver)].into_iter().flatten().collect();
        let token = Schedule { seed: 1, choices }.token();
        let schedule = Schedule::parse(&token).expect("it is a token");
        let report = Explorer::new().replay(schedule).run(build);
        matches!(report.stop, Stop::Replayed { skipped: None })
    };
    assert_eq!(arrives(a, b, false), forward, "from the side, {nodes} nodes");
    assert_eq!(arrives(b, a, false), backward, "to the side, {nodes} nodes");
    assert!(arrives(a, b, true) && arrives(b, a, true), "healed, {nodes} nodes");
}

#[test]
fn partitions_of_any_number_of_nodes() {
    for nodes in [2, 70, 130] {
        check_cut(nodes, Fault::Partition, false, false);
        check_cut(nodes, Fault::Mute, true, false);
        check_cut(nodes, Fault::Deafen, false, true);
    }
}

/// Every search meets them, among more nodes than a mask has bits.
#[test]
fn one_way_partitions_happen_and_heal() {
    for search in [Search::Random, Search::Pct { depth: 3 }, Search::Portfolio] {
        let report = Explorer::new().executions(500).search(search).run(|system| {
            let log = system.node("log", End::default());
            let senders = |at| End { to: Some(log), first: vec![at as Msg], ..End::default() };
            system.nodes("sender", 129, senders);
            system.faults(Faults::none().one_way_partition(2).partition(1));
            system.sometimes("all arrive", move |s| {
                s.get::<End>(log).is_some_and(|end| end.seen.len() == 129)
            });
        });
        assert!(report.findings.is_empty(), "{report}");
        assert_eq!(report.missed_goals().count(), 0, "{report}");
        let met = |kind: FaultKind| report.coverage.faults[kind as usize] > 0;
        assert!(met(FaultKind::OneWay) && met(FaultKind::Partition), "{report}");
    }
}

/// The message that is held back, the direction in which a clock jumped and the order in which a
/// stream brings its messages belong to a state: a search that distinguishes states must not take
/// two of them for one.
#[test]
fn states_that_differ_in_the_network_are_told_apart() {
    let search = Search::Exhaustive { reduction: Reduction::States };
    let report = Explorer::new().search(search).run(|system: &mut System<Msg>| {
        let log = system.node("log", End::default());
        for msg in [1, 2] {
            system.node("sender", End { to: Some(log), first: vec![msg], ..End::default() });
        }
        let relay = system.node("relay", End { to: Some(log), then: Some(3), ..End::default() });
        system.node("poker", End { to: Some(relay), first: vec![7], ..End::default() });
        system.faults(Faults::none().delay(1));
        for last in [1, 2] {
            system.sometimes(&format!("{last} is held until the relay has heard"), move |s| {
                let relayed = s.get::<End>(relay).is_some_and(|end| end.seen == [Got(7)]);
                let seen = s.get::<End>(log).map(|end| end.seen.clone());
                relayed && seen == Some(vec![Got(3 - last), Got(last)])
            });
        }
    });
    assert_eq!(report.stop, Stop::Exhausted, "{report}");
    assert_eq!(report.missed_goals().count(), 0, "{report}");
    let count = |flip: fn(&mut Cx<Msg>) -> bool| {
        let search = Search::Exhaustive { reduction: Reduction::States };
        let report = Explorer::new().search(search).run(move |system: &mut System<Msg>| {
            let log = system.node("log", End::default());
            system.node("sender", Shuffler { to: log, flip });
            system.network(Network::Streams);
            for order in [[1, 2], [2, 1]] {
                system.sometimes(&format!("{order:?}"), move |s| {
                    let wanted = order.map(Got);
                    s.get::<End>(log).is_some_and(|end| end.seen == wanted)
                });
            }
        });
        report.missed_goals().count()
    };
    assert_eq!(count(|cx| cx.flip("order")), 0);
    assert_eq!(count(|_| false), 1);
}

/// Sends 1 and 2 in an order that it forgets.
#[derive(Clone, Serialize)]
struct Shuffler {
    to: NodeId,
    #[serde(skip)]
    flip: fn(&mut Cx<Msg>) -> bool,
}

impl Node for Shuffler {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.send(cx.id(), 0);
    }
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, _: Msg) {
        let order = if (self.flip)(cx) { [2, 1] } else { [1, 2] };
        order.into_iter().for_each(|msg| cx.send(self.to, msg));
    }
}

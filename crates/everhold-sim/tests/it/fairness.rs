//! The fair tail is fair in time as well as in order: correct systems with timers are left alone,
//! whatever their size, and the same systems with a fault in their progress are not.

use std::time::Duration;

use everhold_node::{Cx, Node, NodeId, Timer};
use everhold_sim::{Bounds, Clocks, Explorer, Faults, Report, System};
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
enum Beat {
    Heartbeat,
    Ack,
    Token(u32),
}

/// Heartbeats go to all others and are acknowledged; a token goes round beside them.
#[derive(Clone, Serialize)]
struct Member {
    peers: u32,
    me: u32,
    hops: u32,
    drops: bool,
    done: bool,
}

impl Node for Member {
    type Msg = Beat;
    fn start(&mut self, cx: &mut Cx<Beat>) {
        cx.set_timer("beat", Duration::from_millis(100));
        if self.me == 0 {
            cx.send(NodeId(1 % self.peers), Beat::Token(1));
        }
    }
    fn message(&mut self, cx: &mut Cx<Beat>, from: NodeId, msg: Beat) {
        match msg {
            Beat::Heartbeat => cx.send(from, Beat::Ack),
            Beat::Ack => {}
            Beat::Token(hops) if hops == self.hops => self.done = true,
            Beat::Token(hops) if self.drops && hops == self.hops - 1 => {}
            Beat::Token(hops) => cx.send(NodeId((self.me + 1) % self.peers), Beat::Token(hops + 1)),
        }
    }
    fn timer(&mut self, cx: &mut Cx<Beat>, _: Timer) {
        for peer in (0..self.peers).filter(|peer| *peer != self.me) {
            cx.send(NodeId(peer), Beat::Heartbeat);
        }
        cx.set_timer("beat", Duration::from_millis(100));
    }
}

fn heartbeats(peers: u32, drops: bool, clocks: Clocks) -> impl Fn(&mut System<Beat>) + Clone {
    move |system| {
        for me in 0..peers {
            system.node("member", Member { peers, me, hops: 10, drops, done: false });
        }
        system.clocks(clocks);
        system.eventually("the token arrives", |s| s.all::<Member>().any(|(_, m)| m.done));
    }
}

/// Short executions, so that much is under way when the fair tail begins.
fn short() -> Explorer {
    let bounds = Bounds { steps_max: 60, ..Bounds::default() };
    Explorer::new().executions(100).bounds(bounds).regressions(false)
}

#[track_caller]
fn silent(report: &Report) {
    assert!(report.findings.is_empty(), "{report}");
    assert_eq!(report.unjudged, 0, "{report}");
}

#[test]
fn heartbeats_among_many_nodes_do_not_starve_the_rest() {
    for peers in [3, 5, 7, 15] {
        for clocks in [Clocks::Independent, Clocks::Shared, Clocks::Drift { max_ppm: 200_000 }] {
            silent(&short().run(heartbeats(peers, false, clocks)));
        }
    }
    // Longer executions leave more behind.
    silent(&Explorer::new().executions(100).regressions(false).run(heartbeats(
        7,
        false,
        Clocks::Independent,
    )));
}

#[test]
fn a_token_that_is_dropped_among_heartbeats_is_found() {
    for peers in [3, 7] {
        let report = short().run(heartbeats(peers, true, Clocks::Independent));
        let finding = report.finding().expect("it never arrives");
        assert!(finding.failure.message.contains("went round"), "{report}");
    }
}

/// Leader election with random timeouts, as in Raft, without a log.
#[derive(Clone, Debug, Serialize)]
enum Vote {
    Ask { term: u32 },
    Yes { term: u32 },
    Lead { term: u32 },
}

#[derive(Clone, Serialize)]
struct Server {
    servers: u32,
    me: u32,
    /// Timeouts are all the same: votes are split for ever.
    fixed: bool,
    term: u32,
    voted: Option<NodeId>,
    votes: u32,
    leads: bool,
    /// The number of consecutive terms in which this server heard of its leader.
    heard: u32,
}

impl Server {
    fn wait(&self, cx: &mut Cx<Vote>) {
        let extra = if self.fixed { 0 } else { cx.random() % 150 };
        cx.set_timer("election", Duration::from_millis(150 + extra));
    }
    fn tell(&self, cx: &mut Cx<Vote>, msg: &Vote) {
        for peer in (0..self.servers).filter(|peer| *peer != self.me) {
            cx.send(NodeId(peer), msg.clone());
        }
    }
    fn learn(&mut self, term: u32) {
        if term > self.term {
            (self.term, self.voted, self.votes, self.leads) = (term, None, 0, false);
            self.heard = 0;
        }
    }
}

impl Node for Server {
    type Msg = Vote;
    fn start(&mut self, cx: &mut Cx<Vote>) {
        self.wait(cx);
    }
    fn message(&mut self, cx: &mut Cx<Vote>, from: NodeId, msg: Vote) {
        let (Vote::Ask { term } | Vote::Yes { term } | Vote::Lead { term }) = msg;
        self.learn(term);
        if term < self.term {
            return;
        }
        match msg {
            Vote::Ask { term } if self.voted.is_none() => {
                self.voted = Some(from);
                cx.send(from, Vote::Yes { term });
                self.wait(cx);
            }
            Vote::Ask { .. } => {}
            Vote::Yes { term } => {
                self.votes += 1;
                if self.votes * 2 > self.servers && !self.leads {
                    self.leads = true;
                    cx.cancel_timer("election");
                    cx.set_timer("lead", Duration::from_millis(50));
                    self.tell(cx, &Vote::Lead { term });
                }
            }
            Vote::Lead { .. } => {
                self.heard += 1;
                self.wait(cx);
            }
        }
    }
    fn timer(&mut self, cx: &mut Cx<Vote>, timer: Timer) {
        if timer.name == "lead" {
            if self.leads {
                self.tell(cx, &Vote::Lead { term: self.term });
                cx.set_timer("lead", Duration::from_millis(50));
            } else {
                self.wait(cx);
            }
            return;
        }
        self.learn(self.term + 1);
        (self.voted, self.votes) = (Some(NodeId(self.me)), 1);
        self.tell(cx, &Vote::Ask { term: self.term });
        self.wait(cx);
    }
}

fn election(servers: u32, fixed: bool) -> impl Fn(&mut System<Vote>) + Clone {
    move |system| {
        for me in 0..servers {
            let (term, votes, heard) = (0, 0, 0);
            let (voted, leads) = (None, false);
            let server = Server { servers, me, fixed, term, voted, votes, leads, heard };
            system.node("server", server);
        }
        system.faults(Faults::none().lose(3));
        system.eventually("a leader stays", move |s| {
            let heard = s.all::<Server>().filter(|(_, server)| server.heard >= 20).count();
            heard as u32 + 1 >= servers
        });
    }
}

#[test]
fn an_election_with_random_timeouts_ends() {
    for servers in [3, 5, 9] {
        silent(&short().run(election(servers, false)));
    }
}

/// Periods keep their proportion: a tick of 10 ms fires ten times as often as one of 100 ms.
#[test]
fn periods_are_in_proportion() {
    #[derive(Clone, Default, Serialize)]
    struct Ticks {
        short: u32,
        long: u32,
    }
    impl Node for Ticks {
        type Msg = u32;
        fn start(&mut self, cx: &mut Cx<u32>) {
            cx.set_timer("short", Duration::from_millis(10));
            cx.set_timer("long", Duration::from_millis(100));
        }
        fn message(&mut self, _: &mut Cx<u32>, _: NodeId, _: u32) {}
        fn timer(&mut self, cx: &mut Cx<u32>, timer: Timer) {
            if timer.name == "short" {
                self.short += 1;
                cx.set_timer("short", Duration::from_millis(10));
                // Messages beside the timers change nothing.
                cx.send(cx.id(), 0);
            } else {
                self.long += 1;
                cx.set_timer("long", Duration::from_millis(100));
            }
        }
    }
    let bounds = Bounds { steps_max: 1, ..Bounds::default() };
    let explorer = Explorer::new().executions(50).bounds(bounds).regressions(false);
    let report = explorer.run(|system: &mut System<u32>| {
        for _ in 0..4 {
            system.node("ticks", Ticks::default());
        }
        system.eventually("ten long ticks", |s| s.all::<Ticks>().all(|(_, t)| t.long >= 10));
        system.always("in proportion", |s| {
            let mut all = s.all::<Ticks>().map(|(_, ticks)| ticks);
            all.all(|t| t.short.abs_diff(t.long * 10) <= 11)
        });
        system.always("together", |s| {
            let short = || s.all::<Ticks>().map(|(_, ticks)| ticks.short);
            short().max().unwrap_or(0) - short().min().unwrap_or(0) <= 2
        });
    });
    silent(&report);
}

/// Messages that go on for ever take time: a timer fires all the same.
#[test]
fn time_passes_while_messages_go_to_and_fro() {
    #[derive(Clone, Serialize)]
    struct Player {
        other: NodeId,
        serves: bool,
        late: bool,
    }
    impl Node for Player {
        type Msg = u32;
        fn start(&mut self, cx: &mut Cx<u32>) {
            cx.set_timer("late", Duration::from_secs(1));
            if self.serves {
                cx.send(self.other, 0);
            }
        }
        fn message(&mut self, cx: &mut Cx<u32>, from: NodeId, _: u32) {
            cx.send(from, 0);
        }
        fn timer(&mut self, _: &mut Cx<u32>, _: Timer) {
            self.late = true;
        }
    }
    let build = |system: &mut System<u32>| {
        for (other, serves) in [(1, true), (0, false)] {
            system.node("player", Player { other: NodeId(other), serves, late: false });
        }
        system.eventually("it is late", |s| s.all::<Player>().all(|(_, p)| p.late));
    };
    silent(&short().run(build));
}

/// Progress that is a matter of luck: one draw out of six, once a second, beside a tick that makes
/// many steps. Each execution is unlucky for 32 seconds with a probability of 0.3 %, so a patience of
/// that length blames about six of 2,000 executions; for 128 seconds, with one of 7e-11.
#[test]
fn bad_luck_is_no_violation() {
    #[derive(Clone, Serialize)]
    struct Player {
        ticks: u32,
        odds: u64,
        won: bool,
    }
    impl Node for Player {
        type Msg = u32;
        fn start(&mut self, cx: &mut Cx<u32>) {
            cx.set_timer("tick", Duration::from_millis(10));
            cx.set_timer("draw", Duration::from_secs(1));
        }
        fn message(&mut self, _: &mut Cx<u32>, _: NodeId, _: u32) {}
        fn timer(&mut self, cx: &mut Cx<u32>, timer: Timer) {
            if timer.name == "tick" {
                self.ticks += 1;
                cx.set_timer("tick", Duration::from_millis(10));
            } else {
                self.won |= self.odds > 0 && cx.random().is_multiple_of(self.odds);
                cx.set_timer("draw", Duration::from_secs(1));
            }
        }
    }
    let run = |odds, executions| {
        let bounds = Bounds { steps_max: 1, ..Bounds::default() };
        let explorer = Explorer::new().executions(executions).bounds(bounds).regressions(false);
        explorer.shrink_time(Duration::from_millis(1)).run(move |system: &mut System<u32>| {
            system.node("player", Player { ticks: 0, odds, won: false });
            system.eventually("it wins", |s| s.all::<Player>().all(|(_, player)| player.won));
        })
    };
    silent(&run(6, 2_000));
    let never = run(0, 1);
    let finding = never.finding().expect("whoever never wins is found");
    assert!(finding.failure.message.contains("patience ended"), "{never}");
}

/// A node that looks again and again without a wait does not stop the time, neither its own nor that
/// of others.
#[test]
fn timers_without_length_leave_time_for_others() {
    #[derive(Clone, Serialize)]
    struct Looker {
        looks: bool,
        late_after: Option<Duration>,
        done: bool,
    }
    impl Node for Looker {
        type Msg = u32;
        fn start(&mut self, cx: &mut Cx<u32>) {
            if self.looks {
                cx.set_timer("look", Duration::ZERO);
            }
            if let Some(after) = self.late_after {
                cx.set_timer("late", after);
            }
        }
        fn message(&mut self, _: &mut Cx<u32>, _: NodeId, _: u32) {}
        fn timer(&mut self, cx: &mut Cx<u32>, timer: Timer) {
            match timer.name {
                "look" => cx.set_timer("look", Duration::ZERO),
                _ => self.done = true,
            }
        }
    }
    let run = |late_after| {
        short().executions(20).run(move |system: &mut System<u32>| {
            for looks in [true, true, false] {
                system.node("looker", Looker { looks, late_after, done: false });
            }
            system.eventually("all are late", |s| s.all::<Looker>().all(|(_, l)| l.done));
        })
    };
    silent(&run(Some(Duration::from_millis(10))));
    assert!(!run(None).findings.is_empty(), "without the timers it is never late");
}

/// A far timer is waited for; where that takes too long, the execution is not judged.
#[test]
fn a_far_timer_is_no_violation() {
    #[derive(Clone, Default, Serialize)]
    struct Patient {
        ticks: u32,
        done: bool,
    }
    impl Node for Patient {
        type Msg = u32;
        fn start(&mut self, cx: &mut Cx<u32>) {
            cx.set_timer("tick", Duration::from_millis(1));
            cx.set_timer("done", Duration::from_secs(86_400));
        }
        fn message(&mut self, _: &mut Cx<u32>, _: NodeId, _: u32) {}
        fn timer(&mut self, cx: &mut Cx<u32>, timer: Timer) {
            if timer.name == "tick" {
                self.ticks += 1;
                cx.set_timer("tick", Duration::from_millis(1));
            } else {
                self.done = true;
            }
        }
    }
    let report = short().executions(2).run(|system: &mut System<u32>| {
        let patient = system.node("patient", Patient::default());
        system.eventually("it is done", move |s| s.get::<Patient>(patient).is_some_and(|p| p.done));
    });
    assert!(report.findings.is_empty(), "{report}");
    assert_eq!(report.unjudged, 2, "{report}");
    assert!(report.to_string().contains("not judged"), "{report}");
}

/// Beats in every period.
#[derive(Clone, Serialize)]
struct Beater {
    to: NodeId,
}

impl Node for Beater {
    type Msg = u8;
    fn start(&mut self, cx: &mut Cx<u8>) {
        cx.set_timer("beat", Duration::from_millis(10));
    }
    fn message(&mut self, _: &mut Cx<u8>, _: NodeId, _: u8) {}
    fn timer(&mut self, cx: &mut Cx<u8>, _: Timer) {
        cx.send(self.to, 0);
        cx.set_timer("beat", Duration::from_millis(10));
    }
}

/// Is done as soon as one of the first nodes beats all others of its period.
#[derive(Clone, Serialize)]
struct Referee {
    nodes: u32,
    winners: u32,
    heard: u32,
    done: bool,
}

impl Node for Referee {
    type Msg = u8;
    fn message(&mut self, _: &mut Cx<u8>, from: NodeId, _: u8) {
        self.done |= self.heard == 0 && from.0 < self.winners;
        self.heard = (self.heard + 1) % self.nodes;
    }
}

/// One period out of six brings luck; without it the same state comes again. Sixteen rounds of bad
/// luck are nothing unusual among this many executions: the probability is five per cent for each.
#[test]
fn rounds_of_bad_luck_are_no_violation() {
    let run = |nodes: u32, winners: u32| {
        short().executions(300).run(move |system: &mut System<u8>| {
            for _ in 0..nodes {
                system.node("beater", Beater { to: NodeId(nodes) });
            }
            system.node("referee", Referee { nodes, winners, heard: 0, done: false });
            system.eventually("done", |s| s.all::<Referee>().any(|(_, referee)| referee.done));
        })
    };
    for nodes in [6, 12, 30] {
        silent(&run(nodes, nodes / 6));
        let report = run(nodes, 0);
        let finding = report.finding().unwrap_or_else(|| panic!("{nodes} nodes: {report}"));
        assert!(finding.failure.message.contains("went round"), "{nodes} nodes: {report}");
    }
}

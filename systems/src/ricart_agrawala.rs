//! Mutual exclusion by permission of all other nodes (Ricart and Agrawala, 1981), repeated for
//! ever.
//!
//! A node that wants to enter asks all others, with a Lamport clock. A node that is asked agrees at
//! once, unless it is inside, or wants to enter and asked earlier: then it agrees when it leaves.
//! The next node enters within one message delay after the last one left, so this is a hard test
//! for a tool that puts the states of different nodes into one order: a correct system must not
//! cause an alarm.

use everhold::System;
use everhold::prelude::*;

/// The claim about the system, in the property language.
pub const RULES: &str = "always \"one node is inside\": forall a, b in nodes: a != b and a.inside implies not b.inside\n";

/// The known bugs of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// No bug.
    None,
    /// They agree to every request, even while they want to enter themselves.
    AlwaysAgrees,
}

/// The messages between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Msg {
    /// A request to enter, with the sender's Lamport clock.
    Ask(u64),
    /// Permission to enter.
    Agree,
}

/// The shortest time for which a node stays outside or inside.
const SHORTLY: Duration = Duration::from_micros(100);

/// A node that enters again and again.
#[derive(Clone, Debug, Serialize)]
pub struct Member {
    bug: Bug,
    others: Vec<NodeId>,
    clock: u64,
    /// The Lamport clock of its request, while it wants to enter or is inside.
    asked: Option<u64>,
    agreed: usize,
    deferred: Vec<NodeId>,
    inside: bool,
    /// The number of times that it was inside.
    entered: u64,
}

impl Member {
    /// A member of a group.
    #[must_use]
    pub fn new(me: NodeId, count: u32, bug: Bug) -> Member {
        let others = (0..count).map(NodeId).filter(|other| *other != me).collect();
        Member {
            bug,
            others,
            clock: 0,
            asked: None,
            agreed: 0,
            deferred: Vec::new(),
            inside: false,
            entered: 0,
        }
    }

    fn ask(&mut self, cx: &mut Cx<Msg>) {
        self.clock += 1;
        (self.asked, self.agreed) = (Some(self.clock), 0);
        self.others.iter().for_each(|other| cx.send(*other, Msg::Ask(self.clock)));
    }

    fn asked_by(&mut self, cx: &mut Cx<Msg>, from: NodeId, at: u64) {
        self.clock = self.clock.max(at) + 1;
        let first = self.asked.is_some_and(|own| (own, cx.id()) < (at, from));
        let defers = self.inside || (first && self.bug == Bug::None);
        if defers { self.deferred.push(from) } else { cx.send(from, Msg::Agree) }
    }

    fn agreed(&mut self, cx: &mut Cx<Msg>) {
        self.agreed += 1;
        if self.agreed == self.others.len() {
            (self.inside, self.entered) = (true, self.entered + 1);
            cx.set_timer("leave", SHORTLY);
        }
    }

    fn leave(&mut self, cx: &mut Cx<Msg>) {
        (self.inside, self.asked) = (false, None);
        self.deferred.drain(..).for_each(|other| cx.send(other, Msg::Agree));
        cx.set_timer("ask", SHORTLY);
    }
}

impl Node for Member {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        // All nodes have started by then.
        cx.set_timer("ask", Duration::from_millis(500));
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        if timer.name == "leave" { self.leave(cx) } else { self.ask(cx) }
    }

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Ask(at) => self.asked_by(cx, from, at),
            Msg::Agree => self.agreed(cx),
        }
    }
}

/// A group of this size.
pub fn system(count: u32, bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        for node in 0..count {
            system.node("member", Member::new(NodeId(node), count, bug));
        }
        system.always("one node is inside", |s: &View<'_, Msg>| {
            let inside = s.all::<Member>().filter(|(_, member)| member.inside).count();
            if inside > 1 { Err(format!("{inside} nodes are inside")) } else { Ok(()) }
        });
    }
}

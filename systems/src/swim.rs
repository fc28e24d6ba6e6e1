//! Membership by gossip, like SWIM (Das, Gupta, Motivala, 2002) and Serf.
//!
//! Every node periodically pings another. If no answer arrives, it asks a third node to try; if
//! there is still no answer, it suspects the node, and after a while declares it dead. Every
//! message carries all news that its sender has heard. A node that hears that it is suspected
//! announces that it is alive, under a new incarnation, which outranks statements about an older
//! one.
//!
//! So the receiver of a message knows afterwards all that the sender knew. This is Dinv's eventual
//! consistency (section 6.1), which follows the messages.

use std::collections::{BTreeMap, BTreeSet};

use everhold::System;
use everhold::prelude::*;

/// The known bugs of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// No bug.
    None,
    /// To keep an answer small, it carries only the last news that its sender heard.
    AnswersBriefly,
    /// A node believes the last news that it hears, whatever the incarnation: old rumours restore
    /// what was denied.
    BelievesLast,
}

/// The interval between pings.
const PROBE: Duration = Duration::from_secs(1);
/// The time that an answer may take.
const PATIENCE: Duration = Duration::from_millis(300);
/// The time that a suspect has to defend itself.
const SUSPICION: Duration = Duration::from_secs(5);

/// A statement about a member. Within one incarnation, a later variant outranks an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Status {
    /// The member itself announced it.
    Alive,
    /// The member did not answer.
    Suspect,
    /// The member did not defend itself.
    Dead,
}

/// The standing of a member, as far as a node knows. A larger one outranks a smaller one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Standing {
    /// The number of times that the member has defended itself.
    pub incarnation: u32,
    /// The statement about the member.
    pub status: Status,
}

/// A piece of gossip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Event {
    /// The member that it concerns.
    pub member: NodeId,
    /// The member's standing.
    pub standing: Standing,
}

/// The messages between nodes; every message carries gossip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Msg {
    /// The request in the message.
    pub ask: Ask,
    /// All news that the sender has heard.
    pub gossip: BTreeSet<Event>,
}

/// The requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// Are you alive? If so, answer this node.
    Ping(NodeId),
    /// Ping this node for me.
    PingFor(NodeId),
    /// I am alive.
    Ack,
}

/// A member of the group.
#[derive(Clone, Debug, Serialize)]
pub struct Member {
    #[serde(skip)]
    bug: Bug,
    me: NodeId,
    members: BTreeMap<NodeId, Standing>,
    /// All gossip it has heard.
    events: BTreeSet<Event>,
    /// The last news that it heard.
    latest: Option<Event>,
    /// The node that was pinged and has not answered, and whether others were asked to try.
    probe: Option<(NodeId, bool)>,
}

impl Member {
    fn new(me: usize, nodes: usize, bug: Bug) -> Self {
        let alive = Standing { incarnation: 0, status: Status::Alive };
        let members = (0..nodes).map(|number| (NodeId(number as u32), alive)).collect();
        Member {
            bug,
            me: NodeId(me as u32),
            members,
            events: BTreeSet::new(),
            latest: None,
            probe: None,
        }
    }

    fn send(&self, cx: &mut Cx<Msg>, to: NodeId, ask: Ask) {
        let gossip = match (self.bug, ask) {
            (Bug::AnswersBriefly, Ask::Ack) => self.latest.into_iter().collect(),
            _ => self.events.clone(),
        };
        cx.send(to, Msg { ask, gossip });
    }

    /// The others that are not known to be dead.
    fn others(&self, except: Option<NodeId>) -> Vec<NodeId> {
        let here = self.members.iter().filter(|(_, standing)| standing.status != Status::Dead);
        here.map(|(node, _)| *node).filter(|n| *n != self.me && Some(*n) != except).collect()
    }

    fn any_other(&self, cx: &mut Cx<Msg>, except: Option<NodeId>) -> Option<NodeId> {
        let others = self.others(except);
        (!others.is_empty()).then(|| others[cx.choose("member", others.len())])
    }

    fn ping(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("probe", PROBE);
        if let Some(member) = self.any_other(cx, None) {
            self.probe = Some((member, false));
            self.send(cx, member, Ask::Ping(self.me));
            cx.set_timer("no answer", PATIENCE);
        }
    }

    fn no_answer(&mut self, cx: &mut Cx<Msg>) {
        let Some((member, others_tried)) = self.probe.take() else { return };
        match self.any_other(cx, Some(member)).filter(|_| !others_tried) {
            Some(other) => {
                self.probe = Some((member, true));
                self.send(cx, other, Ask::PingFor(member));
                cx.set_timer("no answer", PATIENCE);
            }
            None => self.say(cx, member, Status::Alive, Status::Suspect),
        }
    }

    /// Spreads a change of a member from `before` to `after`.
    fn say(&mut self, cx: &mut Cx<Msg>, member: NodeId, before: Status, after: Status) {
        let Standing { incarnation, status } = self.members[&member];
        if status == before {
            self.hear(cx, Event { member, standing: Standing { incarnation, status: after } });
        }
    }

    fn hear(&mut self, cx: &mut Cx<Msg>, event: Event) {
        if !self.events.insert(event) {
            return;
        }
        self.latest = Some(event);
        let Event { member, standing } = event;
        let known = self.members.get_mut(&member).expect("the group does not grow");
        if standing > *known || self.bug == Bug::BelievesLast {
            *known = standing;
            if member == self.me && standing.status != Status::Alive {
                self.defend(cx, standing.incarnation + 1);
            } else if standing.status == Status::Suspect {
                cx.set_timer(Timer::from("suspicion").with(u64::from(member.0)), SUSPICION);
            }
        }
    }

    fn defend(&mut self, cx: &mut Cx<Msg>, incarnation: u32) {
        let standing = Standing { incarnation, status: Status::Alive };
        self.hear(cx, Event { member: self.me, standing });
    }
}

impl Node for Member {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("probe", PROBE);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        for event in msg.gossip {
            self.hear(cx, event);
        }
        match msg.ask {
            Ask::Ping(asker) => self.send(cx, asker, Ask::Ack),
            Ask::PingFor(member) => self.send(cx, member, Ask::Ping(from)),
            Ask::Ack => {
                self.probe = None;
                cx.cancel_timer("no answer");
            }
        }
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        match timer.name {
            "probe" => self.ping(cx),
            "no answer" => self.no_answer(cx),
            _ => self.say(cx, NodeId(timer.id as u32), Status::Suspect, Status::Dead),
        }
    }
}

/// The specification (Dinv, table 2: eventual consistency).
pub const TOLD: &str = "who receives a message knows what its sender knew";
/// The receiver of a message has news that are at least as recent as the sender's.
pub const UP_TO_DATE: &str = "who receives a message is as up to date as its sender";

/// The specifications in the property language.
pub const PROPERTIES: &str = r#"
always "who receives a message knows what its sender knew" on delivery:
  sender.events subset of receiver.events

always "who receives a message is as up to date as its sender" on delivery:
  forall m -> standing in sender.members:
    standing.incarnation <= receiver.members[m].incarnation

sometimes "all agree that somebody is dead":
  exists m in nodes: forall n in nodes where n.me != m.me: n.members[m.me].status == "Dead"
"#;

/// A group of `nodes` members, on a network that loses some messages.
pub fn system(nodes: usize, bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        environment(nodes, bug)(system);
        system.property(PROPERTIES);
    }
}

/// The system without its properties.
pub fn environment(
    nodes: usize,
    bug: Bug,
) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        system.nodes("member", nodes, |number| Member::new(number, nodes, bug));
        system.faults(Faults::none().lose(3).partition(1));
    }
}

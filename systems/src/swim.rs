//! Membership by gossip, after SWIM (Das, Gupta, Motivala, 2002) and Serf.
//!
//! Every node pings another now and then. If no answer comes, it asks a third to try; if none
//! comes then either, it suspects the node, and after a while declares it dead. Every message
//! carries what its sender has heard of anybody. A node that hears that it is suspected says that
//! it is alive, under a new incarnation, which outranks what was said under an older one.
//!
//! So whoever receives a message knows afterwards what its sender knew: Dinv's eventual consistency
//! (section 6.1), which follows the messages.

use std::collections::{BTreeMap, BTreeSet};

use everhold::prelude::*;

/// What is wrong with the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// Nothing.
    None,
    /// An answer carries only what its sender heard last, to keep it small.
    AnswersBriefly,
    /// A node believes what it hears last, whatever the incarnation: old rumours bring back what
    /// was denied.
    BelievesLast,
}

/// The time between pings.
const PROBE: Duration = Duration::from_secs(1);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_millis(300);
/// How long a suspect has to defend itself.
const SUSPICION: Duration = Duration::from_secs(5);

/// What is said about a member. Of one incarnation, the later in this list outranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Status {
    /// It says so itself.
    Alive,
    /// It did not answer.
    Suspect,
    /// It did not defend itself.
    Dead,
}

/// Where a member stands, as far as a node knows. A larger one outranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Standing {
    /// How often the member has had to defend itself.
    pub incarnation: u32,
    /// What is said.
    pub status: Status,
}

/// A piece of gossip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Event {
    /// About whom.
    pub member: NodeId,
    /// What.
    pub standing: Standing,
}

/// What the nodes say to each other; everything carries gossip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Msg {
    /// What is wanted.
    pub ask: Ask,
    /// What the sender has heard.
    pub gossip: BTreeSet<Event>,
}

/// What a message wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// Are you there? If so, tell this node.
    Ping(NodeId),
    /// Ping this node for me.
    PingFor(NodeId),
    /// I am.
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
    /// What of it was the last.
    latest: Option<Event>,
    /// Who was pinged and has not answered; whether others were asked to try.
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

    /// Others that are not known to be dead.
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

    /// Spreads that a member that was `before` is now `after`.
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

/// The name of the specification (Dinv, table 2: eventual consistency).
pub const TOLD: &str = "who receives a message knows what its sender knew";
/// Nor is anybody behind what they were told.
pub const UP_TO_DATE: &str = "who receives a message is as up to date as its sender";

/// The specifications in the language.
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

/// The system without properties.
pub fn environment(
    nodes: usize,
    bug: Bug,
) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        system.nodes("member", nodes, |number| Member::new(number, nodes, bug));
        system.faults(Faults::none().lose(3).partition(1));
    }
}

//! The failover manager: it launches replicas, elects primaries, and knows where each service is.

use std::collections::{BTreeMap, BTreeSet};

use everhold::prelude::*;

use super::{Msg, MsgOf, Name, Replica, Role, Service};

/// The known bugs of the platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Bug {
    /// No bug.
    None,
    /// When a secondary that waits for its copy is elected, the end of its waiting is taken for the
    /// arrival of the copy: it is promoted.
    PromotesElected,
}

/// A replica as the manager knows it.
#[derive(Clone, Copy, Debug, Serialize)]
struct Member {
    role: Role,
    awaits_copy: bool,
}

/// The replicas of a service; it always has a primary, since a failed one is replaced at once.
#[derive(Clone, Debug, Serialize)]
struct Group<S> {
    members: BTreeMap<NodeId, Member>,
    /// A service in its first state, for new replicas.
    #[serde(skip)]
    fresh: S,
    /// The number of elections.
    term: u32,
}

/// The platform.
#[derive(Clone, Debug, Serialize)]
#[serde(bound = "S: Serialize")]
pub struct Manager<S: Service> {
    bug: Bug,
    groups: Vec<Group<S>>,
    /// All replicas so far: calls of one that has failed may still arrive.
    replicas: BTreeSet<NodeId>,
    /// The number of failures to come.
    failures: u32,
    /// The number of elections of replicas without a copy of the state.
    pub losses: u32,
}

/// The time until a primary may fail.
const FAILURE: Duration = Duration::from_millis(100);

impl<S: Service> Manager<S> {
    /// A platform whose replicas are given for each service, the primary first, and on which so many
    /// primaries fail.
    pub fn new(bug: Bug, services: Vec<(S, Vec<NodeId>)>, failures: u32) -> Self {
        let replicas = services.iter().flat_map(|(_, nodes)| nodes.iter().copied()).collect();
        let member = |(at, node): (usize, NodeId)| {
            let role = if at == 0 { Role::Primary } else { Role::IdleSecondary };
            (node, Member { role, awaits_copy: at > 0 })
        };
        let group = |(fresh, nodes): (S, Vec<NodeId>)| Group {
            members: nodes.into_iter().enumerate().map(member).collect(),
            fresh,
            term: 0,
        };
        let groups = services.into_iter().map(group).collect();
        Manager { bug, groups, replicas, failures, losses: 0 }
    }

    fn primary(&self, service: Name) -> Option<NodeId> {
        let mut members = self.groups[service].members.iter();
        members.find(|(_, member)| member.role == Role::Primary).map(|(node, _)| *node)
    }

    fn call(&mut self, cx: &mut Cx<MsgOf<S>>, client: NodeId, service: Name, request: S::Request) {
        // A call of another service is answered by nobody.
        let client = if self.replicas.contains(&client) { cx.id() } else { client };
        if let Some(primary) = self.primary(service) {
            cx.send(primary, Msg::Request(client, request));
        }
    }

    /// Has the primary copy its state to all secondaries that wait for it.
    fn build(&mut self, cx: &mut Cx<MsgOf<S>>, service: Name) {
        let Some(primary) = self.primary(service) else { return };
        let group = &self.groups[service];
        for (node, _) in group.members.iter().filter(|(_, member)| member.awaits_copy) {
            cx.send(primary, Msg::Build(*node, group.term));
        }
    }

    /// A primary fails: a secondary takes its place, and a new replica is launched.
    fn fail(&mut self, cx: &mut Cx<MsgOf<S>>, service: Name) {
        let Some(failed) = self.primary(service) else { return };
        cx.send(failed, Msg::Fail);
        self.groups[service].members.remove(&failed);
        self.elect(cx, service);
        let fresh = self.groups[service].fresh.clone();
        let replica = Replica::new(cx.id(), Role::IdleSecondary, fresh);
        let node = cx.spawn("replica", replica);
        self.replicas.insert(node);
        let member = Member { role: Role::IdleSecondary, awaits_copy: true };
        self.groups[service].members.insert(node, member);
        self.build(cx, service);
    }

    fn elect(&mut self, cx: &mut Cx<MsgOf<S>>, service: Name) {
        self.groups[service].term += 1;
        let members = &mut self.groups[service].members;
        let active = members.iter().find(|(_, member)| member.role == Role::ActiveSecondary);
        let elected = active.or_else(|| members.iter().next()).map(|(node, _)| *node);
        let Some(elected) = elected else { return };
        for member in members.values_mut() {
            // Secondaries follow the new primary from its state on.
            member.awaits_copy = true;
        }
        let member = members.get_mut(&elected).expect("it was just found");
        let was_idle = member.role == Role::IdleSecondary;
        *member = Member { role: Role::Primary, awaits_copy: false };
        cx.send(elected, Msg::Become(Role::Primary, was_idle));
        if was_idle && self.bug == Bug::PromotesElected {
            cx.send(elected, Msg::Become(Role::ActiveSecondary, false));
        }
        self.losses += u32::from(was_idle);
    }

    /// A secondary has its copy.
    fn copied(&mut self, cx: &mut Cx<MsgOf<S>>, node: NodeId) {
        let member = self.groups.iter_mut().find_map(|group| group.members.get_mut(&node));
        let Some(member) = member else { return };
        member.awaits_copy = false;
        if member.role == Role::IdleSecondary {
            member.role = Role::ActiveSecondary;
            cx.send(node, Msg::Become(Role::ActiveSecondary, false));
        }
    }
}

impl<S: Service> Node for Manager<S> {
    type Msg = MsgOf<S>;

    fn start(&mut self, cx: &mut Cx<MsgOf<S>>) {
        for service in 0..self.groups.len() {
            self.build(cx, service);
        }
        cx.set_timer("a primary fails", FAILURE);
    }

    fn timer(&mut self, cx: &mut Cx<MsgOf<S>>, _: Timer) {
        let service = cx.choose("service that fails", self.groups.len());
        self.fail(cx, service);
        self.failures -= 1;
        if self.failures > 0 {
            cx.set_timer("a primary fails", FAILURE);
        }
    }

    fn message(&mut self, cx: &mut Cx<MsgOf<S>>, from: NodeId, msg: MsgOf<S>) {
        match msg {
            Msg::Call(service, request) => self.call(cx, from, service, request),
            Msg::Copied => self.copied(cx, from),
            other => cx.unexpected(other),
        }
    }
}

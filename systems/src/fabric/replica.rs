//! A replica: the platform's part in the process of a service.

use std::collections::BTreeMap;

use everhold::prelude::*;

use super::{Host, Msg, MsgOf, Role, Service};

/// The assertion that caught the model's own bug.
pub const PROMOTED: &str = "only an idle secondary is promoted";

/// A request whose operations are not on all secondaries yet.
#[derive(Clone, Debug, Serialize)]
struct Open {
    client: NodeId,
    number: u64,
}

/// A replica of a service.
#[derive(Clone, Debug, Serialize)]
pub struct Replica<S> {
    manager: NodeId,
    /// Its role.
    pub role: Role,
    /// The user's service.
    pub service: S,
    /// The number of operations that were applied.
    applied: u64,
    /// The secondaries of a primary with the operations that each has applied.
    secondaries: BTreeMap<NodeId, u64>,
    /// The primary from which the copy came, and the term in which that was.
    primary: Option<NodeId>,
    term: u32,
    open: Vec<Open>,
}

impl<S: Service> Replica<S> {
    /// A replica in a role.
    pub fn new(manager: NodeId, role: Role, service: S) -> Self {
        let (secondaries, open) = (BTreeMap::new(), Vec::new());
        Replica { manager, role, service, applied: 0, secondaries, primary: None, term: 0, open }
    }

    fn serve(&mut self, cx: &mut Cx<MsgOf<S>>, client: NodeId, request: S::Request) {
        let mut host = Host { operations: Vec::new(), calls: Vec::new() };
        self.service.request(&mut host, request);
        for operation in host.operations {
            self.applied += 1;
            self.service.apply(&operation);
            for secondary in self.secondaries.keys() {
                cx.send(*secondary, Msg::Operation(self.applied, operation.clone()));
            }
        }
        for (service, request) in host.calls {
            cx.send(self.manager, Msg::Call(service, request));
        }
        self.open.push(Open { client, number: self.applied });
        self.answer(cx);
    }

    /// Answers the requests whose operations are on all secondaries.
    fn answer(&mut self, cx: &mut Cx<MsgOf<S>>) {
        let everywhere = self.secondaries.values().copied().min().unwrap_or(u64::MAX);
        let open = self.open.iter().position(|open| open.number > everywhere);
        for served in self.open.drain(..open.unwrap_or(self.open.len())) {
            if served.client != self.manager {
                cx.send(served.client, Msg::Served);
            }
        }
    }

    fn change_role(&mut self, cx: &mut Cx<MsgOf<S>>, role: Role, data_lost: bool) {
        let (node, before) = (cx.id(), self.role);
        let is_right = role != Role::ActiveSecondary || before == Role::IdleSecondary;
        cx.check(is_right, PROMOTED, || format!("{node} was promoted as {before:?}"));
        self.role = role;
        if role == Role::Primary {
            // What the failed primary still sends comes too late: others have no part in it.
            self.primary = None;
        }
        if data_lost {
            self.service.data_lost();
        }
    }
}

impl<S: Service> Node for Replica<S> {
    type Msg = MsgOf<S>;

    fn message(&mut self, cx: &mut Cx<MsgOf<S>>, from: NodeId, msg: MsgOf<S>) {
        match msg {
            Msg::Request(client, request) => self.serve(cx, client, request),
            Msg::Operation(number, operation) if self.primary == Some(from) => {
                self.applied = number;
                self.service.apply(&operation);
                cx.send(from, Msg::Applied(number));
            }
            // A primary that failed had sent it.
            Msg::Operation(..) => {}
            Msg::Applied(number) => {
                if let Some(applied) = self.secondaries.get_mut(&from) {
                    *applied = number;
                }
                self.answer(cx);
            }
            Msg::Build(secondary, term) => {
                self.secondaries.insert(secondary, 0);
                cx.send(secondary, Msg::Copy(term, self.applied, self.service.copy()));
            }
            // Whoever was elected meanwhile, or has a later copy, needs none.
            Msg::Copy(term, ..) if self.role == Role::Primary || term < self.term => {}
            Msg::Copy(term, number, state) => {
                (self.primary, self.term) = (Some(from), term);
                self.applied = number;
                self.service.restore(state);
                cx.send(from, Msg::Applied(number));
                cx.send(self.manager, Msg::Copied);
            }
            Msg::Become(role, data_lost) => self.change_role(cx, role, data_lost),
            Msg::Fail => cx.halt(),
            other => cx.unexpected(other),
        }
    }
}

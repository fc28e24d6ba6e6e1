//! A replica, which leads its group, follows its primary, or waits.

use std::collections::{BTreeMap, BTreeSet};

use everhold::Time;
use everhold::prelude::*;

use super::{BEACON, GRACE, Group, LEASE, META, Msg, RETRY, STAGGER};

/// The role of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// It takes writes.
    Primary,
    /// It is named as primary, but does not know whether the others still agree.
    Waiting,
    /// It prepares the primary's writes.
    Secondary,
    /// It no longer belongs to the group.
    Spare,
}

/// A replica of the slice.
#[derive(Clone, Debug, Serialize)]
pub struct Replica {
    me: NodeId,
    role: Role,
    group: Group,
    log: Vec<u64>,
    /// For each secondary, the time at which the last beacon that it answered was sent.
    heard: BTreeMap<NodeId, Time>,
    /// The group that the replica asks for, and the time of its first request.
    asking: Option<(Group, Time)>,
    /// The version that it asked for before its last crash; the time of the agreement to it is
    /// unknown.
    asked_before: u64,
    /// Writes that some members have not prepared yet, with their clients and those members.
    pending: BTreeMap<u64, (Ticket, BTreeSet<NodeId>)>,
}

impl Replica {
    /// A member of the first group.
    #[must_use]
    pub fn new(me: NodeId) -> Replica {
        Replica {
            me,
            role: Role::Waiting,
            group: Group::first(),
            log: Vec::new(),
            heard: BTreeMap::new(),
            asking: None,
            asked_before: 0,
            pending: BTreeMap::new(),
        }
    }

    /// The present role.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Takes its role in the group.
    fn take_place(&mut self, cx: &mut Cx<Msg>) {
        for timer in ["beacon", "lease", "grace", "retry"] {
            cx.cancel_timer(timer);
        }
        self.asking = None;
        self.pending.clear();
        self.role = match self.group.primary == self.me {
            true => Role::Waiting,
            false if self.group.members.contains(&self.me) => Role::Secondary,
            false => Role::Spare,
        };
        if self.role == Role::Secondary {
            cx.set_timer("grace", self.grace());
        }
    }

    /// Leads as soon as all others have answered, or without those that do not answer.
    fn try_to_lead(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("beacon", BEACON);
        cx.set_timer("lease", LEASE);
        self.lead_if_heard(cx);
    }

    fn grace(&self) -> Duration {
        GRACE + STAGGER * self.me.0
    }

    /// Leads if all others have answered a beacon: for the length of a lease, counted from the
    /// oldest of these beacons.
    fn lead_if_heard(&mut self, cx: &mut Cx<Msg>) {
        let heard = |member| self.heard.get(&member).copied();
        let all: Option<Vec<Time>> = self.group.secondaries().map(heard).collect();
        let Some(all) = all else { return };
        let Some(earliest) = all.into_iter().min() else {
            // A single member needs no agreement, and no other replica can ask for a new group.
            self.role = Role::Primary;
            cx.cancel_timer("lease");
            return;
        };
        let until = earliest + LEASE;
        if until > cx.now() {
            self.role = Role::Primary;
            cx.set_timer("lease", until - cx.now());
        }
    }

    fn adopt(&mut self, cx: &mut Cx<Msg>, group: Group) {
        if group.version <= self.group.version {
            return;
        }
        let asked = self.asking.take().filter(|(asked, _)| *asked == group).map(|(_, at)| at);
        let asked = asked.filter(|_| group.version > self.asked_before);
        self.group = group;
        // The metadata server agreed at some time after the request.
        let agreed = self.group.secondaries().filter_map(|member| Some((member, asked?)));
        self.heard = agreed.collect();
        self.keep(cx);
        self.take_place(cx);
        match (self.role, asked) {
            (Role::Waiting, Some(_)) => self.try_to_lead(cx),
            // The request was made before a crash, and the replica may have agreed to the old
            // primary since.
            (Role::Waiting, None) => cx.set_timer("grace", self.grace()),
            _ => {}
        }
    }

    /// Stores the state on disk before any node hears of it.
    fn keep(&self, cx: &mut Cx<Msg>) {
        // One record, because of two, a crash before the sync may keep either without the other.
        cx.disk().save("state", &(&self.group, &self.log));
        cx.disk().sync();
    }

    fn ask(&mut self, cx: &mut Cx<Msg>, gone: &[NodeId]) {
        let group = self.group.without(gone, self.me);
        self.asking = Some((group.clone(), cx.now()));
        // An agreement to a request from before a crash may be older than a later request.
        cx.disk().save("asked", &group.version);
        cx.disk().sync();
        cx.send(META, Msg::Change(group));
        cx.set_timer("retry", RETRY);
    }

    fn ask_again(&self, cx: &mut Cx<Msg>) {
        if let Some((group, _)) = &self.asking {
            cx.send(META, Msg::Change(group.clone()));
            cx.set_timer("retry", RETRY);
        }
    }

    fn beacons(&self, cx: &mut Cx<Msg>) {
        for member in self.group.secondaries() {
            cx.send(member, Msg::Beacon(self.group.clone(), cx.now().0));
        }
        cx.set_timer("beacon", BEACON);
    }

    fn beacon(&mut self, cx: &mut Cx<Msg>, from: NodeId, group: Group, sent: u64) {
        if group.version < self.group.version {
            cx.send(from, Msg::Changed(self.group.clone()));
            return;
        }
        self.adopt(cx, group);
        if self.group.primary == from && self.role == Role::Secondary {
            // A replica that asked for another primary continues to ask: the answer may already be
            // in flight.
            if self.asking.is_none() {
                cx.set_timer("grace", self.grace());
                cx.send(from, Msg::Heard(self.group.version, sent));
            }
        }
    }

    fn heard(&mut self, cx: &mut Cx<Msg>, from: NodeId, version: u64, sent: Time) {
        if version == self.group.version && self.group.primary == self.me {
            let last = self.heard.entry(from).or_default();
            *last = sent.max(*last);
            if self.asking.is_none() {
                self.lead_if_heard(cx);
            }
        }
    }

    /// Continues without the secondaries that did not answer in time, if the metadata server
    /// agrees.
    fn lease_ends(&mut self, cx: &mut Cx<Msg>) {
        self.role = Role::Waiting;
        let silent =
            |member: &NodeId| self.heard.get(member).is_none_or(|h| *h + LEASE <= cx.now());
        let silent: Vec<NodeId> = self.group.secondaries().filter(silent).collect();
        self.ask(cx, &silent);
    }

    fn write(&mut self, cx: &mut Cx<Msg>, value: u64) {
        if self.role != Role::Primary {
            cx.reply(Msg::Elsewhere(self.group.primary));
            return;
        }
        self.log.push(value);
        self.keep(cx);
        for member in self.group.secondaries() {
            cx.send(member, Msg::Prepare(self.group.version, self.log.clone()));
        }
        let missing = self.group.secondaries().collect();
        self.pending.insert(self.log.len() as u64, (cx.ticket(), missing));
        self.answer_writes(cx);
    }

    fn prepare(&mut self, cx: &mut Cx<Msg>, from: NodeId, version: u64, log: Vec<u64>) {
        if version == self.group.version && from == self.group.primary {
            if log.len() > self.log.len() || !self.log.starts_with(&log) {
                self.log = log;
                self.keep(cx);
            }
            cx.send(from, Msg::Prepared(version, self.log.len() as u64));
        }
    }

    fn prepared(&mut self, cx: &mut Cx<Msg>, from: NodeId, version: u64, count: u64) {
        if version == self.group.version {
            for (_, (_, missing)) in self.pending.range_mut(..=count) {
                missing.remove(&from);
            }
            self.answer_writes(cx);
        }
    }

    fn answer_writes(&mut self, cx: &mut Cx<Msg>) {
        while let Some(first) = self.pending.first_entry() {
            if !first.get().1.is_empty() {
                return;
            }
            let (count, (ticket, _)) = first.remove_entry();
            cx.answer(ticket, Msg::Written(count));
        }
    }
}

impl Node for Replica {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        if let Some((group, log)) = cx.disk().load("state").expect("it was saved whole") {
            (self.group, self.log) = (group, log);
        }
        self.asked_before = cx.disk().load("asked").expect("it was saved whole").unwrap_or(0);
        self.take_place(cx);
        if self.role == Role::Waiting {
            self.beacons(cx);
            self.try_to_lead(cx);
        }
    }

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Write(value) => self.write(cx, value),
            Msg::Show => cx.reply(Msg::Shown(self.role, self.group.version)),
            Msg::Beacon(group, sent) => self.beacon(cx, from, group, sent),
            Msg::Heard(version, sent) => self.heard(cx, from, version, Time(sent)),
            Msg::Prepare(version, log) => self.prepare(cx, from, version, log),
            Msg::Prepared(version, count) => self.prepared(cx, from, version, count),
            Msg::Changed(group) => self.adopt(cx, group),
            other => cx.unexpected(other),
        }
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        match timer.name {
            "beacon" => self.beacons(cx),
            "lease" => self.lease_ends(cx),
            "grace" => self.ask(cx, &[self.group.primary]),
            _ => self.ask_again(cx),
        }
    }
}

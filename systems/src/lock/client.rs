//! A client: caches locks for its application, and returns them on request.

use std::collections::{BTreeMap, BTreeSet};

use everhold::Time;
use everhold::prelude::*;

use super::{LEASE, Lock, Mode, Msg, RENEW, SERVER};

/// Holds locks under a lease.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Client {
    /// The locks that it holds, in use or cached.
    held: BTreeMap<Lock, Mode>,
    in_use: BTreeSet<Lock>,
    /// The locks that the server wants back once they are not in use.
    asked_back: BTreeSet<Lock>,
    wanted: BTreeMap<Lock, (Mode, Ticket)>,
    /// The time until which it may hold locks.
    leased_until: Option<Time>,
}

impl Client {
    fn renew(cx: &mut Cx<Msg>) {
        cx.send(SERVER, Msg::Renew(cx.now().0));
        cx.set_timer("renew", RENEW);
    }

    fn renewed(&mut self, cx: &mut Cx<Msg>, asked: Time) {
        // The lease counts from the time of the request, while the server counts from a later time.
        let until = asked + LEASE;
        if until <= cx.now() {
            return;
        }
        cx.set_timer("lease", until - cx.now());
        if self.leased_until.replace(until).is_none() {
            for (lock, (mode, _)) in &self.wanted {
                cx.send(SERVER, Msg::Acquire(*lock, *mode));
            }
        }
    }

    /// Drops all locks at the end of the lease: other clients may hold them now.
    fn lose_all(&mut self) {
        self.leased_until = None;
        self.held.clear();
        self.in_use.clear();
        self.asked_back.clear();
    }

    fn want(&mut self, cx: &mut Cx<Msg>, lock: Lock, mode: Mode) {
        self.wanted.insert(lock, (mode, cx.ticket()));
        let cached = self.held.get(&lock).is_some_and(|held| held.covers(mode));
        if cached && !self.asked_back.contains(&lock) {
            self.hand_over(cx, lock);
        } else if self.leased_until.is_some() {
            cx.send(SERVER, Msg::Acquire(lock, mode));
        }
    }

    fn hand_over(&mut self, cx: &mut Cx<Msg>, lock: Lock) {
        if let Some((_, ticket)) = self.wanted.remove(&lock) {
            self.in_use.insert(lock);
            cx.answer(ticket, Msg::Have(lock));
        }
    }

    fn granted(&mut self, cx: &mut Cx<Msg>, lock: Lock, mode: Mode) {
        if self.leased_until.is_none_or(|until| until <= cx.now()) {
            // The grant arrived after the end of the lease.
            cx.send(SERVER, Msg::Release(lock));
            return;
        }
        self.held.insert(lock, mode);
        self.hand_over(cx, lock);
    }

    fn revoked(&mut self, cx: &mut Cx<Msg>, lock: Lock) {
        if self.in_use.contains(&lock) {
            self.asked_back.insert(lock);
        } else {
            self.give_back(cx, lock);
        }
    }

    fn give_back(&mut self, cx: &mut Cx<Msg>, lock: Lock) {
        self.asked_back.remove(&lock);
        self.held.remove(&lock);
        cx.send(SERVER, Msg::Release(lock));
    }

    fn done(&mut self, cx: &mut Cx<Msg>, lock: Lock) {
        self.in_use.remove(&lock);
        if self.asked_back.contains(&lock) {
            self.give_back(cx, lock);
        }
    }
}

impl Node for Client {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        Client::renew(cx);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        match msg {
            Msg::Want(lock, mode) => self.want(cx, lock, mode),
            Msg::Done(lock) => self.done(cx, lock),
            Msg::Grant(lock, mode) => self.granted(cx, lock, mode),
            Msg::Revoke(lock) => self.revoked(cx, lock),
            Msg::Renewed(asked) => self.renewed(cx, Time(asked)),
            other => cx.unexpected(other),
        }
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, timer: Timer) {
        match timer.name {
            "renew" => Client::renew(cx),
            _ => self.lose_all(),
        }
    }
}

//! Protocols about amounts: bank transfers, quotas, a semaphore.

use super::system::{Fields, Net, Protocol};

fn named(prefix: &str, count: usize, kind: &'static str) -> Vec<(String, &'static str)> {
    (0..count).map(|place| (format!("{prefix}{place}"), kind)).collect()
}

/// Accounts that send money to each other.
#[derive(Default)]
pub(super) struct Bank {
    accounts: [Account; 4],
}

#[derive(Clone, Copy)]
struct Account {
    balance: i64,
    sent: i64,
    received: i64,
    credited: i64,
    debited: i64,
}

impl Default for Account {
    fn default() -> Account {
        Account { balance: 100, sent: 0, received: 0, credited: 0, debited: 0 }
    }
}

impl Protocol for Bank {
    type Msg = i64;

    fn nodes(&self) -> Vec<(String, &'static str)> {
        named("bank", self.accounts.len(), "")
    }

    fn state(&self, node: usize) -> Fields {
        let own = self.accounts[node];
        vec![
            ("balance", own.balance.into()),
            ("sent", own.sent.into()),
            ("received", own.received.into()),
            ("credited", own.credited.into()),
            ("debited", own.debited.into()),
        ]
    }

    fn step(&mut self, node: usize, net: &mut Net<i64>) {
        let own = &mut self.accounts[node];
        let mut amount = 1 + net.random.below(60) as i64;
        if amount > own.balance {
            if net.mistake(12) {
                // It pays what it does not have.
            } else if net.random.once_in(2) && own.balance > 0 {
                amount = own.balance;
            } else {
                return;
            }
        }
        own.balance -= amount;
        own.debited += amount;
        own.sent += 1;
        let to = net.other(node, 4);
        net.send(to, "Transfer", vec![("amount", amount.into())], amount);
    }

    fn deliver(&mut self, node: usize, _: usize, amount: i64, _: &mut Net<i64>) {
        let own = &mut self.accounts[node];
        own.balance += amount;
        own.credited += amount;
        own.received += 1;
    }
}

/// A pool grants quota to workers, who use it and give it back.
pub(super) struct Quotas {
    free: i64,
    out: i64,
    /// Quota and use of each worker.
    workers: [(i64, i64); 4],
}

impl Default for Quotas {
    fn default() -> Quotas {
        Quotas { free: 600, out: 0, workers: [(0, 0); 4] }
    }
}

/// An amount that is asked for, granted, or given back.
pub(super) enum Quota {
    Ask(i64),
    Grant(i64),
    Return(i64),
}

impl Protocol for Quotas {
    type Msg = Quota;

    fn nodes(&self) -> Vec<(String, &'static str)> {
        [vec![("pool".to_owned(), "pool")], named("w", 4, "worker")].concat()
    }

    fn state(&self, node: usize) -> Fields {
        match node.checked_sub(1) {
            None => vec![("free", self.free.into()), ("out", self.out.into())],
            Some(worker) => {
                let (quota, used) = self.workers[worker];
                vec![("quota", quota.into()), ("used", used.into())]
            }
        }
    }

    fn step(&mut self, node: usize, net: &mut Net<Quota>) {
        let Some(worker) = node.checked_sub(1) else { return };
        let (quota, used) = &mut self.workers[worker];
        let amount = 1 + net.random.below(90) as i64;
        match net.random.below(5) {
            0 | 1 => net.send(0, "Ask", vec![("amount", amount.into())], Quota::Ask(amount)),
            2 if net.mistake(40) => *used = *quota + amount,
            2 => *used = (*used + amount).min(*quota),
            3 => *used = (*used - amount).max(0),
            _ if quota > used => {
                let back = amount.min(*quota - *used);
                *quota -= back;
                net.send(0, "Return", vec![("amount", back.into())], Quota::Return(back));
            }
            _ => {}
        }
    }

    fn deliver(&mut self, node: usize, from: usize, message: Quota, net: &mut Net<Quota>) {
        match message {
            Quota::Ask(amount) if self.free > 0 => {
                let amount = amount.min(self.free);
                self.free -= amount;
                self.out += amount;
                net.send(from, "Grant", vec![("amount", amount.into())], Quota::Grant(amount));
            }
            Quota::Ask(_) => {}
            Quota::Grant(amount) => self.workers[node - 1].0 += amount,
            Quota::Return(amount) => {
                self.free += amount;
                self.out -= amount;
            }
        }
    }
}

/// Four permits, of which each client has at most two.
pub(super) struct Semaphore {
    free: i64,
    held: i64,
    clients: [Client; 5],
}

impl Default for Semaphore {
    fn default() -> Semaphore {
        Semaphore { free: 4, held: 0, clients: Default::default() }
    }
}

#[derive(Clone, Copy, Default)]
struct Client {
    permits: i64,
    acquired: i64,
    released: i64,
    waiting: bool,
}

/// A permit that is asked for, granted, refused, or given back.
pub(super) enum Permit {
    Ask,
    Grant,
    Refuse,
    Return,
}

impl Protocol for Semaphore {
    type Msg = Permit;

    fn nodes(&self) -> Vec<(String, &'static str)> {
        [vec![("sem".to_owned(), "sem")], named("c", 5, "client")].concat()
    }

    fn state(&self, node: usize) -> Fields {
        let Some(client) = node.checked_sub(1) else {
            return vec![("free", self.free.into()), ("held", self.held.into())];
        };
        let own = self.clients[client];
        vec![
            ("permits", own.permits.into()),
            ("acquired", own.acquired.into()),
            ("released", own.released.into()),
            ("waiting", own.waiting.into()),
        ]
    }

    fn step(&mut self, node: usize, net: &mut Net<Permit>) {
        let Some(client) = node.checked_sub(1) else { return };
        let own = &mut self.clients[client];
        if own.permits > 0 && net.random.once_in(2) {
            own.permits -= 1;
            own.released += 1;
            net.send(0, "Return", vec![], Permit::Return);
        } else if own.permits < 2 && !own.waiting {
            own.waiting = true;
            net.send(0, "Ask", vec![], Permit::Ask);
        }
    }

    fn deliver(&mut self, node: usize, from: usize, message: Permit, net: &mut Net<Permit>) {
        match message {
            Permit::Ask if self.free > 0 || net.mistake(15) => {
                self.free -= 1;
                self.held += 1;
                net.send(from, "Grant", vec![], Permit::Grant);
            }
            Permit::Ask => net.send(from, "Refuse", vec![], Permit::Refuse),
            Permit::Return => {
                self.free += 1;
                self.held -= 1;
            }
            Permit::Grant | Permit::Refuse => {
                let own = &mut self.clients[node - 1];
                own.waiting = false;
                if matches!(message, Permit::Grant) {
                    own.permits += 1;
                    own.acquired += 1;
                }
            }
        }
    }
}

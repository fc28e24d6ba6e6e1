//! Protocols about who has what: stolen work, leases, views of a membership, one order for all.

use std::collections::BTreeSet;

use everhold_trace::Value;

use super::system::{Fields, Net, Protocol};

fn numbers(items: &BTreeSet<u64>) -> Value {
    Value::set(items.iter().copied())
}

fn names(prefix: &str, items: &BTreeSet<usize>) -> Value {
    Value::set(items.iter().map(|item| Value::from(format!("{prefix}{item}").as_str())))
}

/// Workers make tasks, do them, and steal them from each other.
#[derive(Default)]
pub(super) struct Stealing {
    made: u64,
    workers: [Thief; 4],
}

#[derive(Clone, Default)]
struct Thief {
    todo: BTreeSet<u64>,
    done: BTreeSet<u64>,
    asked: bool,
}

/// A demand, and tasks.
pub(super) enum Theft {
    Steal,
    Loot(BTreeSet<u64>),
}

impl Protocol for Stealing {
    type Msg = Theft;

    fn nodes(&self) -> Vec<(String, &'static str)> {
        (0..4).map(|place| (format!("thief{place}"), "")).collect()
    }

    fn state(&self, node: usize) -> Fields {
        let own = &self.workers[node];
        vec![
            ("todo", numbers(&own.todo)),
            ("done", numbers(&own.done)),
            ("hungry", own.asked.into()),
        ]
    }

    fn step(&mut self, node: usize, net: &mut Net<Theft>) {
        let own = &mut self.workers[node];
        if net.random.once_in(4) && own.todo.len() < 8 {
            self.made += 1;
            own.todo.insert(self.made);
        } else if let Some(task) = own.todo.pop_first() {
            own.done.insert(task);
        } else if !own.asked {
            own.asked = true;
            let from = net.other(node, 4);
            net.send(from, "Steal", vec![], Theft::Steal);
        }
    }

    fn deliver(&mut self, node: usize, from: usize, message: Theft, net: &mut Net<Theft>) {
        let own = &mut self.workers[node];
        match message {
            Theft::Steal => {
                let half = own.todo.iter().copied().take(own.todo.len().div_ceil(2));
                let loot: BTreeSet<u64> = half.collect();
                if !net.mistake(15) {
                    own.todo.retain(|task| !loot.contains(task));
                }
                net.send(from, "Loot", vec![("tasks", numbers(&loot))], Theft::Loot(loot));
            }
            Theft::Loot(tasks) => {
                own.asked = false;
                own.todo.extend(tasks);
            }
        }
    }
}

/// A table leases ten resources to clients.
pub(super) struct Leases {
    free: BTreeSet<usize>,
    leased: BTreeSet<usize>,
    clients: [Tenant; 4],
}

#[derive(Clone, Default)]
struct Tenant {
    held: BTreeSet<usize>,
    dirty: BTreeSet<usize>,
    asked: bool,
}

impl Default for Leases {
    fn default() -> Leases {
        let clients = Default::default();
        Leases { free: (0..10).collect(), leased: BTreeSet::new(), clients }
    }
}

/// A demand, a lease, a refusal, the end of a lease.
pub(super) enum Lease {
    Ask,
    Grant(usize),
    Refuse,
    Return(usize),
}

impl Protocol for Leases {
    type Msg = Lease;

    fn nodes(&self) -> Vec<(String, &'static str)> {
        let clients = (0..4).map(|place| (format!("tenant{place}"), "tenant"));
        [("table".to_owned(), "table")].into_iter().chain(clients).collect()
    }

    fn state(&self, node: usize) -> Fields {
        let Some(client) = node.checked_sub(1) else {
            return vec![("free", names("r", &self.free)), ("leased", names("r", &self.leased))];
        };
        let own = &self.clients[client];
        vec![
            ("held", names("r", &own.held)),
            ("dirty", names("r", &own.dirty)),
            ("waiting", own.asked.into()),
        ]
    }

    fn step(&mut self, node: usize, net: &mut Net<Lease>) {
        let Some(client) = node.checked_sub(1) else { return };
        let own = &mut self.clients[client];
        let one = own.held.iter().nth(net.random.pick(own.held.len().max(1))).copied();
        match (one, net.random.below(4)) {
            (Some(resource), 0) => {
                own.dirty.insert(resource);
            }
            (Some(resource), 1) => {
                own.dirty.remove(&resource);
            }
            (Some(resource), 2) if !own.dirty.contains(&resource) => {
                own.held.remove(&resource);
                let fields = vec![("resource", format!("r{resource}").as_str().into())];
                net.send(0, "Return", fields, Lease::Return(resource));
            }
            (_, 3) if !own.asked => {
                own.asked = true;
                net.send(0, "Ask", vec![], Lease::Ask);
            }
            _ => {}
        }
    }

    fn deliver(&mut self, node: usize, from: usize, message: Lease, net: &mut Net<Lease>) {
        match message {
            Lease::Ask => {
                let taken = self.leased.first().copied().filter(|_| net.mistake(20));
                let Some(resource) = taken.or(self.free.pop_first()) else {
                    net.send(from, "Refuse", vec![], Lease::Refuse);
                    return;
                };
                self.leased.insert(resource);
                let fields = vec![("resource", format!("r{resource}").as_str().into())];
                net.send(from, "Grant", fields, Lease::Grant(resource));
            }
            Lease::Return(resource) => {
                self.leased.remove(&resource);
                self.free.insert(resource);
            }
            Lease::Grant(_) | Lease::Refuse => {
                let own = &mut self.clients[node - 1];
                own.asked = false;
                if let Lease::Grant(resource) = message {
                    own.held.insert(resource);
                }
            }
        }
    }
}

/// Members that install views one after the other, as one of them says.
pub(super) struct Views {
    /// The views so far, with the leader of each.
    views: Vec<(BTreeSet<usize>, usize)>,
    installed: [usize; 5],
}

impl Default for Views {
    fn default() -> Views {
        Views { views: vec![((0..5).collect(), 0)], installed: [0; 5] }
    }
}

impl Protocol for Views {
    type Msg = usize;

    fn nodes(&self) -> Vec<(String, &'static str)> {
        (0..5).map(|place| (format!("m{place}"), "")).collect()
    }

    fn state(&self, node: usize) -> Fields {
        let view = self.installed[node];
        let (members, leader) = &self.views[view];
        vec![
            ("view", (view as u64).into()),
            ("members", names("m", members)),
            ("leader", format!("m{leader}").as_str().into()),
            ("member", members.contains(&node).into()),
        ]
    }

    fn step(&mut self, node: usize, net: &mut Net<usize>) {
        let view = self.installed[node];
        if view + 1 == self.views.len() && net.random.once_in(10) {
            let (mut members, _) = self.views[view].clone();
            let other = net.random.pick(5);
            if !members.remove(&other) || members.len() < 2 {
                members.insert(other);
            }
            let among: Vec<usize> = members.iter().copied().collect();
            let leader = if net.mistake(6) { other } else { among[net.random.pick(among.len())] };
            self.views.push((members, leader));
            self.installed[node] += 1;
        }
        let (view, to) = (self.installed[node], net.other(node, 5));
        net.send(to, "View", vec![("view", (view as u64).into())], view);
    }

    fn deliver(&mut self, node: usize, _: usize, view: usize, _: &mut Net<usize>) {
        self.installed[node] = self.installed[node].max(view);
    }
}

/// A sequencer numbers what is broadcast; replicas deliver it in that order, however it arrives.
#[derive(Default)]
pub(super) struct Sequencer {
    log: Vec<u64>,
    replicas: [Replica; 3],
}

#[derive(Clone, Default)]
struct Replica {
    delivered: Vec<u64>,
    early: BTreeSet<u64>,
}

/// The number of a broadcast, or a broadcast with its number and the replica that it is for.
pub(super) enum Order {
    Ask,
    Place(u64, usize),
}

impl Protocol for Sequencer {
    type Msg = Order;

    fn nodes(&self) -> Vec<(String, &'static str)> {
        let replicas = (0..3).map(|place| (format!("rep{place}"), "replica"));
        [("seq".to_owned(), "sequencer")].into_iter().chain(replicas).collect()
    }

    fn state(&self, node: usize) -> Fields {
        let list = |items: &[u64]| Value::list(items.iter().copied());
        let Some(replica) = node.checked_sub(1) else {
            return vec![("log", list(&self.log)), ("next", (self.log.len() as u64).into())];
        };
        let own = &self.replicas[replica];
        vec![
            ("delivered", list(&own.delivered)),
            ("next", (own.delivered.len() as u64).into()),
            ("early", numbers(&own.early)),
        ]
    }

    fn step(&mut self, node: usize, net: &mut Net<Order>) {
        if node > 0 && self.log.len() < 150 && net.random.once_in(3) {
            net.send(0, "Ask", vec![], Order::Ask);
        }
    }

    fn deliver(&mut self, node: usize, _: usize, message: Order, net: &mut Net<Order>) {
        let send = |to: usize, place: u64, replica: usize, net: &mut Net<Order>| {
            net.send(to, "Place", vec![("place", place.into())], Order::Place(place, replica));
        };
        match message {
            Order::Ask => {
                let place = self.log.len() as u64;
                self.log.push(place * 7 % 1009);
                for replica in 1..4 {
                    send(1 + net.random.pick(3), place, replica, net);
                }
            }
            Order::Place(place, replica) if replica != node => send(replica, place, replica, net),
            Order::Place(place, _) => {
                let (log, own) = (&self.log, &mut self.replicas[node - 1]);
                own.early.insert(place);
                if net.mistake(60) {
                    own.delivered.push(log[place as usize]);
                    return;
                }
                while own.early.remove(&(own.delivered.len() as u64)) {
                    own.delivered.push(log[own.delivered.len()]);
                }
            }
        }
    }
}

//! Protocols about logs that are acknowledged: a chain of copies, and a log with snapshots whose
//! leaders are elected.

use everhold_trace::Value;

use super::system::{Fields, Net, Protocol};

/// Updates run down a chain of four, acknowledgements run up.
#[derive(Default)]
pub(super) struct Chain {
    /// Of each link the last update that it has, and the last one that the tail has confirmed.
    links: [(u64, u64); 4],
}

/// Each with the number of the last update.
pub(super) enum Link {
    Down(u64),
    Up(u64),
}

impl Protocol for Chain {
    type Msg = Link;

    fn nodes(&self) -> Vec<(String, &'static str)> {
        (0..4).map(|place| (format!("link{place}"), "")).collect()
    }

    fn state(&self, node: usize) -> Fields {
        let (seq, stable) = self.links[node];
        vec![
            ("role", ["head", "middle", "middle", "tail"][node].into()),
            ("seq", seq.into()),
            ("stable", stable.into()),
        ]
    }

    fn step(&mut self, node: usize, net: &mut Net<Link>) {
        let own = &mut self.links[node];
        if node == 0 && net.random.once_in(2) {
            own.0 += 1;
        }
        if node > 0 && node < 3 && net.mistake(150) {
            own.1 = own.0 + 1;
        }
        let (seq, stable) = *own;
        if node < 3 {
            net.send(node + 1, "Down", vec![("seq", seq.into())], Link::Down(seq));
        } else {
            net.send(node - 1, "Up", vec![("seq", stable.into())], Link::Up(stable));
        }
    }

    fn deliver(&mut self, node: usize, from: usize, message: Link, net: &mut Net<Link>) {
        let own = &mut self.links[node];
        match message {
            Link::Down(seq) => {
                own.0 = own.0.max(seq);
                if node == 3 {
                    own.1 = own.0;
                    let stable = own.1;
                    net.send(from, "Up", vec![("seq", stable.into())], Link::Up(stable));
                }
            }
            Link::Up(stable) => {
                own.1 = own.1.max(stable);
                if node > 0 {
                    let stable = own.1;
                    net.send(node - 1, "Up", vec![("seq", stable.into())], Link::Up(stable));
                }
            }
        }
    }
}

/// Servers that elect leaders, replicate a log, and forget its beginning once it is applied.
#[derive(Default)]
pub(super) struct Snapshots {
    servers: [Server; 5],
}

#[derive(Clone, Default)]
struct Server {
    role: usize,
    term: u64,
    voted: Option<usize>,
    votes: usize,
    /// The terms of all entries ever.
    log: Vec<u64>,
    first: usize,
    commit: usize,
    applied: usize,
    matched: [usize; 5],
}

impl Server {
    fn last(&self) -> (u64, usize) {
        (self.log.last().copied().unwrap_or(0), self.log.len())
    }

    fn see(&mut self, term: u64) {
        if term > self.term {
            (self.term, self.voted, self.role, self.votes) = (term, None, 0, 0);
        }
    }
}

/// Each with the term.
pub(super) enum Rpc {
    Ask(u64, (u64, usize)),
    Vote(u64),
    Append(u64, Vec<u64>, usize),
    Ack(u64, usize),
}

impl Protocol for Snapshots {
    type Msg = Rpc;

    fn nodes(&self) -> Vec<(String, &'static str)> {
        (0..5).map(|place| (format!("s{place}"), "")).collect()
    }

    fn state(&self, node: usize) -> Fields {
        let own = &self.servers[node];
        let voted = own.voted.map_or(Value::Null, |node| format!("s{node}").as_str().into());
        let log = [("first", own.first as u64), ("last", own.log.len() as u64)];
        vec![
            ("role", ["Follower", "Candidate", "Leader"][own.role].into()),
            ("term", own.term.into()),
            ("voted_for", voted),
            ("log", Value::record(log)),
            ("commit", (own.commit as u64).into()),
            ("applied", (own.applied as u64).into()),
        ]
    }

    fn step(&mut self, node: usize, net: &mut Net<Rpc>) {
        let own = &mut self.servers[node];
        if own.applied < own.commit && net.random.once_in(2) {
            own.applied += 1;
        }
        if own.first + 2 < own.applied && net.random.once_in(3) {
            own.first = own.applied - net.random.pick(2);
        }
        if net.mistake(150) {
            own.first = own.commit + 1;
        }
        let term = own.term;
        if own.role == 2 {
            if net.random.once_in(2) {
                own.log.push(term);
            }
            for to in (0..5).filter(|to| *to != node) {
                let fields = vec![("term", term.into()), ("commit", (own.commit as u64).into())];
                net.send(to, "Append", fields, Rpc::Append(term, own.log.clone(), own.commit));
            }
        } else if net.random.once_in(30) {
            (own.term, own.voted, own.role, own.votes) = (term + 1, Some(node), 1, 1);
            let last = own.last();
            for to in (0..5).filter(|to| *to != node) {
                let fields = vec![("term", (term + 1).into()), ("last", (last.1 as u64).into())];
                net.send(to, "Ask", fields, Rpc::Ask(term + 1, last));
            }
        }
    }

    fn deliver(&mut self, node: usize, from: usize, message: Rpc, net: &mut Net<Rpc>) {
        let own = &mut self.servers[node];
        let (Rpc::Ask(term, ..) | Rpc::Vote(term) | Rpc::Append(term, ..) | Rpc::Ack(term, _)) =
            message;
        own.see(term);
        let own_term = own.term;
        match message {
            Rpc::Ask(term, last) => {
                let free = own.voted.is_none_or(|other| other == from);
                if term == own_term && free && last >= own.last() {
                    own.voted = Some(from);
                    net.send(from, "Vote", vec![("term", term.into())], Rpc::Vote(term));
                }
            }
            Rpc::Vote(term) if term == own_term && own.role == 1 => {
                own.votes += 1;
                if own.votes >= 3 {
                    own.role = 2;
                    own.matched = [0; 5];
                }
            }
            Rpc::Append(term, log, commit) if term == own_term => {
                own.role = 0;
                if log.len() >= own.log.len() || !own.log.starts_with(&log) {
                    own.log = log;
                }
                own.commit = own.commit.max(commit.min(own.log.len()));
                let len = own.log.len();
                let fields = vec![("term", term.into()), ("len", (len as u64).into())];
                net.send(from, "Ack", fields, Rpc::Ack(term, len));
            }
            Rpc::Ack(term, len) if term == own_term && own.role == 2 => {
                own.matched[from] = own.matched[from].max(len);
                let mut matched = own.matched;
                matched[node] = own.log.len();
                matched.sort_unstable();
                let most = matched[2];
                if most > own.commit && own.log[most - 1] == term {
                    own.commit = most;
                }
            }
            _ => {}
        }
    }
}

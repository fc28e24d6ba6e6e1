//! Protocols for which the engine was never changed: an auction, a barrier, shards that move.

use std::collections::BTreeSet;

use everhold_trace::Value;

use super::system::{Fields, Net, Protocol};

/// An auctioneer and four bidders, who each have one offer open at a time.
pub(super) struct Auction {
    round: u64,
    open: bool,
    best: u64,
    leader: Option<usize>,
    revenue: u64,
    bidders: [Bidder; 4],
}

#[derive(Clone)]
struct Bidder {
    round: u64,
    purse: u64,
    committed: u64,
    spent: u64,
}

impl Default for Auction {
    fn default() -> Auction {
        let bidder = Bidder { round: 0, purse: 400, committed: 0, spent: 0 };
        let bidders = [(); 4].map(|()| bidder.clone());
        Auction { round: 0, open: false, best: 0, leader: None, revenue: 0, bidders }
    }
}

/// A round begins, an offer in it, a higher one, the price of the winner.
pub(super) enum Bid {
    Open(u64),
    Offer(u64, u64),
    Outbid,
    Won(u64),
}

impl Auction {
    fn open(&mut self, net: &mut Net<Bid>) {
        self.round += 1;
        (self.open, self.best, self.leader) = (true, 0, None);
        for bidder in 1..5 {
            net.send(bidder, "Open", vec![("round", self.round.into())], Bid::Open(self.round));
        }
    }

    fn close(&mut self, net: &mut Net<Bid>) {
        self.open = false;
        if let Some(leader) = self.leader {
            self.revenue += self.best;
            net.send(leader, "Won", vec![("price", self.best.into())], Bid::Won(self.best));
        }
    }

    fn offered(&mut self, from: usize, round: u64, amount: u64, net: &mut Net<Bid>) {
        let leads = self.open && round == self.round && amount > self.best;
        let loser = if leads { self.leader.replace(from) } else { Some(from) };
        if leads {
            self.best = amount;
        }
        if let Some(loser) = loser {
            net.send(loser, "Outbid", vec![], Bid::Outbid);
        }
    }
}

impl Protocol for Auction {
    type Msg = Bid;

    fn nodes(&self) -> Vec<(String, &'static str)> {
        let bidders = (0..4).map(|place| (format!("bidder{place}"), "bidder"));
        [("hall".to_owned(), "auctioneer")].into_iter().chain(bidders).collect()
    }

    fn state(&self, node: usize) -> Fields {
        let Some(bidder) = node.checked_sub(1) else {
            return vec![
                ("round", self.round.into()),
                ("open", self.open.into()),
                ("best", self.best.into()),
                ("revenue", self.revenue.into()),
            ];
        };
        let own = &self.bidders[bidder];
        vec![
            ("round", own.round.into()),
            ("purse", own.purse.into()),
            ("committed", own.committed.into()),
            ("spent", own.spent.into()),
        ]
    }

    fn step(&mut self, node: usize, net: &mut Net<Bid>) {
        let Some(bidder) = node.checked_sub(1) else {
            match (self.open, net.random.below(8)) {
                (true, 0) => self.close(net),
                (false, 0..=2) => self.open(net),
                _ => {}
            }
            return;
        };
        let own = &mut self.bidders[bidder];
        if own.round > 0 && own.committed == 0 && own.purse > 0 {
            let most = own.purse.min(30);
            own.committed =
                if net.mistake(20) { own.purse + 5 } else { 1 + net.random.below(most) };
            let fields = vec![("round", own.round.into()), ("amount", own.committed.into())];
            net.send(0, "Offer", fields, Bid::Offer(own.round, own.committed));
        }
    }

    fn deliver(&mut self, node: usize, from: usize, message: Bid, net: &mut Net<Bid>) {
        if let Bid::Offer(round, amount) = message {
            self.offered(from, round, amount, net);
            return;
        }
        let own = &mut self.bidders[node - 1];
        match message {
            Bid::Open(round) => own.round = round,
            Bid::Outbid => own.committed = 0,
            Bid::Won(price) => {
                own.purse = own.purse.saturating_sub(price);
                own.spent += price;
                own.committed = 0;
            }
            Bid::Offer(..) => unreachable!("offers are for the auctioneer"),
        }
    }
}

/// Four workers that wait for each other after each phase, as a coordinator counts.
#[derive(Default)]
pub(super) struct Barrier {
    phase: u64,
    waiting: u64,
    workers: [Worker; 4],
}

#[derive(Clone, Default)]
struct Worker {
    phase: u64,
    finished: u64,
}

/// A worker has finished its phase, or all of them may go on.
pub(super) enum Pass {
    Arrive,
    Go(u64),
}

impl Protocol for Barrier {
    type Msg = Pass;

    fn nodes(&self) -> Vec<(String, &'static str)> {
        let workers = (0..4).map(|place| (format!("worker{place}"), "worker"));
        [("gate".to_owned(), "coordinator")].into_iter().chain(workers).collect()
    }

    fn state(&self, node: usize) -> Fields {
        let Some(worker) = node.checked_sub(1) else {
            return vec![("phase", self.phase.into()), ("waiting", self.waiting.into())];
        };
        let own = &self.workers[worker];
        vec![
            ("phase", own.phase.into()),
            ("finished", own.finished.into()),
            ("arrived", (own.finished > own.phase).into()),
        ]
    }

    fn step(&mut self, node: usize, net: &mut Net<Pass>) {
        let Some(worker) = node.checked_sub(1) else { return };
        let own = &mut self.workers[worker];
        if own.finished <= own.phase && net.random.once_in(3) {
            own.finished = own.phase + 1;
            net.send(0, "Arrive", vec![("phase", own.phase.into())], Pass::Arrive);
        }
    }

    fn deliver(&mut self, node: usize, _: usize, message: Pass, net: &mut Net<Pass>) {
        match message {
            Pass::Go(phase) => self.workers[node - 1].phase = phase,
            Pass::Arrive => {
                self.waiting += 1;
                if self.waiting < 4 && !(self.waiting == 3 && net.mistake(6)) {
                    return;
                }
                self.phase += 1;
                self.waiting = 0;
                for worker in 1..5 {
                    let fields = vec![("phase", self.phase.into())];
                    net.send(worker, "Go", fields, Pass::Go(self.phase));
                }
            }
        }
    }
}

/// Twelve shards on four servers, which a directory moves from one to another.
pub(super) struct Shards {
    started: u64,
    finished: u64,
    /// Where the directory believes each shard to be; nothing, while it moves.
    places: [Option<usize>; 12],
    servers: [Server; 4],
}

#[derive(Clone, Default)]
struct Server {
    owned: BTreeSet<u64>,
    shipped: u64,
    got: u64,
}

impl Default for Shards {
    fn default() -> Shards {
        let mut servers: [Server; 4] = Default::default();
        let mut places = [None; 12];
        for (shard, place) in places.iter_mut().enumerate() {
            *place = Some(shard % 4);
            servers[shard % 4].owned.insert(shard as u64);
        }
        Shards { started: 0, finished: 0, places, servers }
    }
}

/// Where a shard has to go, the shard, that it has arrived.
pub(super) enum Move {
    To(usize, u64),
    Shard(u64),
    Done(u64),
}

impl Protocol for Shards {
    type Msg = Move;

    fn nodes(&self) -> Vec<(String, &'static str)> {
        let servers = (0..4).map(|place| (format!("server{place}"), "server"));
        [("directory".to_owned(), "directory")].into_iter().chain(servers).collect()
    }

    fn state(&self, node: usize) -> Fields {
        let Some(server) = node.checked_sub(1) else {
            return vec![
                ("started", self.started.into()),
                ("finished", self.finished.into()),
                ("pending", (self.started - self.finished).into()),
            ];
        };
        let own = &self.servers[server];
        vec![
            ("owned", Value::set(own.owned.iter().copied())),
            ("shipped", own.shipped.into()),
            ("got", own.got.into()),
        ]
    }

    fn step(&mut self, node: usize, net: &mut Net<Move>) {
        let shard = net.random.pick(12);
        let Some(place) = self.places[shard].filter(|_| node == 0 && net.random.once_in(2)) else {
            return;
        };
        self.places[shard] = None;
        self.started += 1;
        let to = net.other(place, 4);
        let fields = vec![("shard", (shard as u64).into())];
        net.send(1 + place, "Move", fields, Move::To(to, shard as u64));
    }

    fn deliver(&mut self, node: usize, from: usize, message: Move, net: &mut Net<Move>) {
        let fields = |shard: u64| vec![("shard", shard.into())];
        match message {
            Move::To(to, shard) => {
                let own = &mut self.servers[node - 1];
                if !net.mistake(12) {
                    own.owned.remove(&shard);
                }
                own.shipped += 1;
                net.send(1 + to, "Shard", fields(shard), Move::Shard(shard));
            }
            Move::Shard(shard) => {
                let own = &mut self.servers[node - 1];
                own.owned.insert(shard);
                own.got += 1;
                net.send(0, "Done", fields(shard), Move::Done(shard));
            }
            Move::Done(shard) => {
                self.finished += 1;
                self.places[shard as usize] = Some(from - 1);
            }
        }
    }
}

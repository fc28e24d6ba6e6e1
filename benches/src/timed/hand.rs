//! A hand-written simulator for this one workload: a heap, arrays, and the same model.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::tokens::DELIVERIES;
use crate::measure::{Contender, Work};

const BYTES: u64 = 16;
const PROPAGATION: f64 = 1e6;
/// The time of a byte at 8 Mbit/s, in nanoseconds.
const PER_BYTE: u64 = 1_000;
/// The size in bytes above which a flow shares the sender's bandwidth.
const HEAVY: u64 = 300;
/// The number of points in the table of durations.
const POINTS: usize = 1_001;

struct Link {
    last_arrival: u64,
    bytes: u64,
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

struct Loop {
    nodes: u64,
    heap: BinaryHeap<Reverse<(u64, u64, u32, u32)>>,
    links: Vec<Link>,
    heavy: Vec<u64>,
    free_at: Vec<u64>,
    seen: Vec<u64>,
    table: Vec<u64>,
    random: Random,
    sequence: u64,
}

impl Loop {
    fn new(nodes: u64) -> Loop {
        let table = (0..POINTS).map(|at| 20_000 + at as u64 * 180).collect();
        Loop {
            nodes,
            heap: BinaryHeap::new(),
            links: Vec::new(),
            heavy: vec![0; nodes as usize],
            free_at: vec![0; nodes as usize],
            seen: vec![0; nodes as usize],
            table,
            random: Random(0),
            sequence: 0,
        }
    }

    fn send(&mut self, from: u32, now: u64) {
        let to = ((u128::from(self.random.next()) * u128::from(self.nodes)) >> 64) as u32;
        let link = &mut self.links[(u64::from(from) * self.nodes + u64::from(to)) as usize];
        let before = link.bytes;
        link.bytes += BYTES;
        let heavy = &mut self.heavy[from as usize];
        *heavy += u64::from(before <= HEAVY && link.bytes > HEAVY);
        let transmission = (*heavy).max(1) * BYTES * PER_BYTE;
        let delay = PROPAGATION / (1.0 - self.random.part()).cbrt();
        let begins = now.max(link.last_arrival.saturating_sub(PROPAGATION as u64));
        let arrival = (begins + transmission + delay as u64).max(link.last_arrival + 1);
        link.last_arrival = arrival;
        self.sequence += 1;
        self.heap.push(Reverse((arrival, self.sequence, from, to)));
    }

    fn duration(&mut self) -> u64 {
        let at = self.random.part() * (POINTS - 1) as f64;
        let (low, part) = (at as usize, at - (at as usize) as f64);
        self.table[low] + (part * (self.table[low + 1] - self.table[low]) as f64) as u64
    }

    /// Runs one execution; returns the number of deliveries.
    fn run(&mut self, seed: u64) -> u64 {
        self.random = Random(seed);
        self.heap.clear();
        self.links.clear();
        let links = (self.nodes * self.nodes) as usize;
        self.links.resize_with(links, || Link { last_arrival: 0, bytes: 0 });
        self.heavy.fill(0);
        self.free_at.fill(0);
        (0..self.nodes as u32).for_each(|node| self.send(node, 0));
        let mut deliveries = 0;
        while deliveries < DELIVERIES {
            let Some(Reverse((time, sequence, from, to))) = self.heap.pop() else { break };
            let free_at = self.free_at[to as usize];
            if free_at > time {
                self.heap.push(Reverse((free_at, sequence, from, to)));
                continue;
            }
            let link = &mut self.links[(u64::from(from) * self.nodes + u64::from(to)) as usize];
            let before = link.bytes;
            link.bytes -= BYTES;
            self.heavy[from as usize] -= u64::from(before > HEAVY && link.bytes <= HEAVY);
            let end = time + self.duration();
            self.free_at[to as usize] = end;
            self.seen[to as usize] += 1;
            self.send(to, end);
            deliveries += 1;
        }
        deliveries
    }
}

pub(crate) fn contender(nodes: u64) -> Contender {
    Contender::new("hand-written loop", move |executions| {
        let mut hand = Loop::new(nodes);
        let deliveries: u64 = (0..executions).map(|seed| hand.run(seed)).sum();
        std::hint::black_box(&hand.seen);
        Work { executions, units: deliveries, steps: deliveries }
    })
}

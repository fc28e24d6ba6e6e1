//! Calibration: traces of noise, in which nothing between two variables or two nodes is meant.

use everhold_infer::{Settings, always};
use everhold_trace::{EventKind, Execution, TraceBuilder, Value};

use super::judge::is_refuted;
use super::system::Random;
use crate::measure::{Bound, Scorecard, Size};
use crate::table::Table;

/// Lines as sure as this are counted.
const SURE: f64 = 0.9999;
/// A sample that is this many times larger refutes.
const TIMES: usize = 10;

pub(super) fn run(size: Size, scores: &mut Scorecard) {
    let runs = size.pick(5, 1_000);
    let (mut lines, mut sure, mut wrong, mut hit) = (0, 0, 0, 0);
    for seed in 0..runs {
        let found = always(&[&noise(seed, 200)], &Settings::default().threads(1));
        let own: Vec<_> = found.lines.iter().filter(|line| line.confidence >= SURE).collect();
        let larger: Vec<Execution> =
            if own.is_empty() { Vec::new() } else { vec![noise(seed, 200 * TIMES)] };
        let false_here = own.iter().filter(|line| is_refuted(&line.property, &larger)).count();
        lines += found.lines.len();
        sure += own.len();
        wrong += false_here;
        hit += u64::from(false_here > 0);
    }
    let mut table = Table::new(&["runs", "lines", "over 99.99 % sure", "false", "runs with one"]);
    let cells = [runs as usize, lines, sure, wrong, hit as usize];
    table.row(cells.iter().map(ToString::to_string).collect());
    table.print("Noise: lines about variables without meaning");
    if size == Size::Full {
        let share = hit as f64 / runs as f64;
        scores.hold("noise: runs with a false line at 99.99 %", share, Bound::AtMost(0.001));
    }
}

/// How a variable without meaning behaves; drawn anew for each trace.
#[derive(Clone, Copy)]
enum Behaviour {
    /// The variable grows by one; the number is the average of steps between two changes.
    Counter(u64),
    /// The variable takes a random value; the numbers are the count of values and the average of steps between two changes.
    Drawn(u64, u64),
    /// The variable is a flag; the number is the average of steps between two changes.
    Flag(u64),
    /// One of three texts, likewise.
    Mode(u64),
}

impl Behaviour {
    fn draw(random: &mut Random) -> Behaviour {
        let often = [1, 2, 5, 20, 60][random.pick(5)];
        match random.below(6) {
            0 | 1 => Behaviour::Counter(often),
            2 => Behaviour::Drawn(3 + random.below(4), often),
            3 => Behaviour::Drawn(1_000, often),
            4 => Behaviour::Flag(often),
            _ => Behaviour::Mode(often),
        }
    }

    fn step(self, value: &mut u64, random: &mut Random) {
        match self {
            Behaviour::Counter(often) => *value += u64::from(random.once_in(often)),
            Behaviour::Drawn(values, often) if random.once_in(often) => {
                *value = random.below(values);
            }
            Behaviour::Flag(often) if random.once_in(often) => *value ^= 1,
            Behaviour::Mode(often) if random.once_in(often) => *value = random.below(3),
            _ => {}
        }
    }

    fn shown(self, value: u64) -> Value {
        match self {
            Behaviour::Flag(_) => (value == 1).into(),
            Behaviour::Mode(_) => ["idle", "busy", "done"][value as usize].into(),
            _ => value.into(),
        }
    }
}

/// Three nodes with five variables each that have nothing to do with each other, and messages
/// that say nothing. The seed decides how the variables behave, so that a longer trace is a larger
/// sample of the same system.
fn noise(seed: u64, events: usize) -> Execution {
    let mut random = Random::new(seed + 1);
    let behaviours: Vec<Behaviour> = (0..5).map(|_| Behaviour::draw(&mut random)).collect();
    let names = ["alpha", "beta", "gamma", "delta", "epsilon"];
    let mut trace = TraceBuilder::new();
    let ids: Vec<_> = (0..3).map(|node| trace.add_node(&format!("n{node}"), "")).collect();
    let mut values = [[0; 5]; 3];
    let mut flying = Vec::new();
    let mut random = Random::new(random.below(1 << 40) + events as u64);
    for _ in 0..events {
        let arrives = flying.len() as u64 > random.below(4);
        let node = if arrives {
            let (to, message) = flying.swap_remove(random.pick(flying.len()));
            trace.begin(ids[to], EventKind::Deliver { message });
            to
        } else {
            let node = random.pick(3);
            trace.begin(ids[node], EventKind::Local { name: "step".into() });
            if random.once_in(2) {
                let to = (node + 1 + random.pick(2)) % 3;
                flying.push((to, trace.send(ids[to], "m", None)));
            }
            node
        };
        for (behaviour, value) in behaviours.iter().zip(&mut values[node]) {
            behaviour.step(value, &mut random);
        }
        let fields = behaviours.iter().zip(&values[node]);
        let fields = names.iter().zip(fields).map(|(name, (b, value))| (*name, b.shown(*value)));
        trace.observe(Value::record(fields));
    }
    trace.finish()
}

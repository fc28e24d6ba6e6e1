//! A node of the service that is watched: a process with a probe, which holds locks as it is told.
//!
//! It reads commands from its standard input and answers each with a line, so that whoever gives
//! the commands knows the real order of what the nodes do:
//!
//! - `take KEY [ENVELOPE]`: takes a lock, perhaps on the message of another node.
//! - `give KEY`: gives it back; the answer carries an envelope.
//! - `ask KEY`, `got KEY`: begins to wait for something, and has it.
//! - `offer RATE`: takes and gives back shared locks of its own, so many times a second from now on.

use std::collections::BTreeSet;
use std::io::stdin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use everhold_live::{NodeId, Probe, Report, Var};

/// How many shared locks a node uses for what it offers.
const SHARED: usize = 10_000;

/// The first key of these, for each node its own.
const SHARED_FROM: i64 = 1_000_000_000;

/// The tuples of a node, locked while they change and while they are told again.
#[derive(Default)]
struct State {
    locks: BTreeSet<i64>,
    asked: BTreeSet<i64>,
    shared: Vec<bool>,
    /// How many tuples a second it offers.
    rate: f64,
}

struct Node {
    id: u32,
    probe: Probe,
    locks: Var,
    asked: Var,
    state: Arc<Mutex<State>>,
}

/// The value of a word `name=value`.
pub(super) fn setting<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// `id=N checkers=ADDRESS,... [secret=...] [offset=MICROS]`: obeys until its standard input ends.
pub(super) fn run(words: &[&str]) {
    let node = Node::start(words);
    for line in stdin().lines().map_while(Result::ok) {
        let answer = node.obey(&line);
        println!("ok {answer}");
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("nobody panics with it")
}

impl Node {
    fn start(words: &[&str]) -> Node {
        let word = |name| setting(words, name);
        let id: u32 = word("id").and_then(|id| id.parse().ok()).expect("a number");
        let checkers = word("checkers").expect("they are named").split(',');
        let checkers = checkers.map(|address| address.parse().expect("an address"));
        let state = Arc::new(Mutex::new(State::default()));
        let shown = Arc::clone(&state);
        let mut probe = Probe::to_checkers(checkers)
            .system("faults")
            .node(NodeId(id), &format!("n{id}"), "server")
            .report(Report::to(|line| println!("report {line}")))
            .refresh(move |probe| lock(&shown).tell(id, probe));
        if let Some(secret) = word("secret") {
            probe = probe.secret(secret);
        }
        if let Some(offset) = word("offset") {
            probe = probe.clock_offset(offset.parse().expect("microseconds"));
        }
        let probe = probe.start();
        let (locks, asked) = (probe.var("locks"), probe.var("asked"));
        Node { id, probe, locks, asked, state }
    }

    fn obey(&self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        let number = words[1].parse::<i64>().expect("a number");
        let mut state = lock(&self.state);
        match words[0] {
            "take" => {
                if let Some(envelope) = words.get(2).and_then(|word| word.parse().ok()) {
                    let _ = self.probe.receive(envelope);
                }
                state.locks.insert(number);
                self.probe.add(self.locks, number, "exclusive");
            }
            "give" => {
                state.locks.remove(&number);
                self.probe.remove(self.locks, number, "exclusive");
                return self.probe.send(None, self.probe.var("given")).to_string();
            }
            "ask" => {
                state.asked.insert(number);
                self.probe.add(self.asked, number, true);
            }
            "got" => {
                state.asked.remove(&number);
                self.probe.remove(self.asked, number, true);
            }
            "offer" => {
                state.rate = number as f64;
                if state.shared.is_empty() {
                    state.shared = vec![false; SHARED];
                    self.offer();
                }
            }
            other => panic!("no command {other}"),
        }
        self.probe.dropped().to_string()
    }

    fn offer(&self) {
        let (probe, locks) = (self.probe.clone(), self.locks);
        let (id, state) = (self.id, Arc::clone(&self.state));
        thread::spawn(move || {
            let (mut looked, mut due, mut offered) = (Instant::now(), 0.0, 0_u64);
            loop {
                due += looked.elapsed().as_secs_f64() * lock(&state).rate;
                looked = Instant::now();
                while offered < due as u64 {
                    let at = (offered.wrapping_mul(2_654_435_761) % SHARED as u64) as usize;
                    lock(&state).toggle(id, at, &probe, locks);
                    offered += 1;
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
    }
}

fn shared_key(id: u32, at: usize) -> i64 {
    SHARED_FROM * i64::from(id + 1) + at as i64
}

impl State {
    fn toggle(&mut self, id: u32, at: usize, probe: &Probe, locks: Var) {
        self.shared[at] = !self.shared[at];
        match self.shared[at] {
            true => probe.add(locks, shared_key(id, at), "shared"),
            false => probe.remove(locks, shared_key(id, at), "shared"),
        }
    }

    /// Everything that the node shows.
    fn tell(&self, id: u32, probe: &Probe) {
        let (locks, asked) = (probe.var("locks"), probe.var("asked"));
        self.locks.iter().for_each(|key| probe.add(locks, *key, "exclusive"));
        self.asked.iter().for_each(|key| probe.add(asked, *key, true));
        let held = self.shared.iter().enumerate().filter(|(_, held)| **held);
        held.for_each(|(at, _)| probe.add(locks, shared_key(id, at), "shared"));
    }
}

//! A lock service in Rust whose functions panic.

use std::io::BufRead;
use std::panic::catch_unwind;

pub struct Stats {
    acquired: u32,
}

pub enum Mode {
    Shared,
    Exclusive,
}

pub struct ClientNode {
    node_id: u64,
    name: String,
    stats: Box<Stats>,
}

impl ClientNode {
    #[inline(never)]
    pub fn on_lock_acquired(&mut self, lock: u64, mode: Mode, why: &str) -> Result<u64, u32> {
        self.stats.acquired += 1;
        if lock % 2 == 1 {
            panic!("{why}: {} cannot have {lock}", self.name);
        }
        match mode {
            Mode::Exclusive if lock > 1_000_000 => Err(self.node_id as u32),
            Mode::Exclusive => Ok(lock),
            Mode::Shared => Ok(lock + 1),
        }
    }
}

fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let name = std::env::args().nth(2).unwrap();
    let mut node = ClientNode { node_id: 7, name, stats: Box::new(Stats { acquired: 0 }) };
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let number: u64 = line.split(' ').nth(1).unwrap().parse().unwrap();
        let mut sum = 0;
        for lock in 0..number {
            let node = std::panic::AssertUnwindSafe(&mut node);
            let mode = if lock % 4 == 0 { Mode::Exclusive } else { Mode::Shared };
            sum += catch_unwind(move || {
                let node = node;
                node.0.on_lock_acquired(lock, mode, "odd").unwrap_or(0)
            })
            .unwrap_or(1);
        }
        println!("done {line} {sum}");
    }
}

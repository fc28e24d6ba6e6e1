//! Habits: in some executions, the answers to the choices of nodes are not uniform.
//!
//! Uniform answers make combinations rare: that two clients remove all rows of a table takes eight
//! choices that are all the same. With a habit, an execution prefers some answers to a question
//! throughout, so that such executions are as likely as others. The idea is that of swarm testing
//! (Groce et al., ISSTA 2012): a test that leaves out some features goes deeper into the others.

use everhold_node::NodeId;
use everhold_node::fingerprint::mix;

use crate::rng::Rng;

/// One answer in this many is uniform despite a habit, so that other answers still occur.
const EXCEPT_ONE_IN: u32 = 8;
/// The number of attempts to draw an answer that a habit permits.
const ATTEMPTS: u32 = 4;

/// The habits of an execution; they are a function of its seed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Habits {
    seed: u64,
    /// Whether there are any.
    on: bool,
    /// Whether all nodes have the same ones.
    shared: bool,
}

impl Habits {
    /// The habits of the execution with this seed.
    pub(crate) fn of(seed: u64) -> Habits {
        let seed = mix(seed, 0x4AB1_7500);
        Habits { seed, on: true, shared: seed & 1 == 0 }
    }

    /// Whether there are any; the default is to have none.
    pub(crate) fn are_on(self) -> bool {
        self.on
    }

    /// An answer to a question with this many possible answers.
    #[inline]
    pub(crate) fn choose(self, rng: &mut Rng, node: NodeId, label: &str, domain: u32) -> u32 {
        let uniform = rng.below(domain);
        if !self.on { uniform } else { self.prefer(rng, node, label, domain, uniform) }
    }

    /// Half of the questions have a favourite answer, a quarter are answered with some of the possible
    /// answers, and a quarter uniformly.
    fn prefer(self, rng: &mut Rng, node: NodeId, label: &str, domain: u32, uniform: u32) -> u32 {
        if rng.one_in(EXCEPT_ONE_IN) {
            return uniform;
        }
        let who = if self.shared { 0 } else { u64::from(node.0) + 1 };
        let question = mix(mix(self.seed, who), mix(hash_of(label), u64::from(domain)));
        match question & 3 {
            0 => uniform,
            1 => {
                let permits = |answer: u32| mix(question, u64::from(answer)) & 1 == 0;
                let mut drawn = (0..ATTEMPTS).map(|_| rng.below(domain));
                drawn.find(|answer| permits(*answer)).unwrap_or(uniform)
            }
            _ => (((question >> 32) * u64::from(domain)) >> 32) as u32,
        }
    }
}

/// FNV-1a, which is fast for the short names of questions.
fn hash_of(label: &str) -> u64 {
    label.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of executions in which a node gives the same answer eight times.
    fn same_eight(habits: bool) -> f64 {
        const EXECUTIONS: u64 = 2_000;
        let is_same = |seed: &u64| {
            let habits = if habits { Habits::of(*seed) } else { Habits::default() };
            let mut rng = Rng::new(*seed);
            let mut answer = || habits.choose(&mut rng, NodeId(1), "kind", 7);
            let first = answer();
            (1..8).all(|_| answer() == first)
        };
        (0..EXECUTIONS).filter(is_same).count() as f64 / EXECUTIONS as f64
    }

    /// Uniform answers agree with probability 7^-7 < 2e-6, so that one of 2,000 does with 0.3 %; with
    /// habits it is half of (7/8 + 1/56)^8 or so, 0.2.
    #[test]
    fn the_same_answer_is_likely_with_habits_alone() {
        assert!(same_eight(false) < 0.002);
        assert!(same_eight(true) > 0.1, "{}", same_eight(true));
    }

    /// Each number is missed by 400 executions with probability (1 - 1/8/7)^400 < 1e-3 at most; the
    /// seeds are fixed.
    #[test]
    fn habits_reach_every_answer() {
        let mut seen = [false; 7];
        for seed in 0..400 {
            let mut rng = Rng::new(seed);
            seen[Habits::of(seed).choose(&mut rng, NodeId(0), "row", 7) as usize] = true;
        }
        assert_eq!(seen, [true; 7]);
    }
}

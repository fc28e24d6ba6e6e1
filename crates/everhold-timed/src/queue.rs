//! What is to come, earliest first: a heap of four branches over one word per entry.
//!
//! Most entries that are taken are followed by one that is put in (a message arrives, the node
//! sends the next), so taking leaves a hole at the top which the next entry fills: one walk
//! through the heap instead of two.

/// Entries in order of time; equal times in order of the tie, then of the slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    heap: Vec<u128>,
    /// The entry at the top was taken already.
    hole: bool,
}

const BRANCHES: usize = 4;

impl Queue {
    #[inline]
    pub(crate) fn push(&mut self, time: u64, tie: u32, slot: u32) {
        let key = (u128::from(time) << 64) | (u128::from(tie) << 32) | u128::from(slot);
        if self.hole {
            self.hole = false;
            self.sink(key);
        } else {
            self.heap.push(key);
            self.rise(key);
        }
    }

    /// The earliest entry: its time and slot.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(u64, u32)> {
        self.close();
        let key = *self.heap.first()?;
        self.hole = true;
        Some(((key >> 64) as u64, key as u32))
    }

    /// Takes the last `pop` back, if nothing was pushed since.
    pub(crate) fn unpop(&mut self) {
        self.hole = false;
    }

    /// The time of the earliest entry.
    #[inline]
    pub(crate) fn next_time(&mut self) -> Option<u64> {
        self.close();
        self.heap.first().map(|key| (key >> 64) as u64)
    }

    pub(crate) fn clear(&mut self) {
        self.heap.clear();
        self.hole = false;
    }

    #[inline]
    fn close(&mut self) {
        if self.hole {
            self.hole = false;
            if let Some(last) = self.heap.pop()
                && !self.heap.is_empty()
            {
                self.sink(last);
            }
        }
    }

    /// Puts `key` where the top was.
    #[inline]
    fn sink(&mut self, key: u128) {
        let heap = self.heap.as_mut_slice();
        let mut at = 0;
        loop {
            let first = at * BRANCHES + 1;
            let Some(below) = heap.get(first..heap.len().min(first + BRANCHES)) else { break };
            let Some((least, value)) = least(below) else { break };
            if value >= key {
                break;
            }
            heap[at] = value;
            at = first + least;
        }
        heap[at] = key;
    }

    /// Moves the last entry up to its place.
    #[inline]
    fn rise(&mut self, key: u128) {
        let heap = self.heap.as_mut_slice();
        let mut at = heap.len() - 1;
        while at > 0 {
            let above = (at - 1) / BRANCHES;
            if heap[above] <= key {
                break;
            }
            heap[at] = heap[above];
            at = above;
        }
        heap[at] = key;
    }
}

#[inline]
fn least(of: &[u128]) -> Option<(usize, u128)> {
    if let [a, b, c, d] = *of {
        // Two rounds without a loop, which the processor need not guess.
        let first = if b < a { (1, b) } else { (0, a) };
        let second = if d < c { (3, d) } else { (2, c) };
        return Some(if second.1 < first.1 { second } else { first });
    }
    of.iter().copied().enumerate().min_by_key(|entry| entry.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use everhold_sim::rng::Rng;

    /// Against a sorted list, with times from a small range so that ties are common.
    #[test]
    fn it_is_a_sorted_list() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let (mut queue, mut list) = (Queue::default(), Vec::new());
            for slot in 0..400 {
                if rng.below(5) < 2 {
                    list.sort_unstable();
                    let first = (!list.is_empty()).then(|| list.remove(0));
                    assert_eq!(queue.next_time(), first.map(|(time, ..): (u64, u32, u32)| time));
                    assert_eq!(queue.pop(), first.map(|(time, _, slot)| (time, slot)));
                } else {
                    let entry = (u64::from(rng.below(20)), rng.below(3), slot);
                    queue.push(entry.0, entry.1, entry.2);
                    list.push(entry);
                }
            }
            list.sort_unstable();
            let left: Vec<(u64, u32)> = std::iter::from_fn(|| queue.pop()).collect();
            let listed: Vec<_> = list.iter().map(|(time, _, slot)| (*time, *slot)).collect();
            assert_eq!(left, listed);
        }
    }
}

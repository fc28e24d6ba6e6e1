//! The queue of future events, earliest first: a 4-ary heap with one word per entry.
//!
//! Most removals are followed by an insertion (a message arrives and the node sends the next one),
//! so a removal leaves a hole at the top which the next entry fills. This takes one walk through
//! the heap instead of two.

/// Entries ordered by time, then by the tie-breaker, then by the slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    heap: Vec<u128>,
    /// Whether the entry at the top has been removed already.
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

    /// Removes the earliest entry and returns its time and slot.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(u64, u32)> {
        self.close();
        let key = *self.heap.first()?;
        self.hole = true;
        Some(((key >> 64) as u64, key as u32))
    }

    /// Undoes the last `pop`, if nothing was pushed since.
    pub(crate) fn unpop(&mut self) {
        self.hole = false;
    }

    /// Returns the time of the earliest entry.
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

    /// Sifts `key` down from the top.
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

    /// Sifts the last entry up to its place.
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
        // Two rounds without a loop, which the processor executes without branch mispredictions.
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

    /// Compares with a sorted list, with times from a small range so that ties are common.
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

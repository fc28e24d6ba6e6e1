//! Sets of rows as words of 64 bits, and how many rows they have in common.
//!
//! The counting loops are written once, plainly; they are compiled for each vector width, and the
//! widest that the machine has is chosen when the program starts.

use fearless_simd::{Level, dispatch};

/// Which vectors to count with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counter(Option<Level>);

impl Counter {
    /// The widest vectors of this machine.
    pub(crate) fn widest() -> Counter {
        Counter(Some(Level::new()))
    }

    /// No vectors beyond those that every machine of this architecture has.
    #[cfg(test)]
    pub(crate) fn portable() -> Counter {
        Counter(None)
    }

    /// Keeps in `kept` the rows that are in all of `sets`, and says how many they are.
    ///
    /// # Panics
    ///
    /// If there is no set, or if they differ in length.
    pub(crate) fn meet(self, sets: &[&[u64]], kept: &mut Vec<u64>) -> u64 {
        match self.0 {
            Some(level) => dispatch!(level, _simd => meet(sets, kept)),
            None => meet(sets, kept),
        }
    }

    /// How many rows two sets have in common.
    pub(crate) fn common(self, a: &[u64], b: &[u64]) -> u64 {
        match self.0 {
            Some(level) => dispatch!(level, _simd => common(a, b)),
            None => common(a, b),
        }
    }
}

#[inline(always)]
fn common(a: &[u64], b: &[u64]) -> u64 {
    assert_eq!(a.len(), b.len(), "sets of the same rows");
    a.iter().zip(b).map(|(a, b)| u64::from((a & b).count_ones())).sum()
}

#[inline(always)]
fn meet(sets: &[&[u64]], kept: &mut Vec<u64>) -> u64 {
    kept.clear();
    match sets {
        [] => panic!("a property has a literal"),
        [only] => {
            kept.extend_from_slice(only);
            only.iter().map(|word| u64::from(word.count_ones())).sum()
        }
        [a, b, rest @ ..] => {
            assert_eq!(a.len(), b.len(), "sets of the same rows");
            kept.extend(a.iter().zip(*b).map(|(a, b)| a & b));
            for set in rest {
                assert_eq!(a.len(), set.len(), "sets of the same rows");
                kept.iter_mut().zip(*set).for_each(|(kept, word)| *kept &= word);
            }
            kept.iter().map(|word| u64::from(word.count_ones())).sum()
        }
    }
}

/// The words that hold so many rows.
pub(crate) fn words(rows: usize) -> usize {
    rows.div_ceil(64)
}

/// The set of the rows of which `test` is true.
pub(crate) fn collect(rows: usize, mut test: impl FnMut(usize) -> bool) -> Vec<u64> {
    let mut set = Vec::with_capacity(words(rows));
    for start in (0..rows).step_by(64) {
        let end = (start + 64).min(rows);
        let bits = (start..end).map(|row| u64::from(test(row)) << (row - start));
        set.push(bits.fold(0, |word, bit| word | bit));
    }
    set
}

/// The rows of a set, in order.
pub(crate) fn rows(set: &[u64]) -> impl Iterator<Item = usize> {
    set.iter().enumerate().flat_map(|(place, word)| {
        let mut left = *word;
        std::iter::from_fn(move || {
            let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(place * 64 + bit)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fixed sequence of words that look random.
    fn noise(seed: u64, words: usize) -> Vec<u64> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state ^ (state >> 29)
        };
        (0..words).map(|_| next()).collect()
    }

    #[test]
    fn every_width_counts_alike() {
        for words in [0, 1, 3, 8, 63, 64, 257, 1024] {
            let sets: Vec<Vec<u64>> = (1..=4).map(|seed| noise(seed, words)).collect();
            let slow = |count: usize| -> u64 {
                let all = |row: &usize| {
                    sets[..count].iter().all(|set| set[row / 64] >> (row % 64) & 1 == 1)
                };
                (0..words * 64).filter(all).count() as u64
            };
            for count in 1..=4 {
                let sets: Vec<&[u64]> = sets[..count].iter().map(Vec::as_slice).collect();
                let (mut wide, mut plain) = (Vec::new(), Vec::new());
                assert_eq!(Counter::widest().meet(&sets, &mut wide), slow(count));
                assert_eq!(Counter::portable().meet(&sets, &mut plain), slow(count));
                assert_eq!(wide, plain);
                assert_eq!(rows(&wide).count() as u64, slow(count));
            }
            assert_eq!(Counter::widest().common(&sets[0], &sets[1]), slow(2));
            assert_eq!(Counter::portable().common(&sets[0], &sets[1]), slow(2));
        }
    }

    #[test]
    fn what_is_collected_comes_back() {
        for count in [0, 1, 63, 64, 65, 200] {
            let set = collect(count, |row| row % 3 == 1);
            let expected: Vec<usize> = (0..count).filter(|row| row % 3 == 1).collect();
            assert_eq!(rows(&set).collect::<Vec<_>>(), expected);
        }
    }
}

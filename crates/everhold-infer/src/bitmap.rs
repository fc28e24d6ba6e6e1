//! Sets of rows as words of 64 bits, and how many rows they have in common.
//!
//! The counting loops are written once, plainly; they are compiled for each vector width, and the
//! widest that the machine has is chosen when the program starts.

use std::ops::Range;

use fearless_simd::dispatch;

use crate::evaluate::Vectors;

impl Vectors {
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

/// The number of words that hold this many rows.
pub(crate) fn words(rows: usize) -> usize {
    rows.div_ceil(64)
}

/// The set of the rows of which `test` is true.
pub(crate) fn collect(rows: usize, mut test: impl FnMut(usize) -> bool) -> Vec<u64> {
    let word = |start: usize| {
        let bits = (start..(start + 64).min(rows)).map(|row| u64::from(test(row)) << (row - start));
        bits.fold(0, |word, bit| word | bit)
    };
    (0..rows).step_by(64).map(word).collect()
}

/// The set of those of 64 rows of which `test` is true.
#[inline]
pub(crate) fn pack<T: Copy>(rows: &[T; 64], test: impl Fn(T) -> bool) -> u64 {
    let mut bytes = [0; 64];
    bytes.iter_mut().zip(rows).for_each(|(byte, row)| *byte = u8::from(test(*row)));
    let (eights, _) = bytes.as_chunks::<8>();
    // Moves bit 8 k to bit 56 + k, for each k below 8; no two products meet.
    let top =
        |eight: &[u8; 8]| u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    eights.iter().rev().fold(0, |word, eight| word << 8 | top(eight))
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

/// The stretches of rows that are all in a set, in order, each as long as it can be.
pub(crate) fn stretches(set: &[u64]) -> impl Iterator<Item = Range<usize>> {
    // From a row on, the first that is in the set, or the first that is not.
    let next = |from: usize, flip: u64| {
        let mut word = (set.get(from / 64).copied().unwrap_or(0) ^ flip) & !0 << (from % 64);
        let mut at = from / 64;
        while word == 0 && at < set.len() {
            at += 1;
            word = set.get(at).copied().unwrap_or(0) ^ flip;
        }
        (at * 64 + word.trailing_zeros() as usize).min(set.len() * 64)
    };
    let mut end = 0;
    std::iter::from_fn(move || {
        let start = next(end, 0);
        end = next(start, !0);
        (start < end).then_some(start..end)
    })
}

/// The rows that are not in a set, of this many rows.
pub(crate) fn complement(set: &[u64], rows: usize, into: &mut Vec<u64>) {
    into.clear();
    into.extend(set.iter().map(|word| !word));
    if let Some(last) = into.last_mut().filter(|_| !rows.is_multiple_of(64)) {
        *last &= (1 << (rows % 64)) - 1;
    }
}

/// A set in which each row is repeated as often as `times` says.
pub(crate) fn spread(set: &[u64], times: &[u32], into: &mut Vec<u64>) {
    into.clear();
    let (mut word, mut used) = (0, 0_u32);
    for (row, times) in times.iter().enumerate() {
        // All ones if the row is in the set.
        let ones = 0_u64.wrapping_sub(set[row / 64] >> (row % 64) & 1);
        let mut left = *times;
        word |= ones << used & mask(used.saturating_add(left));
        while used + left >= 64 {
            into.push(word);
            left -= 64 - used;
            used = 0;
            word = ones & mask(left);
        }
        used += left;
    }
    if used > 0 {
        into.push(word);
    }
}

/// A word with this many ones, from the lowest bit.
fn mask(ones: u32) -> u64 {
    1_u64.checked_shl(ones).map_or(!0, |next| next - 1)
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
                assert_eq!(Vectors::widest().meet(&sets, &mut wide), slow(count));
                assert_eq!(Vectors::none().meet(&sets, &mut plain), slow(count));
                assert_eq!(wide, plain);
                assert_eq!(rows(&wide).count() as u64, slow(count));
            }
            assert_eq!(Vectors::widest().common(&sets[0], &sets[1]), slow(2));
            assert_eq!(Vectors::none().common(&sets[0], &sets[1]), slow(2));
        }
    }

    #[test]
    fn packed_is_collected() {
        for word in noise(5, 100) {
            let rows: [bool; 64] = std::array::from_fn(|row| word >> row & 1 == 1);
            assert_eq!(vec![pack(&rows, |row| row)], collect(64, |row| rows[row]));
        }
    }

    #[test]
    fn stretches_are_the_rows_together() {
        let some = [0, 1, 0b1011, !0, !0 << 60, !0, 0, 1 << 63, !0];
        for set in [&some[..], &noise(9, 50), &[], &[!0], &[0]] {
            let together: Vec<usize> = stretches(set).flatten().collect();
            assert_eq!(together, rows(set).collect::<Vec<_>>());
            let found: Vec<Range<usize>> = stretches(set).collect();
            assert!(found.windows(2).all(|pair| pair[0].end < pair[1].start), "{found:?}");
        }
    }

    #[test]
    fn spread_rows_come_again_and_again() {
        for most in [1, 2, 5, 64, 200] {
            let set = noise(most, 3);
            let times: Vec<u32> =
                noise(most + 1, 190).iter().map(|word| (word % (most + 1)) as u32).collect();
            let each = times.iter().enumerate().flat_map(|(row, times)| {
                let is = set[row / 64] >> (row % 64) & 1 == 1;
                std::iter::repeat_n(is, *times as usize)
            });
            let each: Vec<bool> = each.collect();
            let mut into = Vec::new();
            spread(&set, &times, &mut into);
            assert_eq!(into, collect(each.len(), |row| each[row]), "up to {most}");
        }
    }

    #[test]
    fn what_is_collected_comes_back() {
        for count in [0, 1, 63, 64, 65, 200] {
            let set = collect(count, |row| row % 3 == 1);
            let mut others = Vec::new();
            complement(&set, count, &mut others);
            assert_eq!(others, collect(count, |row| row % 3 != 1));
            let expected: Vec<usize> = (0..count).filter(|row| row % 3 == 1).collect();
            assert_eq!(rows(&set).collect::<Vec<_>>(), expected);
        }
    }
}

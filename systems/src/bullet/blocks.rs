//! Sets of blocks.

use everhold::prelude::*;

/// A set of blocks, with one bit for each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Blocks {
    words: Vec<u64>,
    count: u32,
}

impl Blocks {
    pub(super) fn none(of: u32) -> Blocks {
        Blocks { words: vec![0; of.div_ceil(u64::BITS) as usize], count: 0 }
    }

    pub(super) fn all(of: u32) -> Blocks {
        let mut blocks = Blocks::none(of);
        for block in 0..of {
            blocks.insert(block);
        }
        blocks
    }

    /// The number of blocks in the set.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether a block is in the set.
    #[must_use]
    pub fn contains(&self, block: u32) -> bool {
        self.words[(block / u64::BITS) as usize] >> (block % u64::BITS) & 1 == 1
    }

    /// Adds a block; returns whether it was missing.
    pub(super) fn insert(&mut self, block: u32) -> bool {
        let is_new = !self.contains(block);
        self.words[(block / u64::BITS) as usize] |= 1 << (block % u64::BITS);
        self.count += u32::from(is_new);
        is_new
    }

    pub(super) fn remove(&mut self, block: u32) {
        self.count -= u32::from(self.contains(block));
        self.words[(block / u64::BITS) as usize] &= !(1 << (block % u64::BITS));
    }

    /// Adds the blocks of another set.
    pub(super) fn extend(&mut self, other: &Blocks) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
        self.count = self.words.iter().map(|word| word.count_ones()).sum();
    }

    /// The number of these blocks that are in neither of two other sets.
    pub(super) fn count_without(&self, a: &Blocks, b: &Blocks) -> u32 {
        self.without(a, b).map(u64::count_ones).sum()
    }

    /// The block at index `number` among those that are in neither of two other sets.
    pub(super) fn nth_without(&self, a: &Blocks, b: &Blocks, mut number: u32) -> Option<u32> {
        for (at, mut word) in self.without(a, b).enumerate() {
            if number >= word.count_ones() {
                number -= word.count_ones();
                continue;
            }
            for _ in 0..number {
                word &= word - 1;
            }
            return Some(at as u32 * u64::BITS + word.trailing_zeros());
        }
        None
    }

    fn without<'a>(&'a self, a: &'a Blocks, b: &'a Blocks) -> impl Iterator<Item = u64> + 'a {
        let others = a.words.iter().zip(&b.words);
        self.words.iter().zip(others).map(|(word, (a, b))| word & !a & !b)
    }
}

#[cfg(test)]
mod tests {
    use super::Blocks;

    #[test]
    fn blocks_are_found_by_number() {
        let (mut some, none) = (Blocks::none(130), Blocks::none(130));
        assert!([3, 64, 65, 129].into_iter().all(|block| some.insert(block)));
        assert!(!some.insert(64));
        let mut other = none.clone();
        other.insert(65);
        assert_eq!((some.count(), some.count_without(&other, &none)), (4, 3));
        let left: Vec<_> = (0..4).map(|at| some.nth_without(&other, &none, at)).collect();
        assert_eq!(left, [Some(3), Some(64), Some(129), None]);
        some.remove(129);
        assert_eq!(some.nth_without(&other, &none, 2), None);
        other.extend(&some);
        assert_eq!(other.count(), 3);
        assert_eq!(Blocks::all(130).count(), 130);
    }
}

//! The rows of a family: pairs of a row of the left side and one of the right.

/// The rows that are judged at a time: their bits fit into the first-level cache.
pub(super) const BLOCK: usize = 16_384;

/// Pairs of rows: one of the left side and one of the right.
#[derive(Clone, Debug)]
pub(super) struct Pairs {
    shape: Shape,
    /// The pairs that occurred, repetitions included.
    pub(super) samples: u64,
}

#[derive(Clone, Debug)]
enum Shape {
    /// One by one.
    Listed { left: Vec<u32>, right: Vec<u32> },
    /// `each` consecutive rows of both sides, from each of these pairs of first rows.
    Beside { begins: Vec<(u32, u32)>, each: usize },
}

/// The rows of one side in a block.
#[derive(Clone, Copy, Debug)]
pub(super) enum Half<'a> {
    /// One after the other.
    Range { begin: usize, end: usize },
    /// One by one.
    Rows(&'a [u32]),
}

/// A block of pairs of rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block<'a> {
    pub(super) left: Half<'a>,
    pub(super) right: Half<'a>,
    pub(super) len: usize,
}

impl Pairs {
    /// Pairs one by one.
    pub(super) fn listed(left: Vec<u32>, right: Vec<u32>, samples: u64) -> Pairs {
        assert_eq!(left.len(), right.len(), "one row of each side");
        Pairs { shape: Shape::Listed { left, right }, samples }
    }

    /// `each` consecutive rows of both sides, from each of these pairs of first rows.
    pub(super) fn beside(begins: Vec<(u32, u32)>, each: usize) -> Pairs {
        let samples = (begins.len() * each) as u64;
        Pairs { shape: Shape::Beside { begins, each }, samples }
    }

    /// Each row with itself.
    pub(super) fn alone(rows: usize, samples: u64) -> Pairs {
        Pairs { shape: Shape::Beside { begins: vec![(0, 0)], each: rows }, samples }
    }

    pub(super) fn len(&self) -> usize {
        match &self.shape {
            Shape::Listed { left, .. } => left.len(),
            Shape::Beside { begins, each } => begins.len() * each,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of them.
    pub(super) fn get(&self, place: usize) -> (u32, u32) {
        match &self.shape {
            Shape::Listed { left, right } => (left[place], right[place]),
            Shape::Beside { begins, each } => {
                let (left, right) = begins[place / each];
                let offset = u32::try_from(place % each).expect("rows are numbered by 32 bits");
                (left + offset, right + offset)
            }
        }
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..self.len()).map(|place| self.get(place))
    }

    /// All of them in blocks.
    pub(super) fn blocks(&self) -> Vec<Block<'_>> {
        match &self.shape {
            Shape::Listed { left, right } => left
                .chunks(BLOCK)
                .zip(right.chunks(BLOCK))
                .map(|(l, r)| Block { left: Half::Rows(l), right: Half::Rows(r), len: l.len() })
                .collect(),
            Shape::Beside { begins, each } => {
                let range = |begin: u32, at: usize, len: usize| {
                    let begin = begin as usize + at;
                    Half::Range { begin, end: begin + len }
                };
                let mut found = Vec::new();
                for &(left, right) in begins {
                    for at in (0..*each).step_by(BLOCK) {
                        let len = BLOCK.min(each - at);
                        let (left, right) = (range(left, at, len), range(right, at, len));
                        found.push(Block { left, right, len });
                    }
                }
                found
            }
        }
    }
}

impl Block<'_> {
    /// The same with its sides exchanged.
    pub(super) fn swapped(self) -> Self {
        Block { left: self.right, right: self.left, len: self.len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both shapes show the same pairs, one by one and in blocks.
    #[test]
    fn shapes_agree() {
        let each = BLOCK + 100;
        let beside = Pairs::beside(vec![(0, 7), (20_000, 3)], each);
        let (left, right): (Vec<u32>, Vec<u32>) = beside.iter().unzip();
        assert_eq!((left[each], right[each]), (20_000, 3));
        let listed = Pairs::listed(left, right, 0);
        let unrolled = |pairs: &Pairs| -> Vec<(u32, u32)> {
            let half = |half: Half<'_>| -> Vec<u32> {
                match half {
                    Half::Range { begin, end } => (begin as u32..end as u32).collect(),
                    Half::Rows(rows) => rows.to_vec(),
                }
            };
            let all = |block: &Block<'_>| {
                assert_eq!(half(block.left).len(), block.len);
                half(block.left).into_iter().zip(half(block.right)).collect::<Vec<_>>()
            };
            pairs.blocks().iter().flat_map(all).collect()
        };
        assert_eq!(unrolled(&beside), unrolled(&listed));
        assert_eq!(unrolled(&beside), beside.iter().collect::<Vec<_>>());
    }
}

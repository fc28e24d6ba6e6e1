//! Three truth values, and sets of rows by their truth value.

use crate::bitmap;

/// The truth value of a claim in one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Truth {
    False,
    True,
    /// The claim has no truth value: an operand is missing or of the wrong type.
    Unknown,
}

impl Truth {
    #[cfg(test)]
    pub(crate) fn negated(self) -> Truth {
        match self {
            Truth::False => Truth::True,
            Truth::True => Truth::False,
            Truth::Unknown => Truth::Unknown,
        }
    }
}

impl From<Option<bool>> for Truth {
    fn from(truth: Option<bool>) -> Truth {
        match truth {
            Some(true) => Truth::True,
            Some(false) => Truth::False,
            None => Truth::Unknown,
        }
    }
}

impl From<bool> for Truth {
    fn from(truth: bool) -> Truth {
        if truth { Truth::True } else { Truth::False }
    }
}

/// The rows in which a claim is true and those in which it is false, one bit a row. A row in which
/// the claim is unknown is in neither set.
#[derive(Clone, Debug, Default)]
pub(crate) struct TruthBits {
    pub(crate) yes: Vec<u64>,
    pub(crate) no: Vec<u64>,
    /// Whether the claim is known in every row.
    pub(crate) total: bool,
}

impl TruthBits {
    /// A claim that is true in these rows and false in all others.
    pub(crate) fn known(yes: Vec<u64>, rows: usize) -> TruthBits {
        let mut no = Vec::new();
        bitmap::complement(&yes, rows, &mut no);
        TruthBits { yes, no, total: true }
    }

    /// Forgets all rows.
    pub(crate) fn clear(&mut self) {
        self.yes.clear();
        self.no.clear();
        self.total = true;
    }

    /// Makes the rows of `unknown` unknown.
    pub(crate) fn forget(&mut self, unknown: &[u64]) {
        self.yes.iter_mut().zip(unknown).for_each(|(word, unknown)| *word &= !unknown);
        self.no.iter_mut().zip(unknown).for_each(|(word, unknown)| *word &= !unknown);
        self.total &= unknown.iter().all(|word| *word == 0);
    }

    /// Adds up to 64 rows. Unless they are the last ones, there must be 64.
    fn push(&mut self, truths: &[Truth]) {
        let mut bytes = [Truth::Unknown; 64];
        bytes[..truths.len()].copy_from_slice(truths);
        let no = bitmap::pack(&bytes, |truth| truth == Truth::False);
        let yes = bitmap::pack(&bytes, |truth| truth == Truth::True);
        self.total &= (no | yes).count_ones() as usize == truths.len();
        self.no.push(no);
        self.yes.push(yes);
    }

    /// Adds `rows` rows with the truth value that `truth` gives each of them by its number.
    pub(crate) fn extend(&mut self, rows: usize, mut truth: impl FnMut(usize) -> Truth) {
        let mut truths = [Truth::Unknown; 64];
        for start in (0..rows).step_by(64) {
            let count = (rows - start).min(64);
            for (place, to) in truths[..count].iter_mut().enumerate() {
                *to = truth(start + place);
            }
            self.push(&truths[..count]);
        }
    }

    /// Adds the rows of two columns of equal length; `truth` is known of all of them.
    pub(crate) fn zip<T: Copy>(&mut self, a: &[T], b: &[T], truth: impl Fn(T, T) -> bool) {
        let mut truths = [Truth::Unknown; 64];
        for (a, b) in a.chunks(64).zip(b.chunks(64)) {
            // A loop this plain is compiled to vector instructions.
            for (to, (a, b)) in truths.iter_mut().zip(a.iter().zip(b)) {
                *to = if truth(*a, *b) { Truth::True } else { Truth::False };
            }
            self.push(&truths[..a.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_set_of_their_truth_value() {
        let truth = |row: usize| [Truth::False, Truth::True, Truth::Unknown][row % 3];
        for rows in [0, 1, 64, 65, 200] {
            let mut bits = TruthBits::default();
            bits.clear();
            bits.extend(rows, truth);
            assert_eq!(bits.yes, bitmap::collect(rows, |row| row % 3 == 1));
            assert_eq!(bits.no, bitmap::collect(rows, |row| row % 3 == 0));
            assert_eq!(bits.total, rows < 3);
            let mut known = TruthBits::known(bits.yes.clone(), rows);
            assert_eq!(known.no, bitmap::collect(rows, |row| row % 3 != 1));
            known.forget(&bitmap::collect(rows, |row| row % 3 == 2));
            assert_eq!((known.yes, known.no), (bits.yes, bits.no));
        }
    }
}

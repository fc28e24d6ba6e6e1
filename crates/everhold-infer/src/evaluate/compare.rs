//! Comparisons of columns of codes, one bit a row, by the widest vectors that the machine has.

use fearless_simd::dispatch;
use fearless_simd::prelude::*;

use super::Vectors;
use crate::bitmap::collect;

/// One bit a row.
type Bits = Vec<u64>;

impl Vectors {
    /// The rows in which `a` equals `b`.
    pub(crate) fn equal(self, a: &[u32], b: &[u32]) -> Bits {
        assert_eq!(a.len(), b.len(), "columns of the same rows");
        match self.0 {
            Some(level) => dispatch!(level, simd => equal(simd, a, b)),
            None => collect(a.len(), |row| a[row] == b[row]),
        }
    }

    /// The rows in which `a` is less than `b`.
    pub(crate) fn less(self, a: &[u32], b: &[u32]) -> Bits {
        assert_eq!(a.len(), b.len(), "columns of the same rows");
        match self.0 {
            Some(level) => dispatch!(level, simd => less(simd, a, b)),
            None => collect(a.len(), |row| a[row] < b[row]),
        }
    }

    /// The rows in which `a` is this code.
    pub(crate) fn equal_to(self, a: &[u32], code: u32) -> Bits {
        match self.0 {
            Some(level) => dispatch!(level, simd => equal_to(simd, a, code)),
            None => collect(a.len(), |row| a[row] == code),
        }
    }
}

#[inline(always)]
fn equal<S: Simd>(simd: S, a: &[u32], b: &[u32]) -> Bits {
    let vector = |a: &[u32], b: &[u32]| {
        S::u32s::from_slice(simd, a).simd_eq(S::u32s::from_slice(simd, b)).to_bitmask()
    };
    words::<S>(a, b, vector, |a, b| a == b)
}

#[inline(always)]
fn less<S: Simd>(simd: S, a: &[u32], b: &[u32]) -> Bits {
    let vector = |a: &[u32], b: &[u32]| {
        S::u32s::from_slice(simd, a).simd_lt(S::u32s::from_slice(simd, b)).to_bitmask()
    };
    words::<S>(a, b, vector, |a, b| a < b)
}

#[inline(always)]
fn equal_to<S: Simd>(simd: S, a: &[u32], code: u32) -> Bits {
    let vector = |a: &[u32], _: &[u32]| S::u32s::from_slice(simd, a).simd_eq(code).to_bitmask();
    words::<S>(a, a, vector, |a, _| a == code)
}

/// Whole words by vectors, the rest one by one.
#[inline(always)]
fn words<S: Simd>(
    a: &[u32],
    b: &[u32],
    vector: impl Fn(&[u32], &[u32]) -> u64,
    one: impl Fn(u32, u32) -> bool,
) -> Bits {
    let mut bits = Vec::with_capacity(a.len().div_ceil(64));
    let (a_words, b_words) = (a.chunks_exact(64), b.chunks_exact(64));
    let rest = a_words.remainder().iter().zip(b_words.remainder());
    for (a, b) in a_words.zip(b_words) {
        let parts = a.chunks_exact(S::u32s::LEN).zip(b.chunks_exact(S::u32s::LEN));
        let mut word = 0;
        for (place, (a, b)) in parts.enumerate() {
            word |= vector(a, b) << (place * S::u32s::LEN);
        }
        bits.push(word);
    }
    if !a.len().is_multiple_of(64) {
        let bit = |(place, (a, b)): (usize, (&u32, &u32))| u64::from(one(*a, *b)) << place;
        bits.push(rest.enumerate().map(bit).fold(0, |word, bit| word | bit));
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors and the plain loop agree, at all lengths around whole words and with large codes.
    #[test]
    fn every_width_compares_alike() {
        let mut state = 7_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let wide = (state >> 32) as u32;
            if state & 1 == 0 { wide % 3 } else { wide }
        };
        for rows in [0, 1, 15, 16, 63, 64, 65, 128, 300] {
            let a: Vec<u32> = (0..rows).map(|_| next()).collect();
            let b: Vec<u32> = a.iter().map(|a| if next() % 2 == 0 { *a } else { next() }).collect();
            let (wide, plain) = (Vectors::widest(), Vectors::none());
            assert_eq!(wide.equal(&a, &b), plain.equal(&a, &b), "{rows}");
            assert_eq!(wide.less(&a, &b), plain.less(&a, &b), "{rows}");
            assert_eq!(wide.less(&b, &a), plain.less(&b, &a), "{rows}");
            assert_eq!(wide.equal_to(&a, 1), plain.equal_to(&a, 1), "{rows}");
        }
    }
}

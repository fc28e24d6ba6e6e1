//! Random numbers for crates that want a source of them.

use std::fmt;

use serde::Serialize;

/// A seeded source of random numbers (SplitMix64), for crates that take one.
///
/// [`Cx::rng`](crate::Cx::rng) and [`AsyncCx::rng`](crate::AsyncCx::rng) seed one from the node's own
/// stream, so an execution replays. It is plain data and can be part of a node's state. The numbers are
/// not explored: where a decision is worth it, use [`Choices`]. With the feature `rand-0-8` or
/// `rand-0-9` of this crate it implements `RngCore` of `rand_core` 0.6 or 0.9.
///
/// ```
/// use everhold_node::Random;
/// let (mut one, mut same) = (Random::seeded(7), Random::seeded(7));
/// assert_eq!(one.next_u64(), same.next_u64());
/// assert_ne!(one.next_u32(), one.next_u32());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Random {
    state: u64,
}

/// The increment of SplitMix64.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

impl Random {
    /// A source whose numbers are a function of the seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Random { state: seed }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// The next 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// Fills a slice with random bytes.
    pub fn fill_bytes(&mut self, bytes: &mut [u8]) {
        fill(bytes, || self.next_u64());
    }
}

/// A source of random numbers in which every number is a choice of the strategy: explored, recorded and
/// shrunk towards zero.
///
/// A strategy cannot explore 64 bits, so each number is one of eight that are spread evenly over the
/// whole range, both ends included: a crate that asks for a timeout between 150 and 300 ms gets the
/// shortest, the longest, or one of six between them.
///
/// ```
/// use everhold_node::{AsyncCx, Choices};
///
/// async fn program(cx: AsyncCx<u32>) {
///     let mut source = Choices::new(|domain| cx.choose("election timeout", domain));
///     let timeout = 150 + source.next_u64() % 150;
/// #   let _ = timeout;
/// }
/// ```
pub struct Choices<F> {
    choose: F,
}

/// The number of different values that a strategy chooses from.
const NUMBERS: usize = 8;

impl<F: FnMut(usize) -> usize> Choices<F> {
    /// A source that asks `choose` for a number below its argument, as [`Cx::choose`](crate::Cx::choose)
    /// does.
    pub fn new(choose: F) -> Self {
        Choices { choose }
    }

    /// The next 64 bits: one of eight numbers.
    pub fn next_u64(&mut self) -> u64 {
        let number = (self.choose)(NUMBERS) as u64;
        u64::MAX / (NUMBERS as u64 - 1) * number
    }

    /// The next 32 bits: one of eight numbers.
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// Fills a slice, eight bytes per choice.
    pub fn fill_bytes(&mut self, bytes: &mut [u8]) {
        fill(bytes, || self.next_u64());
    }
}

impl<F> fmt::Debug for Choices<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Choices").finish_non_exhaustive()
    }
}

fn fill(bytes: &mut [u8], mut next: impl FnMut() -> u64) {
    for part in bytes.chunks_mut(size_of::<u64>()) {
        part.copy_from_slice(&next().to_le_bytes()[..part.len()]);
    }
}

#[cfg(feature = "rand-0-8")]
mod rand_0_8 {
    use super::{Choices, Random};
    use rand_core_0_6::{Error, RngCore};

    impl RngCore for Random {
        fn next_u32(&mut self) -> u32 {
            Random::next_u32(self)
        }
        fn next_u64(&mut self) -> u64 {
            Random::next_u64(self)
        }
        fn fill_bytes(&mut self, bytes: &mut [u8]) {
            Random::fill_bytes(self, bytes);
        }
        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
            Random::fill_bytes(self, bytes);
            Ok(())
        }
    }

    impl<F: FnMut(usize) -> usize> RngCore for Choices<F> {
        fn next_u32(&mut self) -> u32 {
            Choices::next_u32(self)
        }
        fn next_u64(&mut self) -> u64 {
            Choices::next_u64(self)
        }
        fn fill_bytes(&mut self, bytes: &mut [u8]) {
            Choices::fill_bytes(self, bytes);
        }
        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
            Choices::fill_bytes(self, bytes);
            Ok(())
        }
    }
}

#[cfg(feature = "rand-0-9")]
mod rand_0_9 {
    use super::{Choices, Random};
    use rand_core_0_9::RngCore;

    impl RngCore for Random {
        fn next_u32(&mut self) -> u32 {
            Random::next_u32(self)
        }
        fn next_u64(&mut self) -> u64 {
            Random::next_u64(self)
        }
        fn fill_bytes(&mut self, bytes: &mut [u8]) {
            Random::fill_bytes(self, bytes);
        }
    }

    impl<F: FnMut(usize) -> usize> RngCore for Choices<F> {
        fn next_u32(&mut self) -> u32 {
            Choices::next_u32(self)
        }
        fn next_u64(&mut self) -> u64 {
            Choices::next_u64(self)
        }
        fn fill_bytes(&mut self, bytes: &mut [u8]) {
            Choices::fill_bytes(self, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the published SplitMix64 with the seed 1234567.
    #[test]
    fn numbers_are_those_of_splitmix64() {
        let mut source = Random::seeded(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        assert_eq!([source.next_u64(), source.next_u64()], expected);
    }

    #[test]
    fn bytes_are_filled_to_the_last() {
        for length in [0, 1, 8, 9, 31] {
            let (mut bytes, mut again) = (vec![0; length], vec![0; length]);
            Random::seeded(3).fill_bytes(&mut bytes);
            Random::seeded(3).fill_bytes(&mut again);
            assert_eq!(bytes, again);
            assert!(length < 8 || bytes.iter().any(|byte| *byte != 0));
        }
    }

    #[cfg(feature = "rand-0-8")]
    #[test]
    fn crates_of_rand_0_8_take_them() {
        fn number(source: &mut impl rand_core_0_6::RngCore) -> u64 {
            source.next_u64()
        }
        assert_eq!(number(&mut Random::seeded(3)), Random::seeded(3).next_u64());
        assert_eq!(number(&mut Choices::new(|_| 0)), 0);
    }

    #[cfg(feature = "rand-0-9")]
    #[test]
    fn crates_of_rand_0_9_take_them() {
        fn number(source: &mut impl rand_core_0_9::RngCore) -> u64 {
            source.next_u64()
        }
        assert_eq!(number(&mut Random::seeded(3)), Random::seeded(3).next_u64());
        assert_eq!(number(&mut Choices::new(|_| 0)), 0);
    }

    #[test]
    fn choices_reach_both_ends() {
        let number = |chosen: usize| Choices::new(move |_| chosen).next_u64();
        assert_eq!((number(0), number(NUMBERS - 1)), (0, u64::MAX / 7 * 7));
        assert_eq!(Choices::new(|domain| domain - 1).next_u32(), u32::MAX);
    }
}

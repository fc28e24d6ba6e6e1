//! Numbers for programs, and how many programs a test runs.

/// A generator with a fixed seed (SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // Mixed once, or the numbers of one seed would be those of the next one, shifted.
        let mut first = Random(seed ^ 0x5DEE_CE66_D1CE_4E5B);
        first.step();
        Random(first.step())
    }

    fn step(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.step() % bound as u64) as usize
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// How many programs to run: a few, or as many as `EVERHOLD_OS_PROGRAMS` says.
pub(crate) fn programs(few: u64) -> u64 {
    match std::env::var("EVERHOLD_OS_PROGRAMS") {
        Ok(many) => many.parse().expect("EVERHOLD_OS_PROGRAMS is a number"),
        Err(_) => few,
    }
}

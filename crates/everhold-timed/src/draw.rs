//! Random numbers by key instead of by order: each draw is a function of the seed, its stream
//! (purpose) and its index in the stream, so one draw can be changed while all others stay the
//! same.
//!
//! Nothing here calls the platform's mathematics library: sums, products and quotients are the same
//! on every platform, logarithms are not.

use everhold_node::fingerprint::mix;

/// The purpose of a draw. Each variant has numbers of its own, so streams of one node differ.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stream {
    /// The messages of a link, identified by the link's key.
    Link(u64),
    /// The durations of a node's events.
    Events(u32),
    /// A node's own random numbers.
    Own(u32),
    /// A node's choices.
    Choices(u32),
    /// A node's disk.
    Disk(u32),
    /// A node's clock.
    Clock(u32),
    /// The order of a node's timers that fire at the same time.
    Timers(u32),
    /// Faults.
    Faults,
}

/// A multiplier that spreads stream numbers over the whole word.
const SPREAD: u64 = 0xD6E8_FEB8_6659_FD93;

#[inline]
pub(crate) fn draw(seed: u64, stream: Stream, index: u64) -> u64 {
    let of = |tag: u64, node: u32| (tag << 60) | u64::from(node);
    let key = match stream {
        Stream::Link(key) => key,
        Stream::Events(node) => of(1, node),
        Stream::Own(node) => of(2, node),
        Stream::Choices(node) => of(3, node),
        Stream::Disk(node) => of(4, node),
        Stream::Clock(node) => of(5, node),
        Stream::Timers(node) => of(6, node),
        Stream::Faults => of(7, 0),
    };
    mix(seed.wrapping_add(key.wrapping_mul(SPREAD)), index)
}

/// Maps a draw to a number below `bound`.
#[inline]
pub(crate) fn below(draw: u64, bound: u64) -> u64 {
    ((u128::from(draw) * u128::from(bound)) >> 64) as u64
}

/// The base-2 logarithm of the number of buckets in a table.
const BUCKET_BITS: u32 = 10;
/// The number of buckets in a table.
pub(crate) const BUCKETS: usize = 1 << BUCKET_BITS;

/// Looks a draw up in a table of [`BUCKETS`] + 1 values, with linear interpolation between
/// neighbours.
#[inline]
pub(crate) fn look_up(table: &[u64], draw: u64) -> u64 {
    let at = (draw >> (64 - BUCKET_BITS)) as usize;
    let (low, high) = (table[at], table[at + 1]);
    let part = (draw << BUCKET_BITS) >> 32;
    low + ((u128::from(high - low) * u128::from(part)) >> 32) as u64
}

/// The number one in the fixed-point format of [`Pareto`].
const ONE: u64 = 1 << 20;

/// A table of the quantiles of a Pareto variable, as multiples of its minimum.
///
/// The tail is drawn without a power function: above its 1 - 1/1024 quantile, a Pareto variable is
/// distributed as that quantile times another Pareto variable of the same shape.
#[derive(Clone, Debug)]
pub(crate) struct Pareto {
    table: Vec<u64>,
}

impl Pareto {
    pub(crate) fn new(shape: f64) -> Pareto {
        let at = |bucket: usize| {
            let above = (BUCKETS - bucket).max(1) as f64 / BUCKETS as f64;
            (exp(-ln(above) / shape) * ONE as f64) as u64
        };
        Pareto { table: (0..=BUCKETS).map(at).collect() }
    }

    /// Returns the excess of the variable over its minimum `scale`.
    #[inline]
    pub(crate) fn excess(&self, scale: u64, draw: u64) -> u64 {
        let (ratio, times) = if draw >> (64 - BUCKET_BITS) == BUCKETS as u64 - 1 {
            self.tail(draw)
        } else {
            (look_up(&self.table, draw), ONE)
        };
        if times == ONE {
            return ((u128::from(scale) * u128::from(ratio - ONE)) >> 20) as u64;
        }
        let ratio = (u128::from(ratio) * u128::from(times)) >> 20;
        u64::try_from((u128::from(scale) * (ratio - u128::from(ONE))) >> 20).unwrap_or(u64::MAX)
    }

    #[cold]
    fn tail(&self, mut draw: u64) -> (u64, u64) {
        let quantile = u128::from(self.table[BUCKETS - 1]);
        let mut times = u128::from(ONE);
        while draw >> (64 - BUCKET_BITS) == BUCKETS as u64 - 1 {
            draw <<= BUCKET_BITS;
            times = (times * quantile) >> 20;
        }
        (look_up(&self.table, draw), u64::try_from(times).unwrap_or(u64::MAX))
    }
}

/// Returns the natural logarithm of a positive number.
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let exponent = ((bits >> 52) & 0x7FF) as f64 - 1023.0;
    let mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    // ln m = 2 artanh((m - 1) / (m + 1)), and the argument of artanh is at most 1/3.
    let t = (mantissa - 1.0) / (mantissa + 1.0);
    let (mut power, mut sum) = (t, 0.0);
    for odd in (1..60).step_by(2) {
        sum += power / f64::from(odd);
        power *= t * t;
    }
    2.0 * sum + exponent * std::f64::consts::LN_2
}

/// Returns the exponential of a number.
fn exp(x: f64) -> f64 {
    // e^x = (e^(x/1024))^1024; the series converges quickly for the small exponent.
    let part = x / 1024.0;
    let (mut term, mut sum) = (1.0, 1.0);
    for n in 1..12 {
        term *= part / f64::from(n);
        sum += term;
    }
    (0..10).fold(sum, |power, _| power * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_functions_are_near_the_platforms() {
        for x in [1.0 / 1024.0, 0.25, 0.5, 0.999, 1.0, 2.0, 7.5] {
            assert!((ln(x) - f64::ln(x)).abs() < 1e-12, "ln {x}");
        }
        for x in [-3.0, 0.0, 0.5, 2.31, 6.93] {
            assert!((exp(x) / f64::exp(x) - 1.0).abs() < 1e-10, "exp {x}");
        }
    }

    /// Checks quantiles and the mean (1.5 ms) of a Pareto variable with scale 1 ms and shape 3.
    #[test]
    fn pareto_is_pareto() {
        let pareto = Pareto::new(3.0);
        let scale = 1_000_000;
        for (part, expected) in
            [(0.0, 0.0), (0.5, 259_921.0), (0.9, 1_154_434.7), (0.9999, 20_544_346.9)]
        {
            let draw = (part * 2.0_f64.powi(64)) as u64;
            let excess = pareto.excess(scale, draw) as f64;
            assert!((excess - expected).abs() <= expected * 1e-2 + 2.0, "{part}: {excess}");
        }
        let draws = 200_000;
        let sum: u64 = (0..draws).map(|i| pareto.excess(scale, draw(7, Stream::Own(1), i))).sum();
        let mean = sum as f64 / draws as f64;
        // The standard deviation of a draw is 0.87 ms, that of the mean 1.9 us; the tolerance is
        // ten times that.
        assert!((mean - 500_000.0).abs() < 20_000.0, "{mean}");
    }
}

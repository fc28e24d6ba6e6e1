//! The dip test for unimodality of Hartigan and Hartigan (1985).
//!
//! The dip is the distance of the empirical distribution function from the nearest unimodal one,
//! which is convex up to a modal interval and concave after it. The interval is narrowed until the
//! distance of the two hulls within it no longer exceeds the deviations of the two sides.

use everhold_sim::rng::Rng;
use serde::Serialize;

use super::sample::Sample;

/// The dip of a sample and its p-value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Dip {
    /// The dip, between `1 / (2n)` and 0.25.
    pub dip: f64,
    /// The share of uniform samples of the same size with a dip at least as large.
    pub p_value: f64,
}

/// The number of uniform samples behind a p-value: enough to distinguish 0.01 from 0.05.
const UNIFORM_SAMPLES: usize = 400;
/// Larger samples are thinned to this number of evenly spaced quantiles, whose dip is close enough.
const SIZE_MAX: usize = 500;
/// The smallest sample that is tested.
const SIZE_MIN: usize = 10;

/// Tests for more than one mode; returns `None` for samples that are too small.
///
/// The uniform samples come from a fixed seed, so the answer is a function of the sample.
#[must_use]
pub fn dip_test(sample: &Sample) -> Option<Dip> {
    let n = sample.len().min(SIZE_MAX);
    if n < SIZE_MIN {
        return None;
    }
    let thin = |at: usize| match sample.len() {
        whole if whole == n => sample.sorted()[at],
        _ => sample.quantile(at as f64 / (n - 1) as f64),
    };
    let sorted: Vec<f64> = (0..n).map(thin).collect();
    let dip = dip(&sorted);
    let mut rng = Rng::new(0xD1B);
    let larger = (0..UNIFORM_SAMPLES).filter(|_| {
        let mut uniform: Vec<f64> =
            (0..n).map(|_| (rng.next() >> 11) as f64 / (1u64 << 53) as f64).collect();
        uniform.sort_by(f64::total_cmp);
        self::dip(&uniform) >= dip
    });
    Some(Dip { dip, p_value: larger.count() as f64 / UNIFORM_SAMPLES as f64 })
}

/// Computes the dip of values in ascending order.
fn dip(x: &[f64]) -> f64 {
    let n = x.len();
    if n < 2 || x[0] == x[n - 1] {
        return 0.5 / n.max(1) as f64;
    }
    let (mut low, mut high) = (0, n - 1);
    // The dip in units of 1 / (2n).
    let mut dip = 1.0f64;
    loop {
        let below = minorant(x, low, high);
        let above = majorant(x, low, high);
        let widest = widest(x, &below, &above);
        if widest.distance <= dip {
            break;
        }
        dip = dip.max(left_needs(x, &below, widest.low)).max(right_needs(x, &above, widest.high));
        if (widest.low, widest.high) == (low, high) || widest.distance <= dip {
            break;
        }
        (low, high) = (widest.low, widest.high);
    }
    dip / (2 * n) as f64
}

/// A piecewise linear function through some of the points, by their indices.
struct Hull {
    knots: Vec<usize>,
    /// The term added to a knot's index to get its height. The distribution function jumps at each
    /// point from `index` to `index + 1`; the minorant passes below the jump, the majorant above.
    lift: f64,
}

impl Hull {
    fn height(&self, x: &[f64], at: f64) -> f64 {
        let next = self.knots.partition_point(|knot| x[*knot] < at).clamp(1, self.knots.len() - 1);
        let (from, to) = (self.knots[next - 1], self.knots[next]);
        let slope = (to - from) as f64 / (x[to] - x[from]);
        from as f64 + self.lift + slope * (at - x[from])
    }
}

/// Computes the greatest convex minorant of the points of `low..=high`.
fn minorant(x: &[f64], low: usize, high: usize) -> Hull {
    hull(x, low..=high, 0.0, |slope, before| slope <= before)
}

/// Computes the least concave majorant of the points.
fn majorant(x: &[f64], low: usize, high: usize) -> Hull {
    hull(x, low..=high, 1.0, |slope, before| slope >= before)
}

fn hull(
    x: &[f64],
    range: std::ops::RangeInclusive<usize>,
    lift: f64,
    drop_last: impl Fn(f64, f64) -> bool,
) -> Hull {
    let slope = |from: usize, to: usize| (to - from) as f64 / (x[to] - x[from]);
    let mut knots: Vec<usize> = Vec::new();
    for at in range {
        if let Some(last) = knots.last()
            && x[*last] == x[at]
        {
            // Of equal values, the minorant touches the lowest point and the majorant the highest.
            if lift == 0.0 {
                continue;
            }
            knots.pop();
        }
        while let [.., before, last] = knots[..]
            && drop_last(slope(last, at), slope(before, last))
        {
            knots.pop();
        }
        knots.push(at);
    }
    Hull { knots, lift }
}

struct Widest {
    distance: f64,
    low: usize,
    high: usize,
}

/// Finds the place where the two hulls are farthest apart, and the knots around it.
fn widest(x: &[f64], below: &Hull, above: &Hull) -> Widest {
    let mut widest = Widest { distance: -1.0, low: below.knots[0], high: above.knots[0] };
    let mut consider = |distance: f64, low: usize, high: usize| {
        if distance > widest.distance {
            widest = Widest { distance, low, high };
        }
    };
    for knot in &below.knots {
        let next = above.knots.partition_point(|other| x[*other] < x[*knot]);
        let high = above.knots[next.min(above.knots.len() - 1)];
        consider(above.height(x, x[*knot]) - *knot as f64, *knot, high);
    }
    for knot in &above.knots {
        let next = below.knots.partition_point(|other| x[*other] <= x[*knot]);
        let low = below.knots[next.max(1) - 1];
        consider(*knot as f64 + 1.0 - below.height(x, x[*knot]), low, *knot);
    }
    widest
}

/// Returns the deviation of the convex side: the largest rise of the points above their minorant.
fn left_needs(x: &[f64], below: &Hull, until: usize) -> f64 {
    let from = below.knots[0];
    let rise = |at: usize| (at + 1) as f64 - below.height(x, x[at]);
    (from..=until).map(rise).fold(0.0, f64::max)
}

/// Returns the deviation of the concave side: the largest fall of the points below their majorant.
fn right_needs(x: &[f64], above: &Hull, from: usize) -> f64 {
    let until = above.knots[above.knots.len() - 1];
    let fall = |at: usize| above.height(x, x[at]) - at as f64;
    (from..=until).map(fall).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, on a grid: the smallest maximum distance from the distribution function over
    /// all increasing functions on the points whose slopes first grow and then shrink, with a jump
    /// allowed at the mode.
    fn twin(x: &[f64], steps: u32) -> f64 {
        let n = x.len();
        let mut best = f64::MAX;
        for mode in 0..n {
            let mut heights = Vec::new();
            try_all(x, mode, steps, &mut heights, &mut best);
        }
        best
    }

    /// `heights` holds one value per point, and two for the mode: before and after its jump.
    fn try_all(x: &[f64], mode: usize, steps: u32, heights: &mut Vec<u32>, best: &mut f64) {
        if heights.len() == x.len() + 1 {
            *best = best.min(distance(x, mode, steps, heights));
            return;
        }
        for height in heights.last().copied().unwrap_or(0)..=steps {
            heights.push(height);
            if shaped(x, mode, heights) {
                try_all(x, mode, steps, heights, best);
            }
            heights.pop();
        }
    }

    fn shaped(x: &[f64], mode: usize, heights: &[u32]) -> bool {
        let side = |from: usize, points: &[f64], convex: bool| {
            let heights = &heights[from..];
            let slopes: Vec<f64> = (1..points.len().min(heights.len()))
                .map(|i| f64::from(heights[i] - heights[i - 1]) / (points[i] - points[i - 1]))
                .collect();
            slopes
                .windows(2)
                .all(|s| if convex { s[0] <= s[1] + 1e-9 } else { s[0] + 1e-9 >= s[1] })
        };
        let left = side(0, &x[..=mode], true);
        left && (heights.len() <= mode + 1 || side(mode + 1, &x[mode..], false))
    }

    fn distance(x: &[f64], mode: usize, steps: u32, heights: &[u32]) -> f64 {
        let n = x.len() as f64;
        let at = |index: usize| f64::from(heights[index]) / f64::from(steps);
        let ends = |point: usize| match point {
            p if p < mode => (at(p), at(p)),
            p if p == mode => (at(p), at(p + 1)),
            p => (at(p + 1), at(p + 1)),
        };
        let off = |point: usize| {
            let (before, after) = ends(point);
            (before - point as f64 / n).abs().max((after - (point + 1) as f64 / n).abs())
        };
        (0..x.len()).map(off).fold(0.0, f64::max)
    }

    #[test]
    fn agrees_with_its_definition() {
        let mut rng = Rng::new(11);
        for _ in 0..12 {
            let mut x = vec![0.0];
            for _ in 0..3 {
                x.push(x[x.len() - 1] + f64::from(1 + rng.below(9)));
            }
            // The heights on the grid are off by up to one of its 32 steps.
            let (fast, slow) = (dip(&x), twin(&x, 32));
            assert!((fast - slow).abs() <= 0.032, "{x:?}: {fast} but {slow}");
        }
    }

    #[test]
    fn known_dips() {
        let even: Vec<f64> = (0..20).map(f64::from).collect();
        assert!((dip(&even) - 1.0 / 40.0).abs() < 1e-12);
        let two: Vec<f64> = (0..20).map(|i| if i < 10 { 0.0 } else { 1.0 }).collect();
        assert!((dip(&two) - 0.25).abs() < 1e-12, "{}", dip(&two));
        let mirrored: Vec<f64> = [0.0, 1.0, 1.2, 5.0, 5.1, 9.0].iter().rev().map(|v| -v).collect();
        assert!((dip(&mirrored) - dip(&[0.0, 1.0, 1.2, 5.0, 5.1, 9.0])).abs() < 1e-12);
    }

    #[test]
    fn two_modes_are_seen_and_one_is_not() {
        let mut rng = Rng::new(9);
        let mut normal = || (0..12).map(|_| f64::from(rng.below(1000)) / 1000.0).sum::<f64>() - 6.0;
        let one = Sample::new((0..200).map(|_| normal()));
        let two = Sample::new((0..200).map(|i| normal() + if i % 5 == 0 { 8.0 } else { 0.0 }));
        assert!(dip_test(&one).expect("large enough").p_value > 0.05);
        assert!(dip_test(&two).expect("large enough").p_value < 0.01);
        assert_eq!(dip_test(&Sample::new([1.0, 2.0])), None);
    }
}

//! Rank correlation, and the false discovery rate of multiple tests.

use super::normal::two_sided;

/// Returns the ranks of values, from 1; equal values share the mean of their ranks.
#[must_use]
pub(super) fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    for group in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let smaller = values.iter().filter(|value| **value < values[group[0]]).count();
        for at in group {
            ranks[*at] = smaller as f64 + (group.len() + 1) as f64 / 2.0;
        }
    }
    ranks
}

/// Returns Pearson's correlation of two series; 0 if one of them does not vary.
#[must_use]
pub fn pearson(a: &[f64], b: &[f64]) -> f64 {
    let n = a.len().min(b.len()) as f64;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / n;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let (mut both, mut square_a, mut square_b) = (0.0, 0.0, 0.0);
    for (x, y) in a.iter().zip(b) {
        both += (x - mean_a) * (y - mean_b);
        square_a += (x - mean_a).powi(2);
        square_b += (y - mean_b).powi(2);
    }
    if square_a <= 0.0 || square_b <= 0.0 {
        return 0.0;
    }
    (both / (square_a * square_b).sqrt()).clamp(-1.0, 1.0)
}

/// Returns Spearman's correlation: Pearson's correlation of the ranks, which is robust against
/// outliers and measures any monotone relation.
///
/// ```
/// use everhold_timed::perf::spearman;
/// assert_eq!(spearman(&[1.0, 2.0, 3.0], &[1.0, 10.0, 1000.0]), 1.0);
/// ```
#[must_use]
pub fn spearman(a: &[f64], b: &[f64]) -> f64 {
    pearson(&ranks(a), &ranks(b))
}

/// Returns the p-value of a rank correlation (normal approximation).
#[must_use]
pub(super) fn spearman_p(r: f64, n: usize) -> f64 {
    if n < 4 { 1.0 } else { two_sided(r * ((n - 1) as f64).sqrt()) }
}

/// Returns for each test whether its null hypothesis is rejected, such that the expected share of
/// false rejections is at most `rate` (Benjamini and Hochberg, 1995).
#[must_use]
pub fn believable(p_values: &[f64], rate: f64) -> Vec<bool> {
    let mut sorted = p_values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let m = sorted.len() as f64;
    let within = |(at, p): &(usize, &f64)| **p <= rate * (at + 1) as f64 / m;
    let limit = sorted.iter().enumerate().filter(within).map(|(_, p)| *p).next_back();
    p_values.iter().map(|p| limit.is_some_and(|limit| *p <= limit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use everhold_sim::rng::Rng;

    /// Spearman's correlation without ties, by the classical formula.
    fn twin(a: &[f64], b: &[f64]) -> f64 {
        let rank = |values: &[f64], x: f64| values.iter().filter(|v| **v <= x).count() as f64;
        let n = a.len() as f64;
        let squares: f64 = a.iter().zip(b).map(|(x, y)| (rank(a, *x) - rank(b, *y)).powi(2)).sum();
        1.0 - 6.0 * squares / (n * (n * n - 1.0))
    }

    #[test]
    fn ranks_correlate_as_by_the_formula() {
        let mut rng = Rng::new(2);
        for n in [3, 5, 20] {
            let mut draw = || (0..n).map(|_| rng.next() as f64).collect::<Vec<f64>>();
            let (a, b) = (draw(), draw());
            assert!((spearman(&a, &b) - twin(&a, &b)).abs() < 1e-9);
        }
        assert_eq!(ranks(&[5.0, 1.0, 5.0]), [2.5, 1.0, 2.5]);
        assert_eq!(spearman(&[1.0, 1.0, 1.0], &[1.0, 2.0, 3.0]), 0.0);
    }

    /// The definition: rejects the k smallest p-values for the largest k whose k-th smallest is at
    /// most rate * k / m.
    #[test]
    fn false_discoveries_are_bounded() {
        let p = [0.001, 0.9, 0.02, 0.04, 0.03];
        assert_eq!(believable(&p, 0.05), [true, false, true, true, true]);
        assert_eq!(believable(&p, 0.01), [true, false, false, false, false]);
        assert_eq!(believable(&[], 0.05), Vec::<bool>::new());
    }
}

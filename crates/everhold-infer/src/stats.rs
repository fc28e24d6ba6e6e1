//! Statistics.

/// Wilson's score interval of a rate, with a confidence of 95 %, for `held` successes in `cases`
/// trials.
///
/// With `p = held / cases`, `n = cases` and `z = 1.96`, it is
/// `(p + z²/2n ± z √(p (1 - p) / n + z²/4n²)) / (1 + z²/n)`.
///
/// ```
/// let (low, high) = everhold_infer::wilson(99.0, 100.0);
/// assert!(0.945 < low && low < 0.946 && 0.998 < high && high < 0.999);
/// assert_eq!(everhold_infer::wilson(0.0, 0.0), (0.0, 1.0));
/// ```
#[must_use]
pub fn wilson(held: f64, cases: f64) -> (f64, f64) {
    if cases <= 0.0 {
        return (0.0, 1.0);
    }
    let z = 1.959_964;
    let rate = held / cases;
    let shrink = 1.0 + z * z / cases;
    let centre = rate + z * z / (2.0 * cases);
    let spread = z * (rate * (1.0 - rate) / cases + z * z / (4.0 * cases * cases)).sqrt();
    (((centre - spread) / shrink).max(0.0), ((centre + spread) / shrink).min(1.0))
}

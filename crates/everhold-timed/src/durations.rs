//! The durations of handlers by kind of event: distributions as tables of quantiles.
//!
//! They are kept in a text file that users can edit to try out other durations:
//!
//! ```text
//! everhold durations 1
//! default: 0%=1ms 100%=10ms
//! Join: 0%=12us 50%=20us 99%=80us 100%=2ms
//! timer recovery: 0%=3us 100%=5us
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::draw::BUCKETS;

/// The first line of a file of durations.
const HEADER: &str = "everhold durations 1";
/// The key of the line for all events without a line of their own.
const DEFAULT: &str = "default";
/// The quantiles that training writes, in units of 0.001 %.
const WRITTEN: [u32; 19] = [
    0, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 40_000, 50_000, 60_000, 70_000, 80_000, 90_000,
    95_000, 98_000, 99_000, 99_500, 99_900, WHOLE,
];
/// 100 % in these units.
const WHOLE: u32 = 100_000;

/// A distribution given by quantiles; it is uniform between two neighbouring ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantiles {
    /// Pairs of a cumulative share in units of 0.001 % and nanoseconds, from 0 to 100 %; both
    /// increase.
    points: Vec<(u32, u64)>,
}

impl Quantiles {
    /// Returns the distribution that is always this duration.
    #[must_use]
    pub fn constant(duration: Duration) -> Self {
        Quantiles::uniform(duration, duration)
    }

    /// Returns the uniform distribution between two durations.
    #[must_use]
    pub fn uniform(least: Duration, most: Duration) -> Self {
        let (least, most) = (nanoseconds(least), nanoseconds(most));
        Quantiles { points: vec![(0, least.min(most)), (WHOLE, most.max(least))] }
    }

    /// Returns the distribution of measured durations; `None` if there are none.
    #[must_use]
    pub fn measured(mut durations: Vec<u64>) -> Option<Self> {
        durations.sort_unstable();
        let last = durations.len().checked_sub(1)?;
        let at = |part: u32| durations[(last as u64 * u64::from(part) / u64::from(WHOLE)) as usize];
        Some(Quantiles { points: WRITTEN.iter().map(|part| (*part, at(*part))).collect() })
    }

    /// Returns the quantile of `part` (0 to 1): the duration that this share of the events does not
    /// exceed.
    #[must_use]
    pub fn at(&self, part: f64) -> Duration {
        let part = (part.clamp(0.0, 1.0) * f64::from(WHOLE)) as u32;
        let after = self.points.iter().position(|point| point.0 >= part).unwrap_or(0).max(1);
        let ((from, low), (to, high)) = (self.points[after - 1], self.points[after]);
        let passed = u128::from(high - low) * u128::from(part.saturating_sub(from));
        Duration::from_nanos(low + (passed / u128::from((to - from).max(1))) as u64)
    }

    /// Returns the quantiles at evenly spaced shares, for fast lookup.
    pub(crate) fn table(&self) -> Vec<u64> {
        let at = |bucket: usize| nanoseconds(self.at(bucket as f64 / BUCKETS as f64));
        (0..=BUCKETS).map(at).collect()
    }
}

impl fmt::Display for Quantiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (part, ns)) in self.points.iter().enumerate() {
            let gap = if number == 0 { "" } else { " " };
            let (whole, rest) = (part / 1_000, part % 1_000);
            let rest = format!("{rest:03}");
            let rest = rest.trim_end_matches('0');
            let dot = if rest.is_empty() { "" } else { "." };
            write!(f, "{gap}{whole}{dot}{rest}%={}", spell(*ns))?;
        }
        Ok(())
    }
}

/// The distributions of event durations by kind of event.
///
/// A kind is the name of a message's variant, `timer NAME`, `start`, `restart` or `task`.
///
/// ```
/// use everhold_timed::Durations;
/// let text = "everhold durations 1\ndefault: 0%=1ms 100%=10ms\nJoin: 0%=12us 50%=20us 100%=2ms\n";
/// let durations = Durations::parse(text).unwrap();
/// assert_eq!(durations.to_string(), text);
/// let error = Durations::parse("everhold durations 1\nJoin: 0%=3ms 100%=1ms\n").unwrap_err();
/// assert!(error.to_string().contains("line 2"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durations {
    kinds: BTreeMap<String, Quantiles>,
    default: Quantiles,
}

impl Default for Durations {
    fn default() -> Self {
        Durations::seed()
    }
}

impl Durations {
    /// The quantity that [training](super::Timed::train) measures on this platform: `CPU time`, or
    /// `wall time` where the processor time of a thread is not available.
    pub const MEASURED_AS: &'static str = super::busy::BUSY_IS;

    /// The durations before training: uniform between 1 and 10 ms, as in MacePC.
    #[must_use]
    pub fn seed() -> Self {
        Durations::uniform(Duration::from_millis(1), Duration::from_millis(10))
    }

    /// Gives every event a duration drawn uniformly between two values.
    #[must_use]
    pub fn uniform(least: Duration, most: Duration) -> Self {
        Durations { kinds: BTreeMap::new(), default: Quantiles::uniform(least, most) }
    }

    /// Gives every event a duration of zero.
    #[must_use]
    pub fn none() -> Self {
        Durations::uniform(Duration::ZERO, Duration::ZERO)
    }

    /// Sets the distribution of one kind of event.
    #[must_use]
    pub fn with(mut self, kind: &str, quantiles: Quantiles) -> Self {
        self.kinds.insert(kind.to_owned(), quantiles);
        self
    }

    /// Returns the distribution of a kind, if it has one of its own.
    #[must_use]
    pub fn get(&self, kind: &str) -> Option<&Quantiles> {
        self.kinds.get(kind)
    }

    /// Returns the kinds that have a distribution of their own.
    pub fn kinds(&self) -> impl Iterator<Item = (&str, &Quantiles)> {
        self.kinds.iter().map(|(kind, quantiles)| (kind.as_str(), quantiles))
    }

    /// Returns the distribution of all other kinds.
    #[must_use]
    pub fn default_quantiles(&self) -> &Quantiles {
        &self.default
    }

    /// Reads the text form.
    ///
    /// # Errors
    ///
    /// If a line does not parse, or its quantiles do not increase.
    pub fn parse(text: &str) -> Result<Self, DurationsError> {
        let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        let mut lines = lines.by_ref().filter(|(_, l)| !l.is_empty() && !l.starts_with('#'));
        match lines.next() {
            Some((_, HEADER)) => {}
            other => {
                let (line, found) = other.unwrap_or((1, "nothing"));
                let reason = format!("expected `{HEADER}`, found `{found}`");
                return Err(DurationsError { line, reason });
            }
        }
        let mut durations = Durations::seed();
        for (line, content) in lines {
            let wrong = |reason| DurationsError { line, reason };
            let (kind, points) = content.split_once(": ").ok_or_else(|| {
                wrong(format!("expected `KIND: 0%=DURATION ... 100%=DURATION`, found `{content}`"))
            })?;
            let quantiles = parse_points(points).map_err(wrong)?;
            match kind.trim() {
                DEFAULT => durations.default = quantiles,
                kind => drop(durations.kinds.insert(kind.to_owned(), quantiles)),
            }
        }
        Ok(durations)
    }
}

impl fmt::Display for Durations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}\n{DEFAULT}: {}", self.default)?;
        self.kinds.iter().try_for_each(|(kind, quantiles)| writeln!(f, "{kind}: {quantiles}"))
    }
}

/// An error in a file of durations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurationsError {
    /// The number of the line, counted from one.
    pub line: usize,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for DurationsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "durations, line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for DurationsError {}

fn parse_points(text: &str) -> Result<Quantiles, String> {
    let mut points: Vec<(u32, u64)> = Vec::new();
    for point in text.split_whitespace() {
        let shape = || format!("expected a quantile such as `50%=20us`, found `{point}`");
        let (part, duration) = point.split_once("%=").ok_or_else(shape)?;
        let part: f64 = part.parse().map_err(|_| shape())?;
        if !(0.0..=100.0).contains(&part) {
            return Err(format!("`{point}` is outside 0 to 100 %"));
        }
        let next = ((part * 1_000.0 + 0.5) as u32, read(duration)?);
        if let Some(last) = points.last() {
            if next.0 <= last.0 {
                return Err(format!("the quantiles do not rise at `{point}`; list them in order"));
            }
            if next.1 < last.1 {
                let before = spell(last.1);
                return Err(format!(
                    "`{point}` is less than the {before} of the quantile before it; a higher \
                     quantile cannot be a shorter time"
                ));
            }
        }
        points.push(next);
    }
    match (points.first(), points.last()) {
        (Some((0, _)), Some((WHOLE, _))) => Ok(Quantiles { points }),
        _ => Err("the quantiles must reach from 0% to 100%".to_owned()),
    }
}

const UNITS: [(&str, u64); 4] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

fn read(text: &str) -> Result<u64, String> {
    let problem =
        || format!("`{text}` is not a duration; write it as `250ns`, `12us`, `1.5ms` or `2s`");
    if text.starts_with('-') {
        return Err(format!("`{text}` is negative; a duration is at least `0ns`"));
    }
    let (unit, scale) = UNITS.iter().find(|(unit, _)| text.ends_with(unit)).ok_or_else(problem)?;
    let number = text.strip_suffix(unit).ok_or_else(problem)?;
    let (whole, rest) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(rest) || rest.len() > 9 {
        return Err(problem());
    }
    let whole: u64 = whole.parse().map_err(|_| problem())?;
    let rest: u64 = format!("{rest:0<9}").parse().map_err(|_| problem())?;
    let part = u64::try_from(u128::from(rest) * u128::from(*scale) / 1_000_000_000);
    let total = whole.checked_mul(*scale).zip(part.ok()).and_then(|(a, b)| a.checked_add(b));
    total.ok_or_else(|| format!("`{text}` is too long; the most is about 500 years"))
}

/// Formats a duration in the shortest exact form.
fn spell(ns: u64) -> String {
    let (unit, scale) = UNITS.iter().rev().find(|(_, scale)| ns >= *scale).unwrap_or(&UNITS[0]);
    let (whole, rest) = (ns / scale, ns % scale);
    if rest == 0 {
        return format!("{whole}{unit}");
    }
    let width = scale.ilog10() as usize;
    let rest = format!("{rest:0width$}");
    format!("{whole}.{}{unit}", rest.trim_end_matches('0'))
}

pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn scaled(ns: u64, percent: u32) -> u64 {
    u64::try_from(u128::from(ns) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::look_up;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let error = Durations::parse(&format!("{HEADER}\n# a remark\n{line}\n")).unwrap_err();
        assert_eq!(error.to_string(), format!("durations, line 3: {expected}"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let durations = "write it as `250ns`, `12us`, `1.5ms` or `2s`";
        check("Join 0%=1ms", "expected `KIND: 0%=DURATION ... 100%=DURATION`, found `Join 0%=1ms`");
        check("Join: 0%=1ms 50%=2ms", "the quantiles must reach from 0% to 100%");
        check("Join: 0%=1ms 100%=-2ms", "`-2ms` is negative; a duration is at least `0ns`");
        check("Join: 0%=1ms 100%=2xs", &format!("`2xs` is not a duration; {durations}"));
        check("Join: 0%=x1ms 100%=2s", &format!("`x1ms` is not a duration; {durations}"));
        check("Join: 0%=1ms 120%=2ms", "`120%=2ms` is outside 0 to 100 %");
        check("Join: 0%=1ms a=2ms", "expected a quantile such as `50%=20us`, found `a=2ms`");
        check(
            "Join: 0%=1ms 50%=3ms 40%=4ms 100%=9ms",
            "the quantiles do not rise at `40%=4ms`; list them in order",
        );
        check(
            "Join: 0%=5ms 100%=1ms",
            "`100%=1ms` is less than the 5ms of the quantile before it; a higher quantile cannot \
             be a shorter time",
        );
        let error = Durations::parse("durations\n").unwrap_err().to_string();
        assert_eq!(error, "durations, line 1: expected `everhold durations 1`, found `durations`");
        assert!(Durations::parse("").is_err());
    }

    #[test]
    fn text_and_tables_agree() {
        let measured = Quantiles::measured((0..=1_000).map(|n| n * n).collect()).unwrap();
        let durations = Durations::seed().with("timer recovery", measured);
        assert_eq!(Durations::parse(&durations.to_string()).unwrap(), durations);
        let table = Quantiles::uniform(Duration::ZERO, Duration::from_nanos(1_024)).table();
        assert_eq!(look_up(&table, 1 << 63), 512);
        assert!(Quantiles::measured(Vec::new()).is_none());
    }
}

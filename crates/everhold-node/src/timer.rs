//! Virtual time and the timers on it.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in virtual time, as one node's clock shows it: nanoseconds since the execution began.
///
/// Not an [`std::time::Instant`], so that wall-clock time cannot leak in.
///
/// ```
/// use std::time::Duration;
/// use everhold_node::Time;
/// let later = Time::ZERO + Duration::from_millis(3);
/// assert_eq!(later - Time::ZERO, Duration::from_millis(3));
/// assert_eq!(later.to_string(), "3ms");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Time(pub u64);

impl Time {
    /// When the execution began.
    pub const ZERO: Time = Time(0);
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, after: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub for Time {
    type Output = Duration;
    /// The time passed since `earlier`, or zero where a clock went back.
    fn sub(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}

/// The name of a timer at its node. Setting a timer that is already set moves it.
///
/// A name is enough for most: `cx.set_timer("election", after)`. Where a node has many of one
/// kind, such as one for each request, [`Timer::with`] tells them apart.
///
/// ```
/// use everhold_node::Timer;
/// let retry = Timer::from("retry").with(7);
/// assert_eq!(retry.to_string(), "retry#7");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timer {
    /// The purpose of the timer, as its name.
    pub name: &'static str,
    /// Which of several with the same name; zero for an only one.
    pub id: u64,
}

impl Timer {
    /// The same name with a number.
    #[must_use]
    pub fn with(self, id: u64) -> Timer {
        Timer { id, ..self }
    }
}

impl From<&'static str> for Timer {
    fn from(name: &'static str) -> Timer {
        Timer { name, id: 0 }
    }
}

impl fmt::Display for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id {
            0 => f.write_str(self.name),
            id => write!(f, "{}#{id}", self.name),
        }
    }
}

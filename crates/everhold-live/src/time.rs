//! The wall clock, read in one place.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the microseconds since 1970; 0 if the clock is set before that.
pub(crate) fn micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

//! A line that shows how far a search is, for a person who waits for `cargo test -- --nocapture`.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use everhold_trace::text::thousands;

/// Whether a search of this process has a line already: tests in parallel would overwrite each
/// other's.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The time before the line appears, and between two of its states.
const QUIET_FOR: Duration = Duration::from_secs(1);
const EVERY: Duration = Duration::from_millis(200);

/// The progress line of one search. It is removed when the search ends.
pub(crate) struct ProgressLine {
    /// The time of the next state; `None` if nobody would see it.
    next: Option<Duration>,
    shown: bool,
}

impl ProgressLine {
    /// A line, if standard error is a terminal that tests write to.
    pub(crate) fn new() -> Self {
        let wanted = io::stderr().is_terminal() && is_not_captured();
        let free = wanted && !TAKEN.swap(true, Ordering::Relaxed);
        ProgressLine { next: free.then_some(QUIET_FOR), shown: false }
    }

    /// Shows the progress, unless that was done a moment ago.
    pub(crate) fn tick(&mut self, name: &str, executions: u64, of: u64, elapsed: Duration) {
        let Some(next) = &mut self.next else { return };
        if elapsed < *next {
            return;
        }
        *next = elapsed + EVERY;
        self.shown = true;
        let _ = write!(io::stderr(), "\r\x1b[K{}", line(name, executions, of, elapsed));
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
        if self.next.is_some() {
            TAKEN.store(false, Ordering::Relaxed);
        }
    }
}

fn line(name: &str, executions: u64, of: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    let rate = executions as f64 / seconds.max(1e-3);
    // A line that wraps could not be overwritten.
    let name: String = name.chars().take(40).collect();
    format!(
        "{name} · {} of {} executions · {}/s · {seconds:.0} s",
        thousands(executions),
        thousands(of),
        thousands(rate as u64)
    )
}

/// Whether the test harness was told not to capture what tests print.
fn is_not_captured() -> bool {
    let asked = std::env::args().any(|arg| arg == "--nocapture" || arg == "--no-capture");
    asked || std::env::var("RUST_TEST_NOCAPTURE").is_ok_and(|value| value != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_rate_and_fits() {
        let drawn = line(&"long".repeat(30), 12_345, 100_000, Duration::from_millis(2_500));
        assert!(drawn.ends_with("· 12,345 of 100,000 executions · 4,938/s · 2 s"), "{drawn}");
        assert!(drawn.chars().count() < 100, "{drawn}");
    }
}

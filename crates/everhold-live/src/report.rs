//! Reports of problems, which must not disturb the application.

use std::fmt;
use std::sync::{Arc, Mutex};

/// A receiver of one line for each problem; by default it writes to standard error. A line that
/// repeats the previous one is left out.
#[derive(Clone)]
pub struct Report(Arc<Inner>);

struct Inner {
    tell: Box<dyn Fn(&str) + Send + Sync>,
    last: Mutex<String>,
}

impl Report {
    /// Passes every line to `tell`.
    pub fn to(tell: impl Fn(&str) + Send + Sync + 'static) -> Report {
        Report(Arc::new(Inner { tell: Box::new(tell), last: Mutex::default() }))
    }

    /// Reports a problem, unless it is the same as the last one.
    pub fn tell(&self, line: &str) {
        let mut last = self.0.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *last != line {
            line.clone_into(&mut last);
            drop(last);
            (self.0.tell)(line);
        }
    }
}

impl Default for Report {
    fn default() -> Report {
        // Parts of the line come from other processes, so control characters must not reach a
        // terminal.
        let escape = |c: char| match c.is_control() {
            true => c.escape_unicode().to_string(),
            false => c.to_string(),
        };
        let shown = move |line: &str| line.chars().map(escape).collect::<String>();
        Report::to(move |line| eprintln!("everhold: {}", shown(line)))
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Report")
    }
}

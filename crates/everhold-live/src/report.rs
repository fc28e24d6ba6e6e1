//! Where problems are told that must not disturb the application.

use std::fmt;
use std::sync::{Arc, Mutex};

/// Takes one line about each problem; by default it goes to standard error. A line that repeats
/// the one before it is left out.
#[derive(Clone)]
pub struct Report(Arc<Inner>);

struct Inner {
    tell: Box<dyn Fn(&str) + Send + Sync>,
    last: Mutex<String>,
}

impl Report {
    /// Hands every line to `tell`.
    pub fn to(tell: impl Fn(&str) + Send + Sync + 'static) -> Report {
        Report(Arc::new(Inner { tell: Box::new(tell), last: Mutex::default() }))
    }

    /// Tells of a problem, unless it is the one that was told last.
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
        // Some of it is in the words of others, which a terminal must not obey.
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

//! A progress line for long commands, on a terminal only.

use std::io::{self, IsTerminal, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The delay before the line appears; shorter commands end before it could be read.
const QUIET_FOR: Duration = Duration::from_millis(700);
const EVERY: Duration = Duration::from_millis(200);

/// Rewrites one line on standard error until it is dropped; does nothing if standard error is not a
/// terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    shared: Arc<Shared>,
    ticker: Option<(Sender<()>, JoinHandle<()>)>,
}

#[derive(Debug, Default)]
struct Shared {
    what: Mutex<String>,
    /// The phase that is being counted, and the time at which it began.
    phase: Mutex<Option<(String, Instant)>>,
    done: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    pub(crate) fn new(what: &str) -> Progress {
        let shared = Arc::new(Shared { what: Mutex::new(what.to_owned()), ..Shared::default() });
        let ticker = io::stderr().is_terminal().then(|| {
            let (stop, stopped) = channel();
            let shared = Arc::clone(&shared);
            let thread = std::thread::spawn(move || {
                let begin = Instant::now();
                let mut wait = QUIET_FOR;
                let mut shown = false;
                while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                    let _ = write!(io::stderr(), "\r\x1b[K{}", shared.line(begin.elapsed()));
                    (wait, shown) = (EVERY, true);
                }
                if shown {
                    let _ = write!(io::stderr(), "\r\x1b[K");
                }
            });
            (stop, thread)
        });
        Progress { shared, ticker }
    }

    /// Sets the description of the current work.
    pub(crate) fn set(&self, what: String) {
        *self.shared.what.lock().expect("no thread panics while it holds a line") = what;
    }

    /// Clears the line, so that something else can be written; it appears again by itself.
    pub(crate) fn pause(&self) {
        if self.ticker.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    /// Sets the progress of a phase; the line then contains its rate and the time left.
    pub(crate) fn phase(&self, what: &str, done: u64, total: u64) {
        let mut phase = self.shared.phase.lock().expect("no thread panics while it holds a line");
        if phase.as_ref().is_none_or(|(name, _)| name != what) {
            *phase = Some((what.to_owned(), Instant::now()));
            self.set(what.to_owned());
        }
        self.shared.done.store(done, Ordering::Relaxed);
        self.shared.total.store(total, Ordering::Relaxed);
    }

    /// Increases the amount of work.
    pub(crate) fn add_total(&self, total: u64) {
        self.shared.total.fetch_add(total, Ordering::Relaxed);
    }

    /// Counts the bytes that are read from `input` as done.
    pub(crate) fn counting<R: Read>(&self, input: R) -> Counting<R> {
        Counting { input, shared: Arc::clone(&self.shared) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.ticker.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn line(&self, elapsed: Duration) -> String {
        let what = self.what.lock().expect("no thread panics while it holds a line").clone();
        let (done, total) = (&self.done, &self.total);
        let (done, total) = (done.load(Ordering::Relaxed), total.load(Ordering::Relaxed));
        let percent = match total {
            0 => String::new(),
            total => format!(" · {} %", done.min(total) * 100 / total),
        };
        // A line that wraps could not be rewritten.
        let what: String = what.chars().take(60).collect();
        format!("{what}{percent}{} · {} s", self.rate(done, total), elapsed.as_secs())
    }

    /// The rate of a phase, and the time left.
    fn rate(&self, done: u64, total: u64) -> String {
        let phase = self.phase.lock().expect("no thread panics while it holds a line");
        let Some((_, begin)) = phase.as_ref().filter(|_| done > 0) else { return String::new() };
        let rate = done as f64 / begin.elapsed().as_secs_f64().max(1e-3);
        let left = total.saturating_sub(done) as f64 / rate;
        format!(" · {done} of {total} · {rate:.0}/s · {left:.0} s left")
    }
}

/// A reader that counts the bytes that it passes on.
#[derive(Debug)]
pub(crate) struct Counting<R> {
    input: R,
    shared: Arc<Shared>,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.shared.done.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

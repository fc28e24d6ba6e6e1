//! Alerts that wait for delivery: in order, in a bounded number, and, if there is a folder, in a file
//! from which the next process goes on.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::intake::now_micros;

/// The largest number of alerts that wait for delivery.
const ALERTS_MAX: usize = 4096;

/// With more lines, the file is written anew.
const LINES_MAX: usize = 4 * ALERTS_MAX;

/// The file of the alerts that wait, in the folder of a watch.
const FILE: &str = "alerts.jsonl";

/// An alert that waits.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    number: u64,
    /// Since when, in microseconds since 1970.
    pub(super) since: u64,
    pub(super) alert: Json,
}

#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    alerts: VecDeque<Kept>,
    /// The number of the last alert.
    last: u64,
    /// Alerts that found no room and were not reported yet.
    dropped: u64,
    file: Option<File>,
    /// How many lines it has.
    lines: usize,
    is_closed: bool,
}

impl Outbox {
    /// Goes on with what an earlier process left in the folder.
    pub(super) fn open(folder: &Path) -> io::Result<Outbox> {
        let path = folder.join(FILE);
        let mut waiting = Waiting::default();
        if let Ok(file) = File::open(&path) {
            BufReader::new(file).lines().map_while(Result::ok).for_each(|line| waiting.read(&line));
        }
        waiting.file = Some(OpenOptions::new().create(true).append(true).open(&path)?);
        waiting.rewrite();
        Ok(Outbox { waiting: Mutex::new(waiting), changed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, alert: Json) {
        let mut waiting = self.lock();
        if waiting.alerts.len() >= ALERTS_MAX {
            waiting.dropped += 1;
            return;
        }
        waiting.last += 1;
        let kept = Kept { number: waiting.last, since: now_micros(), alert };
        waiting.write(&kept.line());
        waiting.alerts.push_back(kept);
        self.changed.notify_all();
    }

    /// The alert that comes next, as soon as there is one; `None` if there will be none.
    pub(super) fn next(&self) -> Option<Kept> {
        let mut waiting = self.lock();
        loop {
            if let Some(first) = waiting.alerts.front() {
                return Some(first.clone());
            }
            if waiting.is_closed {
                return None;
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The first alert is delivered, or given up. Returns how many found no room meanwhile.
    pub(super) fn pop(&self) -> u64 {
        let mut waiting = self.lock();
        if let Some(Kept { number, .. }) = waiting.alerts.pop_front() {
            match waiting.alerts.is_empty() || waiting.lines > LINES_MAX {
                true => waiting.rewrite(),
                false => waiting.write(&json!({ "done": number }).to_string()),
            }
        }
        self.changed.notify_all();
        std::mem::take(&mut waiting.dropped)
    }

    /// Nothing is added any more.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Waits until all alerts are delivered, at most so long; returns how many are not.
    pub(super) fn wait(&self, longest: Duration) -> usize {
        let end = Instant::now() + longest;
        let mut waiting = self.lock();
        while !waiting.alerts.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let changed = self.changed.wait_timeout(waiting, left);
            waiting = changed.unwrap_or_else(PoisonError::into_inner).0;
        }
        waiting.alerts.len()
    }
}

impl Kept {
    fn line(&self) -> String {
        let Kept { number, since, alert } = self;
        json!({ "number": number, "since": since, "alert": alert }).to_string()
    }
}

impl Waiting {
    /// A line that a kill cut short is passed over.
    fn read(&mut self, line: &str) {
        let Ok(mut json) = serde_json::from_str::<Json>(line) else { return };
        if let Some(done) = json["done"].as_u64() {
            self.alerts.retain(|kept| kept.number != done);
        } else if let (Some(number), Some(since)) =
            (json["number"].as_u64(), json["since"].as_u64())
        {
            self.last = self.last.max(number);
            self.alerts.push_back(Kept { number, since, alert: json["alert"].take() });
        }
    }

    /// Where it cannot be written, as on a full disk, alerts wait in memory alone.
    fn write(&mut self, line: &str) {
        self.lines += 1;
        if let Some(file) = &mut self.file {
            let _ = file.write_all(format!("{line}\n").as_bytes());
        }
    }

    /// Leaves in the file what still waits.
    fn rewrite(&mut self) {
        if let Some(file) = &self.file {
            let _ = file.set_len(0);
        }
        self.lines = 0;
        let lines: Vec<String> = self.alerts.iter().map(Kept::line).collect();
        lines.iter().for_each(|line| self.write(line));
    }
}

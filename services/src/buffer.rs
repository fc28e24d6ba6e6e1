//! Counts words with threads alone: readers put lines into a bounded buffer, and workers take them
//! out. Whoever finds the buffer full or empty waits at a condition variable.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;

/// Who is woken when the buffer changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waking {
    /// Everybody.
    All,
    /// Anybody, whether he waits for room or for a line: he may not be able to go on.
    One,
}

/// A queue of at most `room` lines.
struct Buffer {
    lines: Mutex<VecDeque<Option<String>>>,
    changed: Condvar,
    room: usize,
    waking: Waking,
}

impl Buffer {
    fn new(room: usize, waking: Waking) -> Self {
        Buffer { lines: Mutex::default(), changed: Condvar::new(), room, waking }
    }

    fn put(&self, line: Option<String>) {
        let lines = self.lines.lock().unwrap();
        let mut lines = self.changed.wait_while(lines, |l| l.len() == self.room).unwrap();
        lines.push_back(line);
        drop(lines);
        self.wake();
    }

    fn take(&self) -> Option<String> {
        let lines = self.lines.lock().unwrap();
        let mut lines = self.changed.wait_while(lines, |l| l.is_empty()).unwrap();
        let line = lines.pop_front().expect("it is not empty");
        drop(lines);
        self.wake();
        line
    }

    fn wake(&self) {
        match self.waking {
            Waking::All => self.changed.notify_all(),
            Waking::One => self.changed.notify_one(),
        }
    }
}

/// Counts the words of some texts, with a reader for each text and as many workers.
pub fn count(texts: &[&'static str], room: usize, waking: Waking) -> BTreeMap<String, usize> {
    let buffer = Arc::new(Buffer::new(room, waking));
    let (send, counts) = mpsc::channel();
    let mut threads = Vec::new();
    for &text in texts {
        let (into, from, send) = (Arc::clone(&buffer), Arc::clone(&buffer), send.clone());
        threads.push(thread::spawn(move || {
            text.lines().map(|line| Some(line.to_owned())).for_each(|line| into.put(line));
            // One worker ends for each reader that does.
            into.put(None);
        }));
        threads.push(thread::spawn(move || {
            while let Some(line) = from.take() {
                line.split_whitespace().for_each(|word| send.send(word.to_owned()).unwrap());
            }
        }));
    }
    drop(send);
    let mut total = BTreeMap::new();
    counts.iter().for_each(|word| *total.entry(word).or_default() += 1);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    total
}

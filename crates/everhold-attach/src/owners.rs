//! The nodes that the messages of a process belong to, if the process shows several.
//!
//! The kernel knows the process and the thread of a send, and not the node that asked for it. As long
//! as a thread has shown one node only, its messages are that node's. A thread that has shown none or
//! several says nothing, and in Go no thread does, since goroutines change threads.

use std::collections::{BTreeMap, BTreeSet};

/// The nodes that a thread has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shown {
    One(String),
    Several,
}

/// The nodes that threads have shown, by process and thread.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    threads: BTreeMap<(u32, u32), Shown>,
    /// Processes in which threads do not stand for nodes.
    threadless: BTreeSet<u32>,
}

impl Owners {
    /// A thread has shown a node.
    pub(crate) fn shown(&mut self, process: u32, thread: u32, node: &str) {
        let new = || Shown::One(node.to_owned());
        let shown = self.threads.entry((process, thread)).or_insert_with(new);
        if !matches!(shown, Shown::One(known) if known == node) {
            *shown = Shown::Several;
        }
    }

    /// The threads of this process stand for nothing.
    pub(crate) fn threadless(&mut self, process: u32) {
        self.threadless.insert(process);
    }

    /// The node that a message of this thread belongs to, if that is known.
    pub(crate) fn owner(&self, process: u32, thread: u32) -> Option<&str> {
        match self.threads.get(&(process, thread)) {
            Some(Shown::One(node)) if !self.threadless.contains(&process) => Some(node),
            _ => None,
        }
    }

    /// A process is gone, and its numbers may come again.
    pub(crate) fn forget(&mut self, process: u32) {
        self.threads.retain(|(of, _), _| *of != process);
        self.threadless.remove(&process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stands_for_the_only_node_that_it_has_shown() {
        let mut owners = Owners::default();
        let check = |owners: &Owners, thread: u32, expected: Option<&str>| {
            assert_eq!(owners.owner(7, thread), expected, "thread {thread}");
        };
        check(&owners, 1, None);
        for (thread, node) in [(1, "a"), (2, "b"), (1, "a"), (3, "a"), (3, "b"), (3, "a")] {
            owners.shown(7, thread, node);
        }
        check(&owners, 1, Some("a"));
        check(&owners, 2, Some("b"));
        check(&owners, 3, None);
        assert_eq!(owners.owner(8, 1), None);
        owners.threadless(7);
        check(&owners, 1, None);
        owners.forget(7);
        check(&owners, 2, None);
    }
}

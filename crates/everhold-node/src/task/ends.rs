//! Connections that ended, for async nodes that ask.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use everhold_trace::NodeId;

use super::Shared;
use crate::process::TaskId;

/// Peers whose connections ended, and the tasks that wait for the next such end.
#[derive(Default)]
pub(super) struct Ends {
    peers: VecDeque<NodeId>,
    listeners: Vec<(TaskId, Waker)>,
}

impl Ends {
    /// Keeps an end until someone asks; gives the task that waits for it already.
    pub(super) fn add(&mut self, peer: NodeId) -> Option<TaskId> {
        self.peers.push_back(peer);
        if self.listeners.is_empty() {
            return None;
        }
        let (task, waker) = self.listeners.remove(0);
        waker.wake();
        Some(task)
    }

    pub(super) fn is_awaited_by(&self, task: TaskId) -> bool {
        self.listeners.iter().any(|(listener, _)| *listener == task)
    }
}

/// The future of [`AsyncCx::disconnected`](super::AsyncCx::disconnected).
#[must_use = "nothing is waited for before it is awaited"]
pub struct NextEnd<M> {
    pub(super) shared: Rc<Shared<M>>,
}

impl<M> fmt::Debug for NextEnd<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NextEnd").finish_non_exhaustive()
    }
}

impl<M> Future for NextEnd<M> {
    type Output = NodeId;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<NodeId> {
        let task = self.shared.current.get();
        let mut ends = self.shared.ends.borrow_mut();
        ends.listeners.retain(|(listener, _)| *listener != task);
        match ends.peers.pop_front() {
            Some(peer) => Poll::Ready(peer),
            None => {
                ends.listeners.push((task, cx.waker().clone()));
                Poll::Pending
            }
        }
    }
}

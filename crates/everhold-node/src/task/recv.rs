//! Waiting for messages: the futures behind `recv` and `call`, and which of them a message goes to.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use everhold_trace::NodeId;

use super::{AsyncCx, Received, Shared};
use crate::node::Message;
use crate::process::TaskId;
use crate::runtime::Tag;

/// A future that waits for a message.
pub(super) struct Waiter<M> {
    number: u32,
    pub(super) task: TaskId,
    pub(super) waker: Waker,
    pub(super) wants: Wants<M>,
    pub(super) got: Option<Received<M>>,
}

pub(super) enum Wants<M> {
    Any,
    Some(Box<dyn Fn(NodeId, &M) -> bool>),
    Reply { from: NodeId, number: u64 },
}

impl<M> Waiter<M> {
    fn receives(&self, from: NodeId, msg: &M) -> bool {
        self.got.is_none()
            && match &self.wants {
                Wants::Any => true,
                Wants::Some(accepts) => accepts(from, msg),
                Wants::Reply { .. } => false,
            }
    }

    fn awaits_reply(&self, callee: NodeId, expected: u64) -> bool {
        let is_it = |from, number| from == callee && number == expected;
        self.got.is_none()
            && matches!(self.wants, Wants::Reply { from, number } if is_it(from, number))
    }
}

/// Where an arriving message goes.
pub(super) enum Addressee {
    Waiter(usize),
    /// The answer to a call that was given up, or that an earlier life of the node made.
    Nobody,
}

pub(super) fn addressee<M>(
    waiters: &[Waiter<M>],
    from: NodeId,
    tag: Tag,
    msg: &M,
) -> Option<Addressee> {
    let position = |wanted: &dyn Fn(&Waiter<M>) -> bool| waiters.iter().position(wanted);
    match tag {
        Tag::Reply(number) => Some(
            position(&|waiter| waiter.awaits_reply(from, number))
                .map_or(Addressee::Nobody, Addressee::Waiter),
        ),
        Tag::None | Tag::Request(_) => {
            position(&|waiter| waiter.receives(from, msg)).map(Addressee::Waiter)
        }
    }
}

/// The future of [`AsyncCx::recv`] and [`AsyncCx::recv_if`].
#[must_use = "nothing is received before it is awaited"]
pub struct Recv<M> {
    shared: Rc<Shared<M>>,
    wants: Option<Wants<M>>,
    number: u32,
}

impl<M> Recv<M> {
    pub(super) fn new(shared: &Rc<Shared<M>>, wants: Wants<M>) -> Self {
        Recv { shared: Rc::clone(shared), wants: Some(wants), number: 0 }
    }
}

impl<M> fmt::Debug for Recv<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recv").finish_non_exhaustive()
    }
}

// Nothing in a `Recv` is pinned: it holds no future.
impl<M> Unpin for Recv<M> {}

impl<M> Future for Recv<M> {
    type Output = Received<M>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Received<M>> {
        let shared = Rc::clone(&self.shared);
        let mut waiters = shared.waiters.borrow_mut();
        if let Some(wants) = self.wants.take() {
            if let Some(message) = take_returned(&shared, &wants) {
                return Poll::Ready(message);
            }
            self.number = shared.next_number();
            waiters.push(Waiter {
                number: self.number,
                task: shared.current.get(),
                waker: cx.waker().clone(),
                wants,
                got: None,
            });
            return Poll::Pending;
        }
        let at = waiters
            .iter()
            .position(|waiter| waiter.number == self.number)
            .expect("a future is not polled after it was ready");
        if waiters[at].got.is_some() {
            return Poll::Ready(waiters.remove(at).got.expect("it was just seen"));
        }
        waiters[at].waker.clone_from(cx.waker());
        waiters[at].task = shared.current.get();
        Poll::Pending
    }
}

fn take_returned<M>(shared: &Shared<M>, wants: &Wants<M>) -> Option<Received<M>> {
    let mut returned = shared.returned.borrow_mut();
    let at = returned.iter().position(|message| match wants {
        Wants::Any => true,
        Wants::Some(accepts) => accepts(message.from, &message.msg),
        Wants::Reply { .. } => false,
    })?;
    returned.remove(at)
}

impl<M> Drop for Recv<M> {
    fn drop(&mut self) {
        let mut waiters = self.shared.waiters.borrow_mut();
        if let Some(at) = waiters.iter().position(|waiter| waiter.number == self.number) {
            // Dropped between delivery and poll, as in a race: the message is not lost, unless it
            // is a reply, for which nobody else can wait.
            let Waiter { got, wants, .. } = waiters.remove(at);
            let Some(message) = got.filter(|_| !matches!(wants, Wants::Reply { .. })) else {
                return;
            };
            match waiters.iter_mut().find(|other| other.receives(message.from, &message.msg)) {
                Some(other) => {
                    other.got = Some(message);
                    other.waker.wake_by_ref();
                }
                None => self.shared.returned.borrow_mut().push_back(message),
            }
        }
    }
}

/// The future of [`AsyncCx::call`].
#[must_use = "the request is sent when it is awaited"]
pub struct Call<M> {
    cx: AsyncCx<M>,
    to: NodeId,
    request: Option<M>,
    answer: Option<Recv<M>>,
}

impl<M> Call<M> {
    pub(super) fn new(cx: AsyncCx<M>, to: NodeId, request: M) -> Self {
        Call { cx, to, request: Some(request), answer: None }
    }
}

impl<M: Message> Call<M> {
    /// Sends the request at the first poll.
    fn answer(&mut self) -> &mut Recv<M> {
        if let Some(request) = self.request.take() {
            let number = self.cx.next_request();
            let AsyncCx { runtime, node, shared } = &self.cx;
            runtime.borrow_mut().send(*node, self.to, Tag::Request(number), request);
            self.answer = Some(Recv::new(shared, Wants::Reply { from: self.to, number }));
        }
        self.answer.as_mut().expect("the request was sent")
    }
}

impl<M> fmt::Debug for Call<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("to", &self.to).finish_non_exhaustive()
    }
}

// The request is moved out of it, never pinned.
impl<M> Unpin for Call<M> {}

impl<M: Message> Future for Call<M> {
    type Output = M;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<M> {
        Pin::new(self.answer()).poll(cx).map(|received| received.msg)
    }
}

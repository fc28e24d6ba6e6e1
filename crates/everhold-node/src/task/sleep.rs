//! Futures of time: sleeping, giving up, and the first of two.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::{AsyncCx, Either, Elapsed};
use crate::node::Message;
use crate::timer::Timer;

/// The name of the timers behind [`AsyncCx::sleep`].
const SLEEP: &str = "sleep";

/// The numbers of a node's sleeps that have begun and were not dropped, by whether they are taken.
///
/// Each sleep takes the lowest free number, so that the sleep of a loop has the same name every time.
#[derive(Default)]
pub(super) struct Numbers(Vec<bool>);

impl Numbers {
    fn take(&mut self) -> u64 {
        let free = self.0.iter().position(|taken| !taken).unwrap_or(self.0.len());
        if free == self.0.len() {
            self.0.push(true);
        }
        self.0[free] = true;
        free as u64
    }

    fn give_back(&mut self, number: u64) {
        self.0[number as usize] = false;
    }
}

/// The future of [`AsyncCx::sleep`].
#[must_use = "time passes only while it is awaited"]
pub struct Sleep<M> {
    cx: AsyncCx<M>,
    after: Duration,
    /// Set at the first poll.
    timer: Option<Timer>,
}

impl<M> Sleep<M> {
    pub(super) fn new(cx: AsyncCx<M>, after: Duration) -> Self {
        Sleep { cx, after, timer: None }
    }
}

impl<M: Message> Sleep<M> {
    fn timer(&mut self) -> Timer {
        *self.timer.get_or_insert_with(|| {
            let timer = Timer::from(SLEEP).with(self.cx.shared.sleeps.borrow_mut().take());
            self.cx.runtime.borrow_mut().set_timer(self.cx.node, timer, self.after);
            timer
        })
    }
}

impl<M> fmt::Debug for Sleep<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("after", &self.after).finish_non_exhaustive()
    }
}

// Nothing in a `Sleep` is pinned: it holds no future.
impl<M> Unpin for Sleep<M> {}

impl<M: Message> Future for Sleep<M> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mine = self.timer();
        let shared = &self.cx.shared;
        let mut fired = shared.fired.borrow_mut();
        if let Some(at) = fired.iter().position(|timer| *timer == mine) {
            fired.swap_remove(at);
            return Poll::Ready(());
        }
        let mut sleepers = shared.sleepers.borrow_mut();
        sleepers.retain(|(timer, ..)| *timer != mine);
        sleepers.push((mine, shared.current.get(), cx.waker().clone()));
        Poll::Pending
    }
}

impl<M> Drop for Sleep<M> {
    fn drop(&mut self) {
        let Some(mine) = self.timer else { return };
        let shared = &self.cx.shared;
        shared.sleepers.borrow_mut().retain(|(timer, ..)| *timer != mine);
        shared.fired.borrow_mut().retain(|timer| *timer != mine);
        // A world that is being torn down may hold the runtime; its timers go with it.
        if let Ok(mut runtime) = self.cx.runtime.try_borrow_mut() {
            runtime.cancel_timer(self.cx.node, mine);
        }
        // Only now, when no timer has this name any more, may another sleep have it.
        shared.sleeps.borrow_mut().give_back(mine.id);
    }
}

/// The future of [`AsyncCx::race`].
#[must_use = "neither runs before it is awaited"]
pub struct Race<A, B> {
    a: Pin<Box<A>>,
    b: Pin<Box<B>>,
}

impl<A, B> Race<A, B> {
    pub(super) fn new(a: A, b: B) -> Self {
        Race { a: Box::pin(a), b: Box::pin(b) }
    }
}

impl<A, B> fmt::Debug for Race<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Race").finish_non_exhaustive()
    }
}

impl<A: Future, B: Future> Future for Race<A, B> {
    type Output = Either<A::Output, B::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(output) = self.a.as_mut().poll(cx) {
            return Poll::Ready(Either::Left(output));
        }
        self.b.as_mut().poll(cx).map(Either::Right)
    }
}

/// The future of [`AsyncCx::timeout`].
#[must_use = "nothing runs before it is awaited"]
pub struct Timeout<F, M> {
    race: Race<F, Sleep<M>>,
}

impl<F, M> Timeout<F, M> {
    pub(super) fn new(future: F, sleep: Sleep<M>) -> Self {
        Timeout { race: Race::new(future, sleep) }
    }
}

impl<F, M> fmt::Debug for Timeout<F, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeout").finish_non_exhaustive()
    }
}

impl<F: Future, M: Message> Future for Timeout<F, M> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.race).poll(cx).map(|first| match first {
            Either::Left(output) => Ok(output),
            Either::Right(()) => Err(Elapsed),
        })
    }
}

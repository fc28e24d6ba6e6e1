//! Nodes written as `async` programs, and the small executor under them.
//!
//! A message is handed straight to the future that waits for it: until some task of the node
//! waits for a message it takes, the message stays in the network. So one step is one delivery
//! and everything the woken task does before it waits again. Other tasks that became ready are
//! separate steps, and their order is explored.
//!
//! Futures that need nothing but a waker (`tokio::sync`, `futures` channels, `select!`) work here.
//! Whatever needs a reactor or a thread (sockets, `tokio::time`, `spawn_blocking`) does not.

mod current;
mod ends;
mod recv;
mod sleep;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use everhold_trace::{NodeId, Value};
use serde::Serialize;

use crate::context;
use crate::disk::Disk;
use crate::node::Message;
use crate::process::{Process, Shown, TaskId, Waiting};
use crate::random::Random;
use crate::runtime::{Handle, Tag, Ticket};
use crate::timer::{Time, Timer};
use crate::weights::Weights;
use current::Entered;
use ends::Ends;
use recv::{Addressee, Waiter, Wants, addressee};

pub use ends::NextEnd;
pub use recv::{Call, Recv};
pub use sleep::{Race, Sleep, Timeout};

pub(crate) type Task = Pin<Box<dyn Future<Output = ()>>>;

/// An async node's door to the world. Cheap to clone, so that tasks can share it.
///
/// Its futures are types of their own that borrow nothing ([`Sleep`], [`Call`], [`Recv`], [`Timeout`],
/// [`Race`]), and [`current`](AsyncCx::current) gives the context to code that is not handed one. So the
/// runtime trait of a crate can be implemented on it, if the crate allows futures that stay on one
/// thread.
pub struct AsyncCx<M> {
    runtime: Handle<M>,
    node: NodeId,
    shared: Rc<Shared<M>>,
}

impl<M> Clone for AsyncCx<M> {
    fn clone(&self) -> Self {
        AsyncCx {
            runtime: Rc::clone(&self.runtime),
            node: self.node,
            shared: Rc::clone(&self.shared),
        }
    }
}

impl<M> Debug for AsyncCx<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncCx").field("node", &self.node).finish_non_exhaustive()
    }
}

/// A message that was received, with its sender.
#[derive(Clone, Debug)]
pub struct Received<M> {
    /// Who sent it.
    pub from: NodeId,
    /// The message itself.
    pub msg: M,
    tag: Tag,
}

impl<M> Received<M> {
    /// The right to answer this message later.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        Ticket { to: self.from, tag: self.tag }
    }
}

/// Time ran out before the future was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

/// Which of two futures was ready first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The first one.
    Left(A),
    /// The second one.
    Right(B),
}

impl<M: Message> AsyncCx<M> {
    /// The context of the task that is being polled: for code that is not handed one, such as the
    /// runtime trait of a crate.
    ///
    /// ```
    /// use std::time::Duration;
    /// use everhold_node::AsyncCx;
    /// use everhold_node::task::Sleep;
    ///
    /// /// What a crate asks of its runtime.
    /// trait Runtime {
    ///     type Sleep: Future<Output = ()> + 'static;
    ///     fn sleep(after: Duration) -> Self::Sleep;
    ///     fn spawn(task: impl Future<Output = ()> + 'static);
    /// }
    ///
    /// struct Everhold;
    ///
    /// impl Runtime for Everhold {
    ///     type Sleep = Sleep<u32>;
    ///     fn sleep(after: Duration) -> Sleep<u32> { AsyncCx::current().sleep(after) }
    ///     fn spawn(task: impl Future<Output = ()> + 'static) { AsyncCx::<u32>::current().spawn(task) }
    /// }
    /// ```
    ///
    /// # Panics
    ///
    /// Outside of an async node, and if the system's messages are of another type. Destructors of tasks
    /// may run outside; [`try_current`](AsyncCx::try_current) is for them.
    #[must_use]
    #[track_caller]
    pub fn current() -> Self {
        Self::try_current().unwrap_or_else(|| {
            let message = std::any::type_name::<M>();
            let why = if current::is_set() {
                "the task that is being polled belongs to a system with other messages"
            } else {
                "no task of an async node is being polled here"
            };
            panic!("AsyncCx::<{message}>::current(): {why}")
        })
    }

    /// The context of the task that is being polled, if there is one with messages of this type.
    #[must_use]
    pub fn try_current() -> Option<Self> {
        current::get()
    }

    /// This node.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.node
    }

    /// The time on this node's clock.
    #[must_use]
    pub fn now(&self) -> Time {
        self.runtime.borrow().now(self.node)
    }

    /// Sends a message.
    pub fn send(&self, to: NodeId, msg: M) {
        self.runtime.borrow_mut().send(self.node, to, Tag::None, msg);
    }

    /// Sends a message if the send buffer has room; see [`Cx::try_send`](crate::Cx::try_send).
    ///
    /// # Errors
    ///
    /// The message, if there is no room.
    pub fn try_send(&self, to: NodeId, msg: M) -> Result<(), M> {
        self.runtime.borrow_mut().try_send(self.node, to, Tag::None, msg)
    }

    /// Answers a message that was received.
    pub fn reply(&self, to: &Received<M>, msg: M) {
        self.answer(to.ticket(), msg);
    }

    /// Answers a request whose ticket was kept.
    pub fn answer(&self, ticket: Ticket, msg: M) {
        let tag = context::reply_tag(ticket.tag);
        self.runtime.borrow_mut().send(self.node, ticket.to, tag, msg);
    }

    /// The next message. Waiting here is being idle, not being stuck.
    pub fn recv(&self) -> Recv<M> {
        Recv::new(&self.shared, Wants::Any)
    }

    /// The next message for which `accepts` is true; the others wait in the network.
    pub fn recv_if(&self, accepts: impl Fn(NodeId, &M) -> bool + 'static) -> Recv<M> {
        Recv::new(&self.shared, Wants::Some(Box::new(accepts)))
    }

    /// The peer of the next connection that ends; see
    /// [`Node::disconnected`](crate::Node::disconnected). Ends that nobody waits for are kept in
    /// their order. Waiting here is being idle, not being stuck.
    ///
    /// ```
    /// use everhold_node::{AsyncCx, Either, NodeId};
    ///
    /// /// Asks until there is an answer, over as many connections as that takes.
    /// async fn ask(cx: AsyncCx<u32>, server: NodeId) {
    ///     while let Either::Right(_) = cx.race(cx.call(server, 1), cx.disconnected()).await {}
    /// }
    /// ```
    pub fn disconnected(&self) -> NextEnd<M> {
        NextEnd { shared: Rc::clone(&self.shared) }
    }

    /// Sends a request and waits for its answer.
    ///
    /// An answer is a [`reply`](crate::Cx::reply) of `to` to this very request and nothing else:
    /// other messages of `to`, its own requests among them, wait for a [`recv`](AsyncCx::recv),
    /// and a reply to a request from before a crash of this node is dropped. To give up after a
    /// while use [`timeout`](AsyncCx::timeout); a reply that comes later is dropped too.
    pub fn call(&self, to: NodeId, request: M) -> Call<M> {
        Call::new(self.clone(), to, request)
    }

    /// Waits about `after`, from the moment at which it is first polled.
    pub fn sleep(&self, after: Duration) -> Sleep<M> {
        Sleep::new(self.clone(), after)
    }

    /// The future's result, or [`Elapsed`] if `after` passes first.
    pub fn timeout<F: Future>(&self, after: Duration, future: F) -> Timeout<F, M> {
        Timeout::new(future, self.sleep(after))
    }

    /// Waits for whichever is ready first and drops the other; the first wins a tie.
    pub fn race<A: Future, B: Future>(&self, a: A, b: B) -> Race<A, B> {
        Race::new(a, b)
    }

    /// Runs another task inside this node. When it first runs, and how the node's tasks
    /// interleave, is explored.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.shared.spawned.borrow_mut().push((Box::pin(task), Role::Owing));
    }

    /// Runs another task that may wait for ever without that being a deadlock.
    pub fn spawn_background(&self, task: impl Future<Output = ()> + 'static) {
        self.shared.spawned.borrow_mut().push((Box::pin(task), Role::Background));
    }

    /// A number from this node's seeded stream; see [`Cx::random`](crate::Cx::random).
    #[must_use]
    pub fn random(&self) -> u64 {
        self.runtime.borrow_mut().random(self.node)
    }

    /// A source of random numbers for crates that take one, seeded from this node's stream.
    #[must_use]
    pub fn rng(&self) -> Random {
        Random::seeded(self.random())
    }

    /// One of `domain` possibilities; see [`Cx::choose`](crate::Cx::choose).
    ///
    /// # Panics
    ///
    /// If `domain` is zero.
    #[must_use]
    pub fn choose(&self, label: &'static str, domain: usize) -> usize {
        context::choose(&mut *self.runtime.borrow_mut(), self.node, label, domain)
    }

    /// One of as many options as there are weights; see
    /// [`Cx::choose_weighted`](crate::Cx::choose_weighted).
    ///
    /// # Panics
    ///
    /// If no weight is above 0, or if they add up to 2^32 or more.
    #[must_use]
    pub fn choose_weighted(&self, label: &'static str, weights: &[u32]) -> usize {
        let weights = Weights::new(label, weights);
        self.runtime.borrow_mut().choose_weighted(self.node, label, weights) as usize
    }

    /// A coin of the strategy.
    #[must_use]
    pub fn flip(&self, label: &'static str) -> bool {
        self.choose(label, 2) == 1
    }

    /// Uses this node's disk.
    pub fn disk<T>(&self, with: impl FnOnce(&mut Disk) -> T) -> T {
        with(self.runtime.borrow_mut().disk(self.node))
    }

    /// Tells the monitors that listen to events of this type.
    pub fn notify<E: Any + Debug>(&self, event: E) {
        self.runtime.borrow_mut().notify(self.node, &event, &event);
    }

    /// Shows this state from now on: to properties, traces and state diffs.
    pub fn observe<T: Serialize + 'static>(&self, state: T) {
        *self.shared.state.borrow_mut() = Some(Rc::new(state));
    }

    /// Reports a named assertion that does not hold.
    pub fn check(&self, holds: bool, assertion: &str, message: impl FnOnce() -> String) {
        if !holds {
            self.runtime.borrow_mut().fail(self.node, assertion, message());
        }
    }

    /// Reports a message that this node must never receive now.
    pub fn unexpected(&self, msg: &M) {
        let text = format!("received {msg:?}");
        self.runtime.borrow_mut().fail(self.node, "no unexpected message", text);
    }

    /// Leaves the system for good.
    pub fn halt(&self) {
        self.runtime.borrow_mut().halt(self.node);
    }

    /// Adds a line to the record of this event.
    pub fn note(&self, text: impl FnOnce() -> String) {
        let mut runtime = self.runtime.borrow_mut();
        if runtime.is_recorded() {
            runtime.note(self.node, text());
        }
    }

    /// A number for a request that no other request of this node has.
    fn next_request(&self) -> u64 {
        let life = self.runtime.borrow().incarnation(self.node);
        (life << 32) | u64::from(self.shared.next_number())
    }
}

/// State that the program's futures and the executor share.
struct Shared<M> {
    waiters: RefCell<Vec<Waiter<M>>>,
    /// Messages that were handed to a future which was dropped before it looked.
    returned: RefCell<VecDeque<Received<M>>>,
    spawned: RefCell<Vec<(Task, Role)>>,
    fired: RefCell<Vec<Timer>>,
    sleepers: RefCell<Vec<(Timer, TaskId, Waker)>>,
    sleeps: RefCell<sleep::Numbers>,
    state: RefCell<Option<Rc<dyn Shown>>>,
    current: Cell<TaskId>,
    numbers: Cell<u32>,
    ends: RefCell<Ends>,
}

impl<M> Shared<M> {
    fn next_number(&self) -> u32 {
        self.numbers.set(self.numbers.get() + 1);
        self.numbers.get()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A deadlock if it waits for ever.
    Owing,
    Background,
}

/// An async node: its program, not yet or already running.
pub(crate) struct Program<M> {
    program: Rc<dyn Fn(AsyncCx<M>) -> Task>,
    shared: Rc<Shared<M>>,
    tasks: Vec<Option<Running>>,
    /// The context of its tasks, once it runs.
    context: Option<Rc<AsyncCx<M>>>,
    state: Option<Rc<dyn Shown>>,
}

struct Running {
    task: Task,
    role: Role,
    wake: Arc<WakeFlag>,
    waker: Waker,
}

/// The only thing a waker does here: say that a task can go on.
struct WakeFlag(AtomicBool);

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl<M: Message> Program<M> {
    pub(crate) fn new(program: Rc<dyn Fn(AsyncCx<M>) -> Task>) -> Self {
        let shared = Shared {
            waiters: RefCell::default(),
            returned: RefCell::default(),
            spawned: RefCell::default(),
            fired: RefCell::default(),
            sleepers: RefCell::default(),
            sleeps: RefCell::default(),
            state: RefCell::default(),
            current: Cell::default(),
            numbers: Cell::default(),
            ends: RefCell::default(),
        };
        Program { program, shared: Rc::new(shared), tasks: Vec::new(), context: None, state: None }
    }

    fn add(&mut self, task: Task, role: Role) {
        let wake = Arc::new(WakeFlag(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&wake));
        self.tasks.push(Some(Running { task, role, wake, waker }));
    }

    fn run(&mut self, id: TaskId) {
        let slot = &mut self.tasks[id.0 as usize];
        let Some(running) = slot else { return };
        self.shared.current.set(id);
        running.wake.0.store(false, Ordering::Release);
        let entered = self.context.clone().map(|context| Entered::new(context));
        let done = running.task.as_mut().poll(&mut Context::from_waker(&running.waker)).is_ready();
        if done {
            *slot = None;
        }
        drop(entered);
        let spawned = std::mem::take(&mut *self.shared.spawned.borrow_mut());
        for (task, role) in spawned {
            self.add(task, role);
        }
        self.state.clone_from(&self.shared.state.borrow());
    }

    fn begin(&mut self, runtime: &Handle<M>, node: NodeId) {
        let shared = Rc::clone(&self.shared);
        let context = AsyncCx { runtime: Rc::clone(runtime), node, shared };
        let context = self.context.insert(Rc::new(context));
        let entered = Entered::new(Rc::clone(context) as Rc<dyn Any>);
        let program = (self.program)((**context).clone());
        drop(entered);
        self.add(program, Role::Owing);
        self.run(TaskId(0));
    }

    fn stuck(&self, index: usize) -> Option<String> {
        let running = self.tasks[index].as_ref()?;
        let task = TaskId(u32::try_from(index).expect("tasks are few"));
        let waiters = self.shared.waiters.borrow();
        let mut mine = waiters.iter().filter(|waiter| waiter.task == task).peekable();
        if running.role == Role::Background {
            return None;
        }
        if self.shared.ends.borrow().is_awaited_by(task) && mine.peek().is_none() {
            return None;
        }
        if mine.peek().is_none() {
            return Some(format!("task {index} waits for something that never happens"));
        }
        mine.find_map(|waiter| match waiter.wants {
            Wants::Reply { from, .. } => Some(format!(
                "task {index} waits for an answer from {from} (an answer is a `reply`, a \
                     plain `send` is none)"
            )),
            Wants::Any | Wants::Some(_) => None,
        })
    }
}

impl<M: Message> Process<M> for Program<M> {
    fn start(&mut self, runtime: &Handle<M>, id: NodeId) {
        self.begin(runtime, id);
    }
    fn restart(&mut self, runtime: &Handle<M>, id: NodeId) {
        self.begin(runtime, id);
    }
    fn message(&mut self, _: &Handle<M>, _: NodeId, from: NodeId, tag: Tag, msg: M) {
        let task = {
            let mut waiters = self.shared.waiters.borrow_mut();
            let to = addressee(&waiters, from, tag, &msg).expect("only accepted messages arrive");
            let Addressee::Waiter(at) = to else { return };
            waiters[at].got = Some(Received { from, msg, tag });
            waiters[at].waker.wake_by_ref();
            waiters[at].task
        };
        self.run(task);
    }
    fn timer(&mut self, _: &Handle<M>, _: NodeId, timer: Timer) {
        let sleeper = {
            let mut sleepers = self.shared.sleepers.borrow_mut();
            let at = sleepers.iter().position(|(sleeping, ..)| *sleeping == timer);
            at.map(|at| sleepers.swap_remove(at))
        };
        let Some((_, task, waker)) = sleeper else { return };
        self.shared.fired.borrow_mut().push(timer);
        waker.wake();
        self.run(task);
    }
    fn disconnected(&mut self, _: &Handle<M>, _: NodeId, peer: NodeId) {
        let listener = self.shared.ends.borrow_mut().add(peer);
        if let Some(task) = listener {
            self.run(task);
        }
    }
    fn poll(&mut self, _: &Handle<M>, _: NodeId, task: TaskId) {
        self.run(task);
    }
    fn accepts(&self, from: NodeId, tag: Tag, msg: &M) -> bool {
        addressee(&self.shared.waiters.borrow(), from, tag, msg).is_some()
    }
    fn is_guarded(&self) -> bool {
        true
    }
    fn ready(&self, tasks: &mut Vec<TaskId>) {
        for (index, running) in self.tasks.iter().enumerate() {
            if running.as_ref().is_some_and(|running| running.wake.0.load(Ordering::Acquire)) {
                tasks.push(TaskId(u32::try_from(index).expect("tasks are few")));
            }
        }
    }
    fn has_tasks(&self) -> bool {
        true
    }
    fn waiting(&self) -> Option<Waiting> {
        let what = (0..self.tasks.len()).find_map(|index| self.stuck(index))?;
        Some(Waiting { what })
    }
    fn state(&self) -> Option<&dyn Any> {
        self.state.as_deref().map(Shown::as_any)
    }
    fn observe(&self) -> Value {
        self.state.as_deref().map_or(Value::Null, Shown::value)
    }
    fn size(&self) -> u64 {
        self.state.as_deref().map_or(0, Shown::size)
    }
    fn fingerprint(&self) -> Option<u64> {
        None
    }
    fn phase(&self, out: &mut String) {
        match &self.state {
            Some(state) => state.phase(out),
            None => out.clear(),
        }
    }
    fn fork(&self) -> Option<Box<dyn Process<M>>> {
        None
    }
    fn copy_from(&mut self, _: &dyn Process<M>) -> bool {
        false
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

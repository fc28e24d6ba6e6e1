//! A node with its type erased, as a runtime holds it.

use std::any::Any;
use std::fmt::{self, Debug};
use std::future::Future;
use std::rc::Rc;

use everhold_trace::{NodeId, Value};
use serde::Serialize;

use crate::context::Cx;
use crate::fingerprint;
use crate::node::{Message, Node};
use crate::runtime::{Handle, Tag};
use crate::task::{AsyncCx, Program};
use crate::timer::Timer;

/// A task inside an async node; the node's own program is task 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

/// Something that a node waits for although it will never come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// A sentence fragment: "task 0 waits for an answer from n2".
    pub what: String,
}

/// A running node of either form. Runtimes drive it; users do not implement it.
pub trait Process<M> {
    /// The first event.
    fn start(&mut self, runtime: &Handle<M>, id: NodeId);
    /// The first event after a crash.
    fn restart(&mut self, runtime: &Handle<M>, id: NodeId);
    /// A message arrives; only called if [`accepts`](Process::accepts) said yes.
    fn message(&mut self, runtime: &Handle<M>, id: NodeId, from: NodeId, tag: Tag, msg: M);
    /// A timer fires.
    fn timer(&mut self, runtime: &Handle<M>, id: NodeId, timer: Timer);
    /// The connection to a peer ended.
    fn disconnected(&mut self, runtime: &Handle<M>, id: NodeId, peer: NodeId);
    /// A task goes on.
    fn poll(&mut self, runtime: &Handle<M>, id: NodeId, task: TaskId);
    /// The guard.
    fn accepts(&self, from: NodeId, tag: Tag, msg: &M) -> bool;
    /// Whether the guard may ever say no.
    fn is_guarded(&self) -> bool;
    /// The tasks that can go on, in order.
    fn ready(&self, tasks: &mut Vec<TaskId>);
    /// Whether there are tasks at all.
    fn has_tasks(&self) -> bool;
    /// Something that this node still waits for although nothing else can happen.
    fn waiting(&self) -> Option<Waiting>;
    /// The state for typed access, if there is any.
    fn state(&self) -> Option<&dyn Any>;
    /// The state as a value.
    fn observe(&self) -> Value;
    /// The size of the state that [`observe`](Process::observe) shows, in bytes of a plain binary form.
    fn size(&self) -> u64 {
        0
    }
    /// A hash of the whole state, or `None` if some of it cannot be seen (async programs).
    fn fingerprint(&self) -> Option<u64>;
    /// The node's phase; see [`fingerprint::phase`].
    fn phase(&self, out: &mut String);
    /// A copy, if the node can be copied.
    fn fork(&self) -> Option<Box<dyn Process<M>>>;
    /// Becomes a copy of `other` in place; false if that cannot be done.
    fn copy_from(&mut self, other: &dyn Process<M>) -> bool;
    /// For [`copy_from`](Process::copy_from).
    fn as_any(&self) -> &dyn Any;
}

/// How to make a node, at the start of every execution and after every crash.
pub struct Blueprint<M>(Recipe<M>);

enum Recipe<M> {
    Copy(Box<dyn Process<M>>),
    Make(Rc<dyn Fn() -> Box<dyn Process<M>>>),
}

impl<M> Debug for Blueprint<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Recipe::Copy(_) => "Blueprint::Copy",
            Recipe::Make(_) => "Blueprint::Make",
        })
    }
}

impl<M: Message> Blueprint<M> {
    /// Copies of a node.
    pub fn copy_of<N: Node<Msg = M> + Clone>(node: N) -> Self {
        let copier = Copier { fork: N::clone, copy_from: N::clone_from };
        Blueprint(Recipe::Copy(Box::new(Handlers { node, copier: Some(copier) })))
    }

    /// Nodes made anew, for those that cannot be copied.
    pub fn made_by<N: Node<Msg = M>>(make: impl Fn() -> N + 'static) -> Self {
        Blueprint(Recipe::Make(Rc::new(move || Box::new(Handlers { node: make(), copier: None }))))
    }

    /// An async program, run from its beginning.
    pub fn program<F, Fut>(program: F) -> Self
    where
        F: Fn(AsyncCx<M>) -> Fut + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let program: Rc<dyn Fn(AsyncCx<M>) -> crate::task::Task> =
            Rc::new(move |cx| Box::pin(program(cx)));
        Blueprint(Recipe::Make(Rc::new(move || Box::new(Program::new(Rc::clone(&program))))))
    }

    /// A node of another form, made anew for every execution and after every crash.
    #[doc(hidden)]
    pub fn made_of(make: impl Fn() -> Box<dyn Process<M>> + 'static) -> Self {
        Blueprint(Recipe::Make(Rc::new(make)))
    }

    /// A node in its first state.
    #[must_use]
    pub fn make(&self) -> Box<dyn Process<M>> {
        match &self.0 {
            Recipe::Copy(original) => original.fork().expect("an original can be copied"),
            Recipe::Make(make) => make(),
        }
    }

    /// Puts `process`, made from this blueprint, back into its first state.
    pub fn reset(&self, process: &mut Box<dyn Process<M>>) {
        match &self.0 {
            Recipe::Copy(original) if process.copy_from(&**original) => {}
            _ => *process = self.make(),
        }
    }
}

/// A node with handlers. Copying goes through function pointers, because only some nodes are
/// `Clone` and a bound here would shut out the others.
struct Handlers<N> {
    node: N,
    copier: Option<Copier<N>>,
}

struct Copier<N> {
    fork: fn(&N) -> N,
    copy_from: fn(&mut N, &N),
}

impl<N> Clone for Copier<N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N> Copy for Copier<N> {}

impl<N: Node> Process<N::Msg> for Handlers<N> {
    fn start(&mut self, runtime: &Handle<N::Msg>, id: NodeId) {
        self.node.start(&mut Cx::new(&mut *runtime.borrow_mut(), id, None));
    }
    fn restart(&mut self, runtime: &Handle<N::Msg>, id: NodeId) {
        self.node.restart(&mut Cx::new(&mut *runtime.borrow_mut(), id, None));
    }
    fn message(
        &mut self,
        runtime: &Handle<N::Msg>,
        id: NodeId,
        from: NodeId,
        tag: Tag,
        msg: N::Msg,
    ) {
        let mut runtime = runtime.borrow_mut();
        if !N::GUARDED && !self.node.accepts(from, &msg) {
            let text = "refused a message, but its Node does not set `const GUARDED: bool = true`";
            runtime.fail(id, "guards are declared", text.to_owned());
            return;
        }
        self.node.message(&mut Cx::new(&mut *runtime, id, Some((from, tag))), from, msg);
    }
    fn timer(&mut self, runtime: &Handle<N::Msg>, id: NodeId, timer: Timer) {
        self.node.timer(&mut Cx::new(&mut *runtime.borrow_mut(), id, None), timer);
    }
    fn disconnected(&mut self, runtime: &Handle<N::Msg>, id: NodeId, peer: NodeId) {
        self.node.disconnected(&mut Cx::new(&mut *runtime.borrow_mut(), id, None), peer);
    }
    fn poll(&mut self, _: &Handle<N::Msg>, _: NodeId, _: TaskId) {
        unreachable!("a node with handlers has no tasks")
    }
    fn accepts(&self, from: NodeId, _: Tag, msg: &N::Msg) -> bool {
        self.node.accepts(from, msg)
    }
    fn is_guarded(&self) -> bool {
        N::GUARDED
    }
    fn ready(&self, _: &mut Vec<TaskId>) {}
    fn has_tasks(&self) -> bool {
        false
    }
    fn waiting(&self) -> Option<Waiting> {
        self.node.is_waiting().then(|| Waiting { what: "it says that it is waiting".to_owned() })
    }
    fn state(&self) -> Option<&dyn Any> {
        Some(&self.node)
    }
    fn observe(&self) -> Value {
        Value::of(&self.node)
    }
    fn size(&self) -> u64 {
        fingerprint::size(&self.node)
    }
    fn fingerprint(&self) -> Option<u64> {
        Some(fingerprint::hash(&self.node))
    }
    fn phase(&self, out: &mut String) {
        fingerprint::phase(&self.node, out);
    }
    fn fork(&self) -> Option<Box<dyn Process<N::Msg>>> {
        let copier = self.copier?;
        Some(Box::new(Handlers { node: (copier.fork)(&self.node), copier: self.copier }))
    }
    fn copy_from(&mut self, other: &dyn Process<N::Msg>) -> bool {
        match (self.copier, other.as_any().downcast_ref::<Self>()) {
            (Some(copier), Some(other)) => {
                (copier.copy_from)(&mut self.node, &other.node);
                true
            }
            _ => false,
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A state that an async node shows.
pub(crate) trait Shown {
    fn as_any(&self) -> &dyn Any;
    fn value(&self) -> Value;
    fn size(&self) -> u64;
    fn phase(&self, out: &mut String);
}

impl<T: Serialize + 'static> Shown for T {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn value(&self) -> Value {
        Value::of(self)
    }
    fn size(&self) -> u64 {
        fingerprint::size(self)
    }
    fn phase(&self, out: &mut String) {
        fingerprint::phase(self, out);
    }
}

//! The context of the task that is being polled, for code that is not handed one.

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

thread_local! {
    static CURRENT: RefCell<Option<Rc<dyn Any>>> = const { RefCell::new(None) };
}

/// The context of the task that is being polled on this thread, if it is of this type.
pub(super) fn get<C: Clone + 'static>() -> Option<C> {
    CURRENT.with_borrow(|current| current.as_ref()?.downcast_ref::<C>().cloned())
}

/// True while any task is being polled on this thread.
pub(super) fn is_set() -> bool {
    CURRENT.with_borrow(Option::is_some)
}

/// Makes a context the current one until it is dropped.
pub(super) struct Entered(Option<Rc<dyn Any>>);

impl Entered {
    pub(super) fn new(context: Rc<dyn Any>) -> Self {
        Entered(CURRENT.replace(Some(context)))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.replace(self.0.take());
    }
}

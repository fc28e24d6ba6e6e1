//! State of the machinery itself. It lives in a section of its own, so that it is not among the
//! statics that are exchanged when another host runs.

use std::cell::UnsafeCell;

/// A cell in the machinery's own section; see [`own!`].
pub(crate) struct Own<T>(UnsafeCell<T>);

// SAFETY: the cells are written only by the thread that runs simulated hosts, in a process in which
// no other thread does, or before such a process is forked; see `worker`.
unsafe impl<T> Sync for Own<T> {}

impl<T> Own<T> {
    pub(crate) const fn new(value: T) -> Self {
        Own(UnsafeCell::new(value))
    }

    /// Where the value lies.
    #[inline]
    pub(crate) fn place(&self) -> *mut T {
        self.0.get()
    }

    /// Replaces the value.
    #[inline]
    pub(crate) fn replace(&self, value: T) -> T {
        // SAFETY: no reference to the value is ever handed out, and only one thread writes.
        unsafe { self.place().replace(value) }
    }

    /// Sets the value without dropping the one before.
    #[inline]
    pub(crate) fn set(&self, value: T) {
        // SAFETY: no reference to the value is ever handed out, and only one thread writes.
        unsafe { self.place().write(value) }
    }
}

impl<T: Copy> Own<T> {
    #[inline]
    pub(crate) fn get(&self) -> T {
        // SAFETY: the value was initialised when the program was loaded.
        unsafe { self.place().read() }
    }
}

/// Declares cells in the machinery's own section.
macro_rules! own {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $value:expr;)*) => { $(
        $(#[$doc])*
        // SAFETY: the section holds only cells of this kind, as ordinary writable data.
        #[unsafe(link_section = "everhold_own")]
        static $name: $crate::own::Own<$type> = $crate::own::Own::new($value);
    )* };
}
pub(crate) use own;

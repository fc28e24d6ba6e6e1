//! Bounds that are reached in the middle of a handler or a monitor: the execution ends there, by
//! unwinding, and the outcome says which bound it was.

use std::any::Any;
use std::panic::resume_unwind;

use crate::execute::is_muted;

/// How much a node may do in one step: messages, timers, choices, draws, notes, disk operations, new
/// nodes. A handler that goes on for ever reaches it before memory ends.
pub(crate) const EFFECTS_MAX: u32 = 65_536;
/// Nodes of a system, if nodes add more.
pub(crate) const NODES_MAX: usize = 10_000;
/// Messages under way at the same time.
pub(crate) const UNDER_WAY_MAX: usize = 250_000;
/// The memory that messages under way may take, what they point to not counted.
pub(crate) const UNDER_WAY_BYTES_MAX: usize = 256 << 20;

/// The bound that ended an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// A node did too much: that is wrong.
    TooMuch(String),
    /// A checker gave up: nobody knows whether the execution is right.
    Undecided(String),
}

impl Halt {
    pub(crate) fn text(&self) -> &str {
        match self {
            Halt::TooMuch(text) | Halt::Undecided(text) => text,
        }
    }

    pub(crate) fn of(payload: &(dyn Any + Send)) -> Option<Halt> {
        payload.downcast_ref::<Halt>().cloned()
    }
}

/// Ends the execution because a node did too much.
#[cold]
pub(crate) fn too_much(text: String) -> ! {
    resume_unwind(Box::new(Halt::TooMuch(text)))
}

/// Ends the execution because it cannot be judged. Outside of executions it is a plain panic.
#[cold]
pub(crate) fn undecided(text: String) -> ! {
    if is_muted() {
        resume_unwind(Box::new(Halt::Undecided(text)));
    }
    panic!("{text}");
}

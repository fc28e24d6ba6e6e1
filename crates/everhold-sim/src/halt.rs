//! Bounds that are reached in the middle of a handler or a monitor: the execution ends there, by
//! unwinding, and the outcome says which bound it was.

use std::any::Any;
use std::panic::resume_unwind;

use crate::execute::is_muted;

/// The largest number of effects of a node in one step: messages, timers, choices, draws, notes,
/// disk operations, new nodes. A handler in an endless loop reaches it before memory runs out.
pub const EFFECTS_MAX: u32 = 65_536;
/// The largest number of nodes of a system in which nodes add others.
pub(crate) const NODES_MAX: usize = 10_000;
/// The largest number of messages under way at the same time.
pub(crate) const UNDER_WAY_MAX: usize = 250_000;
/// The memory that messages under way may take, with the data that they point to.
pub(crate) const UNDER_WAY_BYTES_MAX: usize = 256 << 20;

/// The bound that ended an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// A node did too much, which is a failure.
    TooMuch(String),
    /// A checker gave up: whether the execution is right is unknown.
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
pub fn too_much(text: String) -> ! {
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

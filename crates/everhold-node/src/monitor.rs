//! Specifications that remember: they are told, and never speak.

use std::fmt::Debug;

use serde::Serialize;

/// Watches an execution through the notifications that nodes send with
/// [`Cx::notify`](crate::Cx::notify), and says what is wrong.
///
/// Safety: `assert!` in [`observe`](Monitor::observe). Liveness: [`is_hot`](Monitor::is_hot) is
/// true while the system owes progress; an execution that stays hot for ever is a violation.
///
/// ```
/// use everhold_node::Monitor;
/// use serde::Serialize;
///
/// #[derive(Debug)]
/// enum Request { Sent, Answered }
///
/// /// Every request is answered.
/// #[derive(Clone, Default, Serialize)]
/// struct Answered { open: u32 }
///
/// impl Monitor for Answered {
///     type Event = Request;
///     fn observe(&mut self, event: &Request) {
///         match event {
///             Request::Sent => self.open += 1,
///             Request::Answered => {
///                 assert!(self.open > 0, "an answer without a request");
///                 self.open -= 1;
///             }
///         }
///     }
///     fn is_hot(&self) -> bool {
///         self.open > 0
///     }
/// }
/// ```
pub trait Monitor: Clone + Serialize + 'static {
    /// The notifications this monitor listens to, told apart by type.
    type Event: Debug + 'static;

    /// A node notified. Assert here what must hold.
    fn observe(&mut self, event: &Self::Event);

    /// True while progress is owed.
    fn is_hot(&self) -> bool {
        false
    }
}

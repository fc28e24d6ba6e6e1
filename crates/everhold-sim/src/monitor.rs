//! Monitors with their types erased, and the heat of an execution.

use std::any::Any;
use std::fmt;

use everhold_node::{Monitor, fingerprint};
use everhold_trace::Value;

/// A monitor of any event type.
trait ErasedMonitor {
    fn observe(&mut self, event: &dyn Any);
    fn is_hot(&self) -> bool;
    fn fork(&self) -> Box<dyn ErasedMonitor>;
    fn copy_from(&mut self, other: &dyn ErasedMonitor);
    fn fingerprint(&self) -> u64;
    fn value(&self) -> Value;
    fn as_any(&self) -> &dyn Any;
}

impl<T: Monitor> ErasedMonitor for T {
    fn observe(&mut self, event: &dyn Any) {
        if let Some(event) = event.downcast_ref::<T::Event>() {
            Monitor::observe(self, event);
        }
    }
    fn is_hot(&self) -> bool {
        Monitor::is_hot(self)
    }
    fn fork(&self) -> Box<dyn ErasedMonitor> {
        Box::new(self.clone())
    }
    fn copy_from(&mut self, other: &dyn ErasedMonitor) {
        let other = other.as_any().downcast_ref::<T>().expect("a monitor keeps its type");
        self.clone_from(other);
    }
    fn fingerprint(&self) -> u64 {
        fingerprint::hash(self)
    }
    fn value(&self) -> Value {
        Value::of(self)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A monitor of the system, in its first state and as it is now.
pub struct MonitorSlot {
    /// Its name.
    pub name: String,
    original: Box<dyn ErasedMonitor>,
    now: Box<dyn ErasedMonitor>,
}

impl MonitorSlot {
    pub(crate) fn new(name: &str, monitor: impl Monitor) -> Self {
        MonitorSlot {
            name: name.to_owned(),
            original: Box::new(monitor.clone()),
            now: Box::new(monitor),
        }
    }

    /// Passes an event to the monitor.
    pub fn observe(&mut self, event: &dyn Any) {
        self.now.observe(event);
    }

    /// Whether it owes progress.
    #[must_use]
    pub fn is_hot(&self) -> bool {
        self.now.is_hot()
    }

    /// Goes back to its first state.
    pub fn reset(&mut self) {
        self.now.copy_from(&*self.original);
    }

    pub(crate) fn fingerprint(&self) -> u64 {
        self.now.fingerprint()
    }

    pub(crate) fn value(&self) -> Value {
        self.now.value()
    }
}

impl Clone for MonitorSlot {
    fn clone(&self) -> Self {
        MonitorSlot {
            name: self.name.clone(),
            original: self.original.fork(),
            now: self.now.fork(),
        }
    }

    fn clone_from(&mut self, other: &Self) {
        self.now.copy_from(&*other.now);
    }
}

impl fmt::Debug for MonitorSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MonitorSlot").field("name", &self.name).finish_non_exhaustive()
    }
}

//! Disk faults in the middle of an event.
//!
//! A handler cannot be stopped in the middle. So when a crash falls at an operation, the files as
//! they are at that moment are put aside, and the handler goes on as a ghost: what it does to the
//! disk is forgotten when it returns, and its runtime ignores everything else that it does.

use super::{Disk, DiskError};
use crate::volume::Volume;

/// Something that goes wrong at one operation of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// The node crashes before the operation.
    CrashBefore,
    /// The node crashes after it.
    CrashAfter,
    /// The operation fails. What a sync was to write is never tried again.
    Fails,
    /// The disk is full, from this operation to the end of the event.
    Full,
}

impl DiskFault {
    const ALL: [DiskFault; 4] =
        [DiskFault::CrashBefore, DiskFault::CrashAfter, DiskFault::Fails, DiskFault::Full];

    /// How a schedule names it at this operation.
    fn at(self, operation: &str) -> String {
        match self {
            DiskFault::CrashBefore => format!("crash before {operation}"),
            DiskFault::CrashAfter => format!("crash after {operation}"),
            DiskFault::Fails => format!("EIO in {operation}"),
            DiskFault::Full => format!("ENOSPC in {operation}"),
        }
    }
}

/// Where in an event something goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upset {
    /// At the operation with this number, counted from zero in the event.
    At(u32, DiskFault),
    /// By name, such as `crash before put vote`: the operation of that name with this number.
    Named(String, u32),
}

/// Something that went wrong.
#[derive(Clone, Debug)]
pub struct Struck {
    /// The fault that struck.
    pub fault: DiskFault,
    /// The same with the operation at which it was, such as `crash before put vote`.
    pub place: String,
    /// The number of earlier operations of the same name in the event.
    pub nth: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    upset: Option<Upset>,
    /// The number of operations of the event so far, and their names while a fault is planned.
    operations: u32,
    names: Vec<String>,
    struck: Option<Struck>,
    full: bool,
    /// The files when the node died; it is a ghost since.
    frozen: Option<Box<Volume>>,
    /// The operations in words, for the record.
    told: Option<Vec<String>>,
}

impl Disk {
    /// For a runtime, before or in the middle of an event: what goes wrong in the rest of it, and
    /// whether operations are to be told in words. Operations are counted from here.
    pub fn watch(&mut self, upset: Option<Upset>, told: bool) {
        let told = told.then(Vec::new);
        self.watch = Some(Box::new(Watch { upset, told, ..Watch::default() }));
    }

    /// For a runtime, after an event: how many operations it had, and what went wrong. If the node
    /// died, the files are as they were then.
    pub fn unwatch(&mut self) -> (u32, Option<Struck>) {
        let Some(watch) = self.watch.take() else { return (0, None) };
        if let Some(frozen) = watch.frozen {
            self.volume = *frozen;
        }
        (watch.operations, watch.struck)
    }

    /// Whether the node died in the middle of the present event.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.frozen.is_some())
    }

    /// The operations in words that were not taken before.
    pub fn take_told(&mut self) -> Vec<String> {
        let told = self.watch.as_mut().and_then(|watch| watch.told.as_mut());
        told.map(std::mem::take).unwrap_or_default()
    }

    /// The node does not survive: an error that it did not want to see.
    pub(super) fn die(&mut self) {
        let volume = &self.volume;
        if let Some(watch) = &mut self.watch {
            watch.frozen.get_or_insert_with(|| Box::new(volume.clone()));
        }
    }

    /// `operation` says what begins now.
    pub(super) fn before(
        &mut self,
        operation: &dyn Fn() -> String,
        grows: bool,
    ) -> Result<(), DiskError> {
        let Some(watch) = &mut self.watch else { return Ok(()) };
        if watch.frozen.is_some() {
            return Ok(());
        }
        watch.operations += 1;
        let due = match &watch.upset {
            Some(_) => watch.due(operation(), grows),
            None => None,
        };
        if due == Some(DiskFault::CrashBefore) {
            self.die();
            return Ok(());
        }
        if let Some(told) = &mut watch.told {
            told.push(operation());
        }
        match due {
            Some(DiskFault::Fails) => Err(DiskError::Failed { operation: operation() }),
            _ if watch.full && grows => Err(DiskError::Full { operation: operation() }),
            _ => Ok(()),
        }
    }

    pub(super) fn after(&mut self) {
        let Some(watch) = &mut self.watch else { return };
        let is_now = watch
            .struck
            .as_ref()
            .is_some_and(|struck| struck.fault == DiskFault::CrashAfter && watch.frozen.is_none());
        if is_now {
            self.die();
        }
    }
}

impl Watch {
    /// The fault, if any, that strikes the operation that begins now.
    fn due(&mut self, operation: String, grows: bool) -> Option<DiskFault> {
        let nth = self.names.iter().filter(|name| **name == operation).count() as u32;
        let fault = match self.upset.as_ref()? {
            Upset::At(at, fault) => (at + 1 == self.operations).then_some(*fault),
            Upset::Named(place, number) => {
                let is_it = |fault: &DiskFault| fault.at(&operation) == *place && nth == *number;
                DiskFault::ALL.into_iter().find(is_it)
            }
        };
        let Some(fault) = fault.filter(|fault| *fault != DiskFault::Full || grows) else {
            self.names.push(operation);
            return None;
        };
        self.upset = None;
        self.full = fault == DiskFault::Full;
        self.struck = Some(Struck { fault, place: fault.at(&operation), nth });
        Some(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::{CrashModel, Mode};

    /// Two records and their syncs, with something going wrong on the way.
    fn two_puts(upset: Upset) -> (Disk, u32, Option<Struck>) {
        let mut disk = Disk::default();
        disk.watch(Some(upset), false);
        disk.put("a", b"1");
        disk.sync();
        disk.put("b", b"2");
        disk.sync();
        let (operations, struck) = disk.unwatch();
        (disk, operations, struck)
    }

    #[track_caller]
    fn check(upset: Upset, operations: u32, place: &str, left: &[&str]) {
        let (mut disk, count, struck) = two_puts(upset);
        assert_eq!((count, struck.unwrap().place.as_str()), (operations, place));
        disk.crash(CrashModel::Ext4, false, &mut |_, _| Mode::LoseAll as u32);
        assert_eq!(disk.names().collect::<Vec<_>>(), left);
    }

    #[test]
    fn a_crash_falls_at_an_operation() {
        check(Upset::At(0, DiskFault::CrashBefore), 1, "crash before put a", &[]);
        check(Upset::At(0, DiskFault::CrashAfter), 1, "crash after put a", &[]);
        check(Upset::At(1, DiskFault::CrashAfter), 2, "crash after sync", &["a"]);
        check(Upset::At(3, DiskFault::CrashBefore), 4, "crash before sync", &["a"]);
        let named = |place: &str, nth| Upset::Named(place.to_owned(), nth);
        check(named("crash before sync", 1), 4, "crash before sync", &["a"]);
        check(named("crash after sync", 1), 4, "crash after sync", &["a", "b"]);
        // A node that does not look at errors dies of them, as a process that panics.
        check(Upset::At(3, DiskFault::Fails), 4, "EIO in sync", &["a"]);
        check(Upset::At(2, DiskFault::Full), 3, "ENOSPC in put b", &["a"]);
    }

    #[test]
    fn what_a_failed_sync_did_not_write_is_not_written_by_the_next() {
        let mut disk = Disk::default();
        disk.put("a", b"1");
        disk.sync();
        disk.put("a", b"2");
        disk.watch(Some(Upset::At(0, DiskFault::Fails)), false);
        assert!(matches!(disk.try_sync(), Err(DiskError::Failed { .. })));
        assert_eq!(disk.try_sync(), Ok(()));
        disk.unwatch();
        assert_eq!(disk.get("a"), Some(&b"2"[..]), "reads still see it");
        disk.lose_unsynced();
        assert_eq!(disk.get("a"), Some(&b"1"[..]));
    }
}

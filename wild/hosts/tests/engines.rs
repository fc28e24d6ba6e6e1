//! What is found in each engine, and the silence where nothing is claimed.

use std::time::Duration;

use everhold::CrashModel::{self, Any, Ext4, Kill};
use everhold::{Faults, hosts};
use everhold_wild_hosts::Creation::{Interrupted, Repeated};
use everhold_wild_hosts::engines::{AtomicFile, Fjall, Journal, Persy, Queue, Redb, Sqlite};
use everhold_wild_hosts::{Creation, DURABLE, OPENS, Store, describe};

/// One search with at most two crashes, and what its first finding has to say; nothing: silence.
fn check<S: Store + 'static>(
    creation: Creation,
    model: CrashModel,
    executions: u64,
    expected: Option<&'static str>,
) {
    let faults = move || Faults::none().crash(2).crash_model(model);
    let outcome = hosts(move |net| describe::<S>(net, creation, faults()))
        .explorer(|e| e.seed(1).executions(executions).shrink_time(Duration::from_secs(1)))
        .run();
    println!("{} executions\n{}", outcome.executions, outcome.report);
    match (expected, outcome.failed) {
        (Some(expected), Some(failed)) => assert!(failed.contains(expected), "{failed}"),
        (None, None) => {}
        (expected, failed) => panic!("expected {expected:?}, found {failed:?}"),
    }
}

#[test]
fn redb() {
    check::<Redb>(Interrupted, Kill, 500, Some("magic number mismatch"));
    check::<Redb>(Repeated, Any, 100, None);
}

#[test]
fn fjall() {
    check::<Fjall>(Interrupted, Kill, 500, Some(OPENS));
    check::<Fjall>(Repeated, Kill, 40, None);
}

#[test]
fn persy() {
    check::<Persy>(Interrupted, Kill, 500, Some("failed to fill whole buffer"));
    check::<Persy>(Repeated, Ext4, 2_000, Some("persy-"));
    check::<Persy>(Repeated, Kill, 200, None);
}

#[test]
fn queue_file() {
    check::<Queue>(Interrupted, Ext4, 2_000, Some("length stored in header (0) is invalid"));
    check::<Queue>(Interrupted, Kill, 200, None);
    check::<Queue>(Repeated, Any, 200, None);
}

#[test]
fn atomic_writes() {
    check::<AtomicFile>(Interrupted, Any, 300, None);
}

/// `journal_mode=wal` and `synchronous=full`: every commit is durable.
struct Wal;

impl Journal for Wal {
    const PRAGMAS: &str =
        "PRAGMA journal_mode=wal; PRAGMA synchronous=full; PRAGMA wal_autocheckpoint=12";
}

/// `journal_mode=wal` and `synchronous=normal`: a power loss may take the last commits.
struct WalNormal;

impl Journal for WalNormal {
    const PRAGMAS: &str = "PRAGMA journal_mode=wal; PRAGMA synchronous=normal";
}

/// `journal_mode=delete` and `synchronous=extra`: every commit is durable.
struct Extra;

impl Journal for Extra {
    const PRAGMAS: &str = "PRAGMA journal_mode=delete; PRAGMA synchronous=extra";
}

/// `journal_mode=delete` and `synchronous=full`: the removal of the journal, which is the commit, is
/// not synced, so a power loss may undo the last commit.
struct Full;

impl Journal for Full {
    const PRAGMAS: &str = "PRAGMA journal_mode=delete; PRAGMA synchronous=full";
}

#[test]
fn sqlite_does_what_its_documents_say() {
    check::<Sqlite<Wal>>(Interrupted, Any, 200, None);
    check::<Sqlite<Extra>>(Interrupted, Any, 200, None);
    check::<Sqlite<WalNormal>>(Interrupted, Ext4, 1_000, Some(DURABLE));
    check::<Sqlite<WalNormal>>(Interrupted, Kill, 200, None);
    check::<Sqlite<Full>>(Interrupted, Ext4, 1_000, Some(DURABLE));
}

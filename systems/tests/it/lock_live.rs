//! The lock service as watched processes: D³S's predicate, a planted double grant, and a client
//! that dies.

use std::fs::File;
use std::io::BufReader;

use everhold_live::Client;
use everhold_systems::lock::{CONSISTENT, Mode, Msg, RULES};
use everhold_trace::format::{ReadOptions, read_all};

use crate::live::{Cluster, PATIENCE, Watcher, folder};

const LOCK: u32 = 7;

fn want(client: &mut Client<Msg>, mode: Mode) {
    assert_eq!(client.call(&Msg::Want(LOCK, mode), PATIENCE).unwrap(), Msg::Have(LOCK));
}

#[test]
fn a_double_grant_is_caught() {
    let folder = folder("lock-double");
    let watcher = Watcher::start(&folder, RULES);
    let cluster = Cluster::start(&folder, "lock", "grants-before-release", 3, &watcher);
    let (mut first, mut second) = (cluster.client(1), cluster.client(2));
    want(&mut first, Mode::Exclusive);
    // The first client uses the lock, and has not been asked to return it.
    want(&mut second, Mode::Shared);
    let violation = watcher.violation(PATIENCE).expect("two clients hold the lock");
    assert_eq!(violation.rule, CONSISTENT);
    let trace = BufReader::new(File::open(watcher.trace_of(&violation)).unwrap());
    let trace = read_all(trace, &ReadOptions::strict()).unwrap();
    let names: Vec<_> = trace.executions[0].nodes().iter().map(|node| node.name.clone()).collect();
    assert!(names.contains(&"n1".to_owned()) && names.contains(&"n2".to_owned()), "{names:?}");
    cluster.end();
}

#[test]
fn a_client_that_dies_with_a_lock_is_no_alarm() {
    let folder = folder("lock-dead");
    let watcher = Watcher::start(&folder, RULES);
    let mut cluster = Cluster::start(&folder, "lock", "none", 3, &watcher);
    let (mut first, mut second) = (cluster.client(1), cluster.client(2));
    // A cached lock is returned when the other client wants it.
    want(&mut second, Mode::Exclusive);
    second.tell(&Msg::Done(LOCK)).unwrap();
    want(&mut first, Mode::Exclusive);
    cluster.kill(1);
    // The lease must end first; then the lock is granted.
    want(&mut second, Mode::Exclusive);
    let judged = watcher.evaluations();
    assert_eq!(watcher.violation(std::time::Duration::from_secs(3)), None);
    assert!(watcher.evaluations() > 0 && judged > 0, "nothing was judged");
    cluster.end();
}

//! Order without exact clocks, on real sockets: a lease that a client carries from node to node,
//! nodes whose clocks are set wrong, and endless mutual exclusion.
#![expect(clippy::disallowed_methods, reason = "nodes on real sockets run in real time")]

use std::thread;
use std::time::{Duration, Instant};

use everhold_live::host::{Codec, Config, Host, Running, loopback};
use everhold_live::probe::Builder;
use everhold_live::{NodeId, Probe, Report};
use everhold_systems::ricart_agrawala::{Bug, Member, RULES};
use everhold_watch::PartitionStatus;

use crate::live::{PATIENCE, Watcher, folder};

const LEASE: &str = "always \"one holder\": forall a, b in nodes where a != b and a.lease[key] == true: \
     b.lease[key] == null\n";

fn probe(watcher: &Watcher, node: u32) -> Builder {
    Probe::to_checkers([watcher.address()])
        .node(NodeId(node), &format!("n{node}"), "server")
        .report(Report::to(|_| ()))
}

/// Waits until the watch's status meets a condition.
#[track_caller]
fn wait(watcher: &Watcher, what: &str, is_so: impl Fn(&PartitionStatus) -> bool) {
    let begun = Instant::now();
    while !watcher.watch.status().values().any(&is_so) {
        assert!(begun.elapsed() < PATIENCE, "{what}: {:?}", watcher.watch.status());
        thread::sleep(Duration::from_millis(20));
    }
}

/// Connects three probes, with wall clocks that are wrong by these numbers of microseconds.
fn three(watcher: &Watcher, offsets: [i64; 3]) -> Vec<Probe> {
    let start = |(node, offset): (usize, &i64)| {
        let probe = probe(watcher, node as u32).clock_offset(*offset).start();
        while !probe.is_watched() {
            thread::sleep(Duration::from_millis(1));
        }
        let ready = probe.var("ready");
        probe.observe(ready, true);
        probe
    };
    let probes: Vec<Probe> = offsets.iter().enumerate().map(start).collect();
    wait(watcher, "three nodes are known", |status| {
        let known = |one: &&everhold_watch::MemberStatus| one.known && one.clock.is_some();
        status.members.iter().filter(known).count() == 3
    });
    probes
}

/// Hands a lease round without an envelope; returns the number of reported violations.
fn hand_over(watcher: &Watcher, probes: &[Probe], rounds: usize) -> usize {
    let leases: Vec<_> = probes.iter().map(|probe| probe.var("lease")).collect();
    probes[0].add(leases[0], 1, true);
    for round in 0..rounds {
        let (from, to) = (round % probes.len(), (round + 1) % probes.len());
        probes[from].remove(leases[from], 1, true);
        probes[to].add(leases[to], 1, true);
        thread::sleep(Duration::from_micros(700));
    }
    let last = rounds % probes.len();
    probes[last].remove(leases[last], 1, true);
    thread::sleep(Duration::from_millis(400));
    let mut told = 0;
    while watcher.violation(Duration::from_millis(100)).is_some() {
        told += 1;
    }
    told
}

#[test]
fn a_lease_that_a_client_carries_is_no_alarm() {
    let folder = folder("clocks-lease");
    let watcher = Watcher::start(&folder, LEASE);
    let probes = three(&watcher, [0; 3]);
    assert_eq!(hand_over(&watcher, &probes, 300), 0);
    assert!(watcher.evaluations() >= 600, "{}", watcher.evaluations());
    let status = watcher.watch.status();
    println!("possible: {}", status[&0].rules["one holder"].counts.possible);
}

/// Sets one node's clock wrong: the node must be named, every planted violation must be reported
/// once, and nothing else.
#[track_caller]
fn check_skew(name: &str, offset: i64, strays: &[u32]) {
    const PLANTED: usize = 15;
    let folder = folder(name);
    let watcher = Watcher::start(&folder, LEASE);
    let probes = three(&watcher, [0, offset, 0]);
    assert_eq!(hand_over(&watcher, &probes, 60), 0, "{name}");
    for lock in 0..PLANTED {
        let (a, b) = (&probes[lock % 3], &probes[(lock + 1) % 3]);
        let key = 100 + lock as i64;
        a.add(a.var("lease"), key, true);
        thread::sleep(Duration::from_millis(20));
        b.add(b.var("lease"), key, true);
        thread::sleep(Duration::from_millis(30));
        a.remove(a.var("lease"), key, true);
        b.remove(b.var("lease"), key, true);
    }
    let mut keys = Vec::new();
    while keys.len() < PLANTED {
        let violation = watcher.violation(PATIENCE).expect("every planted violation is told");
        keys.push(violation.key.clone().expect("the rule is about keys").to_string());
    }
    assert_eq!(watcher.violation(Duration::from_millis(500)), None, "{name}: only these");
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), PLANTED, "{name}: each once");
    let status = &watcher.watch.status()[&0];
    let named = status.members.iter().filter(|one| one.strays).map(|one| one.member.id.0);
    assert_eq!(named.collect::<Vec<_>>(), strays, "{name}: {:?}", status.members);
    assert!(status.members.iter().all(|one| one.known && one.member.up), "{name}");
}

#[test]
fn a_clock_50_ms_behind_is_named_and_harms_nobody() {
    check_skew("clocks-behind-50ms", -50_000, &[1]);
}

#[test]
fn a_clock_5_s_behind_is_named_and_harms_nobody() {
    check_skew("clocks-behind-5s", -5_000_000, &[1]);
}

#[test]
fn a_clock_5_s_ahead_is_named_and_harms_nobody() {
    check_skew("clocks-ahead-5s", 5_000_000, &[1]);
}

#[test]
fn a_clock_5_min_ahead_is_named_and_harms_nobody() {
    check_skew("clocks-ahead-5min", 300_000_000, &[1]);
}

#[test]
fn clocks_that_agree_are_not_named() {
    check_skew("clocks-agree", 0, &[]);
}

fn host(watcher: &Watcher, count: u32, bug: Bug) -> Vec<Running> {
    let addresses = loopback(count as usize).unwrap();
    let entries = addresses.iter().enumerate();
    let entries: Vec<_> = entries.map(|(id, at)| format!("\"{id}\": \"{at}\"")).collect();
    let text = format!(
        r#"{{"system": "ricart", "nodes": {{{}}}, "checkers": ["{}"]}}"#,
        entries.join(", "),
        watcher.address()
    );
    let start = |id: u32| {
        let host = Host::new(Config::parse(&text).unwrap(), Codec::postcard());
        let member = move || Member::new(NodeId(id), count, bug);
        host.node(NodeId(id), "member", member).start().unwrap()
    };
    (0..count).map(start).collect()
}

/// The number of records that the watch must see before a test of mutual exclusion ends. The bar of
/// a release is a million; see `EVERHOLD_EVENTS`.
fn events_wanted() -> u64 {
    let asked = std::env::var("EVERHOLD_EVENTS").ok();
    asked.and_then(|number| number.parse().ok()).unwrap_or(10_000)
}

#[test]
fn mutual_exclusion_that_never_rests_is_no_alarm() {
    let folder = folder("clocks-ricart");
    let watcher = Watcher::start(&folder, RULES);
    let running = host(&watcher, 4, Bug::None);
    let wanted = events_wanted();
    let begun = Instant::now();
    let records = || watcher.watch.status()[&0].counts.records;
    while records() < wanted {
        assert!(begun.elapsed() < PATIENCE.max(Duration::from_millis(wanted)), "{}", records());
        thread::sleep(Duration::from_millis(20));
    }
    let status = watcher.watch.status()[&0].clone();
    assert_eq!(watcher.violation(Duration::from_millis(300)), None, "of a correct system");
    let counts = status.rules["one node is inside"].counts;
    println!("{} records in {:?}: {counts:?}", status.counts.records, begun.elapsed());
    assert!(counts.evaluations > wanted / 20, "{counts:?}");
    running.into_iter().for_each(|host| host.stop().unwrap());
}

#[test]
fn mutual_exclusion_that_is_broken_is_an_alarm() {
    let folder = folder("clocks-ricart-broken");
    let watcher = Watcher::start(&folder, RULES);
    let running = host(&watcher, 4, Bug::AlwaysAgrees);
    assert!(watcher.violation(PATIENCE).is_some(), "two nodes are inside");
    running.into_iter().for_each(|host| host.stop().unwrap());
}

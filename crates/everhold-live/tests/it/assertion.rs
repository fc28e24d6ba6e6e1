//! Snapshots at an agreed moment, clocks that disagree, nodes that contradict each other.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use everhold_live::assertion::{Assertions, Network, Outcome};
use everhold_live::host::Channels;
use everhold_live::{NodeId, Report};
use everhold_trace::Value;

const EQUAL: &str = r#"always "all equal": forall a, b in nodes: a.x == b.x"#;

struct System {
    nodes: Vec<Assertions>,
    /// The value that each node shows as `x`.
    values: Vec<Arc<AtomicI64>>,
    channels: Vec<Arc<Mutex<Channels>>>,
    addresses: Vec<SocketAddr>,
    told: Receiver<String>,
}

/// Makes three nodes with these errors of their clocks, without the nodes in `silent`.
fn system(clock_errors: [i64; 3], silent: &[usize]) -> System {
    let sockets = [0, 1, 2].map(|_| UdpSocket::bind("127.0.0.1:0").expect("loopback is there"));
    let addresses: Vec<_> = sockets.iter().map(|s| s.local_addr().expect("bound")).collect();
    let values: Vec<_> = (0..3).map(|_| Arc::new(AtomicI64::new(7))).collect();
    let channels: Vec<_> = (0..3).map(|_| Arc::new(Mutex::new(Channels::default()))).collect();
    let (tell, told) = mpsc::channel();
    let report = Report::to(move |line| drop(tell.send(line.to_owned())));
    let mut nodes = Vec::new();
    for (n, socket) in sockets.into_iter().enumerate() {
        if silent.contains(&n) {
            continue;
        }
        let all = (0..).map(NodeId).zip(addresses.iter().copied());
        let mut network = Network::new("sums", NodeId(n as u32), all);
        network.period = Duration::from_millis(20);
        network.clock_error = clock_errors[n];
        network.report = report.clone();
        let (value, channels) = (Arc::clone(&values[n]), Arc::clone(&channels[n]));
        let look = move || {
            let state = Value::record([("x", value.load(Ordering::SeqCst)), ("y", 1)]);
            Some((state, channels.lock().unwrap().clone()))
        };
        nodes.push(Assertions::start_on(socket, network, Arc::new(look)).unwrap());
    }
    System { nodes, values, channels, addresses, told }
}

#[test]
fn a_property_holds_then_does_not() {
    let system = system([0; 3], &[]);
    let equal = system.nodes[1].assert(EQUAL, 1.0).unwrap();
    assert_eq!(equal.check_blocking(), Outcome::Holds);
    system.values[2].store(8, Ordering::SeqCst);
    let Outcome::Violated(text) = equal.check_blocking() else { panic!("it is violated") };
    assert!(text.contains("\"all equal\" is violated") && text.contains("b.x = 8"), "{text}");
    equal.check();
    let line = system.told.iter().find(|line| line.contains("violated"));
    assert!(line.is_some(), "an asynchronous check reports");
    assert_eq!((equal.tally().holds, equal.tally().skipped), (1, 0));
}

#[test]
fn a_snapshot_that_contradicts_itself_is_skipped() {
    let system = system([0; 3], &[]);
    let equal = system.nodes[0].assert(EQUAL, 1.0).unwrap();
    system.channels[0].lock().unwrap().received(NodeId(1), 4);
    let Outcome::Skipped(text) = equal.check_blocking() else { panic!("it is skipped") };
    assert!(text.contains("n0 shows message 4 of n1 as received"), "{text}");
    system.channels[1].lock().unwrap().sent(NodeId(0), 4);
    assert_eq!(equal.check_blocking(), Outcome::Holds);
}

/// `when quiet` requires empty channels between the nodes of the property.
#[test]
fn messages_in_flight_are_not_quiet() {
    let system = system([0; 3], &[]);
    let text = r#"always "all equal" when quiet: forall a, b in nodes: a.x == b.x"#;
    let equal = system.nodes[0].assert(text, 1.0).unwrap();
    system.values[1].store(9, Ordering::SeqCst);
    for (from, to) in [(1, 0), (1, 2)] {
        system.channels[from].lock().unwrap().sent(NodeId(to), 0);
    }
    assert!(!matches!(equal.check_blocking(), Outcome::Violated(_)));
    for to in [0, 2] {
        system.channels[to].lock().unwrap().received(NodeId(1), 0);
    }
    assert!(matches!(equal.check_blocking(), Outcome::Violated(_)));
}

#[test]
fn a_silent_node_is_named() {
    let system = system([0; 3], &[2]);
    let equal = system.nodes[0].assert(EQUAL, 1.0).unwrap();
    let Outcome::Skipped(text) = equal.check_blocking() else { panic!("it is skipped") };
    assert!(text.contains("no answer from n2"), "{text}");
}

#[test]
fn clocks_are_brought_together_even_if_one_jumps_an_hour() {
    let system = system([0, 40_000, 3_600_000_000], &[]);
    let begun = Instant::now();
    loop {
        let clocks: Vec<_> = system.nodes.iter().map(Assertions::now_micros).collect();
        let spread = clocks.iter().max().unwrap() - clocks.iter().min().unwrap();
        if spread < 5_000 && system.nodes[0].largest_round_trip() > Duration::ZERO {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "clocks are {spread} us apart");
        thread::sleep(Duration::from_millis(5));
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let ahead = system.nodes[0].now_micros().abs_diff(now.as_micros() as u64);
    assert!(ahead < 1_000_000, "the mad clock has moved the others by {ahead} us");
    assert_eq!(system.nodes[2].assert(EQUAL, 1.0).unwrap().check_blocking(), Outcome::Holds);
}

/// Of 2,000 tosses with probability one half, 1,000 succeed with a standard deviation of 22: fewer
/// than 800 or more than 1,200 happen for one in 10^19 seeds. Skipped checks cost nothing.
#[test]
fn probability_thins_out_checks() {
    let system = system([0; 3], &[1, 2]);
    let never = system.nodes[0].assert(EQUAL, 0.0).unwrap();
    assert!((0..100).all(|_| never.check_blocking() == Outcome::NotThisTime));
    let half = system.nodes[0].assert(EQUAL, 0.5).unwrap();
    let chosen = (0..2_000).filter(|_| half.is_chosen()).count();
    assert!((800..1_200).contains(&chosen), "{chosen}");
}

#[test]
fn what_is_no_assertion_is_refused() {
    let system = system([0; 3], &[1, 2]);
    let check = |text: &str, expected: &str| {
        let error = system.nodes[0].assert(text, 1.0).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check("always \"x\": forall a in", "assertion");
    check("", "an assertion is one property, here are 0");
    check(r#"eventually "x": forall a in nodes: a.x == 1"#, "is no `always`");
    check(r#"always "x": forall a in nodes: previous(a.x) <= a.x"#, "looks back");
    check(r#"always "x": forall a in nodes: once(a.x within 3 steps)"#, "looks back");
    check(r#"always "x" on delivery: sender.x <= receiver.x"#, "is about deliveries");
    check(r#"always "x" every 1s: forall a in nodes: a.x == 1"#, "`every 1s` is for a watch");
    check(r#"always "x": in_flight() < 9"#, "counts messages in flight, which assertions do not");
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.send_to(b"hello", system.addresses[0]).unwrap();
    let line = system.told.recv_timeout(Duration::from_secs(10)).unwrap();
    assert!(line.contains("are not Everhold's"), "{line}");
}

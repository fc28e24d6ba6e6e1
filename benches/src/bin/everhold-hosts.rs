//! Everhold's part of the comparison `hosts`, in a program of its own: where hosts are simulated,
//! the C library is replaced, and nobody else should pay for that.
//!
//! `everhold-hosts NAME EXECUTIONS` prints the executions, their steps, the CPU-seconds that they
//! took, the peak of the memory in KiB, and the schedule of the first finding, if there is one.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use everhold_host::{Hosts, Net, hosts};
use everhold_sim::Search;

#[path = "../hosts/echo.rs"]
mod echo;

mod net {
    pub(super) use tokio::net::{TcpListener, TcpStream};
    pub(super) use tokio::time::sleep;

    pub(super) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(task);
    }
}

/// Round trips between two threads, as in the comparison with Shuttle.
const ROUNDS: u32 = 100;
/// How often each of two threads lets the other go first.
const YIELDS: u32 = 10_000;

fn main() {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_default();
    let number = |text: Option<String>| text.and_then(|text| text.parse().ok());
    let executions = number(args.next()).expect("a number of executions");
    let seed = number(args.next()).unwrap_or(0);
    let setup: fn(&mut Net<'_>) = match name.as_str() {
        "ping" => |net| ping(net, false),
        "ping-fails" => |net| ping(net, true),
        "channel" => |net| channel(net, false),
        "channel-fails" => |net| channel(net, true),
        "yields" => yields,
        other => panic!("no program {other}"),
    };
    let search = hosts(setup).explorer(|explorer| {
        let explorer = explorer.executions(executions).seed(seed).search(Search::Random);
        explorer.regressions(false).shrink_time(Duration::ZERO)
    });
    measure(search);
}

fn measure(search: Hosts) {
    let over = AtomicBool::new(false);
    let (outcome, peak) = thread::scope(|scope| {
        let peak = scope.spawn(|| peak_of_child(&over));
        let outcome = search.run();
        over.store(true, Ordering::Relaxed);
        (outcome, peak.join().expect("it does not panic"))
    });
    let schedule = outcome.schedule.unwrap_or_else(|| "-".to_owned());
    let seconds = seconds_of_children();
    println!("{} {} {seconds} {peak} {schedule}", outcome.executions, outcome.steps);
}

/// Three hosts on tokio. If it fails, it does so in the end, and its schedule says all.
fn ping(net: &mut Net<'_>, fails: bool) {
    for name in ["a", "b"] {
        net.host(name, || run(echo::echo()));
    }
    net.client("pinger", move || {
        run(echo::pinger(["a:80", "b:80"])).expect("every message comes back");
        assert!(!fails, "it fails as it should");
    });
}

fn run<T>(program: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime starts").block_on(program)
}

/// Two threads and two channels of the standard library.
fn channel(net: &mut Net<'_>, fails: bool) {
    net.client("threads", move || {
        let (ping, pings) = mpsc::channel::<u32>();
        let (pong, pongs) = mpsc::channel::<u32>();
        let pinger = thread::spawn(move || {
            for round in 0..ROUNDS {
                ping.send(round).expect("the ponger listens");
                pongs.recv().expect("the ponger answers");
            }
        });
        let ponger = thread::spawn(move || {
            for _ in 0..ROUNDS {
                let round = pings.recv().expect("the pinger asks");
                pong.send(round).expect("the pinger listens");
            }
        });
        for thread in [pinger, ponger] {
            thread.join().expect("threads do not panic");
        }
        assert!(!fails, "it fails as it should");
    });
}

/// Two threads that do nothing but let each other go first.
fn yields(net: &mut Net<'_>) {
    net.client("threads", || {
        let yields = || (0..YIELDS).for_each(|_| thread::yield_now());
        let other = thread::spawn(yields);
        yields();
        other.join().expect("threads do not panic");
    });
}

/// The peak of the memory of the process in which the hosts run, in KiB, as it was last seen.
fn peak_of_child(over: &AtomicBool) -> u64 {
    let mut peak = 0;
    while !over.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(20));
        peak = peak.max(resident_of_child().unwrap_or(0));
    }
    peak
}

fn resident_of_child() -> Option<u64> {
    let main = std::process::id();
    let child = fs::read_to_string(format!("/proc/{main}/task/{main}/children")).ok()?;
    let status = fs::read_to_string(format!("/proc/{}/status", child.trim())).ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    peak.trim().strip_suffix(" kB")?.parse().ok()
}

/// The CPU-seconds of the processes in which hosts ran, in hundredths.
fn seconds_of_children() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("hosts are simulated on Linux");
    // The fields after the program's name, which may contain any character: cutime and cstime are
    // the 16th and the 17th field of the line.
    let fields = stat.rsplit(')').next().expect("the fields follow the name");
    let ticks: u64 = fields.split_whitespace().skip(13).take(2).flat_map(str::parse::<u64>).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

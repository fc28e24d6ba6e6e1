//! Programs that speak TCP with the standard library.

#![expect(clippy::disallowed_methods, reason = "hosts are programs as they are")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use everhold_host::{Net, Outcome, hosts};
use everhold_sim::{Faults, Schedule};

fn check(executions: u64, setup: impl Fn(&mut Net<'_>) + Send + Sync + 'static) -> Outcome {
    hosts(setup).explorer(|e| e.executions(executions).regressions(false)).run()
}

/// Connects to a host that may not have started yet.
fn connect(to: &str) -> TcpStream {
    loop {
        match TcpStream::connect(to) {
            Ok(stream) => return stream,
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn echo(at: &str) {
    for stream in TcpListener::bind(at).unwrap().incoming() {
        let mut stream = stream.unwrap();
        thread::spawn(move || {
            let mut buffer = [0; 64];
            while let Ok(length @ 1..) = stream.read(&mut buffer) {
                if stream.write_all(&buffer[..length]).is_err() {
                    break;
                }
            }
        });
    }
}

#[test]
fn an_echo_server_answers_two_clients() {
    let outcome = check(200, |net| {
        net.host("echo", || echo("0.0.0.0:7"));
        for name in ["ann", "bob"] {
            net.client(name, move || {
                let mut stream = connect("echo:7");
                for number in 0..5_u8 {
                    stream.write_all(&[number; 10]).unwrap();
                    let mut back = [0; 10];
                    stream.read_exact(&mut back).unwrap();
                    assert_eq!(back, [number; 10]);
                }
            });
        }
    });
    assert_eq!(outcome.failed, None, "{}", outcome.report);
}

#[test]
fn a_read_that_trusts_in_whole_segments_is_found() {
    let outcome = check(500, |net| {
        net.host("echo", || echo("0.0.0.0:7"));
        net.client("hasty", || {
            let mut stream = connect("echo:7");
            stream.write_all(b"hello, world").unwrap();
            let mut buffer = [0; 64];
            let length = stream.read(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"hello, world");
        });
    });
    assert!(outcome.failed.is_some(), "{}", outcome.report);
}

/// A counter behind a line protocol; `add` reads and writes under two locks.
fn counter(careful: bool) {
    let total = Arc::new(Mutex::new(0_u32));
    for stream in TcpListener::bind("0.0.0.0:80").unwrap().incoming() {
        let (stream, total) = (stream.unwrap(), Arc::clone(&total));
        thread::spawn(move || {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let mut stream = stream;
            while let Some(Ok(line)) = lines.next() {
                assert_eq!(line, "add");
                let now = if careful {
                    let mut total = total.lock().unwrap();
                    *total += 1;
                    *total
                } else {
                    let read = *total.lock().unwrap();
                    println!("{read} so far");
                    *total.lock().unwrap() = read + 1;
                    read + 1
                };
                stream.write_all(format!("{now}\n").as_bytes()).unwrap();
            }
        });
    }
}

fn adders(net: &mut Net<'_>, careful: bool) {
    net.host("counter", move || counter(careful));
    net.client("users", || {
        let add = || {
            let mut stream = connect("counter:80");
            stream.write_all(b"add\n").unwrap();
            let mut answer = String::new();
            BufReader::new(stream).read_line(&mut answer).unwrap();
            answer
        };
        let other = thread::spawn(add);
        assert_ne!(add(), other.join().unwrap(), "two users got the same number");
    });
}

#[test]
fn a_lost_update_in_a_server_is_found_and_shrunk() {
    let outcome = check(500, |net| adders(net, false));
    let failed = outcome.failed.expect("the two connections race");
    assert!(outcome.report.contains("two users got the same number"), "{failed}{}", outcome.report);
    let replay = Schedule::parse(&outcome.schedule.expect("it has a schedule")).unwrap();
    let replayed =
        hosts(|net| adders(net, false)).explorer(|e| e.replay(replay).regressions(false)).run();
    assert!(replayed.failed.is_some(), "{}", replayed.report);
}

#[test]
fn a_careful_server_loses_nothing() {
    let outcome = check(200, |net| adders(net, true));
    assert_eq!(outcome.failed, None, "{}", outcome.report);
}

#[test]
fn a_crash_resets_connections_and_the_host_comes_back() {
    let outcome = check(300, |net| {
        net.host("echo", || echo("0.0.0.0:7"));
        net.client("stubborn", || {
            for number in 0..4_u8 {
                loop {
                    let mut stream = connect("echo:7");
                    let mut back = [0];
                    if stream.write_all(&[number]).is_ok() && stream.read_exact(&mut back).is_ok() {
                        assert_eq!(back, [number]);
                        break;
                    }
                }
            }
        });
        net.faults(Faults::none().crash(1).partition(1));
    });
    assert_eq!(outcome.failed, None, "{}", outcome.report);
}

fn datagrams(net: &mut Net<'_>) {
    net.host("sink", || {
        let socket = UdpSocket::bind("0.0.0.0:9").unwrap();
        let mut buffer = [0; 16];
        loop {
            let (length, from) = socket.recv_from(&mut buffer).unwrap();
            socket.send_to(&buffer[..length], from).unwrap();
        }
    });
}

#[test]
fn datagrams_arrive_in_any_order_and_may_be_lost() {
    let outcome = check(300, |net| {
        datagrams(net);
        net.client("sender", || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            for number in 0..3_u8 {
                let mut back = [0; 16];
                // The first may come before the host listens; a lost one is sent again.
                while back[0] != number + 1 {
                    socket.send_to(&[number + 1], "sink:9").unwrap();
                    let _ = socket.recv_from(&mut back);
                }
            }
        });
        net.faults(Faults::none().lose(2).duplicate(1));
    });
    assert_eq!(outcome.failed, None, "{}", outcome.report);
}

#[test]
fn a_sender_that_trusts_in_the_order_of_datagrams_is_found() {
    let outcome = check(300, |net| {
        datagrams(net);
        net.client("trusting", || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            thread::sleep(Duration::from_secs(1));
            for number in [1, 2] {
                socket.send_to(&[number], "sink:9").unwrap();
            }
            for number in [1, 2] {
                let mut back = [0; 16];
                socket.recv_from(&mut back).unwrap();
                assert_eq!(back[0], number);
            }
        });
    });
    assert!(outcome.failed.is_some(), "{}", outcome.report);
}

//! Programs with files, on machines that crash.

#![expect(clippy::disallowed_methods, reason = "hosts are programs as they are")]

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use everhold_host::{Net, Outcome, hosts};
use everhold_sim::Faults;

fn check(executions: u64, setup: impl Fn(&mut Net<'_>) + Send + Sync + 'static) -> Outcome {
    hosts(setup).explorer(|e| e.executions(executions).regressions(false)).run()
}

#[test]
fn a_host_has_files_of_its_own() {
    let outcome = check(20, |net| {
        for name in ["one", "two"] {
            net.client(name, move || {
                assert!(!Path::new("/data").exists());
                fs::create_dir_all("/data/logs").unwrap();
                fs::write("/data/logs/name", name).unwrap();
                assert_eq!(fs::read_to_string("/data/logs/name").unwrap(), name);
                let mut file =
                    OpenOptions::new().read(true).append(true).open("/data/logs/name").unwrap();
                file.write_all(b"!").unwrap();
                file.sync_all().unwrap();
                file.seek(SeekFrom::Start(1)).unwrap();
                let mut rest = String::new();
                file.read_to_string(&mut rest).unwrap();
                assert_eq!(rest, format!("{}!", &name[1..]));
                assert_eq!(file.metadata().unwrap().len(), 4);
                fs::rename("/data/logs/name", "/data/other").unwrap();
                let names = fs::read_dir("/data").unwrap().map(|e| e.unwrap().file_name());
                let mut names: Vec<_> = names.collect();
                names.sort();
                assert_eq!(names, ["logs", "other"]);
                fs::remove_file("/data/other").unwrap();
                fs::remove_dir("/data/logs").unwrap();
                assert!(File::open("/data/other").is_err());
            });
        }
    });
    assert_eq!(outcome.failed, None, "{}", outcome.report);
    assert!(!Path::new("/data/logs").exists());
}

/// Keeps lines in a file; answers with their number.
fn keeper(syncs: bool) {
    for stream in TcpListener::bind("0.0.0.0:80").unwrap().incoming() {
        let mut stream = stream.unwrap();
        let mut line = String::new();
        if BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).is_err() {
            continue;
        }
        if line == "put\n" {
            let mut log = OpenOptions::new().create(true).append(true).open("/log").unwrap();
            log.write_all(b"put\n").unwrap();
            if syncs {
                log.sync_all().unwrap();
                File::open("/").unwrap().sync_all().unwrap();
            }
        }
        let kept = fs::read_to_string("/log").unwrap_or_default().lines().count();
        let _ = stream.write_all(format!("{kept}\n").as_bytes());
    }
}

fn ask(what: &str) -> usize {
    loop {
        let answer = TcpStream::connect("keeper:80").and_then(|mut stream| {
            stream.write_all(what.as_bytes())?;
            let mut answer = String::new();
            BufReader::new(stream).read_line(&mut answer)?;
            Ok(answer)
        });
        match answer.map(|answer| answer.trim().parse()) {
            Ok(Ok(number)) => return number,
            _ => thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn puts_are_kept(net: &mut Net<'_>, syncs: bool) {
    net.host("keeper", move || keeper(syncs));
    net.client("user", || {
        for number in 1..=2 {
            ask("put\n");
            assert!(ask("get\n") >= number, "an acknowledged put was lost");
        }
    });
    net.faults(Faults::none().crash(1));
}

#[test]
fn a_write_that_was_not_synced_is_lost_in_a_crash() {
    let outcome = check(1_000, |net| puts_are_kept(net, false));
    let failed = outcome.failed.expect("a crash between put and get loses the put");
    assert!(outcome.report.contains("an acknowledged put was lost"), "{failed}{}", outcome.report);
}

#[test]
fn a_write_that_was_synced_is_kept() {
    let outcome = check(500, |net| puts_are_kept(net, true));
    assert_eq!(outcome.failed, None, "{}", outcome.report);
}

/// A host that is down when the last client ends would restart again and again.
#[test]
fn an_execution_ends_although_a_host_is_down() {
    let outcome = check(50, |net| {
        net.host("short", || thread::sleep(Duration::from_secs(1)));
        net.client("user", || thread::sleep(Duration::from_secs(6)));
        net.faults(Faults::none().crash(2));
    });
    assert_eq!(outcome.failed, None, "{}", outcome.report);
    assert!(outcome.steps < 50 * 100, "{} steps", outcome.steps);
}

//! A full disk under a recording and under the log of a watch: both report it, the application is
//! not affected, and when there is room again the rules are judged again.
#![expect(clippy::disallowed_methods, reason = "nodes on real sockets run in real time")]

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use everhold_live::{Client, Codec, Config, Host, NodeId, Report};
use everhold_systems::lock::{self, Bug, CONSISTENT, Mode, Msg, RULES};

use crate::live::{PATIENCE, Watcher, folder};

/// A disk of one mebibyte.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts the disk; `None` where mounting is not permitted.
    fn mount(at: &Path) -> Option<SmallDisk> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m", "everhold-test"]).arg(at);
        let done = mount.output().ok()?;
        done.status.success().then(|| SmallDisk(at.to_owned()))
    }

    /// Fills the disk.
    fn fill(&self) {
        let mut file = fs::File::create(self.0.join("filler")).unwrap();
        while file.write_all(&[0; 512]).is_ok() {}
    }

    fn free(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).output();
    }
}

/// Requests locks, which are granted, until a report contains `words`.
fn work_until(clients: &mut [Client<Msg>], told: &Receiver<String>, words: &str) {
    let begun = Instant::now();
    for lock in (0..4).cycle() {
        for client in &mut *clients {
            let have = client.call(&Msg::Want(lock, Mode::Shared), PATIENCE).unwrap();
            assert_eq!(have, Msg::Have(lock));
            client.tell(&Msg::Done(lock)).unwrap();
        }
        if let Some(line) = told.try_iter().find(|line| line.contains(words)) {
            println!("{line}");
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "nobody says {words:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_full_disk_harms_nobody() {
    let folder = folder("full-disk");
    let Some(disk) = SmallDisk::mount(&folder) else {
        println!("skipped: mounting a small disk is not allowed here");
        return;
    };
    let (tell, troubles) = mpsc::channel();
    let watcher = Watcher::start_telling(&folder, RULES, move |text| drop(tell.send(text)));
    let listeners = [0, 1, 2].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
    let mut config = Config::new("lock", (0..).map(NodeId).zip(addresses));
    config.checkers = vec![watcher.address()];
    config.record = Some(folder.join("record"));
    let (tell, told) = mpsc::channel();
    let mut host = Host::new(config, Codec::postcard())
        .report(Report::to(move |line| drop(tell.send(line.to_owned()))));
    let bug = Bug::GrantsBeforeRelease;
    host = host.node(lock::SERVER, "server", move || lock::Server::new(bug));
    for (id, listener) in (0..).map(NodeId).zip(listeners) {
        if id != lock::SERVER {
            host = host.node(id, "client", lock::Client::default);
        }
        host = host.listen_on(id, listener);
    }
    let running = host.start().unwrap();
    let client = |id: usize| {
        Client::connect("lock", NodeId(id as u32), addresses[id], Codec::postcard()).unwrap()
    };
    let mut clients = [client(1), client(2)];

    disk.fill();
    work_until(&mut clients, &told, "free some space there");
    work_until(&mut clients, &troubles, "the log cannot be written");
    disk.free();
    // Lost observations are sent again when they change.
    let begun = Instant::now();
    let violation = loop {
        for client in &mut clients {
            let _ = client.call(&Msg::Want(9, Mode::Exclusive), PATIENCE).unwrap();
        }
        if let Some(violation) = watcher.violation(Duration::from_millis(500)) {
            break violation;
        }
        assert!(begun.elapsed() < PATIENCE, "the double grant is not caught");
    };
    assert_eq!(violation.rule, CONSISTENT);
    running.stop().unwrap();
    drop(watcher);
}

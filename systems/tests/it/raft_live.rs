//! Three peers as three processes on loopback: one is killed while clients write, and restarts; one
//! misbehaves, and an assertion detects it.
#![expect(clippy::disallowed_methods, reason = "processes of their own run in real time")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use everhold_live::host::loopback;
use everhold_live::{Client, Config, NodeId};
use everhold_systems::raft::{Msg, Silent, codec};

struct Cluster {
    folder: PathBuf,
    config: Config,
    processes: Vec<Option<Child>>,
}

impl Cluster {
    fn new(name: &str) -> Cluster {
        let folder = format!("everhold-raft-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder).unwrap();
        let [a, b, c] = loopback(3).unwrap()[..] else { unreachable!("three were asked for") };
        let text = format!(
            r#"{{"system": "raft", "nodes": {{"0": "{a}", "1": "{b}", "2": "{c}"}},
                "data": {:?}, "record": {:?}}}"#,
            folder.join("data"),
            folder.join("record")
        );
        let config = Config::parse(&text).unwrap();
        fs::write(folder.join("raft.json"), text).unwrap();
        Cluster { folder, config, processes: vec![None, None, None] }
    }

    fn launch(&mut self, peer: usize) {
        self.spawn(peer, &["host", &peer.to_string()], Stdio::null());
    }

    fn spawn(&mut self, peer: usize, words: &[&str], said: Stdio) -> &mut Child {
        let process = Command::new(env!("CARGO_BIN_EXE_raft-node"))
            .arg(self.folder.join("raft.json"))
            .args(words)
            .stdin(Stdio::piped())
            .stdout(said)
            .spawn();
        self.processes[peer].insert(process.expect("the program was built with this test"))
    }

    /// Launches all peers with an asserted invariant, which the last one breaks after a number of
    /// ticks; the receiver gets `begun` and `violated` with their times.
    fn launch_asserting(&mut self, invariant: Silent, wait: &str) -> Receiver<(String, u64)> {
        let addresses = loopback(3).unwrap();
        let addresses: Vec<_> = addresses.iter().map(SocketAddr::to_string).collect();
        let addresses = addresses.join(",");
        let (tell, told) = channel();
        for peer in 0..3 {
            let (id, invariant) = (peer.to_string(), format!("{invariant:?}"));
            let words = ["assert", &id, &addresses, &invariant, wait, "1.0", "async"];
            let process = self.spawn(peer, &words, Stdio::piped());
            let said = BufReader::new(process.stdout.take().expect("it was asked for"));
            let tell = tell.clone();
            thread::spawn(move || {
                for line in said.lines().map_while(Result::ok) {
                    let (what, when) = line.split_once(' ').expect("a word and a time");
                    let _ = tell.send((what.to_owned(), when.parse().expect("a time")));
                }
            });
        }
        told
    }

    /// Sends `SIGKILL`, which leaves the process no time to shut down.
    fn kill(&mut self, peer: usize) {
        let mut process = self.processes[peer].take().expect("it runs");
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Asks a peer until it gives a good answer.
    fn ask(&self, peer: usize, question: &Msg, good: impl Fn(&Msg) -> bool) -> Msg {
        let id = NodeId(peer as u32);
        let begun = Instant::now();
        loop {
            let client = Client::connect("raft", id, self.config.nodes[&id], codec());
            let answer = client.and_then(|mut c| c.call(question, Duration::from_millis(700)));
            match answer {
                Ok(answer) if good(&answer) => return answer,
                _ => thread::sleep(Duration::from_millis(20)),
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "{question:?} is not answered");
        }
    }

    fn write(&self, peer: usize, command: u64) {
        self.ask(peer, &Msg::Write(command), |answer| matches!(answer, Msg::Written(_)));
    }

    /// The commands that a peer has applied, once they include `last`. A command that was sent
    /// twice may occur twice.
    fn read(&self, peer: usize, last: u64) -> Vec<u64> {
        let has = |commands: &Vec<(u64, u64)>| commands.iter().any(|(_, command)| *command == last);
        let good = |answer: &Msg| matches!(answer, Msg::Applied(commands) if has(commands));
        let Msg::Applied(commands) = self.ask(peer, &Msg::Read, good) else { unreachable!() };
        let mut commands: Vec<_> = commands.into_iter().map(|(_, command)| command).collect();
        commands.dedup();
        commands
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().flatten() {
            let _ = process.kill();
            let _ = process.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn a_killed_peer_comes_back_with_everything() {
    let mut cluster = Cluster::new("killed");
    (0..3).for_each(|peer| cluster.launch(peer));
    cluster.write(0, 1);
    cluster.write(1, 2);
    for (victim, other, commands) in [(0, 1, [3, 4]), (2, 0, [5, 6])] {
        cluster.kill(victim);
        commands.iter().for_each(|command| cluster.write(other, *command));
        cluster.launch(victim);
        let expected: Vec<_> = (1..=commands[1]).collect();
        assert_eq!(cluster.read(victim, commands[1]), expected);
    }
    // A clean shutdown, and the recordings of all incarnations as one execution.
    for process in &mut cluster.processes {
        let mut process = process.take().expect("it runs");
        drop(process.stdin.take());
        assert!(process.wait().unwrap().success());
    }
    let whole = everhold_live::recording::merge([cluster.folder.join("record")]).unwrap();
    let execution = &whole.executions[0];
    let n0 = execution.node_named("n0").expect("it recorded");
    assert_eq!(execution.node(n0).incarnations, 2);
}

/// Dinv's three silent bugs (section 7): clients are served before and after, and the assertion
/// reports the violation. Without a bug it does not.
#[test]
fn silent_bugs_are_asserted_and_clients_notice_nothing() {
    thread::scope(|scope| {
        for invariant in Silent::ALL {
            scope.spawn(move || {
                let mut cluster = Cluster::new(&format!("{invariant:?}"));
                let told = cluster.launch_asserting(invariant, "20");
                let mut command = 0;
                // The lines come from two processes, so the later event may be read first.
                let (mut begun, mut found) = (None, None);
                while begun.is_none() || found.is_none() {
                    command += 1;
                    cluster.write(0, command);
                    for (what, when) in told.try_iter() {
                        let first = if what == "begun" { &mut begun } else { &mut found };
                        first.get_or_insert(when);
                    }
                    assert!(command < 100_000, "{invariant:?} is not found");
                }
                let waited = found.zip(begun).and_then(|(found, begun)| found.checked_sub(begun));
                let waited = waited.expect("nothing is told before it happens");
                println!("{}: {} ms", invariant.invariant(), waited / 1_000);
                cluster.write(1, command + 1);
            });
        }
        scope.spawn(|| {
            let mut cluster = Cluster::new("right");
            let told = cluster.launch_asserting(Silent::DamagesLog, "never");
            (1..=50).for_each(|command| cluster.write(0, command));
            assert_eq!(told.recv_timeout(Duration::from_millis(500)).ok(), None);
        });
    });
}

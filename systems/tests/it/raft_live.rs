//! Three peers as three processes on loopback: one is killed while clients write, and comes back.
#![expect(clippy::disallowed_methods, reason = "processes of their own run in real time")]

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use everhold_live::{Client, Config, NodeId};
use everhold_systems::raft::{Msg, codec};

struct Cluster {
    folder: PathBuf,
    config: Config,
    processes: Vec<Option<Child>>,
}

impl Cluster {
    fn start() -> Cluster {
        let folder = std::env::temp_dir().join(format!("everhold-raft-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let listeners = [0, 1, 2].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let addresses: [SocketAddr; 3] = listeners.map(|listener| listener.local_addr().unwrap());
        let [a, b, c] = addresses;
        let text = format!(
            r#"{{"system": "raft", "nodes": {{"0": "{a}", "1": "{b}", "2": "{c}"}},
                "data": {:?}, "record": {:?}}}"#,
            folder.join("data"),
            folder.join("record")
        );
        let config = Config::parse(&text).unwrap();
        fs::write(folder.join("raft.json"), text).unwrap();
        let mut cluster = Cluster { folder, config, processes: vec![None, None, None] };
        (0..3).for_each(|peer| cluster.launch(peer));
        cluster
    }

    fn launch(&mut self, peer: usize) {
        let process = Command::new(env!("CARGO_BIN_EXE_raft-node"))
            .arg(self.folder.join("raft.json"))
            .args(["host", &peer.to_string()])
            .stdin(Stdio::piped())
            .spawn();
        self.processes[peer] = Some(process.expect("the program was built with this test"));
    }

    /// `SIGKILL`: no last words.
    fn kill(&mut self, peer: usize) {
        let mut process = self.processes[peer].take().expect("it runs");
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Asks a peer until it answers.
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

    /// The commands at a peer, once they include `last`. One that was asked for twice may be
    /// there twice.
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
    let mut cluster = Cluster::start();
    cluster.write(0, 1);
    cluster.write(1, 2);
    for (victim, other, commands) in [(0, 1, [3, 4]), (2, 0, [5, 6])] {
        cluster.kill(victim);
        commands.iter().for_each(|command| cluster.write(other, *command));
        cluster.launch(victim);
        let expected: Vec<_> = (1..=commands[1]).collect();
        assert_eq!(cluster.read(victim, commands[1]), expected);
    }
    // A clean end, and the recordings of all incarnations as one execution.
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

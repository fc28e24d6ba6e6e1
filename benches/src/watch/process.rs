//! This program, started as a child process under another name.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// A process that ends with its owner.
pub(super) struct Process {
    child: Child,
    /// Its output, line by line.
    pub(super) lines: Receiver<String>,
}

impl Process {
    pub(super) fn start<S: ToString>(name: &str, words: &[S]) -> Process {
        let mut child = Command::new(std::env::current_exe().expect("it was started"))
            .arg(name)
            .args(words.iter().map(ToString::to_string))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("this program starts again");
        let said = BufReader::new(child.stdout.take().expect("it was asked for"));
        let (tell, lines) = channel();
        thread::spawn(move || {
            for line in said.lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        Process { child, lines }
    }

    /// The peak memory of the process so far, in KiB.
    pub(super) fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
    }

    /// Closes its standard input, at which the process prints its result and ends.
    pub(super) fn finish(mut self) -> Vec<String> {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
        self.lines.iter().collect()
    }
}

/// Sends `SIGKILL`, which leaves the process no time to shut down.
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Calls `then` when standard input has ended.
pub(super) fn when_input_ends(then: impl FnOnce() + Send + 'static) {
    thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        then();
    });
}

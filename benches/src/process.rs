//! This program, started again under another name.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

/// A process that does not outlive its owner.
pub(crate) struct Process {
    child: Child,
    /// Its output, line by line.
    pub(crate) lines: Receiver<String>,
}

impl Process {
    pub(crate) fn start<S: ToString>(name: &str, words: &[S]) -> Process {
        let mut command = Command::new(std::env::current_exe().expect("it was started"));
        command.arg(name).args(words.iter().map(ToString::to_string));
        Process::spawn(&mut command).expect("this program starts again")
    }

    /// Any command, of which the standard input and output are ours.
    pub(crate) fn spawn(command: &mut Command) -> std::io::Result<Process> {
        let errors = if std::env::var_os("EVERHOLD_BENCH_ERRORS").is_some() {
            Stdio::inherit()
        } else {
            Stdio::null()
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn()?;
        let said = BufReader::new(child.stdout.take().expect("it was asked for"));
        let (tell, lines) = channel();
        thread::spawn(move || {
            for line in said.lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        Ok(Process { child, lines })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// A line for its standard input; nothing if it has ended.
    pub(crate) fn tell(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("it was not finished");
        let _ = input.write_all(format!("{line}\n").as_bytes());
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// The most memory that it had so far, in KiB.
    pub(crate) fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
    }

    /// Ends its standard input, at which it says its last and ends.
    pub(crate) fn finish(mut self) -> Vec<String> {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
        self.lines.iter().collect()
    }
}

/// `SIGKILL`: no last words.
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Calls back when standard input has ended.
pub(crate) fn when_input_ends(then: impl FnOnce() + Send + 'static) {
    thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        then();
    });
}

//! Programs to attach to, and how to talk to them.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use everhold_attach::{Attached, Options, Plan, ProbeFile, Targets, missing_capabilities};
use everhold_live::Report;
use everhold_trace::Value;

/// Whether breakpoints can be set here. If not, that is said, and in CI it is a failure.
pub(crate) fn allowed() -> bool {
    let missing = missing_capabilities();
    if missing.is_empty() {
        return true;
    }
    left_out(&format!("{} are missing", missing.join(" and ")))
}

/// Says that a test is left out.
pub(crate) fn left_out(why: &str) -> bool {
    assert!(env::var_os("CI").is_none(), "left out, which CI does not allow: {why}");
    eprintln!("left out: {why}");
    false
}

pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// A new folder for one test.
pub(crate) fn folder() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("attach-{}-{number}", std::process::id()));
    fs::create_dir_all(&path).unwrap();
    path
}

/// Compiles a program; `None` if the compiler is missing.
pub(crate) fn compile(compiler: &str, options: &[&str], name: &str) -> Option<PathBuf> {
    let out = folder().join(name.replace('.', "-"));
    let mut command = Command::new(compiler);
    command.args(options).arg("-o").arg(&out).arg(source(name));
    match command.output() {
        Err(error) => {
            left_out(&format!("{compiler}: {error}"));
            None
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{compiler}: {said}");
            Some(out)
        }
    }
}

/// A program that does what it is told, line by line.
pub(crate) struct Puppet {
    pub(crate) child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Puppet {
    pub(crate) fn start(program: &Path, arguments: &[&str]) -> Puppet {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Puppet { child, input, output }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Says a line, and waits until it was done.
    pub(crate) fn say(&mut self, line: &str) {
        self.ask(line);
        self.answer();
    }

    /// Says a line.
    pub(crate) fn ask(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Waits for a line, which is returned.
    pub(crate) fn answer(&mut self) -> String {
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        assert!(!answer.is_empty(), "the program is gone: {:?}", self.child.try_wait());
        answer
    }

    /// Ends its input and returns whether it ended well.
    pub(crate) fn end(mut self) -> bool {
        drop(self.input.take());
        self.child.wait().unwrap().success()
    }
}

impl Drop for Puppet {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn plan(probes: &str, targets: &Targets) -> Plan {
    Plan::make(ProbeFile::parse(probes).unwrap(), targets).unwrap()
}

pub(crate) fn of(puppets: &[&Puppet]) -> Targets {
    Targets { processes: puppets.iter().map(|puppet| puppet.pid()).collect(), programs: Vec::new() }
}

/// The reported lines.
#[derive(Clone, Default)]
pub(crate) struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    pub(crate) fn report(&self) -> Report {
        let lines = Arc::clone(&self.0);
        Report::to(move |line| lines.lock().unwrap().push(line.to_owned()))
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

#[track_caller]
pub(crate) fn attach(plan: Plan) -> Attached {
    assert_eq!(plan.problems().count(), 0, "{}", plan.describe());
    Attached::start(plan, Options::default()).unwrap()
}

/// Takes turns until the states satisfy this, for ten seconds at most.
#[track_caller]
pub(crate) fn until(attached: &mut Attached, is_so: impl Fn(&str) -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        attached.turn();
        let states = Value::Record(attached.states()).to_string();
        if is_so(&states) {
            return;
        }
        assert!(Instant::now() < end, "the states stay {states}; {:?}", attached.totals());
        std::thread::sleep(Duration::from_millis(2));
    }
}

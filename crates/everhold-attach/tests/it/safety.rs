//! Nothing that is observed is harmed, whatever happens to it or to the observer.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use std::{env, fs};

use everhold_attach::{AttachErrorKind, Attached, Options, Plan, ProbeFile, Targets};

use crate::support::{Puppet, Told, allowed, attach, compile, of, plan, source, until};

const PROBES: &str = "node is arg --name\non entry on_lock_released set lock = $lock";

fn program() -> Option<PathBuf> {
    if allowed() { compile("gcc", &["-O2", "-g"], "locks.c") } else { None }
}

/// The bytes of the code of a process: all that is mapped from its program and may run.
fn code_of(process: u32, program: &Path) -> Vec<u8> {
    use std::io::{Read, Seek, SeekFrom};
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let name = program.to_str().unwrap();
    let line = maps.lines().find(|line| line.contains(" r-xp ") && line.ends_with(name)).unwrap();
    let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
    let [start, end] = [start, end].map(|word| u64::from_str_radix(word, 16).unwrap());
    let mut memory = fs::File::open(format!("/proc/{process}/mem")).unwrap();
    memory.seek(SeekFrom::Start(start)).unwrap();
    let mut bytes = vec![0; usize::try_from(end - start).unwrap()];
    memory.read_exact(&mut bytes).unwrap();
    bytes
}

#[test]
fn leaving_restores_every_byte() {
    let Some(program) = program() else { return };
    let mut puppet = Puppet::start(&program, &["--name", "alice"]);
    puppet.say("release 1");
    let before = code_of(puppet.pid(), &program);
    let attached = attach(plan(&format!("{PROBES}\nafter deep step d"), &of(&[&puppet])));
    assert_ne!(code_of(puppet.pid(), &program), before, "there are breakpoints");
    let _ = attached.leave();
    assert_eq!(code_of(puppet.pid(), &program), before);
    puppet.say("deep 5");
    assert!(puppet.end());
}

/// An observer in a process of its own: this very test, run by the test below.
#[test]
fn observer() {
    let Ok(process) = env::var("EVERHOLD_TEST_OBSERVES") else { return };
    let targets = Targets { processes: vec![process.parse().unwrap()], programs: Vec::new() };
    let mut attached = attach(plan(PROBES, &targets));
    println!("attached");
    loop {
        attached.turn();
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn nothing_remains_of_an_observer_that_is_killed() {
    let Some(program) = program() else { return };
    let mut puppet = Puppet::start(&program, &["--name", "alice"]);
    puppet.say("release 1");
    let before = code_of(puppet.pid(), &program);
    let mut observer = Command::new(env::current_exe().unwrap())
        .args(["--exact", "safety::observer", "--nocapture"])
        .env("EVERHOLD_TEST_OBSERVES", puppet.pid().to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // Its breakpoints appear, it is killed, and they are gone.
    wait(|| code_of(puppet.pid(), &program) != before);
    observer.kill().unwrap();
    observer.wait().unwrap();
    wait(|| code_of(puppet.pid(), &program) == before);
    puppet.say("release 2");
    assert!(puppet.end());
}

#[track_caller]
fn wait(is_so: impl Fn() -> bool) {
    for _ in 0..2_000 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("it did not happen within ten seconds");
}

#[test]
fn processes_come_and_go_and_come_back() {
    let Some(program) = program() else { return };
    let told = Told::default();
    let targets = Targets { programs: vec![program.clone()], ..Targets::default() };
    let mut first = Puppet::start(&program, &["--name", "alice"]);
    let options = Options { report: told.report(), ..Options::default() };
    let mut attached = Attached::start(plan(PROBES, &targets), options).unwrap();
    let mut second = Puppet::start(&program, &["--name", "bob"]);
    first.say("release 1");
    second.say("release 2");
    until(&mut attached, |states| states == "{alice: {lock: 1}, bob: {lock: 2}}");
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    until(&mut attached, |states| states == "{bob: {lock: 2}}");
    assert!(told.lines().iter().any(|line| line.contains("alice has ended")), "{:?}", told.lines());
    // It comes back with nothing known of it, and is the same node.
    let mut again = Puppet::start(&program, &["--name", "alice"]);
    again.say("release 3");
    until(&mut attached, |states| states == "{alice: {lock: 3}, bob: {lock: 2}}");
    assert_eq!(attached.leave().nodes, 2);
}

#[test]
fn a_program_that_is_replaced_is_observed_where_it_still_runs() {
    let Some(program) = program() else { return };
    let mut old = Puppet::start(&program, &["--name", "alice"]);
    // Another program takes the name; the process runs the file that has none any more.
    fs::remove_file(&program).unwrap();
    fs::copy("/bin/true", &program).unwrap();
    let mut attached = attach(plan(PROBES, &of(&[&old])));
    old.say("release 7");
    until(&mut attached, |states| states == "{alice: {lock: 7}}");
}

#[test]
fn a_process_that_runs_another_program_is_let_go() {
    let Some(program) = program() else { return };
    // The shell becomes the program, and then something else.
    let mut puppet = Puppet::start(&program, &["--name", "alice"]);
    let mut attached = attach(plan(PROBES, &of(&[&puppet])));
    puppet.say("release 1");
    until(&mut attached, |states| states == "{alice: {lock: 1}}");
    puppet.say("exec 1");
    until(&mut attached, |states| states == "{:}");
    assert!(!attached.has_use());
    assert!(puppet.child.try_wait().unwrap().is_none(), "it lives on");
}

#[test]
fn a_forked_child_is_a_process_of_its_own() {
    let Some(program) = program() else { return };
    let mut puppet = Puppet::start(&program, &["--name", "alice"]);
    let mut attached = attach(plan(PROBES, &of(&[&puppet])));
    // The child releases lock 5 and ends; only the parent is meant.
    puppet.say("fork 5");
    puppet.say("release 6");
    until(&mut attached, |states| states == "{alice: {lock: 6}}");
    assert_eq!(attached.leave().records, 1);
    assert!(puppet.end());
}

#[test]
fn a_pointer_that_leads_nowhere_is_told_and_harms_nobody() {
    let Some(program) = program() else { return };
    let mut puppet = Puppet::start(&program, &["--name", "alice"]);
    let probes = "node is arg --name\non entry on_lock_released set wrong = $lock[8][16]:u32";
    let mut attached = attach(plan(probes, &of(&[&puppet])));
    puppet.say("release 1");
    for _ in 0..20 {
        attached.turn();
        thread::sleep(Duration::from_millis(2));
    }
    let totals = attached.leave();
    assert_eq!((totals.hits, totals.unreadable), (1, 1));
    assert!(puppet.end());
}

#[test]
fn a_full_ring_is_counted() {
    let Some(program) = program() else { return };
    let mut puppet = Puppet::start(&program, &["--name", "alice"]);
    let told = Told::default();
    let plan = plan(
        "node is arg --name\nbudget 1000000000\non entry busy set n = $round",
        &of(&[&puppet]),
    );
    // A page has room for 128 records.
    let options = Options { ring_bytes: 4_096, report: told.report(), ..Options::default() };
    let mut attached = Attached::start(plan, options).unwrap();
    puppet.say("busy 5000");
    attached.turn();
    thread::sleep(Duration::from_millis(10));
    let totals = attached.leave();
    assert_eq!((totals.hits, totals.shed), (5_000, 0));
    assert!(totals.lost > 4_000 && totals.records + totals.lost == 5_000, "{totals:?}");
    assert!(told.lines().iter().any(|line| line.contains("lost, since the ring was full")));
}

#[test]
fn a_process_in_another_mount_namespace_is_found() {
    let Some(program) = program() else { return };
    // Its root is another folder, in which the program has another name.
    let root = crate::support::folder();
    fs::create_dir_all(root.join("inside")).unwrap();
    let Some(still) = compile("gcc", &["-O2", "-g", "-static"], "locks.c") else { return };
    fs::copy(&still, root.join("inside/locks")).unwrap();
    drop(program);
    let (unshare, root) = (Path::new("/usr/bin/unshare"), root.to_str().unwrap().to_owned());
    if !unshare.exists() {
        crate::support::left_out("there is no unshare");
        return;
    }
    let arguments = ["--mount", "--root", &root, "/inside/locks", "--name", "alice"];
    let mut puppet = Puppet::start(unshare, &arguments);
    puppet.say("release 1");
    let mut attached = attach(plan(PROBES, &of(&[&puppet])));
    puppet.say("release 9");
    until(&mut attached, |states| states == "{alice: {lock: 9}}");
}

const PROCESSES: usize = 1_000;

/// The part of the next test that runs with a limit of open files.
fn a_thousand_processes(program: &Path) -> (usize, Vec<String>) {
    let mut waits = Command::new("sleep").arg("300").stdout(Stdio::piped()).spawn().unwrap();
    let input = OwnedFd::from(waits.stdout.take().unwrap());
    let start = |_| {
        let input = Stdio::from(input.try_clone().unwrap());
        Command::new(program).stdin(input).stdout(Stdio::null()).spawn().unwrap()
    };
    let mut children: Vec<Child> = (0..PROCESSES).map(start).collect();
    let processes = children.iter().map(Child::id).collect();
    let told = Told::default();
    let options = Options { report: told.report(), ..Default::default() };
    let plan = plan("on entry deep step deep", &Targets { processes, programs: Vec::new() });
    let attached = Attached::start(plan, options).unwrap();
    let nodes = attached.leave().nodes;
    for child in children.iter_mut().chain([&mut waits]) {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    (nodes, told.lines())
}

/// Every process takes an open file. The limit is raised as far as it may be, and what is beyond is told.
#[test]
fn a_thousand_processes_are_observed_or_it_is_told() {
    if !allowed() {
        return;
    }
    if let Some(program) = env::var_os("EVERHOLD_TEST_PROGRAM") {
        let (nodes, told) = a_thousand_processes(Path::new(&program));
        let limited = told.iter().filter(|line| line.contains("ulimit -n")).count();
        println!("{nodes} nodes, {limited} told");
        return;
    }
    let Some(program) = compile("gcc", &["-O2", "-g"], "locks.c") else { return };
    let check = |limit: &str, is_so: &dyn Fn(usize, usize) -> bool| {
        let output = Command::new("sh")
            .args(["-c", &format!("ulimit {limit}; exec \"$0\" \"$@\"")])
            .arg(env::current_exe().unwrap())
            .args([
                "--exact",
                "--nocapture",
                "safety::a_thousand_processes_are_observed_or_it_is_told",
            ])
            .env("EVERHOLD_TEST_PROGRAM", &program)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let found = text.lines().find_map(|line| line.split_once(" nodes, "));
        let Some((nodes, told)) = found else { panic!("{limit}: {text}") };
        let nodes = nodes.rsplit(' ').next().unwrap().parse().unwrap();
        let told = told.strip_suffix(" told").unwrap().parse().unwrap();
        assert!(is_so(nodes, told), "{limit}: {nodes} nodes, {told} told");
    };
    check("-Sn 256", &|nodes, told| (nodes, told) == (PROCESSES, 0));
    check("-n 256", &|nodes, told| nodes < 256 && nodes + told == PROCESSES);
}

#[test]
fn reasons_have_a_kind_a_place_and_a_remedy() {
    let check = |targets: Targets, kind: AttachErrorKind, place: &str| {
        let file = ProbeFile::parse("on entry deep step deep").unwrap();
        let error = Plan::make(file, &targets).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.place.contains(place) && !error.remedy.is_empty(), "{error}");
    };
    let programs = |path: PathBuf| Targets { programs: vec![path], ..Targets::default() };
    let process = Targets { processes: vec![u32::MAX >> 1], ..Targets::default() };
    check(process, AttachErrorKind::Absent, "process 2147483647");
    check(programs("/no/such/program".into()), AttachErrorKind::Absent, "/no/such/program");
    check(programs(source("locks.c")), AttachErrorKind::Unreadable, "locks.c");
}

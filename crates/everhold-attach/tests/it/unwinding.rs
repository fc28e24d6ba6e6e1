//! Languages that unwind or move their stacks: a return probe, which replaces the return address,
//! kills them. Here they are looked at when they return, and go on.

use std::path::Path;

use crate::support::{Puppet, allowed, attach, compile, of, plan, until};

const PROBES: &str = "\
node is arg --name
after ClientNode::on_lock_acquired set lock = $lock, mode = $mode, name = $0->name
";

/// Attaches, has the program work, and checks that it went on unharmed to the last state.
fn survives(program: &Path, probes: &str, line: &str, last: &str, counts: (u64, u64)) {
    let mut puppet = Puppet::start(program, &["--name", "alice"]);
    let mut attached = attach(plan(probes, &of(&[&puppet])));
    puppet.say(line);
    until(&mut attached, |states| states == last);
    let totals = attached.leave();
    assert_eq!((totals.hits, totals.records), counts, "{totals:?}");
    assert_eq!((totals.lost, totals.unreadable), (0, 0));
    puppet.say(line);
    assert!(puppet.end());
}

#[test]
fn exceptions_of_cpp_fly_through_probed_functions() {
    for optimisation in ["-O2", "-O0"] {
        if !allowed() {
            return;
        }
        let Some(program) = compile("g++", &[optimisation, "-g"], "locks.cpp") else { return };
        let last = r#"{alice: {lock: 998, mode: "Exclusive", name: "alice"}}"#;
        survives(&program, PROBES, "work 1000", last, (1_000, 500));
    }
}

#[test]
fn panics_of_rust_unwind_through_probed_functions() {
    for optimisation in ["3", "0"] {
        if !allowed() {
            return;
        }
        let level = format!("opt-level={optimisation}");
        let options = ["-g", "-C", &level, "--edition", "2021"];
        let Some(program) = compile("rustc", &options, "locks.rs") else { return };
        let last = r#"{alice: {lock: 998, mode: "Shared", name: "alice"}}"#;
        survives(&program, PROBES, "work 1000", last, (1_000, 500));
    }
}

fn go(options: &[&str]) -> Option<std::path::PathBuf> {
    compile("go", &[&["build"], options].concat(), "locks.go")
}

#[test]
fn stacks_of_go_move_under_probed_functions() {
    if !allowed() {
        return;
    }
    let Some(program) = go(&[]) else { return };
    let probes = "node is arg --name\nbudget 1000000\n\
                  after ClientNode).Deep set n = $n, sum = $ret, name = $0->Name where $n == 200";
    let last = r#"{alice: {n: 200, name: "alice", sum: 20107}}"#;
    survives(&program, probes, "deep 20", last, (20 * 201, 20));
}

#[test]
fn stripped_go_is_known_by_its_function_table() {
    if !allowed() {
        return;
    }
    let Some(program) = go(&["-ldflags=-s -w"]) else { return };
    let probes = "node is arg --name\n\
                  after (*ClientNode).OnLockAcquired set lock = $1, mode = $2:str, sum = $ret, \
                  name = $0[16]:str, acquired = $0[32][0]:u32";
    let last = r#"{alice: {acquired: 100, lock: 99, mode: "exclusive", name: "alice", sum: 207}}"#;
    survives(&program, probes, "work 100", last, (100, 100));
}

/// When the stack of a goroutine is too small, Go grows it and runs the beginning of the function a second
/// time. A probe on that function counts one hit, in programs with and without debug information.
#[test]
fn a_call_that_grows_its_stack_in_go_is_one_hit() {
    if !allowed() {
        return;
    }
    for options in [&[][..], &["-ldflags=-s -w"], &["-gcflags=-N -l"]] {
        let Some(program) = go(options) else { return };
        for when in ["on entry", "after"] {
            let check = |line: &str, words: &str, last: &str| {
                let probes = format!("node is arg --name\n{when} {line}");
                survives(&program, &probes, words, last, (100, 100));
            };
            check("(*ClientNode).Wide set n = $1:u64", "wide 100", "{alice: {n: 99}}");
            check("main.Least set b = $1:u64", "least 100", "{alice: {b: 50}}");
            check("main.Least set a = $0:u64", "least 100", "{alice: {a: 99}}");
        }
    }
}

//! C, with and without optimisation, with and without debug information.

use std::fs;
use std::path::Path;
use std::process::Command;

use everhold_attach::Targets;

use crate::support::{Puppet, Told, allowed, attach, compile, left_out, of, plan, until};

const PROBES: &str = "\
node is arg --name
after on_lock_acquired add locks($1, $2) of $0->name
after on_lock_acquired set stats.acquired = $0->stats->acquired, stats.errors = $0->stats->errors, \
depth = $0->inner.depth, result = $ret
on entry on_lock_released remove locks($lock) of $0->name
";

fn sees_arguments_and_fields(options: &[&str]) {
    let Some(program) = compile("gcc", options, "locks.c") else { return };
    let mut puppet = Puppet::start(&program, &["--name", "alice"]);
    puppet.say("shared 1");
    let mut attached = attach(plan(PROBES, &of(&[&puppet])));
    puppet.say("exclusive 9");
    puppet.say("shared 4");
    puppet.say("release 9");
    let state = r#"{alice: {depth: 2, locks: {4 -> "SHARED"}, result: 4, stats: {acquired: 3, errors: 3}}}"#;
    until(&mut attached, |states| states == state);
    let totals = attached.leave();
    assert_eq!((totals.hits, totals.records, totals.lost, totals.unreadable), (5, 5, 0, 0));
    // It goes on as if nothing had been.
    puppet.say("exclusive 5");
    assert!(puppet.end());
}

#[test]
fn optimised() {
    if allowed() {
        sees_arguments_and_fields(&["-O2", "-g"]);
    }
}

#[test]
fn not_optimised() {
    if allowed() {
        sees_arguments_and_fields(&["-O0", "-g"]);
    }
}

#[test]
fn with_older_debug_information_and_landings() {
    if allowed() {
        sees_arguments_and_fields(&["-O1", "-gdwarf-4", "-fcf-protection=full", "-static"]);
    }
}

#[test]
fn without_debug_information_words_and_offsets_are_given_by_hand() {
    if !allowed() {
        return;
    }
    let Some(program) = compile("gcc", &["-O2"], "locks.c") else { return };
    let mut puppet = Puppet::start(&program, &["--name", "alice"]);
    let probes = "node is arg --name\n\
                  after on_lock_acquired add locks($1, $2:u32) of $0[16]:cstr\n\
                  after on_lock_acquired set acquired = $0[24][0]:u32, result = $ret:i32";
    let mut attached = attach(plan(probes, &of(&[&puppet])));
    puppet.say("exclusive 9");
    let state = "{alice: {acquired: 1, locks: {9 -> 1}, result: -9}}";
    until(&mut attached, |states| states == state);
}

#[test]
fn a_recursive_function_returns_once_for_each_call() {
    if !allowed() {
        return;
    }
    let Some(program) = compile("gcc", &["-O1", "-g"], "locks.c") else { return };
    let mut puppet = Puppet::start(&program, &[]);
    let mut attached = attach(plan("after deep add calls($n, $ret)", &of(&[&puppet])));
    puppet.say("deep 200");
    until(&mut attached, |states| states.contains("200 ->"));
    let totals = attached.leave();
    assert_eq!((totals.hits, totals.records, totals.unpaired), (201, 201, 0));
}

#[test]
fn a_function_that_is_hit_too_often_is_shed_and_then_left_alone() {
    if !allowed() {
        return;
    }
    let Some(program) = compile("gcc", &["-O2", "-g"], "locks.c") else { return };
    let mut puppet = Puppet::start(&program, &[]);
    let told = Told::default();
    let options = everhold_attach::Options { report: told.report(), ..Default::default() };
    let plan = plan("budget 1000\non entry busy set round = $round", &of(&[&puppet]));
    let mut attached = everhold_attach::Attached::start(plan, options).unwrap();
    puppet.ask("busy 100000000");
    until(&mut attached, |_| told.lines().iter().any(|line| line.contains("was taken out")));
    // Without the breakpoint it soon ends: a hundred million calls are less than a second.
    puppet.answer();
    let totals = attached.leave();
    assert!(totals.shed > 1_000 && totals.records < totals.hits, "{totals:?}");
    assert_eq!(totals.hits, totals.records + totals.shed + totals.lost, "{totals:?}");
    let lines = told.lines();
    assert!(
        lines.iter().any(|line| line.contains("shed, over the budget of 1000 a second")),
        "{lines:?}"
    );
}

#[test]
fn a_condition_is_asked_in_the_kernel() {
    if !allowed() {
        return;
    }
    let Some(program) = compile("gcc", &["-O2", "-g"], "locks.c") else { return };
    let mut puppet = Puppet::start(&program, &[]);
    let probes =
        "node is arg --name\non entry busy set round = $round where $round >= 90 and $round != 99";
    let mut puppet_named = Puppet::start(&program, &["--name", "bob"]);
    let mut attached = attach(plan(probes, &of(&[&puppet_named])));
    puppet_named.say("busy 100");
    puppet.say("busy 100");
    until(&mut attached, |states| states == "{bob: {round: 98}}");
    let totals = attached.leave();
    assert_eq!((totals.hits, totals.records), (100, 9));
}

#[test]
fn what_cannot_be_resolved_is_explained() {
    let Some(program) = compile("gcc", &["-O2", "-g"], "locks.c") else { return };
    let problem = |line: &str| {
        let targets = Targets { programs: vec![program.clone()], ..Targets::default() };
        let plan = plan(line, &targets);
        let texts: Vec<String> = plan.problems().map(|(_, problem)| problem.text.clone()).collect();
        assert_eq!(texts.len(), 1, "{}", plan.describe());
        texts.into_iter().next().unwrap()
    };
    let check = |line: &str, part: &str| {
        let text = problem(line);
        assert!(text.contains(part), "{text}");
    };
    check("on entry tiny step x", "the compiler inlined it at 1 sites");
    check("on entry no_such step x", "has no function no_such");
    check("on entry deep set x = $5", "deep has 2 parameters, counted from $0");
    check("on entry deep set x = $m", "deep has the parameters self, n");
    check("on entry deep set x = $0->nodeid", "client has the fields padding, node_id");
    check("on entry on_lock_acquired set x = $0->stats->acquired->more", "has no fields");
}

#[test]
fn a_stripped_program_needs_its_symbols() {
    let Some(program) = compile("gcc", &["-O2", "-s"], "locks.c") else { return };
    let targets = Targets { programs: vec![program], ..Targets::default() };
    let plan = plan("on entry deep step x", &targets);
    let text = plan.describe();
    assert!(text.contains("debug symbols"), "{text}");
}

/// A jump out of a function that depends on a condition is a return only when it is taken, and a part of the
/// function that is elsewhere is a part of it.
#[test]
fn every_call_returns_once_by_whichever_way() {
    if !allowed() {
        return;
    }
    let Some(program) = compile("gcc", &["-O2"], "locks.c") else { return };
    let mut puppet = Puppet::start(&program, &[]);
    let plan = plan("after leaps set n = $0:i64, result = $ret:u32", &of(&[&puppet]));
    let text = plan.describe();
    // To its ends, to another function and to its other part: two returns and two jumps.
    assert_eq!(text.matches("seen at").count(), 4, "{text}");
    assert!(text.contains("jump to another function at 2 sites"), "{text}");
    let mut attached = attach(plan);
    puppet.say("leap 30");
    until(&mut attached, |states| states.contains("n: 29"));
    let totals = attached.leave();
    assert_eq!((totals.hits, totals.records, totals.unpaired), (35, 35, 0));
}

/// Runs a program of the binary utilities on a file.
fn changed(program: &str, options: &[&str], file: &Path) -> bool {
    match Command::new(program).args(options).arg(file).output() {
        Err(error) => left_out(&format!("{program}: {error}")),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            output.status.success() || left_out(&format!("{program}: {said}"))
        }
    }
}

#[test]
fn compressed_debug_information_is_read() {
    for format in ["zlib", "zstd"] {
        let Some(program) = compile("gcc", &["-O2", "-g"], "locks.c") else { return };
        let option = format!("--compress-debug-sections={format}");
        if !changed("objcopy", &[&option], &program) {
            continue;
        }
        let targets = Targets { programs: vec![program], ..Targets::default() };
        let plan = plan("on entry deep set n = $n", &targets);
        assert_eq!(plan.problems().count(), 0, "{format}: {}", plan.describe());
    }
}

/// Debug information beside the program is taken if it was made with the program, and refused otherwise.
#[test]
fn debug_information_of_another_build_is_refused() {
    for build_id in ["-Wl,--build-id", "-Wl,--build-id=none"] {
        let build = |more: &str| compile("gcc", &["-O2", "-g", build_id, more], "locks.c");
        let (Some(program), Some(other)) = (build("-DONE"), build("-O1")) else { return };
        let debug = |of: &Path, to: &Path| {
            fs::copy(of, to).unwrap();
            changed("objcopy", &["--only-keep-debug"], to)
        };
        let beside = program.with_extension("debug");
        let link = format!("--add-gnu-debuglink={}", beside.display());
        if !debug(&program, &beside) || !changed("strip", &[], &program) {
            return;
        }
        assert!(changed("objcopy", &[&link], &program));
        let describe = || {
            let targets = Targets { programs: vec![program.clone()], ..Targets::default() };
            plan("on entry deep set n = $n", &targets).describe()
        };
        let text = describe();
        assert!(
            text.contains("debug information in") && !text.contains("cannot be used"),
            "{text}"
        );
        assert!(debug(&other, &beside));
        let text = describe();
        assert!(
            text.contains("was made for another build") && text.contains("cannot be used"),
            "{text}"
        );
    }
}

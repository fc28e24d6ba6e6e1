//! Failures come back: from a token, from a file, in another process. If they do not, the report
//! says so.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use everhold_node::{Cx, Node, NodeId};
use everhold_sim::{Cause, Explorer, Schedule, SimVerdict, Stop, System};
use serde::Serialize;

use crate::place::{Place, text};
use crate::toys::{Log, Msg, Sender, funnel};

const BROKEN: &str = "EVERHOLD_TEST_BROKEN";

/// The test that the others run in processes of their own. On its own it does nothing.
#[test]
fn child() {
    let Ok(broken) = std::env::var(BROKEN) else { return };
    let build = funnel(4);
    Explorer::new()
        .executions(500)
        .run(move |system| {
            build(system);
            let broken = broken == "yes";
            system.always("3 is not first", move |s| {
                !broken || s.all::<Log>().all(|(_, log)| log.received.first() != Some(&3))
            });
        })
        .assert_holds();
}

fn run(place: &Place, broken: bool, environment: &[(&str, &str)]) -> Output {
    let broken = (BROKEN, if broken { "yes" } else { "no" });
    place.run("replay::child", &[&[broken], environment].concat())
}

fn place(name: &str) -> Place {
    Place::new(name, file!())
}

fn token_in(printed: &str) -> String {
    let start = printed.find("EVERHOLD_REPLAY=eh1-").expect("a replay line is printed");
    let rest = &printed[start + "EVERHOLD_REPLAY=".len()..];
    rest.split_whitespace().next().expect("the token ends").to_owned()
}

#[test]
fn a_printed_token_replays_and_is_kept() {
    let place = place("token");
    let failed = run(&place, true, &[]);
    let printed = text(&failed);
    assert!(!failed.status.success(), "{printed}");
    assert!(printed.contains("always \"3 is not first\" violated"), "{printed}");
    let token = token_in(&printed);

    let ids = place.ids();
    assert!(ids.len() == 1 && ids[0].starts_with("replay--child-"), "{ids:?}");
    let digits = ids[0].rsplit('-').next().expect("it ends in digits");
    for id in [ids[0].as_str(), digits] {
        let again = text(&run(&place, true, &[("EVERHOLD_REPLAY", id)]));
        assert!(again.contains("replayed one schedule"), "{id}: {again}");
    }
    assert!(printed.contains("cargo test replay::child -- --exact"), "{printed}");
    assert!(printed.contains("tests/it/replay.rs:"), "the panic is at the test: {printed}");

    let again = text(&run(&place, true, &[("EVERHOLD_REPLAY", &token)]));
    assert!(again.contains("replay") && again.contains("3 is not first"), "{again}");
    assert!(again.contains("1 executions") || again.contains("1 execution"), "{again}");

    let kept = fs::read_to_string(place.regressions()).expect("the schedule was kept");
    assert!(kept.contains(&format!("replay::child {token}")), "{kept}");
    let first = text(&run(&place, true, &[]));
    assert!(first.contains("a saved schedule"), "it runs first: {first}");
    let page = fs::read_to_string(&place.pages()[0]).expect("a page was written");
    assert!(page.contains("shrunk 1 → 1 step ("), "it is still told how it was found");
    let fixed = run(&place, false, &[]);
    assert!(fixed.status.success(), "{}", text(&fixed));
}

#[test]
fn a_damaged_regressions_file_is_reported_and_kept() {
    let place = place("damaged");
    let file = place.regressions();
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let damaged = b"replay::child eh1-AAAA # cut off\nreplay::child\n\xff\xfe noise\nother eh1-x\n";
    fs::write(&file, damaged).unwrap();
    let output = run(&place, false, &[]);
    let printed = text(&output);
    assert!(output.status.success(), "the other work is kept: {printed}");
    assert!(printed.contains("replay.txt:1: the schedule token is damaged"), "{printed}");
    assert!(printed.contains("replay.txt:2: a token is missing"), "{printed}");
    assert_eq!(fs::read(&file).unwrap(), damaged, "nothing is lost");
}

#[test]
fn impossible_options_are_refused_with_a_remedy() {
    let place = place("options");
    for (variable, value, says) in [
        ("EVERHOLD_SECONDS", "soon", "EVERHOLD_SECONDS=soon is not a whole number"),
        ("EVERHOLD_WORKERS", "0", "a budget of no workers explores nothing"),
        ("EVERHOLD_REPLAY", "eh1-zzzz", "the schedule token is damaged"),
        ("EVERHOLD_REPLAY", "abcd", "is not a token (they begin with `eh1-` or `eh1t-`)"),
    ] {
        let output = run(&place, false, &[(variable, value)]);
        let printed = text(&output);
        assert!(!output.status.success(), "{variable}={value}: {printed}");
        assert!(printed.contains(says), "{variable}={value}: {printed}");
    }
}

/// Explicit settings take precedence over the environment: the child asks for 500.
#[test]
fn explicit_options_win() {
    let place = place("explicit");
    let printed = text(&run(&place, false, &[("EVERHOLD_EXECUTIONS", "7")]));
    assert!(printed.contains("500 executions"), "{printed}");
}

#[test]
fn a_full_disk_is_said_and_not_fatal() {
    let place = place("full");
    // A file where the folder should be: writing fails as it does on a full disk.
    let folder = place.regressions();
    fs::write(folder.parent().unwrap(), "").unwrap();
    let printed = text(&run(&place, true, &[]));
    assert!(printed.contains("Not kept"), "{printed}");
    assert!(printed.contains("EVERHOLD_REPLAY=eh1-"), "the token is still printed: {printed}");
    assert!(Path::new(folder.parent().unwrap()).is_file());
}

#[test]
fn a_schedule_that_does_not_fit_says_where() {
    let report = Explorer::new().executions(500).run(|system: &mut System<Msg>| {
        let log = system.node("log", Log::default());
        system.node("sender", Sender { to: vec![(log, 1), (log, 2)] });
        system.always("2 is not first", |s| {
            s.all::<Log>().all(|(_, log)| log.received.first() != Some(&2))
        });
    });
    let schedule = report.finding().expect("2 can be first").schedule.clone();
    let report = Explorer::new().replay(schedule).run(|system: &mut System<Msg>| {
        let log = system.node("log", Log::default());
        system.node("sender", Sender { to: vec![(log, 1)] });
        system.node("unused", Log::default());
    });
    // The second message does not exist any more; the first one is taken instead.
    assert!(report.findings.is_empty());
    assert!(matches!(report.verdict(), SimVerdict::Unknown | SimVerdict::Diverged));

    let report = Explorer::new()
        .replay(Schedule { seed: 1, choices: vec![everhold_sim::Choice::Restart(NodeId(0))] })
        .run(funnel(1));
    assert_eq!(report.verdict(), SimVerdict::Diverged, "{report}");
    assert!(
        matches!(&report.stop, Stop::Replayed { skipped: Some(what) } if what.contains("restart n0"))
    );
}

/// Counts in memory that all executions share: not a function of the schedule.
#[test]
fn hidden_state_is_found_out() {
    static SHARED: AtomicU32 = AtomicU32::new(0);
    #[derive(Clone, Serialize)]
    struct Leaky {
        count: u32,
    }
    impl Node for Leaky {
        type Msg = Msg;
        fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
            self.count = SHARED.fetch_add(1, Ordering::Relaxed);
            if self.count.is_multiple_of(7) && msg < 10 {
                let me = cx.id();
                cx.send(me, msg + 1);
            }
        }
    }
    let report = Explorer::new().executions(2_000).run(|system: &mut System<Msg>| {
        let leaky = system.node("leaky", Leaky { count: 0 });
        system.node("sender", Sender { to: vec![(leaky, 0), (leaky, 1)] });
    });
    assert_eq!(report.verdict(), SimVerdict::Diverged, "{report}");
    let finding = report.finding().expect("it is found out");
    assert_eq!(finding.failure.cause, Cause::Nondeterminism);
    assert!(finding.failure.message.contains("step 1"), "{report}");
}

/// A handler that never returns is named, and the search ends.
#[test]
fn a_handler_that_does_not_return_is_named() {
    #[derive(Clone, Serialize)]
    struct Endless;
    impl Node for Endless {
        type Msg = Msg;
        fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, msg: Msg) {
            if msg == 3 {
                loop {
                    std::thread::park_timeout(Duration::from_millis(50));
                }
            }
        }
    }
    let patience = Duration::from_millis(400);
    let explorer = Explorer::new().executions(1_000).patience(patience);
    let report = explorer.run(|system: &mut System<Msg>| {
        let endless = system.node("endless", Endless);
        system.node("sender", Sender { to: vec![(endless, 1), (endless, 2), (endless, 3)] });
    });
    let finding = report.finding().expect("3 arrives");
    assert_eq!(finding.failure.cause, Cause::Stuck("endless".to_owned()), "{report}");
    assert!(finding.failure.message.contains("did not return"), "{report}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the default budget is in wall time")]
fn a_budget_of_time_is_kept() {
    let before = std::time::Instant::now();
    let report = Explorer::new().time(Duration::from_millis(300)).run(funnel(4));
    assert!(before.elapsed() < Duration::from_secs(20), "it ends");
    assert_eq!(report.stop, Stop::Time(Duration::from_millis(300)));
    assert_eq!(report.verdict(), SimVerdict::Unknown);
}

#[test]
fn several_causes_are_found_in_one_search() {
    let build = funnel(3);
    let report = Explorer::new().executions(2_000).findings(3).run(move |system| {
        build(system);
        for first in 0..3 {
            system.always(&format!("{first} is not first"), move |s| {
                s.all::<Log>().all(|(_, log)| log.received.first() != Some(&first))
            });
        }
    });
    let mut causes: Vec<_> = report.findings.iter().map(|f| f.failure.cause.name()).collect();
    causes.sort_unstable();
    assert_eq!(causes, ["0 is not first", "1 is not first", "2 is not first"]);
}

/// After an edit that sends less, the message that a token names does not exist: if nothing fails
/// with the oldest of its sort in its place, the newest is tried.
#[test]
fn a_message_that_is_gone_is_replaced_by_the_oldest_or_the_newest() {
    let build = |count: Msg, wrong: Msg| {
        move |system: &mut System<Msg>| {
            let log = system.node("log", Log::default());
            system.node("sender", Sender { to: (0..count).map(|number| (log, number)).collect() });
            system.always("the wrong one is not first", move |s| {
                s.all::<Log>().all(|(_, log)| log.received.first() != Some(&wrong))
            });
        }
    };
    let report = Explorer::new().regressions(false).run(build(4, 3));
    let schedule = report.finding().expect("the last can be first").schedule.clone();
    let cases = [(4, 3, true), (3, 0, true), (3, 2, true), (3, 1, false)];
    for (count, wrong, fails) in cases {
        let replay = Explorer::new().regressions(false).replay(schedule.clone());
        let report = replay.run(build(count, wrong));
        assert_eq!(report.finding().is_some(), fails, "{count}, {wrong}: {report}");
    }
}

//! The timers behind sleeps: their names, and that one is never mistaken for another.

use std::time::Duration;

use everhold_node::AsyncCx;
use everhold_sim::{Choice, Explorer, Schedule, SimVerdict, System};
use everhold_timed::{Durations, Net, Timed};
use serde::Serialize;

type Msg = u32;

const LENGTH: Duration = Duration::from_millis(46);

#[derive(Clone, Serialize)]
struct Done(bool);

/// Three rounds of a retry loop, a race that leaves a sleep behind, and a sleep that is over long
/// before it is dropped.
async fn sleeper(cx: AsyncCx<Msg>) {
    let began = cx.now();
    cx.observe(Done(false));
    let millis = Duration::from_millis;
    for _ in 0..3 {
        let _ = cx.timeout(millis(5), cx.recv()).await;
    }
    cx.race(cx.sleep(millis(5)), cx.sleep(millis(7))).await;
    cx.sleep(millis(20)).await;
    let mut over = cx.sleep(millis(1));
    (&mut over).await;
    let mut next = cx.sleep(millis(5));
    cx.race(&mut next, cx.sleep(millis(1))).await;
    drop(over);
    next.await;
    cx.observe(Done(true));
    let length = cx.now().0 - began.0;
    cx.check(false, "the end is not reached", || format!("after {length} ns"));
}

fn system(system: &mut System<Msg>) {
    system.spawn("sleeper", sleeper);
}

fn timers<'a>(schedule: &'a mut Schedule) -> Vec<&'a mut String> {
    let timer = |choice: &'a mut Choice| match choice {
        Choice::Timer { timer, .. } => Some(timer),
        _ => None,
    };
    schedule.choices.iter_mut().filter_map(timer).collect()
}

/// A regression test: the number of a sleep used to count all sleeps and calls so far.
#[test]
fn the_sleep_of_a_loop_has_one_name() {
    let report = Explorer::new().regressions(false).run(system);
    let finding = report.finding().expect("the end is reached");
    let length = format!("after {} ns", LENGTH.as_nanos());
    assert!(finding.failure.to_string().contains(&length), "{report}");
    let mut schedule = finding.original.clone();
    let names: Vec<String> = timers(&mut schedule).into_iter().map(|name| name.clone()).collect();
    let expected = ["sleep", "sleep", "sleep", "sleep", "sleep", "sleep", "sleep#2", "sleep#1"];
    assert_eq!(names, expected);
    for (number, name) in timers(&mut schedule).into_iter().enumerate() {
        *name = format!("sleep#{}", 2 * number + 1);
    }
    let old = Schedule::parse(&schedule.token()).expect("a token can be read");
    let again = Explorer::new().regressions(false).replay(old).run(system);
    assert_eq!(again.verdict(), SimVerdict::Violated, "old names still replay: {again}");
}

#[test]
fn sleeps_with_one_name_are_exact_on_a_virtual_clock() {
    let timed = Timed::new(system)
        .network(Net::ideal(Duration::from_millis(1)))
        .durations(Durations::none())
        .unchecked()
        .stop_when_each(|done: &Done| done.0);
    assert_eq!(timed.run(1).time, LENGTH);
}

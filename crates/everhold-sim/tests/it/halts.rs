//! Handlers that do not return, or do too much, and checkers that give up: which of them are
//! violations, and which are only mentioned.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use everhold_node::{AsyncCx, Cx, Node, NodeId};
use everhold_sim::history::{Linearizable, Model};
use everhold_sim::{Cause, Explorer, Reduction, Report, Search, SimVerdict, Stop, System};
use everhold_trace::Value;
use serde::Serialize;

use crate::place::{Place, text};
use crate::toys::{Log, Msg, Sender};

/// Does something without end when it is asked to.
#[derive(Clone, Serialize)]
struct Endless {
    what: What,
}

#[derive(Clone, Copy, PartialEq, Serialize)]
enum What {
    Send,
    SetTimers,
    Choose,
    Spawn,
    /// A thousand messages to itself for each that arrives.
    Multiply,
}

impl Node for Endless {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        if self.what == What::Spawn {
            cx.spawn("endless", self.clone());
        }
    }
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, _: Msg) {
        let me = cx.id();
        match self.what {
            What::Send => loop {
                cx.send(me, 1);
            },
            What::SetTimers => loop {
                cx.set_timer("again", Duration::from_millis(1));
            },
            What::Choose => loop {
                cx.choose("side", 2);
            },
            What::Multiply => (0..1_000).for_each(|_| cx.send(me, 1)),
            What::Spawn => {}
        }
    }
}

async fn endless_program(cx: AsyncCx<Msg>) {
    let me = cx.id();
    let _ = cx.recv().await;
    loop {
        cx.send(me, 1);
    }
}

fn explore(setup: impl Fn(&mut System<Msg>) + Send + Sync + 'static) -> Report {
    let explorer = Explorer::new().executions(20).shrink_time(Duration::from_millis(300));
    explorer.run(setup)
}

#[track_caller]
fn check_flood(report: &Report, says: &[&str]) {
    let finding = report.finding().unwrap_or_else(|| panic!("nothing was found: {report}"));
    assert_eq!(finding.failure.cause, Cause::Flood("endless".to_owned()), "{report}");
    for says in says {
        assert!(finding.failure.message.contains(says), "{says}: {report}");
    }
    let again = report.to_string();
    assert!(again.contains("Replay"), "{again}");
    assert!(finding.trace().events().iter().all(|event| event.sends.len() <= 1_000));
}

/// A handler that does something without end is stopped inside its loop, and named.
#[test]
fn a_handler_that_goes_on_for_ever_is_stopped() {
    let cases: &[(What, &[&str])] = &[
        (What::Send, &["endless did more than 65536 things in one step (step "]),
        (What::SetTimers, &["endless did more than 65536 things in one step (step "]),
        (What::Choose, &["endless did more than 65536 things in one step (step "]),
        (What::Spawn, &["added a node when there were 10000 already (step 0)"]),
        (What::Multiply, &["endless sent when 250001 messages were under way already"]),
    ];
    for (what, says) in cases {
        let what = *what;
        let report = explore(move |system| {
            let endless = system.node("endless", Endless { what });
            system.node("sender", Sender { to: vec![(endless, 1)] });
        });
        check_flood(&report, says);
    }
}

/// Answers each message: with one of twice the length, or with many of the same.
#[derive(Clone, Serialize)]
struct Swelling {
    peer: Option<NodeId>,
    answers: usize,
    grows: bool,
}

impl Node for Swelling {
    type Msg = Vec<u8>;
    fn start(&mut self, cx: &mut Cx<Vec<u8>>) {
        if let Some(peer) = self.peer {
            cx.send(peer, vec![1; 16 << 10]);
        }
    }
    fn message(&mut self, cx: &mut Cx<Vec<u8>>, from: NodeId, mut msg: Vec<u8>) {
        // Without a bound the machine would not have the memory for this test.
        assert!(msg.len() <= 1 << 30, "it was not stopped");
        if self.grows {
            msg.resize(2 * msg.len(), 1);
        }
        (0..self.answers).for_each(|_| cx.send(from, msg.clone()));
    }
}

/// Data to which messages point counts: one that grows at every hop, and large ones that pile up, end the
/// execution before memory does.
#[test]
fn messages_that_swell_are_stopped() {
    for (answers, grows, says) in [
        (1, true, "sent a message of 256 MiB (step "),
        (100_000, false, "sent messages under way of "),
    ] {
        let explorer = Explorer::new().executions(2).workers(1).shrink_time(Duration::ZERO);
        let report = explorer.run(move |system: &mut System<Vec<u8>>| {
            let first = Swelling { peer: None, answers, grows };
            let peer = Some(system.node("swelling", first.clone()));
            system.node("swelling", Swelling { peer, ..first });
        });
        let finding = report.finding().expect("it is a flood");
        assert_eq!(finding.failure.cause, Cause::Flood("swelling".to_owned()), "{says}");
        assert!(finding.failure.message.contains(says), "{}", finding.failure.message);
    }
}

/// Keeps the last message, whatever its size.
#[derive(Clone, Default, Serialize)]
struct Keeper {
    peer: Option<NodeId>,
    last: Vec<u8>,
}

impl Node for Keeper {
    type Msg = Vec<u8>;
    fn start(&mut self, cx: &mut Cx<Vec<u8>>) {
        let Some(peer) = self.peer else { return };
        for bytes in [16, 2 << 20] {
            cx.send(peer, vec![7; bytes]);
        }
    }
    fn message(&mut self, _: &mut Cx<Vec<u8>>, _: NodeId, msg: Vec<u8>) {
        self.last = msg;
    }
}

/// A large message and a large state are legal. They are left out where an execution is shown, which
/// is told, and everything else is there.
#[test]
fn what_is_large_is_left_out_of_the_record() {
    let report = Explorer::new().executions(50).run(|system: &mut System<Vec<u8>>| {
        let keeper = system.node("keeper", Keeper::default());
        system.node("sender", Keeper { peer: Some(keeper), ..Keeper::default() });
        system.always("nothing large comes", move |s| {
            s.get::<Keeper>(keeper).is_none_or(|keeper| keeper.last.len() < 1 << 20)
        });
    });
    let finding = report.finding().expect("it comes");
    assert_eq!(finding.failure.message, "keeper = (2097157 bytes)");
    let problems = &finding.recording.problems;
    assert!(problems.iter().any(|problem| problem.contains("are left out")), "{problems:?}");
    let sent = &finding.recording.steps[0].sends;
    let payloads: Vec<bool> = sent.iter().map(|s| s.payload == Value::Null).collect();
    assert_eq!(payloads, [false, true], "only the large one is left out");
    assert!(finding.picture().contains("2097156 bytes"), "{}", finding.picture());
    let sends: usize = finding.trace().events().iter().map(|event| event.sends.len()).sum();
    assert_eq!(sends, 2);
}

/// The bound on the time for shrinking is kept, also with tens of thousands of choices, and wherever in
/// shrinking it is reached.
#[test]
fn shrinking_a_flood_of_choices_ends() {
    for bound in [0, 25, 50, 100, 200].map(Duration::from_millis) {
        let explorer = Explorer::new().shrink_time(bound).regressions(false);
        let report = explorer.run(|system: &mut System<Msg>| {
            let endless = system.node("endless", Endless { what: What::Choose });
            system.node("sender", Sender { to: vec![(endless, 1)] });
        });
        let shrunk = report.finding().expect("it is a flood").shrunk;
        assert!(shrunk.time < Duration::from_secs(20), "{bound:?}: {shrunk:?}");
    }
}

#[test]
fn a_task_that_sends_for_ever_is_stopped() {
    let report = explore(|system| {
        let endless = system.spawn("endless", endless_program);
        system.node("sender", Sender { to: vec![(endless, 1)] });
    });
    check_flood(&report, &["endless did more than 65536 things in one step (step "]);
}

/// A panic in a property is the property's, whichever node moved last.
#[test]
fn a_panic_in_a_property_names_the_property() {
    for form in ["always", "sometimes", "eventually"] {
        let report = explore(move |system| {
            let log = system.node("log", Log::default());
            system.node("sender", Sender { to: vec![(log, 1)] });
            let first = |log: &Log| log.received.first().copied();
            let holds = move |s: &everhold_sim::View<'_, Msg>| {
                let heard = s.get::<Log>(log).and_then(first);
                assert!(heard.is_none(), "one is too many");
                true
            };
            system.always("something that holds", |_| true);
            match form {
                "always" => system.always("the careless one", holds),
                "sometimes" => system.sometimes("the careless one", move |s| !holds(s)),
                _ => system.eventually("the careless one", move |s| !holds(s)),
            };
        });
        let finding = report.finding().expect("it panics");
        assert!(matches!(finding.failure.cause, Cause::Panic(_)), "{report}");
        let says = "in the property \"the careless one\": one is too many";
        assert!(finding.failure.message.contains(says), "{form}: {report}");
    }
}

#[derive(Clone, Default, Serialize)]
struct Counter(u32);

impl Model for Counter {
    type Op = ();
    type Ret = u32;
    fn apply(&mut self, (): &()) -> u32 {
        self.0 += 1;
        self.0
    }
}

/// Calls, and gets an answer when a message arrives.
#[derive(Clone, Serialize)]
struct Caller;

impl Node for Caller {
    type Msg = Msg;
    fn start(&mut self, cx: &mut Cx<Msg>) {
        let me = cx.id();
        cx.notify(Counter::invoked(me, ()));
        cx.send(me, 1);
    }
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, _: Msg) {
        let me = cx.id();
        cx.notify(Counter::returned(me, 3));
    }
}

fn callers(system: &mut System<Msg>) {
    for _ in 0..6 {
        system.node("caller", Caller);
    }
    let monitor = Linearizable::new(Counter::default()).configurations_max(2);
    system.monitor("the counter is atomic", monitor);
}

/// A checker that gives up is neither a pass nor a violation.
#[test]
fn the_bound_of_a_checker_is_unknown() {
    let report = Explorer::new().executions(20).run(callers);
    assert!(report.findings.is_empty(), "{report}");
    assert_eq!(report.undecided, 20, "{report}");
    assert_eq!(report.verdict(), SimVerdict::Unknown);
    let said = report.to_string();
    assert!(
        said.contains("not judged 20 executions") && said.contains("configurations_max"),
        "{said}"
    );
    assert!(said.contains("monitor \"the counter is atomic\""), "{said}");

    let search = Search::Exhaustive { reduction: Reduction::None };
    let report = Explorer::new().search(search).run(callers);
    assert!(report.findings.is_empty(), "{report}");
    assert!(matches!(report.stop, Stop::Undecided { .. }), "{report}");
    assert_eq!(report.verdict(), SimVerdict::Unknown);
}

const PATIENCE: Duration = Duration::from_secs(1);

/// Blocks at its first message until it has heard another one, in whatever execution.
#[derive(Clone, Serialize)]
struct Starved;

static HEARD: AtomicU32 = AtomicU32::new(0);

impl Node for Starved {
    type Msg = Msg;
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {
        if HEARD.fetch_add(1, Ordering::Relaxed) == 0 {
            while HEARD.load(Ordering::Relaxed) < 2 {
                std::thread::park_timeout(Duration::from_millis(5));
            }
        }
    }
}

/// That a worker stands still for long decides nothing: its execution returns when it is run again,
/// so the search goes on and says that it was slow.
#[test]
fn a_slow_execution_is_told_and_the_search_goes_on() {
    let report = Explorer::new().executions(50).workers(1).patience(PATIENCE).run(
        |system: &mut System<Msg>| {
            let starved = system.node("starved", Starved);
            system.node("sender", Sender { to: vec![(starved, 1)] });
        },
    );
    assert!(report.findings.is_empty(), "{report}");
    assert_eq!((report.slow, report.executions), (1, 50), "{report}");
    assert!(report.to_string().contains("slow         1 execution"), "{report}");
}

/// Works for 60 ms of processor time at each message; for no time where the system does not tell.
#[derive(Clone, Serialize)]
struct Worker;

impl Node for Worker {
    type Msg = Msg;
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {
        let worked = || -> Option<u64> {
            let account = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
            account.split_whitespace().next()?.parse().ok()
        };
        let Some(from) = worked() else { return };
        while worked().is_some_and(|now| now < from + 60_000_000) {
            std::hint::spin_loop();
        }
    }
}

/// Where all processors are busy with something else, a handler may take much longer than the
/// patience, in the search and when it is run again: that is no violation. Twelve threads for each
/// processor leave it a few percent of one, so 60 ms of work take more than half a second.
#[test]
fn a_busy_machine_is_no_violation() {
    let over = AtomicBool::new(false);
    let report = std::thread::scope(|scope| {
        let processors = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        for _ in 0..12 * processors {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let explorer = Explorer::new().executions(1).workers(1).regressions(false);
        let report = explorer.patience(Duration::from_millis(200)).run(|system| {
            let worker = system.node("worker", Worker);
            system.node("sender", Sender { to: vec![(worker, 1)] });
        });
        over.store(true, Ordering::Relaxed);
        report
    });
    assert!(report.findings.is_empty(), "{report}");
}

/// Blocks for ever, but only where it is called first.
#[derive(Clone, Serialize)]
struct BlockedOnce;

impl Node for BlockedOnce {
    type Msg = Msg;
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {
        static CALLS: AtomicU32 = AtomicU32::new(0);
        if CALLS.fetch_add(1, Ordering::Relaxed) == 0 {
            loop {
                std::thread::park_timeout(Duration::from_secs(1));
            }
        }
    }
}

/// A handler that hangs in the search and never again is not a violation, and not a pass either.
#[test]
fn a_handler_that_hangs_only_once_stops_the_search_without_a_verdict() {
    let explorer = Explorer::new().executions(50).workers(1).patience(Duration::from_millis(300));
    let report = explorer.run(|system: &mut System<Msg>| {
        let blocked = system.node("blocked", BlockedOnce);
        system.node("sender", Sender { to: vec![(blocked, 1)] });
    });
    assert!(report.findings.is_empty(), "{report}");
    assert_eq!(report.stop, Stop::Stalled { execution: 0 }, "{report}");
    assert_eq!(report.verdict(), SimVerdict::Unknown);
}

/// Hangs when 3 comes before 2, so that guided executions meet it as well.
#[derive(Clone, Default, Serialize)]
struct Picky {
    last: Msg,
}

impl Node for Picky {
    type Msg = Msg;
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        if msg == 2 && self.last == 3 {
            loop {
                std::thread::park_timeout(Duration::from_millis(50));
            }
        }
        self.last = msg;
    }
}

#[test]
fn a_handler_that_hangs_again_is_named_with_its_schedule() {
    for search in [Search::Portfolio, Search::Guided, Search::Random] {
        let explorer = Explorer::new().executions(2_000).patience(PATIENCE).search(search.clone());
        let report = explorer.run(|system: &mut System<Msg>| {
            let picky = system.node("picky", Picky::default());
            system.node("sender", Sender { to: (1..=4).map(|msg| (picky, msg)).collect() });
        });
        let finding = report.finding().expect("3 can come before 2");
        assert_eq!(finding.failure.cause, Cause::Stuck("picky".to_owned()), "{search}: {report}");
        assert!(finding.failure.message.contains("run again alone"), "{search}: {report}");
        assert!(finding.schedule.choices.len() >= 2, "{search}: {report}");
    }
}

/// An exhaustive search comes to the hang as well, and says what led to it.
#[test]
fn a_handler_that_hangs_in_an_exhaustive_search_is_named_with_its_schedule() {
    for reduction in [Reduction::None, Reduction::Orders, Reduction::States] {
        let search = Search::Exhaustive { reduction };
        let explorer = Explorer::new().search(search).patience(Duration::from_millis(300));
        let report = explorer.run(|system: &mut System<Msg>| {
            let picky = system.node("picky", Picky::default());
            system.node("sender", Sender { to: (1..=4).map(|msg| (picky, msg)).collect() });
        });
        let finding = report.finding().expect("3 can come before 2");
        assert_eq!(finding.failure.cause, Cause::Stuck("picky".to_owned()), "{report}");
        assert!(finding.schedule.choices.len() >= 2, "{report}");
        assert!(finding.failure.message.contains("picky did not return"), "{report}");
    }
}

/// Hangs as it starts.
#[derive(Clone, Serialize)]
struct Sleeper;

impl Sleeper {
    fn sleep() {
        loop {
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }
}

impl Node for Sleeper {
    type Msg = Msg;
    fn start(&mut self, _: &mut Cx<Msg>) {
        Sleeper::sleep();
    }
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {}
}

/// Adds a node when it hears something.
#[derive(Clone, Serialize)]
struct Parent;

impl Node for Parent {
    type Msg = Msg;
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, _: Msg) {
        cx.spawn("sleeper", Sleeper);
    }
}

/// The start of a node is a handler too, and a node that is added is not its parent.
#[test]
fn a_start_that_hangs_is_named() {
    let setups: [fn(&mut System<Msg>); 2] = [
        |system| {
            system.node("log", Log::default());
            system.node("sleeper", Sleeper);
        },
        |system| {
            let parent = system.node("parent", Parent);
            system.node("sender", Sender { to: vec![(parent, 1)] });
        },
    ];
    for (setup, name) in setups.into_iter().zip(["sleeper", "sleeper-0"]) {
        let explorer = Explorer::new().executions(5).patience(Duration::from_millis(300));
        let report = explorer.run(setup);
        let finding = report.finding().expect("it hangs always");
        assert_eq!(finding.failure.cause, Cause::Stuck("sleeper".to_owned()), "{report}");
        let says = format!("{name} did not return from its handler");
        assert!(finding.failure.message.contains(&says), "{report}");
    }
}

/// A property that does not return is the property's mistake, whichever node moved last.
#[test]
fn a_property_that_hangs_is_named() {
    for search in [Search::Portfolio, Search::Exhaustive { reduction: Reduction::States }] {
        let explorer = Explorer::new().executions(20).patience(Duration::from_millis(300));
        let report = explorer.search(search).run(|system: &mut System<Msg>| {
            let log = system.node("log", Log::default());
            system.node("sender", Sender { to: vec![(log, 1), (log, 2)] });
            system.always("something that holds", |_| true);
            system.always("the endless one", move |s| {
                if s.get::<Log>(log).is_some_and(|log| log.received.len() == 2) {
                    Sleeper::sleep();
                }
                true
            });
        });
        let finding = report.finding().expect("both messages arrive");
        let cause = Cause::StuckProperty("the endless one".to_owned());
        assert_eq!(finding.failure.cause, cause, "{report}");
        let says = "the property \"the endless one\" did not return";
        assert!(finding.failure.message.contains(says), "{report}");
        assert!(finding.schedule.choices.len() >= 2, "{report}");
    }
}

/// Set when a violation has been seen.
static VIOLATED: AtomicBool = AtomicBool::new(false);

/// Fails when 3 comes after two others. Once that has been seen, it hangs when 3 comes after one, as
/// it does when the execution is made small.
#[derive(Clone, Default, Serialize)]
struct Trap {
    heard: u32,
    failed: bool,
}

impl Node for Trap {
    type Msg = Msg;
    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        if msg == 3 && self.heard == 1 && VIOLATED.load(Ordering::Relaxed) {
            Sleeper::sleep();
        }
        self.failed |= msg == 3 && self.heard == 2;
        self.heard += 1;
    }
}

/// A handler that hangs while a finding is shrunk costs the rest of the shrinking, not the finding.
#[test]
fn a_hang_while_shrinking_loses_no_finding() {
    let explorer = Explorer::new().workers(1).search(Search::Random);
    let report = explorer.patience(Duration::from_millis(300)).run(|system: &mut System<Msg>| {
        let trap = system.node("trap", Trap::default());
        system.node("sender", Sender { to: (1..=5).map(|msg| (trap, msg)).collect() });
        system.always("3 is not third", move |s| {
            let holds = s.get::<Trap>(trap).is_none_or(|trap| !trap.failed);
            VIOLATED.fetch_or(!holds, Ordering::Relaxed);
            holds
        });
    });
    let finding = report.finding().expect("3 can be third");
    assert_eq!(finding.failure.cause, Cause::Always("3 is not third".to_owned()), "{report}");
    assert!(finding.schedule.choices.len() >= 3, "{report}");
    assert!(!finding.recording.steps.is_empty(), "it is shown: {report}");
    let says = "shrinking ended early: in another execution trap did not return from its handler";
    let problems = &finding.recording.problems;
    assert!(problems.iter().any(|problem| problem.contains(says)), "{problems:?}");
}

/// The test that the next one runs in processes of its own.
#[test]
fn hangs_in_a_child() {
    if std::env::var("EVERHOLD_TEST_HANGS").is_err() {
        return;
    }
    let explorer = Explorer::new().executions(200).patience(Duration::from_millis(300));
    let report = explorer.run(|system: &mut System<Msg>| {
        let picky = system.node("picky", Picky::default());
        system.node("sender", Sender { to: (1..=4).map(|msg| (picky, msg)).collect() });
    });
    report.assert_holds();
}

/// The schedule of a hang is kept like any other. The test that runs it first, and the one that
/// replays it, come to an end with the same finding.
#[test]
fn a_kept_schedule_that_hangs_is_a_finding_again() {
    let place = Place::new("hangs", file!());
    let run = |environment: &[(&str, &str)]| {
        let environment = [&[("EVERHOLD_TEST_HANGS", "yes")], environment].concat();
        text(&place.run("halts::hangs_in_a_child", &environment))
    };
    let first = run(&[]);
    assert!(first.contains("  Keep       "), "{first}");
    let id = place.ids().pop().expect("a finding");
    let told: [(&str, &[(&str, &str)]); 2] =
        [("a saved schedule", &[]), ("replayed one schedule", &[("EVERHOLD_REPLAY", &id)])];
    for (told, environment) in told {
        let again = run(environment);
        assert!(again.contains("picky did not return from its handler"), "{again}");
        assert!(again.contains(told), "{told}: {again}");
    }
    assert_eq!(place.ids().len(), 1, "it is the same finding");
}

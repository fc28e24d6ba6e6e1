//! Facilities that other crates define: a runtime trait, a source of random numbers, a wire format.
//! Each runs under a strategy and on a virtual clock.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use everhold_node::task::{Sleep, Timeout};
use everhold_node::{AsyncCx, Choices, Codec, Cx, Elapsed, Encoded, Node, NodeId};
use everhold_sim::{Explorer, System};
use everhold_timed::{Link, Net, Timed};
use serde::Serialize;

/// A runtime trait as other crates define it: static functions, owned futures, results of tasks,
/// one-shot channels. The shape is that of openraft's `AsyncRuntime` without `Send`.
trait AsyncRuntime {
    type JoinHandle<T: 'static>: Future<Output = T> + 'static;
    type Sleep: Future<Output = ()> + 'static;
    type Timeout<F: Future + 'static>: Future<Output = Result<F::Output, Elapsed>> + 'static;
    fn spawn<T: 'static>(task: impl Future<Output = T> + 'static) -> Self::JoinHandle<T>;
    fn sleep(after: Duration) -> Self::Sleep;
    fn timeout<F: Future + 'static>(after: Duration, future: F) -> Self::Timeout<F>;
    fn oneshot<T: 'static>() -> (OnceSender<T>, OnceReceiver<T>);
}

/// The implementation of the trait on Everhold.
struct Everhold;

type Msg = Encoded<Wire>;

impl AsyncRuntime for Everhold {
    type JoinHandle<T: 'static> = OnceReceiver<T>;
    type Sleep = Sleep<Msg>;
    type Timeout<F: Future + 'static> = Timeout<F, Msg>;

    fn spawn<T: 'static>(task: impl Future<Output = T> + 'static) -> OnceReceiver<T> {
        let (sender, receiver) = Self::oneshot();
        AsyncCx::<Msg>::current().spawn(async move { sender.send(task.await) });
        receiver
    }
    fn sleep(after: Duration) -> Sleep<Msg> {
        AsyncCx::current().sleep(after)
    }
    fn timeout<F: Future + 'static>(after: Duration, future: F) -> Timeout<F, Msg> {
        AsyncCx::current().timeout(after, future)
    }
    fn oneshot<T: 'static>() -> (OnceSender<T>, OnceReceiver<T>) {
        let slot = Rc::new(RefCell::new((None, None)));
        (OnceSender(Rc::clone(&slot)), OnceReceiver(slot))
    }
}

type Slot<T> = Rc<RefCell<(Option<T>, Option<Waker>)>>;
struct OnceSender<T>(Slot<T>);
struct OnceReceiver<T>(Slot<T>);

impl<T> OnceSender<T> {
    fn send(self, value: T) {
        let mut slot = self.0.borrow_mut();
        slot.0 = Some(value);
        if let Some(waker) = slot.1.take() {
            waker.wake();
        }
    }
}

impl<T> Future for OnceReceiver<T> {
    type Output = T;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let mut slot = self.0.borrow_mut();
        slot.1 = Some(cx.waker().clone());
        slot.0.take().map_or(Poll::Pending, Poll::Ready)
    }
}

/// A library that is independent of Everhold: it asks until there is an answer, at most three
/// times, and counts in a task of its own.
async fn ask_again<R: AsyncRuntime, F: Future<Output = u8> + 'static>(
    ask: impl Fn() -> F,
) -> Result<u8, u32> {
    let mut tries = 0;
    while tries < 3 {
        tries = R::spawn(async move { tries + 1 }).await;
        if let Ok(answer) = R::timeout(Duration::from_millis(50), ask()).await {
            return Ok(answer);
        }
        R::sleep(Duration::from_millis(10)).await;
    }
    Err(tries)
}

/// The wire format: a byte for the kind, a byte for the content.
struct Wire;

#[derive(Debug, PartialEq, Serialize)]
enum Shown {
    Ask(u8),
    Answer { value: u8 },
}

impl Codec for Wire {
    type Shown = Shown;
    fn decode(bytes: &[u8]) -> Option<Shown> {
        match bytes {
            [1, value] => Some(Shown::Ask(*value)),
            [2, value] => Some(Shown::Answer { value: *value }),
            _ => None,
        }
    }
}

/// Answers requests with the next number.
#[derive(Clone, Default, Serialize)]
struct Server {
    asked: BTreeSet<u8>,
}

impl Node for Server {
    type Msg = Msg;
    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        match msg.decode() {
            Some(Shown::Ask(value)) => {
                self.asked.insert(value);
                cx.reply(vec![2, value + 1].into());
            }
            _ => cx.unexpected(msg),
        }
    }
}

#[derive(Clone, Default, Serialize)]
struct Outcome {
    answer: Option<u8>,
    gave_up: bool,
}

fn system(system: &mut System<Msg>) {
    let server = system.node("server", Server::default());
    system.spawn("client", move |cx| async move {
        let ask = move || {
            let call = AsyncCx::<Msg>::current().call(server, vec![1, 7].into());
            async move { call.await[1] }
        };
        let outcome = match ask_again::<Everhold, _>(ask).await {
            Ok(answer) => Outcome { answer: Some(answer), gave_up: false },
            Err(_) => Outcome { answer: None, gave_up: true },
        };
        cx.observe(outcome);
    });
}

fn is_done(outcome: &Outcome) -> bool {
    outcome.answer.is_some() || outcome.gave_up
}

#[test]
fn a_crates_runtime_is_explored() {
    let explorer = || Explorer::new().executions(300).regressions(false);
    let report = explorer().run(|s| {
        system(s);
        s.always("answers are right", |view| {
            view.all::<Outcome>().all(|(_, outcome)| outcome.answer.is_none_or(|it| it == 8))
        });
        s.eventually("it ends", |view| view.all::<Outcome>().any(|(_, it)| is_done(it)));
        s.sometimes("it is answered", |view| {
            view.all::<Outcome>().any(|(_, it)| it.answer.is_some())
        });
    });
    assert!(report.findings.is_empty(), "{report}");
    assert_eq!(report.missed_goals().count(), 0, "{report}");
    // Timers fire when the strategy decides, so all three tries may be given up.
    let report = explorer().run(|s| {
        system(s);
        s.always("it never gives up", |view| view.all::<Outcome>().all(|(_, it)| !it.gave_up));
    });
    let finding = report.finding().expect("three timeouts in a row");
    let again = explorer().replay(finding.schedule.clone()).run(|s| {
        system(s);
        s.always("it never gives up", |view| view.all::<Outcome>().all(|(_, it)| !it.gave_up));
    });
    assert!(again.finding().is_some(), "{again}");
}

fn timed() -> Timed<Msg> {
    Timed::new(system).stop_when(|view| view.all::<Outcome>().any(|(_, it)| is_done(it)))
}

#[test]
fn a_crates_runtime_runs_on_a_virtual_clock() {
    let quick = timed().sim().run(1);
    assert!(quick.is_done() && quick.time < Duration::from_millis(50), "{quick}");
    // Every message is lost: three timeouts of 50 ms, 10 ms after each, and the durations of
    // handlers.
    let lost = timed().network(Net::default().link(Link::default().loss(1.0)));
    let slow = lost.sim().run(1);
    assert!(slow.is_done() && slow.time >= Duration::from_millis(180), "{slow}");
    assert!(slow.time < Duration::from_millis(300), "{slow}");
}

/// Bytes are decoded in diagrams, traces, coverage, properties and recordings.
#[test]
fn bytes_are_shown_decoded() {
    let report = Explorer::new().executions(300).regressions(false).run(|s| {
        system(s);
        s.always("nobody asks", |view| view.all::<Server>().all(|(_, it)| it.asked.is_empty()));
    });
    let finding = report.finding().expect("somebody asks");
    assert!(finding.picture().contains("Ask"), "{}", finding.picture());
    let trace = format!("{:?}", finding.trace());
    assert!(trace.contains("Ask"), "{trace}");
    let clean = Explorer::new().executions(300).regressions(false).run(system);
    let pairs = format!("{:?}", clean.coverage.pairs);
    assert!(pairs.contains("Ask"), "{pairs}");
    let recorded = timed().sim().record(everhold_timed::Draws::seed(1));
    let kinds: Vec<&str> = recorded.messages.iter().map(|sent| recorded.kind(sent.kind)).collect();
    assert_eq!(kinds, ["Ask", "Answer"]);
    // Two bytes, and four for their length.
    assert!(recorded.messages.iter().all(|sent| sent.bytes == 6), "{:?}", recorded.messages);
    assert_eq!(format!("{:?}", Msg::from(vec![2, 9])), "Answer({value: 9})");
}

#[test]
fn a_message_that_cannot_be_read_is_told() {
    let report = Explorer::new().executions(10).regressions(false).run(|s: &mut System<Msg>| {
        let server = s.node("server", Server::default());
        s.spawn("noise", move |cx| async move { cx.send(server, vec![77].into()) });
    });
    let finding = report.finding().expect("the server does not expect it");
    assert!(finding.failure.message.contains("Undecodable"), "{}", finding.failure.message);
}

#[derive(Clone, Default, Serialize)]
struct Drawn {
    seeded: Vec<u64>,
    chosen: Option<u64>,
}

fn drawing(system: &mut System<Msg>) {
    system.spawn("drawer", |cx| async move {
        let mut rng = cx.rng();
        let seeded = vec![rng.next_u64(), rng.next_u64()];
        let mut choices = Choices::new(|domain| cx.choose("timeout", domain));
        let chosen = (u64::from(choices.next_u32()) * 150) >> 32;
        cx.observe(Drawn { seeded, chosen: Some(chosen) });
    });
}

/// Seeded numbers can be replayed; choices are explored, and shrink towards zero.
#[test]
fn random_sources_replay_and_choices_are_explored() {
    let property = |system: &mut System<Msg>| {
        drawing(system);
        system.always("the timeout is short", |view| {
            view.all::<Drawn>().all(|(_, it)| it.chosen.is_none_or(|chosen| chosen < 140))
        });
    };
    let report = Explorer::new().executions(200).regressions(false).run(property);
    let finding = report.finding().expect("one of eight numbers is that long");
    let again = Explorer::new().regressions(false).replay(finding.schedule.clone()).run(property);
    let states = |report: &everhold_sim::Report| {
        format!("{:?}", report.finding().expect("it fails again").recording.initial)
    };
    assert_eq!(states(&report), states(&again));
    let timed =
        || Timed::new(drawing).stop_when(|v| v.all::<Drawn>().any(|(_, it)| it.chosen.is_some()));
    let trace = |seed| format!("{:?}", timed().sim().trace(everhold_timed::Draws::seed(seed)));
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1), trace(2), "another seed draws other numbers");
}

#[test]
fn outside_of_a_node_there_is_no_context() {
    assert!(AsyncCx::<Msg>::try_current().is_none());
    let refused = std::panic::catch_unwind(AsyncCx::<Msg>::current).expect_err("no task is polled");
    let message = refused.downcast_ref::<String>().expect("a text");
    assert!(message.contains("no task of an async node is being polled"), "{message}");
    // Inside a node with another message type, the panic message says so.
    let report = Explorer::new().executions(1).regressions(false).run(|s: &mut System<u32>| {
        s.spawn("other", |_| async { drop(AsyncCx::<Msg>::current()) });
    });
    let finding = report.finding().expect("it panics");
    assert!(finding.failure.message.contains("other messages"), "{}", finding.failure.message);
}

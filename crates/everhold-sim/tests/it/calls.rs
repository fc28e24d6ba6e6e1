//! The message that answers a call: the reply of the node that was called, to this very request.

use std::time::Duration;

use everhold_node::{AsyncCx, NodeId, Ticket};
use everhold_sim::{Cause, Explorer, Faults, Report, System};
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
enum Msg {
    Double(u32),
    Answer(u32),
    /// Another node is to answer.
    Delegate(Ticket),
}

#[derive(Serialize)]
struct Done(u32);

/// 2,000 executions of a few steps: a wrong answer is possible in a good part of them.
#[track_caller]
fn check(setup: impl Fn(&mut System<Msg>) + Send + Sync + 'static) {
    let report = explore(setup);
    assert!(report.findings.is_empty(), "{report}");
    assert_eq!(report.missed_goals().count(), 0, "{report}");
}

fn explore(setup: impl Fn(&mut System<Msg>) + Send + Sync + 'static) -> Report {
    Explorer::new().executions(2_000).steps(200).run(setup)
}

async fn double(cx: &AsyncCx<Msg>, server: NodeId, number: u32) {
    match cx.call(server, Msg::Double(number)).await {
        Msg::Answer(answer) => assert_eq!(answer, 2 * number, "the answer to another request"),
        other => panic!("{other:?} is no answer"),
    }
}

async fn serve(cx: AsyncCx<Msg>) {
    loop {
        let request = cx.recv().await;
        if let Msg::Double(number) = request.msg {
            cx.reply(&request, Msg::Answer(2 * number));
        }
    }
}

#[test]
fn a_request_of_the_callee_is_no_answer() {
    check(|system| {
        let (client, server) = (NodeId(0), NodeId(1));
        system.spawn("client", move |cx| async move {
            double(&cx, server, 1).await;
            cx.observe(Done(1));
            serve(cx).await;
        });
        system.spawn("server", move |cx| async move {
            let asking = cx.clone();
            cx.spawn(async move { double(&asking, client, 10).await });
            serve(cx).await;
        });
        system.sometimes("the client is answered", |s| s.all::<Done>().count() == 1);
    });
}

#[test]
fn a_plain_message_of_the_callee_is_no_answer() {
    check(|system| {
        let (client, server) = (NodeId(0), NodeId(1));
        system.spawn("client", move |cx| async move {
            double(&cx, server, 1).await;
            let greeting = cx.recv().await;
            assert!(matches!(greeting.msg, Msg::Double(7)));
            cx.observe(Done(1));
        });
        system.spawn("server", move |cx| async move {
            cx.send(client, Msg::Double(7));
            serve(cx).await;
        });
        system.sometimes("both arrive", |s| s.all::<Done>().count() == 1);
    });
}

/// Asks for another number in every life.
async fn forgetful(cx: AsyncCx<Msg>, server: NodeId) {
    let life: u32 = cx.disk(|disk| disk.load("life").expect("it is whole")).unwrap_or(0) + 1;
    cx.disk(|disk| {
        disk.save("life", &life);
        disk.sync();
    });
    double(&cx, server, life).await;
    cx.observe(Done(life));
}

#[test]
fn an_answer_from_before_a_crash_is_dropped() {
    check(|system| {
        let server = system.spawn("server", serve);
        system.spawn("client", move |cx| forgetful(cx, server));
        system.faults(Faults::none().crash(2).only(["client"]));
        system.sometimes("the third life is answered", |s| {
            s.all::<Done>().any(|(_, done)| done.0 == 3)
        });
    });
}

#[test]
fn an_answer_of_another_node_is_dropped() {
    let report = explore(|system| {
        let (server, delegate) = (NodeId(0), NodeId(1));
        system.spawn("server", move |cx| async move {
            let request = cx.recv().await;
            cx.send(delegate, Msg::Delegate(request.ticket()));
        });
        system.spawn("delegate", |cx| async move {
            if let Msg::Delegate(ticket) = cx.recv().await.msg {
                cx.answer(ticket, Msg::Answer(2));
            }
        });
        system.spawn("client", move |cx| async move { double(&cx, server, 1).await });
    });
    let finding = report.finding().expect("the call is never answered");
    assert_eq!(finding.failure.cause, Cause::Deadlock("client".to_owned()), "{report}");
    assert!(finding.failure.message.contains("an answer is a `reply`"), "{report}");
}

/// The reply arrives, and before the caller looks, it gives up: `recv` does not see the reply.
#[test]
fn a_reply_that_nobody_took_is_no_message() {
    check(|system| {
        let server = system.spawn("server", serve);
        let client = system.spawn("client", move |cx| async move {
            let call = cx.call(server, Msg::Double(1));
            let _ = cx.timeout(Duration::from_millis(1), call).await;
            let next = cx.recv().await;
            assert!(matches!(next.msg, Msg::Double(_)), "{next:?}");
            cx.observe(Done(1));
        });
        system.spawn("asker", move |cx| async move { cx.send(client, Msg::Double(3)) });
        system.sometimes("the request arrives", |s| s.all::<Done>().count() == 1);
    });
}

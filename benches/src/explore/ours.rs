//! Ping-pong as Everhold nodes.

use everhold::System;
use everhold::node::Message;
use everhold::prelude::*;

use crate::explore::ping_pong::Shape;
use crate::measure::Work;

#[derive(Clone, Debug, Serialize)]
enum Msg {
    Ping(u32),
    Pong(u32),
}

#[derive(Clone, Serialize)]
struct Pinger {
    peer: NodeId,
    rounds: u32,
}

impl Node for Pinger {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.send(self.peer, Msg::Ping(1));
    }

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        match msg {
            Msg::Pong(round) if round < self.rounds => cx.send(self.peer, Msg::Ping(round + 1)),
            Msg::Pong(_) => {}
            Msg::Ping(_) => cx.unexpected(msg),
        }
    }
}

#[derive(Clone, Serialize)]
struct Ponger;

impl Node for Ponger {
    type Msg = Msg;

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Ping(round) => cx.send(from, Msg::Pong(round)),
            Msg::Pong(_) => cx.unexpected(msg),
        }
    }
}

/// Nodes with handlers.
pub(super) fn handlers(shape: Shape, search: Search, executions: u64) -> Work {
    let report = explore(search, executions, move |system| add_pairs(system, shape));
    deliveries(shape, &report)
}

/// The same while a fault is still possible. The second delivery of a duplicated message starts a
/// second exchange, so the rate counts steps.
pub(super) fn faulty(shape: Shape, search: Search, executions: u64) -> Work {
    let report = explore(search, executions, move |system| {
        add_pairs(system, shape);
        system.faults(Faults::none().duplicate(1));
    });
    Work { executions, units: report.steps, steps: report.steps }
}

fn add_pairs(system: &mut System<Msg>, shape: Shape) {
    for _ in 0..shape.pairs() {
        let peer = system.node("ponger", Ponger);
        system.node("pinger", Pinger { peer, rounds: shape.rounds });
    }
}

/// Async nodes.
pub(super) fn programs(shape: Shape, search: Search, executions: u64) -> Work {
    let rounds = shape.rounds;
    let report = explore(search, executions, move |system: &mut System<u32>| {
        for _ in 0..shape.pairs() {
            let peer = system.spawn("ponger", move |cx| async move {
                for _ in 0..rounds {
                    let ping = cx.recv().await;
                    cx.send(ping.from, ping.msg);
                }
            });
            system.spawn("pinger", move |cx| async move {
                for round in 0..rounds {
                    cx.send(peer, round);
                    cx.recv().await;
                }
            });
        }
    });
    deliveries(shape, &report)
}

fn explore<M: Message>(
    search: Search,
    executions: u64,
    setup: impl Fn(&mut System<M>) + Send + Sync + 'static,
) -> Report {
    let explorer = Explorer::new().workers(1).regressions(false).search(search);
    let report = explorer.executions(executions).steps(u32::MAX).run(setup);
    assert!(report.findings.is_empty(), "ping-pong has no bug: {report}");
    assert_eq!(report.executions, executions, "the whole budget is used");
    report
}

fn deliveries(shape: Shape, report: &Report) -> Work {
    let Report { executions, steps, .. } = *report;
    let units = executions * shape.messages();
    assert!(steps >= units, "every message is delivered in a step of its own");
    Work { executions, units, steps }
}

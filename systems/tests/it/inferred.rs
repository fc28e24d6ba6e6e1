//! Properties inferred from executions of the case studies: the claims of Dinv's table 2.

use everhold::System;
use everhold::node::Message;
use everhold::prelude::*;
use everhold_infer::{Always, Settings, always};
use everhold_property::{Property, print};
use everhold_systems::{kademlia, shards, swim};

/// Infers from some executions.
fn infer<M: Message>(
    executions: u64,
    steps: u32,
    setup: impl Fn(&mut System<M>) + Send + Sync + 'static,
) -> Always {
    let explorer = Explorer::new().search(Search::Random).executions(executions).steps(steps);
    let report = explorer.traces(executions).regressions(false).run(setup);
    let traces: Vec<_> = report.traces.iter().collect();
    let found = always(&traces, &Settings::default());
    found.lines.iter().for_each(|line| println!("{} {}", line.distinct, claim(&line.property)));
    found
}

/// The scope and the claim of a property, without its name and on one line.
fn claim(property: &Property) -> String {
    let text = print(property).replacen(&format!("{:?}", property.name), "", 1);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The position of a claim in the list, from 1.
fn rank(found: &Always, wanted: &str) -> Option<usize> {
    found.lines.iter().position(|line| claim(&line.property) == wanted).map(|place| place + 1)
}

/// Whether a claim held, shown or hidden.
fn held(found: &Always, wanted: &str) -> bool {
    rank(found, wanted).is_some() || found.hidden.iter().any(|h| claim(&h.property) == wanted)
}

/// Checks that the claims are among the lines.
#[track_caller]
fn check(found: &Always, wanted: &[&str]) {
    for wanted in wanted {
        let lines: Vec<_> = found.lines.iter().map(|line| claim(&line.property)).collect();
        let reason = found.hidden.iter().find(|hidden| claim(&hidden.property) == *wanted);
        let reason =
            reason.map_or("it does not hold".to_owned(), |hidden| hidden.reason.to_string());
        assert!(rank(found, wanted).is_some(), "{wanted}\n({reason})\n{}", lines.join("\n"));
    }
}

const ONE_OWNER: &str = "always : forall a, b in nodes where a != b: a.owned disjoint from b.owned";

#[test]
fn key_ownership() {
    check(&infer(60, 200, shards::environment(shards::Bug::None)), &[ONE_OWNER]);
    assert!(!held(&infer(60, 200, shards::environment(shards::Bug::TakesTwice)), ONE_OWNER));
}

/// Safra's invariant: the sum of all nodes' counters is the number of messages with work in flight.
/// The token is a message too, but is not counted.
#[test]
fn work_in_flight() {
    use everhold_systems::termination::{Bug, environment};
    let found = infer(40, 120, environment(Bug::None));
    check(&found, &["always : sum(n in nodes: n.counter) == in_flight(\"Work\")"]);
}

const TOLD: &str = "always on delivery: sender.events subsequence of receiver.events";

#[test]
fn eventual_consistency() {
    let along_chains = "always along chains: forall a, b in nodes where a != b: \
                        len(a.events) == len(b.events) implies a.events == b.events";
    let found = infer(30, 120, swim::environment(4, swim::Bug::None));
    check(&found, &[TOLD, along_chains]);
    let briefly = infer(30, 120, swim::environment(4, swim::Bug::AnswersBriefly));
    assert!(!held(&briefly, TOLD));
}

const SAME_NODE: &str = "always : forall a, b in nodes, xk -> xv in a.nearest, \
                         yk -> yv in b.nearest where a != b: xk == yk implies xv == yv";

#[test]
fn minimal_distance() {
    check(&infer(60, 400, kademlia::environment(kademlia::Bug::None)), &[SAME_NODE]);
    assert!(!held(&infer(60, 400, kademlia::environment(kademlia::Bug::StopsEarly)), SAME_NODE));
}

/// A leader has every entry that a node of its term knows to be committed. It does not follow that
/// the logs of its voters are prefixes of its own: a crash may leave a voter with entries that no
/// other node has, which fewer executions than these do not show.
#[cfg(feature = "raft")]
#[test]
fn raft() {
    use everhold_systems::raft::{Bug, system};
    let faults = Faults::none().crash(1).lose(2);
    let found = infer(600, 150, system(3, Bug::None, faults));
    let pair = "forall a, b in raft nodes where a != b:";
    // As Dinv found it, on deliveries; at every cut it holds as well, but is not among the first
    // lines: lengths and commits that only grow are weighed carefully.
    let strong_leadership = "always on delivery: kind(sender) == \"raft\" and kind(receiver) == \"raft\" \
                             and receiver.role == \"Leader\" implies sender.commit <= len(receiver.log)";
    let log_matching =
        format!("always : {pair} a.commit == b.commit implies a.applied == b.applied");
    let leader_agreement = format!(
        "always : {pair} a.role == \"Leader\" and a.term == b.term implies b.role != \"Leader\""
    );
    check(&found, &[strong_leadership, &log_matching, &leader_agreement]);
}

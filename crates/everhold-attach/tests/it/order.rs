//! Happens-before from the numbers of TCP, compared with vector clocks that travel in the messages.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use everhold_attach::{Attached, Options};
use everhold_live::recording::merge;
use everhold_trace::{EventKind, Execution, MessageId, NodeId};

use crate::support::{Puppet, Told, allowed, compile, folder, of, plan, until};

/// The nodes of the gossip, and the ports that a test takes.
const NODES: usize = 3;
const EVENTS: u64 = 3_000;

/// Consecutive ports that are free just now.
fn ports() -> u16 {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let Some(last) = first.checked_add(NODES as u16) else { continue };
        if (first..last).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return first;
        }
    }
}

/// The clocks that the nodes wrote: of each node, the clock at each of its events.
fn truth(path: &std::path::Path) -> Vec<Vec<u64>> {
    let text = fs::read_to_string(path).unwrap();
    let clock = |line: &str| -> Vec<u64> {
        let inside = line.split(['[', ']']).nth(1).unwrap();
        inside.split(", ").map(|count| count.parse().unwrap()).collect()
    };
    text.lines().map(clock).collect()
}

/// The clocks that follow from the recording: of each node, the clock at each of its events.
fn observed(execution: &Execution) -> Vec<Vec<Vec<u64>>> {
    let index = |node: NodeId| -> usize { execution.node(node).name[1..].parse().unwrap() };
    let mut clocks = vec![vec![0_u64; NODES]; NODES];
    let mut sent: BTreeMap<MessageId, Vec<u64>> = BTreeMap::new();
    let mut found = vec![Vec::new(); NODES];
    for event in execution.events() {
        let own = index(event.node);
        match &event.kind {
            EventKind::Deliver { message } => {
                let theirs = sent.get(message).expect("what arrives was sent before");
                for (count, other) in clocks[own].iter_mut().zip(theirs) {
                    *count = (*count).max(*other);
                }
            }
            EventKind::Local { name } if name == "local_event" => {
                clocks[own][own] += 1;
                let clock = clocks[own].clone();
                found[own].push(clock);
            }
            _ => {}
        }
        for send in &event.sends {
            sent.insert(MessageId { sender: event.node, seq: send.seq }, clocks[own].clone());
        }
    }
    found
}

#[test]
fn no_edge_between_processes_is_missing() {
    if !allowed() {
        return;
    }
    let Some(program) = compile("rustc", &["-O", "-g", "--edition", "2021"], "gossip.rs") else {
        return;
    };
    let (port, logs, record) = (ports().to_string(), folder(), folder());
    let log = |node: usize| logs.join(format!("n{node}"));
    let (count, events) = (NODES.to_string(), EVENTS.to_string());
    let start = |node: usize| {
        let (own, name, log) = (node.to_string(), format!("n{node}"), log(node));
        let log = log.to_str().unwrap();
        Puppet::start(&program, &[&own, &count, &port, &events, log, "--name", &name])
    };
    let mut nodes: Vec<Puppet> = (0..NODES).map(start).collect();
    nodes.iter_mut().for_each(|node| assert_eq!(node.answer(), "listening\n"));
    nodes.iter_mut().for_each(|node| node.ask("connect"));
    nodes.iter_mut().for_each(|node| assert_eq!(node.answer(), "connected\n"));
    // It is attached in the middle of the connections.
    let probes = "node is arg --name\nbudget 1000000\non entry local_event set count = $count";
    let plan = plan(probes, &of(&nodes.iter().collect::<Vec<_>>()));
    let options = Options { order: true, record: Some(record.clone()), ..Options::default() };
    let mut attached = Attached::start(plan, options).unwrap();
    nodes.iter_mut().for_each(|node| node.ask("go"));
    let waiting = thread::spawn(move || {
        nodes.iter_mut().for_each(|node| assert_eq!(node.answer(), "done\n"));
        nodes
    });
    while !waiting.is_finished() {
        attached.turn();
        thread::sleep(Duration::from_millis(2));
    }
    let nodes = waiting.join().unwrap();
    let totals = attached.leave();
    drop(nodes);
    assert_eq!(
        (totals.lost, totals.shed, totals.hits),
        (0, 0, NODES as u64 * EVENTS),
        "{totals:?}"
    );
    compare(&observed(&merge([&record]).unwrap().executions[0]), &|node| truth(&log(node)));
}

/// Checks that every event comes after all that the clocks in the messages say. An observer below the
/// program may say more: the kernel had received what the program had not read yet.
fn compare(observed: &[Vec<Vec<u64>>], truth: &dyn Fn(usize) -> Vec<Vec<u64>>) {
    let (mut same, mut all) = (0, 0);
    for (node, clocks) in observed.iter().enumerate() {
        let truth = truth(node);
        assert_eq!(clocks.len(), truth.len());
        for (event, (seen, said)) in clocks.iter().zip(&truth).enumerate() {
            let missing = seen.iter().zip(said).any(|(seen, said)| seen < said);
            assert!(!missing, "event {event} of {node}: {seen:?}, but the messages say {said:?}");
            same += usize::from(seen == said);
            all += 1;
        }
    }
    // Without the messages hardly any event would have the clock that the messages say.
    assert!(same * 2 > all, "{same} of {all} events have the same clock");
    eprintln!("{all} events, {same} of them with the very clock of the messages, none with less");
}

/// Two processes show two nodes each, by the stores in them. Which node a message belongs to is known by
/// the thread, and where the thread says nothing, there is no edge.
#[test]
fn messages_belong_to_the_node_of_their_thread() {
    if !allowed() {
        return;
    }
    let Some(program) = compile("rustc", &["-O", "-g", "--edition", "2021"], "stores.rs") else {
        return;
    };
    let (port, record) = (ports(), folder());
    let start = |role: &str| Puppet::start(&program, &[role, &(port - 1).to_string()]);
    let mut both = [start("receive"), start("send")];
    both.iter_mut().for_each(|puppet| assert_eq!(puppet.answer(), "ready\n"));
    let probes = "on entry stored set value = $value of $store";
    let plan = plan(probes, &of(&both.iter().collect::<Vec<_>>()));
    let told = Told::default();
    let options = Options {
        order: true,
        record: Some(record.clone()),
        report: told.report(),
        ..Options::default()
    };
    let mut attached = Attached::start(plan, options).unwrap();
    both.iter_mut().for_each(|puppet| puppet.ask("go"));
    until(&mut attached, |states| states.matches("value: 9").count() == 4);
    both.iter_mut().for_each(|puppet| assert_eq!(puppet.answer(), "done\n"));
    let totals = attached.leave();
    assert_eq!((totals.hits, totals.lost, totals.nodes), (40, 0, 4), "{totals:?}");
    let lines = told.lines();
    assert_eq!(lines.iter().filter(|line| line.contains("no part of the order")).count(), 1);
    // The threads of no store: at least ten sends and ten receives of each of both.
    assert!(totals.unassigned >= 40 && totals.unread <= 4, "{totals:?}");
    let whole = merge([&record]).unwrap();
    let execution = &whole.executions[0];
    let name = |node: NodeId| execution.node(node).name.clone();
    let mut names: Vec<String> = execution.nodes().iter().map(|node| node.name.clone()).collect();
    names.sort();
    assert_eq!(names, ["1", "11", "12", "2"]);
    let mut edges: BTreeMap<(String, String), u32> = BTreeMap::new();
    for event in execution.events() {
        if let EventKind::Deliver { message } = &event.kind {
            *edges.entry((name(message.sender), name(event.node))).or_default() += 1;
        }
    }
    let pairs: Vec<_> = edges.keys().map(|(from, to)| (from.as_str(), to.as_str())).collect();
    assert_eq!(pairs, [("1", "11"), ("11", "1"), ("12", "2"), ("2", "12")]);
    // A receiver that has not shown its node yet has no receive event; the recording then leaves out
    // the send of that message as well.
    let sends = execution.events().iter().map(|event| event.sends.len()).sum::<usize>();
    assert_eq!(sends as u32, edges.values().sum::<u32>());
}

//! From the events of a recording to the choices that repeat them.

use std::collections::BTreeMap;

use everhold_node::{Message, NodeId, fingerprint};
use everhold_trace::{Event, EventKind, Execution, MessageId as Recorded, Value};

use super::outside::Outside;
use super::{BadRecording, CLIENTS, Decode};
use crate::fault::{Fault, MessageName};
use crate::record::NodeRecord;
use crate::report::text::count;
use crate::schedule::{Choice, Schedule};
use crate::system::System;

/// The choices to repeat, and the additions to the system that they need.
pub(super) struct Plan {
    pub(super) schedule: Schedule,
    /// The event that each choice comes from.
    pub(super) origins: Vec<usize>,
    /// The first event that cannot be repeated, and the reason.
    pub(super) gap: Option<(usize, String)>,
    /// The messages of each client: the receiver and the bytes.
    clients: Vec<Vec<(NodeId, Vec<u8>)>>,
    /// The kinds of the nodes that crashed, one for each crash.
    crashed: Vec<String>,
}

/// The nodes and messages of a recording, with the numbers that the system gives them.
struct Reading<'a> {
    recording: &'a Execution,
    /// The number of each node: its own if it was hosted, otherwise one after those of the system.
    numbers: Vec<NodeId>,
    /// Every message that nodes sent: its number among those of its sender, and its sort.
    sent: BTreeMap<Recorded, (u32, &'a str)>,
    members: u32,
    plan: Plan,
}

impl Plan {
    pub(super) fn read<M: Message>(
        recording: &Execution,
        names: &[NodeRecord],
        decode: Decode<M>,
    ) -> Result<Plan, BadRecording> {
        let seed = match recording.notes().get("seed") {
            Some(Value::Int(seed)) => *seed as u64,
            _ => 0,
        };
        let schedule = Schedule { seed, choices: Vec::new() };
        let (origins, clients, crashed) = (Vec::new(), Vec::new(), Vec::new());
        let plan = Plan { schedule, origins, gap: None, clients, crashed };
        let mut reading = Reading {
            recording,
            numbers: Vec::new(),
            sent: BTreeMap::new(),
            members: names.len() as u32,
            plan,
        };
        reading.number_nodes(names)?;
        reading.count_messages();
        reading.begin(names);
        for (index, event) in recording.events().iter().enumerate() {
            if event.kind != EventKind::Start {
                reading.event(index, event, decode);
            }
        }
        Ok(reading.plan)
    }

    /// Adds the parts that the setup lacks to the system: clients, and enough crashes.
    pub(super) fn complete<M: Message>(&self, system: &mut System<M>, decode: Decode<M>) {
        for said in &self.clients {
            let says = said.iter().map(|(to, bytes)| {
                (*to, decode(bytes).expect("it was decoded when the recording was read"))
            });
            system.node("outside", Outside { says: says.collect() });
        }
        let faults = &mut system.rules.faults;
        faults.crashes = faults.crashes.max(self.crashed.len() as u32);
        for kind in &self.crashed {
            if !faults.strikes(kind) {
                faults.kinds.push(kind.clone());
            }
        }
    }

    /// An event in words.
    pub(super) fn place(&self, recording: &Execution, index: usize) -> String {
        let event = &recording.events()[index];
        let first = recording.events().first().map_or(0, nanos);
        let name = match event.kind.name() {
            Some(name) => format!(" {name}"),
            None => String::new(),
        };
        format!(
            "event {index} of the recording ({}{name} at {}, {:.3} s after its beginning)",
            event.kind.word(),
            recording.node(event.node).name,
            nanos(event).saturating_sub(first) as f64 / 1e9,
        )
    }

    fn push(&mut self, origin: usize, choice: Choice) {
        self.origins.push(origin);
        self.schedule.choices.push(choice);
    }
}

impl<'a> Reading<'a> {
    /// Hosts call their nodes by their numbers, `n0` and so on.
    fn number_nodes(&mut self, names: &[NodeRecord]) -> Result<(), BadRecording> {
        for id in self.recording.node_ids() {
            let info = self.recording.node(id);
            let number = info.name.strip_prefix('n').and_then(|number| number.parse().ok());
            let Some(number) = number else {
                return Err(BadRecording(format!(
                    "`{}` was not recorded by a host, which calls its nodes n0, n1 and so on; only \
                     hosted nodes record what a replay needs",
                    info.name
                )));
            };
            if number >= CLIENTS {
                self.numbers.push(NodeId(self.members + self.plan.clients.len() as u32));
                self.plan.clients.push(Vec::new());
                continue;
            }
            self.check_member(id, number, names)?;
            self.numbers.push(NodeId(number));
        }
        Ok(())
    }

    fn check_member(
        &self,
        id: NodeId,
        number: u32,
        names: &[NodeRecord],
    ) -> Result<(), BadRecording> {
        let info = self.recording.node(id);
        let Some(&first) = self.recording.events_of(id).first() else {
            return Ok(());
        };
        let Some(node) = names.get(number as usize) else {
            return Err(BadRecording(format!(
                "the recording has a node {}, but the system has only {}; is it another system?",
                info.name,
                count(names.len() as u64, "node")
            )));
        };
        if node.kind != info.kind {
            return Err(BadRecording(format!(
                "{} is a {} in the recording and a {} in the system; is it another system?",
                info.name, info.kind, node.kind
            )));
        }
        if self.recording.event(first).kind != EventKind::Start {
            return Err(BadRecording(format!(
                "the recording of {} does not begin with its start; record into an empty folder, \
                 with empty disks, and with more segments if the beginning was overwritten",
                info.name
            )));
        }
        Ok(())
    }

    fn count_messages(&mut self) {
        let mut counts: BTreeMap<NodeId, u32> = BTreeMap::new();
        for event in self.recording.events() {
            for send in &event.sends {
                let count = counts.entry(event.node).or_default();
                let id = Recorded { sender: event.node, seq: send.seq };
                self.sent.insert(id, (*count, send.label.as_str()));
                *count += 1;
            }
        }
    }

    /// Begins the plan: the clocks at which the nodes start, and their choices at that time.
    fn begin(&mut self, names: &[NodeRecord]) {
        let starts = self.recording.events().iter().enumerate();
        let starts = starts.filter(|(_, event)| event.kind == EventKind::Start);
        let starts: BTreeMap<NodeId, (usize, &Event)> = starts
            .map(|(index, event)| (self.numbers[event.node.index()], (index, event)))
            .collect();
        let earliest = starts.values().map(|(_, event)| nanos(event)).min().unwrap_or(0);
        for number in (0..names.len() as u32 + self.plan.clients.len() as u32).map(NodeId) {
            let (index, nanos) = match starts.get(&number) {
                Some((index, event)) => (*index, nanos(event)),
                None => (0, earliest),
            };
            self.plan.push(index, Choice::Clock { node: number, nanos });
        }
        for (number, (index, event)) in starts {
            self.chosen(index, event, number);
        }
    }

    fn event<M: Message>(&mut self, index: usize, event: &'a Event, decode: Decode<M>) {
        let node = self.numbers[event.node.index()];
        let choice = match &event.kind {
            EventKind::Deliver { message } => match self.delivery(*message, event, node, decode) {
                Ok(choice) => choice,
                Err(why) => {
                    self.plan.gap.get_or_insert((index, why));
                    return;
                }
            },
            EventKind::Timer { name } => Choice::Timer { node, timer: name.clone() },
            EventKind::Crash => {
                self.plan.crashed.push(self.recording.node(event.node).kind.clone());
                Choice::Fault(Fault::Crash(node))
            }
            EventKind::Restart => Choice::Restart(node),
            EventKind::Local { name } => match name.strip_prefix("task ").map(str::parse) {
                Some(Ok(task)) => Choice::Poll { node, task },
                _ => return,
            },
            EventKind::Start | EventKind::Input { .. } => return,
        };
        self.plan.push(index, Choice::Clock { node, nanos: nanos(event) });
        self.plan.push(index, choice);
        self.chosen(index, event, node);
    }

    fn delivery<M: Message>(
        &mut self,
        message: Recorded,
        event: &Event,
        to: NodeId,
        decode: Decode<M>,
    ) -> Result<Choice, String> {
        let from = self.numbers[message.sender.index()];
        if from.0 >= self.members {
            let (sequence, kind) = self.said_outside(from, event, to, decode)?;
            return Ok(Choice::Deliver { to, message: MessageName { from, sequence }, kind });
        }
        let Some(&(sequence, kind)) = self.sent.get(&message) else {
            let name = &self.recording.node(message.sender).name;
            return Err(format!(
                "that {name} sent this message is not in its recording: it was killed just then, \
                 records were dropped, or its folder is missing"
            ));
        };
        let kind = kind.to_owned();
        Ok(Choice::Deliver { to, message: MessageName { from, sequence }, kind })
    }

    /// Reads the message that a client sent from the text of its delivery.
    fn said_outside<M: Message>(
        &mut self,
        from: NodeId,
        event: &Event,
        to: NodeId,
        decode: Decode<M>,
    ) -> Result<(u32, String), String> {
        let lines = event.text.as_deref().unwrap_or_default().lines();
        let digits = lines.filter_map(|line| line.strip_prefix("message ")).next();
        let bytes = digits.and_then(unhex).ok_or("what the client sent is not recorded")?;
        let msg =
            decode(&bytes).map_err(|why| format!("the client's message cannot be read: {why}"))?;
        let said = &mut self.plan.clients[(from.0 - self.members) as usize];
        said.push((to, bytes));
        Ok((said.len() as u32 - 1, fingerprint::kind(&msg).to_owned()))
    }

    /// Adds the answers to `choose`, as hosts note them: `label: 1 of 3`.
    fn chosen(&mut self, index: usize, event: &Event, node: NodeId) {
        for line in event.text.as_deref().unwrap_or_default().lines() {
            let answer = line.rsplit_once(": ").and_then(|(label, rest)| {
                let (value, domain) = rest.split_once(" of ")?;
                Some((label.to_owned(), value.parse().ok()?, domain.parse().ok()?))
            });
            if let Some((label, value, domain)) = answer {
                self.plan.push(index, Choice::Choose { node, label, domain, value });
            }
        }
    }
}

/// The wall clock at an event.
fn nanos(event: &Event) -> u64 {
    event.time.physical_ns.and_then(|nanos| u64::try_from(nanos).ok()).unwrap_or(0)
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

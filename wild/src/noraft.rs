//! noraft: three servers on disks that lose what was not synced, and a client that proposes commands.
//!
//! The crate promises the Raft algorithm. Its documentation of [`Action`] says what may happen to
//! messages (they may be discarded and reordered) and what must be saved before one is sent; the
//! server here does just that. So servers crash, and messages are lost, repeated and reordered.

use std::collections::BTreeMap;

use everhold::System;
use everhold::prelude::*;
use noraft::{Action, LogEntries, LogEntry, LogIndex, LogPosition, Message, Term};
use serde::Serializer;

/// The number of servers.
const SERVERS: u32 = 3;
/// The number of commands that the client proposes.
const COMMANDS: u32 = 3;

/// The first property: no two servers lead in one term.
pub const ELECTION: &str = "one leader in a term";
/// The second: an entry of one term and one index is the same everywhere, with all before it.
pub const MATCHING: &str = "logs match";
/// The third: what two servers have applied differs at no index.
pub const AGREEMENT: &str = "applied commands agree";
/// The fourth: a command that was acknowledged stays where it is.
pub const DURABLE: &str = "an acknowledged command stays";

/// An entry, with the command that the crate leaves to its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    term: u64,
    /// 0 for the entry with which a term begins.
    command: u32,
}

/// The messages.
#[derive(Clone, Debug, Serialize)]
pub enum Msg {
    /// Client to server.
    Propose(u32),
    /// Server to client: the command is committed at this index.
    Committed(u32, u64),
    /// Between servers: a message of the crate, and the commands of its entries.
    Wire(#[serde(serialize_with = "shown")] Message, BTreeMap<u64, u32>),
}

fn shown<S: Serializer>(message: &Message, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format!("{message:?}"))
}

/// A server.
pub struct Server {
    node: noraft::Node,
    /// The commands of the log, by their index.
    commands: BTreeMap<u64, u32>,
    log: Vec<Entry>,
    applied: Vec<u32>,
    /// Commands that the client waits for, by their positions.
    waiting: Vec<(LogPosition, u32)>,
}

/// The part of a server's state that traces show.
#[derive(Serialize)]
struct Shown<'a> {
    role: String,
    term: u64,
    vote: Option<u64>,
    commit: u64,
    log: &'a [Entry],
    applied: &'a [u32],
}

impl Serialize for Server {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shown = Shown {
            role: format!("{:?}", self.node.role()),
            term: self.node.current_term().get(),
            vote: self.node.voted_for().map(noraft::NodeId::get),
            commit: self.node.commit_index().get(),
            log: &self.log,
            applied: &self.applied,
        };
        shown.serialize(serializer)
    }
}

impl Server {
    const HEARTBEAT: Duration = Duration::from_millis(50);
    const ELECTION: Duration = Duration::from_millis(200);

    fn new(id: NodeId) -> Self {
        let node = noraft::Node::restart(raft_id(id), Term::ZERO, None, log_of(&[]));
        let (commands, log) = (BTreeMap::new(), Vec::new());
        Server { node, commands, log, applied: Vec::new(), waiting: Vec::new() }
    }

    /// Does what the crate asks for: saves first, then sends.
    fn settle(&mut self, cx: &mut Cx<Msg>) {
        while let Some(action) = self.node.actions_mut().next() {
            match action {
                Action::SetElectionTimeout => {
                    let leads = self.node.role().is_leader();
                    let after = if leads { Self::HEARTBEAT } else { Self::ELECTION };
                    cx.set_timer("election", after);
                }
                Action::SaveCurrentTerm => {
                    cx.disk().save("term", &self.node.current_term().get());
                    cx.disk().sync();
                }
                Action::SaveVotedFor => {
                    cx.disk().save("vote", &self.node.voted_for().map(noraft::NodeId::get));
                    cx.disk().sync();
                }
                Action::AppendLogEntries(entries) => self.append(cx, &entries),
                Action::BroadcastMessage(message) => {
                    for peer in self.node.peers().collect::<Vec<_>>() {
                        self.send(cx, peer, message.clone());
                    }
                }
                Action::SendMessage(peer, message) => self.send(cx, peer, message),
                Action::InstallSnapshot(_) => unreachable!("no server makes snapshots"),
            }
        }
        self.log = self.entries(self.node.log().entries());
        self.apply(cx);
    }

    /// Saves entries: what the disk has of them already stays as it is.
    fn append(&mut self, cx: &mut Cx<Msg>, entries: &LogEntries) {
        let first = entries.prev_position().index.get() as usize;
        let encode =
            |entry: &Entry| [&entry.term.to_le_bytes()[..], &entry.command.to_le_bytes()].concat();
        let encoded: Vec<_> = self.entries(entries).iter().map(encode).collect();
        let saved = &cx.disk().log("log")[first..];
        let common = encoded.iter().zip(saved).take_while(|(new, old)| new == old).count();
        if common < encoded.len() {
            cx.disk().truncate("log", first + common);
            encoded[common..].iter().for_each(|entry| cx.disk().append("log", entry));
            cx.disk().sync();
        }
    }

    fn entries(&self, entries: &LogEntries) -> Vec<Entry> {
        let entry = |(at, entry): (LogPosition, LogEntry)| Entry {
            term: at.term.get(),
            command: if entry == LogEntry::Command { self.commands[&at.index.get()] } else { 0 },
        };
        entries.iter_with_positions().map(entry).collect()
    }

    fn send(&self, cx: &mut Cx<Msg>, peer: noraft::NodeId, message: Message) {
        let mut commands = BTreeMap::new();
        if let Message::AppendEntriesCall { entries, .. } = &message {
            for (position, entry) in entries.iter_with_positions() {
                if entry == LogEntry::Command {
                    let index = position.index.get();
                    commands.insert(index, self.commands[&index]);
                }
            }
        }
        cx.send(NodeId(peer.get() as u32), Msg::Wire(message, commands));
    }

    /// Takes a message over, with the commands of those entries that the crate accepts.
    fn receive(&mut self, message: &Message, commands: &BTreeMap<u64, u32>) {
        self.node.handle_message(message).expect("the state is that of a valid execution");
        for (index, command) in commands {
            let Message::AppendEntriesCall { entries, .. } = message else { continue };
            let index = LogIndex::new(*index);
            let term = entries.get_term(index);
            if self.node.log().entries().get_term(index) == term {
                self.commands.insert(index.get(), *command);
            }
        }
    }

    fn apply(&mut self, cx: &mut Cx<Msg>) {
        let commit = self.node.commit_index().get() as usize;
        self.applied = self.log[..commit].iter().map(|entry| entry.command).collect();
        let node = &self.node;
        self.waiting.retain(|(position, command)| {
            let status = node.get_commit_status(*position);
            if status.is_committed() {
                cx.send(NodeId(SERVERS), Msg::Committed(*command, position.index.get()));
            }
            status.is_in_progress()
        });
    }
}

impl Node for Server {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        self.settle(cx);
    }

    fn restart(&mut self, cx: &mut Cx<Msg>) {
        let saved = "what was saved can be read";
        let term: u64 = cx.disk().load("term").expect(saved).unwrap_or_default();
        let vote: Option<u64> = cx.disk().load("vote").expect(saved).unwrap_or_default();
        let log: Vec<Entry> = cx.disk().log("log").iter().map(|bytes| decode(bytes)).collect();
        for (index, entry) in (1..).zip(&log) {
            self.commands.insert(index, entry.command);
        }
        let vote = vote.map(noraft::NodeId::new);
        self.node = noraft::Node::restart(raft_id(cx.id()), Term::new(term), vote, log_of(&log));
        self.settle(cx);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        match msg {
            Msg::Propose(command) => {
                let position = self.node.propose_command();
                if !position.is_invalid() {
                    self.commands.insert(position.index.get(), command);
                    self.waiting.push((position, command));
                }
            }
            Msg::Wire(message, commands) => self.receive(&message, &commands),
            Msg::Committed(..) => cx.unexpected(msg),
        }
        self.settle(cx);
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        self.node.handle_election_timeout();
        self.settle(cx);
    }
}

/// The client: each command goes to all servers, of which one may lead, until it is committed.
#[derive(Clone, Serialize)]
pub struct Client {
    proposed: u32,
    /// Commands and the indices at which they were acknowledged.
    acknowledged: Vec<(u32, u64)>,
}

impl Client {
    const PAUSE: Duration = Duration::from_millis(300);
}

impl Node for Client {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.set_timer("next", Self::PAUSE);
    }

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        match msg {
            Msg::Committed(command, index) => self.acknowledged.push((command, index)),
            _ => cx.unexpected(msg),
        }
    }

    fn timer(&mut self, cx: &mut Cx<Msg>, _: Timer) {
        self.proposed += 1;
        for server in 0..SERVERS {
            cx.send(NodeId(server), Msg::Propose(self.proposed));
        }
        if self.proposed < COMMANDS {
            cx.set_timer("next", Self::PAUSE);
        }
    }
}

fn raft_id(id: NodeId) -> noraft::NodeId {
    noraft::NodeId::new(id.0.into())
}

fn decode(bytes: &[u8]) -> Entry {
    let (term, command) = bytes.split_first_chunk().expect("an entry has a term");
    let command = command.try_into().expect("an entry has a command");
    Entry { term: u64::from_le_bytes(*term), command: u32::from_le_bytes(command) }
}

/// The crate's view of a log. All servers are voters from the beginning.
fn log_of(log: &[Entry]) -> noraft::Log {
    let mut config = noraft::ClusterConfig::new();
    config.voters.extend((0..SERVERS).map(|server| raft_id(NodeId(server))));
    let mut last = 0;
    let entry = |entry: &Entry| {
        let begins = entry.term != std::mem::replace(&mut last, entry.term);
        if begins { LogEntry::Term(Term::new(entry.term)) } else { LogEntry::Command }
    };
    let entries: Vec<_> = log.iter().map(entry).collect();
    noraft::Log::new(config, LogEntries::from_iter(LogPosition::ZERO, entries))
}

/// Three servers and a client.
pub fn system(system: &mut System<Msg>) {
    for server in 0..SERVERS {
        system.node_with("server", move || Server::new(NodeId(server)));
    }
    system.node("client", Client { proposed: 0, acknowledged: Vec::new() });
    system.faults(Faults::none().crash(2).lose(2).duplicate(1).partition(1).only(["server"]));
    system.always(ELECTION, one_leader);
    system.always(MATCHING, logs_match);
    system.always(AGREEMENT, agree);
    system.always(DURABLE, durable);
    system.sometimes("a command is acknowledged", |s| {
        s.all::<Client>().any(|(_, client)| !client.acknowledged.is_empty())
    });
}

fn one_leader(s: &View<'_, Msg>) -> Result<(), String> {
    let mut leaders = BTreeMap::new();
    for (id, server) in s.all::<Server>().filter(|(_, server)| server.node.role().is_leader()) {
        let term = server.node.current_term().get();
        if let Some(other) = leaders.insert(term, id) {
            return Err(format!("{other} and {id} lead in term {term}"));
        }
    }
    Ok(())
}

fn logs_match(s: &View<'_, Msg>) -> Result<(), String> {
    let logs: Vec<_> = s.all::<Server>().map(|(_, server)| &server.log).collect();
    for (at, a) in logs.iter().enumerate() {
        for b in &logs[..at] {
            let same = a.iter().zip(*b).rposition(|(a, b)| a.term == b.term);
            if same.is_some_and(|last| a[..=last] != b[..=last]) {
                return Err(format!("{a:?} and {b:?}"));
            }
        }
    }
    Ok(())
}

fn agree(s: &View<'_, Msg>) -> Result<(), String> {
    let applied: Vec<_> = s.all::<Server>().map(|(_, server)| &server.applied).collect();
    let longest = applied.iter().max_by_key(|applied| applied.len()).expect("there are servers");
    match applied.iter().find(|applied| !longest.starts_with(applied)) {
        Some(applied) => Err(format!("{applied:?} and {longest:?} were applied")),
        None => Ok(()),
    }
}

fn durable(s: &View<'_, Msg>) -> Result<(), String> {
    for (command, index) in s.all::<Client>().flat_map(|(_, client)| &client.acknowledged) {
        let at = *index as usize - 1;
        for (id, server) in s.all::<Server>() {
            if server.applied.get(at).is_some_and(|applied| applied != command) {
                let applied = &server.applied;
                return Err(format!(
                    "{command} was committed at {index}, {id} applied {applied:?}"
                ));
            }
        }
    }
    Ok(())
}

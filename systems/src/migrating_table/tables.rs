//! The node that has all tables: the old and the new one, and the reference table.
//!
//! The reference table is the specification. Whoever executes a logical operation reports its
//! linearization point, and the operation is executed there at that moment.

use std::collections::BTreeSet;

use everhold::node::{Cx, Ticket};
use everhold::prelude::*;

use super::backend::{Answer, Call, Msg, Side};
use super::entity::of_side;
use super::memory::{BadArgument, MemoryTable};
use super::table::{Etag, Filter, Key, Kind, Match, Op, Properties, Row, Status, Written};

/// The assertion that batches are well formed.
pub const WELL_FORMED: &str = "calls to the tables are well formed";
/// The assertion that operations come to an end.
pub const END: &str = "operations come to an end";
/// The largest number of calls of an execution that read or write. Correct clients need about half.
pub const CALLS_MAX: u32 = 100;

/// A stream of the old or the new table.
#[derive(Clone, Debug, Serialize)]
struct Stream {
    side: Side,
    filter: Filter,
    since: usize,
    /// The key from which it reads on; `None` after its end.
    next: Option<Key>,
}

/// A phase that is being announced.
#[derive(Clone, Debug, Serialize)]
struct Push {
    migrator: Ticket,
    unconfirmed: BTreeSet<NodeId>,
}

/// All tables, and the configuration service.
#[derive(Clone, Debug, Serialize)]
pub struct Tables {
    services: Vec<NodeId>,
    old: MemoryTable,
    new: MemoryTable,
    reference: MemoryTable,
    streams: Vec<Stream>,
    push: Option<Push>,
    /// The client that has yet to annotate its call.
    unannotated: Option<NodeId>,
    calls: u32,
}

impl Tables {
    /// The tables before a migration: these rows are in the old one.
    pub(super) fn new(rows: Vec<(Key, Properties)>, services: Vec<NodeId>) -> Self {
        Tables {
            services,
            old: MemoryTable::new(rows.clone()),
            new: MemoryTable::new([]),
            reference: MemoryTable::new(rows),
            streams: Vec::new(),
            push: None,
            unannotated: None,
            calls: 0,
        }
    }

    fn table(&mut self, side: Side) -> &mut MemoryTable {
        of_side(side, &mut self.old, &mut self.new)
    }

    fn begin_call(&mut self, cx: &mut Cx<Msg>, from: NodeId) {
        self.unannotated = Some(from);
        self.calls += 1;
        let calls = self.calls;
        cx.check(calls <= CALLS_MAX, END, || format!("{calls} calls to the tables"));
    }

    fn execute(&mut self, cx: &mut Cx<Msg>, side: Side, batch: &[Op]) {
        match self.table(side).execute(batch) {
            Ok(outcome) => cx.reply(Msg::Executed(outcome)),
            Err(BadArgument(problem)) => cx.check(false, WELL_FORMED, || problem.to_owned()),
        }
    }

    fn change_versions(&mut self, versions: Vec<(Key, Etag)>) {
        for (key, etag) in versions {
            let merge = Op::new(Kind::Merge, key, Properties::new()).when(Match::Any);
            let written = Written { status: Status::NoContent, etag: Some(etag) };
            let merged = self.reference.mirror(&[merge], Some(&[written]));
            debug_assert!(merged.is_ok());
        }
    }

    /// Executes a logical operation on the reference table. New rows have the versions that were
    /// reported for them.
    fn refer(&mut self, call: &Call, reported: &Answer) -> Answer {
        match call {
            Call::Query(filter) => Answer::Rows(self.reference.query(filter)),
            Call::Write(batch) => {
                let reported = match reported {
                    Answer::Written(Ok(written)) => Some(&written[..]),
                    _ => None,
                };
                let outcome = self.reference.mirror(batch, reported);
                Answer::Written(outcome.expect("clients of the virtual table are well behaved"))
            }
        }
    }

    fn open(&mut self, side: Side, filter: Filter) -> u32 {
        let since = self.table(side).revision();
        self.streams.push(Stream { side, filter, since, next: Some(Key::default()) });
        self.streams.len() as u32 - 1
    }

    /// Any row that the stream may return: this is as nondeterministic as its specification.
    fn read(&mut self, cx: &mut Cx<Msg>, number: u32) -> Option<Row> {
        let Stream { side, filter, since, next } = self.streams[number as usize].clone();
        let valid = self.table(side).valid_next(since, &filter, &next?);
        let chosen = cx.choose("row of a stream", valid.rows.len() + usize::from(valid.may_end));
        let row = valid.rows.into_iter().nth(chosen);
        self.streams[number as usize].next = row.as_ref().map(|row| row.key.successor());
        row
    }

    fn push(&mut self, cx: &mut Cx<Msg>, phase: super::Phase) {
        for service in &self.services {
            cx.send(*service, Msg::Configure(phase));
        }
        let unconfirmed = self.services.iter().copied().collect();
        self.push = Some(Push { migrator: cx.ticket(), unconfirmed });
    }

    fn configured(&mut self, cx: &mut Cx<Msg>, from: NodeId) {
        let push = self.push.as_mut().expect("services confirm what was pushed");
        push.unconfirmed.remove(&from);
        if push.unconfirmed.is_empty() {
            cx.answer(push.migrator, Msg::Pushed);
            self.push = None;
        }
    }
}

impl Node for Tables {
    type Msg = Msg;
    const GUARDED: bool = true;

    fn accepts(&self, from: NodeId, msg: &Msg) -> bool {
        match msg {
            Msg::NoPoint(_) | Msg::Point(..) => self.unannotated == Some(from),
            Msg::Push(_) | Msg::Configured => true,
            _ => self.unannotated.is_none(),
        }
    }

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, msg: Msg) {
        match msg {
            Msg::Execute(side, batch) => {
                self.begin_call(cx, from);
                self.execute(cx, side, &batch);
            }
            Msg::Query(side, filter) => {
                self.begin_call(cx, from);
                cx.reply(Msg::Rows(self.table(side).query(&filter)));
            }
            Msg::NoPoint(versions) => {
                self.unannotated = None;
                self.change_versions(versions);
            }
            Msg::Point(call, reported) => {
                self.unannotated = None;
                cx.reply(Msg::Reference(self.refer(&call, &reported)));
            }
            Msg::Open(side, filter) => cx.reply(Msg::Opened(self.open(side, filter))),
            Msg::Read(stream) => {
                let row = self.read(cx, stream);
                cx.reply(Msg::Next(row));
            }
            Msg::Dump => cx.reply(Msg::Rows(self.reference.query(&Filter::All))),
            Msg::Revision => cx.reply(Msg::At(self.reference.revision())),
            Msg::ValidNext(since, filter, from) => {
                cx.reply(Msg::Valid(self.reference.valid_next(since, &filter, &from)));
            }
            Msg::Push(phase) => self.push(cx, phase),
            Msg::Configured => self.configured(cx, from),
            other => cx.unexpected(other),
        }
    }
}

//! Calls to the tables, and the reports of when a logical operation takes effect.
//!
//! The tables do nothing between a call that reads or writes and its *annotation*, by which the
//! caller tells what the call meant for the virtual table. So nobody sees the virtual table and the
//! reference table differ.

use std::cell::RefCell;

use everhold::node::AsyncCx;
use everhold::prelude::*;

use super::config::Phase;
use super::memory::Valid;
use super::table::{Etag, Filter, Key, Op, Outcome, Row};

/// A table that the migrating table uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Side {
    /// The table from which rows are moved.
    Old,
    /// The table to which they are moved.
    New,
}

/// A logical operation on the virtual table, without streams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Call {
    /// A batch of writes.
    Write(Vec<Op>),
    /// An atomic query.
    Query(Filter),
}

/// The answer to a logical operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Answer {
    /// The outcome of a batch.
    Written(Outcome),
    /// The rows of a query.
    Rows(Vec<Row>),
}

/// The messages between processes and the tables.
#[derive(Clone, Debug, Serialize)]
pub enum Msg {
    /// Executes a batch; to be annotated.
    Execute(Side, Vec<Op>),
    /// The outcome of a batch.
    Executed(Outcome),
    /// Queries a partition; to be annotated.
    Query(Side, Filter),
    /// Rows.
    Rows(Vec<Row>),
    /// The annotation of a call that was not a linearization point: the rows whose version changed
    /// although nobody wrote them.
    NoPoint(Vec<(Key, Etag)>),
    /// The annotation of a call that was the linearization point of an operation with this answer.
    Point(Call, Answer),
    /// The answer of the reference table.
    Reference(Answer),
    /// Begins a stream.
    Open(Side, Filter),
    /// The number of a stream.
    Opened(u32),
    /// Reads a row from a stream.
    Read(u32),
    /// A row, or the end.
    Next(Option<Row>),
    /// The rows of the reference table.
    Dump,
    /// The revision of the reference table.
    Revision,
    /// A revision.
    At(usize),
    /// The rows that a stream over the reference table may return next.
    ValidNext(usize, Filter, Key),
    /// Rows that are valid.
    Valid(Valid),
    /// Migrator to tables: begin this phase everywhere.
    Push(Phase),
    /// Tables to services: this phase begins.
    Configure(Phase),
    /// Services to tables: no operation uses an earlier phase.
    Configured,
    /// Tables to migrator: no operation anywhere uses an earlier phase.
    Pushed,
}

/// The logical operation that is being executed, and the linearization points that were reported.
#[derive(Debug, Default)]
pub(super) struct Operation {
    pub(super) call: Option<Call>,
    /// The reported answers with those of the reference table.
    pub(super) points: Vec<(Answer, Answer)>,
}

/// A client's connection to the tables.
#[derive(Debug)]
pub(super) struct Backend {
    pub(super) cx: AsyncCx<Msg>,
    pub(super) tables: NodeId,
    pub(super) operation: RefCell<Operation>,
}

impl Backend {
    pub(super) fn new(cx: AsyncCx<Msg>, tables: NodeId) -> Self {
        Backend { cx, tables, operation: RefCell::default() }
    }

    pub(super) async fn call(&self, request: Msg) -> Msg {
        self.cx.call(self.tables, request).await
    }

    pub(super) async fn execute(&self, side: Side, batch: Vec<Op>) -> Outcome {
        match self.call(Msg::Execute(side, batch)).await {
            Msg::Executed(outcome) => outcome,
            other => unreachable!("an answer to a batch: {other:?}"),
        }
    }

    pub(super) async fn query(&self, side: Side, filter: Filter) -> Vec<Row> {
        match self.call(Msg::Query(side, filter)).await {
            Msg::Rows(rows) => rows,
            other => unreachable!("an answer to a query: {other:?}"),
        }
    }

    /// Queries one row, and annotates the query as no linearization point.
    pub(super) async fn retrieve(&self, side: Side, key: &Key) -> Option<Row> {
        let rows = self.query(side, Filter::key(key)).await;
        self.no_point();
        rows.into_iter().next()
    }

    pub(super) async fn open(&self, side: Side, filter: Filter) -> u32 {
        match self.call(Msg::Open(side, filter)).await {
            Msg::Opened(stream) => stream,
            other => unreachable!("an answer to the opening of a stream: {other:?}"),
        }
    }

    pub(super) async fn read(&self, stream: u32) -> Option<Row> {
        match self.call(Msg::Read(stream)).await {
            Msg::Next(row) => row,
            other => unreachable!("an answer to a read: {other:?}"),
        }
    }

    /// The last call was not a linearization point.
    pub(super) fn no_point(&self) {
        self.cx.send(self.tables, Msg::NoPoint(Vec::new()));
    }

    /// The same; and the call gave a row a new version.
    pub(super) fn no_point_but_version(&self, key: Key, etag: Etag) {
        self.cx.send(self.tables, Msg::NoPoint(vec![(key, etag)]));
    }

    /// The last call was the linearization point of the operation, whose answer is this.
    pub(super) async fn point(&self, answer: Answer) {
        let call = self.operation.borrow().call.clone();
        let call = call.expect("linearization points belong to operations");
        match self.call(Msg::Point(call, answer.clone())).await {
            Msg::Reference(reference) => {
                self.operation.borrow_mut().points.push((answer, reference));
            }
            other => unreachable!("an answer to an annotation: {other:?}"),
        }
    }
}

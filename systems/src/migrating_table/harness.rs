//! The clients of the virtual table, and what is asserted about its answers.

use std::rc::Rc;

use everhold::System;
use everhold::node::AsyncCx;
use everhold::node::task::Received;
use everhold::prelude::*;

use super::backend::{Answer, Backend, Call, Msg};
use super::memory::Valid;
use super::migrator::{Job, Migrator, migrate};
use super::table::{Filter, Key, Kind, Match, Op, Properties, Row, Value, WRONG_ETAG};
use super::tables::Tables;
use super::{Bug, Configuration, MigratingTable, Phase};

/// The assertion that every operation reports one linearization point.
pub const ONE_POINT: &str = "an operation has one linearization point";
/// The assertion that answers are those of the reference table.
pub const MATCHES: &str = "answers are those of one table";
/// The assertion about streams.
pub const STREAMS: &str = "streams return rows that were there";

/// The number of services in the default test.
const SERVICES: usize = 2;
/// The number of atomic operations of a service that reads no stream.
const CALLS: usize = 2;
/// The row keys that clients use.
const ROWS: [&str; 6] = ["0", "1", "2", "3", "4", "5"];
/// The user property by which queries select rows.
const HAPPY: &str = "isHappy";

/// A test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Scenario {
    /// The default: services choose their operations freely.
    Free,
    /// The paper's custom test for `QueryStreamedFilterShadowing`.
    FilterShadowing,
    /// The one for `MigrateSkipPreferOld`.
    SkipPreferOld,
    /// The one for `MigrateSkipUseNewWithTombstones`.
    SkipUseNewWithTombstones,
    /// The one for `InsertBehindMigrator`.
    InsertBehind,
}

/// The time of an operation of a custom test.
#[derive(Clone, Copy)]
enum When {
    /// At any time.
    Any,
    /// Before a process confirms that a phase has begun.
    On(Phase),
    /// After a phase has begun.
    After(Phase),
}

#[derive(Clone)]
enum Action {
    Call(Call),
    Stream(Filter),
}

type Script = Vec<(When, Action)>;

/// A client of the virtual table.
struct Client {
    cx: AsyncCx<Msg>,
    tables: NodeId,
    config: Rc<Configuration>,
    bug: Bug,
    marks: std::cell::Cell<u32>,
}

/// A service as properties see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Service {
    /// The phase that it has been told.
    phase: Phase,
}

fn happy(value: bool) -> (super::table::Text, Value) {
    (HAPPY.into(), Value::Flag(value))
}

fn is_happy(value: bool) -> Filter {
    Filter::equals(HAPPY, Value::Flag(value))
}

fn in_partition(rest: Filter) -> Filter {
    Filter::partition(&"".into()).and(rest)
}

fn initial(scenario: Scenario) -> Vec<(Key, Properties)> {
    let rows = [("0", true), ("1", false), ("3", false), ("4", true)];
    let rows = rows.map(|(row, value)| (Key::new("", row), Properties::from([happy(value)])));
    if scenario == Scenario::InsertBehind { Vec::new() } else { rows.into() }
}

impl Client {
    /// The virtual table for one logical operation: linearization points belong to operations.
    fn table(&self) -> MigratingTable {
        let backend = Rc::new(Backend::new(self.cx.clone(), self.tables));
        MigratingTable { backend, config: Rc::clone(&self.config), bug: self.bug }
    }

    /// Executes an operation and compares its answer with the reference table's.
    async fn perform(&self, call: Call) {
        let table = self.table();
        table.backend.operation.borrow_mut().call = Some(call.clone());
        let answer = match call {
            Call::Write(batch) => Answer::Written(table.execute(batch).await),
            Call::Query(filter) => Answer::Rows(table.query_atomic(&filter).await),
        };
        let points = table.backend.operation.take().points;
        let count = points.len();
        self.cx.check(count == 1, ONE_POINT, || format!("{count} linearization points"));
        for (reported, reference) in points {
            let message = || format!("{answer:?}, but the reference table says {reference:?}");
            self.cx.check(answer == reference, MATCHES, message);
            let message = || format!("{answer:?}, but {reported:?} was reported");
            self.cx.check(answer == reported, MATCHES, message);
        }
    }

    /// Reads a stream to its end and checks every row.
    async fn read_stream(&self, filter: Filter) {
        let table = self.table();
        let backend = &table.backend;
        let Msg::At(since) = backend.call(Msg::Revision).await else { unreachable!("a revision") };
        let stream = table.query_streamed(filter.clone()).await;
        let mut from = Key::default();
        loop {
            let continuation = stream.continuation_key().await;
            let row = stream.read_row().await;
            let asked = Msg::ValidNext(since, filter.clone(), from.clone());
            let Msg::Valid(valid) = backend.call(asked).await else { unreachable!("valid rows") };
            self.check_row(&valid, &from, continuation.as_ref(), row.as_ref());
            let Some(row) = row else { break };
            from = row.key.successor();
        }
        stream.close().await;
    }

    fn check_row(&self, valid: &Valid, from: &Key, at: Option<&Key>, row: Option<&Row>) {
        let is_valid = row.map_or(valid.may_end, |row| valid.rows.contains(row));
        self.cx.check(is_valid, STREAMS, || format!("read {row:?}, but valid are {valid:?}"));
        let is_later = at.is_none_or(|at| at >= from);
        self.cx.check(is_later, STREAMS, || format!("goes on at {at:?} after {from:?} was read"));
        let is_before = row.is_none_or(|row| at.is_some_and(|at| *at <= row.key));
        self.cx.check(is_before, STREAMS, || format!("goes on at {at:?}, but reads {row:?}"));
    }

    /// Whatever the strategy decides.
    async fn act_freely(&self) {
        if self.cx.flip("stream") {
            return self.read_stream(self.any_filter()).await;
        }
        for _ in 0..CALLS {
            let Msg::Rows(rows) = self.cx.call(self.tables, Msg::Dump).await else {
                unreachable!("the rows of the reference table")
            };
            let is_write = self.cx.flip("write");
            let query = || Call::Query(in_partition(self.any_filter()));
            let call = if is_write { Call::Write(self.any_batch(&rows)) } else { query() };
            self.perform(call).await;
        }
    }

    fn any_filter(&self) -> Filter {
        match self.cx.choose("filter", 3) {
            0 => Filter::All,
            one => is_happy(one == 1),
        }
    }

    fn any_batch(&self, rows: &[Row]) -> Vec<Op> {
        let mut free = ROWS.to_vec();
        let any_op = |_| {
            let row = free.remove(self.cx.choose("row", free.len()));
            self.any_op(Key::new("", row), rows)
        };
        (0..=self.cx.choose("second operation", 2)).map(any_op).collect()
    }

    fn any_op(&self, key: Key, rows: &[Row]) -> Op {
        use Kind::{Delete, Insert, InsertOrMerge, InsertOrReplace, Merge, Replace};
        let kinds = [Insert, Replace, Merge, Delete, InsertOrReplace, InsertOrMerge];
        let Some(kind) = kinds.get(self.cx.choose("kind", kinds.len() + 1)).copied() else {
            return Op::new(Delete, key, Properties::new()).when(Match::AnyOrAbsent);
        };
        let present = rows.iter().find(|row| row.key == key).map(|row| row.etag);
        let op = Op::new(kind, key, self.any_properties(kind));
        if kind.is_conditional() { op.when(self.any_condition(present)) } else { op }
    }

    fn any_properties(&self, kind: Kind) -> Properties {
        if kind == Kind::Delete {
            return Properties::new();
        }
        self.marks.set(self.marks.get() + 1);
        let mark = format!("mark {}.{}", self.cx.id(), self.marks.get());
        Properties::from([(mark.into(), Value::Flag(true)), happy(self.cx.flip("happy"))])
    }

    fn any_condition(&self, present: Option<u64>) -> Match {
        match self.cx.choose("version", 2 + usize::from(present.is_some())) {
            0 => Match::Any,
            1 => Match::Exactly(WRONG_ETAG),
            _ => Match::Exactly(present.unwrap_or(WRONG_ETAG)),
        }
    }

    async fn act(&self, action: Action) {
        match action {
            Action::Call(call) => self.perform(call).await,
            Action::Stream(filter) => self.read_stream(filter).await,
        }
    }

    async fn follow(&self, script: &Script) {
        for (when, action) in script {
            match when {
                When::On(_) => continue,
                When::After(phase) => self.config.reached(*phase).await,
                When::Any => {}
            }
            self.act(action.clone()).await;
        }
    }

    /// Follows the phases that the tables announce.
    async fn follow_configuration(self: Rc<Self>, script: Option<Rc<Script>>) {
        let config = &self.config;
        loop {
            let is_phase = |_, msg: &Msg| matches!(msg, Msg::Configure(_));
            let Received { from, msg, .. } = self.cx.recv_if(is_phase).await;
            let Msg::Configure(phase) = msg else { unreachable!("it was asked for") };
            config.set(phase);
            self.cx.observe(Service { phase });
            for (when, action) in script.iter().flat_map(|script| script.iter()) {
                if matches!(when, When::On(at) if *at == phase) {
                    self.act(action.clone()).await;
                }
            }
            config.settled(phase).await;
            self.cx.send(from, Msg::Configured);
        }
    }
}

async fn serve(cx: AsyncCx<Msg>, tables: NodeId, bug: Bug, script: Option<Rc<Script>>) {
    let (config, marks) = (Configuration::new(), std::cell::Cell::new(0));
    let client = Rc::new(Client { cx: cx.clone(), tables, config, bug, marks });
    cx.observe(Service { phase: Phase::UseOldHideMetadata });
    cx.spawn_background(Rc::clone(&client).follow_configuration(script.clone()));
    match &script {
        None => client.act_freely().await,
        Some(script) => client.follow(script).await,
    }
}

/// The scripts of the services; `None` for one that acts freely.
fn scripts(scenario: Scenario) -> Vec<Option<Script>> {
    let write = |kind, row| Op::new(kind, Key::new("", row), Properties::from([happy(false)]));
    let call = |when, op| (when, Action::Call(Call::Write(vec![op])));
    let query = |when| (when, Action::Call(Call::Query(in_partition(Filter::All))));
    match scenario {
        Scenario::Free => vec![None; SERVICES],
        Scenario::FilterShadowing => vec![Some(vec![
            call(When::On(Phase::PreferNew), write(Kind::InsertOrMerge, "0")),
            (When::On(Phase::PreferNew), Action::Stream(is_happy(true))),
        ])],
        Scenario::SkipPreferOld => vec![
            Some(vec![call(When::On(Phase::PreferNew), write(Kind::Insert, "5"))]),
            Some(vec![query(When::Any)]),
        ],
        Scenario::SkipUseNewWithTombstones => vec![
            Some(vec![call(
                When::On(Phase::UseNewHideMetadata),
                Op::new(Kind::Delete, Key::new("", "0"), Properties::new()).when(Match::Any),
            )]),
            Some(vec![query(When::After(Phase::PreferNew))]),
        ],
        Scenario::InsertBehind => vec![Some(vec![
            call(When::After(Phase::PreferOld), write(Kind::Insert, "0")),
            query(When::On(Phase::UseNewWithTombstones)),
        ])],
    }
}

/// The default test: the tables, a migrator and two services that act freely.
pub fn system(bug: Bug) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    scenario(Scenario::Free, bug)
}

/// A test with a bug.
pub fn scenario(
    scenario: Scenario,
    bug: Bug,
) -> impl Fn(&mut System<Msg>) + Clone + Send + Sync + 'static {
    move |system| {
        let (scripts, tables) = (scripts(scenario), NodeId(0));
        let services = (0..scripts.len()).map(|at| NodeId(2 + at as u32)).collect();
        system.node("tables", Tables::new(initial(scenario), services));
        let migrator = system.spawn("migrator", move |cx| migrate(cx, tables, bug));
        for script in scripts {
            let script = script.map(Rc::new);
            system.spawn("service", move |cx| serve(cx, tables, bug, script.clone()));
        }
        system.sometimes("the migration ends", move |s| {
            s.get::<Migrator>(migrator).is_some_and(|migrator| migrator.job == Job::Done)
        });
    }
}

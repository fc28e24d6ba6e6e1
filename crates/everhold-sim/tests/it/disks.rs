//! Small ways of keeping a value on a disk, each right and wrong; crashes in the middle of an
//! event, and the contents that they leave on a disk, distinguish them.

use std::collections::BTreeMap;

use everhold_node::{AsyncCx, Cx, Disk, Node, NodeId};
use everhold_sim::{
    Cause, Choice, CrashModel, Explorer, Faults, MessageName, Reduction, Report, Schedule, Search,
    SimVerdict, System,
};
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
enum Msg {
    Write(u32),
    Written(u32),
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Way {
    /// The data, a sync, the mark that says that it is there, a sync.
    DataThenMark,
    /// The mark first.
    MarkThenData,
    /// The same after something else.
    NoiseMarkThenData,
    /// No sync between the two.
    Together,
    /// Entries of a log, and a sync of it.
    Log,
    /// A sync of another file.
    WrongFile,
    /// Written aside, synced, renamed, the name synced.
    Aside,
    AsideUnsynced,
    AsideNameless,
    /// A file of two sectors that is overwritten in place.
    Sectors,
    /// The same twice, one after the other, each with a mark that distinguishes a half from a
    /// whole.
    TwoCopies,
    /// A record, without a mark that distinguishes a half from a whole.
    Record,
    /// The same with a checksum of sorts.
    Checked,
}

#[derive(Clone, Debug, Serialize)]
struct Store {
    way: Way,
    value: u32,
    /// The defect of the value that was found after a crash.
    wrong: Option<String>,
}

/// 600 bytes of the same value.
fn page(value: u32) -> Vec<u8> {
    value.to_le_bytes().repeat(150)
}

fn of_page(page: &[u8]) -> Option<u32> {
    let value = u32::from_le_bytes(*page.first_chunk()?);
    (page == self::page(value)).then_some(value)
}

impl Store {
    fn write(&self, cx: &mut Cx<Msg>, value: u32) {
        let disk = cx.disk();
        let bytes = value.to_le_bytes();
        match self.way {
            Way::DataThenMark => {
                disk.put(&format!("data{value}"), &bytes);
                disk.sync();
                disk.put("mark", &bytes);
                disk.sync();
            }
            Way::MarkThenData | Way::NoiseMarkThenData => {
                if self.way == Way::NoiseMarkThenData {
                    disk.put("noise", &bytes);
                    disk.sync();
                }
                disk.put("mark", &bytes);
                disk.sync();
                disk.put(&format!("data{value}"), &bytes);
                disk.sync();
            }
            Way::Together => {
                disk.put(&format!("data{value}"), &bytes);
                disk.put("mark", &bytes);
                disk.sync();
            }
            Way::Log | Way::WrongFile => {
                disk.append("log", &bytes);
                disk.put("size", &bytes);
                disk.sync_file(if self.way == Way::Log { "log" } else { "size" });
            }
            Way::Aside | Way::AsideUnsynced | Way::AsideNameless => {
                disk.write("new", 0, &page(value));
                if self.way != Way::AsideUnsynced {
                    disk.sync_file("new");
                }
                disk.rename("new", "page");
                if self.way != Way::AsideNameless {
                    disk.sync_names();
                }
            }
            Way::Sectors => {
                disk.write("page", 0, &page(value));
                disk.sync();
            }
            Way::TwoCopies => {
                for copy in ["one", "two"] {
                    disk.write(copy, 0, &page(value));
                    disk.sync();
                }
            }
            Way::Record => {
                disk.put("record", &value.to_be_bytes());
                disk.sync();
            }
            Way::Checked => {
                // The old one stays until the new one is whole.
                let place = format!("record{}", value % 2);
                disk.put(&place, &[value.to_be_bytes(), value.to_be_bytes()].concat());
                disk.sync();
            }
        }
    }

    fn recover(&mut self, cx: &mut Cx<Msg>) -> Result<u32, String> {
        let disk = cx.disk();
        let number = |bytes: &[u8]| bytes.first_chunk().map(|four| u32::from_le_bytes(*four));
        match self.way {
            Way::DataThenMark | Way::MarkThenData | Way::NoiseMarkThenData | Way::Together => {
                let Some(mark) = disk.get("mark").and_then(number) else { return Ok(0) };
                let data = disk.get(&format!("data{mark}")).and_then(number);
                data.filter(|data| *data == mark).ok_or(format!("{mark} is marked and not there"))
            }
            Way::Log | Way::WrongFile => {
                Ok(disk.log("log").last().and_then(|last| number(last)).unwrap_or(0))
            }
            Way::Aside | Way::AsideUnsynced | Way::AsideNameless | Way::Sectors => {
                let Some(page) = disk.read("page") else { return Ok(0) };
                disk.remove("new");
                if self.way == Way::Sectors && page.is_empty() {
                    return Ok(0);
                }
                of_page(&page).ok_or(format!("a page of {} bytes is torn", page.len()))
            }
            Way::TwoCopies => {
                let copies = ["one", "two"].map(|copy| disk.read(copy).unwrap_or_default());
                Ok(copies.iter().filter_map(|copy| of_page(copy)).max().unwrap_or(0))
            }
            Way::Record => {
                let Some(bytes) = disk.get("record") else { return Ok(0) };
                let four = bytes.try_into().map_err(|_| format!("{} bytes", bytes.len()))?;
                Ok(u32::from_be_bytes(four))
            }
            Way::Checked => {
                let whole = |place: &str| {
                    let (first, second) = disk.get(place)?.split_first_chunk::<4>()?;
                    (first[..] == *second).then(|| u32::from_be_bytes(*first))
                };
                Ok(["record0", "record1"]
                    .iter()
                    .filter_map(|place| whole(place))
                    .max()
                    .unwrap_or(0))
            }
        }
    }
}

impl Node for Store {
    type Msg = Msg;

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        let Msg::Write(value) = msg else { return };
        self.write(cx, value);
        self.value = value;
        cx.reply(Msg::Written(value));
    }

    fn restart(&mut self, cx: &mut Cx<Msg>) {
        match self.recover(cx) {
            Ok(value) => self.value = value,
            Err(wrong) => self.wrong = Some(wrong),
        }
    }
}

#[derive(Clone, Debug, Serialize)]
struct Client {
    store: NodeId,
    written: u32,
}

impl Node for Client {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        cx.send(self.store, Msg::Write(1));
    }

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        let Msg::Written(value) = msg else { return };
        self.written = value;
        if value < 3 {
            cx.send(self.store, Msg::Write(value + 1));
        }
    }
}

fn setup(way: Way, faults: Faults) -> impl Fn(&mut System<Msg>) + Send + Sync + Clone + 'static {
    move |system| {
        system.faults(faults.clone().only(["store"]));
        let store = system.node("store", Store { way, value: 0, wrong: None });
        let client = system.node("client", Client { store, written: 0 });
        system.always("what is found is whole", move |s| {
            s.get::<Store>(store).is_none_or(|store| store.wrong.is_none())
        });
        system.always("what was acknowledged is there", move |s| {
            let written = s.get::<Client>(client).map_or(0, |client| client.written);
            s.get::<Store>(store).is_none_or(|s| s.wrong.is_some() || s.value >= written)
        });
    }
}

fn faults(way: Way) -> Faults {
    let torn = u32::from(matches!(way, Way::Record | Way::Checked));
    Faults::none().crash(1).torn_write(torn)
}

const RIGHT: [Way; 5] = [Way::DataThenMark, Way::Log, Way::Aside, Way::TwoCopies, Way::Checked];
const WRONG: [(Way, CrashModel); 7] = [
    (Way::MarkThenData, CrashModel::Kill),
    (Way::Together, CrashModel::Ext4),
    (Way::WrongFile, CrashModel::Ext4),
    (Way::AsideUnsynced, CrashModel::Ext4),
    (Way::AsideNameless, CrashModel::Ext4),
    (Way::Sectors, CrashModel::Ext4),
    (Way::Record, CrashModel::Ext4),
];

fn explore(way: Way, faults: Faults, seed: u64) -> Report {
    Explorer::new().executions(3_000).regressions(false).seed(seed).run(setup(way, faults))
}

#[test]
fn every_wrong_way_is_found_with_the_default_search() {
    for (way, model) in WRONG {
        for seed in 0..5 {
            let report = explore(way, faults(way), seed);
            let finding = report.finding().unwrap_or_else(|| panic!("{way:?}, seed {seed}"));
            assert_eq!(finding.schedule.faults(), 1, "{way:?}: {:?}", finding.schedule);
            assert_eq!(finding.recording.crash_model, Some(model), "{way:?}: {report}");
            replays(way, &faults(way), &finding.schedule, &finding.failure.cause);
        }
    }
}

#[test]
fn the_name_of_a_new_file_is_lost_where_there_is_no_journal() {
    let faults = faults(Way::Log).crash_model(CrashModel::Any);
    let report = explore(Way::Log, faults, 1);
    let finding = report.finding().expect("the log is synced, its name is not");
    assert_eq!(finding.recording.crash_model, Some(CrashModel::Any), "{report}");
    assert!(report.to_string().contains("CrashModel::Any"), "{report}");
}

#[test]
fn a_schedule_names_the_operation_so_that_it_fits_after_an_edit() {
    let report = explore(Way::MarkThenData, faults(Way::MarkThenData), 1);
    let finding = report.finding().unwrap();
    let place = finding.schedule.choices.iter().find_map(|choice| match choice {
        Choice::Upset { place, .. } => Some(place.as_str()),
        _ => None,
    });
    assert!(place.is_some_and(|place| place.starts_with("crash ")), "{:?}", finding.schedule);
    let (way, cause) = (Way::NoiseMarkThenData, &finding.failure.cause);
    replays(way, &faults(way), &finding.schedule, cause);
}

#[test]
fn pictures_and_traces_show_the_disk_and_its_losses() {
    let report = explore(Way::Together, faults(Way::Together), 1);
    let finding = report.finding().unwrap();
    let picture = finding.picture();
    for words in ["disk put mark", "crash ", "the disk loses data"] {
        assert!(picture.contains(words), "{words} is missing:\n{picture}");
    }
    let trace = format!("{:?}", finding.trace());
    assert!(trace.contains("the disk loses data"), "{trace}");
}

fn exhaust(setup: impl Fn(&mut System<Msg>) + Send + Sync + 'static) -> Report {
    let search = Search::Exhaustive { reduction: Reduction::States };
    Explorer::new().search(search).executions(400_000).regressions(false).run(setup)
}

#[test]
fn an_exhaustive_search_goes_through_every_place_and_every_loss() {
    for way in [Way::DataThenMark, Way::Log, Way::Checked] {
        let report = exhaust(setup(way, faults(way)));
        assert_eq!(report.verdict(), SimVerdict::Holds, "{way:?}: {report}");
    }
    for (way, _) in WRONG {
        let report = exhaust(setup(way, faults(way)));
        assert_eq!(report.verdict(), SimVerdict::Violated, "{way:?}: {report}");
    }
}

/// The printed token is all that a replay needs.
#[track_caller]
fn replays(way: Way, faults: &Faults, schedule: &Schedule, cause: &Cause) {
    let schedule = Schedule::parse(&schedule.token()).unwrap();
    let again = Explorer::new().replay(schedule).regressions(false).run(setup(way, faults.clone()));
    assert_eq!(again.finding().map(|finding| &finding.failure.cause), Some(cause), "{way:?}");
}

#[test]
fn no_right_way_is_blamed() {
    for way in RIGHT {
        for model in CrashModel::ALL {
            let faults = Faults { crashes: 2, crash_model: model, ..faults(way) };
            // Without a journal the name of the log is not safe after a sync of the file.
            if way == Way::Log && model == CrashModel::Any {
                continue;
            }
            let report = explore(way, faults, 1);
            assert!(report.finding().is_none(), "{way:?}, {model:?}: {report}");
        }
    }
}

/// Does everything that a handler can do, before and after an operation of its disk.
#[derive(Clone, Debug, Default, Serialize)]
struct Loud {
    restarts: u32,
}

impl Node for Loud {
    type Msg = Msg;

    fn message(&mut self, cx: &mut Cx<Msg>, from: NodeId, _: Msg) {
        cx.disk().put("a", b"1");
        cx.send(from, Msg::Written(1));
        cx.disk().put("b", b"2");
        cx.send(from, Msg::Written(2));
        cx.set_timer("never", std::time::Duration::from_secs(1));
        cx.spawn("child", Loud::default());
        cx.check(false, "nobody hears a ghost", String::new);
        while cx.choose("again and again", 2) == 0 {}
        cx.notify("something");
        cx.halt();
        panic!("nobody sees a ghost panic");
    }

    fn restart(&mut self, cx: &mut Cx<Msg>) {
        self.restarts += 1;
        assert!(cx.disk().get("a").is_some() && cx.disk().get("b").is_none());
        assert_eq!(cx.disk().unsynced(), 0);
    }
}

#[test]
fn after_a_crash_in_the_middle_the_rest_of_the_event_did_not_happen() {
    let loud = NodeId(0);
    let message = MessageName { from: NodeId(1), sequence: 0 };
    let choices = vec![
        Choice::Deliver { to: loud, message, kind: "Write".to_owned() },
        Choice::Upset { node: loud, place: "crash before put b".to_owned(), nth: 0 },
        Choice::Restart(loud),
    ];
    let schedule = Schedule { seed: 1, choices };
    let replay = Explorer::new().replay(schedule).regressions(false);
    let report = replay.run(move |system: &mut System<Msg>| {
        system.faults(Faults::none().crash(1).only(["loud"]));
        let loud = system.node("loud", Loud::default());
        system.node("client", Client { store: loud, written: 0 });
        system.always("it stays up", move |s| {
            s.get::<Loud>(loud).is_none_or(|loud| loud.restarts == 0)
        });
    });
    let finding = report.finding().expect("it crashes");
    assert_eq!(finding.failure.cause, Cause::Always("it stays up".to_owned()), "{report}");
    let steps = &finding.recording.steps;
    let sends: Vec<&str> =
        steps.iter().flat_map(|step| &step.sends).map(|send| send.text.as_str()).collect();
    assert_eq!(sends, ["Write(1)", "Written(1)"]);
    assert_eq!(finding.recording.nodes.len(), 2);
    assert_eq!(steps.len(), 4, "the start, a message, a crash, a restart: {steps:?}");
}

/// Writes a mark and its data in the wrong order, as an async program.
async fn program(cx: AsyncCx<Msg>) {
    let (mark, data) = cx.disk(|disk| (disk.get("mark").is_some(), disk.get("data").is_some()));
    cx.check(data || !mark, "what is marked is there", String::new);
    loop {
        cx.recv().await;
        for record in ["mark", "data"] {
            cx.disk(|disk| {
                disk.put(record, b"1");
                disk.sync();
            });
        }
    }
}

/// Writes a mark and its data in the wrong order while it starts.
#[derive(Clone, Debug, Serialize)]
struct Starter {
    spawns: bool,
}

impl Node for Starter {
    type Msg = Msg;

    fn start(&mut self, cx: &mut Cx<Msg>) {
        if self.spawns {
            cx.spawn("store", Starter { spawns: false });
            return;
        }
        for record in ["mark", "data"] {
            cx.disk().put(record, b"1");
            cx.disk().sync();
        }
    }

    fn message(&mut self, _: &mut Cx<Msg>, _: NodeId, _: Msg) {}

    fn restart(&mut self, cx: &mut Cx<Msg>) {
        let (mark, data) = (cx.disk().get("mark").is_some(), cx.disk().get("data").is_some());
        cx.check(data || !mark, "what is marked is there", String::new);
    }
}

#[test]
fn crashes_fall_into_async_programs_and_into_starts() {
    let crash = || Faults::none().crash(1).only(["store"]);
    let asynchronous = move |system: &mut System<Msg>| {
        system.faults(crash());
        let store = system.spawn("store", program);
        system.node("client", Client { store, written: 0 });
    };
    let start = |spawns: bool| {
        move |system: &mut System<Msg>| {
            system.faults(crash());
            system.node(if spawns { "parent" } else { "store" }, Starter { spawns });
        }
    };
    let cause = Cause::Assertion("what is marked is there".to_owned());
    let explorer = || Explorer::new().executions(5_000).regressions(false);
    for report in [
        explorer().run(asynchronous),
        explorer().run(start(false)),
        explorer().run(start(true)),
        exhaust(start(false)),
        exhaust(start(true)),
    ] {
        assert_eq!(report.finding().map(|f| &f.failure.cause), Some(&cause), "{report}");
    }
}

/// Sees the errors of its disk.
#[derive(Clone, Debug, Serialize)]
struct Careful {
    /// After a sync that failed it writes everything again.
    rewrites: bool,
    value: u32,
}

impl Node for Careful {
    type Msg = Msg;

    fn message(&mut self, cx: &mut Cx<Msg>, _: NodeId, msg: Msg) {
        let Msg::Write(value) = msg else { return };
        let bytes = value.to_le_bytes();
        if cx.disk().try_put("value", &bytes).is_err() {
            return;
        }
        while cx.disk().try_sync().is_err() {
            if self.rewrites {
                cx.disk().put("value", &bytes);
            }
        }
        self.value = value;
        cx.reply(Msg::Written(value));
    }

    fn restart(&mut self, cx: &mut Cx<Msg>) {
        let kept = cx.disk().get("value").and_then(|bytes| bytes.first_chunk());
        self.value = kept.map_or(0, |four| u32::from_le_bytes(*four));
    }
}

fn careful(rewrites: bool, faults: Faults) -> Report {
    Explorer::new().executions(5_000).regressions(false).run(move |system| {
        system.faults(faults.clone().only(["store"]));
        let store = system.node("store", Careful { rewrites, value: 0 });
        let client = system.node("client", Client { store, written: 0 });
        system.always("what was acknowledged is there", move |s| {
            let written = s.get::<Client>(client).map_or(0, |client| client.written);
            s.get::<Careful>(store).is_none_or(|store| store.value >= written)
        });
    })
}

#[test]
fn a_sync_that_failed_is_not_made_good_by_the_next() {
    let faults = Faults::none().crash(1).disk_error(1).full_disk(1);
    let report = careful(false, faults.clone());
    let finding = report.finding().expect("the second sync succeeds and writes nothing");
    assert!(finding.picture().contains("EIO in sync"), "{}", finding.picture());
    assert_eq!(finding.schedule.faults(), 2, "an error and a crash: {:?}", finding.schedule);
    assert!(careful(false, Faults::none().crash(2)).finding().is_none());
    let report = careful(true, faults);
    assert!(report.finding().is_none(), "{report}");
}

#[test]
fn a_node_dies_of_an_error_that_it_does_not_look_at_and_loses_nothing() {
    let errors = || Faults::none().disk_error(2).full_disk(2);
    for way in [Way::DataThenMark, Way::Together, Way::Log] {
        let report = explore(way, errors(), 1);
        assert!(report.finding().is_none(), "{way:?}: {report}");
    }
    for (faults, words) in
        [(Faults::none().disk_error(1), "EIO in "), (Faults::none().full_disk(1), "ENOSPC in put ")]
    {
        let report = Explorer::new().executions(3_000).regressions(false).run(move |system| {
            setup(Way::DataThenMark, faults.clone())(system);
            system.always("it stays up", |s| s.all::<Store>().count() == 1);
        });
        let finding = report.finding().expect("it dies");
        assert!(finding.picture().contains(words), "{}", finding.picture());
    }
}

#[test]
fn maps_with_numbers_as_keys_are_saved() {
    let mut disk = Disk::default();
    let map = BTreeMap::from([(1_u64, BTreeMap::from([(NodeId(2), "x".to_owned())]))]);
    disk.save("map", &map);
    assert_eq!(disk.load("map"), Ok(Some(map)));
}

//! A rule means the same to a watch, to its evidence and to a recording: real processes' probes, the
//! real program, and the same file of rules for all three.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use everhold_live::recording::merge;
use everhold_live::{NodeId, Probe, Recording};
use everhold_trace::format::Writer;
use serde_json::Value as Json;

use crate::program::{everhold, temporary};
use crate::watch_probe::Watch;

const RULES: &str = r#"
always "one leader": forall a, b in nodes where a != b: not (a.leads and b.leads)

always "not many": forall n in nodes: len(n.held) <= 2

always "one exclusive": forall a, b in nodes where a != b:
  not (a.locks[key].mode == "exclusive" and b.locks[key] != null)

always "few sellers": count(n in nodes: n.sold[key] != null) <= 1

always "asked is answered": forall n in nodes:
  n.asked[key] != null leads to n.answered[key] != null within 300ms

always "only leaders write": forall n in nodes: n.wrote[key] != null implies n.leads == true

always "hosts have room": sum(n in nodes: sum(s -> shard in n.shards where shard.host == key: shard.size)) <= 5

finally "it is well" within 300ms: forall n in nodes: n.well != false

always "a leader follows": (exists n in nodes: n.wants) leads to (exists n in nodes: n.leads) within 300ms
"#;

#[derive(Clone, serde::Serialize)]
struct Lock {
    mode: &'static str,
    for_whom: Option<NodeId>,
}

/// A part of the data, with the host that has it.
#[derive(Clone, serde::Serialize)]
struct Shard {
    host: &'static str,
    size: u32,
}

/// Two nodes that are watched and recorded.
struct Service {
    watch: Watch,
    nodes: Vec<Probe>,
    rules: PathBuf,
    folder: PathBuf,
    records: PathBuf,
}

impl Service {
    fn start(name: &str) -> Service {
        let rules = temporary(&format!("{name}.prop"));
        fs::write(&rules, RULES).expect("it can be written");
        let [folder, records] = [name.to_owned(), format!("{name}-records")].map(|name| {
            let folder = temporary(&name);
            let _ = fs::remove_dir_all(&folder);
            folder
        });
        let patient = ["--silence-ms", "10000", "--wait-ms", "20000"];
        let text = rules.to_str().expect("it is UTF-8");
        let watch = Watch::start_on("127.0.0.1:0", text, &folder, &patient);
        let nodes = [0, 1].map(|number| {
            Probe::to_checkers([watch.probes.parse().expect("an address")])
                .system("booking")
                .node(NodeId(number), &format!("n{number}"), "server")
                .recording(Recording::into(&records))
                .refresh(|probe| {
                    let (leads, well) = (probe.var("leads"), probe.var("well"));
                    probe.observe(leads, false);
                    probe.observe(well, true);
                })
                .start()
        });
        let service = Service { watch, nodes: nodes.into(), rules, folder, records };
        let both = |status: &Json| {
            let known = |node: usize| status["nodes"][node]["known"] == true;
            known(0) && known(1)
        };
        service.watch.status_when(both);
        service
    }

    fn observe(&self, node: usize, name: &str, value: bool) {
        let probe = &self.nodes[node];
        probe.observe(probe.var(name), value);
        sleep(Duration::from_millis(15));
    }

    fn tuple(
        &self,
        node: usize,
        holds: bool,
        relation: &str,
        key: impl serde::Serialize,
        value: impl serde::Serialize,
    ) {
        let probe = &self.nodes[node];
        let relation = probe.var(relation);
        match holds {
            true => probe.add(relation, key, value),
            false => probe.remove(relation, key, value),
        }
        sleep(Duration::from_millis(15));
    }

    /// Waits until so many violations were told; returns their ids and rules.
    fn fired(&self, number: usize) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        while found.len() < number {
            let json = self.watch.next("fired");
            let text = |field: &str| json[field].as_str().expect("text").to_owned();
            found.insert(text("id"), text("rule"));
        }
        found
    }

    /// Ends the nodes; returns their recordings as one trace.
    fn recorded(&mut self) -> PathBuf {
        self.nodes.clear();
        let whole = merge([&self.records]).expect("there are recordings");
        assert!(whole.diagnostics.is_empty(), "{:?}", whole.diagnostics);
        let mut writer = Writer::new(Vec::new());
        writer.execution(&whole.executions[0]).expect("memory is not full");
        let path = self.records.join("whole.trace");
        fs::write(&path, writer.finish().expect("memory is not full")).expect("it can be written");
        path
    }

    /// The verdict on each rule, by `everhold check` with the file that was watched.
    fn check(&self, trace: &Path, more: &[&str]) -> BTreeMap<String, String> {
        let paths = [&*self.rules, trace].map(|path| path.to_str().expect("it is UTF-8"));
        let output = everhold(&[&["check", "--json"], &paths[..], more].concat());
        let text = String::from_utf8(output.stdout).expect("it is UTF-8");
        let lines = text.lines().map(|line| serde_json::from_str::<Json>(line).expect("JSON"));
        let results = lines.filter(|line| line["is"] == "result");
        let verdicts: BTreeMap<String, String> = results
            .map(|line| {
                let text = |field: &str| line[field].as_str().expect("text").to_owned();
                (text("property"), text("verdict"))
            })
            .collect();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(verdicts.len(), RULES.matches("\"").count() / 2 - 1, "{text}{error}");
        verdicts
    }
}

fn violated(verdicts: &BTreeMap<String, String>) -> BTreeSet<&str> {
    let violated = verdicts.iter().filter(|(_, verdict)| *verdict == "violated");
    violated.map(|(rule, _)| rule.as_str()).collect()
}

/// Every rule is violated once. The evidence of each confirms that one.
#[test]
fn evidence_confirms_what_was_told() {
    let mut service = Service::start("meaning");
    let lock = |mode| Lock { mode, for_whom: Some(NodeId(1)) };
    // Other keys, before and in between, that violate nothing.
    for seat in 0..20 {
        service.nodes[0].add(service.nodes[0].var("sold"), seat, "ada");
    }
    service.observe(0, "leads", true);
    service.tuple(0, true, "locks", ("shard", 1), lock("shared"));
    service.tuple(1, true, "locks", ("shard", 1), lock("shared"));
    // Handed over: never with both at one time, and no message says so.
    for _ in 0..3 {
        service.tuple(0, true, "locks", "handed", lock("exclusive"));
        service.tuple(0, false, "locks", "handed", lock("exclusive"));
        service.tuple(1, true, "locks", "handed", lock("exclusive"));
        service.tuple(1, false, "locks", "handed", lock("exclusive"));
    }
    service.tuple(0, true, "wrote", "page", true);
    for lock_number in 0..3 {
        service.tuple(0, true, "held", lock_number, true);
    }
    service.tuple(0, false, "held", 1, true);
    service.observe(1, "leads", true);
    service.observe(1, "leads", false);
    service.tuple(0, true, "locks", ("shard", 1), lock("exclusive"));
    service.tuple(0, false, "locks", ("shard", 1), lock("exclusive"));
    service.tuple(1, true, "sold", 7, "bob");
    service.tuple(1, false, "sold", 7, "bob");
    // Answered in time, and never answered; the question itself is gone by then.
    service.tuple(0, true, "asked", "in time", true);
    service.tuple(0, true, "answered", "in time", true);
    service.tuple(0, true, "asked", "in vain", true);
    service.tuple(0, false, "asked", "in vain", true);
    service.tuple(1, true, "wrote", "page", true);
    service.tuple(1, false, "wrote", "page", true);
    // The shards of a host have other keys; one of them moves there.
    let shard = |host, size| Shard { host, size };
    service.tuple(0, true, "shards", 1, shard("ada", 3));
    service.tuple(0, true, "shards", 3, shard("bob", 2));
    service.tuple(1, true, "shards", 2, shard("bob", 3));
    service.tuple(1, true, "shards", 2, shard("ada", 3));
    service.tuple(0, true, "shards", 1, shard("bob", 3));
    service.observe(1, "well", false);
    sleep(Duration::from_millis(600));
    service.observe(1, "well", true);
    service.observe(0, "leads", false);
    service.observe(0, "wants", true);
    service.observe(0, "wants", false);
    let fired = service.fired(10);
    let told: BTreeSet<&str> = fired.values().map(String::as_str).collect();
    for (id, rule) in &fired {
        let trace = service.folder.join(format!("violations/{id}.trace"));
        let verdicts = service.check(&trace, &[]);
        let found = violated(&verdicts);
        // An earlier violation of another rule may be in it too: that happened.
        assert!(found.contains(rule.as_str()), "{id} {rule}: {verdicts:?}");
        assert!(found.is_subset(&told), "{id} {rule}: {verdicts:?}");
    }
    // And so does the recording, of all. It shows that time passed by what happens later.
    service.observe(0, "well", true);
    let whole = service.recorded();
    let verdicts = service.check(&whole, &["--order", "recorded"]);
    assert_eq!(violated(&verdicts), told);
}

/// Rules that hold for the watch hold in the recording too.
#[test]
fn a_recording_of_what_was_watched_has_the_same_verdicts() {
    let mut service = Service::start("agree");
    let lock = |mode| Lock { mode, for_whom: None };
    service.observe(0, "leads", true);
    for number in 0..20 {
        let node = number % 2;
        service.tuple(node, true, "locks", 3, lock("exclusive"));
        service.tuple(node, true, "sold", number, "ada");
        service.tuple(node, true, "locks", 3, lock("shared"));
        service.tuple(node, false, "locks", 3, lock("shared"));
        service.tuple(node, false, "sold", number, "ada");
    }
    service.tuple(0, true, "held", 1, true);
    service.tuple(0, true, "asked", 1, true);
    service.tuple(0, true, "answered", 1, true);
    service.tuple(0, true, "wrote", 1, true);
    service.tuple(0, true, "shards", 1, Shard { host: "ada", size: 3 });
    service.tuple(1, true, "shards", 2, Shard { host: "bob", size: 5 });
    service.observe(0, "wants", true);
    let wait = Instant::now();
    let status = service.watch.status_when(|status| {
        let holds = |rule: &Json| rule["verdict"] == "holds";
        let all = status["rules"].as_array().is_some_and(|rules| rules.iter().all(holds));
        (all && status["keys"].as_u64() > Some(1)) || wait.elapsed() > Duration::from_secs(5)
    });
    let watched: BTreeMap<String, String> = (status["rules"].as_array().expect("a list").iter())
        .map(|rule| ["name", "verdict"].map(|field| rule[field].as_str().unwrap().to_owned()))
        .map(|[name, verdict]| (name, verdict))
        .collect();
    let whole = service.recorded();
    assert_eq!(service.check(&whole, &["--order", "recorded"]), watched);
}

//! The watch: a process with an embedded engine, or one that shares the stream server's.
//!
//! Every 50 ms it prints how it does; see [`Standing`].

use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use everhold_property::Verdict;
use everhold_watch::export;
use everhold_watch::nats::{Nats, NatsOptions};
use everhold_watch::{
    Evidence, FileStore, Intake, IntakeOptions, Log, LogError, SegmentLog, SegmentOptions, Store,
    Watch, WatchOptions, WatchParts,
};

use super::node::setting;

/// The rules of every row: the first is about states, the second about time.
pub(super) const RULES: &str = r#"always "one holder": forall a, b in nodes where a != b:
  not (a.locks[key] == "exclusive" and b.locks[key] != null)
always "answered": forall n in nodes:
  n.asked[key] != null leads to n.asked[key] == null within 4s"#;

/// How many partitions there are on the stream server.
pub(super) const PARTITIONS: u32 = 4;

/// The status of a watch.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Standing {
    /// Whether it can say of every rule whether it holds.
    pub(super) is_known: bool,
    /// How many nodes are up and known.
    pub(super) nodes: usize,
    /// How many partitions are its own.
    pub(super) partitions: u32,
    /// How many records were lost, as it knows.
    pub(super) dropped: u64,
    /// The numbers of the nodes whose clocks disagree with most.
    pub(super) strays: Vec<u32>,
    pub(super) reason: String,
}

impl Standing {
    fn of(watch: &Watch, intake: &Intake) -> Standing {
        let standing = export::Standing::of(watch, Some(intake.counts()));
        let partitions = watch.status();
        let members = || partitions.values().flat_map(|status| &status.members);
        let is_whole = |id| members().filter(|m| m.member.id == id).all(|m| m.known && m.member.up);
        let ids = partitions.values().next().map_or(&[][..], |status| &status.members);
        let strays = ids.iter().filter(|m| m.strays).map(|m| m.member.id.0).collect();
        let reason = standing.failing.first().cloned();
        let reason = reason.or_else(|| standing.rules.iter().find_map(|rule| rule.reason.clone()));
        Standing {
            is_known: standing.verdict() != Verdict::Unknown && standing.failing.is_empty(),
            nodes: ids.iter().filter(|m| is_whole(m.member.id)).count(),
            partitions: partitions.len() as u32,
            dropped: partitions.values().map(|p| p.counts.dropped).max().unwrap_or(0),
            strays,
            reason: reason.unwrap_or_default().replace('\n', " "),
        }
    }

    fn line(&self) -> String {
        let strays: Vec<String> = self.strays.iter().map(u32::to_string).collect();
        let known = u8::from(self.is_known);
        let (nodes, partitions, dropped) = (self.nodes, self.partitions, self.dropped);
        let strays = strays.join(",");
        format!("standing {known} {nodes} {partitions} {dropped} ({strays}) {}", self.reason)
    }

    /// The meaning of a line; `None` if it is about something else.
    pub(super) fn read(line: &str) -> Option<Standing> {
        let mut words = line.strip_prefix("standing ")?.splitn(6, ' ');
        let is_known = words.next()? == "1";
        let nodes = words.next()?.parse().ok()?;
        let partitions = words.next()?.parse().ok()?;
        let dropped = words.next()?.parse().ok()?;
        let strays = words.next()?.trim_matches(['(', ')']).split(',');
        let strays = strays.filter_map(|id| id.parse().ok()).collect();
        let reason = words.next().unwrap_or_default().to_owned();
        Some(Standing { is_known, nodes, partitions, dropped, strays, reason })
    }
}

/// `folder=... listen=ADDRESS [secret=...] [engine=URL]`: judges until it is killed.
pub(super) fn run(words: &[&str]) {
    let folder = Path::new(setting(words, "folder").expect("a folder"));
    std::fs::create_dir_all(folder).expect("it can be made");
    let (log, store) = match setting(words, "engine") {
        Some(url) => stream_server(url),
        None => embedded(folder).expect("a folder"),
    };
    let parts = WatchParts {
        log: Arc::clone(&log),
        store,
        evidence: Evidence::open(folder).expect("a folder"),
        flows: Arc::new(Vec::new),
        told: Box::new(|_| {}),
        trouble: Box::new(|text| say(&format!("trouble {text}"))),
    };
    let watch = Watch::start(parts, WatchOptions::default()).expect("a store");
    if watch.rules().as_deref() != Some(RULES) && setting(words, "rules").is_some() {
        watch.set_rules(RULES, "rules").expect("they are right");
    }
    let secret = setting(words, "secret").unwrap_or_default().as_bytes().to_vec();
    let options = IntakeOptions { secret, ..IntakeOptions::default() };
    let listener = TcpListener::bind(setting(words, "listen").expect("an address"));
    let complain = |text| say(&format!("trouble {text}"));
    let intake = Intake::start(listener.expect("it is free"), log, options, complain);
    let intake = intake.expect("a thread to spare");
    watch.ask_through(intake.asker());
    loop {
        say(&Standing::of(&watch, &intake).line());
        sleep(Duration::from_millis(50));
    }
}

/// Prints a line, which nobody may be there to read.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{}", line.replace('\n', " "));
}

fn embedded(folder: &Path) -> Result<(Arc<dyn Log>, Box<dyn Store>), LogError> {
    let log = SegmentLog::open(&folder.join("log"), SegmentOptions::default())?;
    Ok((Arc::new(log), Box::new(FileStore::open(folder, 1)?)))
}

/// A server that just started needs a moment.
fn stream_server(url: &str) -> (Arc<dyn Log>, Box<dyn Store>) {
    let options = NatsOptions { partitions: PARTITIONS, ..NatsOptions::new(url) };
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        match Nats::connect(&options) {
            Ok(nats) => return (Arc::new(nats.log()), Box::new(nats.store())),
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        sleep(Duration::from_millis(100));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standing_is_read_as_it_was_written() {
        let reason = "the log cannot be written".to_owned();
        let strays = vec![1, 3];
        let standing =
            Standing { is_known: false, nodes: 2, partitions: 4, dropped: 7, strays, reason };
        assert_eq!(Standing::read(&standing.line()), Some(standing));
        assert_eq!(Standing::read("trouble with it"), None);
    }
}

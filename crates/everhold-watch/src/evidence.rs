//! Violations on disk: a synced line each, and a trace that the other commands open.
//!
//! A violation is reported once, whichever checker finds it: the file remembers the identities. A
//! violation is written before it is reported, which a kill cannot undo, and unlike the log the file is
//! synced at once, so that a power cut loses only the reports of its last moment.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use everhold_trace::format::Writer;
use everhold_trace::value::json::AsJson;
use serde_json::{Map, Value as Json, json};

use crate::log::LogError;
use crate::notice::{Certainty, Notice, Violation, ViolationId};
use crate::recent::Recent;
use crate::rule::NotWatched;

/// The number of identities that are remembered. Older ones cannot come again, since the log before
/// them is gone.
const REMEMBERED_MAX: usize = 1 << 20;

/// The violations that were reported, and their files.
#[derive(Debug)]
pub struct Evidence {
    folder: PathBuf,
    file: File,
    /// Whether each is over.
    told: BTreeMap<ViolationId, bool>,
    order: VecDeque<ViolationId>,
    recent: Recent,
    /// Lines that could not be written yet, and why.
    unwritten: Vec<u8>,
    failure: Option<LogError>,
}

/// The largest size in bytes of lines that wait because they cannot be written; violations beyond it
/// are only reported.
const UNWRITTEN_MAX: usize = 16 << 20;

impl Evidence {
    /// The evidence in a folder, which is made if need be.
    pub fn open(folder: &Path) -> Result<Evidence, LogError> {
        let traces = folder.join("violations");
        fs::create_dir_all(&traces).map_err(|error| LogError::io(&traces, error))?;
        let path = folder.join("violations.jsonl");
        let open = OpenOptions::new().create(true).append(true).read(true).open(&path);
        let mut file = open.map_err(|error| LogError::io(&path, error))?;
        let (mut told, mut order, mut recent) = <(BTreeMap<_, _>, VecDeque<_>, Recent)>::default();
        let mut ends_well = true;
        let mut lines = BufReader::new(&file);
        let mut line = String::new();
        while lines.read_line(&mut line).map_err(|error| LogError::io(&path, error))? > 0 {
            ends_well = line.ends_with('\n');
            if let Some((id, over, json)) = read_line(&line) {
                recent.push(json);
                if told.insert(id, over).is_none() {
                    order.push_back(id);
                }
            }
            line.clear();
        }
        if !ends_well {
            // A kill in the middle of a line: what follows must not be glued to it.
            file.write_all(b"\n").map_err(|error| LogError::io(&path, error))?;
        }
        let (unwritten, failure) = (Vec::new(), None);
        Ok(Evidence { folder: traces, file, told, order, recent, unwritten, failure })
    }

    /// The file, for whoever syncs it.
    pub(crate) fn handle(&self) -> Result<File, LogError> {
        self.file.try_clone().map_err(|error| LogError::io(&self.folder, error))
    }

    /// The violations that the file had when it was opened, the last ones.
    pub(crate) fn take_recent(&mut self) -> Recent {
        std::mem::take(&mut self.recent)
    }

    /// Where the traces are.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Which of the notices are news. Those that are, are in the file when this returns, to be synced
    /// by whoever has the time; unless it cannot be written, which [`failure`](Self::failure) says.
    /// Then they are written with the next ones.
    pub fn record(&mut self, notices: &[Notice]) -> Vec<bool> {
        let mut lines = std::mem::take(&mut self.unwritten);
        self.failure = None;
        let news = notices.iter().map(|notice| self.note(notice, &mut lines)).collect();
        if let Err(error) = self.file.write_all(&lines) {
            self.failure = Some(LogError::io(&self.folder, error));
            // A part may have been written: what follows must not be glued to it.
            self.unwritten.push(b'\n');
            lines.truncate(UNWRITTEN_MAX);
            self.unwritten.append(&mut lines);
        }
        news
    }

    /// Why the last notices are not all in the file.
    #[must_use]
    pub fn failure(&self) -> Option<&LogError> {
        self.failure.as_ref()
    }

    /// Whether a notice is news; adds its line.
    fn note(&mut self, notice: &Notice, lines: &mut Vec<u8>) -> bool {
        let (id, over) = match notice {
            Notice::Fired(violation) | Notice::Possible(violation) => (violation.id, false),
            Notice::Resolved { id, .. } => (*id, true),
            _ => return true,
        };
        if self.told.get(&id).is_some_and(|known| *known || !over) {
            return false;
        }
        if let Notice::Fired(violation) | Notice::Possible(violation) = notice {
            let path = self.trace_path(violation.id);
            if let Err(error) = write_trace(&path, violation) {
                self.failure = Some(LogError::io(&path, error));
            }
        }
        lines.extend(serde_json::to_vec(&to_json(notice)).unwrap_or_default());
        lines.push(b'\n');
        if self.told.insert(id, over).is_none() {
            self.order.push_back(id);
        }
        if self.order.len() > REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.told.remove(&oldest);
        }
        true
    }

    /// The file with the trace of a violation.
    #[must_use]
    pub fn trace_path(&self, id: ViolationId) -> PathBuf {
        trace_path(&self.folder, id)
    }
}

pub(crate) fn trace_path(folder: &Path, id: ViolationId) -> PathBuf {
    folder.join(format!("{id}.trace"))
}

fn read_line(line: &str) -> Option<(ViolationId, bool, Json)> {
    let json: Json = serde_json::from_str(line).ok()?;
    let id = u64::from_str_radix(json.get("id")?.as_str()?, 16).ok()?;
    let over = json.get("event")?.as_str()? == "resolved";
    Some((ViolationId(id), over, json))
}

fn write_trace(path: &Path, violation: &Violation) -> std::io::Result<()> {
    let mut writer = Writer::new(Vec::new());
    writer.execution(&violation.trace)?;
    // The line is what is synced; a trace that a power cut takes can be made again from the log.
    fs::write(path, writer.finish()?)
}

/// A notice as JSON, the same in the evidence file, on the standard output and for programs.
#[must_use]
pub fn to_json(notice: &Notice) -> Json {
    let key = |key: &Option<everhold_trace::Value>| {
        key.as_ref().map_or(Json::Null, |key| json!(AsJson(key)))
    };
    match notice {
        Notice::Fired(v) | Notice::Possible(v) => {
            let event = if matches!(notice, Notice::Fired(_)) { "fired" } else { "possible" };
            let (certainty, error) = match v.certainty {
                Certainty::Definite => ("definite", None),
                Certainty::Possible { error } => ("possible", Some(error)),
            };
            let witness: Map<String, Json> =
                v.witness.iter().map(|(text, value)| (text.clone(), json!(value))).collect();
            json!({
                "event": event, "id": v.id.to_string(), "rule": v.rule, "key": key(&v.key),
                "at": v.at.nanos(), "reason": v.reason, "witness": witness, "text": v.text,
                "certainty": certainty, "clock_error_us": error,
            })
        }
        Notice::Resolved { id, rule, key: k, since, at } => json!({
            "event": "resolved", "id": id.to_string(), "rule": rule, "key": key(k),
            "since": since.nanos(), "at": at.nanos(),
        }),
        Notice::Incomplete { node, name, reason, at } => json!({
            "event": "incomplete", "node": node.0, "name": name, "reason": reason,
            "at": at.nanos(),
        }),
        Notice::Membership { node, name, what, at } => json!({
            "event": what, "node": node.0, "name": name, "at": at.nanos(),
        }),
        Notice::Clock { node, name, ahead, strays, at } => json!({
            "event": "clock", "node": node.map(|node| node.0), "name": name,
            "ahead_ms": *ahead as f64 / 1e3, "strays": strays, "at": at.nanos(),
        }),
        Notice::Rules { names, not_watched, refused } => {
            let aside = |rule: &NotWatched| json!({ "name": rule.name, "reason": rule.reason });
            let not_watched: Vec<Json> = not_watched.iter().map(aside).collect();
            json!({
                "event": "rules", "names": names, "not_watched": not_watched, "refused": refused,
            })
        }
        Notice::Disabled { rule } => json!({ "event": "disabled", "rule": rule }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everhold_trace::Execution;
    use everhold_trace::wire::Stamp;

    fn violation(at: u64) -> Notice {
        let at = Stamp(at);
        Notice::Fired(Box::new(Violation {
            id: ViolationId::new("r", None, at),
            rule: "r".into(),
            text: String::new(),
            key: None,
            at,
            reason: String::new(),
            witness: Vec::new(),
            trace: Execution::default(),
            certainty: Certainty::Definite,
        }))
    }

    #[test]
    fn what_a_full_disk_does_not_take_is_told_once_and_written_later() {
        let folder = std::env::temp_dir().join(format!("everhold-full-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let mut evidence = Evidence::open(&folder).expect("a folder");
        let full = OpenOptions::new().write(true).open("/dev/full").expect("it is there");
        let disk = std::mem::replace(&mut evidence.file, full);
        assert_eq!(evidence.record(&[violation(1), violation(2)]), [true, true]);
        assert!(evidence.failure().is_some());
        assert_eq!(evidence.record(&[violation(2), violation(3)]), [false, true]);
        evidence.file = disk;
        assert_eq!(evidence.record(&[]), [true; 0]);
        assert!(evidence.failure().is_none());
        let text = fs::read_to_string(folder.join("violations.jsonl")).expect("it is there");
        let ids: Vec<_> = text.lines().filter_map(read_line).map(|(id, ..)| id).collect();
        let expected = [1, 2, 3].map(|at| ViolationId::new("r", None, Stamp(at)));
        assert_eq!(ids, expected);
        let _ = fs::remove_dir_all(&folder);
    }
}

//! The recordings of a run as one trace.
//!
//! The processes of a system record into folders of their own. Folders that were written at the same
//! time are one run. Nothing tells which message of the program belongs to which event, so the
//! order of the stamps is the only one that is known: the states of several nodes are compared in
//! snapshots along it, and the steps of each node are a run of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::Result;
use everhold_live::recording::merge;
use everhold_trace::format::Writer;
use everhold_trace::{Event, EventKind, Execution, NodeId, Observation, Value};

/// The largest number of snapshots of all runs; of longer runs they are spread evenly.
const SNAPSHOTS_MAX: usize = 3_000;

/// A summary of the recordings.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub(super) runs: usize,
    pub(super) events: usize,
    /// The places of which observations were left out.
    pub(super) sampled: BTreeSet<String>,
}

/// The recording of one run of a process.
struct Part {
    folder: PathBuf,
    /// The first and last moment.
    span: (i64, i64),
}

/// Collects the recordings in the folders of a folder into a trace.
pub(super) fn collect(folder: &Path, trace: &Path) -> Result<Made> {
    let mut made = Made::default();
    let mut parts = Vec::new();
    for entry in fs::read_dir(folder)? {
        let folder = entry?.path();
        if let Ok(text) = fs::read_to_string(folder.join("sampled")) {
            made.sampled.extend(text.lines().map(str::to_owned));
        }
        if let Some(span) = span(&folder) {
            parts.push(Part { folder, span });
        }
    }
    parts.sort_by_key(|part| part.span);
    let mut writer = Writer::new(BufWriter::new(File::create(trace)?));
    let groups = groups(parts);
    let most = (SNAPSHOTS_MAX / groups.len().max(1)).max(50);
    for group in groups {
        let whole = merge(group.iter().map(|part| &part.folder))?;
        for execution in &whole.executions {
            made.runs += 1;
            made.events += execution.events().len();
            let name = group[0]
                .folder
                .file_name()
                .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
            write(execution, &name, most, &mut writer)?;
        }
    }
    writer.finish()?;
    Ok(made)
}

/// Returns the first and last moment of a recording, if it has events.
fn span(folder: &Path) -> Option<(i64, i64)> {
    let whole = merge([folder]).ok()?;
    let events = whole.executions.iter().flat_map(Execution::events);
    let times: Vec<i64> = events.filter_map(|event| event.time.physical_ns).collect();
    Some((*times.iter().min()?, *times.iter().max()?))
}

/// Puts recordings that overlap in time together.
fn groups(parts: Vec<Part>) -> Vec<Vec<Part>> {
    let mut groups: Vec<Vec<Part>> = Vec::new();
    let mut end = i64::MIN;
    for part in parts {
        let (from, to) = part.span;
        match groups.last_mut() {
            Some(group) if from <= end => group.push(part),
            _ => groups.push(vec![part]),
        }
        end = end.max(to);
    }
    groups
}

type Output = Writer<BufWriter<File>>;

fn write(execution: &Execution, name: &str, most: usize, writer: &mut Output) -> Result<()> {
    let states = states(execution);
    for node in execution.node_ids() {
        writer.begin_run(&format!("{name} {}", execution.node(node).name), &BTreeMap::new())?;
        let info = execution.node(node);
        let id = writer.node(&info.name, &info.kind)?;
        for (_, event, state) in states.iter().filter(|(of, ..)| *of == node) {
            let mut step = Event::new(id, event.kind.clone());
            step.time = event.time;
            step.observation = Some(Observation::State(state.clone()));
            writer.event(&step)?;
        }
        writer.end_run()?;
    }
    snapshots(execution, name, &states, most, writer)
}

/// Returns the observations in the order of the recording, each with the state of its node.
fn states(execution: &Execution) -> Vec<(NodeId, &Event, Value)> {
    let mut current: BTreeMap<NodeId, Value> = BTreeMap::new();
    let mut found = Vec::new();
    for event in execution.events() {
        match &event.observation {
            Some(Observation::State(state)) => drop(current.insert(event.node, state.clone())),
            Some(Observation::Changes(changes)) => {
                let state = current.entry(event.node).or_default();
                // A change that does not fit was reported when the recording was read.
                let _ = everhold_trace::value::apply(state, changes);
            }
            None => continue,
        }
        found.push((event.node, event, current[&event.node].clone()));
    }
    found
}

/// Writes the states of all nodes at moments of a run as runs of their own.
fn snapshots(
    execution: &Execution,
    name: &str,
    states: &[(NodeId, &Event, Value)],
    most: usize,
    writer: &mut Output,
) -> Result<()> {
    if execution.nodes().len() < 2 {
        return Ok(());
    }
    let stride = states.len().div_ceil(most).max(1);
    let mut current: BTreeMap<NodeId, &Value> = BTreeMap::new();
    for (at, (node, _, state)) in states.iter().enumerate() {
        current.insert(*node, state);
        if at % stride != 0 || current.len() < 2 {
            continue;
        }
        writer.begin_run(&format!("{name} snapshot {at}"), &BTreeMap::new())?;
        let nodes: Vec<_> = execution.nodes().iter().collect();
        let ids: Vec<NodeId> = nodes
            .iter()
            .map(|info| writer.node(&info.name, &info.kind))
            .collect::<std::io::Result<_>>()?;
        for (node, state) in &current {
            let mut event = Event::new(ids[node.index()], EventKind::Start);
            event.observation = Some(Observation::State((*state).clone()));
            writer.event(&event)?;
        }
        writer.end_run()?;
    }
    Ok(())
}

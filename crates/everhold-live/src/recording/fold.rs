//! The conversion of a stream of records to the events of a trace.

use std::collections::BTreeSet;

use everhold_trace::wire::{Name, Record, Shown, Stamp, What};
use everhold_trace::{Event, EventKind, NodeId, Observation, Send, Time, Value};

/// The state that a node shows, and the step that it is in.
#[derive(Debug)]
pub(super) struct Fold {
    node: NodeId,
    shown: Shown,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    event: Event,
    /// Whether the service itself began the step, so that later records belong to it.
    explicit: bool,
    /// The variables observed in it; a second value of one of them is another step.
    seen: BTreeSet<String>,
    changed: bool,
}

impl Fold {
    pub(super) fn new(node: NodeId) -> Fold {
        Fold { node, shown: Shown::default(), open: None }
    }

    /// Takes in a record; returns the event that ended with it, if any.
    pub(super) fn record(&mut self, record: &Record) -> Option<Event> {
        match &record.what {
            What::Event(kind) => self.begin(kind.clone(), record.at, true),
            What::Observe(values) => {
                let again =
                    |open: &Open| values.iter().any(|(name, _)| open.seen.contains(&**name));
                let ended = self.belongs(record.at, again);
                self.shows(&record.what, values);
                ended
            }
            What::State(values) => {
                let ended = self.belongs(record.at, |open| !open.seen.is_empty());
                self.shows(&record.what, values);
                ended
            }
            What::Add(_) | What::Remove(_) => {
                let ended = self.belongs(record.at, |_| false);
                self.shows(&record.what, &[]);
                ended
            }
            What::Send { to, seq, label } => {
                let ended = self.belongs(record.at, |_| false);
                let label = label.as_ref().to_owned();
                let send = Send { to: *to, seq: *seq, label, payload: None };
                self.event().sends.push(send);
                ended
            }
            What::Refresh => {
                self.shown.apply(&record.what);
                None
            }
            What::Whole => {
                let ended = self.belongs(record.at, |_| false);
                self.shows(&record.what, &[]);
                ended
            }
            What::Note(text) => {
                let ended = self.belongs(record.at, |_| false);
                add_line(self.event(), text);
                ended
            }
        }
    }

    /// Notes that records were dropped before this point: the known state may be wrong from here
    /// on.
    pub(super) fn lost(&mut self, records: u64) {
        if let Some(open) = &mut self.open {
            add_line(&mut open.event, &format!("{records} records were dropped about here"));
        }
    }

    /// Returns the last event.
    pub(super) fn end(&mut self) -> Option<Event> {
        let Open { mut event, changed, .. } = self.open.take()?;
        if changed {
            event.observation = Some(Observation::State(self.shown.state()));
        }
        Some(event)
    }

    fn begin(&mut self, kind: EventKind, at: Stamp, explicit: bool) -> Option<Event> {
        let ended = self.end();
        self.shown.apply(&What::Event(kind.clone()));
        let mut event = Event::new(self.node, kind);
        event.time = Time { logical: Some(at.0), physical_ns: Some(at.nanos()) };
        self.open = Some(Open { event, explicit, seen: BTreeSet::new(), changed: false });
        ended
    }

    /// Ensures that there is an open event to which the next record belongs.
    fn belongs(&mut self, at: Stamp, is_another: impl Fn(&Open) -> bool) -> Option<Event> {
        match &self.open {
            Some(open) if open.explicit && !is_another(open) => None,
            _ => self.begin(EventKind::Local { name: "observe".to_owned() }, at, false),
        }
    }

    /// Applies a record to the state within the open event.
    fn shows(&mut self, what: &What, values: &[(Name, Value)]) {
        let shows = self.shown.apply(what);
        let open = self.open.as_mut().expect("an event is open");
        open.changed |= shows;
        open.seen.extend(values.iter().map(|(name, _)| name.as_ref().to_owned()));
    }

    fn event(&mut self) -> &mut Event {
        &mut self.open.as_mut().expect("an event is open").event
    }
}

fn add_line(event: &mut Event, line: &str) {
    match &mut event.text {
        Some(text) => {
            text.push('\n');
            text.push_str(line);
        }
        none => *none = Some(line.to_owned()),
    }
}

//! Which violations are certain although clocks are not exact.
//!
//! Snapshots are put together by stamps, and a stamp may differ from the true time by the error that
//! its node states. So two events of different nodes are ordered only if their stamps are further
//! apart than both errors, or if a message orders them, whose stamp the receiver's clock has passed.
//! A violated snapshot is certain if what each of its nodes showed then surely overlapped with what
//! each of the others showed: `x` began to show it before `y` ceased to, errors considered, for
//! every `x` and `y` (Stoller, "Detecting global predicates in distributed systems with clocks",
//! 2000). Then the rule is *definitely* violated. If it held again before that could be known, the
//! order that the stamps suggest may not have been the true one: it is *possibly* violated.
//!
//! That something is late is certain once it is so by more than the errors of the two least exact clocks
//! that measure it; if it came before that, it may have been in time.
//!
//! A suspicion is a violation between the two. While the violation lasts, it waits for a moment in
//! which its nodes rest for longer than the errors of their clocks.

use everhold_trace::NodeId;
use everhold_trace::format::{ReadOptions, Writer, read_all};
use everhold_trace::wire::Stamp;
use everhold_trace::{Execution, Value};

use crate::notice::{Certainty, Violation, ViolationId};
use crate::save::{Fields, Read, bad, list, number, stamp};

/// Which violations are alarms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Alarm {
    /// Those that are certain. Possible ones are counted and shown.
    #[default]
    Definite,
    /// Possible ones as well.
    Possible,
}

/// A violation that is not certain yet.
#[derive(Clone, Debug)]
pub(crate) struct Suspicion {
    pub(crate) violation: Box<Violation>,
    spans: Vec<Span>,
    /// When something was due that is late: that is certain once it is so by more than the errors of
    /// the clocks that measure it.
    due: Option<Stamp>,
    /// When the rule held again, if it does.
    pub(crate) over: Option<Stamp>,
    /// Whether it became certain between two snapshots.
    certain: bool,
}

/// While one node showed what the violation depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    node: NodeId,
    begin: Stamp,
    end: Option<Stamp>,
}

/// How a suspicion stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Open,
    Definite,
    Possible,
}

impl Suspicion {
    /// `begun`: of each node that the violation depends on, since when it shows what it shows.
    pub(crate) fn new(
        violation: Box<Violation>,
        begun: impl IntoIterator<Item = (NodeId, Stamp)>,
    ) -> Suspicion {
        let span = |(node, begin)| Span { node, begin, end: None };
        Suspicion {
            violation,
            spans: begun.into_iter().map(span).collect(),
            due: None,
            over: None,
            certain: false,
        }
    }

    /// Something was due that is late by the clocks of these nodes. One clock by itself is exact. `over`:
    /// when it came, if it did.
    pub(crate) fn late(
        violation: Box<Violation>,
        nodes: impl IntoIterator<Item = NodeId>,
        due: Stamp,
        over: Option<Stamp>,
    ) -> Suspicion {
        let nodes = nodes.into_iter().map(|node| (node, due));
        Suspicion { due: Some(due), over, ..Suspicion::new(violation, nodes) }
    }

    /// A node shows something else from this stamp on, and the rule is still violated.
    pub(crate) fn goes_on(&mut self, node: NodeId, at: Stamp, error: &impl Fn(NodeId) -> u64) {
        self.certain |= self.is_certain(at, error);
        for span in self.spans.iter_mut().filter(|span| span.node == node) {
            span.begin = at;
        }
    }

    /// The rule holds again from this stamp on, because of what this node shows.
    pub(crate) fn is_over(&mut self, node: NodeId, at: Stamp) {
        self.over = Some(at);
        if self.spans.iter().all(|span| span.node != node) {
            self.spans.push(Span { node, begin: self.violation.at, end: None });
        }
        self.ends(node, at);
    }

    /// A node shows something else from this stamp on, after the rule held again.
    pub(crate) fn ends(&mut self, node: NodeId, at: Stamp) {
        for span in self.spans.iter_mut().filter(|span| span.node == node) {
            span.end.get_or_insert(at);
        }
    }

    /// How it stands when all changes below `reached` are known.
    pub(crate) fn standing(&self, reached: Stamp, error: &impl Fn(NodeId) -> u64) -> Standing {
        if self.certain || self.is_certain(reached, error) {
            return Standing::Definite;
        }
        if self.due.is_some() {
            return if self.over.is_some() { Standing::Possible } else { Standing::Open };
        }
        // What is not over yet may still become certain; neither may what ended too early.
        let decided = self.spans.iter().any(|span| {
            let end = span.end.unwrap_or(Stamp(u64::MAX));
            end.0.saturating_sub(error(span.node)) < self.latest_but(span.node, error)
        });
        if self.over.is_some() && decided { Standing::Possible } else { Standing::Open }
    }

    fn is_certain(&self, reached: Stamp, error: &impl Fn(NodeId) -> u64) -> bool {
        if let Some(due) = self.due {
            let end = self.over.unwrap_or(reached).0;
            return end.saturating_sub(self.error_units(error)) >= due.0;
        }
        self.spans.iter().all(|span| {
            let end = span.end.unwrap_or(reached).0;
            end.saturating_sub(error(span.node)) >= self.latest_but(span.node, error)
        })
    }

    /// The latest time at which another node may have begun; 0 if there is no other.
    fn latest_but(&self, node: NodeId, error: &impl Fn(NodeId) -> u64) -> u64 {
        let others = self.spans.iter().filter(|span| span.node != node);
        others.map(|span| span.begin.0 + error(span.node)).max().unwrap_or(0)
    }

    /// By how many microseconds the order of two of its nodes may be wrong.
    pub(crate) fn error_micros(&self, error: &impl Fn(NodeId) -> u64) -> u64 {
        Stamp(self.error_units(error)).micros()
    }

    fn error_units(&self, error: &impl Fn(NodeId) -> u64) -> u64 {
        if self.spans.len() < 2 {
            return 0;
        }
        let mut errors: Vec<u64> = self.spans.iter().map(|span| error(span.node)).collect();
        errors.sort_unstable();
        errors.iter().rev().take(2).sum()
    }

    pub(crate) fn save(&self) -> Value {
        let spans = self.spans.iter().map(|span| {
            let end = list(span.end.map(stamp));
            list([number(span.node.0.into()), stamp(span.begin), end])
        });
        list([
            save_violation(&self.violation),
            list(spans),
            list(self.due.map(stamp)),
            list(self.over.map(stamp)),
            self.certain.into(),
        ])
    }

    pub(crate) fn load(fields: &mut Fields) -> Read<Suspicion> {
        let violation = Box::new(load_violation(&mut Fields::of(fields.any()?)?)?);
        let maybe = |value: Value| Ok(Fields::of(value)?.stamp().ok());
        let span =
            |f: &mut Fields| Ok(Span { node: f.node()?, begin: f.stamp()?, end: maybe(f.any()?)? });
        let (spans, due) = (fields.each(span)?, maybe(fields.any()?)?);
        let over = maybe(fields.any()?)?;
        Ok(Suspicion { violation, spans, due, over, certain: fields.flag()? })
    }
}

fn save_violation(violation: &Violation) -> Value {
    let witness = violation.witness.iter();
    let witness = witness.map(|(text, value)| list([text.as_str().into(), value.as_str().into()]));
    list([
        number(violation.id.0),
        violation.rule.as_str().into(),
        violation.text.as_str().into(),
        list(violation.key.clone()),
        stamp(violation.at),
        violation.reason.as_str().into(),
        list(witness),
        Value::Text(trace_text(&violation.trace)),
    ])
}

fn load_violation(fields: &mut Fields) -> Read<Violation> {
    Ok(Violation {
        id: ViolationId(fields.number()?),
        rule: fields.text()?,
        text: fields.text()?,
        key: fields.items()?.pop(),
        at: fields.stamp()?,
        reason: fields.text()?,
        witness: fields.each(|f| Ok((f.text()?, f.text()?)))?,
        trace: {
            let read = read_all(fields.text()?.as_bytes(), &ReadOptions::strict());
            read.map_err(bad)?.executions.into_iter().next().unwrap_or_default()
        },
        certainty: Certainty::Definite,
    })
}

fn trace_text(trace: &Execution) -> String {
    let mut writer = Writer::new(Vec::new());
    let written = writer.execution(trace).and_then(|()| writer.finish());
    written.ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Standing::{Definite, Open, Possible};

    fn violation() -> Box<Violation> {
        let at = Stamp(100);
        Box::new(Violation {
            id: ViolationId(1),
            rule: "rule".to_owned(),
            text: String::new(),
            key: Some(Value::Int(7)),
            at,
            reason: "it is false".to_owned(),
            witness: vec![("a".to_owned(), "n1".to_owned())],
            trace: Execution::default(),
            certainty: Certainty::Definite,
        })
    }

    /// Two nodes begin and end to hold something; all clocks have an error of 10. `None`: it goes
    /// on until 1000.
    #[track_caller]
    fn check(a: (u64, Option<u64>), b: (u64, Option<u64>), expected: Standing) {
        let nodes = [NodeId(0), NodeId(1)];
        let mut suspicion =
            Suspicion::new(violation(), [(nodes[0], Stamp(a.0)), (nodes[1], Stamp(b.0))]);
        for (node, end) in [(nodes[0], a.1), (nodes[1], b.1)] {
            if let Some(end) = end {
                suspicion.is_over(node, Stamp(end));
            }
        }
        let saved = Suspicion::load(&mut Fields::of(suspicion.save()).unwrap()).unwrap();
        for one in [suspicion, saved] {
            assert_eq!(one.standing(Stamp(1000), &|_| 10), expected);
        }
    }

    #[test]
    fn what_overlaps_by_more_than_the_errors_is_certain() {
        check((100, None), (150, None), Definite);
        check((100, None), (985, None), Open);
        check((100, Some(170)), (150, None), Definite);
        check((100, Some(169)), (150, None), Possible);
        check((150, None), (100, Some(169)), Possible);
        // Short, but far within what the other held.
        check((100, None), (500, Some(501)), Definite);
        check((100, Some(510)), (500, Some(501)), Possible);
        check((100, Some(520)), (500, Some(501)), Definite);
    }

    #[test]
    fn a_violation_of_one_node_is_certain_at_once() {
        let one = Suspicion::new(violation(), [(NodeId(0), Stamp(100))]);
        assert_eq!(one.standing(Stamp(100), &|_| 1_000), Definite);
        let exact = Suspicion::new(violation(), [(NodeId(0), Stamp(5)), (NodeId(1), Stamp(100))]);
        assert_eq!(exact.standing(Stamp(100), &|_| 0), Definite);
    }

    #[test]
    fn a_violation_that_goes_on_is_certain_once_its_nodes_rest() {
        let error = |_| 10;
        let nodes = [NodeId(0), NodeId(1)];
        let mut one = Suspicion::new(violation(), nodes.map(|node| (node, Stamp(100))));
        for at in (105..200).step_by(5) {
            one.goes_on(nodes[at as usize % 2], Stamp(at), &error);
            assert_eq!(one.standing(Stamp(at), &error), Open);
        }
        one.goes_on(nodes[0], Stamp(230), &error);
        assert_eq!(one.standing(Stamp(230), &error), Definite);
    }

    /// Something is due at 100, and comes at a time by the clocks of so many nodes, each with an error
    /// of 10.
    #[track_caller]
    fn check_late(nodes: u32, comes: Option<u64>, reached: u64, expected: Standing) {
        let (nodes, comes) = ((0..nodes).map(NodeId), comes.map(Stamp));
        let suspicion = Suspicion::late(violation(), nodes, Stamp(100), comes);
        let saved = Suspicion::load(&mut Fields::of(suspicion.save()).unwrap()).unwrap();
        for one in [suspicion, saved] {
            assert_eq!(one.standing(Stamp(reached), &|_| 10), expected);
        }
    }

    #[test]
    fn what_is_late_by_less_than_the_errors_may_have_been_in_time() {
        check_late(2, None, 119, Open);
        check_late(2, None, 120, Definite);
        check_late(2, Some(119), 500, Possible);
        check_late(3, Some(120), 500, Definite);
        // One clock measures an interval exactly.
        check_late(1, None, 100, Definite);
        check_late(1, Some(101), 500, Definite);
    }
}

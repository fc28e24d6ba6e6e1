//! Attacks on candidate properties: the explorer searches for executions that break them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use everhold_node::Message;
use everhold_property::{Property, Scope, print};

use crate::clock::Stopwatch;
use crate::explore::Explorer;
use crate::failure::Cause;
use crate::report::text::count;
use crate::report::{Finding, Report};
use crate::system::System;

/// The time for shrinking an execution that breaks a candidate. It is short: the execution only has
/// to refute the candidate, and there may be many.
const SHRINK_TIME: Duration = Duration::from_secs(2);

/// The result of an attack on candidate properties.
#[must_use = "candidates that fell are not properties, or the system has a bug"]
#[derive(Clone, Debug)]
pub struct Attack {
    /// The candidates that no execution broke.
    pub stood: Vec<Property>,
    /// The candidates that an execution broke, in the order in which they fell.
    pub fell: Vec<Fallen>,
    /// The candidates that an explorer cannot judge: they are about chains of recorded events.
    pub unjudged: Vec<Property>,
    /// The report of the exploration in which the survivors stood, which tells how much was tried.
    pub report: Report,
}

/// A candidate that does not always hold, and the execution that shows it.
#[derive(Clone, Debug)]
pub struct Fallen {
    /// The candidate.
    pub property: Property,
    /// The shrunk execution that breaks it: either the candidate claims too much, or this is a bug
    /// in a behaviour that nobody specified.
    pub finding: Finding,
}

impl Explorer {
    /// Searches for executions that break candidate properties, such as inferred ones, until the
    /// budget is used up. A candidate that falls is taken out, together with the execution that
    /// breaks it.
    ///
    /// The system's own properties are checked as always; a violation of one of them ends the
    /// attack and is in its [report](Attack::report).
    ///
    /// ```
    /// # use everhold_node::{Cx, Node, NodeId};
    /// # use everhold_sim::{Explorer, System};
    /// # #[derive(Clone, serde::Serialize)]
    /// # struct Counter { total: u32 }
    /// # impl Node for Counter {
    /// #     type Msg = u32;
    /// #     fn start(&mut self, cx: &mut Cx<u32>) { cx.send(cx.id(), 2); cx.send(cx.id(), 1); }
    /// #     fn message(&mut self, _: &mut Cx<u32>, _: NodeId, add: u32) { self.total += add; }
    /// # }
    /// let candidates = everhold_property::parse(r#"
    ///     always "small": forall n in nodes: n.total <= 3
    ///     always "never one": forall n in nodes: n.total != 1
    /// "#).into_result().unwrap();
    /// let attack = Explorer::new().executions(100).attack(&candidates, |system| {
    ///     system.node("counter", Counter { total: 0 });
    /// });
    /// assert_eq!(attack.stood[0].name, "small");
    /// assert_eq!(attack.fell[0].property.name, "never one");
    /// ```
    ///
    /// # Panics
    ///
    /// If two candidates have the same name, or as [`run`](Explorer::run) does.
    #[track_caller]
    pub fn attack<M: Message>(
        self,
        candidates: &[Property],
        setup: impl Fn(&mut System<M>) + Send + Sync + 'static,
    ) -> Attack {
        assert_distinct(candidates);
        let (unjudged, mut stood): (Vec<_>, Vec<_>) =
            candidates.iter().cloned().partition(|property| property.scope == Scope::Chains);
        let setup = Arc::new(setup);
        let shrink_time = self.shrink_time.unwrap_or(SHRINK_TIME);
        let mut explorer = self.shrink_time(shrink_time).regressions(false);
        let mut fell = Vec::new();
        let watch = Stopwatch::start();
        let mut before = None;
        loop {
            let round = explorer.clone().run(with(&setup, &stood));
            let fallen = round.finding().and_then(|finding| take(&mut stood, finding));
            let Some(fallen) = fallen else {
                let report = Report { time: watch.elapsed(), ..merge(before, round) };
                return Attack { stood, fell, unjudged, report };
            };
            fell.push(fallen);
            explorer = explorer.going_on_after(&round);
            before = Some(merge(before, round));
        }
    }
}

/// The system, with the candidates that still stand.
fn with<M: Message>(
    setup: &Arc<impl Fn(&mut System<M>) + Send + Sync + 'static>,
    stood: &[Property],
) -> impl Fn(&mut System<M>) + Send + Sync + 'static {
    let (setup, stood) = (Arc::clone(setup), stood.to_vec());
    move |system| {
        setup(system);
        system.properties(&stood);
    }
}

/// Takes out the candidate that the finding breaks, if it breaks one.
fn take(stood: &mut Vec<Property>, finding: &Finding) -> Option<Fallen> {
    let (Cause::Always(name) | Cause::Liveness(name) | Cause::Finally(name)) =
        &finding.failure.cause
    else {
        return None;
    };
    let at = stood.iter().position(|property| property.name == *name)?;
    Some(Fallen { property: stood.remove(at), finding: finding.clone() })
}

/// Combines the reports of the rounds. They are one search: their counts add up, and the findings
/// are those of the last round.
fn merge(before: Option<Report>, mut last: Report) -> Report {
    if let Some(before) = before {
        // The execution in which a candidate fell was run again without it.
        last.executions += before.executions - 1;
        last.steps += before.steps;
        last.rechecked += before.rechecked;
        last.bounded += before.bounded;
        last.unjudged += before.unjudged;
        last.settled += before.settled;
        last.coverage.merge(&before.coverage);
        last.expected.merge(&before.expected);
        for goal in &mut last.goals {
            let same = before.goals.iter().filter(|other| other.name == goal.name);
            goal.reached += same.map(|other| other.reached).sum::<u64>();
        }
    }
    last
}

fn assert_distinct(candidates: &[Property]) {
    let mut names: Vec<&str> = candidates.iter().map(|property| property.name.as_str()).collect();
    names.sort_unstable();
    let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
    assert!(
        twice.is_none(),
        "two candidates are named \"{}\"; give them different names",
        twice.map_or("", |pair| pair[0])
    );
}

impl fmt::Display for Attack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = count((self.stood.len() + self.fell.len()) as u64, "candidate");
        let executions = count(self.report.executions, "execution");
        writeln!(
            f,
            "{all} attacked in {executions}: {} fell, {} stand",
            self.fell.len(),
            self.stood.len()
        )?;
        for Fallen { property, finding } in &self.fell {
            writeln!(
                f,
                "\n✗ fell in {}: {}",
                count(finding.schedule.steps() as u64, "step"),
                finding.failure.message
            )?;
            writeln!(f, "{}", print(property).trim_end())?;
            writeln!(f, "  replay with the candidate in the test: {}", finding.schedule.token())?;
        }
        for property in &self.stood {
            writeln!(f, "\n✓ stands\n{}", print(property).trim_end())?;
        }
        for property in &self.unjudged {
            writeln!(f, "\n? about chains: use `everhold check`\n{}", print(property).trim_end())?;
        }
        Ok(())
    }
}

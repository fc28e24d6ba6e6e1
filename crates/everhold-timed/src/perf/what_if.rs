//! Estimates the effect of a changed duration or link: the same seeds run again with only that
//! change, which gives pairs of executions.

use std::fmt;
use std::str::FromStr;

use everhold_node::NodeId;
use serde::Serialize;

use super::lab::Crew;
use super::paired::{Comparison, compare};
use super::sample::Sample;
use super::search::Candidate;
use crate::Draws;

/// A change to evaluate.
///
/// ```
/// use everhold_timed::perf::WhatIf;
/// let slower: WhatIf = "Join=200%".parse().unwrap();
/// assert_eq!(slower, WhatIf::kind("Join", 200));
/// let link: WhatIf = "0->2=50%".parse().unwrap();
/// assert_eq!(link.to_string(), "0->2=50%");
/// assert!("Join".parse::<WhatIf>().unwrap_err().contains("Join=200%"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhatIf {
    what: What,
    percent: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Kind(String),
    Link(NodeId, NodeId),
}

impl WhatIf {
    /// Scales the durations of all events of a kind to this percentage.
    #[must_use]
    pub fn kind(kind: &str, percent: u32) -> WhatIf {
        WhatIf { what: What::Kind(kind.to_owned()), percent }
    }

    /// Scales the delays of all messages from one node to another to this percentage.
    #[must_use]
    pub fn link(from: NodeId, to: NodeId, percent: u32) -> WhatIf {
        WhatIf { what: What::Link(from, to), percent }
    }

    fn change(&self, draws: &Draws) -> Draws {
        let draws = draws.clone();
        match &self.what {
            What::Kind(kind) => draws.scale_kind(kind, self.percent),
            What::Link(from, to) => draws.scale_link(*from, *to, self.percent),
        }
    }
}

impl fmt::Display for WhatIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Kind(kind) => write!(f, "{kind}={}%", self.percent),
            What::Link(from, to) => write!(f, "{}->{}={}%", from.0, to.0, self.percent),
        }
    }
}

impl FromStr for WhatIf {
    type Err = String;

    fn from_str(text: &str) -> Result<WhatIf, String> {
        let shape = || format!("`{text}` is not a change; write `Join=200%` or `0->2=50%`");
        let (what, percent) = text.rsplit_once('=').ok_or_else(shape)?;
        let percent = percent.trim().trim_end_matches('%').parse().map_err(|_| shape())?;
        let node = |text: &str| text.trim().parse().map(NodeId).ok();
        let what = match what.split_once("->") {
            Some((from, to)) => {
                What::Link(node(from).ok_or_else(shape)?, node(to).ok_or_else(shape)?)
            }
            None => What::Kind(what.trim().to_owned()),
        };
        Ok(WhatIf { what, percent })
    }
}

/// The effect of a change.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// The change.
    pub change: String,
    /// The median time before the change, in seconds.
    pub before: f64,
    /// The median time after the change, in seconds.
    pub after: f64,
    /// The comparison seed by seed.
    pub comparison: Comparison,
}

/// The number of pairs that are run for one change.
const PAIRS: usize = 60;

pub(super) fn what_if(
    crew: &Crew,
    base: &[&Candidate],
    changes: &[WhatIf],
    limit: u64,
) -> Vec<Answer> {
    let base = &base[..base.len().min(PAIRS)];
    let answer = |change: &WhatIf| {
        let ran = crew.map("what if", base, |lab, c| lab.run(&change.change(&c.draws), limit));
        let pairs = base.iter().zip(ran);
        let (before, after): (Vec<f64>, Vec<f64>) =
            pairs.filter_map(|(c, ran)| Some((c.ran.measured.time, ran?.measured.time))).unzip();
        let median = |times: &[f64]| Sample::new(times.iter().copied()).quantile(0.5);
        Answer {
            change: change.to_string(),
            before: median(&before),
            after: median(&after),
            comparison: compare(&before, &after),
        }
    };
    changes.iter().map(answer).collect()
}

//! Which drafts are shown, in which order, and why the others are not.

use std::collections::BTreeMap;

use everhold_property::print;

use super::Settings;
use super::lines::{Draft, Line};
use crate::decisions::Decision;

/// What became of a draft.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// It is the line of this number.
    Shown(usize),
    /// There are more telling ones.
    Beyond,
    /// There is not enough evidence.
    Doubtful,
    /// Someone decided that it is of no interest.
    Rejected,
    /// It follows from these together.
    Follows(Vec<usize>),
}

/// What became of all of them.
#[derive(Debug)]
pub(super) struct Verdicts<'a> {
    drafts: &'a [Draft],
    verdicts: Vec<Verdict>,
    /// Those that are shown, the most telling first.
    order: Vec<usize>,
    lines_max: usize,
}

impl<'a> Verdicts<'a> {
    /// Judges the drafts; some of them follow from each of these sets of others.
    pub(super) fn of(
        drafts: &'a [Draft],
        confidences: &[(f64, bool)],
        through: &BTreeMap<usize, Vec<Vec<usize>>>,
        settings: &Settings,
    ) -> Verdicts<'a> {
        let verdict = |(draft, (_, justified)): (&Draft, &(f64, bool))| match justified {
            false => Verdict::Doubtful,
            true if settings.decisions.of(&draft.property) == Some(Decision::Reject) => {
                Verdict::Rejected
            }
            true => Verdict::Beyond,
        };
        let mut verdicts: Vec<Verdict> = drafts.iter().zip(confidences).map(verdict).collect();
        let mut order: Vec<usize> =
            (0..drafts.len()).filter(|place| verdicts[*place] == Verdict::Beyond).collect();
        order.sort_by_cached_key(|place| print(&drafts[*place].property));
        order.sort_by(|a, b| score(&drafts[*b]).total_cmp(&score(&drafts[*a])));
        // The least telling first, so that of two that follow from each other one is left.
        for place in order.iter().rev().copied() {
            let stands = |other: &usize| *other != place && verdicts[*other] == Verdict::Beyond;
            let sets = through.get(&place).into_iter().flatten();
            if let Some(set) = sets.into_iter().find(|set| set.iter().all(stands)) {
                verdicts[place] = Verdict::Follows(set.clone());
            }
        }
        order.retain(|place| verdicts[*place] == Verdict::Beyond);
        order.truncate(settings.lines_max);
        for (number, place) in (1..).zip(&order) {
            verdicts[*place] = Verdict::Shown(number);
        }
        Verdicts { drafts, verdicts, order, lines_max: settings.lines_max }
    }

    /// The lines.
    pub(super) fn lines(&self, confidences: &[(f64, bool)]) -> Vec<Line> {
        let line = |place: &usize| {
            let Draft { property, evidence, .. } = &self.drafts[*place];
            let (samples, distinct) = (evidence.samples, evidence.distinct);
            let (confidence, score) = (confidences[*place].0, score(&self.drafts[*place]));
            Line { property: property.clone(), samples, distinct, confidence, score }
        };
        self.order.iter().map(line).collect()
    }

    /// Why a draft is not shown.
    pub(super) fn reason(&self, place: usize) -> Option<String> {
        Some(match &self.verdicts[place] {
            Verdict::Shown(_) => return None,
            Verdict::Beyond => format!("beyond the first {} lines", self.lines_max),
            Verdict::Doubtful => {
                let distinct = self.drafts[place].evidence.distinct;
                let cases = if distinct == 1 { "case" } else { "cases" };
                format!("not enough evidence: {distinct} distinct {cases}")
            }
            Verdict::Rejected => "it was rejected".into(),
            Verdict::Follows(set) => {
                let names: Vec<String> = set.iter().map(|other| self.named(*other)).collect();
                format!("follows from {}", names.join(" and "))
            }
        })
    }

    /// Why what follows from a draft is not shown.
    pub(super) fn follows(&self, place: usize) -> String {
        match &self.verdicts[place] {
            Verdict::Shown(_) => format!("follows from {}", self.named(place)),
            Verdict::Beyond => {
                let beyond = format!("which is beyond the first {} lines", self.lines_max);
                format!("follows from {}, {beyond}", self.named(place))
            }
            Verdict::Doubtful => {
                let name = self.named(place);
                format!("says no more than {name}, for which there is not enough evidence")
            }
            Verdict::Rejected => format!("follows from {}, which was rejected", self.named(place)),
            Verdict::Follows(_) => self.reason(place).unwrap_or_default(),
        }
    }

    fn named(&self, place: usize) -> String {
        let name = &self.drafts[place].property.name;
        match self.verdicts[place] {
            Verdict::Shown(number) => format!("line {number}, \"{name}\""),
            _ => format!("\"{name}\""),
        }
    }
}

/// How telling it is. Certainty counts, and ever less the more of it there is.
fn score(draft: &Draft) -> f64 {
    draft.weight + (1.0 - draft.evidence.ln_chance).ln() / 4.0
}

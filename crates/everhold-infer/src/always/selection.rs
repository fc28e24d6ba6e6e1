//! The selection of the drafts that are shown: which, in what order, and why not the others.

use std::collections::BTreeMap;

use everhold_property::print;

use super::Settings;
use super::lines::{Draft, Line};
use crate::arranged;
use crate::decisions::Decision;
use crate::outcome::{NotShown, Premise, Reason};

/// The standing of a draft in the selection.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Standing {
    /// It is shown as the line of this number.
    Shown(usize),
    /// It is accepted, and there are enough drafts with a higher score.
    Beyond,
    /// There is not enough evidence.
    Doubtful,
    /// It was rejected by a decision.
    Rejected,
    /// It says that a number only grows of which no line says anything else.
    Clock,
    /// It follows from these together.
    Follows(Vec<usize>),
}

/// The standing of every draft.
#[derive(Debug)]
pub(super) struct Selection<'a> {
    drafts: &'a [Draft],
    standings: Vec<Standing>,
    /// Those that are shown, the most telling first.
    order: Vec<usize>,
    lines_max: usize,
}

impl<'a> Selection<'a> {
    /// Selects from the drafts. `through` has, for some drafts, sets of others from each of which the
    /// draft follows.
    pub(super) fn of(
        drafts: &'a [Draft],
        confidences: &[(f64, bool)],
        through: &BTreeMap<usize, Vec<Vec<usize>>>,
        settings: &Settings,
    ) -> Selection<'a> {
        let standing = |(draft, (_, justified)): (&Draft, &(f64, bool))| match justified {
            false => Standing::Doubtful,
            true if settings.decisions.of(&draft.property) == Some(Decision::Reject) => {
                Standing::Rejected
            }
            true => Standing::Beyond,
        };
        let mut standings: Vec<Standing> = drafts.iter().zip(confidences).map(standing).collect();
        let mut order: Vec<usize> =
            (0..drafts.len()).filter(|place| standings[*place] == Standing::Beyond).collect();
        order.sort_by_cached_key(|place| print(&drafts[*place].property));
        order.sort_by(|a, b| score(&drafts[*b]).total_cmp(&score(&drafts[*a])));
        // In ascending order of score, so that of two drafts that follow from each other the better one
        // is left.
        for place in order.iter().rev().copied() {
            let stands = |other: &usize| *other != place && standings[*other] == Standing::Beyond;
            let sets = through.get(&place).into_iter().flatten();
            if let Some(set) = sets.into_iter().find(|set| set.iter().all(stands)) {
                standings[place] = Standing::Follows(set.clone());
            }
        }
        order.retain(|place| standings[*place] == Standing::Beyond);
        // The same in other words: a contrapositive, the sides exchanged.
        let mut first: BTreeMap<String, usize> = BTreeMap::new();
        for place in &order {
            let same = *first.entry(arranged(&drafts[*place].property)).or_insert(*place);
            if same != *place {
                standings[*place] = Standing::Follows(vec![same]);
            }
        }
        order.retain(|place| standings[*place] == Standing::Beyond);
        set_clocks_aside(drafts, &order, &mut standings);
        order.retain(|place| standings[*place] == Standing::Beyond);
        order.truncate(settings.lines_max);
        for (number, place) in (1..).zip(&order) {
            standings[*place] = Standing::Shown(number);
        }
        Selection { drafts, standings, order, lines_max: settings.lines_max }
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

    /// Why a draft is not shown; `None` if it is.
    pub(super) fn reason(&self, place: usize) -> Option<Reason> {
        Some(match &self.standings[place] {
            Standing::Shown(_) => return None,
            Standing::Beyond => Reason::Beyond { lines_max: self.lines_max },
            Standing::Doubtful => {
                let Draft { evidence, copies, .. } = &self.drafts[place];
                let distinct = evidence.distinct;
                match copies.is_empty() {
                    true => Reason::Unproven { distinct },
                    false => Reason::MayBeCopy { copies: copies.clone(), distinct },
                }
            }
            Standing::Rejected => Reason::Rejected,
            Standing::Clock => Reason::Clock,
            Standing::Follows(set) => {
                Reason::Follows(set.iter().map(|other| self.premise(*other)).collect())
            }
        })
    }

    /// Why a property that follows from a draft is not shown.
    pub(super) fn follows(&self, place: usize) -> Reason {
        match &self.standings[place] {
            Standing::Follows(set) => {
                Reason::Follows(set.iter().map(|other| self.premise(*other)).collect())
            }
            _ => Reason::Follows(vec![self.premise(place)]),
        }
    }

    /// A draft as something that another property follows from.
    fn premise(&self, place: usize) -> Premise {
        let shown = match self.standings[place] {
            Standing::Shown(number) => Ok(number),
            Standing::Beyond => Err(NotShown::Beyond { lines_max: self.lines_max }),
            Standing::Doubtful => Err(NotShown::Unproven),
            Standing::Rejected => Err(NotShown::Rejected),
            Standing::Clock => Err(NotShown::Clock),
            Standing::Follows(_) => Err(NotShown::Follows),
        };
        Premise { name: self.drafts[place].property.name.clone(), shown }
    }
}

/// Sets lines aside that say of a number that it only grows, if no other line speaks of it: it is a
/// clock, and most programs have some. Where there are no other lines at all, they stay.
fn set_clocks_aside(drafts: &[Draft], order: &[usize], standings: &mut [Standing]) {
    let others = order.iter().filter(|place| drafts[**place].clock.is_none());
    let others: Vec<String> = others.map(|place| print(&drafts[*place].property)).collect();
    let speaks = |text: &String, name: &str| {
        let inside = |rest: &str| rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        text.match_indices(name).any(|(at, _)| !inside(&text[at + name.len()..]))
    };
    for place in order {
        if let Some(name) = &drafts[*place].clock
            && !others.is_empty()
            && !others.iter().any(|text| speaks(text, name))
        {
            standings[*place] = Standing::Clock;
        }
    }
}

/// The score of a draft: its weight, and a quarter of the logarithm of its evidence.
fn score(draft: &Draft) -> f64 {
    draft.weight + (1.0 - draft.evidence.ln_chance).ln() / 4.0
}

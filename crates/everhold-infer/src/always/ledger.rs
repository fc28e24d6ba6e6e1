//! The ledger of a search: all claims that held, and which of them follow from which others.
//!
//! A claim that follows from a line is hidden, and its reason names the line. A claim that follows
//! from one for which there is not enough evidence has no better evidence itself.

use std::collections::BTreeMap;

use everhold_property::Property;

use super::candidates::{Candidate, Candidates};
use super::differences::{self, Difference};
use super::doubt;
use super::evidence::gather;
use super::family::{Family, Form};
use super::lines::{Draft, Hidden, confidences};
use super::redundant::{self, Split};
use super::rows::Pairs;
use super::selection::Selection;
use super::unjudged::NotJudged;
use super::{Always, Settings};
use crate::outcome::Bound;
use crate::parallel;

/// A candidate of one of the families.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Claim {
    pub(super) family: usize,
    pub(super) candidate: Candidate,
}

/// The fate of a claim that held.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// It is weighed on its own evidence.
    Draft(usize),
    /// It follows from this one, or says the same.
    As(Claim),
}

/// The claims found so far.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    drafts: Vec<Draft>,
    pub(super) found: Always,
    /// The totals that cannot be judged.
    pub(super) unjudged: NotJudged,
    threads: usize,
    /// How many of the candidates were simple.
    simple: u64,
    /// Families judged so far.
    families: usize,
    fates: BTreeMap<Claim, Fate>,
    /// Claims that follow from another one, with the weight they would have.
    implied: Vec<(Property, Claim, f64)>,
    /// For some drafts, sets of claims that it follows from together.
    through: BTreeMap<usize, Vec<Vec<Claim>>>,
}

impl Ledger {
    pub(super) fn with(settings: &Settings) -> Ledger {
        Ledger { threads: parallel::threads(settings.threads), ..Ledger::default() }
    }

    pub(super) fn add(&mut self, drafts: Vec<Draft>, tried: u64) {
        self.drafts.extend(drafts);
        self.found.tried += tried;
        self.simple += tried;
    }

    /// Takes note of a limit that was reached.
    pub(super) fn bound(&mut self, bound: Bound) {
        if !self.found.bounds.contains(&bound) {
            self.found.bounds.push(bound);
        }
    }

    /// Judges one family. Rows of `also` may refute a claim and do not support it. Claims that hold in
    /// a wider family are reported there.
    pub(super) fn family(
        &mut self,
        family: &Family<'_>,
        also: Option<&Pairs>,
        wider: &[Candidates],
        alone: Option<(&Candidates, &Candidates)>,
    ) -> Candidates {
        let Family { setting, pairs, both_ways, context } = *family;
        let mut candidates = Candidates::of(&setting.form, context);
        candidates.family = self.families;
        self.families += 1;
        if let Some(also) = also {
            candidates.refute(also, context, self.threads);
        }
        candidates.judge(pairs, both_ways, context, self.threads);
        self.found.tried += candidates.tried;
        self.simple += candidates.simple;
        let Split { kept, implied, mirrors } =
            redundant::split(&candidates, both_ways, wider, alone, context);
        for (own, other) in mirrors {
            self.fates.insert(candidates.claim(own), Fate::As(candidates.claim(other)));
        }
        for (own, by) in implied {
            self.imply(family, &candidates, own, Fate::As(by));
        }
        let kept_alone: Vec<Candidate> = kept.iter().map(|(candidate, _)| *candidate).collect();
        let evidence = gather(&setting.form, &candidates, &kept_alone, pairs, both_ways, context);
        let first = self.drafts.len();
        let differences = self.differences(&mut candidates, family, also, wider);
        for ((candidate, through), evidence) in kept.into_iter().zip(evidence) {
            let stronger = differences.iter().enumerate().find(|(place, difference)| {
                self.drafts[first + place].evidence.ln_chance <= evidence.ln_chance
                    && difference.implies(&candidates, candidate, both_ways)
            });
            if let Some((place, _)) = stronger {
                self.imply(family, &candidates, candidate, Fate::Draft(first + place));
                continue;
            }
            let place = self.drafts.len();
            self.fates.insert(candidates.claim(candidate), Fate::Draft(place));
            if !through.is_empty() {
                self.through.insert(place, through);
            }
            let property = setting.property(&candidates, candidate, context);
            let weight = setting.weight(&candidates, candidate, context);
            let mut draft = Draft::new(property, evidence, weight);
            draft.simple = candidates.is_simple(&setting.form, candidate);
            draft.clock = setting.clock(&candidates, candidate, (pairs, context));
            draft.copies = doubt::possible_copies(&setting.form, &candidates, &candidate, context);
            self.drafts.push(draft);
        }
        candidates
    }

    fn imply(&mut self, family: &Family<'_>, candidates: &Candidates, own: Candidate, fate: Fate) {
        let claim = candidates.claim(own);
        self.fates.insert(claim, fate);
        let property = family.setting.property(candidates, own, family.context);
        self.implied.push((
            property,
            claim,
            family.setting.weight(candidates, own, family.context),
        ));
    }

    /// The constant differences across the sides that do not hold in a wider family, as drafts.
    fn differences(
        &mut self,
        candidates: &mut Candidates,
        family: &Family<'_>,
        also: Option<&Pairs>,
        wider: &[Candidates],
    ) -> Vec<Difference> {
        if !matches!(family.setting.form, Form::Two | Form::Delivery) {
            return Vec::new();
        }
        let (mut found, tried) = differences::find(candidates, family, also);
        self.found.tried += tried;
        candidates.differences.clone_from(&found);
        found.retain(|own| !wider.iter().any(|wide| own.is_among(&wide.differences)));
        self.drafts.extend(found.iter().map(|own| own.draft(candidates, family)));
        found
    }

    /// The draft that a claim follows from, or that it is.
    fn draft_of(&self, mut claim: Claim) -> Option<usize> {
        loop {
            match *self.fates.get(&claim)? {
                Fate::Draft(place) => return Some(place),
                Fate::As(other) => claim = other,
            }
        }
    }

    pub(super) fn finish(mut self, settings: &Settings) -> Always {
        let implied: Vec<(Property, usize, f64)> = std::mem::take(&mut self.implied)
            .into_iter()
            .filter_map(|(property, claim, weight)| Some((property, self.draft_of(claim)?, weight)))
            .collect();
        for (_, by, weight) in &implied {
            // The stronger claim is worth at least as much as the weaker one.
            let own = &mut self.drafts[*by].weight;
            *own = own.max(*weight);
        }
        let through = self.through.iter().map(|(own, sets)| {
            let drafts = |set: &Vec<Claim>| set.iter().map(|claim| self.draft_of(*claim)).collect();
            (*own, sets.iter().filter_map(drafts).collect())
        });
        let confidences =
            confidences(&self.drafts, (self.simple, self.found.tried), settings.alpha);
        let selection = Selection::of(&self.drafts, &confidences, &through.collect(), settings);
        let hidden = &mut self.found.hidden;
        for (property, by, _) in implied {
            hidden.push(Hidden { property, reason: selection.follows(by) });
        }
        for (place, draft) in self.drafts.iter().enumerate() {
            if let Some(reason) = selection.reason(place) {
                hidden.push(Hidden { property: draft.property.clone(), reason });
            }
        }
        self.found.lines = selection.lines(&confidences);
        self.found.unjudged = self.unjudged.finish();
        self.found
    }
}

//! The totals that a search cannot judge, by reason.

use std::collections::{BTreeMap, BTreeSet};

use everhold_property::print_expr;

use super::terms::Side;
use crate::evaluate::{NumberCode, Numbers};
use crate::outcome::{Unjudged, WhyUnjudged};
use crate::variables::Row;

/// What would have been added up, by the reason why it was not.
#[derive(Debug, Default)]
pub(super) struct NotJudged(BTreeMap<WhyUnjudged, BTreeSet<String>>);

impl NotJudged {
    pub(super) fn note(&mut self, of: String, why: WhyUnjudged) {
        self.0.entry(why).or_default().insert(of);
    }

    /// Takes note of a number of the nodes of a kind, whose name is needed if there are several.
    pub(super) fn term(&mut self, side: &Side, term: usize, kind: Option<&str>, why: WhyUnjudged) {
        self.note(term_name(side, term, kind), why);
    }

    pub(super) fn finish(self) -> Vec<Unjudged> {
        let one = |(why, of): (WhyUnjudged, BTreeSet<String>)| Unjudged {
            of: of.into_iter().collect(),
            why,
        };
        self.0.into_iter().map(one).collect()
    }
}

/// A number of nodes as a user names it.
pub(super) fn term_name(side: &Side, term: usize, kind: Option<&str>) -> String {
    let text = print_expr(&side.terms[term].expr(&Row::Value("n".into())));
    let name = text.replacen("n.", "", 1);
    kind.map_or_else(|| format!("`{name}`"), |kind| format!("`{name}` of {kind} nodes"))
}

/// Whether a term is a whole number wherever it is a number.
pub(super) fn is_whole(side: &Side, term: usize, numbers: &Numbers) -> bool {
    let whole = |row: u32| {
        let code = side.columns[term].number(row);
        code == NumberCode::NONE || numbers.int(code).is_some()
    };
    !numbers.has_fractions() || (0..side.rows()).all(whole)
}

/// A number as an addend: null counts for nothing, as in the language. `None`: it is not whole.
pub(super) fn addend(side: &Side, term: usize, row: u32, numbers: &Numbers) -> Option<i64> {
    match side.columns[term].number(row) {
        NumberCode::NONE => Some(0),
        code => numbers.int(code),
    }
}

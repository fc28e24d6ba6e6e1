//! Families of rows: the pairs of rows that one kind of claim is made of, and how it speaks of them.

use super::comparison::{Context, SideNames};
use super::lines::Setting;
use super::rows::Pairs;
use crate::variables::Row;

/// How the rows of a family are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `forall n in nodes`.
    One,
    /// `forall a, b in nodes where a != b`.
    Two,
    /// `forall n in nodes`, the state before and the state now.
    Steps,
    /// `on delivery`.
    Delivery,
    /// `forall n in nodes, x in n.items`; the place of the items among the terms of the node.
    Elements(Option<usize>),
    /// `forall a, b in nodes, x in a.items, y in b.items`.
    TwoElements,
}

/// The rows of one kind of claim, and how to speak of them.
pub(super) struct Family<'a> {
    pub(super) setting: &'a Setting,
    pub(super) pairs: &'a Pairs,
    /// Whether each pair stands for both of its orders.
    pub(super) both_ways: bool,
    pub(super) context: &'a Context<'a>,
}

impl Form {
    /// The names of the two sides.
    pub(super) fn side_names(&self) -> SideNames {
        let row = |name: &str| Row::Value(name.to_owned());
        let (left, right) = match self {
            Form::One | Form::Steps => (row("n"), row("n")),
            Form::Delivery => (row("sender"), row("receiver")),
            Form::Elements(_) => (row("x"), row("n")),
            Form::TwoElements => (row("x"), row("y")),
            Form::Two => (row("a"), row("b")),
        };
        SideNames { left, right, left_is_past: *self == Form::Steps }
    }
}

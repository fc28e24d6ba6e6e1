//! The search: family by family, over whatever source the rows come from.

use everhold_property::Scope;

use super::candidates::Candidates;
use super::comparison::{Context, SideNames};
use super::cuts::Cuts;
use super::elements::Elements;
use super::family::{Family, Form};
use super::ledger::Ledger;
use super::lines::Setting;
use super::source::{Runs, Source};
use super::terms::{Side, What};
use super::totals::Totals;
use super::{Always, Settings, conserved, in_role, linear, quorum, single, sums};
use crate::dictionary::Dictionary;
use crate::evaluate::Numbers;
use crate::outcome::Bound;
use crate::states::States;
use crate::variables::{KindId, Origin, Row, TableId};

/// One search over the rows of a source.
pub(super) struct Search<'a> {
    pub(super) source: Source<'a>,
    pub(super) values: &'a Dictionary,
    pub(super) numbers: &'a Numbers,
    /// The terms of each kind of node.
    pub(super) sides: &'a [Side],
    pub(super) cuts: Cuts<'a>,
    /// The most pairs of elements that are looked at.
    pub(super) elements_max: usize,
    pub(super) ledger: Ledger,
}

impl<'a> Search<'a> {
    pub(super) fn run(mut self, settings: &Settings) -> Always {
        let kinds = 0..self.sides.len();
        let alone: Vec<Candidates> = kinds.clone().map(|kind| self.one(kind)).collect();
        self.conserved(settings);
        for left in kinds.clone() {
            for right in kinds.clone() {
                self.two(left, right, settings, (&alone[left], &alone[right]));
            }
        }
        for bound in self.source.bounds().iter().chain(&self.cuts.bounds) {
            self.ledger.bound(bound.clone());
        }
        self.ledger.finish(settings)
    }

    fn context(&self, left: &'a Side, right: &'a Side) -> Context<'a> {
        Context { left, right, values: self.values, numbers: self.numbers }
    }

    /// Claims about one kind of node: its states, its steps, its elements, and all such nodes.
    fn one(&mut self, kind: KindId) -> Candidates {
        let side = &self.sides[kind];
        let context = self.context(side, side);
        let pairs = self.source.alone(kind);
        let setting = self.setting(Form::One, Scope::EveryCut, kind, kind);
        let family =
            Family { setting: &setting, pairs: &pairs, both_ways: false, context: &context };
        let judged = self.ledger.family(&family, None, &[], None);
        let (drafts, tried) = linear::within(&setting, &pairs, &context);
        self.ledger.add(drafts, tried);
        let (changes, steps) = self.source.steps(kind);
        let (drafts, tried) = single::claims(&setting, pairs.samples, &changes, &context);
        self.ledger.add(drafts, tried);
        let (drafts, tried) = in_role::claims(&setting, &changes, &context);
        self.ledger.add(drafts, tried);
        if let Some(steps) = steps {
            let setting = self.setting(Form::Steps, Scope::EveryCut, kind, kind);
            let family =
                Family { setting: &setting, pairs: &steps, both_ways: false, context: &context };
            // While other nodes move, a node stays as it is: that may refute a claim about steps
            // and does not support it.
            self.ledger.family(&family, Some(&pairs), &[], Some((&judged, &judged)));
        }
        for table in self.containers(kind) {
            self.elements(kind, table);
        }
        self.all_nodes(kind, &context);
        judged
    }

    /// Sums and majorities over all nodes of a kind.
    fn all_nodes(&mut self, kind: KindId, context: &Context<'a>) {
        let name = self.source.kind_name(kind);
        let (name, all_nodes) = (name.as_deref(), self.source.all_nodes(kind));
        let side = (&self.sides[kind], self.numbers);
        let (drafts, tried) =
            sums::constant_sums(name, all_nodes, side, &mut self.cuts, &mut self.ledger.unjudged);
        self.ledger.add(drafts, tried);
        let place = quorum::Place { name, all_nodes, context };
        let (drafts, tried) = quorum::majorities(&place, &mut self.cuts);
        self.ledger.add(drafts, tried);
    }

    /// Claims about all nodes and the messages in flight between them.
    fn conserved(&mut self, settings: &Settings) {
        let Source::Runs(Runs { states, atoms, .. }) = &self.source else { return };
        let (numbers, sides) = (self.numbers, self.sides);
        let place = conserved::Place { states, atoms, numbers, sides };
        let (drafts, tried) = place.claims(&mut self.cuts);
        self.ledger.add(drafts, tried);
        let executions = self.cuts.executions;
        let quiet =
            settings.scopes.iter().any(|scope| matches!(scope, Scope::Quiet | Scope::AllQuiet));
        let totals = Totals { states, atoms, numbers, sides, executions, quiet };
        let (drafts, tried) = totals.claims(&mut self.ledger.unjudged);
        self.ledger.add(drafts, tried);
    }

    /// The states of the runs, if the source has runs.
    fn states(&self) -> Option<&'a States> {
        match &self.source {
            Source::Runs(runs) => Some(runs.states),
            Source::Table(_) => None,
        }
    }

    /// The tables of containers that are variables of the state itself.
    fn containers(&self, kind: KindId) -> Vec<TableId> {
        let Some(states) = self.states() else { return Vec::new() };
        let tables = &states.variables.kinds[kind].tables;
        let direct = |table: &TableId| {
            tables[*table].origin.container().is_some_and(|(parent, _)| parent == 0)
        };
        (0..tables.len()).filter(direct).collect()
    }

    /// Claims about the elements of a container: with their node, and with those of other nodes.
    fn elements(&mut self, kind: KindId, table: TableId) {
        let Source::Runs(Runs { states, atoms, together }) = &mut self.source else { return };
        let (states, atoms) = (*states, *atoms);
        let side = Side::of_elements(kind, table, states, self.numbers);
        if side.terms.is_empty() {
            return;
        }
        let elements = Elements::of(kind, table, states, &side);
        let nodes = together.pairs(Scope::EveryCut, kind, kind);
        let own = &states.variables.kinds[kind];
        let row = |name: &str| match own.tables[table].origin {
            Origin::Entries { .. } => Row::Entry(format!("{name}k"), format!("{name}v")),
            _ => Row::Value(name.to_owned()),
        };
        let items = own.tables[table].origin.container().map(|(_, variable)| variable);
        let items = items.map(|variable| What::Variable(own.tables[0].variables[variable].clone()));
        let items =
            self.sides[kind].terms.iter().position(|term| Some(&term.what) == items.as_ref());
        let mut setting = self.setting(Form::Elements(items), Scope::EveryCut, kind, kind);
        setting.inner = own.binders(table, "n", &["x"]);
        setting.rows =
            SideNames { left: row("x"), right: Row::Value("n".into()), left_is_past: false };
        let (pairs, all) = elements.with_node(kind, atoms, self.elements_max);
        if pairs.samples < all {
            self.ledger.bound(Bound::Elements { of: None, looked_at: pairs.samples, all });
        }
        let (values, numbers) = (self.values, self.numbers);
        let context = Context { left: &side, right: &self.sides[kind], values, numbers };
        let family =
            Family { setting: &setting, pairs: &pairs, both_ways: false, context: &context };
        self.ledger.family(&family, None, &[], None);
        let mut setting = self.setting(Form::TwoElements, Scope::EveryCut, kind, kind);
        setting.inner = own.binders(table, "a", &["x"]);
        setting.inner.extend(own.binders(table, "b", &["y"]));
        setting.rows = SideNames { left: row("x"), right: row("y"), left_is_past: false };
        let Some(pairs) = elements.with_elements(kind, atoms, &nodes, self.elements_max) else {
            self.ledger.bound(Bound::PairsOfElements { max: self.elements_max as u64 / 2 });
            return;
        };
        let context = Context { left: &side, right: &side, values, numbers };
        let family =
            Family { setting: &setting, pairs: &pairs, both_ways: false, context: &context };
        self.ledger.family(&family, None, &[], None);
    }

    /// Claims about two nodes of these kinds, in all scopes.
    fn two(
        &mut self,
        left: KindId,
        right: KindId,
        settings: &Settings,
        alone: (&Candidates, &Candidates),
    ) {
        let sides = self.sides;
        let context = self.context(&sides[left], &sides[right]);
        let mut wider: Vec<Candidates> = Vec::new();
        for &scope in &settings.scopes {
            let form = if scope == Scope::Delivery { Form::Delivery } else { Form::Two };
            if form == Form::Two && left > right {
                continue;
            }
            let pairs = self.source.pairs(scope, left, right);
            if pairs.is_empty() {
                continue;
            }
            // A message of a node to itself may refute a claim and does not support it.
            let to_itself = form == Form::Delivery && left == right;
            let own = to_itself.then(|| self.source.own_deliveries(left)).flatten();
            let both_ways = form == Form::Two && left == right;
            let setting = self.setting(form, scope, left, right);
            let family = Family { setting: &setting, pairs: &pairs, both_ways, context: &context };
            let judged = self.ledger.family(&family, own.as_ref(), &wider, Some(alone));
            wider.push(judged);
        }
    }

    fn setting(&self, form: Form, scope: Scope, left: KindId, right: KindId) -> Setting {
        let kinds = (self.source.kind_name(left), self.source.kind_name(right));
        let rows = form.side_names();
        Setting { form, scope, kinds, rows, inner: Vec::new() }
    }
}

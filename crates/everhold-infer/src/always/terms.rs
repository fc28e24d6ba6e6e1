//! Terms: the variables of a node, its identity and its name, each with a column of values.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use everhold_property::Expr;
use everhold_trace::Value;

use super::atoms::{Atoms, KindAtoms};
use super::doubt;
use super::episodes::{self, Sequences};
use crate::dictionary::{Code, Dictionary};
use crate::evaluate::{Cell, Column, Numbers};
use crate::outcome::{LeftOut, WhyLeftOut};
use crate::relation::{Class, TokenKind, tree};
use crate::states::States;
use crate::variables::{Access, KindId, Row, TableId, Variable};

/// Something that has a value in each row of one side.
#[derive(Clone, Debug)]
pub(super) struct Term {
    pub(super) what: What,
    pub(super) class: Class,
    /// How many distinct values it has, null included.
    pub(super) distinct: usize,
    /// Whether some row is null.
    pub(super) nullable: bool,
    /// Whether some of its values are names of nodes: it says which node, and is no role.
    pub(super) names_nodes: bool,
}

/// The kinds of terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A variable of the row.
    Variable(Variable),
    /// The node itself.
    Node,
    /// `name(n)`.
    Name,
}

/// The terms of one kind of node with a column each, indexed by atom. Code 0 is null.
#[derive(Debug, Default)]
pub(super) struct Side {
    pub(super) terms: Vec<Term>,
    pub(super) columns: Vec<Column>,
    /// The node of each row; evidence is gathered for each node.
    pub(super) groups: Vec<u32>,
    /// For each term the episode of each row; empty if every row is an episode of its own. Episodes
    /// that are not set are numbered in the order of the rows when they are asked for.
    pub(super) episodes: Vec<OnceLock<Vec<u32>>>,
    /// For each term whether it is a number or a container that only grows, at every node; empty if
    /// that is not known.
    pub(super) grows: Vec<bool>,
    /// For each role how often nodes took each of its values; empty if that is not known.
    pub(super) entries: Vec<BTreeMap<u32, u64>>,
    /// The pairs of terms of which one is a copy of the other or nearly so, with the share of the
    /// rows in which it is not.
    pub(super) copies: OnceLock<BTreeMap<(usize, usize), f64>>,
}

impl Term {
    /// The term as an expression, given the name of its row.
    pub(super) fn expr(&self, row: &Row) -> Expr {
        let Row::Value(name) = row else {
            return match &self.what {
                What::Variable(variable) => variable.expr(row),
                What::Node | What::Name => unreachable!("entries are no nodes"),
            };
        };
        let node = || tree::name(name);
        match &self.what {
            What::Variable(variable) => variable.expr(row),
            What::Node => node(),
            What::Name => tree::call("name", vec![node()]),
        }
    }

    /// Whether its values name roles or modes: few, and each of them often.
    pub(super) fn is_role(&self) -> bool {
        const ROLES_MAX: usize = 6;
        let few = match self.class {
            Class::Token(TokenKind::Text | TokenKind::Bool) => ROLES_MAX,
            // A number with two values is a flag.
            Class::Number if !self.is_size() => 2,
            _ => 0,
        };
        (2..=few).contains(&self.distinct)
            && matches!(self.what, What::Variable(_))
            && !self.names_nodes
    }

    /// Whether it is a part of another term, so that it is equal where that is.
    pub(super) fn is_part_of(&self, whole: &Term) -> bool {
        match (&self.what, &whole.what) {
            (What::Variable(part), What::Variable(whole)) => {
                part.path.len() > whole.path.len() && part.path.starts_with(&whole.path)
            }
            _ => false,
        }
    }

    /// Whether it and another term are parts of one variable of the row.
    pub(super) fn has_root_of(&self, other: &Term) -> bool {
        match (&self.what, &other.what) {
            (What::Variable(one), What::Variable(other)) => one.path.first() == other.path.first(),
            _ => false,
        }
    }

    /// Whether it is the number of elements of something.
    pub(super) fn is_size(&self) -> bool {
        matches!(&self.what, What::Variable(v) if v.path.last() == Some(&Access::Size))
    }
}

/// The name of a variable, without its row.
fn named(variable: &Variable) -> String {
    variable.to_string().replacen("x.", "", 1)
}

impl Side {
    /// The episode of a term that a row belongs to.
    pub(super) fn episode(&self, term: usize, row: u32) -> u32 {
        self.episodes.get(term).map_or(row, |known| {
            let in_order = || episodes::in_table(&self.groups, &self.columns[term]);
            known.get_or_init(in_order)[row as usize]
        })
    }

    /// How often nodes took a value of a role, as far as that is known.
    pub(super) fn entries(&self, term: usize, value: Cell) -> u64 {
        self.entries.get(term).and_then(|own| own.get(&value.raw())).copied().unwrap_or(0)
    }

    /// Whether a term is a copy of another one, or nearly so.
    pub(super) fn nearly(&self, term: usize, other: usize) -> bool {
        self.stale(term, other).is_some()
    }

    /// If a term is nearly a copy of another one, here or at another kind of node, the share of the
    /// rows in which it is not.
    pub(super) fn stale(&self, term: usize, other: usize) -> Option<f64> {
        self.copies.get_or_init(|| doubt::copies(self)).get(&(term, other)).copied()
    }

    /// Whether a term is a number or a container that only grows.
    pub(super) fn only_grows(&self, term: usize) -> bool {
        self.grows.get(term).is_some_and(|grows| *grows)
    }

    /// How many rows the side has.
    pub(super) fn rows(&self) -> u32 {
        u32::try_from(self.groups.len()).expect("rows are numbered by 32 bits")
    }

    /// The cell of a term in a row.
    pub(super) fn cell(&self, term: usize, row: u32) -> Cell {
        self.columns[term].cell(self.columns[term][row as usize])
    }

    /// The container whose size a term is.
    pub(super) fn measured(&self, size: usize) -> Option<usize> {
        let What::Variable(size) = &self.terms[size].what else { return None };
        let (Access::Size, whole) = size.path.split_last()? else { return None };
        self.terms.iter().position(|t| matches!(&t.what, What::Variable(v) if v.path == whole))
    }

    /// The terms of the nodes of one kind.
    pub(super) fn of(
        kind: KindId,
        states: &States,
        atoms: &Atoms,
        numbers: &Numbers,
        identity: &Identity,
        left_out: &mut Vec<LeftOut>,
    ) -> Side {
        let own = &atoms.kinds[kind];
        let mut side = Side { groups: own.nodes.clone(), ..Side::default() };
        for (place, variable) in states.variables.kinds[kind].tables[0].variables.iter().enumerate()
        {
            let Some(class) = Class::of(&variable.ty) else {
                let (variable, why) = (named(variable), WhyLeftOut::MixedTypes);
                left_out.push(LeftOut { variable, why });
                continue;
            };
            let codes = states.kinds[kind].column(0, place);
            let column: Vec<Code> = own.states.iter().map(|state| codes[*state as usize]).collect();
            let what = What::Variable(variable.clone());
            side.add(what, class, column, (states, numbers, identity), left_out);
        }
        side.add_identity(own, identity, left_out);
        let sequences = Sequences::of(kind, atoms);
        let episodes = side.columns.iter().map(|column| sequences.number(column).into());
        side.episodes = episodes.collect();
        let terms = side.terms.iter().zip(&side.columns);
        let entries = terms.map(|(term, column)| match term.is_role() {
            true => sequences.entries(column),
            false => BTreeMap::new(),
        });
        side.entries = entries.collect();
        let terms = side.terms.iter().zip(&side.columns);
        let value = |code: u32| states.values.value(Code(code));
        let grows = terms.map(|(term, column)| match term.class {
            Class::Number => !term.is_role() && sequences.only_grow(column),
            class if doubt::is_container(class) => {
                sequences.all_steps(column, |b, a| doubt::keeps(value(b), value(a)))
            }
            _ => false,
        });
        side.grows = grows.collect();
        side
    }

    /// Adds a term, unless it is a constant or holds what is no number.
    pub(super) fn add(
        &mut self,
        what: What,
        class: Class,
        codes: Vec<Code>,
        (states, numbers, identity): (&States, &Numbers, &Identity),
        left_out: &mut Vec<LeftOut>,
    ) {
        let mut seen = codes.clone();
        seen.sort_unstable();
        seen.dedup();
        let name = match &what {
            What::Variable(variable) => named(variable),
            What::Node => "the node".into(),
            What::Name => "its name".into(),
        };
        if seen.len() < 2 {
            let value = seen.first().map_or(&Value::Null, |code| states.values.value(*code));
            let why = WhyLeftOut::Constant(value.clone());
            left_out.push(LeftOut { variable: name, why });
            return;
        }
        let is_nan =
            |code: &Code| matches!(states.values.value(*code), Value::Float(x) if x.is_nan());
        if seen.iter().any(is_nan) {
            left_out.push(LeftOut { variable: name, why: WhyLeftOut::NotANumber });
            return;
        }
        let column = match class {
            Class::Number => Column::of_numbers(codes.iter().map(|code| numbers.code(*code))),
            _ => Column::of_values(codes),
        };
        let nullable = seen[0] == Dictionary::NULL;
        let names_nodes = class == Class::Token(TokenKind::Text)
            && seen.iter().any(|code| identity.named.contains(code));
        self.terms.push(Term { what, class, distinct: seen.len(), nullable, names_nodes });
        self.columns.push(column);
    }

    /// The node itself and its name, where some variable says which node.
    fn add_identity(&mut self, own: &KindAtoms, identity: &Identity, left_out: &mut Vec<LeftOut>) {
        let both = [
            (What::Node, Class::Token(TokenKind::Node), &identity.ids),
            (What::Name, Class::Token(TokenKind::Text), &identity.names),
        ];
        for (what, class, codes) in both {
            if !codes.is_empty() {
                let column = Column::of_values(own.nodes.iter().map(|node| codes[*node as usize]));
                // A variable that always names its own node is replaced by the node itself.
                if let Some(place) = self.columns.iter().position(|other| *other == column) {
                    let What::Variable(variable) = &self.terms[place].what else { continue };
                    let (variable, why) = (named(variable), WhyLeftOut::OwnNode);
                    left_out.push(LeftOut { variable, why });
                    self.terms.remove(place);
                    self.columns.remove(place);
                }
                self.columns.push(column);
                let (distinct, nullable, names_nodes) = (codes.len(), false, true);
                self.terms.push(Term { what, class, distinct, nullable, names_nodes });
            }
        }
    }

    /// The elements of the containers of a table, one row each; equal ones share the first.
    pub(super) fn of_elements(
        kind: KindId,
        table: TableId,
        states: &States,
        numbers: &Numbers,
    ) -> Side {
        let own = &states.kinds[kind];
        let mut side = Side { groups: vec![0; own.owners(table).len()], ..Side::default() };
        let variables = &states.variables.kinds[kind].tables[table].variables;
        for (place, variable) in variables.iter().enumerate() {
            if let Some(class) = Class::of(&variable.ty) {
                let codes = own.column(table, place).to_vec();
                let what = What::Variable(variable.clone());
                let among = (states, numbers, &Identity::default());
                side.add(what, class, codes, among, &mut Vec::new());
            }
        }
        side
    }
}

/// The codes of nodes, where some variable says which node; otherwise empty.
#[derive(Debug, Default)]
pub(super) struct Identity {
    ids: Vec<Code>,
    names: Vec<Code>,
    /// The names that are the value of something.
    named: Vec<Code>,
}

impl Identity {
    pub(super) fn of(states: &mut States, atoms: &Atoms) -> Identity {
        let ids: Vec<Value> = atoms.nodes.iter().map(|(_, id)| Value::Node(*id)).collect();
        let names: Vec<Value> = atoms.nodes.iter().map(|(name, _)| name.as_str().into()).collect();
        let named = names.iter().filter_map(|name| states.values.find(name)).collect();
        let mut codes = |nodes: Vec<Value>| {
            let known = nodes.iter().filter(|node| states.values.find(node).is_some()).count();
            let nodes = nodes.iter().filter(|_| known > 1);
            nodes.map(|node| states.values.code(node)).collect()
        };
        Identity { ids: codes(ids), names: codes(names), named }
    }
}

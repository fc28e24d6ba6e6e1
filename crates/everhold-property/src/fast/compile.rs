//! Compilation of trees to programs.

use std::sync::Arc;

use everhold_trace::Value;

use super::ir::{Contribution, Loop, LoopOver, Nodes, Range, Reg, Term, Test, Unit, UnitBody};
use super::row::{Column, Layout, Row};
use crate::ast::{
    BinaryOp, Domain, Expr, ExprKind, History, Literal, Over, Property, Quantifier, Scope, UnaryOp,
};
use crate::eval::{Bound, literal, loops, mentions_all};
use crate::library::{Builtin, Library, NodeFact};

/// A property compiled. Copies share it.
///
/// ```
/// use everhold_property::{Evaluator, Library, Program, Snapshot, State, Value, Verdict, parse};
/// let property = &parse(r#"always "p": forall a, b in nodes: a.x == b.x"#).properties[0];
/// let program = Program::new(property, &Library::new());
/// let mut state = Snapshot::default();
/// let (a, b) = (state.add("a", "server"), state.add("b", "server"));
/// let mut evaluator = Evaluator::new(&program, state.members());
/// evaluator.set(a, &Value::record([("x", 1)]));
/// assert_eq!(evaluator.verdict(), Verdict::Unknown);
/// evaluator.set(b, &Value::record([("x", 2)]));
/// assert_eq!(evaluator.verdict(), Verdict::Violated);
/// ```
#[derive(Clone, Debug)]
pub struct Program(pub(super) Arc<Code>);

#[derive(Debug)]
pub(super) struct Code {
    pub(super) layout: Layout,
    pub(super) test: Test,
    pub(super) units: Vec<Unit>,
    pub(super) kinds: Vec<String>,
    pub(super) registers: usize,
    /// The number of earlier states that are needed.
    pub(super) depth: usize,
}

impl Program {
    /// Compiles the body of a property. Names without a meaning become unknown; type checking
    /// reports them.
    #[must_use]
    pub fn new(property: &Property, library: &Library) -> Program {
        let fixed: &[&str] =
            if property.scope == Scope::Delivery { &["sender", "receiver"] } else { &[] };
        Program::of(&property.body, library, fixed)
    }

    /// Compiles a condition in which the variables `fixed` are nodes.
    pub(crate) fn of(body: &Expr, library: &Library, fixed: &[&str]) -> Program {
        let mut compiler = Compiler::new(library);
        for name in fixed {
            compiler.bind(name, Kind::Node);
        }
        compiler.fixed = fixed.len();
        let test = compiler.test(body);
        Program(Arc::new(Code {
            layout: compiler.layout,
            test,
            units: compiler.units,
            kinds: compiler.kinds,
            registers: compiler.registers,
            depth: depth(body),
        }))
    }

    /// Looks up what the program needs of a state.
    #[must_use]
    pub fn row(&self, state: &Value) -> Row {
        self.0.layout.row(state)
    }

    /// Whether the property depends on this field of a node's state.
    ///
    /// ```
    /// use everhold_property::{Library, Program, parse};
    /// let property = &parse(r#"always "p": forall n in nodes: n.term > 0"#).properties[0];
    /// let program = Program::new(property, &Library::new());
    /// assert!(program.reads("term") && !program.reads("log"));
    /// ```
    #[must_use]
    pub fn reads(&self, field: &str) -> bool {
        self.0.layout.reads(field)
    }

    /// The number of earlier states that the property looks back on.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.0.depth
    }

    /// The unit that is the whole program, if the program is one `forall` over nodes that depends
    /// on nothing but the bound nodes.
    pub(super) fn whole_unit(&self) -> Option<&Unit> {
        let Test::Unit(unit) = self.0.test else { return None };
        let unit = &self.0.units[unit];
        let forall = matches!(unit.body, UnitBody::Quantified { forall: true, .. });
        (forall && unit.local).then_some(unit)
    }

    /// Whether the program is one `forall` over nodes whose instances depend only on their nodes.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.whole_unit().is_some()
    }
}

/// The number of states by which an expression looks back.
pub(crate) fn depth(expr: &Expr) -> usize {
    let mut below = 0;
    expr.for_each_child(&mut |child| below = below.max(depth(child)));
    below
        + match &expr.kind {
            ExprKind::History { op: History::Window, steps, .. } => *steps as usize - 1,
            ExprKind::History { steps, .. } => *steps as usize,
            _ => 0,
        }
}

/// The kinds of variables, by where their values are held.
#[derive(Clone, Copy)]
enum Kind {
    Node,
    /// An element of a table.
    Item(usize),
    /// The key of an entry of a table.
    Key(usize),
    Value,
}

struct Compiler<'a> {
    library: &'a Library,
    layout: Layout,
    units: Vec<Unit>,
    kinds: Vec<String>,
    scope: Vec<(String, Kind, Reg)>,
    /// The number of variables that are bound from the start.
    fixed: usize,
    registers: usize,
    /// Whether the expression being compiled is about an earlier state.
    past: bool,
    /// Whether some expression may refer to a node that no variable holds.
    asks_others: bool,
}

/// The leading loops over nodes of a quantifier, and the rest of it.
struct Prefix<'e> {
    vars: Vec<(&'e str, &'e Domain)>,
    guards: Vec<&'e Expr>,
    rest: Vec<(Bound<'e>, &'e Domain)>,
    guard: Option<&'e Expr>,
    body: &'e Expr,
}

impl<'a> Compiler<'a> {
    fn new(library: &'a Library) -> Compiler<'a> {
        Compiler {
            library,
            layout: Layout::default(),
            units: Vec::new(),
            kinds: Vec::new(),
            scope: Vec::new(),
            fixed: 0,
            registers: 0,
            past: false,
            asks_others: false,
        }
    }

    fn bind(&mut self, name: &str, kind: Kind) -> Reg {
        let reg = self.scope.iter().map(|(_, _, reg)| reg + 1).max().unwrap_or(0);
        self.bind_at(name, kind, reg);
        reg
    }

    fn bind_at(&mut self, name: &str, kind: Kind, reg: Reg) {
        self.scope.push((name.to_owned(), kind, reg));
        self.registers = self.registers.max(reg + 1);
    }

    fn lookup(&self, name: &str) -> Option<(Kind, Reg)> {
        let found = self.scope.iter().rev().find(|(other, ..)| other == name);
        found.map(|(_, kind, reg)| (*kind, *reg))
    }

    fn test(&mut self, expr: &Expr) -> Test {
        match &expr.kind {
            ExprKind::Literal(Literal::Bool(value)) => Test::Const(*value),
            ExprKind::Unary(UnaryOp::Not, operand) => Test::Not(Box::new(self.test(operand))),
            ExprKind::Binary(op, left, right) => self.binary(*op, left, right, expr),
            ExprKind::Is(base, variant) => Test::Is(self.term(base), variant.name.clone()),
            ExprKind::Quantified { quantifier, over, body } => {
                self.quantified(*quantifier, over, body)
            }
            ExprKind::History { op: History::Changed, body, .. } => {
                Test::Changed(self.in_past(body))
            }
            _ => Test::Truth(self.term(expr)),
        }
    }

    fn binary(&mut self, op: BinaryOp, left: &Expr, right: &Expr, expr: &Expr) -> Test {
        match op {
            BinaryOp::And => Test::All(self.chain(BinaryOp::And, expr)),
            BinaryOp::Or => Test::Any(self.chain(BinaryOp::Or, expr)),
            BinaryOp::Implies => {
                let not = Test::Not(Box::new(self.test(left)));
                Test::Any(vec![not, self.test(right)])
            }
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem => {
                Test::Truth(self.term(expr))
            }
            _ => match (op, self.term(left), self.term(right)) {
                (BinaryOp::Ne, Term::Node(a), Term::Node(b)) => Test::Apart(a, b),
                (op, left, right) => Test::Relate(op, left, right),
            },
        }
    }

    fn chain(&mut self, op: BinaryOp, expr: &Expr) -> Vec<Test> {
        match &expr.kind {
            ExprKind::Binary(inner, left, right) if *inner == op => {
                let mut tests = self.chain(op, left);
                tests.push(self.test(right));
                tests
            }
            _ => vec![self.test(expr)],
        }
    }

    fn in_past(&mut self, body: &Expr) -> Term {
        let before = std::mem::replace(&mut self.past, true);
        let term = self.term(body);
        self.past = before;
        term
    }

    fn term(&mut self, expr: &Expr) -> Term {
        match &expr.kind {
            ExprKind::Literal(value) => Term::Const(literal(value)),
            ExprKind::Name(name) => self.name(name),
            ExprKind::Field(base, field) => self.field(expr, base, &field.name),
            ExprKind::Index(base, index) => {
                Term::Index(Box::new(self.term(base)), Box::new(self.term(index)))
            }
            ExprKind::Call(name, arguments) => self.call(&name.name, arguments),
            ExprKind::List(items) => Term::List(self.terms(items)),
            ExprKind::Set(items) => Term::Set(self.terms(items)),
            ExprKind::Map(entries) => {
                Term::Map(entries.iter().map(|(k, v)| (self.term(k), self.term(v))).collect())
            }
            ExprKind::Record(fields) => Term::Record(
                fields.iter().map(|(name, v)| (name.name.clone(), self.term(v))).collect(),
            ),
            ExprKind::Unary(UnaryOp::Neg, operand) => Term::Negate(Box::new(self.term(operand))),
            ExprKind::Binary(
                op
                @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem),
                left,
                right,
            ) => Term::Arithmetic(*op, Box::new(self.term(left)), Box::new(self.term(right))),
            ExprKind::Aggregate { op, over, body } => self.aggregate(*op, over, body.as_deref()),
            ExprKind::History { op: op @ (History::Previous | History::Window), steps, body } => {
                Term::Past(*op, *steps as usize, Box::new(self.in_past(body)))
            }
            ExprKind::Hole | ExprKind::LeadsTo(..) => Term::Unknown,
            ExprKind::Unary(UnaryOp::Not, _)
            | ExprKind::Binary(..)
            | ExprKind::Is(..)
            | ExprKind::Quantified { .. }
            | ExprKind::History { op: History::Changed, .. } => {
                Term::Test(Box::new(self.test(expr)))
            }
        }
    }

    fn terms(&mut self, items: &[Expr]) -> Vec<Term> {
        items.iter().map(|item| self.term(item)).collect()
    }

    fn name(&mut self, name: &str) -> Term {
        match self.lookup(name) {
            Some((Kind::Node, reg)) => Term::Node(reg),
            Some((Kind::Value, reg)) => Term::Var(reg),
            Some((Kind::Item(table), reg)) => {
                Term::Column(reg, self.layout.column(table, Column::Item(Vec::new())))
            }
            Some((Kind::Key(table), reg)) => {
                Term::Column(reg, self.layout.column(table, Column::Key))
            }
            None => self.library.constant(name).cloned().map_or(Term::Unknown, Term::Const),
        }
    }

    /// Compiles a field. A path from a variable is looked up when the row is made; other fields are
    /// looked up at run time.
    fn field(&mut self, expr: &Expr, base: &Expr, name: &str) -> Term {
        if let Some((root, path)) = path(expr) {
            match self.lookup(root) {
                Some((Kind::Node, reg)) => return Term::Slot(reg, self.layout.slot(&path)),
                Some((Kind::Item(table), reg)) => {
                    return Term::Column(reg, self.layout.column(table, Column::Item(path)));
                }
                _ => {}
            }
        }
        let slot = self.layout.slot(&[name.to_owned()]);
        self.asks_others = true;
        Term::Field(Box::new(self.term(base)), name.to_owned(), slot)
    }

    fn call(&mut self, name: &str, arguments: &[Expr]) -> Term {
        let mut terms = self.terms(arguments);
        if let Some(function) = self.library.function(name) {
            return Term::Function(function.clone(), terms);
        }
        match Builtin::named(name) {
            Some((_, least, most)) if !(least..=most).contains(&terms.len()) => Term::Unknown,
            Some((Builtin::Of(fact), ..)) => {
                if fact == NodeFact::State {
                    self.layout.slot(&[]);
                }
                self.asks_others |= !matches!(terms[0], Term::Node(_));
                Term::Fact(fact, Box::new(terms.remove(0)))
            }
            // Properties that count messages are left to the plain evaluator.
            Some((Builtin::InFlight | Builtin::Messages, ..)) => Term::Unknown,
            Some((builtin, ..)) => Term::Builtin(builtin, terms),
            None => Term::Unknown,
        }
    }

    fn nodes(&mut self, domain: &Domain) -> Option<Nodes> {
        let Domain::Nodes { kind, all } = domain else { return None };
        let kind = kind.as_ref().map(|kind| {
            self.kinds.iter().position(|other| other == kind).unwrap_or_else(|| {
                self.kinds.push(kind.clone());
                self.kinds.len() - 1
            })
        });
        Some(Nodes { kind, all: *all })
    }

    fn is_closed(&self) -> bool {
        self.scope.len() == self.fixed && !self.past
    }

    fn quantified(&mut self, quantifier: Quantifier, over: &Over, body: &Expr) -> Test {
        let forall = quantifier == Quantifier::Forall;
        let depth = self.scope.len();
        let prefix = prefix(quantifier, over, body);
        if !self.is_closed() || prefix.vars.is_empty() {
            let over = self.over(&loops(over), over.guard.as_deref());
            let body = Box::new(self.test(body));
            self.scope.truncate(depth);
            return Test::Loop { forall, over, body };
        }
        let local = prefix.rest.iter().all(|(_, domain)| !matches!(domain, Domain::Nodes { .. }))
            && !mentions_all(prefix.body)
            && !prefix.guards.iter().chain(&prefix.guard).any(|guard| mentions_all(guard))
            && !prefix.rest.iter().any(|(_, domain)| domain_mentions_all(domain));
        self.asks_others = false;
        let vars = self.unit_vars(&prefix.vars);
        let mut guards: Vec<Test> = prefix.guards.iter().map(|guard| self.test(guard)).collect();
        let body = if prefix.rest.is_empty() {
            self.test(prefix.body)
        } else {
            let over = self.over(&prefix.rest, prefix.guard);
            Test::Loop { forall, over, body: Box::new(self.test(prefix.body)) }
        };
        self.scope.truncate(depth);
        let guard = match guards.len() {
            0 | 1 => guards.pop(),
            _ => Some(Test::All(guards)),
        };
        let local = local && !self.asks_others;
        self.unit(Unit { vars, guard, body: UnitBody::Quantified { forall, body }, local })
    }

    fn unit(&mut self, unit: Unit) -> Test {
        self.units.push(unit);
        Test::Unit(self.units.len() - 1)
    }

    fn unit_vars(&mut self, vars: &[(&str, &Domain)]) -> Vec<(Reg, Nodes)> {
        let each = vars.iter().map(|(name, domain)| {
            let nodes = self.nodes(domain).expect("the prefix has only loops over nodes");
            (self.bind(name, Kind::Node), nodes)
        });
        each.collect()
    }

    fn aggregate(&mut self, op: crate::ast::Aggregate, over: &Over, body: Option<&Expr>) -> Term {
        let depth = self.scope.len();
        let all: Vec<(Bound<'_>, &Domain)> = loops(over);
        let only_nodes = all.iter().all(|(_, domain)| matches!(domain, Domain::Nodes { .. }));
        let guard = over.guard.as_deref();
        if !self.is_closed() || !only_nodes {
            let over = self.over(&all, guard);
            let body = Box::new(self.contribution(op, body));
            self.scope.truncate(depth);
            return Term::Aggregate { op, over, body };
        }
        let vars: Vec<(&str, &Domain)> = all.iter().filter_map(node_var).collect();
        if vars.len() < all.len() {
            return Term::Unknown;
        }
        let local = !guard.is_some_and(mentions_all) && !body.is_some_and(mentions_all);
        self.asks_others = false;
        let vars = self.unit_vars(&vars);
        let guard = guard.map(|guard| self.test(guard));
        let body = self.contribution(op, body);
        self.scope.truncate(depth);
        let local = local && !self.asks_others;
        self.units.push(Unit { vars, guard, body: UnitBody::Aggregate { op, body }, local });
        Term::Unit(self.units.len() - 1)
    }

    fn contribution(&mut self, op: crate::ast::Aggregate, body: Option<&Expr>) -> Contribution {
        match (op, body) {
            (crate::ast::Aggregate::Count, Some(body)) => Contribution::If(self.test(body)),
            (_, Some(body)) => Contribution::Value(self.term(body)),
            (_, None) => Contribution::Value(Term::Const(Value::Null)),
        }
    }

    fn over(&mut self, loops: &[(Bound<'_>, &Domain)], guard: Option<&Expr>) -> LoopOver {
        let loops = loops.iter().map(|(bound, domain)| self.one_loop(bound, domain)).collect();
        LoopOver { loops, guard: guard.map(|guard| Box::new(self.test(guard))) }
    }

    fn one_loop(&mut self, bound: &Bound<'_>, domain: &Domain) -> Loop {
        match (bound, domain) {
            (Bound::One(name), Domain::Nodes { .. }) => {
                let nodes = self.nodes(domain).expect("it is a domain of nodes");
                Loop { reg: self.bind(name, Kind::Node), domain: Range::Nodes(nodes) }
            }
            (Bound::One(name), Domain::Range { from, to, inclusive }) => {
                let (from, to) = (self.term(from), self.term(to));
                let domain = Range::Ints { from, to, inclusive: *inclusive };
                Loop { reg: self.bind(name, Kind::Value), domain }
            }
            (Bound::One(name), Domain::Values(expr)) => match self.node_field(expr) {
                Some((node, field)) => {
                    let table = self.layout.table(&field, false);
                    let reg = self.bind(name, Kind::Item(table));
                    Loop { reg, domain: Range::Table(node, table) }
                }
                None => {
                    let domain = Range::Values(self.term(expr));
                    Loop { reg: self.bind(name, Kind::Value), domain }
                }
            },
            (Bound::Entry(key, value), Domain::Values(expr)) => self.entry_loop(key, value, expr),
            (Bound::Entry(key, value), _) => {
                let (reg, other) = (self.bind(key, Kind::Value), self.bind(value, Kind::Value));
                Loop { reg, domain: Range::Entries(Term::Unknown, other) }
            }
        }
    }

    fn entry_loop(&mut self, key: &str, value: &str, expr: &Expr) -> Loop {
        if let Some((node, field)) = self.node_field(expr) {
            let table = self.layout.table(&field, true);
            let reg = self.bind(key, Kind::Key(table));
            self.bind_at(value, Kind::Item(table), reg);
            return Loop { reg, domain: Range::Table(node, table) };
        }
        let container = self.term(expr);
        let (reg, other) = (self.bind(key, Kind::Value), self.bind(value, Kind::Value));
        Loop { reg, domain: Range::Entries(container, other) }
    }

    /// `n.field` of a node variable. A single field of a state is reached without passing through
    /// another node.
    fn node_field(&self, expr: &Expr) -> Option<(Reg, String)> {
        let (root, mut path) = path(expr)?;
        match (self.lookup(root)?, path.len()) {
            ((Kind::Node, reg), 1) => Some((reg, path.remove(0))),
            _ => None,
        }
    }
}

fn node_var<'e>((bound, domain): &(Bound<'e>, &'e Domain)) -> Option<(&'e str, &'e Domain)> {
    match (bound, domain) {
        (Bound::One(name), Domain::Nodes { .. }) => Some((*name, *domain)),
        _ => None,
    }
}

fn domain_mentions_all(domain: &Domain) -> bool {
    match domain {
        Domain::Nodes { .. } => true,
        Domain::Range { from, to, .. } => mentions_all(from) || mentions_all(to),
        Domain::Values(expr) => mentions_all(expr),
    }
}

/// `a.b.c` as the variable and the fields.
fn path(expr: &Expr) -> Option<(&str, Vec<String>)> {
    match &expr.kind {
        ExprKind::Field(base, field) => {
            let (root, mut path) = path(base)?;
            path.push(field.name.clone());
            Some((root, path))
        }
        ExprKind::Name(name) => Some((name, Vec::new())),
        _ => None,
    }
}

/// Splits the loops over nodes from the front, through directly nested quantifiers of one kind.
///
/// `forall a in nodes where p: forall b in nodes where q: r` is equivalent to `forall a, b in nodes
/// where p and q: r`. A loop over values is not moved, since its domain may be unknown where `p` is
/// false.
fn prefix<'e>(quantifier: Quantifier, over: &'e Over, body: &'e Expr) -> Prefix<'e> {
    let mut all = loops(over);
    let vars: Vec<_> = all.iter().map_while(node_var).collect();
    let rest = all.split_off(vars.len());
    let guard = over.guard.as_deref();
    if !rest.is_empty() {
        return Prefix { vars, guards: Vec::new(), rest, guard, body };
    }
    let guards: Vec<&Expr> = guard.into_iter().collect();
    match &body.kind {
        ExprKind::Quantified { quantifier: inner, over, body } if *inner == quantifier => {
            let mut found = prefix(quantifier, over, body);
            found.vars.splice(0..0, vars);
            found.guards.splice(0..0, guards);
            found
        }
        _ => Prefix { vars, guards, rest, guard: None, body },
    }
}

//! The intermediate representation to which a property is compiled.

use everhold_trace::Value;

use crate::ast::{Aggregate, BinaryOp, History};
use crate::library::{Builtin, Function, NodeFact};

/// A variable's place.
pub(super) type Reg = usize;
/// A path of fields from the state of a node.
pub(super) type Slot = usize;
/// A kind of node that the property names.
pub(super) type Kind = usize;

/// An expression whose value is true, false or unknown.
#[derive(Clone, Debug)]
pub(super) enum Test {
    Const(bool),
    All(Vec<Test>),
    Any(Vec<Test>),
    Not(Box<Test>),
    Relate(BinaryOp, Term, Term),
    /// Whether two node variables are different nodes.
    Apart(Reg, Reg),
    Is(Term, String),
    Changed(Term),
    Loop {
        forall: bool,
        over: LoopOver,
        body: Box<Test>,
    },
    /// A closed quantifier over nodes, whose results are cached.
    Unit(usize),
    /// A term that must have a boolean value.
    Truth(Term),
}

/// An expression that has a value, or is unknown.
#[derive(Clone, Debug)]
pub(super) enum Term {
    Const(Value),
    /// Never known: a name without a meaning.
    Unknown,
    /// The node in a register.
    Node(Reg),
    /// A path of fields of the node in a register.
    Slot(Reg, Slot),
    /// A column of the element in a register.
    Column(Reg, usize),
    /// The value in a register.
    Var(Reg),
    /// A field of a computed value: by name, or by slot if it turns out to be a node.
    Field(Box<Term>, String, Slot),
    Index(Box<Term>, Box<Term>),
    Builtin(Builtin, Vec<Term>),
    Fact(NodeFact, Box<Term>),
    Function(Function, Vec<Term>),
    List(Vec<Term>),
    Set(Vec<Term>),
    Map(Vec<(Term, Term)>),
    Record(Vec<(String, Term)>),
    Negate(Box<Term>),
    Arithmetic(BinaryOp, Box<Term>, Box<Term>),
    Aggregate {
        op: Aggregate,
        over: LoopOver,
        body: Box<Contribution>,
    },
    /// A closed aggregate over nodes, whose contributions are cached.
    Unit(usize),
    Past(History, usize, Box<Term>),
    Test(Box<Test>),
}

/// The contribution of each binding to an aggregate.
#[derive(Clone, Debug)]
pub(super) enum Contribution {
    /// The binding itself, if it meets the test.
    If(Test),
    Value(Term),
}

/// Loops, the outermost first, and the condition that selects the bindings.
#[derive(Clone, Debug)]
pub(super) struct LoopOver {
    pub(super) loops: Vec<Loop>,
    pub(super) guard: Option<Box<Test>>,
}

#[derive(Clone, Debug)]
pub(super) struct Loop {
    pub(super) reg: Reg,
    pub(super) domain: Range,
}

/// The domain of a loop.
#[derive(Clone, Debug)]
pub(super) enum Range {
    Nodes(Nodes),
    Ints {
        from: Term,
        to: Term,
        inclusive: bool,
    },
    /// A table of the row of the node in a register.
    Table(Reg, usize),
    Values(Term),
    /// Keys in the loop's register, values in this one.
    Entries(Term, Reg),
}

/// The set of nodes that a loop visits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nodes {
    pub(super) kind: Option<Kind>,
    pub(super) all: bool,
}

/// A closed quantifier or aggregate over nodes; its results are cached for each tuple of nodes.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub(super) vars: Vec<(Reg, Nodes)>,
    pub(super) guard: Option<Test>,
    pub(super) body: UnitBody,
    /// Whether a tuple's result depends on nothing but the nodes of the tuple.
    pub(super) local: bool,
}

#[derive(Clone, Debug)]
pub(super) enum UnitBody {
    Quantified { forall: bool, body: Test },
    Aggregate { op: Aggregate, body: Contribution },
}

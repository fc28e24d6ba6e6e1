//! The syntax tree of a property. Equality compares meaning: source positions are ignored.

use crate::diagnostic::Span;

/// A named claim over executions.
#[derive(Clone, Debug)]
pub struct Property {
    /// The property's name: a sentence, unique in its file.
    pub name: String,
    /// When the body must hold.
    pub modality: Modality,
    /// The states in which the property is judged.
    pub scope: Scope,
    /// Which keys and moments a watch looks at.
    pub sampling: Sampling,
    /// The claim. Under [`Modality::LeadsTo`] it is an [`ExprKind::LeadsTo`], perhaps below
    /// `forall`; otherwise it contains none.
    pub body: Expr,
    /// The whole property in its source.
    pub span: Span,
}

impl PartialEq for Property {
    fn eq(&self, other: &Property) -> bool {
        self.name == other.name
            && self.modality == other.modality
            && self.scope == other.scope
            && self.sampling == other.sampling
            && self.body == other.body
    }
}

/// When the body of a property must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modality {
    /// In every state.
    Always,
    /// In at least one state of one execution.
    Sometimes,
    /// In at least one state of every execution.
    Eventually {
        /// The time allowed from the first state in which the body is known to be false; `None`:
        /// until the end of the execution.
        within: Option<Bound>,
    },
    /// In the last state of every execution.
    Finally {
        /// The longest time for which the body may stay false; `None`: any time, as long as it
        /// holds at the end.
        within: Option<Bound>,
    },
    /// Whenever the left side holds, the right side holds then or later.
    LeadsTo {
        /// The time allowed for the right side; `None`: until the end of the execution.
        within: Option<Bound>,
    },
}

impl Property {
    /// The kinds of nodes that the property names in its quantifiers, each once.
    #[must_use]
    pub fn kinds(&self) -> Vec<String> {
        let mut kinds: Vec<String> = Vec::new();
        self.body.any(&mut |expr| {
            if let ExprKind::Quantified { over, .. } | ExprKind::Aggregate { over, .. } = &expr.kind
            {
                for binder in &over.binders {
                    match &binder.domain {
                        Domain::Nodes { kind: Some(kind), .. } if !kinds.contains(kind) => {
                            kinds.push(kind.clone());
                        }
                        _ => {}
                    }
                }
            }
            false
        });
        kinds
    }
}

impl Modality {
    /// The time that the property allows, if it has a bound.
    #[must_use]
    pub fn within(self) -> Option<Bound> {
        match self {
            Modality::Always | Modality::Sometimes => None,
            Modality::Eventually { within }
            | Modality::Finally { within }
            | Modality::LeadsTo { within } => within,
        }
    }
}

/// The time that something may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// In the time of the execution, in nanoseconds.
    Nanos(u64),
    /// A number of states.
    Steps(u64),
}

/// The set of states in which a property is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// In every consistent global state.
    #[default]
    EveryCut,
    /// In states where no message is in flight between the nodes that the property mentions.
    Quiet,
    /// In states where no message is in flight at all.
    AllQuiet,
    /// Over the sender's state at a send and the receiver's state after the delivery.
    Delivery,
    /// Over the states met along chains of causally ordered events.
    Chains,
}

/// Which part of what a property claims a watch looks at. Recordings, explored executions and
/// assertions are judged in full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampling {
    /// Which share of the keys; `None`: all.
    pub keys: Option<Share>,
    /// Judged once in so many nanoseconds; `None`: after every change.
    pub every: Option<u64>,
}

impl Sampling {
    /// Whether everything is looked at.
    #[must_use]
    pub fn is_full(self) -> bool {
        self == Sampling::default()
    }
}

/// `some` in `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// How many, at least one.
    pub some: u64,
    /// Of how many, at least as many.
    pub of: u64,
}

/// An expression and its place.
#[derive(Clone, Debug)]
pub struct Expr {
    /// The kind of expression, with its parts.
    pub kind: ExprKind,
    /// The place in the source.
    pub span: Span,
}

impl PartialEq for Expr {
    fn eq(&self, other: &Expr) -> bool {
        self.kind == other.kind
    }
}

impl Expr {
    /// An expression that was not read from a text.
    #[must_use]
    pub fn new(kind: ExprKind) -> Expr {
        Expr { kind, span: Span::default() }
    }

    /// Calls `visit` on every direct part, with the parts of binders first.
    pub fn for_each_child<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        match &self.kind {
            ExprKind::Hole | ExprKind::Literal(_) | ExprKind::Name(_) => {}
            ExprKind::Field(base, _) | ExprKind::Is(base, _) | ExprKind::Unary(_, base) => {
                visit(base);
            }
            ExprKind::History { body, .. } => visit(body),
            ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) | ExprKind::LeadsTo(a, b) => {
                visit(a);
                visit(b);
            }
            ExprKind::Call(_, items) | ExprKind::List(items) | ExprKind::Set(items) => {
                items.iter().for_each(visit);
            }
            ExprKind::Map(entries) => {
                for (key, value) in entries {
                    visit(key);
                    visit(value);
                }
            }
            ExprKind::Record(fields) => fields.iter().for_each(|(_, value)| visit(value)),
            ExprKind::Quantified { over, body, .. } => {
                over.for_each_child(visit);
                visit(body);
            }
            ExprKind::Aggregate { over, body, .. } => {
                over.for_each_child(visit);
                body.iter().for_each(|body| visit(body));
            }
        }
    }

    /// Calls `visit` on every direct part, to change it.
    pub(crate) fn for_each_child_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        match &mut self.kind {
            ExprKind::Hole | ExprKind::Literal(_) | ExprKind::Name(_) => {}
            ExprKind::Field(base, _) | ExprKind::Is(base, _) | ExprKind::Unary(_, base) => {
                visit(base);
            }
            ExprKind::History { body, .. } => visit(body),
            ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) | ExprKind::LeadsTo(a, b) => {
                visit(a);
                visit(b);
            }
            ExprKind::Call(_, items) | ExprKind::List(items) | ExprKind::Set(items) => {
                items.iter_mut().for_each(visit);
            }
            ExprKind::Map(entries) => {
                for (key, value) in entries {
                    visit(key);
                    visit(value);
                }
            }
            ExprKind::Record(fields) => fields.iter_mut().for_each(|(_, value)| visit(value)),
            ExprKind::Quantified { over, body, .. } => {
                over.for_each_child_mut(visit);
                visit(body);
            }
            ExprKind::Aggregate { over, body, .. } => {
                over.for_each_child_mut(visit);
                body.iter_mut().for_each(|body| visit(body));
            }
        }
    }

    /// Returns true if `test` is true of this expression or of one below it.
    pub fn any(&self, test: &mut dyn FnMut(&Expr) -> bool) -> bool {
        if test(self) {
            return true;
        }
        let mut found = false;
        self.for_each_child(&mut |child| found = found || child.any(test));
        found
    }
}

/// The kinds of expression.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A part of the text that could not be read; a diagnostic gives the reason.
    Hole,
    /// A literal.
    Literal(Literal),
    /// A bound variable, or a constant supplied by the user.
    Name(String),
    /// `base.field`.
    Field(Box<Expr>, Ident),
    /// `base[index]`.
    Index(Box<Expr>, Box<Expr>),
    /// `function(arguments)`: built in, or supplied by the user.
    Call(Ident, Vec<Expr>),
    /// `[a, b]`.
    List(Vec<Expr>),
    /// `{a, b}`.
    Set(Vec<Expr>),
    /// `{a -> b}`.
    Map(Vec<(Expr, Expr)>),
    /// `{name: a}`.
    Record(Vec<(Ident, Expr)>),
    /// `not a`, `-a`.
    Unary(UnaryOp, Box<Expr>),
    /// `a and b`, `a + b` and so on.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `a is Leader`: a variant of an enumeration.
    Is(Box<Expr>, Ident),
    /// `forall x in xs: body`.
    Quantified {
        /// Whether the body must be true for every binding or for at least one.
        quantifier: Quantifier,
        /// The bindings.
        over: Over,
        /// The condition on each binding.
        body: Box<Expr>,
    },
    /// `sum(x in xs: body)`.
    Aggregate {
        /// How the values are combined.
        op: Aggregate,
        /// The bindings.
        over: Over,
        /// The value for each binding; only `count` may leave it out.
        body: Option<Box<Expr>>,
    },
    /// `previous(body)`, `changed(body)`, `window(body, steps)`.
    History {
        /// The question about the past.
        op: History,
        /// The number of steps to look back.
        steps: u32,
        /// The expression whose past it is.
        body: Box<Expr>,
    },
    /// `from leads to goal`.
    LeadsTo(Box<Expr>, Box<Expr>),
}

/// A name with its place.
#[derive(Clone, Debug)]
pub struct Ident {
    /// The name.
    pub name: String,
    /// The place in the source.
    pub span: Span,
}

impl Ident {
    /// A name that was not read from a text.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Ident {
        Ident { name: name.into(), span: Span::default() }
    }
}

impl PartialEq for Ident {
    fn eq(&self, other: &Ident) -> bool {
        self.name == other.name
    }
}

/// A literal value.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `null`.
    Null,
    /// `true`, `false`.
    Bool(bool),
    /// `42`.
    Int(i64),
    /// `1.5`.
    Float(f64),
    /// `"leader"`.
    Text(String),
    /// `bytes("00ff")`.
    Bytes(Vec<u8>),
    /// `200ms`, in nanoseconds.
    Duration(i64),
}

/// The variables and domains of a quantifier or an aggregate.
#[derive(Clone, Debug, PartialEq)]
pub struct Over {
    /// The variables with their domains; later domains may use earlier variables.
    pub binders: Vec<Binder>,
    /// The condition after `where`, which selects the bindings that count.
    pub guard: Option<Box<Expr>>,
}

impl Over {
    fn for_each_child<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        for binder in &self.binders {
            match &binder.domain {
                Domain::Nodes { .. } => {}
                Domain::Range { from, to, .. } => {
                    visit(from);
                    visit(to);
                }
                Domain::Values(expr) => visit(expr),
            }
        }
        self.guard.iter().for_each(|guard| visit(guard));
    }

    fn for_each_child_mut(&mut self, visit: &mut dyn FnMut(&mut Expr)) {
        for binder in &mut self.binders {
            match &mut binder.domain {
                Domain::Nodes { .. } => {}
                Domain::Range { from, to, .. } => {
                    visit(from);
                    visit(to);
                }
                Domain::Values(expr) => visit(expr),
            }
        }
        self.guard.iter_mut().for_each(|guard| visit(guard));
    }
}

/// One group of variables with a common domain: `a, b in nodes`.
#[derive(Clone, Debug, PartialEq)]
pub struct Binder {
    /// The variables.
    pub pattern: Pattern,
    /// The values that the variables range over.
    pub domain: Domain,
}

/// The variables of a binder.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Each ranges over the whole domain on its own.
    Names(Vec<Ident>),
    /// `key -> value`: the entries of a map or record, the positions of a list.
    Entry(Ident, Ident),
}

impl Pattern {
    /// The variables, in order.
    #[must_use]
    pub fn idents(&self) -> Vec<&Ident> {
        match self {
            Pattern::Names(names) => names.iter().collect(),
            Pattern::Entry(key, value) => vec![key, value],
        }
    }
}

/// The values that a variable ranges over.
#[derive(Clone, Debug, PartialEq)]
pub enum Domain {
    /// `nodes`, `server nodes`, `all nodes`.
    Nodes {
        /// The kind to which the nodes are restricted, if any.
        kind: Option<String>,
        /// Whether nodes that are down are included.
        all: bool,
    },
    /// `0..n`, `1..=n`.
    Range {
        /// The first integer.
        from: Box<Expr>,
        /// The end of the range.
        to: Box<Expr>,
        /// Whether the end belongs to the range.
        inclusive: bool,
    },
    /// The elements of a list or set, the keys of a map.
    Values(Box<Expr>),
}

/// The quantifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantifier {
    /// True for every binding.
    Forall,
    /// True for at least one binding.
    Exists,
}

/// How an aggregate combines its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// The number of values that are true.
    Count,
    /// The sum; 0 if there are no values.
    Sum,
    /// The smallest; null if there are no values.
    Min,
    /// The largest; null if there are no values.
    Max,
    /// The mean, a float; null if there are no values.
    Avg,
    /// The set of the values.
    Set,
    /// The list of the values, in the order of the bindings.
    List,
}

impl Aggregate {
    /// All aggregates, with their names in the language.
    pub const ALL: [(&'static str, Aggregate); 7] = [
        ("count", Aggregate::Count),
        ("sum", Aggregate::Sum),
        ("min", Aggregate::Min),
        ("max", Aggregate::Max),
        ("avg", Aggregate::Avg),
        ("set", Aggregate::Set),
        ("list", Aggregate::List),
    ];

    /// Its name in the language.
    #[must_use]
    pub fn name(self) -> &'static str {
        let found = Aggregate::ALL.iter().find(|(_, op)| *op == self);
        found.expect("ALL lists every aggregate").0
    }
}

/// The questions about the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// The value some steps ago.
    Previous,
    /// Whether the value differs from that one step ago.
    Changed,
    /// The list of the last values, the oldest first.
    Window,
}

/// Operators with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `not`.
    Not,
    /// `-`.
    Neg,
}

/// Operators with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BinaryOp {
    /// `implies`.
    Implies,
    /// `or`.
    Or,
    /// `and`.
    And,
    /// `==`.
    Eq,
    /// `!=`.
    Ne,
    /// `<`.
    Lt,
    /// `<=`.
    Le,
    /// `>`.
    Gt,
    /// `>=`.
    Ge,
    /// `in`.
    In,
    /// `not in`.
    NotIn,
    /// `subset of`.
    Subset,
    /// `disjoint from`.
    Disjoint,
    /// `prefix of`.
    Prefix,
    /// `subsequence of`.
    Subsequence,
    /// `+`.
    Add,
    /// `-`.
    Sub,
    /// `*`.
    Mul,
    /// `/`.
    Div,
    /// `%`.
    Rem,
}

impl BinaryOp {
    /// The operator as it is written.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            BinaryOp::Implies => "implies",
            BinaryOp::Or => "or",
            BinaryOp::And => "and",
            BinaryOp::Eq => "==",
            BinaryOp::Ne => "!=",
            BinaryOp::Lt => "<",
            BinaryOp::Le => "<=",
            BinaryOp::Gt => ">",
            BinaryOp::Ge => ">=",
            BinaryOp::In => "in",
            BinaryOp::NotIn => "not in",
            BinaryOp::Subset => "subset of",
            BinaryOp::Disjoint => "disjoint from",
            BinaryOp::Prefix => "prefix of",
            BinaryOp::Subsequence => "subsequence of",
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
            BinaryOp::Rem => "%",
        }
    }

    /// The precedence: an operator with a larger number binds tighter.
    #[must_use]
    pub fn precedence(self) -> u8 {
        match self {
            BinaryOp::Implies => 1,
            BinaryOp::Or => 2,
            BinaryOp::And => 3,
            BinaryOp::Add | BinaryOp::Sub => 6,
            BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem => 7,
            _ => COMPARISON,
        }
    }

    /// Whether the operator is a comparison. Comparisons do not chain: `a < b < c` is refused.
    #[must_use]
    pub fn is_comparison(self) -> bool {
        self.precedence() == COMPARISON
    }
}

/// The precedence of comparisons and membership; `not` is just below it.
pub(crate) const COMPARISON: u8 = 5;
/// The precedence of `not`.
pub(crate) const NOT: u8 = 4;
/// The precedence of unary minus.
pub(crate) const NEGATE: u8 = 8;

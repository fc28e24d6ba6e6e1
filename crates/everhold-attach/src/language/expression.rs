//! The expressions of probe files.

use std::fmt;

/// A value to be read, or a constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A constant.
    Literal(Literal),
    /// A value of the process.
    Read(Path),
}

impl Expr {
    /// Returns whether it reads the result of the function.
    #[must_use]
    pub fn is_result(&self) -> bool {
        matches!(self, Expr::Read(Path { root: Root::Result, .. }))
    }
}

/// A constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Literal {
    /// A number.
    Int(i64),
    /// A text.
    Text(String),
    /// A truth.
    Bool(bool),
    /// Nothing.
    Null,
}

/// Where a value is: `$0->stats.term[8]:u32`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Where it begins.
    pub root: Root,
    /// How it goes on.
    pub steps: Vec<Step>,
    /// How the bytes are read, where no debug information says so.
    pub kind: Option<Kind>,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.root {
            Root::Parameter(number) => write!(f, "${number}")?,
            Root::Named(name) => write!(f, "${name}")?,
            Root::Result => f.write_str("$ret")?,
            Root::Process => f.write_str("$pid")?,
            Root::Thread => f.write_str("$tid")?,
        }
        for step in &self.steps {
            match step {
                Step::Field(name) => write!(f, "->{name}")?,
                Step::At(offset) => write!(f, "[{offset}]")?,
            }
        }
        match self.kind {
            Some(kind) => write!(f, ":{}", kind.word()),
            None => Ok(()),
        }
    }
}

/// Where a path begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// The parameter with this number; of a method, 0 is the object.
    Parameter(usize),
    /// The parameter with this name.
    Named(String),
    /// The result of the function.
    Result,
    /// The number of the process.
    Process,
    /// The number of the thread.
    Thread,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// To a field, through a pointer if need be.
    Field(String),
    /// To the bytes at this offset of what a pointer points to.
    At(i64),
}

/// How bytes are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One byte, unsigned; and so on.
    U8,
    /// Two bytes.
    U16,
    /// Four bytes.
    U32,
    /// Eight bytes.
    U64,
    /// One byte, signed.
    I8,
    /// Two bytes, signed.
    I16,
    /// Four bytes, signed.
    I32,
    /// Eight bytes, signed.
    I64,
    /// A truth in one byte.
    Bool,
    /// A pointer to a text that ends with a zero.
    CText,
    /// A pointer to a text and its length, as Go, Rust and others have them.
    Text,
}

const KINDS: [(&str, Kind); 11] = [
    ("u8", Kind::U8),
    ("u16", Kind::U16),
    ("u32", Kind::U32),
    ("u64", Kind::U64),
    ("i8", Kind::I8),
    ("i16", Kind::I16),
    ("i32", Kind::I32),
    ("i64", Kind::I64),
    ("bool", Kind::Bool),
    ("cstr", Kind::CText),
    ("str", Kind::Text),
];

impl Kind {
    pub(super) fn of(word: &str) -> Option<Kind> {
        KINDS.iter().find(|(known, _)| *known == word).map(|(_, kind)| *kind)
    }

    pub(super) fn all() -> String {
        KINDS.map(|(word, _)| word).join(", ")
    }

    fn word(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }
}

/// Two values that are compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The left one.
    pub left: Expr,
    /// How.
    pub comparison: Comparison,
    /// The right one.
    pub right: Expr,
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    Different,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    More,
    /// `>=`
    AtLeast,
}

impl Comparison {
    /// Returns whether it holds of two things in this order.
    #[must_use]
    pub fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Comparison::Equal => order.is_eq(),
            Comparison::Different => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::AtMost => order.is_le(),
            Comparison::More => order.is_gt(),
            Comparison::AtLeast => order.is_ge(),
        }
    }
}

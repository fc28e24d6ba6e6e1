//! The facts about the source of a package that the analysis needs, whatever its language.

use serde::Deserialize;

/// The facts about a package, made by the front end of a language.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// The files that were read.
    pub files: Vec<File>,
    /// The files that were left out, with the reasons.
    pub skipped: Vec<Skipped>,
    /// The functions with a body.
    pub functions: Vec<Function>,
    /// The variables, among them those that only the analysis uses.
    pub vars: Vec<Var>,
    /// The flows of values from one variable to another.
    pub flows: Vec<Flow>,
    /// The calls through which variables meet the network.
    pub meets: Vec<Meet>,
    /// The places where variables can be recorded.
    pub points: Vec<Point>,
    /// The places where a run begins: the bodies of tests and of `main`.
    pub begins: Vec<Begin>,
}

/// A file of a package.
#[derive(Clone, Debug, Deserialize)]
pub struct File {
    /// The path, relative to the package.
    pub path: String,
    /// The number of lines that are neither empty nor comments.
    pub lines: usize,
}

/// A file or part of a file that was left out.
#[derive(Clone, Debug, Deserialize)]
pub struct Skipped {
    /// The path, relative to the package.
    pub path: String,
    /// The reason.
    pub reason: String,
}

/// A function with a body.
#[derive(Clone, Debug, Deserialize)]
pub struct Function {
    /// The name, after that of the type if it is a method.
    pub name: String,
    /// The type of which it is a method.
    #[serde(default)]
    pub owner: Option<String>,
}

/// The number of a variable in [`Facts::vars`].
pub type VarId = usize;

/// A variable.
#[derive(Clone, Debug, Deserialize)]
pub struct Var {
    /// The name; of a field, the name without its type.
    pub name: String,
    /// The kind.
    pub kind: Kind,
    /// The type of a field; the function of a local variable.
    #[serde(default)]
    pub owner: String,
    /// The file, as a number in [`Facts::files`].
    #[serde(default)]
    pub file: usize,
    /// The line.
    #[serde(default)]
    pub line: usize,
    /// Whether it is a connection or the like: a way to the network, not a part of the state.
    #[serde(default)]
    pub is_handle: bool,
    /// Whether its type says that it is no connection, whatever flows into it.
    #[serde(default)]
    pub is_plain: bool,
}

/// The kinds of variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A local variable.
    Local,
    /// A parameter.
    Param,
    /// A field of a type.
    Field,
    /// A static or constant, or a variable of a package.
    Global,
    /// The result of a function; not a variable of the program.
    Return,
    /// The value of a call; not a variable of the program.
    Call,
}

impl Kind {
    /// Returns whether a program names variables of this kind.
    #[must_use]
    pub fn is_named(self) -> bool {
        !matches!(self, Kind::Return | Kind::Call)
    }
}

/// A flow of a value from one variable to another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
pub struct Flow {
    /// The variable from which.
    pub from: VarId,
    /// The variable to which.
    pub to: VarId,
    /// The construct: `assigned`, `argument of f`.
    pub how: String,
    /// The file.
    pub file: usize,
    /// The line.
    pub line: usize,
}

/// The directions of communication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the network to the variable.
    In,
    /// From the variable to the network.
    Out,
}

/// A call through which a variable meets the network.
#[derive(Clone, Debug, Deserialize)]
pub struct Meet {
    /// The variable.
    pub var: VarId,
    /// The direction.
    pub direction: Direction,
    /// The call.
    pub call: String,
    /// The file.
    pub file: usize,
    /// The line.
    pub line: usize,
}

/// A place where variables can be recorded.
#[derive(Clone, Debug, Deserialize)]
pub struct Point {
    /// The kind.
    pub kind: PointKind,
    /// The file.
    pub file: usize,
    /// The offset in the file, in bytes, at which a statement can be inserted.
    pub offset: usize,
    /// The line.
    pub line: usize,
    /// The function.
    pub function: usize,
    /// The variables that can be read there, with the expressions that read them.
    pub visible: Vec<(VarId, String)>,
    /// The type of the method's receiver, if it is a reference that can be read there.
    #[serde(default)]
    pub receiver: Option<Receiver>,
}

/// The receiver of a method.
#[derive(Clone, Debug, Deserialize)]
pub struct Receiver {
    /// The type.
    pub of: String,
    /// The expression that reads it.
    pub expression: String,
}

/// The kinds of places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PointKind {
    /// The end of a function.
    End,
    /// A statement that communicates.
    Network,
    /// A mark of a person.
    Mark,
}

/// A place where a run begins.
#[derive(Clone, Debug, Deserialize)]
pub struct Begin {
    /// The file.
    pub file: usize,
    /// The offset in the file, in bytes.
    pub offset: usize,
    /// The name of the test, or `main`.
    pub name: String,
}

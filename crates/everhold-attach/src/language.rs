//! The language of probe files.
//!
//! ```text
//! # One line says one thing.
//! node is arg --name
//! budget 20000
//! after ClientNode::on_lock_acquired add locks($1, $2) of $0->node_id
//! on entry Raft::step set state.term = $0->term, role = "leader" where $0->term > 0
//! on entry release remove locks($0)
//! ```

use std::fmt;

mod expression;
mod words;

pub use expression::{Comparison, Condition, Expr, Kind, Literal, Path, Root, Step};

use words::Words;

/// The probes of a file, and how nodes are named.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeFile {
    /// The property by which one node is distinguished from another.
    pub identity: Identity,
    /// The largest number of hits a second that one probe may have before it sheds them.
    pub budget: u64,
    /// The probes, in the order of their lines.
    pub probes: Vec<Probe>,
}

/// The source of the name of a process's node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The process itself: its program and its number.
    Process,
    /// The value of this argument on its command line, as `--name n1` or `--name=n1`.
    Argument(String),
    /// The value of this variable of its environment.
    Environment(String),
    /// The first line of this file, relative to the working directory of the process.
    File(String),
    /// The lowest address on which it listens.
    Address,
}

/// When a probe looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// When the function is entered.
    Entry,
    /// When the function returns; arguments are those that it was entered with, and what they point
    /// to is read now.
    Return,
}

/// One line that says what to see.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// The number of the line, from 1.
    pub line: usize,
    /// The line.
    pub text: String,
    /// When it looks.
    pub when: When,
    /// The function, by its whole name or the end of it.
    pub function: String,
    /// The expression whose value is shown.
    pub action: Action,
    /// The node that it is shown of; the process unless told.
    pub of: Option<Expr>,
    /// All of these must hold.
    pub conditions: Vec<Condition>,
}

/// The effect of a probe: the state or the tuple that it shows.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A tuple begins to hold.
    Add {
        /// Its relation.
        relation: String,
        /// The key and then the values.
        terms: Vec<Expr>,
    },
    /// A tuple ceases to hold.
    Remove {
        /// Its relation.
        relation: String,
        /// The key, and the values if only a tuple with them is meant.
        terms: Vec<Expr>,
    },
    /// Variables have new values. A name of several parts is a field in a record.
    Set(Vec<(Vec<String>, Expr)>),
    /// A step with this name, with nothing shown.
    Step(String),
}

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanguageError {
    /// The number of the line, from 1.
    pub line: usize,
    /// The mistake, and its correction.
    pub text: String,
}

impl fmt::Display for LanguageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

impl std::error::Error for LanguageError {}

/// The budget of a probe unless the file says otherwise.
pub const BUDGET: u64 = 20_000;

/// The result of reading a part of a line.
type Read<T> = Result<T, String>;

impl ProbeFile {
    /// Reads a probe file.
    ///
    /// # Errors
    ///
    /// If a line cannot be read, or there is no probe in it.
    pub fn parse(text: &str) -> Result<ProbeFile, LanguageError> {
        let mut file =
            ProbeFile { identity: Identity::Process, budget: BUDGET, probes: Vec::new() };
        for (index, line) in text.lines().enumerate() {
            let text = line.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            file.line(index + 1, text).map_err(|text| LanguageError { line: index + 1, text })?;
        }
        if file.probes.is_empty() {
            let text =
                "no line says what to see; begin one with `after`, `on entry` or `on return`";
            return Err(LanguageError { line: 1, text: text.to_owned() });
        }
        Ok(file)
    }

    fn line(&mut self, line: usize, text: &str) -> Read<()> {
        let mut words = Words::new(text);
        let first = words.word();
        let when = match first {
            "node" => {
                self.identity = identity(&mut words)?;
                return words.end();
            }
            "budget" => {
                let number = words.word();
                let number = number.parse().ok().filter(|number| *number > 0);
                self.budget = number.ok_or("`budget` takes a number of hits a second")?;
                return words.end();
            }
            "after" => When::Return,
            "before" => When::Entry,
            "on" => match words.word() {
                "entry" => When::Entry,
                "return" => When::Return,
                other => return Err(format!("`on {other}`: write `on entry` or `on return`")),
            },
            other => {
                return Err(format!(
                    "`{other}`: a line begins with `after`, `before`, `on entry`, `on return`, \
                     `node is` or `budget`"
                ));
            }
        };
        let function = words.function()?;
        let mut probe = Probe {
            line,
            text: text.to_owned(),
            when,
            function,
            action: action(&mut words)?,
            of: None,
            conditions: Vec::new(),
        };
        if words.takes("of") {
            probe.of = Some(words.expression()?);
        }
        if words.takes("where") {
            probe.conditions.push(words.condition()?);
            while words.takes("and") {
                probe.conditions.push(words.condition()?);
            }
        }
        words.end()?;
        probe.check()?;
        self.probes.push(probe);
        Ok(())
    }
}

impl Probe {
    /// All expressions of the line.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let shown: Vec<&Expr> = match &self.action {
            Action::Add { terms, .. } | Action::Remove { terms, .. } => terms.iter().collect(),
            Action::Set(fields) => fields.iter().map(|(_, expr)| expr).collect(),
            Action::Step(_) => Vec::new(),
        };
        let compared = self.conditions.iter().flat_map(|c| [&c.left, &c.right]);
        shown.into_iter().chain(&self.of).chain(compared)
    }

    fn check(&self) -> Read<()> {
        let returns = self.expressions().any(Expr::is_result);
        match self.when {
            When::Entry if returns => {
                Err("`$ret` is known only `after` the function, not on its entry".to_owned())
            }
            _ => Ok(()),
        }
    }
}

fn identity(words: &mut Words<'_>) -> Read<Identity> {
    if words.word() != "is" {
        return Err("write `node is arg NAME`, `node is env NAME`, `node is file PATH`, \
                    `node is address` or `node is process`"
            .to_owned());
    }
    let kind = words.word();
    let mut named = |make: fn(String) -> Identity| {
        let name = words.word().trim_matches('"').to_owned();
        if name.is_empty() { Err(format!("`node is {kind}` takes a name")) } else { Ok(make(name)) }
    };
    match kind {
        "arg" => named(Identity::Argument),
        "env" => named(Identity::Environment),
        "file" => named(Identity::File),
        "address" => Ok(Identity::Address),
        "process" => Ok(Identity::Process),
        other => {
            Err(format!("`node is {other}`: it is `arg`, `env`, `file`, `address` or `process`"))
        }
    }
}

fn action(words: &mut Words<'_>) -> Read<Action> {
    match words.word() {
        "add" => {
            let (relation, terms) = words.tuple()?;
            Ok(Action::Add { relation, terms })
        }
        "remove" => {
            let (relation, terms) = words.tuple()?;
            Ok(Action::Remove { relation, terms })
        }
        "set" => {
            let mut fields = vec![words.assignment()?];
            while words.skips(',') {
                fields.push(words.assignment()?);
            }
            Ok(Action::Set(fields))
        }
        "step" => Ok(Action::Step(words.name()?)),
        other => Err(format!(
            "`{other}`: after the function comes `add RELATION(KEY, VALUE)`, \
             `remove RELATION(KEY)`, `set NAME = EXPRESSION` or `step NAME`"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Probe {
        ProbeFile::parse(line).unwrap().probes.remove(0)
    }

    #[track_caller]
    fn fails(text: &str, part: &str) {
        let error = ProbeFile::parse(text).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn the_line_of_the_paper_is_read() {
        let probe = one("after ClientNode::on_lock_acquired add locks($1, $2) of $0->node_id");
        assert_eq!((probe.when, &*probe.function), (When::Return, "ClientNode::on_lock_acquired"));
        let Action::Add { relation, terms } = &probe.action else { panic!("{probe:?}") };
        assert_eq!((&**relation, terms.len()), ("locks", 2));
        let Some(Expr::Read(of)) = &probe.of else { panic!("{probe:?}") };
        assert_eq!(
            (&of.root, &of.steps[..]),
            (&Root::Parameter(0), &[Step::Field("node_id".into())][..])
        );
    }

    #[test]
    fn functions_of_all_languages_are_one_word() {
        let name = "go.etcd.io/etcd/raft.(*raft).becomeLeader";
        assert_eq!(one(&format!("on entry {name} step lead")).function, name);
        assert_eq!(one("on entry \"f(int, long)\" step x").function, "f(int, long)");
    }

    #[test]
    fn fields_conditions_and_kinds_are_read() {
        let probe = one(
            "on entry F set state.term = $0[8]:u64, role = \"leader\" where $0[8]:u64 >= 3 and $x != -1",
        );
        let Action::Set(fields) = &probe.action else { panic!("{probe:?}") };
        assert_eq!(fields[0].0, ["state", "term"]);
        let Expr::Read(path) = &fields[0].1 else { panic!("{probe:?}") };
        assert_eq!((path.steps[0].clone(), path.kind), (Step::At(8), Some(Kind::U64)));
        assert_eq!(fields[1].1, Expr::Literal(Literal::Text("leader".into())));
        assert_eq!(probe.conditions[0].comparison, Comparison::AtLeast);
        assert_eq!(probe.conditions[1].right, Expr::Literal(Literal::Int(-1)));
    }

    #[test]
    fn settings_are_read() {
        let file = ProbeFile::parse("node is arg --name\nbudget 50\non entry F step x").unwrap();
        assert_eq!((file.identity, file.budget), (Identity::Argument("--name".into()), 50));
    }

    #[test]
    fn errors_name_the_line_and_what_is_right() {
        fails("", "no line says what to see");
        fails("\nwhen F add x($1)", "line 2: `when`");
        fails("on exit F step x", "`on exit`: write `on entry` or `on return`");
        fails("on entry F add x()", "a tuple has a key");
        fails("on entry F set x = $ret", "`$ret` is known only `after`");
        fails("on entry F set x = $0:u65", "`u65`");
        fails("on entry F set x = $0 or", "`or`");
        fails("on entry F set x $0", "`=`");
        fails("budget many", "number");
    }
}

//! The insertion of statements into the text of a file.

use std::ops::Range;

use crate::facts::Begin;
use crate::plan::Statement;

/// The language of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Rust.
    Rust,
    /// Go.
    Go,
}

/// A part of an inserted text that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A variable of a statement, by the numbers of both.
    Value(usize, usize),
    /// A statement.
    Statement(usize),
    /// The beginning of a run.
    Begin(usize),
}

/// A text with insertions, and the places of their parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inserted {
    /// The text.
    pub text: String,
    /// The places of the parts, the smallest last where one contains another.
    pub parts: Vec<(Range<usize>, Part)>,
}

/// Inserts statements and beginnings of runs, each with its number, into the text of a file. No line
/// is added, so the lines of the original remain valid.
#[must_use]
pub fn insert(
    text: &str,
    language: Language,
    statements: &[(usize, &Statement)],
    begins: &[(usize, &Begin)],
) -> Inserted {
    let mut edits: Vec<(usize, Edit<'_>)> = Vec::new();
    edits.extend(begins.iter().map(|(number, begin)| (begin.offset, Edit::Begin(*number, begin))));
    edits.extend(statements.iter().map(|(number, it)| (it.offset, Edit::Statement(*number, it))));
    // A run begins before anything is recorded in it.
    edits.sort_by_key(|(offset, edit)| (*offset, matches!(edit, Edit::Statement(..))));
    let mut out = Inserted::default();
    let mut done = 0;
    for (offset, edit) in edits {
        if offset < done || !text.is_char_boundary(offset) {
            continue;
        }
        out.text.push_str(&text[done..offset]);
        done = offset;
        match edit {
            Edit::Begin(number, begin) => out.begin(number, begin, language),
            Edit::Statement(number, statement) => out.statement(number, statement, language),
        }
    }
    out.text.push_str(&text[done..]);
    out
}

enum Edit<'a> {
    Begin(usize, &'a Begin),
    Statement(usize, &'a Statement),
}

impl Inserted {
    fn begin(&mut self, number: usize, begin: &Begin, language: Language) {
        let start = self.text.len();
        self.text.push_str(&match language {
            Language::Rust => {
                format!(" let _everhold_run = ::everhold_live::inserted::begin({:?}); ", begin.name)
            }
            Language::Go => format!(" defer everhold.Begin({:?})(); ", begin.name),
        });
        self.parts.push((start..self.text.len(), Part::Begin(number)));
    }

    fn statement(&mut self, number: usize, statement: &Statement, language: Language) {
        let start = self.text.len();
        let at = self.parts.len();
        self.text.push_str(&head(statement, language));
        let values = statement.values.iter().enumerate();
        // A variable that was left out keeps its number.
        for (value, (name, expression)) in
            values.filter(|(_, (_, expression))| !expression.is_empty())
        {
            let (before, after) = match language {
                Language::Rust => (format!("{name:?} = "), ", "),
                Language::Go => (format!(", {name:?}, "), ""),
            };
            self.text.push_str(&before);
            let start = self.text.len();
            self.text.push_str(expression);
            self.parts.push((start..self.text.len(), Part::Value(number, value)));
            self.text.push_str(after);
        }
        self.text.push_str("); ");
        self.parts.insert(at, (start..self.text.len(), Part::Statement(number)));
    }

    /// Returns the smallest part that contains any of these bytes.
    #[must_use]
    pub fn part_at(&self, bytes: &Range<usize>) -> Option<Part> {
        let meets = |range: &Range<usize>| {
            range.start < bytes.end.max(bytes.start + 1) && bytes.start < range.end
        };
        // An error that covers a whole statement and more is not the fault of one of its variables.
        let contains = |range: &Range<usize>| range.start <= bytes.start && bytes.end <= range.end;
        let found = self.parts.iter().rev().find(|(range, _)| contains(range));
        found.or_else(|| self.parts.iter().find(|(range, _)| meets(range))).map(|(_, part)| *part)
    }
}

/// Returns the beginning of the call that records variables.
fn head(statement: &Statement, language: Language) -> String {
    let site = &statement.site;
    match (language, &statement.node) {
        (Language::Rust, None) => {
            format!(" ::everhold_live::see!({site:?} @ {}, None; ", statement.line)
        }
        (Language::Rust, Some(node)) => {
            let kind = &node.kind;
            let node = match &node.identity {
                Some(identity) => format!("instance({kind:?}, ::everhold_live::look!({identity}))"),
                None => format!("at({kind:?}, &*{})", node.value),
            };
            format!(
                " ::everhold_live::see!({site:?} @ {}, ::everhold_live::inserted::{node}; ",
                statement.line
            )
        }
        (Language::Go, None) => format!("; everhold.See({site:?}, \"\", nil"),
        (Language::Go, Some(node)) => {
            let identity = node.identity.as_ref().unwrap_or(&node.value);
            format!("; everhold.See({site:?}, {:?}, {identity}", node.kind)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(language: Language, expected: &str) {
        let text = "fn f() {\n    g()\n}\n";
        let statement = Statement {
            site: "f:2".to_owned(),
            file: 0,
            offset: 13,
            line: 2,
            values: vec![("f_x".to_owned(), "x".to_owned()), ("f_y".to_owned(), "y.z".to_owned())],
            node: None,
        };
        let begin = Begin { file: 0, offset: 8, name: "f".to_owned() };
        let inserted = insert(text, language, &[(7, &statement)], &[(1, &begin)]);
        assert_eq!(inserted.text, expected);
        for (words, part) in
            [("y.z", Part::Value(7, 1)), ("f:2", Part::Statement(7)), ("egin", Part::Begin(1))]
        {
            let at = inserted.text.find(words).expect("it was inserted");
            assert_eq!(inserted.part_at(&(at..at + words.len())), Some(part), "{words}");
        }
        assert_eq!(inserted.part_at(&(0..4)), None);
    }

    #[test]
    fn statements_are_inserted_on_their_lines() {
        check(
            Language::Rust,
            "fn f() { let _everhold_run = ::everhold_live::inserted::begin(\"f\"); \n     \
             ::everhold_live::see!(\"f:2\" @ 2, None; \"f_x\" = x, \"f_y\" = y.z, ); g()\n}\n",
        );
        check(
            Language::Go,
            "fn f() { defer everhold.Begin(\"f\")(); \n    \
             ; everhold.See(\"f:2\", \"\", nil, \"f_x\", x, \"f_y\", y.z); g()\n}\n",
        );
    }
}

//! Places in a source text, and the errors found there.

use std::fmt::Write as _;

/// A range of bytes in a source text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

impl Span {
    /// The bytes from `start` up to, not including, `end`.
    #[must_use]
    pub fn new(start: usize, end: usize) -> Span {
        Span { start, end: end.max(start) }
    }

    /// The smallest span that covers both.
    ///
    /// ```
    /// use everhold_property::Span;
    /// assert_eq!(Span::new(2, 4).to(Span::new(7, 9)), Span::new(2, 9));
    /// ```
    #[must_use]
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// One error in a property: its place, its description and a remedy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// The place.
    pub span: Span,
    /// The description: a lower-case fragment without a full stop.
    pub message: String,
    /// The remedy, if one is known.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A diagnostic without a remedy.
    #[must_use]
    pub fn new(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { span, message: message.into(), help: None }
    }

    /// Adds the remedy.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// The diagnostic as plain text, with the line of the source and a caret under the place.
    ///
    /// ```
    /// use everhold_property::{Diagnostic, Span};
    /// let text = Diagnostic::new(Span::new(2, 3), "unexpected `=`")
    ///     .with_help("write `==` to compare")
    ///     .render("rules.prop", "a = b");
    /// assert_eq!(text, "\
    /// error: unexpected `=`
    ///  --> rules.prop:1:3
    ///   |
    /// 1 | a = b
    ///   |   ^
    ///   = help: write `==` to compare
    /// ");
    /// ```
    #[must_use]
    pub fn render(&self, file: &str, source: &str) -> String {
        let place = Place::of(self.span, source);
        let number = place.line.to_string();
        let pad = " ".repeat(number.len());
        let mut out = format!("error: {}\n", self.message);
        writeln!(out, "{pad}--> {file}:{}:{}", place.line, place.column).expect(STRING);
        writeln!(out, "{pad} |").expect(STRING);
        writeln!(out, "{number} | {}", place.text).expect(STRING);
        let carets = "^".repeat(place.width);
        writeln!(out, "{pad} | {}{carets}", " ".repeat(place.column - 1)).expect(STRING);
        if let Some(help) = &self.help {
            writeln!(out, "{pad} = help: {help}").expect(STRING);
        }
        out
    }
}

const STRING: &str = "writing to a string cannot fail";

/// Renders all diagnostics, in the order of the source, with an empty line between them.
#[must_use]
pub fn render_all(diagnostics: &[Diagnostic], file: &str, source: &str) -> String {
    let mut sorted: Vec<&Diagnostic> = diagnostics.iter().collect();
    sorted.sort_by_key(|diagnostic| diagnostic.span);
    sorted.iter().map(|diagnostic| diagnostic.render(file, source)).collect::<Vec<_>>().join("\n")
}

/// A span in the terms of a reader: line, column and width in characters.
struct Place {
    line: usize,
    column: usize,
    width: usize,
    text: String,
}

impl Place {
    fn of(span: Span, source: &str) -> Place {
        let start = floor_boundary(source, span.start);
        let end = floor_boundary(source, span.end).max(start);
        let line_start = source[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = source[start..].find('\n').map_or(source.len(), |newline| start + newline);
        // A span of several lines is underlined on its first line only.
        let shown = source[start..end.min(line_end).max(start)].chars().count();
        Place {
            line: source[..start].matches('\n').count() + 1,
            column: source[line_start..start].chars().count() + 1,
            width: shown.max(1),
            // A tab or another control character would put the caret in the wrong column.
            text: source[line_start..line_end]
                .trim_end_matches('\r')
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect(),
        }
    }
}

fn floor_boundary(source: &str, at: usize) -> usize {
    let mut at = at.min(source.len());
    while !source.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The candidate that a misspelt name most likely means, if one is close enough.
#[must_use]
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters may be wrong; one-letter names resemble everything.
    let limit = (name.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (edits(name, candidate), candidate))
        .filter(|(distance, candidate)| {
            *distance <= limit && *distance < candidate.chars().count().max(2)
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// The optimal string alignment distance, ignoring case: a swap of neighbours is one mistake.
fn edits(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.to_lowercase().chars().collect();
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in table.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in table[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replace = table[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(table[i - 1][j] + 1).min(table[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(table[i - 2][j - 2] + 1);
            }
            table[i][j] = best;
        }
    }
    table[a.len()][b.len()]
}

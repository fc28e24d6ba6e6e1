//! The text of a file, and the places in it.

use proc_macro2::LineColumn;

/// The words of a comment that asks for an observation at its place.
const MARKS: &[&str] = &["@observe", "@dump"];

/// The text of a file.
#[derive(Debug)]
pub(super) struct Source {
    /// The offset of each line, in bytes.
    starts: Vec<usize>,
    text: String,
    /// The lines with marks.
    pub(super) marks: Vec<usize>,
}

impl Source {
    pub(super) fn new(text: &str) -> Source {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        let starts = std::iter::once(0).chain(ends).collect();
        let is_mark = |line: &str| {
            let comment = line.trim().strip_prefix("//").map(str::trim_start);
            comment.is_some_and(|words| MARKS.iter().any(|mark| words.starts_with(mark)))
        };
        let marks = text.lines().enumerate().filter(|(_, line)| is_mark(line));
        let marks = marks.map(|(at, _)| at + 1).collect();
        Source { starts, text: text.to_owned(), marks }
    }

    /// Returns the offset of a place, in bytes.
    pub(super) fn offset(&self, at: LineColumn) -> usize {
        let start = self.starts[at.line.clamp(1, self.starts.len()) - 1];
        // Columns are counted in characters.
        let line = self.text[start..].char_indices().nth(at.column);
        line.map_or(self.text.len(), |(byte, _)| start + byte)
    }

    /// Returns the number of lines that are neither empty nor comments.
    pub(super) fn lines(&self) -> usize {
        let counts = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
        self.text.lines().filter(counts).count()
    }
}

//! Lines of a file in bounded memory, decompressed when needed.

use std::io::{self, BufRead, Read};

use super::error::{Diagnostic, DiagnosticKind, ReadError};

/// How to read a file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Leave out what is broken and keep the rest, in place of refusing the file.
    pub lenient: bool,
    /// The longest line to hold in memory, in bytes; longer ones are an error and are skipped
    /// without being held.
    pub line_bytes_max: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions { lenient: false, line_bytes_max: 16 << 20 }
    }
}

impl ReadOptions {
    /// Refuses a file with anything wrong in it.
    #[must_use]
    pub fn strict() -> ReadOptions {
        ReadOptions::default()
    }

    /// Keeps what is whole.
    #[must_use]
    pub fn lenient() -> ReadOptions {
        ReadOptions { lenient: true, ..ReadOptions::default() }
    }

    /// The same with another limit on the length of a line.
    #[must_use]
    pub fn with_line_bytes_max(mut self, bytes: usize) -> ReadOptions {
        self.line_bytes_max = bytes;
        self
    }
}

/// Hands out what is wrong: strict options return it, lenient ones keep it.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    lenient: bool,
    pub(crate) kept: Vec<Diagnostic>,
}

impl Judge {
    pub(crate) fn new(options: &ReadOptions) -> Judge {
        Judge { lenient: options.lenient, kept: Vec::new() }
    }

    pub(crate) fn is_lenient(&self) -> bool {
        self.lenient
    }

    pub(crate) fn hear(
        &mut self,
        line: Option<u64>,
        kind: DiagnosticKind,
    ) -> Result<(), ReadError> {
        self.hear_all(vec![Diagnostic { line, kind }])
    }

    pub(crate) fn hear_all(&mut self, wrong: Vec<Diagnostic>) -> Result<(), ReadError> {
        if self.lenient || wrong.is_empty() {
            self.kept.extend(wrong);
            Ok(())
        } else {
            Err(ReadError::Refused(wrong))
        }
    }
}

/// Importers weigh what could be read against what could not.
#[cfg(feature = "import")]
impl Judge {
    /// Refuses input of which less than half could be read, and otherwise says what share was kept.
    ///
    /// `of` names the parts that are counted, and `remedy` says what to do.
    pub(crate) fn weigh(
        &mut self,
        kept: u64,
        broken: u64,
        of: &str,
        remedy: &str,
    ) -> Result<(), ReadError> {
        /// The errors that are shown behind the share.
        const SHOWN_MAX: usize = 3;
        if broken == 0 {
            return Ok(());
        }
        let all = kept + broken;
        let summary = |expected: String| {
            let kind = DiagnosticKind::Import { expected };
            Diagnostic { line: None, kind }
        };
        if broken > kept {
            let text =
                format!("only {kept} of {all} {of} could be read, too few to judge; {remedy}");
            let first = self.kept.iter().filter(|wrong| wrong.line.is_some()).take(SHOWN_MAX);
            return Err(ReadError::Refused([summary(text)].iter().chain(first).cloned().collect()));
        }
        self.kept.insert(0, summary(format!("{kept} of {all} {of} were kept")));
        Ok(())
    }

    /// The number of lines with errors.
    pub(crate) fn broken_lines(&self) -> u64 {
        let lines: std::collections::BTreeSet<u64> =
            self.kept.iter().filter_map(|wrong| wrong.line).collect();
        lines.len() as u64
    }
}

/// One line of a file.
pub(crate) enum Line {
    /// A line without its line end.
    Whole,
    /// The last line, which has no line end.
    Unterminated,
    /// A line beyond the limit; its content was dropped.
    TooLong,
}

/// Reads lines of bounded length and counts them.
pub(crate) struct Lines<R> {
    input: R,
    bytes_max: usize,
    /// The content of the last line read.
    pub(crate) bytes: Vec<u8>,
    /// Its number, from 1.
    pub(crate) number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(input: R, options: &ReadOptions) -> Lines<R> {
        Lines { input, bytes_max: options.line_bytes_max, bytes: Vec::new(), number: 0 }
    }

    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Reads the next line into `bytes`.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line>> {
        self.bytes.clear();
        let limit = u64::try_from(self.bytes_max).unwrap_or(u64::MAX).saturating_add(1);
        let read = (&mut self.input).take(limit).read_until(b'\n', &mut self.bytes)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if self.bytes.last() == Some(&b'\n') {
            self.bytes.pop();
            if self.bytes.last() == Some(&b'\r') {
                self.bytes.pop();
            }
            Ok(Some(Line::Whole))
        } else if self.bytes.len() > self.bytes_max {
            self.bytes.clear();
            self.skip_line()?;
            Ok(Some(Line::TooLong))
        } else {
            Ok(Some(Line::Unterminated))
        }
    }

    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                return Ok(());
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(buffer.len(), |end| end + 1);
            self.input.consume(used);
            if end.is_some() {
                return Ok(());
            }
        }
    }
}

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Returns the input itself, or its decompressed content if it is compressed with zstd.
///
/// # Errors
///
/// If the input cannot be read.
#[cfg(feature = "zstd")]
pub fn decompressed<'a>(mut input: impl BufRead + 'a) -> io::Result<Box<dyn BufRead + 'a>> {
    if !input.fill_buf()?.starts_with(&ZSTD_MAGIC) {
        return Ok(Box::new(input));
    }
    let decoder = zstd::stream::read::Decoder::with_buffer(input)?;
    Ok(Box::new(io::BufReader::new(decoder)))
}

/// Returns the input itself or its decompressed content.
#[cfg(feature = "zstd")]
pub(crate) fn plain<'a>(input: impl BufRead + 'a) -> Result<Box<dyn BufRead + 'a>, ReadError> {
    Ok(decompressed(input)?)
}

/// Returns the input itself, or refuses it if it is compressed.
#[cfg(not(feature = "zstd"))]
pub(crate) fn plain<'a>(mut input: impl BufRead + 'a) -> Result<Box<dyn BufRead + 'a>, ReadError> {
    if input.fill_buf()?.starts_with(&ZSTD_MAGIC) {
        let kind = DiagnosticKind::Compressed;
        return Err(ReadError::Refused(vec![Diagnostic { line: None, kind }]));
    }
    Ok(Box::new(input))
}

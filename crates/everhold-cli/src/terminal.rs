//! The width and the characters of the terminal.

use std::borrow::Cow;
use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use everhold_report::picture::{Charset, Paper};

/// The paper for text on standard output: as wide as the terminal, or as `COLUMNS` says where the
/// output goes elsewhere, with the characters of the locale.
pub(crate) fn paper() -> Paper {
    let of_terminal = io::stdout().is_terminal().then(terminal_size::terminal_size).flatten();
    let width = of_terminal.map(|(width, _)| usize::from(width.0));
    Paper::of_environment().with_width(width)
}

/// The width of text in columns.
pub(crate) fn width() -> usize {
    paper().width_max
}

/// A text in the characters of the locale.
pub(crate) fn in_locale(text: &str) -> Cow<'_, str> {
    static CHARSET: OnceLock<Charset> = OnceLock::new();
    CHARSET.get_or_init(Charset::of_environment).text(text)
}

//! Untrusted text on a terminal: control characters are shown, never sent.
//!
//! Names of nodes and of rules come from files and from the network. A control character in them
//! could move the cursor or change the title of the window; it is written as `\\u{1b}` instead.

use std::io::{self, Write};

use crate::terminal::in_locale;

/// Replaces the control characters of a text, except line feeds and tabs.
pub(crate) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && !matches!(c, '\n' | '\t') {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// JSON without control characters: serde leaves those above 0x7e as they are.
pub(crate) fn plain_json(json: &str) -> String {
    let escape = |c: char| match c {
        '\u{7f}'..='\u{9f}' => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    json.chars().map(escape).collect()
}

/// A text without control characters, but for the few colours that [`Paint`](crate::paint::Paint) uses.
fn painted(text: &str) -> String {
    const COLOURS: [&str; 5] = ["[1m", "[31m", "[32m", "[33m", "[0m"];
    let mut parts = text.split('\u{1b}');
    let mut shown = plain(parts.next().unwrap_or_default());
    for part in parts {
        let is_ours = COLOURS.iter().any(|colour| part.starts_with(colour));
        shown.push_str(if is_ours { "\u{1b}" } else { "\\u{1b}" });
        shown.push_str(&plain(part));
    }
    shown
}

/// Writes what is shown of a text.
fn write_shown(out: &mut impl Write, bytes: &[u8], shown: fn(&str) -> String) -> io::Result<usize> {
    let dangerous = |byte: &u8| (*byte < 0x20 || *byte == 0x7f || *byte == 0xc2) && *byte != b'\n';
    if bytes.is_ascii() && !bytes.iter().any(dangerous) {
        out.write_all(bytes)?;
    } else {
        let text = shown(&String::from_utf8_lossy(bytes));
        out.write_all(in_locale(&text).as_bytes())?;
    }
    Ok(bytes.len())
}

/// A writer that replaces control characters.
#[derive(Debug)]
pub(crate) struct Plain<W>(pub(crate) W);

/// Writes text without control characters, but for colours.
#[derive(Debug)]
pub(crate) struct Painted<W>(pub(crate) W);

/// Writes JSON without control characters.
#[derive(Debug)]
pub(crate) struct PlainJson<W>(pub(crate) W);

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_shown(&mut self.0, bytes, plain)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<W: Write> Write for Painted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_shown(&mut self.0, bytes, painted)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<W: Write> Write for PlainJson<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_shown(&mut self.0, bytes, plain_json)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_not_obeyed() {
        let mut out = Plain(Vec::new());
        let name = "a\u{1b}[2Jb\u{9b}1mc\u{7f}\r";
        write!(out, "{name}\n\tgröße · ✓ £").expect("memory");
        let text = String::from_utf8(out.0).expect("it is text");
        assert_eq!(text, "a\\u{1b}[2Jb\\u{9b}1mc\\u{7f}\\u{d}\n\tgröße · ✓ £");
    }

    #[test]
    fn colours_are_kept_and_nothing_else() {
        let mut out = Painted(Vec::new());
        write!(out, "\u{1b}[1m\u{1b}[31mno\u{1b}[0m \u{1b}[2J\u{1b}]0;x\u{7} \u{9b}1m")
            .expect("memory");
        let text = String::from_utf8(out.0).expect("it is text");
        let red = "\u{1b}[1m\u{1b}[31mno\u{1b}[0m";
        assert_eq!(text, format!("{red} \\u{{1b}}[2J\\u{{1b}}]0;x\\u{{7}} \\u{{9b}}1m"));
    }

    #[test]
    fn json_stays_json() {
        let said = "a\u{1b}\u{9b}\u{7f}\u{85} £";
        let json = serde_json::json!({ "name": said }).to_string();
        let shown = plain_json(&json);
        assert!(!shown.chars().any(char::is_control), "{shown}");
        let read: serde_json::Value = serde_json::from_str(&shown).expect("it is JSON");
        assert_eq!(read["name"], said);
    }
}

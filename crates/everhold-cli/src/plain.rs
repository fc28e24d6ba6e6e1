//! Untrusted text on a terminal: control characters are shown, never sent.
//!
//! Names of nodes and of rules come from files and from the network. A control character in them
//! could move the cursor or change the title of the window; it is written as `\\u{1b}` instead.

use std::io::{self, Write};

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

/// A writer that replaces control characters.
#[derive(Debug)]
pub(crate) struct Plain<W>(pub(crate) W);

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let dangerous =
            |byte: &u8| (*byte < 0x20 || *byte == 0x7f || *byte == 0xc2) && *byte != b'\n';
        if bytes.iter().any(dangerous) {
            self.0.write_all(plain(&String::from_utf8_lossy(bytes)).as_bytes())?;
        } else {
            self.0.write_all(bytes)?;
        }
        Ok(bytes.len())
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
}

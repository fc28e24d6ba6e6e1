//! Suggestions of the next command, for terminals only.

use std::io::{self, IsTerminal};

use crate::args::{InputArgs, InputFormat};

/// Suggests the next command if the output is a terminal.
pub(crate) fn next(command: &str) {
    if io::stderr().is_terminal() {
        eprintln!("\nnext: {command}");
    }
}

/// The options that read the same input again.
pub(crate) fn reading(args: &InputArgs) -> String {
    let mut words = String::new();
    let mut option = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            words += &format!(" --{name} {}", quoted(&value));
        }
    };
    option("format", args.format.map(InputFormat::word));
    option("parser", args.parser.clone());
    option("executions", args.executions.clone());
    option("mapping", args.mapping.as_ref().map(|path| path.display().to_string()));
    if args.together {
        words += " --together";
    }
    if args.lenient {
        words += " --lenient";
    }
    words
}

/// Quotes a word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

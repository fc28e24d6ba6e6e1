//! Functions stay short: none is longer than 70 lines.

use std::fs;
use std::path::{Path, PathBuf};

const LONGEST: usize = 70;

/// A function in a source: its name, its first line (from 1), and its number of lines.
#[derive(Debug, PartialEq, Eq)]
struct Function<'a> {
    name: &'a str,
    line: usize,
    lines: usize,
}

/// The functions of a formatted source. A function ends at the first line after its head that
/// closes a brace at the indentation of the head, which is how `cargo fmt` writes every function
/// that does not fit on one line. Functions that a macro names are as long as its arguments make
/// them, and are left out.
fn functions(text: &str) -> Vec<Function<'_>> {
    let lines: Vec<&str> = text.lines().collect();
    let heads =
        lines.iter().enumerate().filter_map(|(at, line)| Some((at, name_of_function(line)?)));
    heads.map(|(at, name)| Function { name, line: at + 1, lines: length(&lines[at..]) }).collect()
}

/// The name of the function whose head is on this line.
fn name_of_function(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let is_modifier = |word: &&str| {
        word.starts_with("pub")
            || ["const", "async", "unsafe", "extern", "in", "\"C\""].contains(word)
            || word.ends_with(')') && word.starts_with("crate")
    };
    let word = words.find(|word| !is_modifier(word))?;
    let name = (word == "fn").then(|| words.next())??;
    name.split(['(', '<']).next().filter(|name| !name.starts_with('$'))
}

fn length(lines: &[&str]) -> usize {
    let head = lines[0];
    let indentation = &head[..head.len() - head.trim_start().len()];
    if head.trim_end().ends_with(['}', ';']) {
        return 1;
    }
    let closes = |line: &&str| {
        line.strip_prefix(indentation)
            .is_some_and(|rest| rest.starts_with('}') || rest == ";" || is_signature(rest))
    };
    lines.iter().position(closes).map_or(lines.len(), |end| end + 1)
}

/// Whether a line ends a head without a body, as traits have them.
fn is_signature(rest: &str) -> bool {
    rest.starts_with(')') && rest.ends_with(';')
}

#[test]
fn lengths_are_counted() {
    let text = "fn one() {}\n\nimpl A {\n    pub(crate) const fn two<T>(\n        t: T,\n    ) -> T {\n        t\n    }\n}\nlet fnord = 3;\nfn three()\nwhere\n    A: B,\n{\n    f(|| {\n    });\n}\n";
    let expected = [("one", 1, 1), ("two", 4, 5), ("three", 11, 7)];
    let expected = expected.map(|(name, line, lines)| Function { name, line, lines });
    assert_eq!(functions(text), expected);
}

#[test]
fn functions_are_short() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for folder in ["crates", "systems", "benches/src"] {
        sources(&root.join(folder), &mut files);
    }
    let (mut count, mut long) = (0, Vec::new());
    for file in files {
        let text = fs::read_to_string(&file).expect("it can be read");
        let found = functions(&text);
        count += found.len();
        let found = found.into_iter().filter(|function| function.lines > LONGEST);
        long.extend(found.map(|Function { name, line, lines }| {
            format!("{}:{line}: {name} has {lines} lines", file.display())
        }));
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
    assert!(count > 5_000, "only {count} functions were found");
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

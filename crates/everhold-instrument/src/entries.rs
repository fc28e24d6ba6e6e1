//! The entry points that a person names in a file.

use std::collections::BTreeMap;

use crate::facts::Direction;

/// Functions that communicate, beside those that are known.
///
/// ```
/// use everhold_instrument::Entries;
/// let entries = Entries::parse("# the library's own interface\nreceive Raft::step\nsend Raft::emit\n")?;
/// # let _ = entries;
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Entries {
    directions: BTreeMap<String, Direction>,
}

impl Entries {
    /// Reads the lines of a file: `receive NAME` or `send NAME`; `#` begins a comment.
    ///
    /// # Errors
    ///
    /// If a line is neither; the message names it.
    pub fn parse(text: &str) -> Result<Entries, String> {
        let mut directions = BTreeMap::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            let (direction, name) = match words[..] {
                [] => continue,
                ["receive", name] => (Direction::In, name),
                ["send", name] => (Direction::Out, name),
                _ => {
                    return Err(format!("line {}: expected `receive NAME` or `send NAME`", at + 1));
                }
            };
            directions.insert(name.to_owned(), direction);
        }
        Ok(Entries { directions })
    }

    /// Returns the direction of a function, given by its name with its type.
    pub(crate) fn direction(&self, name: &str) -> Option<Direction> {
        self.directions.get(name).copied()
    }

    /// Returns the lines of the file, in order.
    pub(crate) fn lines(&self) -> Vec<String> {
        let word =
            |direction: &Direction| if *direction == Direction::In { "receive" } else { "send" };
        self.directions
            .iter()
            .map(|(name, direction)| format!("{} {name}", word(direction)))
            .collect()
    }
}

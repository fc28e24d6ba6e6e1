//! Values, messages and changes as short text, with the names of nodes in place of their numbers.

use std::collections::BTreeMap;
use std::fmt::Write;

use everhold_trace::value::{Change, Path, Step};
use everhold_trace::{NodeId, Value};

use super::glyphs::{Charset, Glyphs};

/// Cuts a text to a width, with a sign that it was cut.
pub(super) fn shorten(text: &str, width: usize, glyphs: &Glyphs) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(glyphs.ellipsis.chars().count());
    let cut: String = text.chars().take(kept).collect();
    format!("{}{}", cut.trim_end(), glyphs.ellipsis).chars().take(width).collect()
}

/// Breaks a text into lines at spaces; its own line breaks are kept.
pub(super) fn paragraph(text: &str, width: usize, rows_max: usize, glyphs: &Glyphs) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().flat_map(|line| break_line(line, width)).collect();
    if lines.len() > rows_max {
        lines.truncate(rows_max);
        if let Some(last) = lines.last_mut() {
            let more = format!("{last} {}", glyphs.ellipsis);
            *last = shorten(&more, width, glyphs);
        }
    }
    lines.iter().map(|line| shorten(line, width, glyphs)).collect()
}

fn break_line(line: &str, width: usize) -> Vec<String> {
    let indent: String = line.chars().take_while(|c| *c == ' ').collect();
    let mut lines = vec![indent.clone()];
    let mut is_empty = true;
    // Runs of spaces are kept, so that a table keeps its columns.
    for word in line[indent.len()..].split(' ') {
        let last = lines.last_mut().expect("a line is open");
        let space = if is_empty { "" } else { " " };
        if is_empty || last.chars().count() + 1 + word.chars().count() <= width {
            let _ = write!(last, "{space}{word}");
        } else {
            lines.push(format!("{indent}{word}"));
        }
        is_empty = false;
    }
    lines
}

/// Puts values, messages and changes into words.
#[derive(Clone, Debug)]
pub struct Words {
    names: Vec<String>,
    charset: Charset,
}

impl Words {
    /// Words about the nodes with these names, the first of which is node 0.
    #[must_use]
    pub fn new(names: Vec<String>, charset: Charset) -> Words {
        Words { names, charset }
    }

    /// The name of a node.
    #[must_use]
    pub fn name(&self, node: NodeId) -> String {
        self.names.get(node.index()).map_or_else(|| node.to_string(), String::clone)
    }

    /// A message's debug text with fewer spaces and with names: `Vote{term:1, from:server-1}`.
    #[must_use]
    pub fn message(&self, text: &str) -> String {
        let tight = text.replace(" { ", "{").replace(" }", "}").replace(": ", ":");
        let mut parts = tight.split("NodeId(");
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let named = part.split_once(')').and_then(|(number, rest)| {
                let node = number.parse().map(NodeId).ok()?;
                Some(format!("{}{rest}", self.name(node)))
            });
            out += &named.unwrap_or_else(|| format!("NodeId({part}"));
        }
        out
    }

    /// A message and the node from which it came: `Ack ← server`.
    #[must_use]
    pub fn from(&self, message: &str, from: &str) -> String {
        format!("{message} {} {from}", self.glyphs().from)
    }

    /// A message that its receiver will never get: `Ack → client is lost`.
    #[must_use]
    pub fn lost(&self, message: &str, to: &str) -> String {
        format!("{message} {} {to} is lost", self.glyphs().becomes)
    }

    /// The changes of a state. Items that were put into a list or taken out of it are told as
    /// such, instead of as changes of all positions behind them.
    #[must_use]
    pub fn changes(&self, changes: &[Change]) -> Vec<String> {
        let mut words = Vec::new();
        let mut rest = changes;
        while let Some(first) = rest.first() {
            let (list, others) = rest.split_at(same_list(rest));
            match edits(list) {
                Some(edits) => words.extend(edits.iter().map(|edit| self.change(edit))),
                None => words.extend(list.iter().map(|change| self.change(change))),
            }
            if list.is_empty() {
                words.push(self.change(first));
            }
            rest = if list.is_empty() { &rest[1..] } else { others };
        }
        words
    }

    /// One change of a state: `term 0 → 1`.
    #[must_use]
    pub fn change(&self, change: &Change) -> String {
        let glyphs = self.glyphs();
        let show = |value: &Value| self.value(value);
        let words = match (&change.old, &change.new) {
            (Some(old), Some(new)) => format!("{} {} {}", show(old), glyphs.becomes, show(new)),
            (None, Some(new)) => format!("+ {}", show(new)),
            (Some(old), None) => format!("{} {}", glyphs.gone, show(old)),
            (None, None) => String::new(),
        };
        format!("{} {words}", self.path(change)).trim_start().to_owned()
    }

    fn glyphs(&self) -> &'static Glyphs {
        self.charset.glyphs()
    }

    fn path(&self, change: &Change) -> String {
        let mut steps = change.path.0.as_slice();
        if is_element(change) {
            steps = &steps[..steps.len() - 1];
        }
        let mut out = String::new();
        for (at, step) in steps.iter().enumerate() {
            let _ = match step {
                Step::Key(key) => write!(out, "[{}]", self.value(key)),
                Step::Payload => Ok(()),
                Step::Field(_) if at == 0 => write!(out, "{}", Path(vec![step.clone()])),
                Step::Field(_) => write!(out, ".{}", Path(vec![step.clone()])),
                Step::Index(_) => write!(out, "{}", Path(vec![step.clone()])),
            };
        }
        out
    }

    /// A value as a Rust programmer would write it, without quotes where none are needed.
    #[must_use]
    pub fn value(&self, value: &Value) -> String {
        let list = |items: &mut dyn Iterator<Item = &Value>| {
            items.map(|item| self.value(item)).collect::<Vec<_>>().join(", ")
        };
        match value {
            Value::Text(text) if is_plain(text) => text.clone(),
            Value::Node(node) => self.name(*node),
            Value::List(items) => format!("[{}]", list(&mut items.iter())),
            Value::Set(items) => format!("{{{}}}", list(&mut items.iter())),
            Value::Map(entries) => {
                let pair = |(key, value)| format!("{}:{}", self.value(key), self.value(value));
                format!("{{{}}}", entries.iter().map(pair).collect::<Vec<_>>().join(", "))
            }
            Value::Record(fields) => format!("{{{}}}", self.fields(fields)),
            Value::Variant { name, payload } => match &**payload {
                Value::Record(fields) => format!("{name}{{{}}}", self.fields(fields)),
                Value::List(items) => format!("{name}({})", list(&mut items.iter())),
                payload => format!("{name}({})", self.value(payload)),
            },
            Value::Null => "none".to_owned(),
            Value::Text(_) | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Bytes(_) => {
                value.to_string()
            }
        }
    }

    fn fields(&self, fields: &BTreeMap<String, Value>) -> String {
        let pair = |(key, value): (&String, &Value)| format!("{key}:{}", self.value(value));
        fields.iter().map(pair).collect::<Vec<_>>().join(", ")
    }
}

/// True for an element that was added to or removed from a set: its path ends in the element
/// itself.
fn is_element(change: &Change) -> bool {
    if change.old.is_none() != change.new.is_none() && change.path.0.last() == Some(&ITEM) {
        return true;
    }
    let element = change.old.as_ref().or(change.new.as_ref());
    matches!(change.path.0.last(), Some(Step::Key(key)) if Some(key) == element)
}

/// The step to an item of a list whose position does not matter.
const ITEM: Step = Step::Index(usize::MAX);

/// The number of changes at the beginning that replace whole items of one list.
fn same_list(changes: &[Change]) -> usize {
    let list = |change: &Change| match change.path.0.split_last() {
        Some((Step::Index(_), list)) => Some(list.to_vec()),
        _ => None,
    };
    let Some(first) = changes.first().and_then(list) else { return 0 };
    changes.iter().take_while(|change| list(change).as_ref() == Some(&first)).count()
}

/// The changes of one list as items that were put in and taken out, if that is shorter.
fn edits(changes: &[Change]) -> Option<Vec<Change>> {
    let (_, list) = changes.first()?.path.0.split_last()?;
    let mut by_place: Vec<(usize, &Change)> = changes
        .iter()
        .filter_map(|change| match change.path.0.last() {
            Some(Step::Index(at)) => Some((*at, change)),
            _ => None,
        })
        .collect();
    by_place.sort_by_key(|(at, _)| *at);
    // Between changed items there may be some that are the same by chance; what they are is not
    // known here.
    let contiguous = by_place.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0);
    if !contiguous || changes.len() > EDITS_MAX {
        return None;
    }
    let old: Vec<&Value> = by_place.iter().filter_map(|(_, change)| change.old.as_ref()).collect();
    let new: Vec<&Value> = by_place.iter().filter_map(|(_, change)| change.new.as_ref()).collect();
    let kept = common(&old, &new);
    let path = Path([list, &[ITEM]].concat());
    let gone = old.iter().enumerate().filter(|(at, _)| !kept.iter().any(|(a, _)| a == at));
    let gone = gone.map(|(_, value)| Change {
        path: path.clone(),
        old: Some((*value).clone()),
        new: None,
    });
    let come = new.iter().enumerate().filter(|(at, _)| !kept.iter().any(|(_, b)| b == at));
    let come = come.map(|(_, value)| Change {
        path: path.clone(),
        old: None,
        new: Some((*value).clone()),
    });
    let edits: Vec<Change> = gone.chain(come).collect();
    (edits.len() < changes.len()).then_some(edits)
}

/// The largest number of changed items that are compared with each other.
const EDITS_MAX: usize = 64;

/// The positions of a longest common subsequence.
fn common(old: &[&Value], new: &[&Value]) -> Vec<(usize, usize)> {
    let mut longest = vec![vec![0u32; new.len() + 1]; old.len() + 1];
    for a in (0..old.len()).rev() {
        for b in (0..new.len()).rev() {
            longest[a][b] = match old[a] == new[b] {
                true => longest[a + 1][b + 1] + 1,
                false => longest[a + 1][b].max(longest[a][b + 1]),
            };
        }
    }
    let (mut a, mut b, mut kept) = (0, 0, Vec::new());
    while a < old.len() && b < new.len() {
        if old[a] == new[b] {
            kept.push((a, b));
            (a, b) = (a + 1, b + 1);
        } else if longest[a + 1][b] >= longest[a][b + 1] {
            a += 1;
        } else {
            b += 1;
        }
    }
    kept
}

/// Text that reads as a name: an enum's variant, most of the time.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c))
}

#[cfg(test)]
mod tests {
    use everhold_trace::value::diff;

    use super::*;

    fn check(old: &[i64], new: &[i64], expected: &str) {
        let list = |items: &[i64]| {
            let items = items.iter().map(|item| Value::Int(*item)).collect();
            Value::Record([("owned".to_owned(), Value::List(items))].into())
        };
        let words = Words::new(Vec::new(), Charset::Ascii);
        let said = words.changes(&diff(&list(old), &list(new))).join("; ");
        assert_eq!(said, expected, "{old:?} {new:?}");
    }

    #[test]
    fn lists_change_by_items_and_not_by_positions() {
        check(&[1, 2], &[0, 1, 2], "owned + 0");
        check(&[0, 1, 2], &[1, 2], "owned - 0");
        check(&[1, 2, 3, 4], &[1, 3, 4, 5], "owned - 2; owned + 5");
        check(&[1], &[1, 2], "owned[1] + 2");
        check(&[1, 2], &[1, 3], "owned[1] 2 -> 3");
        check(&[1, 2], &[3, 4], "owned[0] 1 -> 3; owned[1] 2 -> 4");
    }
}

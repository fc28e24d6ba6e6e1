//! Large tables of whole numbers, read straight into columns.
//!
//! A table of snapshots (columns `snapshot`, `node`, and variables) needs no events and no
//! messages: the nodes of one snapshot are seen together, and nothing else is. Such tables can
//! have millions of rows, so they are not turned into executions first.

/// The columns that `everhold_trace::import::csv` gives a meaning besides these two.
const OTHERS: [&str; 8] = ["run", "kind", "name", "received", "sent", "time", "wall_ns", "text"];

/// Numbers are stored with this added, so that 0 is free for what is missing.
const ZERO: i64 = 1 << 30;

/// Snapshots of nodes whose variables are whole numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshots {
    /// The names of the variables.
    pub variables: Vec<String>,
    /// The names of the nodes.
    pub nodes: Vec<String>,
    /// The node of each row.
    pub node_of: Vec<u32>,
    /// The first row of each snapshot, and one after the last row of all.
    pub begins: Vec<u32>,
    /// The values of each variable, as [`Snapshots::number`] reads them.
    pub(crate) columns: Vec<Vec<u32>>,
}

impl Snapshots {
    /// The number that the smallest code stands for, less one.
    pub(crate) const FIRST: i64 = 1 - ZERO;

    /// Reads a table; `None` if it is not of this kind, so that the general reader has to be asked
    /// what it is or what is wrong with it.
    ///
    /// ```
    /// use everhold_infer::Snapshots;
    /// let table = Snapshots::read(b"snapshot,node,x\n1,a,5\n1,b,\n2,a,-7\n").unwrap();
    /// assert_eq!((table.rows(), table.snapshots()), (3, 2));
    /// assert_eq!([0, 1, 2].map(|row| table.number(0, row)), [Some(5), None, Some(-7)]);
    /// assert_eq!(Snapshots::read(b"node,x\na,5\n"), None);
    /// ```
    #[must_use]
    pub fn read(text: &[u8]) -> Option<Snapshots> {
        let end = text.iter().position(|byte| *byte == b'\n')?;
        let header = std::str::from_utf8(&text[..end]).ok()?.trim_end_matches('\r');
        let mut table = Snapshots::default();
        let mut cells = Vec::new();
        for name in header.split(',') {
            cells.push(match name {
                "snapshot" => Cell::Snapshot,
                "node" => Cell::Node,
                other if OTHERS.contains(&other) || other.contains('"') => return None,
                other => {
                    table.variables.push(other.to_owned());
                    table.columns.push(Vec::new());
                    Cell::Variable(table.variables.len() - 1)
                }
            });
        }
        let has = |wanted: Cell| cells.iter().filter(|cell| **cell == wanted).count() == 1;
        if !has(Cell::Snapshot) || !has(Cell::Node) {
            return None;
        }
        table.read_rows(&text[end + 1..], &cells)?;
        Some(table)
    }

    fn read_rows(&mut self, text: &[u8], cells: &[Cell]) -> Option<()> {
        let mut at = 0;
        let mut snapshot: &[u8] = b"";
        let mut row = 0_u32;
        while at < text.len() {
            if text[at] == b'\n' {
                at += 1;
                continue;
            }
            for (place, cell) in cells.iter().enumerate() {
                let begin = at;
                if let Cell::Variable(column) = cell {
                    let (code, next) = number(text, at)?;
                    self.columns[*column].push(code);
                    at = next;
                } else {
                    while at < text.len() && !matches!(text[at], b',' | b'\n' | b'\r' | b'"') {
                        at += 1;
                    }
                    let name = &text[begin..at];
                    if *cell == Cell::Node {
                        let node = self.node(name)?;
                        self.node_of.push(node);
                    } else if row == 0 || name != snapshot {
                        snapshot = name;
                        self.begins.push(row);
                    }
                }
                at = separator(text, at, place + 1 == cells.len())?;
            }
            row = row.checked_add(1)?;
        }
        self.begins.push(row);
        Some(())
    }

    fn node(&mut self, name: &[u8]) -> Option<u32> {
        let known = self.nodes.iter().position(|known| known.as_bytes() == name);
        let place = match known {
            Some(place) => place,
            None => {
                self.nodes.push(std::str::from_utf8(name).ok()?.to_owned());
                self.nodes.len() - 1
            }
        };
        u32::try_from(place).ok()
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.node_of.len()
    }

    /// How many snapshots there are.
    #[must_use]
    pub fn snapshots(&self) -> usize {
        self.begins.len().saturating_sub(1)
    }

    /// The value of a variable in a row.
    #[must_use]
    pub fn number(&self, variable: usize, row: usize) -> Option<i64> {
        let code = self.columns[variable][row];
        (code != 0).then(|| i64::from(code) - ZERO)
    }
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Snapshot,
    Node,
    Variable(usize),
}

/// The code of the number at a place, and where it ends; an empty cell has code 0.
fn number(text: &[u8], mut at: usize) -> Option<(u32, usize)> {
    let negative = text.get(at) == Some(&b'-');
    at += usize::from(negative);
    let begin = at;
    let mut value: i64 = 0;
    while let Some(digit) = text.get(at).filter(|byte| byte.is_ascii_digit()) {
        value = value * 10 + i64::from(digit - b'0');
        if value >= ZERO {
            return None;
        }
        at += 1;
    }
    if at == begin {
        return (!negative).then_some((0, at));
    }
    let value = if negative { -value } else { value };
    u32::try_from(value + ZERO).ok().filter(|code| *code > 0).map(|code| (code, at))
}

/// The place after the comma, or after the end of the line if the row is to end here.
fn separator(text: &[u8], mut at: usize, last: bool) -> Option<usize> {
    if last && text.get(at) == Some(&b'\r') {
        at += 1;
    }
    match (text.get(at), last) {
        (Some(b','), false) | (Some(b'\n'), true) => Some(at + 1),
        (None, true) => Some(at),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_plain_table_is_left_to_the_general_reader() {
        for text in [
            "",
            "snapshot,node\n1",
            "snapshot,node,x\n1,a\n",
            "snapshot,node,x\n1,a,5,6\n",
            "snapshot,node,x\n1,a,5.5\n",
            "snapshot,node,x\n1,a,-\n",
            "snapshot,node,x\n1,a,9999999999\n",
            "snapshot,node,time\n1,a,5\n",
            "snapshot,node,x\n1,\"a\",5\n",
        ] {
            assert_eq!(Snapshots::read(text.as_bytes()), None, "{text}");
        }
        let table =
            Snapshots::read(b"node,x,snapshot\r\na,1,s\r\nb,2,s").expect("ends of lines vary");
        assert_eq!((table.rows(), table.snapshots()), (2, 1));
    }
}

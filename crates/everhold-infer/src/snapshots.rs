//! Large tables of whole numbers, read straight into columns.
//!
//! A table of snapshots (columns `snapshot`, `node`, and variables) needs no events and no
//! messages: the nodes of one snapshot are seen together, and nothing else is. Such tables can
//! have millions of rows, so they are not turned into executions first. The general reader of CSV
//! needs about a hundred times as much time for them, and forty times as much memory.

use std::collections::BTreeMap;
use std::io::{self, Read};

/// The columns that `everhold_trace::import::csv` gives a meaning besides these two.
const OTHERS: [&str; 8] = ["run", "kind", "name", "received", "sent", "time", "wall_ns", "text"];

/// Bytes read at a time: they stay in the cache until they are columns.
const CHUNK: usize = 1 << 18;

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

    /// Reads a table; `None` if it is anything else. Then the general reader
    /// (`everhold_trace::import::csv`) can read it or say what is wrong with it.
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
        let mut reader = Reader::default();
        reader.lines(text)?;
        reader.finish()
    }

    /// Like [`Snapshots::read`], without ever holding the whole text.
    ///
    /// # Errors
    ///
    /// Errors of the source.
    pub fn read_from(mut source: impl Read) -> io::Result<Option<Snapshots>> {
        let mut reader = Reader::default();
        let mut buffer = vec![0; CHUNK];
        let mut filled = 0;
        loop {
            let read = source.read(&mut buffer[filled..])?;
            filled += read;
            let whole = match buffer[..filled].iter().rposition(|byte| *byte == b'\n') {
                _ if read == 0 => filled,
                Some(place) => place + 1,
                None => 0,
            };
            if reader.lines(&buffer[..whole]).is_none() {
                return Ok(None);
            }
            if read == 0 {
                return Ok(reader.finish());
            }
            buffer.copy_within(whole..filled, 0);
            filled -= whole;
            if filled == buffer.len() {
                buffer.resize(2 * filled, 0);
            }
        }
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

/// The meaning of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Snapshot,
    Node,
    Variable(usize),
}

/// A table as far as it is read.
#[derive(Debug, Default)]
struct Reader {
    table: Snapshots,
    /// The header, once it is read.
    cells: Vec<Cell>,
    /// The name of the snapshot of the last row.
    snapshot: Vec<u8>,
    /// The numbers of the nodes, by name.
    places: BTreeMap<Vec<u8>, u32>,
    /// The node that comes next, if they come in the same order again.
    expected: usize,
}

impl Reader {
    /// Reads whole lines; `None` if they are not of this kind.
    fn lines(&mut self, text: &[u8]) -> Option<()> {
        let mut at = 0;
        if self.cells.is_empty() && !text.is_empty() {
            let end = text.iter().position(|byte| *byte == b'\n')?;
            self.header(&text[..end])?;
            at = end + 1;
        }
        while at < text.len() {
            at = if text[at] == b'\n' { at + 1 } else { self.row(text, at)? };
        }
        Some(())
    }

    fn finish(mut self) -> Option<Snapshots> {
        self.table.begins.push(u32::try_from(self.table.rows()).ok()?);
        (!self.cells.is_empty()).then_some(self.table)
    }

    fn header(&mut self, line: &[u8]) -> Option<()> {
        let table = &mut self.table;
        for name in std::str::from_utf8(line).ok()?.trim_end_matches('\r').split(',') {
            self.cells.push(match name {
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
        let has = |wanted: Cell| self.cells.iter().filter(|cell| **cell == wanted).count() == 1;
        (has(Cell::Snapshot) && has(Cell::Node)).then_some(())
    }

    /// Reads the row at a place, and says where the next one begins.
    fn row(&mut self, text: &[u8], mut at: usize) -> Option<usize> {
        for place in 0..self.cells.len() {
            at = match self.cells[place] {
                Cell::Variable(column) => {
                    let (code, end) = number(text, at)?;
                    self.table.columns[column].push(code);
                    end
                }
                Cell::Node => self.node(text, at)?,
                Cell::Snapshot => self.snapshot(text, at)?,
            };
            at = separator(text, at, place + 1 == self.cells.len())?;
        }
        Some(at)
    }

    fn node(&mut self, text: &[u8], at: usize) -> Option<usize> {
        let nodes = &mut self.table.nodes;
        let known = nodes.get(self.expected).filter(|name| is(text, at, name.as_bytes()));
        let (place, end) = match known {
            Some(name) => (self.expected, at + name.len()),
            None => {
                let end = end_of(text, at);
                let name = &text[at..end];
                let place = match self.places.get(name) {
                    Some(place) => *place,
                    None => {
                        let place = u32::try_from(nodes.len()).ok()?;
                        nodes.push(std::str::from_utf8(name).ok()?.to_owned());
                        self.places.insert(name.to_vec(), place);
                        place
                    }
                };
                (place as usize, end)
            }
        };
        self.expected = if place + 1 < nodes.len() { place + 1 } else { 0 };
        self.table.node_of.push(u32::try_from(place).ok()?);
        Some(end)
    }

    fn snapshot(&mut self, text: &[u8], at: usize) -> Option<usize> {
        let begins = &mut self.table.begins;
        if !begins.is_empty() && is(text, at, &self.snapshot) {
            return Some(at + self.snapshot.len());
        }
        // The cell of the node may come later in the row, or may have come.
        let rows = match self.cells.iter().position(|cell| *cell == Cell::Node) {
            Some(node) if self.cells[..node].contains(&Cell::Snapshot) => self.table.node_of.len(),
            _ => self.table.node_of.len() - 1,
        };
        begins.push(u32::try_from(rows).ok()?);
        let end = end_of(text, at);
        self.snapshot.clear();
        self.snapshot.extend_from_slice(&text[at..end]);
        Some(end)
    }
}

/// Whether the cell at a place is this.
fn is(text: &[u8], at: usize, name: &[u8]) -> bool {
    let next = || text.get(at + name.len());
    text[at..].starts_with(name) && matches!(next(), None | Some(b',' | b'\n' | b'\r' | b'"'))
}

/// Where the cell at a place ends.
fn end_of(text: &[u8], at: usize) -> usize {
    let ends = |byte: &u8| matches!(byte, b',' | b'\n' | b'\r' | b'"');
    text[at..].iter().position(ends).map_or(text.len(), |len| at + len)
}

/// The code of the number at a place, and where it ends; an empty cell has code 0.
#[inline]
fn number(text: &[u8], at: usize) -> Option<(u32, usize)> {
    if let Some(eight) = text.get(at..at + 8) {
        let (value, digits) = leading_digits(eight.try_into().expect("they are eight"));
        if (1..8).contains(&digits) {
            // Less than 8 digits are less than `ZERO`.
            return Some((value + ZERO as u32, at + digits));
        }
    }
    any_number(text, at)
}

/// The number that these bytes begin with, and how many digits it has: all at once, without a
/// branch for each digit.
fn leading_digits(bytes: [u8; 8]) -> (u32, usize) {
    // In memory order the first digit is the lowest byte.
    let values = u64::from_le_bytes(bytes) ^ 0x3030_3030_3030_3030;
    // The highest bit of each byte that is no digit; carries only reach bytes behind the first.
    let others = (values.wrapping_add(0x7676_7676_7676_7676) | values) & 0x8080_8080_8080_8080;
    let digits = (others.trailing_zeros() / 8) as usize;
    if digits == 0 {
        return (0, 0);
    }
    // Zeros in front, and then tens and ones, hundreds, ten thousands are added up in pairs.
    let aligned = values << (64 - 8 * digits);
    let pairs = aligned.wrapping_mul(10).wrapping_add(aligned >> 8);
    let mask = 0x0000_00ff_0000_00ff;
    let upper = (pairs & mask).wrapping_mul(0x000f_4240_0000_0064);
    let lower = ((pairs >> 16) & mask).wrapping_mul(0x0000_2710_0000_0001);
    ((upper.wrapping_add(lower) >> 32) as u32, digits)
}

/// The same for numbers of any length and sign, digit by digit.
fn any_number(text: &[u8], mut at: usize) -> Option<(u32, usize)> {
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

    /// Eight digits at once, and one by one: all lengths, whatever comes behind.
    #[test]
    fn numbers_are_read_as_digit_by_digit() {
        for begin in ["", "0", "7", "42", "007", "1234567", "12345678", "1073741823", "-5", "-"] {
            for end in ["", ",", ",123456789", "\n99999999", "\r\n1", "x1111111", "\u{ff}\u{ff}11"]
            {
                let text = format!("{begin}{end}");
                let expected = any_number(text.as_bytes(), 0);
                assert_eq!(number(text.as_bytes(), 0), expected, "{text:?}");
            }
        }
    }

    /// A source that gives a few bytes at a time.
    struct Drops<'a>(&'a [u8], usize);

    impl Read for Drops<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(into.len());
            into[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    #[test]
    fn in_pieces_or_at_once() {
        let mut text = String::from("x,node,snapshot,y\n");
        for row in 0..200 {
            let name = ["a", "ab", "b"][row * 7 % 3];
            text += &format!("{},{name},s{},{}\r\n", row * row, row / 4, 40 - row as i64);
        }
        for text in [text.as_str(), text.trim_end(), "node\n", "snapshot,node,x\n1,a,?\n"] {
            let whole = Snapshots::read(text.as_bytes());
            for size in [1, 7, 64, 100_000] {
                let read = Snapshots::read_from(Drops(text.as_bytes(), size));
                assert_eq!(read.expect("it cannot fail"), whole, "{size}");
            }
        }
    }
}

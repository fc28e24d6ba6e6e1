//! The function table of Go programs, which they keep when they are stripped.
//!
//! The layouts are those of Go 1.16, 1.18 and 1.20; the versions between them and after share one of
//! the three. Arguments are in registers since Go 1.17, so earlier programs need debug information.

use crate::binary::{Binary, Functions};

/// The registers of integer arguments and results, as DWARF numbers them, in Go's order.
pub(crate) const REGISTERS: [u8; 9] = [0, 3, 2, 5, 4, 8, 9, 10, 11];

/// The table of a layout.
#[derive(Clone, Copy)]
struct Layout {
    /// Where the words after the header begin that say where the tables are.
    names: usize,
    functions: usize,
    /// The size of an address in the table of functions.
    address: usize,
    /// Where the first function is, if addresses are relative to it.
    text: Option<u64>,
}

/// A reader of little-endian words.
struct Table<'a>(&'a [u8]);

impl Table<'_> {
    fn word(&self, at: usize, size: usize) -> Option<u64> {
        let bytes = self.0.get(at..at.checked_add(size)?)?;
        Some(bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)))
    }

    fn place(&self, at: usize) -> Option<usize> {
        usize::try_from(self.word(at, 8)?).ok()
    }

    fn text(&self, at: usize) -> Option<&str> {
        let bytes = self.0.get(at..)?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(&bytes[..end]).ok()
    }

    fn layout(&self, text: u64) -> Option<Layout> {
        match self.word(0, 4)? {
            0xffff_fff0 | 0xffff_fff1 => {
                let start = self.word(24, 8).filter(|start| *start != 0).unwrap_or(text);
                Some(Layout {
                    names: self.place(32)?,
                    functions: self.place(64)?,
                    address: 4,
                    text: Some(start),
                })
            }
            0xffff_fffa => Some(Layout {
                names: self.place(24)?,
                functions: self.place(56)?,
                address: 8,
                text: None,
            }),
            _ => None,
        }
    }

    fn functions(&self, layout: Layout) -> Option<Functions> {
        let count = self.place(8)?;
        let Layout { names, functions, address: size, text } = layout;
        let base = text.unwrap_or(0);
        let mut found = Functions::new();
        for index in 0..count {
            let row = functions + index * 2 * size;
            let start = base + self.word(row, size)?;
            let end = base + self.word(row + 2 * size, size)?;
            let entry = functions + usize::try_from(self.word(row + size, size)?).ok()?;
            let name = names + usize::try_from(self.word(entry + size, 4)?).ok()?;
            if let Some(name) = self.text(name) {
                found.insert(start, (name.to_owned(), end.saturating_sub(start)));
            }
        }
        Some(found)
    }
}

/// The functions in the table of a Go program, with their sizes.
pub(crate) fn functions(binary: &Binary) -> Result<Functions, String> {
    let bytes = binary.section(".gopclntab");
    let table = Table(&bytes);
    let text = binary.section_address(".text").unwrap_or(0);
    let layout = table.layout(text).ok_or_else(|| match bytes.is_empty() {
        true => "the program has no function table of Go".to_owned(),
        false => "the function table of this version of Go is not known; its programs need debug \
                  information (build without `-ldflags=-s -w`)"
            .to_owned(),
    })?;
    table.functions(layout).ok_or_else(|| "the function table of Go is damaged".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table with two functions, in the layout of Go 1.20.
    fn table() -> Vec<u8> {
        let mut bytes = vec![0_u8; 72];
        bytes[..4].copy_from_slice(&0xffff_fff1_u32.to_le_bytes());
        let words = [(8, 2_u64), (24, 0x1000), (32, 72), (64, 96)];
        for (at, word) in words {
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes.extend(b"main.a\0main.(*T).b\0");
        bytes.resize(96, 0);
        for row in [0_u32, 20, 0x40, 28, 0x90] {
            bytes.extend(row.to_le_bytes());
        }
        for entry in [0_u32, 0, 0x40, 7] {
            bytes.extend(entry.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn functions_have_names_and_sizes() {
        let bytes = table();
        let table = Table(&bytes);
        let found = table.functions(table.layout(0).unwrap()).unwrap();
        let found: Vec<_> = found.into_iter().collect();
        let named = |at, name: &str, size| (at, (name.to_owned(), size));
        assert_eq!(found, [named(0x1000, "main.a", 0x40), named(0x1040, "main.(*T).b", 0x50)]);
    }

    #[test]
    fn a_damaged_table_is_no_panic() {
        let bytes = table();
        for cut in 0..bytes.len() {
            let table = Table(&bytes[..cut]);
            assert!(
                table.layout(0).is_none_or(|layout| table.functions(layout).is_none()),
                "{cut}"
            );
        }
    }
}

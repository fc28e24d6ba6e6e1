//! The values that are read at a probe, as the kernel's program reads them: from registers, through pointers.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of the stack pointer in DWARF.
pub(crate) const RSP: u8 = 7;

/// The number of the frame pointer in DWARF.
pub(crate) const RBP: u8 = 6;

/// Where a word comes from. Registers are numbered as in DWARF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Base {
    /// A register.
    Register(u8),
    /// Some bits of a register.
    Masked(u8, u64),
    /// A register and a distance: an address.
    Address(u8, i64),
    /// The eight bytes at a register and a distance.
    Memory(u8, i64),
    /// A register when the function returns.
    Result(u8),
    /// The number of the process.
    Process,
    /// The number of the thread.
    Thread,
    /// A part that is nowhere.
    Unknown,
}

/// A word: a base, and then what is found at the addresses on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) base: Base,
    /// Of each step, the distance that is added and the number of bytes that are read there.
    pub(crate) reads: Vec<(i64, u8)>,
}

impl Chain {
    pub(crate) fn of(base: Base) -> Chain {
        Chain { base, reads: Vec::new() }
    }

    pub(crate) fn then(mut self, offset: i64, size: u8) -> Chain {
        self.reads.push((offset, size));
        self
    }
}

/// The meaning of the bytes of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Unsigned,
    Signed,
    Bool,
    Char,
    Float,
    /// A number that has a name.
    Enum(Arc<BTreeMap<i64, String>>),
}

/// A value that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    /// A number of this many bytes.
    Scalar { word: Chain, size: u8, format: Format },
    /// A text that ends with a zero.
    CText { pointer: Chain },
    /// A text of a length.
    Text { pointer: Chain, len: Chain },
}

impl Capture {
    /// The words that are read for it.
    pub(crate) fn words(&self) -> Vec<&Chain> {
        match self {
            Capture::Scalar { word, .. } => vec![word],
            Capture::CText { pointer } => vec![pointer],
            Capture::Text { pointer, len } => vec![pointer, len],
        }
    }

    pub(crate) fn is_text(&self) -> bool {
        !matches!(self, Capture::Scalar { .. })
    }
}

//! Values without debug information: words by the calling convention, and offsets by hand.

use crate::capture::{Base, Capture};
pub(super) use crate::dwarf::capture_as;
use crate::dwarf::{Position, Typed};
use crate::golang;
use crate::language::{Kind, Path, Root, Step};

/// The registers of integer arguments in C, as DWARF numbers them.
const REGISTERS: [u8; 6] = [5, 4, 1, 2, 8, 9];

/// The value at a distance from what a pointer points to.
pub(super) fn at(value: &Typed, offset: i64) -> Result<Typed, String> {
    let position = Position::Memory(value.position.word(8)?, offset);
    Ok(Typed { position, of: None })
}

/// The bytes that are read for a path.
pub(super) fn capture(path: &Path, is_go: bool) -> Result<Capture, String> {
    let registers: &[u8] = if is_go { &golang::REGISTERS } else { &REGISTERS };
    let parts = match &path.root {
        Root::Parameter(number) => {
            let rest = registers.get(*number..).filter(|rest| !rest.is_empty());
            let rest = rest.ok_or_else(|| {
                format!("only the first {} words of arguments are in registers", registers.len())
            })?;
            rest.iter().map(|register| (Base::Register(*register), 8)).collect()
        }
        Root::Named(name) => {
            return Err(format!(
                "the names of parameters are not known without debug information; write the \
                 number of the word instead of {name}, from $0"
            ));
        }
        Root::Result => {
            let registers: &[u8] = if is_go { &golang::REGISTERS } else { &[0, 1] };
            registers.iter().map(|register| (Base::Result(*register), 8)).collect()
        }
        Root::Process => vec![(Base::Process, 0)],
        Root::Thread => vec![(Base::Thread, 0)],
    };
    let mut value = Typed { position: Position::Parts(parts), of: None };
    for step in &path.steps {
        value = match step {
            Step::At(offset) => at(&value, *offset)?,
            Step::Field(name) => {
                return Err(format!(
                    "fields are not known without debug information; write the offset of {name}, \
                     as [8]:u64"
                ));
            }
        };
    }
    capture_as(&value.position, path.kind.unwrap_or(Kind::U64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{Chain, Format};

    #[test]
    fn offsets_are_followed_from_registers() {
        let path = Path {
            root: Root::Parameter(0),
            steps: vec![Step::At(16), Step::At(8)],
            kind: Some(Kind::U32),
        };
        let word = Chain { base: Base::Register(0), reads: vec![(16, 8), (8, 4)] };
        let expected = Capture::Scalar { word, size: 4, format: Format::Unsigned };
        assert_eq!(capture(&path, true), Ok(expected));
    }
}

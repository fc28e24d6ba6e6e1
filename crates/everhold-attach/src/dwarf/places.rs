//! Where the parameters of a function are when an instruction is reached.

use gimli::{AttributeValue, Operation, UnwindSection as _};

use super::{Bytes, Debug, Die, Function};
use crate::capture::{Base, RBP, RSP};

/// Where one value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In registers or memory, part by part, each with its size in bytes; a value in one part has
    /// size 0.
    Parts(Vec<(Base, u64)>),
    /// In memory, at the address that this is.
    At(Base),
    /// Nowhere: why, in words.
    Nowhere(String),
}

/// The instruction at which the arguments of a function are looked at.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub(crate) address: u64,
    /// The stack pointer at the entry, as a register and a distance from it.
    pub(crate) frame: (u8, i64),
    pub(crate) parameters: Vec<Place>,
}

/// The lower bits of a register, as narrow values of Rust are described.
fn masked(place: Option<Place>, mask: Option<u64>) -> Option<Place> {
    let mask = mask?;
    let base = match place? {
        Place::At(Base::Address(register, 0)) => Base::Masked(register, mask),
        Place::Parts(parts) => match parts[..] {
            [(Base::Masked(register, before), _)] => Base::Masked(register, before & mask),
            _ => return None,
        },
        _ => return None,
    };
    Some(Place::Parts(vec![(base, 0)]))
}

impl<'a> Debug<'a> {
    /// The places of all parameters at the entry of a function, or after its prologue if the
    /// compiler, which did not optimise, puts them into memory there.
    pub(crate) fn places(&self, function: &Function, parameters: &[Die]) -> Places {
        let entry = function.ranges[0].0;
        let of = |address: u64| -> Vec<Place> {
            parameters.iter().map(|die| self.place(*die, function, address)).collect()
        };
        let at_entry = Places { address: entry, frame: (RSP, 0), parameters: of(entry) };
        let is_framed = parameters.iter().any(|die| self.is_framed(*die));
        let Some(later) = self.prologue_end(function).filter(|_| is_framed) else {
            return at_entry;
        };
        let Some((register, offset)) = self.frame(later) else { return at_entry };
        Places { address: later, frame: (register, offset - 8), parameters: of(later) }
    }

    /// Whether a parameter has one place throughout, in the frame of the function.
    fn is_framed(&self, die: Die) -> bool {
        let location = self.entry(die).and_then(|entry| entry.attr_value(gimli::DW_AT_location));
        let Some(AttributeValue::Exprloc(expression)) = location else { return false };
        let mut operations = expression.operations(self.unit(die).encoding());
        matches!(
            operations.next(),
            Ok(Some(Operation::FrameOffset { .. } | Operation::RegisterOffset { .. }))
        )
    }

    fn place(&self, die: Die, function: &Function, address: u64) -> Place {
        let nowhere = |text: &str| Place::Nowhere(text.to_owned());
        let Some(entry) = self.entry(die) else { return nowhere("not described") };
        let unit = self.unit(die);
        let expression = match entry.attr_value(gimli::DW_AT_location) {
            None => return nowhere("optimised out: the compiler found that it is not used"),
            Some(AttributeValue::Exprloc(expression)) => expression,
            Some(list) => {
                let Ok(Some(mut list)) = self.dwarf(die.unit).attr_locations(unit, list) else {
                    return nowhere("described in a way that is not understood");
                };
                let mut found = None;
                while let Ok(Some(location)) = list.next() {
                    let range = location.range;
                    // Go ends some ranges where they begin.
                    let end = range.end.max(range.begin + 1);
                    if range.begin <= address && address < end {
                        found = Some(location.data);
                        break;
                    }
                }
                match found {
                    Some(expression) => expression,
                    None => return nowhere("optimised out where the function begins"),
                }
            }
        };
        self.read(expression, function, address, die)
    }

    /// The place that an expression describes, if it is one of those that compilers write for parameters.
    fn read(
        &self,
        expression: gimli::Expression<Bytes<'a>>,
        function: &Function,
        address: u64,
        die: Die,
    ) -> Place {
        let mut operations = expression.operations(self.unit(die).encoding());
        let (mut place, mut parts, mut dereferenced) = (None, Vec::new(), false);
        let mut constant = None;
        loop {
            let operation = match operations.next() {
                Ok(Some(operation)) => operation,
                Ok(None) => break,
                Err(_) => return Place::Nowhere("its place cannot be read".to_owned()),
            };
            match operation {
                Operation::Register { register } => {
                    place = Some(Place::Parts(vec![(Base::Register(register.0 as u8), 0)]));
                    if register.0 > 15 {
                        let text = "in a floating-point register, which a probe cannot read";
                        return Place::Nowhere(text.to_owned());
                    }
                }
                Operation::RegisterOffset { register, offset, .. } => {
                    place = Some(Place::At(Base::Address(register.0 as u8, offset)));
                }
                Operation::FrameOffset { offset } => {
                    place = self
                        .frame_base(function, address, die)
                        .map(|(register, base)| Place::At(Base::Address(register, base + offset)));
                }
                Operation::CallFrameCFA => {
                    let frame = self.frame_at(function, address);
                    place = frame.map(|(register, at)| Place::At(Base::Address(register, at)));
                }
                Operation::PlusConstant { value } => {
                    if let Some(Place::At(Base::Address(_, offset))) = &mut place {
                        *offset += value.cast_signed();
                    }
                }
                Operation::Piece { size_in_bits, .. } => {
                    let part = match place.take() {
                        Some(Place::Parts(part)) => part[0].0,
                        Some(Place::At(Base::Address(register, at))) => Base::Memory(register, at),
                        _ => Base::Unknown,
                    };
                    parts.push((part, size_in_bits / 8));
                }
                Operation::Deref { .. } => dereferenced = true,
                Operation::UnsignedConstant { value } => constant = Some(value),
                Operation::And => place = masked(place, constant.take()),
                Operation::StackValue => {
                    // This operation makes the computed address the value itself.
                    if let Some(Place::At(base)) = place {
                        place = Some(Place::Parts(vec![(base, 0)]));
                    }
                }
                _ => return Place::Nowhere("computed, not kept anywhere".to_owned()),
            }
        }
        match place {
            _ if !parts.is_empty() => Place::Parts(parts),
            Some(Place::At(Base::Address(register, at))) if dereferenced => {
                Place::At(Base::Memory(register, at))
            }
            Some(place) => place,
            None => Place::Nowhere("optimised out where the function begins".to_owned()),
        }
    }

    /// The register and the distance that the places in the frame count from.
    fn frame_base(&self, function: &Function, address: u64, die: Die) -> Option<(u8, i64)> {
        let entry = self.entry(function.die)?;
        let AttributeValue::Exprloc(base) = entry.attr_value(gimli::DW_AT_frame_base)? else {
            return None;
        };
        match base.operations(self.unit(die).encoding()).next().ok()?? {
            Operation::Register { register } => Some((register.0 as u8, 0)),
            Operation::RegisterOffset { register, offset, .. } => Some((register.0 as u8, offset)),
            Operation::CallFrameCFA => self.frame_at(function, address),
            _ => None,
        }
    }

    /// The address above the return address, as a register and a distance.
    fn frame_at(&self, function: &Function, address: u64) -> Option<(u8, i64)> {
        // Before the first instruction, only the return address is on the stack.
        if address == function.ranges[0].0 { Some((RSP, 8)) } else { self.frame(address) }
    }

    fn frame(&self, address: u64) -> Option<(u8, i64)> {
        let frames = gimli::EhFrame::new(&self.sections.frames, gimli::LittleEndian);
        let bases = gimli::BaseAddresses::default()
            .set_eh_frame(self.sections.frames_address)
            .set_text(self.sections.text_address);
        let mut context = gimli::UnwindContext::new();
        let cie = gimli::EhFrame::cie_from_offset;
        let row = frames.unwind_info_for_address(&bases, &mut context, address, cie).ok()?;
        match row.cfa() {
            gimli::CfaRule::RegisterAndOffset { register, offset }
                if register.0 as u8 == RSP || register.0 as u8 == RBP =>
            {
                Some((register.0 as u8, *offset))
            }
            _ => None,
        }
    }

    /// Where the parameters are in the frame: the second line of a function, or the one that the
    /// compiler marks.
    fn prologue_end(&self, function: &Function) -> Option<u64> {
        let (start, end) = function.ranges[0];
        let program = self.unit(function.die).line_program.clone()?;
        let mut rows = program.rows();
        let (mut second, mut last) = (None::<u64>, None);
        while let Ok(Some((_, row))) = rows.next_row() {
            let inside = (start..end).contains(&row.address()) && !row.end_sequence();
            if inside && row.prologue_end() && row.address() > start {
                return Some(row.address());
            }
            if inside && row.address() > start && last == Some(start) && second.is_none() {
                second = Some(row.address());
            }
            last = Some(row.address());
        }
        second
    }
}

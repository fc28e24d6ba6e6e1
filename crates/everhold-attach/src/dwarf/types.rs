//! From a parameter along its fields to bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use gimli::AttributeValue;

use super::{Debug, Die, Place};
use crate::capture::{Base, Capture, Chain, Format};
use crate::language::Kind;

/// Where a value is, on the way along a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// In parts, each with its size in bytes; 0 if there is only one.
    Parts(Vec<(Base, u64)>),
    /// At a distance from the address that is found this way.
    Memory(Chain, i64),
}

impl Position {
    pub(crate) fn of(place: &Place) -> Result<Position, String> {
        match place {
            Place::Parts(parts) => Ok(Position::Parts(parts.clone())),
            Place::At(base) => Ok(Position::Memory(Chain::of(*base), 0)),
            Place::Nowhere(why) => Err(why.clone()),
        }
    }

    /// The word of this many bytes that is here.
    pub(crate) fn word(&self, size: u8) -> Result<Chain, String> {
        match self {
            Position::Parts(parts) => match parts.first() {
                Some((Base::Unknown, _)) | None => Err("optimised out in part".to_owned()),
                Some((base, _)) => Ok(Chain::of(*base)),
            },
            // A value in the frame is read on entry, since the function may change or drop it later.
            Position::Memory(Chain { base: Base::Address(register, at), reads }, offset)
                if reads.is_empty() =>
            {
                Ok(Chain::of(Base::Memory(*register, at + offset)))
            }
            Position::Memory(chain, offset) => Ok(chain.clone().then(*offset, size)),
        }
    }

    /// The part of it at a distance.
    pub(crate) fn at(&self, offset: u64) -> Result<Position, String> {
        match self {
            Position::Memory(chain, base) => {
                Ok(Position::Memory(chain.clone(), base + offset.cast_signed()))
            }
            Position::Parts(parts) => {
                let mut at = 0;
                for (index, (_, size)) in parts.iter().enumerate() {
                    if at == offset {
                        return Ok(Position::Parts(parts[index..].to_vec()));
                    }
                    at += size;
                }
                Err("in the middle of a register".to_owned())
            }
        }
    }
}

/// A value on the way along a path, with its type if that is known.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub(crate) position: Position,
    pub(crate) of: Option<Die>,
}

/// The deepest nesting of types that is followed.
const DEPTH: usize = 16;

impl Debug<'_> {
    fn tag(&self, die: Die) -> Option<gimli::DwTag> {
        Some(self.entry(die)?.tag())
    }

    fn number(&self, die: Die, attribute: gimli::DwAt) -> Option<u64> {
        let (_, value) = self.inherited(die, attribute)?;
        value.udata_value()
    }

    /// A type without its names and qualities.
    fn plain(&self, die: Die) -> Option<Die> {
        let mut die = die;
        for _ in 0..DEPTH {
            match self.tag(die)? {
                gimli::DW_TAG_typedef
                | gimli::DW_TAG_const_type
                | gimli::DW_TAG_volatile_type
                | gimli::DW_TAG_atomic_type
                | gimli::DW_TAG_restrict_type => die = self.type_of(die)?,
                _ => return Some(die),
            }
        }
        None
    }

    /// A type in words.
    pub(crate) fn type_name(&self, die: Die) -> String {
        let of = |die: Die| self.type_of(die).map_or("void".to_owned(), |to| self.type_name(to));
        match (self.name(die), self.tag(die)) {
            (Some(name), _) => name,
            (None, Some(gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type)) => {
                format!("{} *", of(die))
            }
            (None, Some(gimli::DW_TAG_const_type)) => format!("const {}", of(die)),
            _ => "a type without a name".to_owned(),
        }
    }

    fn is_pointer(&self, die: Die) -> bool {
        matches!(
            self.tag(die),
            Some(
                gimli::DW_TAG_pointer_type
                    | gimli::DW_TAG_reference_type
                    | gimli::DW_TAG_rvalue_reference_type
            )
        )
    }

    fn is_structure(&self, die: Die) -> bool {
        matches!(
            self.tag(die),
            Some(
                gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type
            )
        )
    }

    /// The members of a structure, with those of the classes that it inherits from.
    fn members(&self, die: Die) -> Vec<(String, u64, Die)> {
        let mut found = Vec::new();
        for child in self.children(die) {
            let offset = self.number(child, gimli::DW_AT_data_member_location).unwrap_or(0);
            let (tag, of) = (self.tag(child), self.type_of(child));
            match (tag, of) {
                (Some(gimli::DW_TAG_member), Some(of)) => {
                    let name = self.name(child).unwrap_or_default();
                    let is_static = self.inherited(child, gimli::DW_AT_external).is_some();
                    match name.is_empty() {
                        // The members of a structure without a name are those of the outer one.
                        true if self.is_structure(of) => {
                            let inner = self.members(of).into_iter();
                            found.extend(inner.map(|(n, at, of)| (n, at + offset, of)));
                        }
                        _ if is_static => {}
                        _ => found.push((name, offset, of)),
                    }
                }
                (Some(gimli::DW_TAG_inheritance), Some(of)) => {
                    let base = self.plain(of).map(|of| self.members(of)).unwrap_or_default();
                    found.extend(base.into_iter().map(|(n, at, of)| (n, at + offset, of)));
                }
                _ => {}
            }
        }
        found
    }

    /// The field of a value, through a pointer if there is one.
    pub(crate) fn field(&self, value: &Typed, name: &str) -> Result<Typed, String> {
        let unknown = || {
            format!(
                "its type is not known, so there is no field {name}; write an offset, as [8]:u64"
            )
        };
        let mut of = self.plain(value.of.ok_or_else(unknown)?).ok_or_else(unknown)?;
        let mut position = value.position.clone();
        if self.is_pointer(of) {
            position = Position::Memory(position.word(8)?, 0);
            of = self.type_of(of).and_then(|of| self.plain(of)).ok_or_else(unknown)?;
        }
        let members = self.members(of);
        let found = members.iter().find(|(known, _, _)| known == name);
        let Some((_, offset, of)) = found else {
            let names: Vec<&str> = members.iter().map(|(name, _, _)| name.as_str()).collect();
            let there = match names.is_empty() {
                true => "no fields".to_owned(),
                false => format!("the fields {}", names.join(", ")),
            };
            return Err(format!("{} has {there}, and not {name}", self.type_name(of)));
        };
        Ok(Typed { position: position.at(*offset)?, of: Some(*of) })
    }

    /// The bytes that are read for a value.
    pub(crate) fn capture(&self, value: &Typed) -> Result<Capture, String> {
        let of = value.of.and_then(|of| self.plain(of));
        let Some(of) = of else { return capture_as(&value.position, Kind::U64) };
        if self.is_structure(of) {
            return self.capture_structure(value, of);
        }
        let size = self.number(of, gimli::DW_AT_byte_size).unwrap_or(8);
        let size = u8::try_from(size).ok().filter(|size| matches!(size, 1 | 2 | 4 | 8));
        let size = size.ok_or_else(|| {
            format!("{} is larger than eight bytes and no text", self.type_name(of))
        })?;
        let scalar = |format| -> Result<Capture, String> {
            Ok(Capture::Scalar { word: value.position.word(size)?, size, format })
        };
        match self.tag(of) {
            Some(gimli::DW_TAG_enumeration_type) => scalar(Format::Enum(self.enumerators(of))),
            _ if self.is_pointer(of) => {
                let to = self.type_of(of).and_then(|to| self.plain(to));
                match to.is_some_and(|to| self.is_char(to)) {
                    true => Ok(Capture::CText { pointer: value.position.word(8)? }),
                    false => scalar(Format::Unsigned),
                }
            }
            Some(gimli::DW_TAG_base_type) => scalar(match self.encoding(of) {
                Some(gimli::DW_ATE_signed) => Format::Signed,
                Some(gimli::DW_ATE_signed_char) => Format::Signed,
                Some(gimli::DW_ATE_boolean) => Format::Bool,
                Some(gimli::DW_ATE_UTF) => Format::Char,
                Some(gimli::DW_ATE_float) => Format::Float,
                _ => Format::Unsigned,
            }),
            _ => Err(format!("{} is no number and no text", self.type_name(of))),
        }
    }

    fn capture_structure(&self, value: &Typed, of: Die) -> Result<Capture, String> {
        let members = self.members(of);
        let size_of = |die: &Die| {
            self.plain(*die).and_then(|die| self.number(die, gimli::DW_AT_byte_size)).unwrap_or(8)
        };
        let len = members
            .iter()
            .find(|(name, _, _)| matches!(name.as_str(), "len" | "length" | "_M_string_length"));
        let start = self.pointer_in(of, DEPTH);
        if let (Some((_, len, _)), Some(pointer)) = (len, start)
            && self.is_text(of)
        {
            let word = |at| value.position.at(at)?.word(8);
            return Ok(Capture::Text { pointer: word(pointer)?, len: word(*len)? });
        }
        let mut filled = members.iter().filter(|(_, _, of)| size_of(of) > 0);
        if let (Some((_, offset, of)), None) = (filled.next(), filled.next())
            && self.number(*of, gimli::DW_AT_byte_size) != Some(0)
        {
            // A structure around one value is that value.
            let inner = Typed { position: value.position.at(*offset)?, of: Some(*of) };
            return self.capture(&inner);
        }
        let names: Vec<&str> = members.iter().map(|(name, _, _)| name.as_str()).collect();
        let name = self.type_name(of);
        Err(match names.is_empty() {
            true => format!("{name} has several forms, which cannot be read as one value"),
            false => format!("{name} is a structure; name one of its fields: {}", names.join(", ")),
        })
    }

    /// Where the first pointer in a structure is.
    fn pointer_in(&self, of: Die, depth: usize) -> Option<u64> {
        if depth == 0 {
            return None;
        }
        self.members(of).into_iter().find_map(|(_, offset, of)| {
            let of = self.plain(of)?;
            if self.is_pointer(of) {
                return Some(offset);
            }
            let inner = self.is_structure(of).then(|| self.pointer_in(of, depth - 1));
            Some(offset + inner.flatten()?)
        })
    }

    /// Whether a structure is a text of Go, Rust or C++.
    fn is_text(&self, of: Die) -> bool {
        let name = self.name(of).unwrap_or_default();
        matches!(name.as_str(), "string" | "&str" | "&mut str" | "String")
            || name.starts_with("Vec<u8")
            || name.starts_with("basic_string<char")
            || name.starts_with("basic_string_view<char")
    }

    fn is_char(&self, of: Die) -> bool {
        let encoding = self.encoding(of);
        self.tag(of) == Some(gimli::DW_TAG_base_type)
            && self.number(of, gimli::DW_AT_byte_size) == Some(1)
            && matches!(encoding, Some(gimli::DW_ATE_signed_char))
    }

    fn encoding(&self, of: Die) -> Option<gimli::DwAte> {
        match self.inherited(of, gimli::DW_AT_encoding)?.1 {
            AttributeValue::Encoding(encoding) => Some(encoding),
            _ => None,
        }
    }

    fn enumerators(&self, of: Die) -> Arc<BTreeMap<i64, String>> {
        let names = self.children_of(of, gimli::DW_TAG_enumerator).into_iter().filter_map(|die| {
            let value = self.entry(die)?.attr_value(gimli::DW_AT_const_value)?;
            let number = value.sdata_value().or(value.udata_value().map(u64::cast_signed))?;
            Some((number, self.name(die)?))
        });
        Arc::new(names.collect())
    }
}

/// The bytes of a value that the probe file describes.
pub(crate) fn capture_as(position: &Position, kind: Kind) -> Result<Capture, String> {
    let (size, format) = match kind {
        Kind::U8 => (1, Format::Unsigned),
        Kind::U16 => (2, Format::Unsigned),
        Kind::U32 => (4, Format::Unsigned),
        Kind::U64 => (8, Format::Unsigned),
        Kind::I8 => (1, Format::Signed),
        Kind::I16 => (2, Format::Signed),
        Kind::I32 => (4, Format::Signed),
        Kind::I64 => (8, Format::Signed),
        Kind::Bool => (1, Format::Bool),
        Kind::CText => return Ok(Capture::CText { pointer: position.word(8)? }),
        Kind::Text => {
            let len = position.at(8)?.word(8)?;
            return Ok(Capture::Text { pointer: position.word(8)?, len });
        }
    };
    Ok(Capture::Scalar { word: position.word(size)?, size, format })
}

//! The types of the running kernel, as it describes them itself.

use std::fs;

use crate::error::{AttachError, AttachErrorKind};

/// The description of the kernel's types.
pub(crate) struct Btf {
    bytes: Vec<u8>,
    /// Where the types begin and end, and where their names begin.
    types: usize,
    end: usize,
    names: usize,
}

const STRUCT: u32 = 4;
const UNION: u32 = 5;
const TYPEDEF: u32 = 8;
const FUNCTION: u32 = 12;

/// One type: its kind, its name, the number of its members, and where they are.
struct Type<'a> {
    kind: u32,
    name: &'a [u8],
    count: usize,
    at: usize,
    has_bits: bool,
}

impl Btf {
    /// Reads the description of the running kernel.
    pub(crate) fn read() -> Result<Btf, AttachError> {
        let path = "/sys/kernel/btf/vmlinux";
        let bytes = fs::read(path).map_err(|error| {
            let text =
                format!("{error}; the order of messages needs a kernel that describes its types");
            AttachError::new(AttachErrorKind::Unsupported, path, text)
        })?;
        let mut btf = Btf { bytes, types: 0, end: 0, names: 0 };
        let word = |at| btf.word(at).map(|word| word as usize);
        let header = (word(4), word(8), word(12), word(16));
        let (Some(header), Some(types), Some(len), Some(names)) = header else {
            return Err(AttachError::new(AttachErrorKind::Unreadable, path, "damaged"));
        };
        (btf.types, btf.end, btf.names) = (header + types, header + types + len, header + names);
        Ok(btf)
    }

    fn word(&self, at: usize) -> Option<u32> {
        self.bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn name(&self, offset: u32) -> &[u8] {
        let bytes = self.bytes.get(self.names + offset as usize..).unwrap_or_default();
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(0);
        &bytes[..end]
    }

    /// Passes every type with its number, until one is wanted.
    fn find<T>(&self, wanted: impl Fn(u32, &Type<'_>) -> Option<T>) -> Option<T> {
        let (mut at, mut number) = (self.types, 1);
        while at < self.end {
            let (name, info) = (self.word(at)?, self.word(at + 4)?);
            let (kind, count) = (info >> 24 & 31, (info & 0xffff) as usize);
            let has_bits = info >> 31 != 0;
            let found = Type { kind, name: self.name(name), count, at: at + 12, has_bits };
            if let Some(found) = wanted(number, &found) {
                return Some(found);
            }
            at += 12
                + match kind {
                    1 | 14 | 17 => 4,
                    3 => 12,
                    4 | 5 | 15 | 19 => 12 * count,
                    6 | 13 => 8 * count,
                    _ => 0,
                };
            number += 1;
        }
        None
    }

    /// The number of the type of a tracepoint.
    pub(crate) fn tracepoint(&self, name: &str) -> Option<u32> {
        self.named(TYPEDEF, &format!("btf_trace_{name}"))
    }

    /// The number of the type of a function.
    pub(crate) fn function(&self, name: &str) -> Option<u32> {
        self.named(FUNCTION, name)
    }

    fn named(&self, kind: u32, name: &str) -> Option<u32> {
        self.find(|number, found| {
            (found.kind == kind && found.name == name.as_bytes()).then_some(number)
        })
    }

    /// The offset of a field in a structure, inside structures without names as well.
    pub(crate) fn offset(&self, structure: &str, field: &str) -> Result<i32, AttachError> {
        let bits = self.find(|_, found| {
            let is_it = found.kind == STRUCT && found.name == structure.as_bytes();
            if is_it { self.member(found, field, 4) } else { None }
        });
        let bits = bits.and_then(|bits| i32::try_from(bits / 8).ok());
        bits.ok_or_else(|| {
            let text = format!("this kernel has no field {field} in {structure}");
            AttachError::new(AttachErrorKind::Unsupported, "the order of messages", text)
        })
    }

    fn member(&self, of: &Type<'_>, field: &str, depth: usize) -> Option<u32> {
        if depth == 0 {
            return None;
        }
        for index in 0..of.count {
            let at = of.at + 12 * index;
            let (name, kind, offset) = (self.word(at)?, self.word(at + 4)?, self.word(at + 8)?);
            let offset = if of.has_bits { offset & 0xff_ffff } else { offset };
            let name = self.name(name);
            if name == field.as_bytes() {
                return Some(offset);
            }
            if name.is_empty() {
                let inner = self.find(|number, found| {
                    let is_it = number == kind && matches!(found.kind, STRUCT | UNION);
                    is_it.then(|| self.member(found, field, depth - 1))
                });
                if let Some(inner) = inner.flatten() {
                    return Some(offset + inner);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_kernel_describes_its_sockets() {
        let Ok(btf) = Btf::read() else {
            assert!(std::env::var_os("CI").is_none(), "this kernel does not describe its types");
            return eprintln!("left out: this kernel does not describe its types");
        };
        let offset = |structure, field| btf.offset(structure, field).unwrap();
        assert_eq!(offset("sock", "__sk_common"), 0);
        assert!(offset("tcp_sock", "write_seq") > 0);
        assert_ne!(offset("sock_common", "skc_daddr"), offset("sock_common", "skc_rcv_saddr"));
        assert!(btf.tracepoint("sock_recv_length").unwrap() > 0);
        assert!(btf.offset("sock", "no_such_field").unwrap_err().text.contains("no_such_field"));
    }
}

//! The lengths of instructions of the processor, and the atomic ones among them.

/// An instruction, as far as the patcher needs to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) length: usize,
    pub(crate) kind: Kind,
    /// Where its displacement from the next instruction lies, if it has one.
    pub(crate) relative_at: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It reads a word of memory and writes it in one step, as locks do.
    Exchange,
    /// It tells the processor that the thread spins.
    Pause,
    Other,
}

/// Something follows the opcode: a byte that names operands, and a constant of some bytes.
#[derive(Clone, Copy)]
struct Form {
    has_operands: bool,
    constant: usize,
}

/// The prefixes before the opcode.
#[derive(Default)]
struct Prefixes {
    short: bool,
    address: bool,
    lock: bool,
    repeat: bool,
    wide: bool,
}

/// The instruction at the beginning of some code; nothing for what is none that is known.
pub(crate) fn decode(code: &[u8]) -> Option<Instruction> {
    let mut prefixes = Prefixes::default();
    let mut at = 0;
    loop {
        match *code.get(at)? {
            0x66 => prefixes.short = true,
            0x67 => prefixes.address = true,
            0xf0 => prefixes.lock = true,
            0xf3 => prefixes.repeat = true,
            0xf2 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65 => {}
            _ => break,
        }
        at += 1;
    }
    if let rex @ 0x40..=0x4f = *code.get(at)? {
        prefixes.wide = rex & 8 != 0;
        at += 1;
    }
    let opcode = *code.get(at)?;
    at += 1;
    let (form, escaped, opcode, after) = match opcode {
        0x0f => escaped(code, at)?,
        0xc5 => vector(1, *code.get(at + 1)?, at + 2),
        0xc4 => vector(code.get(at)? & 31, *code.get(at + 2)?, at + 3),
        0x62 => vector(code.get(at)? & 7, *code.get(at + 3)?, at + 4),
        _ => (plain(opcode, &prefixes, code.get(at).copied())?, false, opcode, at),
    };
    let (operands, relative_at) = match form.has_operands {
        true => operands(code, after)?,
        false => (0, None),
    };
    let length = after + operands + form.constant;
    let kind = kind(&prefixes, escaped, opcode, code.get(after).copied());
    (length <= code.len().min(15)).then_some(Instruction { length, kind, relative_at })
}

fn kind(prefixes: &Prefixes, escaped: bool, opcode: u8, operands: Option<u8>) -> Kind {
    let in_memory = operands.is_some_and(|byte| byte >> 6 != 3);
    match (escaped, opcode) {
        (true, 0xb0 | 0xb1 | 0xc7 | 0xab | 0xb3 | 0xba) if prefixes.lock => Kind::Exchange,
        (false, 0x86 | 0x87) if in_memory => Kind::Exchange,
        (false, 0x90) if prefixes.repeat => Kind::Pause,
        _ => Kind::Other,
    }
}

/// The bytes that name operands, and the place of a displacement from the next instruction.
fn operands(code: &[u8], at: usize) -> Option<(usize, Option<usize>)> {
    let byte = *code.get(at)?;
    let (mode, base) = (byte >> 6, byte & 7);
    if mode == 3 {
        return Some((1, None));
    }
    let indexed = usize::from(base == 4);
    let base = if indexed == 1 { *code.get(at + 1)? & 7 } else { base };
    Some(match mode {
        0 if base == 5 && indexed == 0 => (5, Some(at + 1)),
        0 if base == 5 => (6, None),
        0 => (1 + indexed, None),
        1 => (2 + indexed, None),
        _ => (5 + indexed, None),
    })
}

fn form(has_operands: bool, constant: usize) -> Option<Form> {
    Some(Form { has_operands, constant })
}

/// An opcode of one byte.
fn plain(opcode: u8, prefixes: &Prefixes, next: Option<u8>) -> Option<Form> {
    let word = if prefixes.short { 2 } else { 4 };
    match opcode {
        0x00..=0x3f => match opcode & 7 {
            0..=3 => form(true, 0),
            4 => form(false, 1),
            5 => form(false, word),
            _ => None,
        },
        0x50..=0x5f | 0x6c..=0x6f | 0x90..=0x99 | 0x9b..=0x9f | 0xa4..=0xa7 => form(false, 0),
        0x63 | 0x84..=0x8f | 0xd0..=0xd3 | 0xd8..=0xdf | 0xfe | 0xff => form(true, 0),
        0x68 | 0xa9 => form(false, word),
        0x69 | 0x81 | 0xc7 => form(true, word),
        0x6a | 0x70..=0x7f | 0xa8 | 0xb0..=0xb7 | 0xcd | 0xe0..=0xe7 | 0xeb => form(false, 1),
        0x6b | 0x80 | 0x83 | 0xc0 | 0xc1 | 0xc6 => form(true, 1),
        0xa0..=0xa3 => form(false, if prefixes.address { 4 } else { 8 }),
        0xaa..=0xaf | 0xc3 | 0xc9 | 0xcb | 0xcc | 0xcf | 0xd7 => form(false, 0),
        0xb8..=0xbf if prefixes.wide => form(false, 8),
        0xb8..=0xbf => form(false, word),
        0xc2 | 0xca => form(false, 2),
        0xc8 => form(false, 3),
        0xe8 | 0xe9 => form(false, 4),
        0xec..=0xef | 0xf1 | 0xf4 | 0xf5 | 0xf8..=0xfd => form(false, 0),
        0xf6 => form(true, usize::from(next? & 0x38 < 0x10)),
        0xf7 => form(true, if next? & 0x38 < 0x10 { word } else { 0 }),
        _ => None,
    }
}

type Decoded = (Form, bool, u8, usize);

/// An opcode after the byte 0x0f.
fn escaped(code: &[u8], at: usize) -> Option<Decoded> {
    let opcode = *code.get(at)?;
    let (operands, constant, after) = match opcode {
        0x38 => (true, 0, at + 2),
        0x3a => (true, 1, at + 2),
        0x05..=0x09 | 0x0b | 0x0e | 0x30..=0x37 | 0x77 | 0xa0..=0xa2 | 0xa8..=0xaa => {
            (false, 0, at + 1)
        }
        0xc8..=0xcf => (false, 0, at + 1),
        0x80..=0x8f => (false, 4, at + 1),
        0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc4..=0xc6 => (true, 1, at + 1),
        0x04 | 0x0a | 0x0c | 0x0f | 0x24..=0x27 | 0x39 | 0x3b..=0x3f | 0xa6 | 0xa7 => return None,
        _ => (true, 0, at + 1),
    };
    Some((Form { has_operands: operands, constant }, after == at + 1, opcode, after))
}

/// An opcode of a vector instruction.
fn vector(map: u8, opcode: u8, after: usize) -> Decoded {
    let constant = match (map, opcode) {
        (3, _) | (1, 0x70..=0x73 | 0xc2 | 0xc4..=0xc6) => 1,
        _ => 0,
    };
    let has_operands = (map, opcode) != (1, 0x77);
    (Form { has_operands, constant }, false, 0, after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: &[u8], kind: Kind, relative_at: Option<usize>) {
        let mut padded = code.to_vec();
        padded.extend([0x90; 15]);
        let length = code.len();
        assert_eq!(decode(&padded), Some(Instruction { length, kind, relative_at }), "{code:02x?}");
    }

    #[test]
    fn instructions_of_all_forms_have_their_lengths() {
        use Kind::{Exchange, Other, Pause};
        // lock cmpxchg [rdi+0x10], ecx; with an index; wide; from the next instruction on
        check(&[0xf0, 0x0f, 0xb1, 0x4f, 0x10], Exchange, None);
        check(&[0xf0, 0x0f, 0xb1, 0x0f], Exchange, None);
        check(&[0xf0, 0x42, 0x0f, 0xb1, 0x4c, 0x37, 0x08], Exchange, None);
        check(&[0xf0, 0x48, 0x0f, 0xb1, 0x0d, 1, 2, 3, 4], Exchange, Some(5));
        // xchg [rdi], al; xchg eax, ecx
        check(&[0x86, 0x07], Exchange, None);
        check(&[0x87, 0xc8], Other, None);
        check(&[0xf3, 0x90], Pause, None);
        // mov rax, 8 bytes; mov eax, 4 bytes; mov ax, 2 bytes
        check(&[0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8], Other, None);
        check(&[0xb8, 1, 2, 3, 4], Other, None);
        check(&[0x66, 0xb8, 1, 2], Other, None);
        // test byte ptr [rax], 1; neg dword ptr [rax]; test with four bytes
        check(&[0xf6, 0x00, 0x01], Other, None);
        check(&[0xf7, 0x18], Other, None);
        check(&[0xf7, 0x05, 1, 2, 3, 4, 5, 6, 7, 8], Other, Some(2));
        // a jump, a call, a move with sib and no base
        check(&[0x0f, 0x84, 1, 2, 3, 4], Other, None);
        check(&[0xe8, 1, 2, 3, 4], Other, None);
        check(&[0x8b, 0x04, 0x25, 1, 2, 3, 4], Other, None);
        // pshufb, palignr, vaddps, vzeroupper, vpermq with a constant, evex move
        check(&[0x66, 0x0f, 0x38, 0x00, 0xc1], Other, None);
        check(&[0x66, 0x0f, 0x3a, 0x0f, 0xc1, 8], Other, None);
        check(&[0xc5, 0xf4, 0x58, 0xc2], Other, None);
        check(&[0xc5, 0xf8, 0x77], Other, None);
        check(&[0xc4, 0xe3, 0xfd, 0x00, 0xc1, 0x1b], Other, None);
        check(&[0x62, 0xf1, 0x7c, 0x48, 0x10, 0x07], Other, None);
    }

    #[test]
    fn what_is_no_instruction_is_none() {
        for code in [&[0x06][..], &[0x0f, 0x04], &[0xf0, 0x0f], &[0x48, 0x8b], &[]] {
            assert_eq!(decode(code), None, "{code:02x?}");
        }
    }
}

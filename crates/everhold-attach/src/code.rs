//! Machine code of x86-64, as far as probes need it: where an instruction ends, whether it leaves the
//! function, and what a breakpoint on it costs.
//!
//! The kernel replaces a probed instruction by a breakpoint. Some instructions it then carries out
//! itself, which costs about a microsecond; every other one it runs alone in single-step mode, which
//! costs ten in a virtual machine.

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) len: usize,
    pub(crate) kind: Kind,
}

/// The kinds of instruction that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A return.
    Return,
    /// A jump by this distance from its end.
    Jump(i64),
    /// A jump by this distance if the comparison was below or equal, as in the prologue of Go.
    JumpBelow(i64),
    /// Another conditional jump, by the number of its condition.
    Branch(u8, i64),
    /// A jump that depends on a register that counts; compilers do not write it.
    Counted,
    /// A jump to an address in a register or in memory.
    JumpTo,
    /// `endbr64`, which marks a target of indirect jumps.
    Landing,
    /// A push of a register.
    Push,
    /// An instruction without effect.
    Nop,
    /// A call of a function at a distance.
    Call,
    /// Anything else.
    Other,
}

impl Kind {
    /// Returns whether the kernel carries out this instruction itself.
    pub(crate) fn is_cheap(self) -> bool {
        !matches!(self, Kind::Return | Kind::JumpTo | Kind::Landing | Kind::Counted | Kind::Other)
    }

    /// The number of the condition of a jump, if it has one.
    fn condition(self) -> Option<u8> {
        match self {
            Kind::JumpBelow(_) => Some(BELOW_OR_EQUAL),
            Kind::Branch(condition, _) => Some(condition),
            _ => None,
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Kind::Return => "ret",
            Kind::Jump(_) | Kind::JumpTo => "jmp",
            Kind::JumpBelow(_) => "jbe",
            Kind::Branch(..) => "jcc",
            Kind::Counted => "loop",
            Kind::Landing => "endbr64",
            Kind::Push => "push",
            Kind::Nop => "nop",
            Kind::Call => "call",
            Kind::Other => "other",
        }
    }
}

/// The number of the condition of `jbe`.
const BELOW_OR_EQUAL: u8 = 6;

/// The bytes that are still to be read.
struct Bytes<'a> {
    all: &'a [u8],
    at: usize,
}

impl Bytes<'_> {
    fn next(&mut self) -> Option<u8> {
        let byte = *self.all.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn skip(&mut self, count: usize) -> Option<()> {
        self.at += count;
        (self.at <= self.all.len()).then_some(())
    }

    /// A signed distance of this many bytes.
    fn distance(&mut self, size: usize) -> Option<i64> {
        let bytes = self.all.get(self.at..self.at + size)?;
        self.at += size;
        Some(match size {
            1 => i64::from(bytes[0].cast_signed()),
            _ => i64::from(i32::from_le_bytes(bytes.try_into().ok()?)),
        })
    }
}

/// The prefixes before the operation.
#[derive(Default)]
struct Prefixes {
    narrow: bool,
    short_address: bool,
    repeat: bool,
    rex: u8,
}

impl Prefixes {
    /// The size of a constant that follows the width of the operation.
    fn constant(&self) -> usize {
        if self.narrow && self.rex & 8 == 0 { 2 } else { 4 }
    }
}

/// Reads the first instruction; `None` if it is not one, or is cut off.
pub(crate) fn decode(bytes: &[u8]) -> Option<Instruction> {
    let mut bytes = Bytes { all: bytes, at: 0 };
    let mut prefixes = Prefixes::default();
    let operation = loop {
        match bytes.next()? {
            0x66 => prefixes.narrow = true,
            0x67 => prefixes.short_address = true,
            0xf3 => prefixes.repeat = true,
            0xf0 | 0xf2 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65 => {}
            other => break other,
        }
        prefixes.rex = 0;
    };
    let operation = match operation {
        0x40..=0x4f => {
            prefixes.rex = operation;
            bytes.next()?
        }
        other => other,
    };
    let kind = match operation {
        0x0f => two_bytes(&mut bytes, &prefixes)?,
        0xc4 | 0xc5 | 0x62 => vector(&mut bytes, operation)?,
        _ => one_byte(&mut bytes, operation, &prefixes)?,
    };
    (bytes.at <= bytes.all.len()).then_some(Instruction { len: bytes.at, kind })
}

/// Skips the byte that describes operands, and what follows it; returns the byte.
fn operands(bytes: &mut Bytes<'_>) -> Option<u8> {
    let modes = bytes.next()?;
    let (mode, memory) = (modes >> 6, modes & 7);
    if mode == 3 {
        return Some(modes);
    }
    let mut distance = match (mode, memory) {
        (0, 5) | (2, _) => 4,
        (1, _) => 1,
        _ => 0,
    };
    if memory == 4 && bytes.next()? & 7 == 5 && mode == 0 {
        distance = 4;
    }
    bytes.skip(distance)?;
    Some(modes)
}

fn one_byte(bytes: &mut Bytes<'_>, operation: u8, prefixes: &Prefixes) -> Option<Kind> {
    let wide = prefixes.constant();
    match operation {
        0x00..=0x3f => match operation & 7 {
            0..=3 => drop(operands(bytes)?),
            4 => bytes.skip(1)?,
            5 => bytes.skip(wide)?,
            _ => return None,
        },
        0x50..=0x57 => return Some(Kind::Push),
        0x58..=0x5f | 0x6c..=0x6f | 0x91..=0x99 | 0x9b..=0x9f | 0xa4..=0xa7 | 0xaa..=0xaf => {}
        0x90 if prefixes.rex & 1 == 0 => return Some(Kind::Nop),
        0x90 => {}
        0x63 | 0x84..=0x8f | 0xd0..=0xd3 | 0xd8..=0xdf | 0xfe => drop(operands(bytes)?),
        0x68 | 0xa9 => bytes.skip(wide)?,
        0x69 | 0x81 | 0xc7 => {
            operands(bytes)?;
            bytes.skip(wide)?;
        }
        0x6a | 0xa8 | 0xb0..=0xb7 | 0xcd | 0xe4..=0xe7 => bytes.skip(1)?,
        0x6b | 0x80 | 0x83 | 0xc0 | 0xc1 | 0xc6 => {
            operands(bytes)?;
            bytes.skip(1)?;
        }
        0x76 => return Some(Kind::JumpBelow(bytes.distance(1)?)),
        0x70..=0x7f => return Some(Kind::Branch(operation & 15, bytes.distance(1)?)),
        0xa0..=0xa3 => bytes.skip(if prefixes.short_address { 4 } else { 8 })?,
        0xb8..=0xbf => bytes.skip(if prefixes.rex & 8 != 0 { 8 } else { wide })?,
        0xc2 | 0xca => {
            bytes.skip(2)?;
            return Some(Kind::Return);
        }
        0xc3 | 0xcb => return Some(Kind::Return),
        0xc8 => bytes.skip(3)?,
        0xe0..=0xe3 => {
            bytes.skip(1)?;
            return Some(Kind::Counted);
        }
        0xe8 => {
            bytes.skip(4)?;
            return Some(Kind::Call);
        }
        0xe9 => return Some(Kind::Jump(bytes.distance(4)?)),
        0xeb => return Some(Kind::Jump(bytes.distance(1)?)),
        0xf6 | 0xf7 => {
            let has_constant = operands(bytes)? >> 3 & 7 <= 1;
            let size = if operation == 0xf6 { 1 } else { wide };
            bytes.skip(if has_constant { size } else { 0 })?;
        }
        0xff => {
            let is_jump = matches!(operands(bytes)? >> 3 & 7, 4 | 5);
            return Some(if is_jump { Kind::JumpTo } else { Kind::Other });
        }
        0xc9 | 0xcc | 0xcf | 0xd7 | 0xec..=0xef | 0xf1 | 0xf4 | 0xf5 | 0xf8..=0xfd => {}
        _ => return None,
    }
    Some(Kind::Other)
}

fn two_bytes(bytes: &mut Bytes<'_>, prefixes: &Prefixes) -> Option<Kind> {
    let operation = bytes.next()?;
    match operation {
        0x05..=0x09 | 0x0b | 0x0e | 0x30..=0x37 | 0x77 | 0xa0..=0xa2 | 0xa8..=0xaa => {}
        0xc8..=0xcf => {}
        0x1e if prefixes.repeat && bytes.all.get(bytes.at) == Some(&0xfa) => {
            bytes.skip(1)?;
            return Some(Kind::Landing);
        }
        0x1f => {
            operands(bytes)?;
            return Some(Kind::Nop);
        }
        0x38 => {
            bytes.skip(1)?;
            operands(bytes)?;
        }
        0x3a => {
            bytes.skip(1)?;
            operands(bytes)?;
            bytes.skip(1)?;
        }
        0x0f | 0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc4..=0xc6 => {
            operands(bytes)?;
            bytes.skip(1)?;
        }
        0x86 => return Some(Kind::JumpBelow(bytes.distance(4)?)),
        0x80..=0x8f => return Some(Kind::Branch(operation & 15, bytes.distance(4)?)),
        _ => drop(operands(bytes)?),
    }
    Some(Kind::Other)
}

/// An instruction with a vector prefix, whose payload selects the table of operations.
fn vector(bytes: &mut Bytes<'_>, prefix: u8) -> Option<Kind> {
    let first = bytes.next()?;
    let table = match prefix {
        0xc5 => 1,
        0xc4 => {
            bytes.skip(1)?;
            first & 0x1f
        }
        _ => {
            bytes.skip(2)?;
            first & 7
        }
    };
    let operation = bytes.next()?;
    if table == 1 && operation == 0x77 && prefix != 0x62 {
        return Some(Kind::Other);
    }
    operands(bytes)?;
    let has_constant = match table {
        1 => matches!(operation, 0x70..=0x73 | 0xc2 | 0xc4..=0xc6),
        3 => true,
        _ => false,
    };
    bytes.skip(usize::from(has_constant))?;
    Some(Kind::Other)
}

/// How many instructions the prologue of a Go function has before its last jump, at most.
const PROLOGUE_MAX: usize = 8;

/// How many instructions there are at most from where the stack of a goroutine grows to the jump back
/// to the beginning: one for each register of an argument, before the call and after it.
const GROWTH_MAX: usize = 64;

/// Where a Go function, given by its bytes, jumps if its stack must grow; `None` if its stack does not
/// grow. That touches no register of an argument. A function with a large frame asks twice, and the
/// last of the jumps is passed once by every call that is not begun again.
pub(crate) fn growth(code: &[u8]) -> Option<usize> {
    let (mut at, mut found) = (0, None);
    for _ in 0..PROLOGUE_MAX {
        let Some(instruction) = code.get(at..).and_then(decode) else { break };
        let end = at + instruction.len;
        let target = |distance: i64| {
            usize::try_from(end.cast_signed() + isize::try_from(distance).unwrap_or(isize::MIN / 2))
        };
        match instruction.kind {
            Kind::JumpBelow(distance) | Kind::Branch(_, distance) => {
                let grows = target(distance).is_ok_and(|target| begins_again(code, target));
                if !grows {
                    break;
                }
                if matches!(instruction.kind, Kind::JumpBelow(_)) {
                    found = Some(at);
                }
            }
            Kind::Other => {}
            _ => break,
        }
        at = end;
    }
    found
}

/// Whether the code at this place calls something, as what makes a stack grow, and then begins the
/// function again.
fn begins_again(code: &[u8], mut at: usize) -> bool {
    let mut calls = false;
    for _ in 0..GROWTH_MAX {
        let Some(instruction) = code.get(at..).and_then(decode) else { return false };
        at += instruction.len;
        match instruction.kind {
            Kind::Call => calls = true,
            Kind::Jump(distance) => return calls && distance == -(at as i64),
            Kind::Other | Kind::Nop => {}
            _ => return false,
        }
    }
    false
}

/// Where a function is left, as addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exits {
    pub(crate) returns: Vec<u64>,
    /// Jumps into other functions, which return in this one's place.
    pub(crate) jumps: Vec<u64>,
    /// Such jumps that are taken under a condition, with its number.
    pub(crate) branches: Vec<(u64, u8)>,
    /// Jumps to computed addresses: cases of a switch, or other functions.
    pub(crate) computed: usize,
}

/// Finds the exits of a function that has these parts, each with its address and its bytes. Fails
/// with the address of what is not an instruction.
pub(crate) fn exits(parts: &[(u64, &[u8])]) -> Result<Exits, u64> {
    let inside =
        |address: u64| parts.iter().any(|(at, code)| address.wrapping_sub(*at) < code.len() as u64);
    let mut exits = Exits::default();
    for (start, code) in parts {
        let mut at = 0;
        while at < code.len() {
            let address = start + at as u64;
            let instruction = decode(&code[at..]).ok_or(address)?;
            let end = address + instruction.len as u64;
            match instruction.kind {
                Kind::Return => exits.returns.push(address),
                Kind::Jump(distance) | Kind::JumpBelow(distance) | Kind::Branch(_, distance)
                    if !inside(end.wrapping_add_signed(distance)) =>
                {
                    match instruction.kind.condition() {
                        Some(condition) => exits.branches.push((address, condition)),
                        None => exits.jumps.push(address),
                    }
                }
                Kind::JumpTo | Kind::Counted => exits.computed += 1,
                _ => {}
            }
            at += instruction.len;
        }
    }
    Ok(exits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], len: usize, kind: Kind) {
        assert_eq!(decode(bytes), Some(Instruction { len, kind }), "{bytes:x?}");
    }

    #[test]
    fn instructions_that_matter_are_known() {
        check(&[0xf3, 0x0f, 0x1e, 0xfa, 0x55], 4, Kind::Landing);
        check(&[0x55], 1, Kind::Push);
        check(&[0x41, 0x57], 2, Kind::Push);
        check(&[0xc3], 1, Kind::Return);
        check(&[0xf3, 0xc3], 2, Kind::Return);
        check(&[0x49, 0x3b, 0x66, 0x10], 4, Kind::Other);
        check(&[0x0f, 0x86, 4, 0, 0, 0], 6, Kind::JumpBelow(4));
        check(&[0x76, 0xfe], 2, Kind::JumpBelow(-2));
        check(&[0xff, 0xe0], 2, Kind::JumpTo);
        check(&[0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0], 9, Kind::Nop);
        check(&[0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8], 10, Kind::Other);
        check(&[0x66, 0xc7, 0x40, 0x08, 0x01, 0x00], 6, Kind::Other);
        check(&[0xc5, 0xf8, 0x77], 3, Kind::Other);
        check(&[0x62, 0xf1, 0xfe, 0x48, 0x6f, 0x04, 0x24], 7, Kind::Other);
        assert_eq!(decode(&[0x48]), None);
        assert_eq!(decode(&[0x06]), None);
    }

    #[test]
    fn the_stack_check_of_go_is_told_from_other_jumps() {
        #[track_caller]
        fn check(code: &[u8], expected: Option<usize>) {
            assert_eq!(growth(code), expected, "{code:x?}");
        }
        let small = [0x49, 0x3b, 0x66, 0x10, 0x76, 1, 0xc3, 0xe8, 0, 0, 0, 0, 0xeb, 0xf2];
        check(&small, Some(4));
        // It calls, but does not begin again: an error path.
        let other = [&small[..12], &[0xc3, 0x90]].concat();
        check(&other, None);
        // A large frame: the stack pointer is moved to another register, and asked about twice.
        let large = [
            &[0x49, 0x89, 0xe4][..],
            &[0x49, 0x81, 0xec, 0, 0x20, 0, 0],
            &[0x72, 7],
            &[0x4d, 0x3b, 0x66, 0x10],
            &[0x76, 1, 0xc3],
            &[0xe8, 0, 0, 0, 0, 0xeb, 0xe6],
        ];
        check(&large.concat(), Some(16));
        // A leaf that compares its arguments.
        check(&[0x48, 0x39, 0xc3, 0x76, 1, 0xc3, 0xc3], None);
    }

    #[test]
    fn a_function_is_left_by_returns_and_by_jumps_out_of_it() {
        // A jump to the return, one out of it, one out of it if something is less, then the return.
        let code = [0x74, 0x07, 0xe9, 0, 1, 0, 0, 0x7c, 0x50, 0xc3];
        let found = exits(&[(0x1000, &code)]).unwrap();
        assert_eq!((found.returns, found.jumps), (vec![0x1009], vec![0x1002]));
        assert_eq!(found.branches, [(0x1007, 12)]);
        // The same jump stays inside if its target belongs to a second part of the function.
        let found = exits(&[(0x1000, &code), (0x1059, &[0xc3])]).unwrap();
        assert_eq!((found.returns, found.branches), (vec![0x1009, 0x1059], vec![]));
    }
}

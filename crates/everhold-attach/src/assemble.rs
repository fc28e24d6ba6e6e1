//! An assembler for BPF, with labels.

use everhold_kernel::bpf::{Insn, Map};

/// A register. The kernel keeps 6 to 9 across calls; 10 is the frame, which is read only.
pub(crate) type Register = u8;

pub(crate) const FRAME: Register = 10;

/// Functions of the kernel that programs call.
pub(crate) mod helper {
    pub(crate) const LOOKUP: i32 = 1;
    pub(crate) const UPDATE: i32 = 2;
    pub(crate) const DELETE: i32 = 3;
    pub(crate) const TIME: i32 = 5;
    pub(crate) const PROCESS: i32 = 14;
    pub(crate) const READ_USER: i32 = 112;
    pub(crate) const READ_KERNEL: i32 = 113;
    pub(crate) const READ_USER_TEXT: i32 = 114;
    pub(crate) const RESERVE: i32 = 131;
    pub(crate) const SUBMIT: i32 = 132;
}

/// Comparisons that jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Jump {
    Equal,
    Different,
    Above,
    AtLeast,
    Below,
    AtMost,
    SignedAbove,
    SignedAtLeast,
    SignedBelow,
    SignedAtMost,
}

impl Jump {
    fn code(self) -> u8 {
        match self {
            Jump::Equal => 0x10,
            Jump::Above => 0x20,
            Jump::AtLeast => 0x30,
            Jump::Different => 0x50,
            Jump::SignedAbove => 0x60,
            Jump::SignedAtLeast => 0x70,
            Jump::Below => 0xa0,
            Jump::AtMost => 0xb0,
            Jump::SignedBelow => 0xc0,
            Jump::SignedAtMost => 0xd0,
        }
    }
}

/// Places in the program that are jumped to before they are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label(usize);

/// A program that is being written.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    code: Vec<Insn>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    fn push(&mut self, code: u8, to: Register, from: Register, offset: i16, immediate: i32) {
        self.code.push(Insn { code, registers: to | from << 4, offset, immediate });
    }

    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The label is here.
    pub(crate) fn here(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    pub(crate) fn copy(&mut self, to: Register, from: Register) {
        self.push(0xbf, to, from, 0, 0);
    }

    pub(crate) fn set(&mut self, to: Register, value: i32) {
        self.push(0xb7, to, 0, 0, value);
    }

    /// Sets a register to any number.
    pub(crate) fn set_wide(&mut self, to: Register, value: i64) {
        let low = (value & 0xffff_ffff) as u32;
        let high = (value >> 32) as i32;
        self.push(0x18, to, 0, 0, low.cast_signed());
        self.push(0, 0, 0, 0, high);
    }

    pub(crate) fn set_map(&mut self, to: Register, map: &Map) {
        self.push(0x18, to, 1, 0, map.number());
        self.push(0, 0, 0, 0, 0);
    }

    pub(crate) fn add(&mut self, to: Register, value: i32) {
        self.push(0x07, to, 0, 0, value);
    }

    pub(crate) fn subtract(&mut self, to: Register, from: Register) {
        self.push(0x1f, to, from, 0, 0);
    }

    pub(crate) fn and(&mut self, to: Register, value: i32) {
        self.push(0x57, to, 0, 0, value);
    }

    pub(crate) fn or(&mut self, to: Register, value: i32) {
        self.push(0x47, to, 0, 0, value);
    }

    pub(crate) fn shift_left(&mut self, to: Register, bits: i32) {
        self.push(0x67, to, 0, 0, bits);
    }

    pub(crate) fn shift_right(&mut self, to: Register, bits: i32) {
        self.push(0x77, to, 0, 0, bits);
    }

    pub(crate) fn shift_right_signed(&mut self, to: Register, bits: i32) {
        self.push(0xc7, to, 0, 0, bits);
    }

    /// Loads eight bytes.
    pub(crate) fn load(&mut self, to: Register, from: Register, offset: i16) {
        self.push(0x79, to, from, offset, 0);
    }

    /// Stores eight bytes.
    pub(crate) fn store(&mut self, to: Register, offset: i16, from: Register) {
        self.push(0x7b, to, from, offset, 0);
    }

    /// Stores eight bytes of a constant.
    pub(crate) fn store_value(&mut self, to: Register, offset: i16, value: i32) {
        self.push(0x7a, to, 0, offset, value);
    }

    /// Stores four bytes.
    pub(crate) fn store_half(&mut self, to: Register, offset: i16, from: Register) {
        self.push(0x63, to, from, offset, 0);
    }

    /// Adds to eight bytes in memory, in one step.
    pub(crate) fn count(&mut self, to: Register, offset: i16, from: Register) {
        self.push(0xdb, to, from, offset, 0);
    }

    /// A register becomes an address in the frame.
    pub(crate) fn address(&mut self, to: Register, offset: i16) {
        self.copy(to, FRAME);
        self.add(to, i32::from(offset));
    }

    pub(crate) fn call(&mut self, helper: i32) {
        self.push(0x85, 0, 0, 0, helper);
    }

    pub(crate) fn exit(&mut self) {
        self.set(0, 0);
        self.push(0x95, 0, 0, 0, 0);
    }

    pub(crate) fn go(&mut self, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(0x05, 0, 0, 0, 0);
    }

    pub(crate) fn jump(&mut self, how: Jump, left: Register, right: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(0x05 | how.code(), left, 0, 0, right);
    }

    pub(crate) fn jump_register(&mut self, how: Jump, left: Register, right: Register, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.push(0x0d | how.code(), left, right, 0, 0);
    }

    /// The program, with its jumps.
    pub(crate) fn finish(mut self) -> Vec<Insn> {
        for (at, label) in self.jumps {
            let target = self.labels[label.0].expect("every label that is jumped to is somewhere");
            let distance = target.cast_signed() - at.cast_signed() - 1;
            self.code[at].offset = i16::try_from(distance).expect("programs are short");
        }
        self.code
    }
}

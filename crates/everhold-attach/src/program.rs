//! The programs that run in the kernel at a probe.
//!
//! A program at an entry evaluates the words that a line reads, discards the hit if a condition does
//! not hold, and writes a record. For a line that looks when the function returns there are two: the
//! first keeps the registers of the entry under the number of the process and the place of the stack
//! frame, the second takes them from there. That needs no return probe, which would replace the
//! return address on the stack and break languages that unwind or move their stacks.

use everhold_kernel::bpf::{Insn, Map};

use crate::assemble::{Assembler, FRAME, Jump, Label, Register, helper};
use crate::capture::{Base, Capture, Chain, Format, RSP};
use crate::language::{Comparison, Condition, Expr, Literal, Path};
use crate::resolve::Resolved;

/// The largest number of bytes of a text that is taken.
pub(crate) const TEXT: usize = 128;

/// The bytes of a record before its words: the time, the process and thread, the probe and the words
/// that could not be read.
pub(crate) const HEADER: usize = 24;

/// The number of words that fit on the stack of a program.
const WORDS_MAX: usize = 24;

/// The size of the counts of a probe.
pub(crate) const COUNTS: u32 = 48;

/// Where the counts of a probe are.
pub(crate) mod count {
    pub(crate) const HITS: i16 = 0;
    pub(crate) const LOST: i16 = 8;
    pub(crate) const SHED: i16 = 16;
    pub(crate) const SINCE: i16 = 24;
    pub(crate) const USED: i16 = 32;
    pub(crate) const UNPAIRED: i16 = 40;
}

/// The time over which the budget of a probe is counted, in nanoseconds.
const WINDOW: i32 = 1_000_000_000;

const CONTEXT: Register = 6;
const COUNTERS: Register = 7;
const UNREADABLE: Register = 8;
const RECORD: Register = 9;

/// Where the kernel keeps the registers of the interrupted program, by their numbers in DWARF.
const REGISTERS: [i16; 16] = [80, 96, 88, 40, 104, 112, 32, 152, 72, 64, 56, 48, 24, 16, 8, 0];

/// Where it keeps the flags.
const FLAGS: i16 = 144;

/// The carry and the zero flag, of which one is set if `jbe` jumps.
const BELOW_OR_EQUAL: i32 = 0x41;

/// The register with the goroutine in Go.
const GOROUTINE: u8 = 14;

/// The parts that all programs share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared<'a> {
    pub(crate) ring: &'a Map,
    pub(crate) counts: &'a Map,
    /// The processes that are observed, if not all are that run the program.
    pub(crate) processes: Option<&'a Map>,
}

/// The purpose of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) resolved: &'a Resolved,
    pub(crate) conditions: &'a [Condition],
    /// Its row in the counts, which its records carry.
    pub(crate) number: u32,
    pub(crate) budget: u64,
}

/// The words that a call keeps until it returns.
pub(crate) fn kept(resolved: &Resolved) -> Vec<Base> {
    let mut bases: Vec<Base> = resolved
        .captures
        .iter()
        .flat_map(Capture::words)
        .map(|chain| chain.base)
        .filter(|base| {
            !matches!(base, Base::Result(_) | Base::Process | Base::Thread | Base::Unknown)
        })
        .collect();
    bases.sort_unstable();
    bases.dedup();
    bases
}

/// The size of a record.
pub(crate) fn record_size(resolved: &Resolved) -> usize {
    let words: usize = resolved.captures.iter().map(|capture| capture.words().len()).sum();
    let texts = resolved.captures.iter().filter(|capture| capture.is_text()).count();
    HEADER + 8 * words + TEXT * texts
}

/// Whether the words of a line fit on the stack of a program.
pub(crate) fn fits(resolved: &Resolved) -> bool {
    let words: usize = resolved.captures.iter().map(|capture| capture.words().len()).sum();
    words <= WORDS_MAX && kept(resolved).len() <= WORDS_MAX
}

/// The program of a line that looks at the entry.
pub(crate) fn at_entry(shared: Shared<'_>, subject: Subject<'_>) -> Vec<Insn> {
    let mut writer = Writer::new(shared, subject);
    writer.begin();
    writer.admit();
    writer.keep_bases();
    writer.show();
    writer.end()
}

/// The program that keeps the registers of an entry.
pub(crate) fn before_return(shared: Shared<'_>, subject: Subject<'_>, calls: &Map) -> Vec<Insn> {
    let mut writer = Writer::new(shared, subject);
    writer.begin();
    writer.admit();
    writer.keep_bases();
    writer.key(subject.resolved.frame);
    let (key, bases) = (writer.key_at, writer.bases_at);
    let code = &mut writer.code;
    code.set_map(1, calls);
    code.address(2, key);
    code.address(3, bases);
    code.set(4, 0);
    code.call(helper::UPDATE);
    writer.end()
}

/// The program of a line that looks when the function returns; with a condition, at a jump out of the
/// function that is taken only under it.
pub(crate) fn at_return(
    shared: Shared<'_>,
    subject: Subject<'_>,
    calls: &Map,
    condition: Option<u8>,
) -> Vec<Insn> {
    let mut writer = Writer::new(shared, subject);
    writer.begin();
    if let Some(condition) = condition {
        writer.taken(condition);
    }
    writer.time();
    writer.key((RSP, 0));
    writer.take_bases(calls);
    writer.show();
    writer.end()
}

/// A program that is being written, with the layout of its stack.
struct Writer<'a> {
    code: Assembler,
    shared: Shared<'a>,
    subject: Subject<'a>,
    bases: Vec<Base>,
    words: Vec<Chain>,
    words_at: i16,
    bases_at: i16,
    key_at: i16,
    time_at: i16,
    scratch: i16,
    done: Label,
}

impl<'a> Writer<'a> {
    fn new(shared: Shared<'a>, subject: Subject<'a>) -> Writer<'a> {
        let resolved = subject.resolved;
        let mut bases = kept(resolved);
        if bases.is_empty() {
            // The value of a map has a size.
            bases.push(Base::Register(RSP));
        }
        let words: Vec<Chain> =
            resolved.captures.iter().flat_map(Capture::words).cloned().collect();
        let bytes = |count: usize| i16::try_from(8 * count).expect("the words fit");
        let words_at = -bytes(words.len());
        let bases_at = words_at - bytes(bases.len());
        let key_at = bases_at - 24;
        let (time_at, scratch) = (key_at - 8, key_at - 16);
        let mut code = Assembler::default();
        let done = code.label();
        Writer {
            code,
            shared,
            subject,
            bases,
            words,
            words_at,
            bases_at,
            key_at,
            time_at,
            scratch,
            done,
        }
    }

    fn end(mut self) -> Vec<Insn> {
        self.code.here(self.done);
        self.code.exit();
        self.code.finish()
    }

    fn word_at(&self, index: usize) -> i16 {
        self.words_at + 8 * i16::try_from(index).expect("there are few words")
    }

    /// Discards hits of other processes and jumps that will come again, and finds the counts.
    fn begin(&mut self) {
        let (done, scratch) = (self.done, self.scratch);
        let code = &mut self.code;
        code.copy(CONTEXT, 1);
        code.set(UNREADABLE, 0);
        if let Some(processes) = self.shared.processes {
            code.call(helper::PROCESS);
            code.shift_right(0, 32);
            code.store_half(FRAME, scratch, 0);
            code.set_map(1, processes);
            code.address(2, scratch);
            code.call(helper::LOOKUP);
            code.jump(Jump::Equal, 0, 0, done);
        }
        code.set(1, self.subject.number.cast_signed());
        code.store_half(FRAME, scratch, 1);
        code.set_map(1, self.shared.counts);
        code.address(2, scratch);
        code.call(helper::LOOKUP);
        code.jump(Jump::Equal, 0, 0, done);
        code.copy(COUNTERS, 0);
    }

    fn time(&mut self) {
        self.code.call(helper::TIME);
        self.code.store(FRAME, self.time_at, 0);
    }

    /// Counts the hit, and sheds it if there were too many.
    fn admit(&mut self) {
        if self.subject.resolved.skips_taken {
            self.code.load(1, CONTEXT, FLAGS);
            self.code.and(1, BELOW_OR_EQUAL);
            self.code.jump(Jump::Different, 1, 0, self.done);
        }
        self.time();
        let done = self.done;
        let limit = self.subject.budget;
        let code = &mut self.code;
        let (same, admitted) = (code.label(), code.label());
        code.set(1, 1);
        code.count(COUNTERS, count::HITS, 1);
        code.load(1, COUNTERS, count::SINCE);
        code.copy(2, 0);
        code.subtract(2, 1);
        code.jump(Jump::AtMost, 2, WINDOW, same);
        code.store(COUNTERS, count::SINCE, 0);
        code.store_value(COUNTERS, count::USED, 0);
        code.here(same);
        code.load(1, COUNTERS, count::USED);
        code.add(1, 1);
        code.store(COUNTERS, count::USED, 1);
        code.set_wide(2, i64::try_from(limit).unwrap_or(i64::MAX));
        code.jump_register(Jump::AtMost, 1, 2, admitted);
        code.set(1, 1);
        code.count(COUNTERS, count::SHED, 1);
        code.go(done);
        code.here(admitted);
    }

    /// Discards the hit of a jump that is not taken: its condition, by number, is one of the flags, or a
    /// combination of them.
    fn taken(&mut self, condition: u8) {
        const ZERO: i32 = 0x40;
        let (done, taken) = (self.done, self.code.label());
        let code = &mut self.code;
        code.load(1, CONTEXT, FLAGS);
        // An odd number is the negation of the number before it.
        let (when_set, when_clear) = match condition & 1 {
            0 => (taken, done),
            _ => (done, taken),
        };
        let mask = match condition >> 1 {
            0 => 0x800,
            1 => 1,
            2 => ZERO,
            3 => BELOW_OR_EQUAL,
            4 => 0x80,
            5 => 4,
            // The sign differs from the overflow: less; or equal to zero: at most.
            other => {
                if other == 7 {
                    code.copy(2, 1);
                    code.and(2, ZERO);
                    code.jump(Jump::Different, 2, 0, when_set);
                }
                code.copy(2, 1);
                code.shift_right(2, 4);
                // The overflow is four bits above the sign.
                code.and(1, 0x80);
                code.and(2, 0x80);
                code.subtract(1, 2);
                -1
            }
        };
        code.and(1, mask);
        code.jump(Jump::Different, 1, 0, when_set);
        code.go(when_clear);
        code.here(taken);
    }

    fn register(&mut self, to: Register, register: u8) {
        self.code.load(to, CONTEXT, REGISTERS[usize::from(register) & 15]);
    }

    /// Puts the words that captures begin with onto the stack.
    fn keep_bases(&mut self) {
        for (index, base) in self.bases.clone().into_iter().enumerate() {
            let at = self.bases_at + 8 * i16::try_from(index).expect("there are few");
            match base {
                Base::Register(register) => {
                    self.register(1, register);
                    self.code.store(FRAME, at, 1);
                }
                Base::Masked(register, mask) => {
                    self.register(1, register);
                    // A mask of more bits is wider than the values that are masked.
                    if let Ok(mask) = i32::try_from(mask) {
                        self.code.and(1, mask);
                    }
                    self.code.store(FRAME, at, 1);
                }
                Base::Address(register, offset) => {
                    self.register(1, register);
                    self.distance(1, offset);
                    self.code.store(FRAME, at, 1);
                }
                Base::Memory(register, offset) => {
                    self.code.store_value(FRAME, at, 0);
                    self.register(3, register);
                    self.distance(3, offset);
                    self.read_user(at, 8);
                }
                Base::Result(_) | Base::Process | Base::Thread | Base::Unknown => {}
            }
        }
    }

    fn distance(&mut self, register: Register, offset: i64) {
        match i32::try_from(offset) {
            Ok(0) => {}
            Ok(offset) => self.code.add(register, offset),
            // No structure is that large; an address that is not mapped reads as unknown.
            Err(_) => self.code.set(register, 0),
        }
    }

    /// Reads from the program's memory, at the address in register 3; the result is in register 0.
    fn read_user(&mut self, to: i16, size: u8) {
        self.code.address(1, to);
        self.code.set(2, i32::from(size));
        self.code.call(helper::READ_USER);
    }

    /// The key that distinguishes this call from all others that did not return: the process and the place
    /// of its frame. Go moves stacks, so there it is the goroutine and the distance from the end.
    fn key(&mut self, frame: (u8, i64)) {
        let at = self.key_at;
        self.code.call(helper::PROCESS);
        self.code.shift_right(0, 32);
        self.code.store(FRAME, at, 0);
        self.code.store_value(FRAME, at + 8, 0);
        if self.subject.resolved.is_go {
            self.register(3, GOROUTINE);
            self.code.store(FRAME, at + 8, 3);
            self.code.store_value(FRAME, at + 16, 0);
            self.code.add(3, 8);
            self.read_user(at + 16, 8);
            self.code.load(1, FRAME, at + 16);
            self.register(2, frame.0);
            self.distance(2, frame.1);
            self.code.subtract(1, 2);
        } else {
            self.register(1, frame.0);
            self.distance(1, frame.1);
        }
        self.code.store(FRAME, at + 16, 1);
    }

    /// Takes the words that the entry kept.
    fn take_bases(&mut self, calls: &Map) {
        let (key, done) = (self.key_at, self.done);
        let known = self.code.label();
        self.code.set_map(1, calls);
        self.code.address(2, key);
        self.code.call(helper::LOOKUP);
        self.code.jump(Jump::Different, 0, 0, known);
        // It was entered before it was attached to, or its entry was shed.
        self.code.set(1, 1);
        self.code.count(COUNTERS, count::UNPAIRED, 1);
        self.code.go(done);
        self.code.here(known);
        for index in 0..self.bases.len() {
            let at = 8 * i16::try_from(index).expect("there are few");
            self.code.load(1, 0, at);
            self.code.store(FRAME, self.bases_at + at, 1);
        }
        self.code.set_map(1, calls);
        self.code.address(2, key);
        self.code.call(helper::DELETE);
    }

    /// Evaluates the words, asks the conditions and writes the record.
    fn show(&mut self) {
        for index in 0..self.words.len() {
            self.word(index);
        }
        for condition in self.subject.conditions {
            self.condition(condition);
        }
        let (done, reserved) = (self.done, self.code.label());
        let size = record_size(self.subject.resolved);
        self.code.set_map(1, self.shared.ring);
        self.code.set(2, i32::try_from(size).expect("a record is small"));
        self.code.set(3, 0);
        self.code.call(helper::RESERVE);
        self.code.jump(Jump::Different, 0, 0, reserved);
        self.code.set(1, 1);
        self.code.count(COUNTERS, count::LOST, 1);
        self.code.go(done);
        self.code.here(reserved);
        self.code.copy(RECORD, 0);
        self.code.load(1, FRAME, self.time_at);
        self.code.store(RECORD, 0, 1);
        for index in 0..self.words.len() {
            self.code.load(1, FRAME, self.word_at(index));
            let at = HEADER + 8 * index;
            self.code.store(RECORD, i16::try_from(at).expect("a record is small"), 1);
        }
        self.texts();
        self.code.call(helper::PROCESS);
        self.code.store(RECORD, 8, 0);
        self.code.copy(1, UNREADABLE);
        self.code.shift_left(1, 32);
        self.code.or(1, self.subject.number.cast_signed());
        self.code.store(RECORD, 16, 1);
        self.code.copy(1, RECORD);
        // The reader looks by itself; waking it would cost the program more than all the rest.
        self.code.set(2, 1);
        self.code.call(helper::SUBMIT);
    }

    /// Puts one word onto the stack.
    fn word(&mut self, index: usize) {
        let (chain, at) = (self.words[index].clone(), self.word_at(index));
        match chain.base {
            Base::Process | Base::Thread => {
                self.code.call(helper::PROCESS);
                self.code.copy(3, 0);
                if chain.base == Base::Thread {
                    self.code.shift_left(3, 32);
                }
                self.code.shift_right(3, 32);
            }
            Base::Result(register) => self.register(3, register),
            Base::Unknown => self.code.set(3, 0),
            base => {
                let kept = self.bases.iter().position(|known| *known == base).unwrap_or(0);
                let kept = self.bases_at + 8 * i16::try_from(kept).expect("there are few");
                self.code.load(3, FRAME, kept);
            }
        }
        if chain.reads.is_empty() {
            self.code.store(FRAME, at, 3);
            return;
        }
        let (failed, read) = (self.code.label(), self.code.label());
        for (offset, size) in &chain.reads {
            self.code.store_value(FRAME, at, 0);
            self.distance(3, *offset);
            self.read_user(at, *size);
            self.code.jump(Jump::Different, 0, 0, failed);
            self.code.load(3, FRAME, at);
        }
        self.code.store(FRAME, at, 3);
        self.code.go(read);
        self.code.here(failed);
        self.code.store_value(FRAME, at, 0);
        self.code.or(UNREADABLE, 1 << index);
        self.code.here(read);
    }

    /// Goes on if a condition between numbers holds, or if it cannot be asked here.
    fn condition(&mut self, condition: &Condition) {
        let signed = [&condition.left, &condition.right].into_iter().any(|side| self.signed(side));
        let operands = [&condition.left, &condition.right].map(|side| self.operand(side));
        let [Some(left), Some(right)] = operands else { return };
        let held = self.code.label();
        for operand in [left, right] {
            if let Operand::Word { index, .. } = operand {
                self.code.copy(1, UNREADABLE);
                self.code.and(1, 1 << index);
                self.code.jump(Jump::Different, 1, 0, held);
            }
        }
        self.give(1, left);
        self.give(2, right);
        let how = match (condition.comparison, signed) {
            (Comparison::Equal, _) => Jump::Equal,
            (Comparison::Different, _) => Jump::Different,
            (Comparison::Less, false) => Jump::Below,
            (Comparison::AtMost, false) => Jump::AtMost,
            (Comparison::More, false) => Jump::Above,
            (Comparison::AtLeast, false) => Jump::AtLeast,
            (Comparison::Less, true) => Jump::SignedBelow,
            (Comparison::AtMost, true) => Jump::SignedAtMost,
            (Comparison::More, true) => Jump::SignedAbove,
            (Comparison::AtLeast, true) => Jump::SignedAtLeast,
        };
        self.code.jump_register(how, 1, 2, held);
        self.code.go(self.done);
        self.code.here(held);
    }

    fn capture_of(&self, path: &Path) -> Option<(usize, &Capture)> {
        let resolved = self.subject.resolved;
        let (_, capture) = resolved.reads.iter().find(|(known, _)| known == path)?;
        let before = &resolved.captures[..*capture];
        let index = before.iter().map(|capture| capture.words().len()).sum();
        Some((index, &resolved.captures[*capture]))
    }

    fn signed(&self, side: &Expr) -> bool {
        match side {
            Expr::Literal(Literal::Int(number)) => *number < 0,
            Expr::Literal(_) => false,
            Expr::Read(path) => matches!(
                self.capture_of(path),
                Some((_, Capture::Scalar { format: Format::Signed, .. }))
            ),
        }
    }

    fn operand(&self, side: &Expr) -> Option<Operand> {
        match side {
            Expr::Literal(Literal::Int(number)) => Some(Operand::Number(*number)),
            Expr::Literal(Literal::Bool(truth)) => Some(Operand::Number(i64::from(*truth))),
            Expr::Literal(_) => None,
            Expr::Read(path) => match self.capture_of(path)? {
                (index, Capture::Scalar { size, format, .. }) => match format {
                    Format::Unsigned | Format::Bool => {
                        Some(Operand::Word { index, size: *size, signed: false })
                    }
                    Format::Signed => Some(Operand::Word { index, size: *size, signed: true }),
                    Format::Char | Format::Float | Format::Enum(_) => None,
                },
                _ => None,
            },
        }
    }

    fn give(&mut self, to: Register, operand: Operand) {
        match operand {
            Operand::Number(number) => self.code.set_wide(to, number),
            Operand::Word { index, size, signed } => {
                self.code.load(to, FRAME, self.word_at(index));
                let spare = 64 - 8 * i32::from(size);
                if spare > 0 {
                    self.code.shift_left(to, spare);
                    match signed {
                        true => self.code.shift_right_signed(to, spare),
                        false => self.code.shift_right(to, spare),
                    }
                }
            }
        }
    }

    /// Copies the texts behind the words.
    fn texts(&mut self) {
        let captures = &self.subject.resolved.captures;
        let (mut index, mut at) = (0, HEADER + 8 * self.words.len());
        for capture in captures {
            let failed = self.code.label();
            match capture {
                Capture::Scalar { .. } => {}
                Capture::CText { .. } => {
                    self.text_at(at);
                    self.code.set(2, TEXT as i32);
                    self.code.load(3, FRAME, self.word_at(index));
                    self.code.call(helper::READ_USER_TEXT);
                    self.code.jump(Jump::SignedAtLeast, 0, 0, failed);
                    self.code.or(UNREADABLE, 1 << index);
                }
                Capture::Text { .. } => {
                    let short = self.code.label();
                    self.code.load(2, FRAME, self.word_at(index + 1));
                    self.code.jump(Jump::AtMost, 2, TEXT as i32, short);
                    self.code.set(2, TEXT as i32);
                    self.code.here(short);
                    self.text_at(at);
                    self.code.load(3, FRAME, self.word_at(index));
                    self.code.call(helper::READ_USER);
                    self.code.jump(Jump::Equal, 0, 0, failed);
                    self.code.or(UNREADABLE, 1 << index);
                }
            }
            self.code.here(failed);
            index += capture.words().len();
            at += if capture.is_text() { TEXT } else { 0 };
        }
    }

    fn text_at(&mut self, at: usize) {
        self.code.copy(1, RECORD);
        self.code.add(1, i32::try_from(at).expect("a record is small"));
    }
}

/// One side of a condition.
#[derive(Clone, Copy)]
enum Operand {
    Number(i64),
    Word { index: usize, size: u8, signed: bool },
}

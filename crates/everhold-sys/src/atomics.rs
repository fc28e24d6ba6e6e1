//! Preemption at atomic instructions: a lock that nobody holds is taken without a call, and so are
//! most steps of lock-free code. The instructions of the program that exchange a word of memory are
//! replaced by jumps to copies of themselves which first count down, and at zero ask the kernel
//! whether another thread goes first.
//!
//! Only functions whose code is understood from their first to their last byte are changed.

use std::arch::naked_asm;

use crate::decode::{Instruction, Kind, decode};
use crate::elf;
use crate::fiber::{enter, is_simulated};
use crate::own::own;
use crate::raw;

own! {
    /// Counted down at each exchange of a host's own code.
    COUNTDOWN: i64 = NEVER;
    /// The countdown of the host's code while the kernel works.
    HELD: i64 = NEVER;
    /// The short instructions, which trap, with their copies; by address.
    TRAPS: Vec<(usize, usize)> = Vec::new();
    /// The functions that the copies call.
    CALLED: [usize; 2] = [0; 2];
    SITES: Option<Sites> = None;
}

const NEVER: i64 = i64::MAX;
/// The size of the region of copies.
const REGION: usize = 8 << 20;
/// The longest copy of one instruction.
const COPY_MAX: usize = 64;
/// The length of a jump.
const JUMP: usize = 5;

/// The places that were changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sites {
    /// Instructions that jump.
    pub jumps: usize,
    /// Instructions that are too short for a jump, and trap.
    pub traps: usize,
    /// Functions that have such instructions and are not understood.
    pub skipped: usize,
}

/// Lets the host's code that runs next be preempted after so many exchanges, or not at all.
pub fn preempt_after(exchanges: Option<u32>) {
    HELD.set(exchanges.map_or(NEVER, |count| i64::from(count.max(1))));
}

/// The kernel works: nothing counts.
#[inline]
pub(crate) fn hold() {
    HELD.set(COUNTDOWN.replace(NEVER));
}

/// The host's code goes on.
#[inline]
pub(crate) fn resume() {
    COUNTDOWN.set(HELD.get());
}

/// Replaces the atomic instructions of this process, which has one thread.
///
/// # Errors
///
/// If the program's functions cannot be found, or there is no room near them.
pub fn patch() -> Result<Sites, String> {
    if let Some(sites) = SITES.get() {
        return Ok(sites);
    }
    CALLED.set([preempted as *const () as usize, spinning as *const () as usize]);
    let functions = elf::functions()?;
    let (Some(first), Some(last)) = (functions.first(), functions.last()) else {
        return Err("the program's file does not name its functions".to_owned());
    };
    let (start, end) = (first.start & !0xfff, (last.start + last.length).next_multiple_of(4096));
    let mut copies = Copies::near(start, end)?;
    writable(start, end, true)?;
    let mut sites = Sites::default();
    let mut traps = Vec::new();
    for function in &functions {
        // SAFETY: the linker says that this code is there.
        let code =
            unsafe { std::slice::from_raw_parts(function.start as *const u8, function.length) };
        if !may_exchange(code) {
            continue;
        }
        let Some(found) = exchanges(code) else {
            sites.skipped += 1;
            continue;
        };
        for (at, instruction) in found {
            let place = function.start + at;
            let bytes: Vec<u8> = code[at..at + instruction.length].to_vec();
            let Some(copy) = copies.add(place, &bytes, instruction) else { continue };
            // SAFETY: this is one whole instruction in memory that is writable now; nobody else
            // runs, and the copy does the same.
            unsafe { replace(place, copy, instruction.length, &mut traps, &mut sites) };
        }
    }
    traps.sort_unstable();
    TRAPS.replace(traps);
    writable(start, end, false)?;
    SITES.set(Some(sites));
    Ok(sites)
}

/// # Safety
///
/// The place must be that of an instruction of this length.
unsafe fn replace(
    place: usize,
    copy: usize,
    length: usize,
    traps: &mut Vec<(usize, usize)>,
    sites: &mut Sites,
) {
    let at = place as *mut u8;
    if length < JUMP {
        traps.push((place, copy));
        sites.traps += 1;
        // SAFETY: the caller answers for the place.
        return unsafe { at.write(0xcc) };
    }
    sites.jumps += 1;
    let distance = (copy as i64 - (place + JUMP) as i64) as i32;
    // SAFETY: as above.
    unsafe {
        at.write(0xe9);
        at.add(1).cast::<i32>().write_unaligned(distance);
        std::ptr::write_bytes(at.add(JUMP), 0x90, length - JUMP);
    }
}

/// Whether bytes like those of an atomic instruction occur at all.
fn may_exchange(code: &[u8]) -> bool {
    code.windows(2).any(|pair| {
        matches!(
            pair,
            [0x0f, 0xb0 | 0xb1 | 0xc7 | 0xab | 0xb3 | 0xba] | [0x86 | 0x87, _] | [0xf3, 0x90]
        )
    })
}

/// The atomic instructions of a function; nothing if its code is not understood.
fn exchanges(code: &[u8]) -> Option<Vec<(usize, Instruction)>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < code.len() {
        let instruction = decode(&code[at..])?;
        if instruction.kind != Kind::Other {
            found.push((at, instruction));
        }
        at += instruction.length;
    }
    Some(found)
}

/// The copies of instructions, near the program's code.
struct Copies {
    next: usize,
    end: usize,
}

impl Copies {
    /// Maps the region where jumps from all of the code reach it.
    fn near(start: usize, end: usize) -> Result<Copies, String> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let reach = (1_usize << 30) - (end - start).min(1 << 29);
        for distance in (REGION..reach).step_by(REGION) {
            let at = start.saturating_sub(distance) & !0xfff;
            let arguments = [at as i64, REGION as i64, all.into(), flags.into(), -1, 0];
            // SAFETY: a new mapping at an address where nothing is, or the call fails.
            if unsafe { raw::call(libc::SYS_mmap, arguments) } == at as i64 {
                return Ok(Copies { next: at, end: at + REGION });
            }
        }
        Err("there is no room near the program for copies of its atomic instructions".to_owned())
    }

    /// Writes the copy of an instruction at `place`; nothing if it cannot be moved.
    fn add(&mut self, place: usize, bytes: &[u8], instruction: Instruction) -> Option<usize> {
        if self.next + COPY_MAX > self.end {
            return None;
        }
        let copy = self.next;
        let mut code = Vec::with_capacity(COPY_MAX);
        // lea rsp, [rsp-128]; pushfq: below the stack pointer the program may keep values.
        code.extend([0x48, 0x8d, 0x64, 0x24, 0x80, 0x9c]);
        let called = CALLED.place() as usize;
        if instruction.kind == Kind::Pause {
            // call [SPINNING]
            code.extend([0xff, 0x15]);
            relative(&mut code, copy, called + size_of::<usize>())?;
        } else {
            // dec qword ptr [COUNTDOWN]; jnz over the call; call [PREEMPTED]
            code.extend([0x48, 0xff, 0x0d]);
            relative(&mut code, copy, COUNTDOWN.place() as usize)?;
            code.extend([0x75, 0x06, 0xff, 0x15]);
            relative(&mut code, copy, called)?;
        }
        // popfq; lea rsp, [rsp+128]
        code.extend([0x9d, 0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0]);
        let from = code.len();
        code.extend(bytes);
        if let Some(at) = instruction.relative_at {
            let old = i32::from_le_bytes(bytes[at..at + 4].try_into().ok()?);
            let target = (place + bytes.len()) as i64 + i64::from(old);
            let new = i32::try_from(target - (copy + code.len()) as i64).ok()?;
            code[from + at..from + at + 4].copy_from_slice(&new.to_le_bytes());
        }
        code.push(0xe9);
        relative(&mut code, copy, place + bytes.len())?;
        debug_assert!(code.len() <= COPY_MAX, "a copy fits");
        // SAFETY: the region is ours and has room.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), copy as *mut u8, code.len()) };
        self.next += code.len().next_multiple_of(16);
        Some(copy)
    }
}

/// Adds the distance from the end of these four bytes to an address.
fn relative(code: &mut Vec<u8>, start: usize, to: usize) -> Option<()> {
    let after = (start + code.len() + 4) as i64;
    code.extend(i32::try_from(to as i64 - after).ok()?.to_le_bytes());
    Some(())
}

fn writable(start: usize, end: usize, is_writable: bool) -> Result<(), String> {
    let write = if is_writable { libc::PROT_WRITE } else { 0 };
    let protection = libc::PROT_READ | libc::PROT_EXEC | write;
    let arguments = [start as i64, (end - start) as i64, protection.into(), 0, 0, 0];
    // SAFETY: only the protection of the program's own code changes.
    match unsafe { raw::call(libc::SYS_mprotect, arguments) } {
        0 => Ok(()),
        _ => Err("the program's code cannot be changed in memory".to_owned()),
    }
}

/// Where an instruction that trapped goes on.
pub(crate) fn copy_of(trapped: usize) -> Option<usize> {
    // SAFETY: only `patch` writes, before any instruction traps.
    let traps = unsafe { &*TRAPS.place() };
    let at = traps.binary_search_by_key(&trapped, |(place, _)| *place).ok()?;
    Some(traps[at].1)
}

extern "C" fn preempt() {
    COUNTDOWN.set(NEVER);
    if is_simulated() {
        enter(|kernel| kernel.preempt());
    }
}

extern "C" fn spin() {
    if is_simulated() {
        enter(|kernel| kernel.spin());
    }
}

/// Calls [`preempt`] and changes no register.
#[unsafe(naked)]
unsafe extern "C" fn preempted() {
    naked_asm!("push rax", "lea rax, [rip + {work}]", "jmp {keep}", work = sym preempt, keep = sym keeping)
}

/// Calls [`spin`] and changes no register.
#[unsafe(naked)]
unsafe extern "C" fn spinning() {
    naked_asm!("push rax", "lea rax, [rip + {work}]", "jmp {keep}", work = sym spin, keep = sym keeping)
}

/// Calls the function in `rax`, whose old value is on the stack, and changes no register: those
/// that functions may change, and the vector registers, are kept on the stack.
#[unsafe(naked)]
unsafe extern "C" fn keeping() {
    naked_asm!(
        "push rcx",
        "push rdx",
        "push rsi",
        "push rdi",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "push rbp",
        "mov rbp, rsp",
        "sub rsp, 2816",
        "and rsp, -64",
        "mov rcx, rax",
        // The header of the area that `xsave` fills has to be empty.
        "xor eax, eax",
        "mov [rsp + 512], rax",
        "mov [rsp + 520], rax",
        "mov [rsp + 528], rax",
        "mov [rsp + 536], rax",
        "mov [rsp + 544], rax",
        "mov [rsp + 552], rax",
        "mov [rsp + 560], rax",
        "mov [rsp + 568], rax",
        "mov eax, 0xe7",
        "xor edx, edx",
        "xsave64 [rsp]",
        "cld",
        "call rcx",
        "mov eax, 0xe7",
        "xor edx, edx",
        "xrstor64 [rsp]",
        "mov rsp, rbp",
        "pop rbp",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rdi",
        "pop rsi",
        "pop rdx",
        "pop rcx",
        "pop rax",
        "ret",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearly_all_functions_of_this_program_are_understood() {
        let functions = elf::functions().unwrap();
        let is_understood = |function: &&elf::Function| {
            // SAFETY: the linker says that this code is there.
            let code =
                unsafe { std::slice::from_raw_parts(function.start as *const u8, function.length) };
            exchanges(code).is_some()
        };
        let (understood, all) = (functions.iter().filter(is_understood).count(), functions.len());
        assert!(all > 1_000, "{all} functions");
        assert!(understood * 1_000 >= all * 999, "{understood} of {all} functions");
    }
}

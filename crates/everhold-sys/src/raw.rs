//! System calls that are never intercepted, and the thread pointer.

use std::arch::{asm, naked_asm};

/// A system call, from the only place that a guard lets through.
///
/// # Safety
///
/// The arguments must be right for the call.
#[inline]
pub(crate) unsafe fn call(number: i64, arguments: [i64; 6]) -> i64 {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the caller answers for the arguments.
    unsafe { gate(number, a, b, c, d, e, f) }
}

/// The instruction itself. The second half returns from a signal handler of the guard.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn gate(
    _n: i64,
    _a: i64,
    _b: i64,
    _c: i64,
    _d: i64,
    _e: i64,
    _f: i64,
) -> i64 {
    naked_asm!(
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp+8]",
        "syscall",
        "ret",
        ".balign 32",
        "mov eax, 15",
        "syscall",
    )
}

/// The distance from [`gate`] to the code that returns from a signal handler.
pub(crate) const RESTORER: usize = 32;

/// The address of the present thread's control block, as the C library keeps it.
#[inline]
pub(crate) fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: on this target `fs` points to the control block, whose third word is its own address.
    unsafe {
        asm!("mov {}, fs:[0x10]", out(reg) pointer, options(nostack, preserves_flags, readonly));
    }
    pointer
}

/// Makes another control block that of the present thread.
///
/// # Safety
///
/// `block` must be a complete control block, and the calling function must not use thread-local
/// variables: the compiler may keep their addresses.
#[inline]
pub(crate) unsafe fn set_thread_pointer(block: usize) {
    // SAFETY: the processor and the kernel allow the instruction (`check`); see above for the rest.
    unsafe { asm!("wrfsbase {}", in(reg) block, options(nostack, preserves_flags)) }
}

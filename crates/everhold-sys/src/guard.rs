//! The guard against calls that bypass the C library: while code of a host runs, every system call
//! that does not come from [`raw::gate`] is trapped and answered like the function of its name, and
//! so are the processor's time-stamp counter and the clock functions that the kernel maps into
//! every process (vDSO). Faults of the host's code end its process, and a thread that goes on without
//! a call lets others go first after a while.

use std::ffi::{c_int, c_void};

use libc::{siginfo_t, ucontext_t};

use crate::fiber::{self, enter, is_simulated};
use crate::hooks::numbers::dispatch;
use crate::own::own;
use crate::{arena, atomics, elf, raw};

own! {
    /// Read by the kernel at each system call: 0 lets it through, 1 traps it.
    SELECTOR: u8 = 0;
    ARMED: bool = false;
}

const PR_SET_SYSCALL_USER_DISPATCH: i64 = 59;
const PR_SYS_DISPATCH_ON: i64 = 1;
/// The size of the code around the gate from which calls are let through.
const GATE_SIZE: i64 = 64;
const SA_RESTORER: u64 = 0x0400_0000;
const PAGE: usize = 4096;

/// Says whether system calls go straight to the kernel, or are those of a host.
#[inline]
pub(crate) fn let_through(through: bool) {
    SELECTOR.set(u8::from(!through));
}

/// Arms the guard for this thread.
pub(crate) fn arm() -> Result<(), String> {
    if ARMED.get() {
        return Ok(());
    }
    handle(libc::SIGSYS, trapped_call, 0);
    // The stack may be full.
    let elsewhere = libc::SA_ONSTACK;
    handle(libc::SIGSEGV, trapped_instruction, elsewhere);
    for signal in [libc::SIGBUS, libc::SIGILL, libc::SIGFPE] {
        handle(signal, faulted, elsewhere);
    }
    handle(libc::SIGTRAP, trapped_exchange, 0);
    handle(libc::SIGVTALRM, ticked, libc::SA_RESTART);
    provide_stack()?;
    start_ticking()?;
    let gate = raw::gate as *const () as i64;
    let selector = SELECTOR.place() as i64;
    let dispatch = [PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, gate, GATE_SIZE, selector, 0];
    // SAFETY: the selector lives as long as the process, and lets everything through now.
    if unsafe { raw::call(libc::SYS_prctl, dispatch) } != 0 {
        return Err("this kernel cannot trap system calls (syscall user dispatch); \
                    one from 5.11 on can"
            .to_owned());
    }
    replace_mapped_clocks()?;
    let trap_tsc = [libc::PR_SET_TSC.into(), libc::PR_TSC_SIGSEGV.into(), 0, 0, 0, 0];
    // SAFETY: from now on the counter raises a signal, which is handled.
    if unsafe { raw::call(libc::SYS_prctl, trap_tsc) } != 0 {
        return Err("this kernel cannot trap the time-stamp counter".to_owned());
    }
    ARMED.set(true);
    Ok(())
}

/// The form in which the kernel takes a handler.
#[repr(C)]
struct Action {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

fn handle(signal: c_int, handler: Handler, flags: c_int) {
    let action = Action {
        handler: handler as *const () as usize,
        flags: (libc::SA_SIGINFO | libc::SA_NODEFER | flags) as u64 | SA_RESTORER,
        restorer: raw::gate as *const () as usize + raw::RESTORER,
        mask: 0,
    };
    let arguments = [signal.into(), &raw const action as i64, 0, size_of::<u64>() as i64, 0, 0];
    // SAFETY: the action is in the form of the kernel, and its handler has the right type.
    unsafe { raw::call(libc::SYS_rt_sigaction, arguments) };
}

/// Answers a system call that did not come through the C library's functions.
extern "C" fn trapped_call(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the interrupted context.
    let registers = unsafe { &mut (*context.cast::<ucontext_t>()).uc_mcontext.gregs };
    let of = |register: c_int| registers[register as usize];
    let arguments = [
        of(libc::REG_RDI),
        of(libc::REG_RSI),
        of(libc::REG_RDX),
        of(libc::REG_R10),
        of(libc::REG_R8),
        of(libc::REG_R9),
    ];
    let number = of(libc::REG_RAX);
    let before = errno();
    // SAFETY: the program's own arguments, for the call that it made.
    let result = unsafe { dispatch(number, arguments) };
    registers[libc::REG_RAX as usize] = if result == -1 { -i64::from(errno()) } else { result };
    crate::hooks::set_errno(before);
}

#[inline(never)]
fn errno() -> c_int {
    // SAFETY: the C library returns the place of the calling thread's own number.
    unsafe { *libc::__errno_location() }
}

/// Answers the processor's time-stamp counter; other faults end the host's process.
extern "C" fn trapped_instruction(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the interrupted context.
    let registers = unsafe { &mut (*context.cast::<ucontext_t>()).uc_mcontext.gregs };
    let at = registers[libc::REG_RIP as usize] as *const u8;
    // SAFETY: the kernel passes a description of the fault.
    let (cause, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    if cause != SI_KERNEL {
        return end_by_fault(signal, address);
    }
    // SAFETY: the instruction at which the fault happened can be read, or this faults for good.
    let code = unsafe { at.cast::<[u8; 3]>().read_unaligned() };
    let length = match code {
        [0x0f, 0x31, _] => 2,
        [0x0f, 0x01, 0xf9] => 3,
        _ => return end_by_fault(signal, address),
    };
    let ticks = counter();
    registers[libc::REG_RAX as usize] = (ticks & 0xffff_ffff) as i64;
    registers[libc::REG_RDX as usize] = (ticks >> 32) as i64;
    if length == 3 {
        registers[libc::REG_RCX as usize] = 0;
    }
    registers[libc::REG_RIP as usize] += length;
}

/// The cause of a fault that is not about an address, such as an instruction that is not allowed.
const SI_KERNEL: c_int = 0x80;

extern "C" fn faulted(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a description of the fault.
    end_by_fault(signal, unsafe { (*info).si_addr() } as usize);
}

/// Ends the process of the host whose own code did something wrong, or else that of the search.
fn end_by_fault(signal: c_int, address: usize) {
    if !is_simulated() {
        return let_die(signal);
    }
    let what = match signal {
        libc::SIGSEGV if fiber::is_below_stack(address) => "a stack overflow",
        libc::SIGSEGV => "a segmentation fault",
        libc::SIGBUS => "a bus error",
        libc::SIGFPE => "an arithmetic fault",
        _ => "an illegal instruction",
    };
    enter(|kernel| kernel.fault(what));
}

/// The processor time between looks at the thread that runs.
const TICK_MICROS: i64 = 100_000;

/// Time has passed: a thread that runs on in the program's own text is looked at.
extern "C" fn ticked(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    unsafe extern "C" {
        /// The beginning of the program in memory.
        static __executable_start: u8;
        /// The end of its text.
        static etext: u8;
    }
    // SAFETY: the kernel passes the interrupted context.
    let at = unsafe { (*context.cast::<ucontext_t>()).uc_mcontext.gregs }[libc::REG_RIP as usize];
    let text = &raw const __executable_start as usize..&raw const etext as usize;
    // In a library, and among the lists of the heap, others would find what is half done.
    if is_simulated() && text.contains(&(at as usize)) && !arena::is_busy() {
        fiber::look();
    }
}

fn start_ticking() -> Result<(), String> {
    let tick = libc::timeval { tv_sec: 0, tv_usec: TICK_MICROS };
    let setting = libc::itimerval { it_interval: tick, it_value: tick };
    let arguments = [ITIMER_VIRTUAL, &raw const setting as i64, 0, 0, 0, 0];
    // SAFETY: the setting is valid, and the signal is handled.
    match unsafe { raw::call(libc::SYS_setitimer, arguments) } {
        0 => Ok(()),
        _ => Err("the kernel gives no timer".to_owned()),
    }
}

const ITIMER_VIRTUAL: i64 = 1;
/// The size of the stack for faults, on which the kernel of the host works.
const STACK_SIZE: usize = 256 << 10;

/// Sets the stack on which faults are handled.
fn provide_stack() -> Result<(), String> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let writable = libc::PROT_READ | libc::PROT_WRITE;
    let room = [0, STACK_SIZE as i64, writable.into(), flags.into(), -1, 0];
    // SAFETY: a new mapping, which stays.
    let place = unsafe { raw::call(libc::SYS_mmap, room) };
    let stack = libc::stack_t { ss_sp: place as *mut c_void, ss_flags: 0, ss_size: STACK_SIZE };
    let arguments = [&raw const stack as i64, 0, 0, 0, 0, 0];
    // SAFETY: the stack is mapped, or the call fails.
    match unsafe { raw::call(libc::SYS_sigaltstack, arguments) } {
        0 => Ok(()),
        _ => Err("there is no memory for the stack on which faults are handled".to_owned()),
    }
}

/// Goes on at the copy of an atomic instruction that is too short for a jump.
extern "C" fn trapped_exchange(signal: c_int, _: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the interrupted context.
    let registers = unsafe { &mut (*context.cast::<ucontext_t>()).uc_mcontext.gregs };
    let at = &mut registers[libc::REG_RIP as usize];
    match atomics::copy_of(*at as usize - 1) {
        Some(copy) => *at = copy as i64,
        None => let_die(signal),
    }
}

/// A counter of nanoseconds: of the host's clock, or of the real one.
fn counter() -> u64 {
    if is_simulated() {
        let now = enter(|kernel| kernel.clock(libc::CLOCK_MONOTONIC));
        return now.map_or(0, |now| now.as_nanos() as u64);
    }
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let arguments = [libc::CLOCK_MONOTONIC.into(), &raw mut now as i64, 0, 0, 0, 0];
    // SAFETY: there is a place for the time.
    unsafe { raw::call(libc::SYS_clock_gettime, arguments) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The fault happens again after this, and ends the process.
fn let_die(signal: c_int) {
    let action = Action { handler: libc::SIG_DFL, flags: 0, restorer: 0, mask: 0 };
    let arguments = [signal.into(), &raw const action as i64, 0, size_of::<u64>() as i64, 0, 0];
    // SAFETY: sets the default action.
    unsafe { raw::call(libc::SYS_rt_sigaction, arguments) };
}

/// Makes the clock functions that the kernel maps into the process make system calls.
fn replace_mapped_clocks() -> Result<(), String> {
    // SAFETY: reads a number.
    let start = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as usize;
    if start == 0 {
        return Ok(());
    }
    // SAFETY: the kernel maps two pages of code at least, which can be read.
    let image = unsafe { std::slice::from_raw_parts(start as *const u8, 2 * PAGE) };
    let places: Vec<(usize, i64)> = [
        ("__vdso_clock_gettime", libc::SYS_clock_gettime),
        ("__vdso_gettimeofday", libc::SYS_gettimeofday),
        ("__vdso_time", libc::SYS_time),
        ("__vdso_clock_getres", libc::SYS_clock_getres),
        ("__vdso_getcpu", libc::SYS_getcpu),
    ]
    .into_iter()
    .filter_map(|(name, number)| Some((elf::exported(image, name)?, number)))
    .collect();
    if places.is_empty() {
        return Err("the clock functions that the kernel maps cannot be found".to_owned());
    }
    protect(start, libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC)?;
    for (offset, number) in places {
        let [low, high, ..] = (number as u32).to_le_bytes();
        // mov eax, number; syscall; ret
        let code = [0xb8, low, high, 0, 0, 0x0f, 0x05, 0xc3];
        // SAFETY: the function is longer than this, and nobody else runs in this process.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), (start + offset) as *mut u8, 8) };
    }
    protect(start, libc::PROT_READ | libc::PROT_EXEC)
}

fn protect(start: usize, protection: c_int) -> Result<(), String> {
    let arguments = [start as i64, 2 * PAGE as i64, protection.into(), 0, 0, 0];
    // SAFETY: only the protection of the kernel's own pages in this process changes.
    match unsafe { raw::call(libc::SYS_mprotect, arguments) } {
        0 => Ok(()),
        _ => Err("the kernel's clock functions cannot be replaced".to_owned()),
    }
}

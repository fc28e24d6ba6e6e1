//! Fibers: the threads of simulated hosts. A fiber is a stack and a thread control block of the C
//! library; it runs on the kernel thread that called [`Fiber::run`] until it suspends itself.
//!
//! Code of a host runs with its own control block. Everything else, the calls into the simulated
//! kernel included, runs with the control block of the thread that explores, also while the stack
//! is that of a fiber.

use std::any::Any;
use std::arch::naked_asm;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::glibc::Glibc;
use crate::hooks::signals::run_handler;
use crate::hooks::threads::destroy_values;
use crate::kernel::{Kernel, SignalAction};
use crate::own::own;
use crate::raw::{set_thread_pointer, thread_pointer};
use crate::stack::{self, Stack};
use crate::statics::{self, Image};
use crate::{atomics, guard};

own! {
    /// The control block of the fiber whose own code runs now; zero while none does.
    USER: usize = 0;
    /// The control block of the thread that explores.
    BASE: usize = 0;
    /// The stack pointer of the thread that explores, while a fiber runs.
    BASE_STACK: usize = 0;
    /// The fiber that runs, or null.
    CURRENT: *mut Body = std::ptr::null_mut();
    /// The kernel that answers the calls of the fiber that runs.
    KERNEL: Option<*const dyn Kernel> = None;
    /// A panic of the kernel on a fiber's stack, on its way to the explorer.
    PANIC: Option<Box<dyn Any + Send>> = None;
    /// The text of that panic: it happened under the host's hook for panics.
    PANIC_TEXT: Option<String> = None;
}

/// A destructor of a thread-local variable, with its argument.
type Destructor = (unsafe extern "C" fn(*mut u8), usize);

/// A thread as `pthread_create` gets it: a function of C and its argument.
#[derive(Clone, Copy, Debug)]
pub struct Routine {
    pub(crate) start: extern "C" fn(*mut c_void) -> *mut c_void,
    pub(crate) argument: usize,
}

enum Start {
    Main(Box<dyn FnOnce()>),
    Thread(Routine),
    Handler(i32, SignalAction),
}

/// The part of a fiber that must not move.
struct Body {
    stack: Option<Stack>,
    block: usize,
    pointer: usize,
    start: Option<Start>,
    destructors: Vec<Destructor>,
    result: Option<usize>,
    calls: u64,
    quiet: Quiet,
}

/// How long a thread has run without a call.
#[derive(Clone, Copy, Default)]
struct Quiet {
    /// The number of its calls at the last look.
    calls: u64,
    /// The looks since then.
    looks: u32,
    /// How often others went first since then.
    times: u32,
}

/// The looks after which a thread without a call lets others go first.
const LOOKS_MAX: u32 = 10;

/// A thread of a simulated host.
pub struct Fiber(Box<Body>);

impl std::fmt::Debug for Fiber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fiber").field("ended", &self.result().is_some()).finish_non_exhaustive()
    }
}

impl Fiber {
    /// The main thread of a host.
    #[must_use]
    pub fn main(number: u32, body: impl FnOnce() + 'static) -> Fiber {
        Fiber::new(number, Start::Main(Box::new(body)))
    }

    /// A thread that a host created.
    #[must_use]
    pub fn thread(number: u32, routine: Routine) -> Fiber {
        Fiber::new(number, Start::Thread(routine))
    }

    /// A thread that runs the handler of a signal.
    #[must_use]
    pub fn handler(number: u32, signal: i32, action: SignalAction) -> Fiber {
        Fiber::new(number, Start::Handler(signal, action))
    }

    fn new(number: u32, start: Start) -> Fiber {
        let stack = Stack::take();
        let pointer = stack.prepare(begin);
        let block = Glibc::get().new_block(number);
        Fiber(Box::new(Body {
            stack: Some(stack),
            block,
            pointer,
            start: Some(start),
            destructors: Vec::new(),
            result: None,
            calls: 0,
            quiet: Quiet::default(),
        }))
    }

    /// The name that the host's code has for the thread (`pthread_t`).
    #[must_use]
    pub fn handle(&self) -> usize {
        self.0.block
    }

    /// The value that the thread returned, once it has ended.
    #[must_use]
    pub fn result(&self) -> Option<usize> {
        self.0.result
    }

    /// Runs the fiber, with the host's statics, until it suspends itself or ends; true if it ended.
    ///
    /// # Panics
    ///
    /// If the kernel panics in one of the fiber's calls, or a fiber runs already.
    pub fn run(&mut self, kernel: &dyn Kernel, image: &mut Image) -> bool {
        assert!(CURRENT.get().is_null(), "one fiber runs at a time");
        assert!(self.0.result.is_none(), "a thread that ended cannot run");
        // SAFETY: the reference outlives the run, and `KERNEL` is emptied below.
        let kernel: &'static dyn Kernel = unsafe { std::mem::transmute(kernel) };
        KERNEL.set(Some(kernel));
        BASE.set(thread_pointer());
        CURRENT.set(&raw mut *self.0);
        statics::load(image);
        // SAFETY: the pointer is that of a prepared or suspended stack, which is switched to once.
        unsafe { switch(BASE_STACK.place(), self.0.pointer) };
        statics::load_base();
        CURRENT.set(std::ptr::null_mut());
        KERNEL.set(None);
        if let Some(panic) = PANIC.replace(None) {
            match PANIC_TEXT.replace(None) {
                Some(text) => panic!("in the kernel of a simulated host: {text}"),
                None => resume_unwind(panic),
            }
        }
        if self.0.result.is_some() {
            self.0.release();
        }
        self.0.result.is_some()
    }
}

impl Body {
    /// Gives back the stack; the control block stays, because others may name the thread by it.
    fn release(&mut self) {
        self.stack = None;
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        Glibc::get().free_block(self.block);
    }
}

/// Whether the calling code is that of a simulated host.
#[inline]
pub(crate) fn is_simulated() -> bool {
    thread_pointer() == USER.get()
}

/// Runs `work` in the kernel: with the control block of the exploring thread.
#[inline(never)]
pub(crate) fn enter<R>(work: impl FnOnce(&dyn Kernel) -> R) -> R {
    let block = leave_user();
    let result = in_kernel(work);
    // SAFETY: this function uses no thread-local variables, and `block` is that of the fiber.
    unsafe { become_user(block) };
    result
}

/// Runs a function of the C library itself, such as its allocator, for the exploring thread.
#[inline(never)]
pub(crate) fn on_base<R>(work: impl FnOnce() -> R) -> R {
    let block = leave_user();
    let result = work();
    // SAFETY: as in `enter`.
    unsafe { become_user(block) };
    result
}

#[inline]
fn leave_user() -> usize {
    let block = USER.replace(0);
    // SAFETY: a fiber runs, since its code calls; nobody else holds a reference to it.
    unsafe { (*CURRENT.get()).calls += 1 };
    atomics::hold();
    guard::let_through(true);
    // SAFETY: `BASE` is the block of the thread that explores, and the callers use no thread-locals.
    unsafe { set_thread_pointer(BASE.get()) };
    block
}

/// # Safety
///
/// As for [`set_thread_pointer`].
#[inline]
unsafe fn become_user(block: usize) {
    // SAFETY: the caller answers for the block.
    unsafe { set_thread_pointer(block) };
    guard::let_through(false);
    atomics::resume();
    USER.set(block);
}

#[inline(never)]
fn in_kernel<R>(work: impl FnOnce(&dyn Kernel) -> R) -> R {
    let kernel = KERNEL.get().expect("a fiber runs under a kernel");
    // SAFETY: the reference is valid while the fiber runs; see `Fiber::run`.
    let kernel = unsafe { &*kernel };
    match catch_unwind(AssertUnwindSafe(|| work(kernel))) {
        Ok(result) => result,
        Err(panic) => {
            PANIC.set(Some(panic));
            suspend();
            unreachable!("a fiber whose kernel panicked is never resumed")
        }
    }
}

/// Keeps the text of a panic of the kernel.
pub(crate) fn keep_panic(text: String) {
    PANIC_TEXT.replace(Some(text));
}

/// Returns to the explorer. The fiber continues here when it is run again.
///
/// # Panics
///
/// If no fiber runs.
#[inline(never)]
pub fn suspend() {
    let body = CURRENT.get();
    assert!(!body.is_null() && USER.get() == 0, "only the kernel suspends, within a call");
    // SAFETY: the fiber is pinned in its box while it runs; its stack pointer is saved there.
    unsafe { switch(&raw mut (*body).pointer, BASE_STACK.get()) };
}

/// Looks whether the fiber that runs its own code has made a call since the last look. One that has
/// not for a while lets others go first.
pub(crate) fn look() {
    let body = CURRENT.get();
    // SAFETY: a fiber runs, since its code was interrupted; nobody else holds a reference to it.
    let (calls, quiet) = unsafe { ((*body).calls, (*body).quiet) };
    let mut next = match quiet.calls == calls {
        true => Quiet { looks: quiet.looks + 1, ..quiet },
        false => Quiet { calls, ..Quiet::default() },
    };
    if next.looks >= LOOKS_MAX {
        next = Quiet { calls: calls + 1, looks: 0, times: next.times + 1 };
        enter(|kernel| kernel.overdue(next.times));
    }
    // SAFETY: as above; `enter` counted one call.
    unsafe { (*body).quiet = next };
}

/// Whether an address is below the stack of the fiber that runs.
pub(crate) fn is_below_stack(address: usize) -> bool {
    let (lowest, _) = stack_bounds();
    (lowest - stack::GUARD..lowest).contains(&address)
}

/// Notes a destructor of a thread-local variable of the running fiber.
pub(crate) fn at_exit(destructor: unsafe extern "C" fn(*mut u8), argument: usize) {
    let body = CURRENT.get();
    // SAFETY: a fiber runs, since its code asks; nobody else holds a reference to it.
    unsafe { (*body).destructors.push((destructor, argument)) };
}

/// The lowest address and the size of the running fiber's stack.
pub(crate) fn stack_bounds() -> (usize, usize) {
    // SAFETY: a fiber runs, since its code asks.
    let stack = unsafe { (*CURRENT.get()).stack.as_ref() };
    (stack.map_or(0, Stack::lowest), stack::SIZE)
}

/// The first code on a fiber's stack.
extern "C" fn begin() -> ! {
    let body = CURRENT.get();
    // SAFETY: `run` set the fiber that it switched to.
    let (start, block) = unsafe { ((*body).start.take().expect("it starts once"), (*body).block) };
    // SAFETY: the block is that of this fiber, and this function uses no thread-locals.
    unsafe { become_user(block) };
    let result = user(start);
    leave_user();
    // SAFETY: as above; the fiber is still the one that runs.
    unsafe { (*body).result = Some(result) };
    suspend();
    unreachable!("a thread that ended is not resumed")
}

/// The whole life of a thread in its own code.
#[inline(never)]
fn user(start: Start) -> usize {
    Glibc::get().init_thread();
    let result = match start {
        Start::Main(body) => {
            body();
            0
        }
        Start::Thread(routine) => (routine.start)(routine.argument as *mut c_void) as usize,
        Start::Handler(signal, action) => {
            // SAFETY: the host said that this is its handler.
            unsafe { run_handler(signal, action) };
            0
        }
    };
    while let Some((destructor, argument)) = next_destructor() {
        // SAFETY: the destructor was registered with this argument, by this thread.
        unsafe { destructor(argument as *mut u8) };
    }
    destroy_values();
    result
}

fn next_destructor() -> Option<Destructor> {
    enter(|_| {
        // SAFETY: the fiber runs; nobody else holds a reference to it.
        unsafe { (*CURRENT.get()).destructors.pop() }
    })
}

/// Saves the registers that a function must keep, changes stacks, and restores those of the other.
///
/// # Safety
///
/// `to` must be a stack pointer that this function saved, or one that [`Stack::prepare`] made.
#[unsafe(naked)]
unsafe extern "C" fn switch(_save: *mut usize, _to: usize) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi], rsp",
        "mov rsp, rsi",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

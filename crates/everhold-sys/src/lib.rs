//! The machinery under Everhold's simulated hosts.
//!
//! The threads of a simulated host are [`Fiber`]s on one kernel thread. Functions of the C library
//! are interposed: the linker resolves them to this crate's definitions, which ask the host's
//! [`Kernel`] if a fiber calls, and pass everybody else on to the C library. The program's statics
//! are exchanged when another host runs ([`Image`]), and what a host allocates lies in a region that
//! is emptied between executions ([`begin_execution`]).
//!
//! All this works only where nobody else runs: in a process of one thread that
//! [`in_worker`] forks from the test.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")))]
compile_error!(
    "simulated hosts need Linux on x86-64 with the GNU C library; \
     remove the feature `hosts` of `everhold` for this target"
);

mod arena;
mod atomics;
mod decode;
mod elf;
mod environment;
mod fiber;
mod glibc;
mod guard;
mod hooks;
mod kernel;
mod mappings;
mod own;
mod raw;
mod stack;
mod statics;
mod worker;

pub use atomics::{Sites, patch, preempt_after};
pub use fiber::{Fiber, Routine, suspend};
pub use hooks::host::{Report, call};
pub use kernel::{Answer, DirectoryEntry, FileStatus, Kernel, SignalAction, Timeout, Watched};
pub use statics::Image;
pub use worker::{Died, in_worker};

/// Tests whether this machine and this C library are ones that the machinery knows.
///
/// # Errors
///
/// The reason why not.
pub fn check() -> Result<(), String> {
    glibc::Glibc::check()?;
    arena::check()?;
    statics::check()
}

/// Makes this thread one that runs hosts: what they ask of the real kernel is trapped from now on.
///
/// # Errors
///
/// If this kernel cannot do that.
pub fn arm() -> Result<(), String> {
    // The unwinder keeps what it learns at the first panic outside the program's statics; the
    // first panic must not be that of a host.
    let _ = std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new(())));
    guard::arm()
}

/// Writes to its files what the program of a host that does not run now has changed in mapped
/// memory, as the end of its process does.
pub fn write_back(kernel: &dyn Kernel, image: &Image) {
    mappings::write_back(kernel, image.owner());
}

/// Forgets what the hosts of the execution before allocated.
pub fn begin_execution() {
    arena::reset();
    mappings::reset();
    stack::reset();
    hooks::threads::delete_keys();
}

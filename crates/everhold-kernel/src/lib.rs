//! The system calls under Everhold's attach, behind a safe interface.
//!
//! - [`bpf`]: maps, programs, and links to functions of user programs and to tracepoints.
//! - [`Ring`]: the ring buffer that a BPF program writes.
//! - [`ProcessHandle`]: a process that cannot be confused with a later one of the same number.
//! - [`monotonic_nanos`]: the clock that BPF programs read.
//!
//! Everything that is made here belongs to a file descriptor. When it is dropped, or the process dies
//! in any way, the kernel removes the links and with them every breakpoint in the observed programs.

pub mod bpf;
mod process;
mod ring;

pub use process::{ProcessHandle, monotonic_nanos, raise_open_files};
pub use ring::Ring;

//! A model of an operating system's kernel, as the threads of one simulated host see it.
//!
//! A [`Host`] has threads, futexes, clocks, descriptors, sockets, epoll sets, pipes, timers and
//! files. Each system call is a method that answers at once: with a result, with an error number
//! ([`Errno`]), or with [`Stop::Blocked`], which says that the calling thread has to wait and to
//! make the same call again when it can run. Nothing in here runs anything: who runs next, when a
//! packet arrives and how time passes is decided outside.
//!
//! Numbers of flags, options and errors are those of Linux on x86-64 ([`abi`]).
//!
//! # Where it differs from Linux
//!
//! The tests run the same random programs on the kernel and on the model and compare every outcome.
//! These differences are known; `tests/it/differences.rs` pins those that a test can show.
//!
//! - TCP sends every segment at once: `TCP_NODELAY` is kept and answered, but the algorithm of Nagle
//!   is not there. Buffers have the sizes of the [`Settings`] and do not grow.
//! - A connection that is over is gone, and only its port is held for a minute. Closing a socket
//!   never waits, also with a linger time above zero, which counts as none.
//! - A thread that waits at a descriptor which another thread closes is woken and finds EBADF; in
//!   Linux it goes on waiting.
//! - Unix sockets carry streams only, and no descriptors. The name of one in the file system is not
//!   listed in its directory, and does not outlive the host's process. A name that the kernel chooses counts
//!   upwards; in Linux it is random.
//! - Writing to an eventfd takes eight bytes exactly, as in Linux since 6.10.
//! - Names of files are UTF-8, and listed in their order. Permissions
//!   are kept and answered, but everything is permitted. Modes and times do not outlive a crash.
//! - A signal reaches the process, never one thread alone, and a signal that comes twice while it is
//!   blocked is pending once, also those that Linux queues. A handler runs between two calls.
//! - `fdatasync` is `fsync`. Holes of files take memory, so a file has at most
//!   [`LARGEST_FILE`](files::LARGEST_FILE) bytes.
//! - Multicast, raw sockets, `SOCK_SEQPACKET`, Unix datagrams and out-of-band data are refused with
//!   the error number for what a kernel was built without.
//!
//! In reading order:
//!
//! - [`host`]: the state, the inputs and the outputs.
//! - [`thread`]: threads, how they wait, deadlines; [`futex`], [`signal`].
//! - [`descriptor`]: open files, and the calls that all of them have.
//! - [`epoll`], [`event`], [`pipe`], [`unix`]: what does not leave the host.
//! - [`net`], [`tcp`], [`udp`], [`socket`]: what does.
//! - [`names`], [`address`]: names of hosts, and addresses.
//! - [`files`]: the disk.

pub mod abi;
pub mod address;
pub mod descriptor;
mod device;
pub mod epoll;
pub mod event;
pub mod files;
pub mod futex;
pub mod host;
pub mod names;
pub mod net;
mod options;
pub mod pipe;
pub mod signal;
mod slab;
pub mod socket;
pub mod tcp;
pub mod thread;
pub mod udp;
pub mod unix;

pub use abi::{ClockId, Errno};
pub use address::{Address, UnixAddress};
pub use descriptor::Fd;
pub use epoll::{Event, PollFd};
pub use event::TimerSetting;
pub use files::{AT_FDCWD, Disk, DiskSettings, Entry, FileKind, Space, Status};
pub use futex::ANY as FUTEX_ANY;
pub use host::{Choices, Clocks, Host, Retransmission, Settings, Usual};
pub use names::Names;
pub use net::{Body, Flag, Packet, Segment};
pub use signal::{Action, Delivery, SignalSet};
pub use socket::Received;
pub use thread::{Answer, Deadline, Reason, Stop, ThreadId};

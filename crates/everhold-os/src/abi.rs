//! Numbers of the Linux ABI on x86-64, as far as the calls of the model take or give them.

use std::fmt;

/// An error number of a system call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(pub i32);

macro_rules! errors {
    ($($name:ident = $number:literal),* $(,)?) => {
        impl Errno {
            $(
                #[doc = concat!("Error ", stringify!($number), ".")]
                pub const $name: Errno = Errno($number);
            )*
        }

        impl fmt::Debug for Errno {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.0 {
                    $($number => f.write_str(stringify!($name)),)*
                    other => write!(f, "Errno({other})"),
                }
            }
        }
    };
}

errors! {
    EPERM = 1, ENOENT = 2, EINTR = 4, EIO = 5, EBADF = 9, ECHILD = 10, EAGAIN = 11, ENOMEM = 12,
    EACCES = 13, EFAULT = 14, EBUSY = 16, EEXIST = 17, EXDEV = 18, ENODEV = 19, ENOTDIR = 20,
    EISDIR = 21, EINVAL = 22, EMFILE = 24, ENOTTY = 25, EFBIG = 27, ENOSPC = 28, ESPIPE = 29,
    EROFS = 30, EMLINK = 31, EPIPE = 32, EDEADLK = 35, ENAMETOOLONG = 36, ENOSYS = 38,
    ENOTEMPTY = 39, ELOOP = 40, ENOTSOCK = 88, EDESTADDRREQ = 89, EMSGSIZE = 90, EPROTOTYPE = 91,
    ENOPROTOOPT = 92, EPROTONOSUPPORT = 93, ESOCKTNOSUPPORT = 94, EOPNOTSUPP = 95,
    EAFNOSUPPORT = 97, EADDRINUSE = 98, EADDRNOTAVAIL = 99, ENETUNREACH = 101, ECONNABORTED = 103,
    ECONNRESET = 104, ENOBUFS = 105, EISCONN = 106, ENOTCONN = 107, ETIMEDOUT = 110,
    ECONNREFUSED = 111, EHOSTUNREACH = 113, EALREADY = 114, EINPROGRESS = 115,
}

/// Families of addresses.
pub mod family {
    #![expect(missing_docs, reason = "the names are those of the manual")]
    pub const AF_UNIX: i32 = 1;
    pub const AF_INET: i32 = 2;
    pub const AF_INET6: i32 = 10;
}

/// Types of sockets, and the flags that may be added to them.
pub mod socket {
    #![expect(missing_docs, reason = "the names are those of the manual")]
    pub const SOCK_STREAM: i32 = 1;
    pub const SOCK_DGRAM: i32 = 2;
    pub const SOCK_NONBLOCK: i32 = 0o4000;
    pub const SOCK_CLOEXEC: i32 = 0o2000000;
    pub const SHUT_RD: i32 = 0;
    pub const SHUT_WR: i32 = 1;
    pub const SHUT_RDWR: i32 = 2;
    pub const MSG_PEEK: i32 = 0x2;
    pub const MSG_TRUNC: i32 = 0x20;
    pub const MSG_DONTWAIT: i32 = 0x40;
    pub const MSG_WAITALL: i32 = 0x100;
    pub const MSG_NOSIGNAL: i32 = 0x4000;
}

/// Levels and names of socket options.
pub mod option {
    #![expect(missing_docs, reason = "the names are those of the manual")]
    pub const SOL_SOCKET: i32 = 1;
    pub const IPPROTO_TCP: i32 = 6;
    pub const IPPROTO_IPV6: i32 = 41;
    pub const SO_REUSEADDR: i32 = 2;
    pub const SO_TYPE: i32 = 3;
    pub const SO_ERROR: i32 = 4;
    pub const SO_BROADCAST: i32 = 6;
    pub const SO_SNDBUF: i32 = 7;
    pub const SO_RCVBUF: i32 = 8;
    pub const SO_KEEPALIVE: i32 = 9;
    pub const SO_LINGER: i32 = 13;
    pub const SO_REUSEPORT: i32 = 15;
    pub const SO_RCVTIMEO: i32 = 20;
    pub const SO_SNDTIMEO: i32 = 21;
    pub const SO_ACCEPTCONN: i32 = 30;
    pub const SO_PROTOCOL: i32 = 38;
    pub const SO_DOMAIN: i32 = 39;
    pub const TCP_NODELAY: i32 = 1;
    pub const TCP_KEEPIDLE: i32 = 4;
    pub const TCP_KEEPINTVL: i32 = 5;
    pub const TCP_KEEPCNT: i32 = 6;
    pub const TCP_USER_TIMEOUT: i32 = 18;
    pub const IPV6_V6ONLY: i32 = 26;
}

/// Flags of epoll, which are those of poll in its lower half.
pub mod epoll {
    #![expect(missing_docs, reason = "the names are those of the manual")]
    pub const EPOLLIN: u32 = 0x1;
    pub const EPOLLPRI: u32 = 0x2;
    pub const EPOLLOUT: u32 = 0x4;
    pub const EPOLLERR: u32 = 0x8;
    pub const EPOLLHUP: u32 = 0x10;
    pub const POLLNVAL: u32 = 0x20;
    pub const EPOLLRDNORM: u32 = 0x40;
    pub const EPOLLRDBAND: u32 = 0x80;
    pub const EPOLLWRNORM: u32 = 0x100;
    pub const EPOLLWRBAND: u32 = 0x200;
    pub const EPOLLRDHUP: u32 = 0x2000;
    pub const EPOLLEXCLUSIVE: u32 = 1 << 28;
    pub const EPOLLWAKEUP: u32 = 1 << 29;
    pub const EPOLLONESHOT: u32 = 1 << 30;
    pub const EPOLLET: u32 = 1 << 31;
    pub const EPOLL_CTL_ADD: i32 = 1;
    pub const EPOLL_CTL_DEL: i32 = 2;
    pub const EPOLL_CTL_MOD: i32 = 3;
}

/// Flags of open files.
pub mod open {
    #![expect(missing_docs, reason = "the names are those of the manual")]
    pub const O_ACCMODE: i32 = 3;
    pub const O_RDONLY: i32 = 0;
    pub const O_WRONLY: i32 = 1;
    pub const O_RDWR: i32 = 2;
    pub const O_CREAT: i32 = 0o100;
    pub const O_EXCL: i32 = 0o200;
    pub const O_TRUNC: i32 = 0o1000;
    pub const O_APPEND: i32 = 0o2000;
    pub const O_NONBLOCK: i32 = 0o4000;
    pub const O_DIRECTORY: i32 = 0o200000;
    pub const O_NOFOLLOW: i32 = 0o400000;
    pub const O_CLOEXEC: i32 = 0o2000000;
    pub const O_PATH: i32 = 0o10000000;
    pub const O_TMPFILE: i32 = 0o20200000;
    pub const EFD_SEMAPHORE: i32 = 1;
    pub const TFD_TIMER_ABSTIME: i32 = 1;
    pub const SEEK_SET: i32 = 0;
    pub const SEEK_CUR: i32 = 1;
    pub const SEEK_END: i32 = 2;
    pub const LOCK_SH: i32 = 1;
    pub const LOCK_EX: i32 = 2;
    pub const LOCK_NB: i32 = 4;
    pub const LOCK_UN: i32 = 8;
    pub const FALLOC_FL_KEEP_SIZE: i32 = 1;
}

/// Signals, and what is said of them.
pub mod signal {
    #![expect(missing_docs, reason = "the names are those of the manual")]
    pub const SIGINT: i32 = 2;
    pub const SIGKILL: i32 = 9;
    pub const SIGUSR1: i32 = 10;
    pub const SIGPIPE: i32 = 13;
    pub const SIGTERM: i32 = 15;
    pub const SIGCHLD: i32 = 17;
    pub const SIGCONT: i32 = 18;
    pub const SIGSTOP: i32 = 19;
    pub const SIGTSTP: i32 = 20;
    pub const SIGTTIN: i32 = 21;
    pub const SIGTTOU: i32 = 22;
    pub const SIGURG: i32 = 23;
    pub const SIGWINCH: i32 = 28;
    pub const SIG_DFL: usize = 0;
    pub const SIG_IGN: usize = 1;
    pub const SA_RESTART: u64 = 0x1000_0000;
    pub const SA_RESETHAND: u64 = 0x8000_0000;
    pub const SIG_BLOCK: i32 = 0;
    pub const SIG_UNBLOCK: i32 = 1;
    pub const SIG_SETMASK: i32 = 2;
}

/// A clock of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockId {
    /// The time of day, which may be skewed and may be set.
    Realtime,
    /// The time since the host's machine was started; also for its coarse and raw variants and for
    /// the clocks of processor time.
    Monotonic,
}

impl ClockId {
    /// The clock of a number; EINVAL for numbers without a clock.
    pub fn parse(number: i32) -> Result<ClockId, Errno> {
        match number {
            0 | 5 | 8 | 11 => Ok(ClockId::Realtime),
            1 | 2 | 3 | 4 | 6 | 7 | 9 => Ok(ClockId::Monotonic),
            _ => Err(Errno::EINVAL),
        }
    }
}

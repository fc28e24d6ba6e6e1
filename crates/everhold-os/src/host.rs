//! A host: the state of its kernel, its inputs and its outputs.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use everhold_node::Time;

use crate::abi::ClockId;
use crate::descriptor::{Descriptors, Open};
use crate::files::{DiskSettings, Files};
use crate::futex::Futexes;
use crate::names::Names;
use crate::net::{Network, Packet};
use crate::pipe::Pipe;
use crate::signal::Signals;
use crate::slab::{Id, Slab};
use crate::thread::{ThreadId, Threads};
use crate::unix::UnixSockets;

/// Decisions that a kernel makes and a program cannot foresee.
pub trait Choices {
    /// An answer below `domain`, which is at least 2. Zero is what a kernel does as a rule, so
    /// that shrinking removes the other answers.
    fn choose(&mut self, label: &str, domain: u32) -> u32;
    /// Random bytes, for `getrandom`.
    fn random(&mut self, bytes: &mut [u8]);
}

/// The choices of a kernel that always does what is usual. Its random bytes count upwards.
#[derive(Clone, Debug, Default)]
pub struct Usual {
    next: u8,
}

impl Choices for Usual {
    fn choose(&mut self, _: &str, _: u32) -> u32 {
        0
    }
    fn random(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = self.next;
            self.next = self.next.wrapping_add(1);
        }
    }
}

/// The clocks of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// The time of day when the execution begins, as the time since 1970.
    pub epoch: Duration,
    /// How much the time of day of this host is ahead of the others, or behind, in nanoseconds.
    pub skew: i64,
    /// How long the machine has run when the execution begins. Not zero, because programs subtract
    /// from an `Instant`.
    pub uptime: Duration,
}

impl Default for Clocks {
    fn default() -> Self {
        let day = Duration::from_secs(86_400);
        // 2026-01-01.
        Clocks { epoch: Duration::from_secs(1_767_225_600), skew: 0, uptime: day }
    }
}

/// The retransmission of segments that are not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retransmission {
    /// The time before the first one; each further one takes twice as long, up to two minutes.
    pub first: Duration,
    /// How often data is sent again before the connection fails with ETIMEDOUT.
    pub retries: u32,
    /// How often a connection is tried again before it fails with ETIMEDOUT.
    pub connect_retries: u32,
    /// How long an acknowledgement waits for data with which it could travel.
    pub delayed_ack: Duration,
}

impl Default for Retransmission {
    /// As Linux has it, but that the first one takes a second instead of a fifth.
    fn default() -> Self {
        Retransmission {
            first: Duration::from_secs(1),
            retries: 15,
            connect_retries: 6,
            delayed_ack: Duration::from_millis(40),
        }
    }
}

/// The properties of a host that do not change while it runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its addresses besides the loopback ones. Connections begin at the first of each family.
    pub addresses: Vec<IpAddr>,
    /// The names and addresses of all hosts.
    pub names: Names,
    /// How often the host was started before. Connections of an earlier start are known by it.
    pub incarnation: u32,
    /// The lowest descriptor that is given out.
    pub first_descriptor: i32,
    /// How many descriptors there can be.
    pub descriptors: usize,
    /// Its clocks.
    pub clocks: Clocks,
    /// The bytes that a socket holds before its writer has to wait.
    pub send_buffer: usize,
    /// The bytes that a socket accepts before its reader has to read.
    pub receive_buffer: usize,
    /// The retransmission of segments; `None` if no segment is ever lost by the network.
    pub retransmission: Option<Retransmission>,
    /// Whether it is a choice to send less in a segment and to read less than is there.
    pub splits: bool,
    /// The disk.
    pub disk: DiskSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            addresses: Vec::new(),
            names: Names::default(),
            incarnation: 0,
            first_descriptor: 3,
            descriptors: 65_536,
            clocks: Clocks::default(),
            send_buffer: 128 << 10,
            receive_buffer: 128 << 10,
            retransmission: Some(Retransmission::default()),
            splits: false,
            disk: DiskSettings::default(),
        }
    }
}

/// Something to do at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Alarm {
    Thread(ThreadId),
    Timer(Id<Open>),
    Tcp(Id<crate::tcp::Tcp>),
}

/// The kernel of one host, as its threads see it.
///
/// System calls are methods. They answer, fail with an error number, or say that the calling
/// thread has to wait: [`Stop::Blocked`](crate::Stop). The inputs are [`advance`](Host::advance),
/// [`deliver`](Host::deliver) and [`peer_reset`](Host::peer_reset); the outputs are
/// [`take_woken`](Host::take_woken), [`take_packets`](Host::take_packets) and
/// [`next_deadline`](Host::next_deadline).
///
/// ```
/// use everhold_os::{Address, Host, abi::socket::SOCK_STREAM, abi::family::AF_INET};
/// let mut host = Host::for_tests();
/// let listener = host.socket(AF_INET, SOCK_STREAM, 0)?;
/// host.bind(listener, &Address::Ip("127.0.0.1:80".parse().unwrap()))?;
/// host.listen(listener, 16)?;
/// let client = host.socket(AF_INET, SOCK_STREAM, 0)?;
/// host.connect(client, &Address::Ip("127.0.0.1:80".parse().unwrap()))?;
/// let (server, _) = host.accept(listener, 0)?;
/// host.write(client, b"hello")?;
/// let mut bytes = [0; 16];
/// assert_eq!(host.read(server, &mut bytes)?, 5);
/// # Ok::<(), everhold_os::Stop>(())
/// ```
pub struct Host {
    pub(crate) settings: Settings,
    choices: Box<dyn Choices>,
    now: Time,
    pub(crate) threads: Threads,
    pub(crate) futexes: Futexes,
    pub(crate) signals: Signals,
    pub(crate) alarms: BTreeSet<(Time, Alarm)>,
    pub(crate) descriptors: Descriptors,
    pub(crate) open: Slab<Open>,
    pub(crate) pipes: Slab<Pipe>,
    pub(crate) unix: UnixSockets,
    pub(crate) net: Network,
    pub(crate) files: Files,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Host { now, threads, descriptors, .. } = self;
        let mut host = f.debug_struct("Host");
        host.field("now", now).field("threads", threads).field("descriptors", descriptors);
        host.finish_non_exhaustive()
    }
}

impl Host {
    /// A host that has just been started. It has one thread, its main thread.
    #[must_use]
    pub fn new(settings: Settings, choices: Box<dyn Choices>) -> Host {
        let net = Network::new(settings.incarnation);
        Host {
            descriptors: Descriptors::new(settings.first_descriptor, settings.descriptors),
            settings,
            choices,
            now: Time::ZERO,
            threads: Threads::default(),
            futexes: Futexes::default(),
            signals: Signals::default(),
            alarms: BTreeSet::new(),
            open: Slab::default(),
            pipes: Slab::default(),
            unix: UnixSockets::default(),
            net,
            files: Files::default(),
        }
    }

    /// A host with no network besides its loopback one, and with [`Usual`] choices.
    #[must_use]
    pub fn for_tests() -> Host {
        Host::new(Settings::default(), Box::new(Usual::default()))
    }

    /// The settings that it was given.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The time as the host was last told.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Time passes: whatever is due happens. Time does not go back.
    pub fn advance(&mut self, now: Time) {
        while let Some((due, alarm)) = self.alarms.first().copied().filter(|(due, _)| *due <= now) {
            self.now = self.now.max(due);
            self.alarms.pop_first();
            match alarm {
                Alarm::Thread(thread) => self.time_out(thread),
                Alarm::Timer(open) => self.timer_expired(open),
                Alarm::Tcp(socket) => self.tcp_alarm(socket),
            }
            self.settle_network();
        }
        self.now = self.now.max(now);
    }

    /// When something is due next: a thread that waits, a timer, a retransmission.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.alarms.first().map(|(due, _)| *due)
    }

    /// When something is due next that the program itself asked for, a retransmission not.
    #[must_use]
    pub fn next_deadline_of_program(&self) -> Option<Time> {
        let of_program = |(_, alarm): &&(Time, Alarm)| !matches!(alarm, Alarm::Tcp(_));
        self.alarms.iter().find(of_program).map(|(due, _)| *due)
    }

    /// The packets for other hosts, in the order of sending.
    pub fn take_packets(&mut self) -> Vec<Packet> {
        std::mem::take(&mut self.net.sent)
    }

    /// The value of a clock: the time since 1970, or since the machine was started.
    #[must_use]
    pub fn clock(&self, clock: ClockId) -> Duration {
        self.offset(clock) + Duration::from_nanos(self.now.0)
    }

    /// Random bytes.
    pub fn getrandom(&mut self, bytes: &mut [u8]) {
        self.choices.random(bytes);
    }

    /// The time at which a clock shows a value.
    pub(crate) fn time_at(&self, clock: ClockId, shown: Duration) -> Time {
        Time::ZERO + shown.saturating_sub(self.offset(clock))
    }

    fn offset(&self, clock: ClockId) -> Duration {
        let Clocks { epoch, skew, uptime } = self.settings.clocks;
        let skew_size = Duration::from_nanos(skew.unsigned_abs());
        match clock {
            ClockId::Monotonic => uptime,
            ClockId::Realtime if skew < 0 => epoch.saturating_sub(skew_size),
            ClockId::Realtime => epoch + skew_size,
        }
    }

    /// A decision, where there is one to make.
    pub(crate) fn choose(&mut self, label: &str, domain: u32) -> u32 {
        if domain < 2 {
            return 0;
        }
        let answer = self.choices.choose(label, domain);
        debug_assert!(answer < domain, "{label}: {answer} of {domain}");
        answer.min(domain - 1)
    }

    /// All of so many bytes, or only one, or half of them, if splits are choices.
    pub(crate) fn choose_size(&mut self, label: &str, all: usize) -> usize {
        if !self.settings.splits || all < 2 {
            return all;
        }
        match self.choose(label, if all > 2 { 3 } else { 2 }) {
            0 => all,
            1 => 1,
            _ => all / 2,
        }
    }
}

//! The control of hosts by the programs of a test: signals, and starting again.

use std::fmt;

use everhold_sys::Report;
use serde::Serialize;

/// A signal that an operator sends to a host's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Signal {
    /// `SIGTERM`: end in an orderly way.
    Terminate,
    /// `SIGINT`: as ctrl-c does.
    Interrupt,
    /// `SIGHUP`: by custom, read the configuration again.
    HangUp,
    /// `SIGUSR1`.
    User1,
    /// `SIGUSR2`.
    User2,
    /// `SIGQUIT`.
    Quit,
    /// `SIGKILL`: the process ends at once; its files keep what it wrote.
    Kill,
}

impl Signal {
    fn number(self) -> i32 {
        match self {
            Signal::Terminate => libc::SIGTERM,
            Signal::Interrupt => libc::SIGINT,
            Signal::HangUp => libc::SIGHUP,
            Signal::User1 => libc::SIGUSR1,
            Signal::User2 => libc::SIGUSR2,
            Signal::Quit => libc::SIGQUIT,
            Signal::Kill => libc::SIGKILL,
        }
    }
}

/// Sends a signal to the process of a host. It arrives after a while, as a message does. Only a
/// program that runs on a host, such as a client that plays the operator, can call this.
///
/// A process that has no handler for the signal ends; that is not a finding.
///
/// # Panics
///
/// If no host has the name.
pub fn signal(host: &str, signal: Signal) {
    everhold_sys::call(Report::Signal { host, signal: signal.number() });
}

/// Starts the process of a host again, on the disk as it is, as soon as it has ended.
///
/// # Panics
///
/// If no host has the name.
pub fn start(host: &str) {
    everhold_sys::call(Report::Start { host });
}

/// The action of an operator on a host.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Control {
    Signal(i32),
    Start,
}

/// The usual name of a signal.
pub(crate) fn name_of(signal: i32) -> String {
    match signal {
        libc::SIGTERM => "SIGTERM".to_owned(),
        libc::SIGINT => "SIGINT".to_owned(),
        libc::SIGHUP => "SIGHUP".to_owned(),
        libc::SIGUSR1 => "SIGUSR1".to_owned(),
        libc::SIGUSR2 => "SIGUSR2".to_owned(),
        libc::SIGQUIT => "SIGQUIT".to_owned(),
        libc::SIGKILL => "SIGKILL".to_owned(),
        libc::SIGABRT => "SIGABRT".to_owned(),
        other => format!("signal {other}"),
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Control::Signal(signal) => f.write_str(&name_of(*signal)),
            Control::Start => f.write_str("start"),
        }
    }
}

//! Why nothing can be attached to, where, and what to do.

use std::fmt;

/// The reason for which a program cannot be read or attached to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachError {
    /// The kind of the reason.
    pub kind: AttachErrorKind,
    /// Where: a file, a process, a function or a part of the kernel.
    pub place: String,
    /// A description of what is wrong at this place.
    pub text: String,
    /// The advice that tells the user how to remove the reason.
    pub remedy: &'static str,
}

/// The kinds of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AttachErrorKind {
    /// A capability is missing.
    NotAllowed,
    /// A process or a file is not there, or no longer.
    Absent,
    /// A file cannot be read, or is damaged, or made for another machine.
    Unreadable,
    /// A file is another one than the one that was planned for.
    Replaced,
    /// A limit of this process or of the kernel was reached.
    Limit,
    /// The kernel has no means for it.
    Unsupported,
    /// The kernel refuses for another reason.
    Refused,
}

impl AttachErrorKind {
    fn remedy(self) -> &'static str {
        match self {
            AttachErrorKind::NotAllowed => {
                "run as root, or with CAP_BPF and CAP_PERFMON (in a container, those of the host)"
            }
            AttachErrorKind::Absent => "look whether it still runs, and name it as it is now",
            AttachErrorKind::Unreadable => {
                "name an ELF file of x86-64 that may be read, with debug information that is whole"
            }
            AttachErrorKind::Replaced => "attach again",
            AttachErrorKind::Limit => {
                "raise the limit of open files (`ulimit -n`), or attach to fewer processes"
            }
            AttachErrorKind::Unsupported => "use Linux 6.6 or later, with BTF",
            AttachErrorKind::Refused => {
                "see with --dry-run what would be done, and leave that line out"
            }
        }
    }
}

impl AttachError {
    pub(crate) fn new(
        kind: AttachErrorKind,
        place: impl fmt::Display,
        text: impl fmt::Display,
    ) -> AttachError {
        let (place, text) = (place.to_string(), text.to_string());
        AttachError { kind, place, text, remedy: kind.remedy() }
    }
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.place, self.text, self.remedy)
    }
}

impl std::error::Error for AttachError {}

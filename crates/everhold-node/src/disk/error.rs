use std::fmt;

/// An answer of a disk that a node may have to live with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DiskError {
    /// A record that cannot be read as what was asked for.
    Unreadable {
        /// The record's name.
        record: String,
        /// The reason, as text.
        reason: String,
    },
    /// The disk failed (`EIO`).
    Failed {
        /// In which operation.
        operation: String,
    },
    /// The disk is full (`ENOSPC`).
    Full {
        /// In which operation.
        operation: String,
    },
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskError::Unreadable { record, reason } => write!(
                f,
                "record `{record}` is not what was saved ({reason}); a crash before `sync` may have \
                 torn it"
            ),
            DiskError::Failed { operation } => {
                write!(f, "input/output error (EIO) in `{operation}`")
            }
            DiskError::Full { operation } => {
                write!(f, "no space left on device (ENOSPC) in `{operation}`")
            }
        }
    }
}

impl std::error::Error for DiskError {}

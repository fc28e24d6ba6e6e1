//! Trace files: reading, writing, and what can be wrong with them.
//!
//! - [`native`]: Everhold's own format, JSON lines. Start with [`Writer`] and [`read_all`].
//! - [`error`]: the diagnostics, the same for every format.
//!
//! Every reader is strict unless told otherwise: the first thing that is wrong ends it with the
//! line and what was expected. A lenient reader leaves out what is broken, keeps whole events
//! before and after it, and lists what it left out.

pub mod error;
pub(crate) mod input;
pub mod native;

pub use error::{Diagnostic, DiagnosticKind, ReadError};
pub use input::ReadOptions;
#[cfg(feature = "zstd")]
pub use input::decompressed;
pub use native::{Executions, Item, Reader, TraceFile, Writer, read_all};

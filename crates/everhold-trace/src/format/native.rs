//! The native format: JSON lines, version 1. `docs/trace-format.md` describes it for people.
//!
//! ```
//! use everhold_trace::format::{ReadOptions, Writer, read_all};
//! use everhold_trace::{EventKind, TraceBuilder};
//!
//! let mut trace = TraceBuilder::new();
//! let a = trace.add_node("a", "server");
//! trace.begin(a, EventKind::Start);
//! let execution = trace.finish();
//!
//! let mut writer = Writer::new(Vec::new());
//! writer.execution(&execution)?;
//! let file = writer.finish()?;
//!
//! let recording = read_all(file.as_slice(), &ReadOptions::strict())?;
//! assert_eq!(recording.executions, [execution]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod read;
mod wire;
mod write;

pub use read::{Executions, Item, Reader, TraceFile, read_all};
pub use write::Writer;

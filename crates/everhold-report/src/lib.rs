//! Executions as a person sees them: findings as HTML pages, one file each, which work without a
//! server and without a network, and [pictures](picture::Picture) for terminals.
//!
//! A [`Page`] is plain data: facts, commands, [properties](PropertyView), executions,
//! [charts](Chart) and [tables](Table). The code that makes a finding fills a page; [`Page::html`]
//! puts the data into the page's own script, which draws it. [`live_page`] follows a watch.
//! Recorded text never becomes markup.
//!
//! ```
//! use everhold_report::{Kind, Page, Window};
//! use everhold_trace::{EventKind, TraceBuilder, Value};
//!
//! let mut trace = TraceBuilder::new();
//! let node = trace.add_node("server", "server");
//! trace.begin(node, EventKind::Start);
//! trace.observe(Value::record([("term", 1)]));
//!
//! let mut page = Page::new(Kind::Violation, "terms stay at zero", "my_test");
//! page.command("replay", "EVERHOLD_REPLAY=1f2e cargo test my_test");
//! page.execution("the execution", &trace.finish(), &Window::default());
//! assert!(page.html().contains("terms stay at zero"));
//! ```
//!
//! [`picture`] draws an execution for a terminal, as in the report of a failing test.
//!
//! - `page`: the data of a page; `execution`: an execution as the page's script reads it; `judge`:
//!   a property's verdict at every event; `html`: data and script in one file.

mod execution;
mod html;
mod judge;
mod page;
pub mod picture;

pub use execution::Window;
pub use html::live_page;
pub use judge::{judged, pairs};
pub use page::{Axis, Chart, Form, Kind, Line, Link, Page, PropertyView, Row, Series, Table, Unit};

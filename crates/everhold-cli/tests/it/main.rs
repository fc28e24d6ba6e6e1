//! The program, as a user runs it, and the rules of the workspace.
//!
//! - `program`: how it is run here; the demo, help, wrong use.
//! - `check`: properties judged on real traces of other projects and on small ones.
//! - `infer`: properties from traces.
//! - `convert`, `show`: the other ways to look at a trace.
//! - `perf`: slow executions of bundled systems.
//! - `bad_input`: what cannot be used is refused with its place, a remedy and code 64.
//! - `watch`: rules on a running system; `watch_probe`: processes with probes, watched;
//!   `watch_bad_input`: strangers; `watch_tls`: the same over TLS, with certificates that are wrong.
//! - `live`: hosted nodes, watched and replayed.
//! - `view`: pages, written and served; a first test; a finding as a test.
//! - `schema`: what `--json` prints is as published.
//! - `workspace`: what may depend on what; leftovers; what the documents mention exists.
//!
//! Whole screens are in `testdata/golden`; `EVERHOLD_UPDATE=1 cargo test -p everhold-cli` rewrites
//! them.

mod bad_input;
#[path = "../../../everhold-tls/tests/it/certificates.rs"]
mod certificates;
mod check;
mod convert;
mod infer;
mod live;
mod perf;
mod program;
mod schema;
mod show;
mod view;
mod watch;
mod watch_bad_input;
mod watch_probe;
mod watch_tls;
mod workspace;

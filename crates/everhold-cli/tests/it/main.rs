//! The program, as a user runs it, and the rules of the workspace.
//!
//! - `program`: how the tests run it; the demo, help, wrong usage.
//! - `check`: properties judged on real traces of other projects and on small ones.
//! - `infer`: properties from traces.
//! - `convert`, `show`: the other ways to look at a trace.
//! - `perf`: slow executions of bundled systems.
//! - `bad_input`: unusable input is refused with its place, a remedy and code 64.
//! - `watch`: rules on a running system; `watch_probe`: processes with probes, watched;
//!   `watch_bad_input`: malformed and hostile connections; `watch_tls`: TLS, with right and wrong
//!   certificates.
//! - `live`: hosted nodes, watched and replayed.
//! - `sdk`: the probes in Go and Python; `instrument`: variables found in the source of packages, and
//!   recorded.
//! - `view`: pages, written and served; a first test; a finding as a test.
//! - `schema`: the output of `--json` conforms to the published schema.
//! - `workspace`: permitted dependencies; leftovers; names in the documents exist.
//!
//! Whole screens are in `testdata/golden`; `EVERHOLD_UPDATE=1 cargo test -p everhold-cli` rewrites
//! them.

mod attach;
mod bad_input;
#[path = "../../../everhold-tls/tests/it/certificates.rs"]
mod certificates;
mod check;
mod convert;
mod infer;
mod instrument;
mod live;
mod one_meaning;
mod perf;
mod program;
mod publishing;
mod schema;
mod sdk;
mod show;
mod sizes;
mod view;
mod watch;
mod watch_bad_input;
mod watch_probe;
mod watch_tls;
mod workspace;

//! The tests of the property language, in one binary.
//!
//! Golden files are rewritten by `EVERHOLD_UPDATE=1 cargo test -p everhold-property`.

mod checker; // properties over sequences of states
mod eval; // the meaning of each form, on small states
mod execution; // recorded executions, against all cuts one by one
mod fuzz; // no text makes the parser panic or hang, or leaves a hole without a diagnostic
mod golden; // testdata/{ok,err}: canonical form and error messages
mod random; // generators with fixed seeds, used by the others
mod reference; // the page that describes the language
mod roundtrip; // parse(print(p)) == p
mod twin; // the compiled evaluator against the plain one
mod types; // type checking and its messages
mod untested; // claims that hold without a case

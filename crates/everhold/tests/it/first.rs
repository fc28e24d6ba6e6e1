//! The test that `everhold init` writes compiles and passes.

include!("../../../everhold-cli/src/cmd/init/first_test.rs");

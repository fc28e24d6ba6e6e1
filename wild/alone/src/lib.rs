//! What was found in crates that people use, reproduced with those crates alone: see the tests.
//!
//! Each test asserts what the affected version does, prints what it should do, and fails as soon as
//! a version no longer does it.

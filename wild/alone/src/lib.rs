//! Reproductions without Everhold: see the tests.

//! Traces for other tools.

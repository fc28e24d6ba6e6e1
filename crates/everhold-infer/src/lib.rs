//! Traces to properties: what always held, and what almost always did.

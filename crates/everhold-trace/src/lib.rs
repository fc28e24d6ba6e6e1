//! What happened: values, events, clocks, traces, cuts and file formats.

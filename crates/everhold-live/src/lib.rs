//! Inside a deployed process: nodes on real sockets, probes, recordings, assertions.

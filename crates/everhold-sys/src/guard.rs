//! The guard against calls that bypass the C library.

/// Says whether system calls go straight to the kernel, or are those of a host.
#[inline]
pub(crate) fn let_through(_through: bool) {}

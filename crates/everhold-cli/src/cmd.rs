//! The commands, one file each.

pub(crate) mod attach;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod demo;
pub(crate) mod emit_test;
pub(crate) mod findings;
pub(crate) mod help;
pub(crate) mod infer;
pub(crate) mod init;
pub(crate) mod instrument;
pub(crate) mod perf;
pub(crate) mod replay;
pub(crate) mod replay_live;
pub(crate) mod show;
pub(crate) mod view;
pub(crate) mod watch;

//! The parts that another engine for the same systems shares with the explorer: the parts of a
//! system and its properties, tokens, regressions files, budgets from the environment, the folder
//! for findings.
//!
//! This module is not part of the interface for tests, and may change with every version.

pub use crate::artifacts::{bytes, file_name, folder, write_whole};
pub use crate::clock::Stopwatch;
pub use crate::env::node_id;
pub use crate::execute::{Panic, attempt, quietly};
pub use crate::explore::{BadOption, number, scale};
pub use crate::halt::{EFFECTS_MAX, Halt, too_much};
pub use crate::interrupt::requested as is_interrupted;
pub use crate::links::{Line, Spared};
pub use crate::monitor::MonitorSlot;
pub use crate::properties::{Names, Properties, read as read_properties};
pub use crate::record::{Room, payload};
pub use crate::regressions::{Kept, Known, TestId, Token, keep, load, replay_asked_for};
pub use crate::scene::{Scene, Stage};
pub use crate::schedule::{Decoder, Encoder, MAKES_NO_SENSE, seal, unseal};
pub use crate::system::{Parts, Rule};

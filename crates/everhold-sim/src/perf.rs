//! Executions that take far longer than they should: finding them, and saying why.
//!
//! In reading order:
//!
//! - `sample`, `modes`, `dip`, `multiples`, `detect`: which of many executions are slow.
//! - `divergence`: since when one was lost.
//! - `rank`, `correlate`, `normal`, `paired`: what goes together, and how sure that is.
//! - `mace`: the same questions as MacePC answers them, as a baseline.

mod correlate;
mod detect;
mod dip;
mod divergence;
mod mace;
mod modes;
mod multiples;
mod normal;
mod paired;
mod rank;
mod sample;

pub use correlate::{Correlation, Features, correlate};
pub use detect::{Detection, Fired, Measured};
pub use dip::{Dip, dip_test};
pub use divergence::{Curve, Effort, Fall, Point, Walks};
pub use mace::{Divergence, Frequency, Training, divergence as mace_divergence, frequencies};
pub use modes::{Mode, modes, normal as normal_mode};
pub use multiples::{Multiples, TimerPeriod, multiples};
pub use normal::Share;
pub use paired::{Comparison, compare};
pub use rank::{believable, pearson, spearman};
pub use sample::{Sample, TailRatio};

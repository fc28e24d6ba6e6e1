//! placeholder
use crate::strategy::{About, Reduction, Run, Strategy};
use crate::moves::Moves;
use everhold_node::NodeId;
/// How far an exhaustive search came.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {}
/// Every execution.
#[derive(Debug)]
pub struct Exhaustive {}
impl Exhaustive { /// New.
 pub fn new(_: Reduction) -> Self { Exhaustive{} } }
impl Strategy for Exhaustive {
    fn begin(&mut self, _: &Run) {}
    fn pick(&mut self, _: &Moves, _: &dyn About) -> Option<u32> { None }
    fn choose(&mut self, _: NodeId, _: &str, _: u32) -> Option<u32> { None }
}
impl std::fmt::Display for Progress { fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { Ok(()) } }

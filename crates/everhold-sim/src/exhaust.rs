//! Every execution, on one thread.
use everhold_node::Message;
use crate::explore::Options;
use crate::report::Report;
use crate::strategy::Reduction;
use crate::worker::Setup;
pub(crate) fn exhaust<M: Message>(_: &Setup<M>, _: &Options, _: Reduction, _: &mut Report) {}

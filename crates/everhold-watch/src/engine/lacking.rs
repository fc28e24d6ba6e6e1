//! Nodes of which something remains unknown although they could tell it.
//!
//! A probe tells everything again when it reconnects, when it dropped records, and after its process was
//! stopped. It does not notice that its frames came late, so that it was given up, or that what it
//! sent was not believed. So a node that stays unknown is asked.

use std::collections::BTreeMap;

use everhold_trace::NodeId;

use super::PartitionStatus;

/// For how many looks in a row something was unknown of each node.
#[derive(Debug, Default)]
pub(super) struct Lacking(BTreeMap<NodeId, u32>);

impl Lacking {
    /// Looks at the nodes; returns those to be asked: of which something was unknown at the last look
    /// too, and after that each time when it has been so for twice as many looks.
    pub(super) fn look<'s>(
        &mut self,
        partitions: impl Iterator<Item = &'s PartitionStatus>,
    ) -> Vec<NodeId> {
        let before = std::mem::take(&mut self.0);
        let members = partitions.flat_map(|status| &status.members);
        for member in members.filter(|member| member.can_tell_more) {
            let node = member.member.id;
            self.0.insert(node, before.get(&node).map_or(1, |looks| looks + 1));
        }
        let is_due = |(_, looks): &(&NodeId, &u32)| **looks > 1 && looks.is_power_of_two();
        self.0.iter().filter(is_due).map(|(node, _)| *node).collect()
    }
}

#[cfg(test)]
mod tests {
    use everhold_property::Member;

    use super::*;
    use crate::engine::MemberStatus;

    /// At which looks a node is asked that lacks something at these.
    #[track_caller]
    fn check(lacks: impl Fn(usize) -> bool, asked: &[usize]) {
        let mut lacking = Lacking::default();
        let is_asked = |look: &usize| {
            let member = MemberStatus {
                member: Member::new(NodeId(7), "n7", "server"),
                known: !lacks(*look),
                can_tell_more: lacks(*look),
                clock: None,
                strays: false,
            };
            let status =
                PartitionStatus { members: vec![member.clone()], ..PartitionStatus::default() };
            lacking.look([&status, &status].into_iter()) == [NodeId(7)]
        };
        let found: Vec<usize> = (1..=40).filter(is_asked).collect();
        assert_eq!(found, asked);
    }

    #[test]
    fn who_stays_unknown_is_asked_less_and_less() {
        check(|_| false, &[]);
        check(|look| look % 2 == 0, &[]);
        check(|look| look == 5 || look == 6, &[6]);
        check(|_| true, &[2, 4, 8, 16, 32]);
        check(|look| look != 10, &[2, 4, 8, 12, 14, 18, 26]);
    }
}

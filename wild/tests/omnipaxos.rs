//! OmniPaxos: what snapshots lose is found, and without snapshots there is nothing to find.

use everhold::prelude::*;
use everhold_wild::omnipaxos::{AGREEMENT, COMPLETENESS, STABILITY, system};

/// Measured with `omnipaxos` 0.2.4: found in executions 1 to 123 on all of these seeds.
#[test]
fn a_delta_snapshot_loses_decided_entries() {
    for seed in 1..=5 {
        let report = Explorer::new().seed(seed).executions(5_000).run(system::<true>);
        let finding = report.finding().unwrap_or_else(|| panic!("seed {seed}\n{report}"));
        let property = finding.failure.cause.name();
        assert!([AGREEMENT, COMPLETENESS, STABILITY].contains(&property), "{report}");
        println!("{report}");
    }
}

#[test]
fn without_snapshots_there_is_nothing_to_find() {
    Explorer::new().executions(2_000).run(system::<false>).assert_holds();
}

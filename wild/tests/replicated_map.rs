//! `crdts`: a stale state brings back what was overwritten, and with one key alone it does not.

use everhold::prelude::*;
use everhold_wild::replicated_map::{STALE, system};

/// Measured with `crdts` 7.3.2: found in executions 3 to 164 on all of these seeds.
#[test]
fn a_stale_state_brings_back_an_overwritten_value() {
    for seed in 1..=5 {
        let report = Explorer::new().seed(seed).executions(2_000).run(system(2, false));
        let finding = report.finding().unwrap_or_else(|| panic!("seed {seed}\n{report}"));
        assert_eq!(finding.failure.cause.name(), STALE, "{report}");
        println!("{report}");
    }
}

#[test]
fn with_one_key_and_no_removals_there_is_nothing_to_find() {
    Explorer::new().executions(500).run(system(1, false)).assert_holds();
}

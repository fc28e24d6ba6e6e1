//! Systems that make progress although their timers never stop: no finding without their bugs at
//! any size, and a finding with them.

use everhold::prelude::*;
use everhold_systems::progress::Family;

// Every second execution of the rarest bug shows it, so 200 executions miss it with a probability
// of 1e-60.
#[test]
fn progress_is_judged_rightly_at_every_size() {
    for family in Family::ALL {
        for nodes in [3, 5, 7] {
            let explorer = Explorer::new().regressions(false);
            let correct = family.explore(nodes, false, explorer.clone().executions(40));
            assert!(correct.findings.is_empty(), "{family:?} with {nodes} nodes\n{correct}");
            assert_eq!(correct.unjudged, 0, "{family:?} with {nodes} nodes\n{correct}");
            for clocks in [Clocks::Shared, Clocks::Drift { max_ppm: 100_000 }] {
                let tied = family.explore_on(clocks, nodes, false, explorer.clone().executions(40));
                assert!(tied.findings.is_empty(), "{family:?} with {nodes} nodes\n{tied}");
                assert_eq!(tied.unjudged, 0, "{family:?} with {nodes} nodes\n{tied}");
            }
            let wrong = family.explore(nodes, true, explorer.executions(200));
            assert!(!wrong.findings.is_empty(), "{family:?} with {nodes} nodes\n{wrong}");
        }
    }
}

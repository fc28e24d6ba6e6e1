//! `crdts`: a set of which nothing is found.

use everhold::prelude::*;
use everhold_wild::replicated_set::system;

#[test]
fn a_set_ignores_stale_states() {
    Explorer::new().executions(300).run(system).assert_holds();
}

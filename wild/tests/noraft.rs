//! noraft: nothing is found.

use everhold::prelude::*;
use everhold_wild::noraft::system;

#[test]
fn raft_keeps_its_promises() {
    Explorer::new().executions(1_000).steps(300).run(system).assert_holds();
}

//! foca: nothing is found.

use everhold::prelude::*;
use everhold_wild::foca::system;

#[test]
fn members_keep_what_they_know() {
    Explorer::new().executions(1_000).steps(400).run(system).assert_holds();
}

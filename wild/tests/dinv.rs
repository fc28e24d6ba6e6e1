//! Dinv's three invariants of Raft (Table 2 of its paper), inferred from executions of `noraft`:
//! among the first lines of the first run with default settings.

use everhold::infer::{Settings, always};
use everhold::prelude::*;
use everhold::property::print;
use everhold_wild::noraft::system;

/// The number of lines that a reader looks at. Measured: places 18, 1 and 8 with `noraft` 0.7.1.
const LINES: usize = 20;

#[test]
fn strong_leader_log_matching_and_leader_agreement() {
    let explorer = Explorer::new().search(Search::Random).executions(600).steps(150);
    let report = explorer.traces(600).regressions(false).run(system);
    let traces: Vec<_> = report.traces.iter().collect();
    let found = always(&traces, &Settings::default());
    let lines = found.lines.iter().map(|line| {
        let text = print(&line.property).replacen(&format!("{:?}", line.property.name), "", 1);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    });
    let lines: Vec<String> = lines.collect();
    println!("{}", lines.join("\n"));
    let pair = "forall a, b in server nodes where a != b:";
    let claims = [
        "always on delivery: kind(sender) == \"server\" and kind(receiver) == \"server\" and \
         receiver.role == \"Leader\" implies sender.commit <= len(receiver.log)"
            .to_owned(),
        format!("always : {pair} len(a.applied) == len(b.applied) implies a.applied == b.applied"),
        format!(
            "always : {pair} a.role == \"Leader\" and a.term == b.term implies b.role != \"Leader\""
        ),
    ];
    for claim in claims {
        let place = lines.iter().position(|line| *line == claim);
        println!("{place:?} {claim}");
        assert!(place.is_some_and(|place| place < LINES), "{claim}");
    }
}

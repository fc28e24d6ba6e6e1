//! The systems of the MacePC paper: one large execution, and one whole analysis.

use everhold::perf::Perf;
use everhold_systems::{bullet, pastry};

use crate::measure::{Bound, Scorecard, Size, cpu_seconds};
use crate::table::Table;

/// Bullet' with 20 MB for 100 nodes; MacePC needed 18 s for an execution.
pub(crate) fn bullet(size: Size, scores: &mut Scorecard) {
    let nodes = size.pick(10, 100);
    let executions = size.pick(1, 20);
    let mut table = Table::new(&["Bullet', 20 MB", "simulated s", "events", "CPU-s an execution"]);
    for bug in [bullet::Bug::DiffsWithData, bullet::Bug::None] {
        let mut sim = bullet::timed(nodes, bullet::File::LARGE, bug, 20.0).sim();
        let before = cpu_seconds();
        let runs: Vec<_> = (0..executions).map(|seed| sim.run(seed)).collect();
        let each = (cpu_seconds() - before) / executions as f64;
        let simulated: f64 = runs.iter().map(|run| run.time.as_secs_f64()).sum();
        let events: u64 = runs.iter().map(|run| run.events).sum();
        table.row(vec![
            format!("{bug:?}"),
            format!("{:.2}", simulated / executions as f64),
            (events / executions).to_string(),
            format!("{each:.3}"),
        ]);
        let claim = format!("CPU-seconds of a 20 MB execution of Bullet' ({bug:?})");
        scores.hold(claim, each, Bound::AtMost(0.1));
    }
    table.print(&format!("Bullet' with {nodes} nodes"));
}

/// Pastry from training to causes; MacePC needed 1 to 22 hours for a divergence point alone.
pub(crate) fn pastry(size: Size, scores: &mut Scorecard) {
    let nodes = size.pick(10, 40);
    let timed = pastry::timed(nodes, pastry::Bug::SilentEviction);
    let before = cpu_seconds();
    let durations = timed.train(size.pick(1, 10));
    let mut perf = Perf::new(timed.durations(durations)).workers(2);
    if matches!(size, Size::Smoke) {
        perf = perf.executions(5);
    }
    let report = perf.run();
    let cores = (cpu_seconds() - before) / 2.0;
    println!("{report}");
    scores.hold("CPU-seconds on each of 2 cores for Pastry, whole", cores, Bound::AtMost(60.0));
}

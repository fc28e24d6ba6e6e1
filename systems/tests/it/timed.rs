//! The report of the MacePC paper's first system: its text, and the data of its pictures.

use everhold::perf::{Finding, Perf, PerfReport, PerfVerdict, SpaceTime};
use everhold_systems::randtree::Bug;
use everhold_systems::timed::randtree;

fn run(nodes: usize, bug: Bug) -> PerfReport {
    Perf::new(randtree(nodes, bug)).executions(150).run()
}

/// Figure 1 of the paper: the answer comes after another node's request.
#[test]
fn randtrees_race_is_named() {
    let report = run(4, Bug::ForgetsJoin);
    let because = report.finding().and_then(Finding::because).expect("a cause");
    assert!(because.contains("Accepted") && because.contains("arrived after Join"), "{because}");
    assert!(report.correlations.iter().any(|c| c.what.contains("Remove")), "{report}");
}

#[test]
fn the_fixed_tree_is_fast() {
    for nodes in [4, 8, 20] {
        let report = run(nodes, Bug::None);
        assert_eq!(report.verdict(), PerfVerdict::NoneSlow, "{nodes} nodes: {report}");
        assert!(report.detection.times.quantile(1.0) < 1.0, "{report}");
    }
}

/// All data that a page draws are present and consistent.
#[test]
fn every_picture_has_its_data() {
    let report = run(4, Bug::ForgetsJoin);
    let plots = report.plots();
    let times = plots.distribution.times.sorted();
    assert_eq!((times.len(), &plots.timer_multiples[..]), (150, &[10.0, 20.0][..]));
    let scatter = plots.correlations.first().expect("something goes along");
    assert_eq!(scatter.counts.len(), plots.correlation_times.len());
    assert!(scatter.r.abs() > 0.2 && scatter.p_value < 0.01, "{report}");
    let finding = plots.findings.first().expect("it is slow");
    let curve = &finding.good_curve;
    assert!(curve.len() > 5 && curve.windows(2).all(|pair| pair[0].after < pair[1].after));
    assert!(curve.iter().all(|p| p.low <= p.good && p.good <= p.high), "{curve:?}");
    let shares: f64 = finding.path_shares.iter().map(|(_, share)| share).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{:?}", finding.path_shares);
    assert_eq!(finding.path_shares[0].0, "timer recovery");
    let fast = finding.nearest.as_ref().expect("some are fast");
    assert!(finding.slow.ends_at > 9.0 && fast.ends_at < 1.0, "{report}");
    for picture in [&finding.slow, fast] {
        assert!(!picture.events.is_empty() && !picture.messages.is_empty());
        assert!(picture.messages.iter().all(|message| message.sent <= message.arrives));
        assert!(picture.events.iter().all(|event| (event.node as usize) < plots.nodes.len()));
    }
    // Up to their common zero the two executions are equal.
    let before = |picture: &SpaceTime<'_>| {
        let early = picture.events.iter().filter(|event| event.start < 0.0);
        early.map(|event| (event.node, event.kind.to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(before(&finding.slow), before(fast));
}

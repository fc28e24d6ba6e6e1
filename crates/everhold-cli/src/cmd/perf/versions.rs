//! The comparison of two versions of a system, as text.

use std::fmt::Write;

use everhold::perf::{Sample, Versions, VersionsVerdict};

/// The comparison, with the version first and then its reference.
pub(super) fn text(found: &Versions, [version, reference]: &[String; 2]) -> String {
    let seeds = &found.comparison;
    let ratio = match seeds.ratio {
        ratio if ratio >= 1.0 => format!("{ratio:.2} times as long as"),
        ratio => format!("{:.2} times less than", 1.0 / ratio.max(1e-9)),
    };
    let verdict = match found.verdict() {
        VersionsVerdict::Slower => "✗ SLOWER    ",
        VersionsVerdict::NotSlower => "✓ not slower",
        VersionsVerdict::Unknown => "? UNKNOWN   ",
    };
    let mut out = String::new();
    let _ = writeln!(out, "{verdict} {version} takes {ratio} {reference} on the same seeds");
    for (name, times) in [(version, &found.version), (reference, &found.reference)] {
        let _ = writeln!(out, "    {}  {name}", times_of(times));
    }
    let _ = writeln!(
        out,
        "    seeds        slower on {} of {}, faster on {} (Wilcoxon, p {:.4})",
        seeds.slower, seeds.pairs, seeds.faster, seeds.p_value
    );
    if found.verdict() != VersionsVerdict::Slower && seeds.ratio_max.is_finite() {
        let most = seeds.ratio_max;
        let _ = writeln!(
            out,
            "    median       at most {most:.2} times as long with 95 % confidence; below 1.05 is not slower"
        );
    }
    for (name, unfinished) in [(version, found.unfinished), (reference, found.reference_unfinished)]
    {
        if unfinished > 0 {
            let _ = writeln!(out, "    unfinished   {name}: {unfinished}");
        }
    }
    if seeds.pairs < 8 {
        let _ = writeln!(out, "    too few      8 pairs at least: see `--executions`");
    }
    out
}

fn times_of(times: &Sample) -> String {
    let at = |q: f64| format!("{:.3} s", times.quantile(q));
    format!("p50 {}, p90 {}, most {}", at(0.5), at(0.9), at(1.0))
}

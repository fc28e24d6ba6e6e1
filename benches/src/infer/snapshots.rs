//! Daikon's workload: a table of snapshots with 6 whole numbers per node, most of them related.
//!
//! Daikon 5.8.25 takes 3.9 s and 0.9 GiB for 100,000 samples of 5 nodes, 27.8 s for a million, and
//! prints 9,203 lines at 40 nodes (measured on the machine of these benches, text input).

use std::fmt::Write as _;
use std::fs;

use everhold_infer::{Settings, Snapshots, always_snapshots};

use super::{Random, timed};
use crate::measure::{Bound, Scorecard, Size};
use crate::table::Table;

/// The numbers of nodes and of samples.
const FULL: [(u64, u64); 3] = [(5, 100_000), (5, 1_000_000), (40, 10_000)];
const SMOKE: [(u64, u64); 2] = [(5, 2_000), (40, 200)];

/// The relations in the generated data, which must be among the lines.
const INTENDED: [&str; 5] = [
    "a.is_leader == 1 implies a.term >= b.term",
    "a.is_leader == 1 implies a.commit >= b.commit",
    "a.is_leader == 1 implies a.len >= b.len",
    "a.leader == b.leader",
    "n.commit <= n.len",
];

pub(super) fn run(size: Size, scores: &mut Scorecard) {
    let workloads: &[(u64, u64)] = size.pick(&SMOKE, &FULL);
    let mut table =
        Table::new(&["nodes x samples", "MB", "reading", "all", "peak MiB", "lines", "intended"]);
    for &(nodes, samples) in workloads {
        let path = std::env::temp_dir().join(format!("everhold-snapshots-{nodes}-{samples}.csv"));
        fs::write(&path, generate(nodes, samples)).expect("the table can be written");
        let megabytes = fs::metadata(&path).map_or(0, |file| file.len()) as f64 / 1e6;
        let (read, reading) = timed(|| {
            let file = fs::File::open(&path).expect("it was just written");
            Snapshots::read_from(file).expect("it can be read").expect("it is a plain table")
        });
        let settings = Settings::default().threads(1);
        let (found, searching) = timed(|| always_snapshots(&read, &settings));
        let _ = fs::remove_file(&path);
        let claims: Vec<String> = found
            .lines
            .iter()
            .map(|line| everhold_property::print_expr(&line.property.body))
            .collect();
        let told = |wanted: &&&str| claims.iter().any(|claim| claim.ends_with(**wanted));
        let intended = INTENDED.iter().filter(told).count();
        let (all, peak) = (reading + searching, peak_mebibytes());
        table.row(vec![
            format!("{nodes} x {samples}"),
            format!("{megabytes:.0}"),
            format!("{reading:.2} s"),
            format!("{all:.2} s"),
            format!("{peak:.0}"),
            found.lines.len().to_string(),
            format!("{intended} of {}", INTENDED.len()),
        ]);
        let what = format!("{nodes} nodes x {samples} samples");
        if samples == 1_000_000 {
            scores.hold(format!("{what}: seconds"), all, Bound::AtMost(1.0));
            scores.hold(format!("{what}: GiB"), peak / 1024.0, Bound::AtMost(1.0));
        }
        scores.hold(format!("{what}: lines"), found.lines.len() as f64, Bound::AtMost(25.0));
        if size == Size::Full {
            scores.hold(format!("{what}: relations told"), intended as f64, Bound::AtLeast(5.0));
        }
    }
    table.print("Snapshots: a table of whole numbers, one core, file included");
}

/// A leader is ahead of its followers in term, log and commit index; all nodes know it; the rest is
/// noise.
fn generate(nodes: u64, samples: u64) -> String {
    let mut random = Random(1);
    let mut text = String::from("snapshot,node,term,commit,len,leader,is_leader,noise\n");
    let (mut term, mut len) = (1, 0);
    for sample in 0..samples {
        term += u64::from(random.below(50) == 0);
        len += random.below(3);
        let (leader, commit) = (term % nodes, len.saturating_sub(random.below(20)));
        for node in 0..nodes {
            let ahead = node == leader;
            let lag = |random: &mut Random, most: u64| if ahead { 0 } else { random.below(most) };
            let own_len = len.saturating_sub(lag(&mut random, 30));
            let own_commit = commit.saturating_sub(lag(&mut random, 30)).min(own_len);
            let own_term = term.saturating_sub(lag(&mut random, 3));
            let (flag, noise) = (u64::from(ahead), random.below(1_000_000));
            let _ = writeln!(
                text,
                "{sample},n{node},{own_term},{own_commit},{own_len},{leader},{flag},{noise}"
            );
        }
    }
    text
}

/// The peak memory of this process.
fn peak_mebibytes() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
    kibibytes.unwrap_or(0.0) / 1024.0
}

//! For other programs: metrics, status, control, webhooks.
//!
//! A small HTTP listener with `GET /metrics` (Prometheus), `GET /status.json`, the traces of
//! violations, `GET /rules` and `PUT /rules`; and alerts posted in the format of Alertmanager's
//! webhooks.

use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;

use crate::engine::{MemberStatus, Watch};
use crate::intake::IntakeCounts;
use crate::rule::RuleStatus;

mod access;
mod http;
mod status;
mod webhook;

pub use access::is_address;
pub use http::{Pages, Served, ask, ask_over, serve, serve_over};
pub use status::{RuleStanding, Standing, status};
pub use webhook::{BadAddress, Webhook, alert};

/// The metrics of a watch, in Prometheus' text format.
#[must_use]
pub fn metrics(watch: &Watch, intake: Option<&IntakeCounts>) -> String {
    let mut text = String::new();
    let status = watch.status();
    let mut family = |name: &str, kind: &str, help: &str, rows: Vec<(String, f64)>| {
        let _ = writeln!(text, "# HELP everhold_{name} {help}\n# TYPE everhold_{name} {kind}");
        for (labels, value) in rows {
            let _ = writeln!(text, "everhold_{name}{labels} {value}");
        }
    };
    let rules = |value: &dyn Fn(&RuleStatus) -> f64| {
        let rows = status.iter().flat_map(|(partition, status)| {
            status.rules.iter().map(move |(rule, counts)| (partition, rule, counts))
        });
        let rows = rows.map(|(partition, rule, counts)| {
            let labels = format!("{{rule=\"{}\",partition=\"{partition}\"}}", escaped(rule));
            (labels, value(counts))
        });
        rows.collect::<Vec<_>>()
    };
    let partitions = |value: &dyn Fn(&crate::engine::PartitionStatus) -> f64| {
        let label = |partition| format!("{{partition=\"{partition}\"}}");
        status.iter().map(|(p, status)| (label(p), value(status))).collect::<Vec<_>>()
    };
    family(
        "evaluations_total",
        "counter",
        "Snapshots judged.",
        rules(&|r| r.counts.evaluations as f64),
    );
    family("unknown_total", "counter", "Of these, undecided.", rules(&|r| r.counts.unknown as f64));
    family(
        "violations_total",
        "counter",
        "Violations begun.",
        rules(&|r| r.counts.violations as f64),
    );
    let possible = rules(&|r| r.counts.possible as f64);
    family("violations_possible_total", "counter", "Not certain, clocks being inexact.", possible);
    family("violations_firing", "gauge", "Violations that go on.", rules(&|r| r.firing as f64));
    family(
        "rule_disabled",
        "gauge",
        "1 if too expensive.",
        rules(&|r| f64::from(u8::from(r.disabled))),
    );
    let standing = Standing::of(watch, intake);
    let is_unknown = |rule: &RuleStanding| {
        let unknown = rule.verdict == everhold_property::Verdict::Unknown;
        (format!("{{rule=\"{}\"}}", escaped(&rule.name)), f64::from(u8::from(unknown)))
    };
    let unknown = standing.rules.iter().map(is_unknown).collect();
    family("rule_unknown", "gauge", "1 if nobody can say whether it holds.", unknown);
    let failing = vec![(String::new(), standing.failing.len() as f64)];
    family("failing", "gauge", "Parts of the watch that do not work.", failing);
    let seconds = rules(&|r| r.counts.nanos as f64 / 1e9);
    family("evaluation_seconds_total", "counter", "Time spent judging.", seconds);
    let lag = partitions(&|p| p.lag_micros as f64 / 1e6);
    family("lag_seconds", "gauge", "From arrival to judgement.", lag);
    family("records_total", "counter", "Records.", partitions(&|p| p.counts.records as f64));
    family("late_total", "counter", "Records too late.", partitions(&|p| p.counts.late as f64));
    family("dropped_total", "counter", "Records lost.", partitions(&|p| p.counts.dropped as f64));
    family("gaps_total", "counter", "Gaps in batches.", partitions(&|p| p.counts.gaps as f64));
    let ahead = partitions(&|p| p.counts.ahead as f64);
    family("clock_ahead_total", "counter", "Records with impossible stamps.", ahead);
    // Membership is the same in all partitions.
    let members = status.values().next().map_or(&[][..], |status| &status.members);
    let clocks = |value: &dyn Fn(&MemberStatus) -> Option<f64>| {
        let label = |m: &MemberStatus| format!("{{node=\"{}\"}}", escaped(&m.member.name));
        let row = |member: &MemberStatus| Some((label(member), value(member)?));
        members.iter().filter_map(row).collect::<Vec<_>>()
    };
    let ahead = clocks(&|m| m.clock.map(|clock| clock.ahead as f64 / 1e6));
    family("node_clock_ahead_seconds", "gauge", "Of the watch's clock.", ahead);
    let error = clocks(&|m| m.clock.map(|clock| clock.error as f64 / 1e6));
    family("node_clock_error_seconds", "gauge", "How exact its stamps are.", error);
    let strays = clocks(&|m| m.clock.map(|_| f64::from(u8::from(m.strays))));
    family("node_clock_strays", "gauge", "1 if its clock disagrees with most.", strays);
    let own = partitions(&|p| f64::from(u8::from(p.own_clock_strays)));
    family("clock_strays", "gauge", "1 if the watch's own clock does.", own);
    family("nodes", "gauge", "Nodes that are up.", partitions(&|p| p.sizes.1 as f64));
    family("state_keys", "gauge", "Keys in the snapshot.", partitions(&|p| p.sizes.0 as f64));
    family("waiting", "gauge", "Records that wait.", partitions(&|p| p.sizes.2 as f64));
    let bytes = partitions(&|p| p.checkpoint_bytes as f64);
    family("checkpoint_bytes", "gauge", "Size of the last checkpoint.", bytes);
    let bad = partitions(&|p| p.bad_entries as f64);
    family("bad_entries_total", "counter", "Unreadable log entries.", bad);
    if let Some(intake) = intake {
        let one = |value: u64| vec![(String::new(), value as f64)];
        let value = one(intake.unwritten.load(Relaxed));
        family("unwritten_total", "counter", "Records the log could not take.", value);
        family("connections", "gauge", "Probes.", one(intake.connections.load(Relaxed)));
        family("refused_total", "counter", "Refusals.", one(intake.refused.load(Relaxed)));
    }
    text
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A time as text, in UTC.
#[must_use]
pub fn rfc3339(micros: u64) -> String {
    let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
    let (days, clock) = (seconds / 86_400, seconds % 86_400);
    // Howard Hinnant's days-to-civil, for dates after 1970.
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (clock / 3_600, clock / 60 % 60, clock % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_people_read_them() {
        let check = |seconds: u64, text: &str| {
            assert_eq!(rfc3339(seconds * 1_000_000), format!("{text}.000000Z"));
        };
        check(0, "1970-01-01T00:00:00");
        check(951_827_696, "2000-02-29T12:34:56");
        check(1_735_689_599, "2024-12-31T23:59:59");
    }
}

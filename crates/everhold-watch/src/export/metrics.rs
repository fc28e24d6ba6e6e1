//! The metrics of a watch, for Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;

use everhold_property::Verdict;

use super::status::{RuleStanding, Standing};
use crate::engine::{MemberStatus, PartitionStatus, Watch};
use crate::intake::IntakeCounts;
use crate::rule::RuleStatus;

/// The metrics of a watch, in Prometheus' text format.
#[must_use]
pub fn metrics(watch: &Watch, intake: Option<&IntakeCounts>) -> String {
    let partitions = watch.status();
    let mut text = Text::default();
    text.rules(&partitions);
    text.standing(&Standing::of(watch, intake));
    text.records(&partitions);
    // Membership is the same in all partitions.
    text.clocks(partitions.values().next().map_or(&[][..], |status| &status.members));
    text.sizes(&partitions);
    if let Some(intake) = intake {
        text.connections(intake);
    }
    text.0
}

type Partitions = BTreeMap<u32, PartitionStatus>;

/// The labels of a sample in braces, or nothing, and its value.
type Sample = (String, f64);

#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str, samples: Vec<Sample>) {
        let _ = writeln!(self.0, "# HELP everhold_{name} {help}\n# TYPE everhold_{name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(self.0, "everhold_{name}{labels} {value}");
        }
    }

    fn gauge(&mut self, name: &str, help: &str, samples: Vec<Sample>) {
        self.family(name, "gauge", help, samples);
    }

    fn counter(&mut self, name: &str, help: &str, samples: Vec<Sample>) {
        self.family(name, "counter", help, samples);
    }

    fn rules(&mut self, partitions: &Partitions) {
        let each = |value: &dyn Fn(&RuleStatus) -> f64| each_rule(partitions, value);
        let evaluations = each(&|rule| rule.counts.evaluations as f64);
        self.counter("evaluations_total", "Snapshots judged.", evaluations);
        let unknown = each(&|rule| rule.counts.unknown as f64);
        self.counter("unknown_total", "Of these, undecided.", unknown);
        let violations = each(&|rule| rule.counts.violations as f64);
        self.counter("violations_total", "Violations begun.", violations);
        let possible = each(&|rule| rule.counts.possible as f64);
        self.counter("violations_possible_total", "Not certain, clocks being inexact.", possible);
        let firing = each(&|rule| rule.firing as f64);
        self.gauge("violations_firing", "Violations that go on.", firing);
        let disabled = each(&|rule| flag(rule.disabled));
        self.gauge("rule_disabled", "1 if too expensive.", disabled);
        let seconds = each(&|rule| rule.counts.nanos as f64 / 1e9);
        self.counter("evaluation_seconds_total", "Time spent judging.", seconds);
    }

    fn standing(&mut self, standing: &Standing) {
        let unknown = |rule: &RuleStanding| {
            let label = format!("{{rule=\"{}\"}}", escaped(&rule.name));
            (label, flag(rule.verdict == Verdict::Unknown))
        };
        let unknown = standing.rules.iter().map(unknown).collect();
        self.gauge("rule_unknown", "1 if nobody can say whether it holds.", unknown);
        let failing = one(standing.failing.len() as f64);
        self.gauge("failing", "Parts of the watch that do not work.", failing);
    }

    fn records(&mut self, partitions: &Partitions) {
        let each = |value: &dyn Fn(&PartitionStatus) -> f64| each_partition(partitions, value);
        let lag = each(&|p| p.lag_micros as f64 / 1e6);
        self.gauge("lag_seconds", "From arrival to judgement.", lag);
        self.counter("records_total", "Records.", each(&|p| p.counts.records as f64));
        self.counter("late_total", "Records too late.", each(&|p| p.counts.late as f64));
        self.counter("dropped_total", "Records lost.", each(&|p| p.counts.dropped as f64));
        self.counter("gaps_total", "Gaps in batches.", each(&|p| p.counts.gaps as f64));
        let ahead = each(&|p| p.counts.ahead as f64);
        self.counter("clock_ahead_total", "Records with impossible stamps.", ahead);
        let own = each(&|p| flag(p.own_clock_strays));
        self.gauge("clock_strays", "1 if the watch's own clock does.", own);
    }

    fn clocks(&mut self, members: &[MemberStatus]) {
        let each = |value: &dyn Fn(&MemberStatus) -> Option<f64>| {
            let label = |m: &MemberStatus| format!("{{node=\"{}\"}}", escaped(&m.member.name));
            members.iter().filter_map(|m| Some((label(m), value(m)?))).collect::<Vec<_>>()
        };
        let ahead = each(&|m| m.clock.map(|clock| clock.ahead as f64 / 1e6));
        self.gauge("node_clock_ahead_seconds", "Of the watch's clock.", ahead);
        let error = each(&|m| m.clock.map(|clock| clock.error as f64 / 1e6));
        self.gauge("node_clock_error_seconds", "How exact its stamps are.", error);
        let strays = each(&|m| m.clock.map(|_| flag(m.strays)));
        self.gauge("node_clock_strays", "1 if its clock disagrees with most.", strays);
    }

    fn sizes(&mut self, partitions: &Partitions) {
        let each = |value: &dyn Fn(&PartitionStatus) -> f64| each_partition(partitions, value);
        self.gauge("nodes", "Nodes that are up.", each(&|p| p.sizes.1 as f64));
        self.gauge("state_keys", "Keys in the snapshot.", each(&|p| p.sizes.0 as f64));
        self.gauge("waiting", "Records that wait.", each(&|p| p.sizes.2 as f64));
        let bytes = each(&|p| p.checkpoint_bytes as f64);
        self.gauge("checkpoint_bytes", "Size of the last checkpoint.", bytes);
        let bad = each(&|p| p.bad_entries as f64);
        self.counter("bad_entries_total", "Unreadable log entries.", bad);
    }

    fn connections(&mut self, intake: &IntakeCounts) {
        let unwritten = one(intake.unwritten.load(Relaxed) as f64);
        self.counter("unwritten_total", "Records the log could not take.", unwritten);
        let connections = one(intake.connections.load(Relaxed) as f64);
        self.gauge("connections", "Probes.", connections);
        let refused = one(intake.refused.load(Relaxed) as f64);
        self.gauge("refused_total", "Refusals.", refused);
    }
}

fn each_rule(partitions: &Partitions, value: &dyn Fn(&RuleStatus) -> f64) -> Vec<Sample> {
    let rows = partitions.iter().flat_map(|(partition, status)| {
        status.rules.iter().map(move |(rule, status)| (partition, rule, status))
    });
    let sample = |(partition, rule, status): (_, &String, _)| {
        let labels = format!("{{rule=\"{}\",partition=\"{partition}\"}}", escaped(rule));
        (labels, value(status))
    };
    rows.map(sample).collect()
}

fn each_partition(partitions: &Partitions, value: &dyn Fn(&PartitionStatus) -> f64) -> Vec<Sample> {
    let label = |partition| format!("{{partition=\"{partition}\"}}");
    partitions.iter().map(|(partition, status)| (label(partition), value(status))).collect()
}

fn one(value: f64) -> Vec<Sample> {
    vec![(String::new(), value)]
}

fn flag(is_set: bool) -> f64 {
    f64::from(u8::from(is_set))
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

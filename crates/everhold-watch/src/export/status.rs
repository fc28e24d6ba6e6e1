//! How a watch does, as one JSON document; `docs/watch.md` lists its fields.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use everhold_property::Verdict;
use serde_json::{Value as Json, json};

use crate::engine::{PartitionStatus, Watch};
use crate::intake::{IntakeCounts, now_micros};
use crate::rule::RuleStatus;

/// How a watch does: rules, nodes, counts, and what was told after the notice of number `since`.
#[must_use]
pub fn status(watch: &Watch, intake: Option<&IntakeCounts>, since: u64) -> Json {
    let partitions = watch.status();
    let (number, violations, notices) = watch.told_after(since);
    let sum = |value: &dyn Fn(&PartitionStatus) -> u64| partitions.values().map(value).sum::<u64>();
    let most = |value: &dyn Fn(&PartitionStatus) -> u64| partitions.values().map(value).max();
    let count = |value: &dyn Fn(&IntakeCounts) -> u64| intake.map(value);
    json!({
        "version": 1,
        "now": now_micros() * 1_000,
        "number": number,
        "rules": rules(&partitions),
        "nodes": nodes(&partitions),
        "lag_ms": most(&|p| p.lag_micros).unwrap_or(0) as f64 / 1e3,
        "records": most(&|p| p.counts.records).unwrap_or(0),
        "late": sum(&|p| p.counts.late),
        "dropped": most(&|p| p.counts.dropped).unwrap_or(0),
        "clock_ahead": most(&|p| p.counts.ahead).unwrap_or(0),
        "keys": sum(&|p| p.sizes.0 as u64),
        "waiting": sum(&|p| p.sizes.2 as u64),
        "partitions": partitions.keys().collect::<Vec<_>>(),
        "connections": count(&|intake| intake.connections.load(Relaxed)),
        "refused": count(&|intake| intake.refused.load(Relaxed)),
        "violations": violations,
        "notices": notices,
    })
}

/// Each rule once, over all partitions.
fn rules(partitions: &BTreeMap<u32, PartitionStatus>) -> Vec<Json> {
    let mut merged: BTreeMap<&str, Vec<&RuleStatus>> = BTreeMap::new();
    for status in partitions.values() {
        for (name, rule) in &status.rules {
            merged.entry(name).or_default().push(rule);
        }
    }
    let mut rows: Vec<Json> = merged.iter().map(|(name, parts)| rule(name, parts)).collect();
    let not_watched = partitions.values().next().map_or(&[][..], |status| &status.not_watched);
    rows.extend(
        not_watched.iter().map(
            |rule| json!({ "name": rule.name, "verdict": "not watched", "reason": rule.reason }),
        ),
    );
    rows
}

fn rule(name: &str, parts: &[&RuleStatus]) -> Json {
    let sum = |value: &dyn Fn(&RuleStatus) -> u64| parts.iter().map(|p| value(p)).sum::<u64>();
    json!({
        "name": name,
        "text": parts[0].text,
        "verdict": verdict(parts),
        "firing": sum(&|p| p.firing as u64),
        "violations": sum(&|p| p.counts.violations),
        "evaluations": sum(&|p| p.counts.evaluations),
        "unknown": sum(&|p| p.counts.unknown),
        "seconds": sum(&|p| p.counts.nanos) as f64 / 1e9,
    })
}

fn verdict(parts: &[&RuleStatus]) -> &'static str {
    if parts.iter().any(|part| part.firing > 0) {
        return "violated";
    }
    if parts.iter().any(|part| part.disabled) {
        return "disabled";
    }
    match parts.iter().all(|part| part.last == Verdict::Holds) {
        true => "holds",
        false => "unknown",
    }
}

fn nodes(partitions: &BTreeMap<u32, PartitionStatus>) -> Vec<Json> {
    // Membership is the same in all partitions, up to how far each has come.
    let members = partitions.values().next().map_or(&[][..], |status| &status.members);
    let node = |status: &crate::engine::MemberStatus| {
        let member = &status.member;
        json!({
            "id": member.id.0, "name": member.name, "kind": member.kind, "up": member.up,
            "known": status.known,
        })
    };
    members.iter().map(node).collect()
}

//! How a watch does, as one JSON document; `docs/watch.md` lists its fields.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use everhold_property::Verdict;
use serde_json::{Value as Json, json};

use crate::engine::{PartitionStatus, Watch};
use crate::intake::{IntakeCounts, now_micros};
use crate::rule::RuleStatus;

/// The status of a watch: rules, nodes, counts, and the notices after that of number `since`.
#[must_use]
pub fn status(watch: &Watch, intake: Option<&IntakeCounts>, since: u64) -> Json {
    let partitions = watch.status();
    let standing = Standing::of(watch, intake);
    let (number, violations, notices) = watch.told_after(since);
    let sum = |value: &dyn Fn(&PartitionStatus) -> u64| partitions.values().map(value).sum::<u64>();
    let most = |value: &dyn Fn(&PartitionStatus) -> u64| partitions.values().map(value).max();
    let count = |value: &dyn Fn(&IntakeCounts) -> u64| intake.map(value);
    json!({
        "version": 1,
        "now": now_micros() * 1_000,
        "number": number,
        "verdict": word(standing.verdict()),
        "failing": standing.failing,
        "rules": rules(&partitions, &standing),
        "nodes": nodes(&partitions),
        "lag_ms": most(&|p| p.lag_micros).unwrap_or(0) as f64 / 1e3,
        "records": most(&|p| p.counts.records).unwrap_or(0),
        "late": sum(&|p| p.counts.late),
        "dropped": most(&|p| p.counts.dropped).unwrap_or(0),
        "clock_ahead": most(&|p| p.counts.ahead).unwrap_or(0),
        "own_clock_strays": partitions.values().any(|status| status.own_clock_strays),
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
fn rules(partitions: &BTreeMap<u32, PartitionStatus>, standing: &Standing) -> Vec<Json> {
    let mut merged: BTreeMap<&str, Vec<&RuleStatus>> = BTreeMap::new();
    for status in partitions.values() {
        for (name, rule) in &status.rules {
            merged.entry(name).or_default().push(rule);
        }
    }
    let mut rows: Vec<Json> =
        merged.iter().map(|(name, parts)| rule(name, parts, standing)).collect();
    let not_watched = partitions.values().next().map_or(&[][..], |status| &status.not_watched);
    rows.extend(
        not_watched.iter().map(
            |rule| json!({ "name": rule.name, "verdict": "not watched", "reason": rule.reason }),
        ),
    );
    rows
}

fn rule(name: &str, parts: &[&RuleStatus], standing: &Standing) -> Json {
    let stands = standing.rules.iter().find(|rule| rule.name == name);
    let disabled = parts.iter().any(|part| part.disabled);
    let verdict = match stands.map_or(Verdict::Unknown, |rule| rule.verdict) {
        Verdict::Unknown if disabled => "disabled",
        verdict => word(verdict),
    };
    let sum = |value: &dyn Fn(&RuleStatus) -> u64| parts.iter().map(|p| value(p)).sum::<u64>();
    json!({
        "name": name,
        "text": parts[0].text,
        "sampled": parts[0].sampled,
        "verdict": verdict,
        "reason": stands.and_then(|rule| rule.reason.as_deref()),
        "firing": sum(&|p| p.firing as u64),
        "violations": sum(&|p| p.counts.violations),
        "possible": sum(&|p| p.counts.possible),
        "evaluations": sum(&|p| p.counts.evaluations),
        "unknown": sum(&|p| p.counts.unknown),
        "seconds": sum(&|p| p.counts.nanos) as f64 / 1e9,
    })
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::Violated => "violated",
        Verdict::Unknown => "unknown",
    }
}

/// How the rules stand at present. That one holds is said only if it was judged, everything that it
/// reads is known, and nothing that a watch needs has failed.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// Each rule, also those that are not watched.
    pub rules: Vec<RuleStanding>,
    /// The present problems. As long as there is one, no rule is known to hold.
    pub failing: Vec<String>,
}

/// How one rule stands.
#[derive(Clone, Debug)]
pub struct RuleStanding {
    /// The rule's name.
    pub name: String,
    /// Its verdict at present, over all partitions that are ours.
    pub verdict: Verdict,
    /// Why it is unknown.
    pub reason: Option<String>,
    /// Which part of the keys and moments is judged; what it says is said of that part only.
    pub sampled: Option<String>,
    /// Whether it was seen to hold, and all who could break it have said goodbye.
    pub is_over: bool,
}

impl Standing {
    /// How the rules of a watch stand.
    #[must_use]
    pub fn of(watch: &Watch, intake: Option<&IntakeCounts>) -> Standing {
        let mut failing = watch.failing();
        failing.extend(intake.and_then(|intake| {
            intake.failing.lock().unwrap_or_else(PoisonError::into_inner).clone()
        }));
        let partitions = watch.status();
        failing
            .extend(partitions.iter().filter_map(|(number, status)| out_of_date(*number, status)));
        let mut merged: BTreeMap<&str, Vec<&RuleStatus>> = BTreeMap::new();
        for (name, rule) in partitions.values().flat_map(|status| &status.rules) {
            merged.entry(name).or_default().push(rule);
        }
        let stand = |(name, parts): (&&str, &Vec<&RuleStatus>)| stand(name, parts, &failing);
        let mut rules: Vec<RuleStanding> = merged.iter().map(stand).collect();
        let aside = partitions.values().next().map_or(&[][..], |status| &status.not_watched);
        rules.extend(aside.iter().map(|rule| RuleStanding {
            name: rule.name.clone(),
            verdict: Verdict::Unknown,
            reason: Some(rule.reason.clone()),
            sampled: None,
            is_over: false,
        }));
        Standing { rules, failing }
    }

    /// Of all rules together: unknown also if there are none.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let all = self.rules.iter().map(|rule| rule.verdict).reduce(Verdict::and);
        all.unwrap_or(Verdict::Unknown)
    }
}

/// A verdict about a moment longer ago than this is no verdict about the present.
const PRESENT: Duration = Duration::from_secs(3);

/// Why what a checker says is not about the present, in words.
fn out_of_date(number: u32, status: &PartitionStatus) -> Option<String> {
    let age = |since: Option<Instant>| since.map_or(Duration::ZERO, |since| since.elapsed());
    let (judged, read) = (age(status.taken), age(status.read));
    let lag = Duration::from_micros(status.lag_micros);
    let seconds = judged.max(lag).max(read).as_secs();
    if judged.max(lag).max(read) <= PRESENT {
        None
    } else if judged > PRESENT || lag > PRESENT {
        Some(format!("partition {number} is judged as it was {seconds} s ago"))
    } else {
        Some(format!("nothing was written to partition {number} for {seconds} s"))
    }
}

fn stand(name: &str, parts: &[&RuleStatus], failing: &[String]) -> RuleStanding {
    let reason = if parts.iter().any(|part| part.firing > 0) {
        None
    } else if parts.iter().any(|part| part.disabled) {
        Some("it takes too long and is no longer judged".to_owned())
    } else {
        let unknown = parts.iter().find_map(|part| part.unknown.clone());
        failing.first().cloned().or(unknown)
    };
    let verdict = match &reason {
        _ if parts.iter().any(|part| part.firing > 0) => Verdict::Violated,
        Some(_) => Verdict::Unknown,
        None => Verdict::Holds,
    };
    let is_over = failing.is_empty()
        && parts.iter().any(|part| part.is_over)
        && parts.iter().all(|part| part.is_over || part.unknown == parts[0].unknown);
    let sampled = parts.iter().find_map(|part| part.sampled.clone());
    RuleStanding { name: name.to_owned(), verdict, reason, sampled, is_over }
}

fn nodes(partitions: &BTreeMap<u32, PartitionStatus>) -> Vec<Json> {
    // Membership is the same in all partitions, up to how far each has come.
    let members = partitions.values().next().map_or(&[][..], |status| &status.members);
    let node = |status: &crate::engine::MemberStatus| {
        let member = &status.member;
        json!({
            "id": member.id.0, "name": member.name, "kind": member.kind, "up": member.up,
            "known": status.known,
            "clock_ahead_ms": status.clock.map(|clock| clock.ahead as f64 / 1e3),
            "clock_error_ms": status.clock.map(|clock| clock.error as f64 / 1e3),
            "clock_strays": status.strays,
        })
    };
    members.iter().map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(judged: u64, lag: u64, read: u64, expected: Option<&str>) {
        let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds));
        let lag_micros = lag * 1_000_000;
        let (taken, read) = (ago(judged), ago(read));
        let status = PartitionStatus { lag_micros, taken, read, ..PartitionStatus::default() };
        assert_eq!(out_of_date(2, &status).as_deref(), expected);
    }

    #[test]
    fn a_status_of_long_ago_is_none_of_the_present() {
        check(0, 0, 0, None);
        check(2, 2, 2, None);
        check(5, 0, 0, Some("partition 2 is judged as it was 5 s ago"));
        check(0, 7, 0, Some("partition 2 is judged as it was 7 s ago"));
        check(0, 0, 9, Some("nothing was written to partition 2 for 9 s"));
    }
}

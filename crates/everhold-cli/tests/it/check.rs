//! Properties judged on recorded executions.

use std::fs;

use serde_json::Value as Json;

use crate::program::{check, everhold, screen, temporary};

pub(crate) const ETCD: &str = "../../everhold-trace/testdata/etcd-raft-example.ndjson";
pub(crate) const ETCD_MAPPING: &str = "../../everhold-trace/testdata/etcd-raft.mapping.json";
pub(crate) const EWD998: &str = "../../everhold-trace/testdata/ewd998.log";
pub(crate) const EWD998_RUNS: &str = "^=== (?<trace>.*) ===$";
pub(crate) const EWD998_PARSER: &str = concat!(
    r#"^State [0-9]+: <(?<event>\w*) .*>\n\/\\ Host = (?<host>.*)\n\/\\ Clock = "(?<clock>.*)"\n"#,
    r"\/\\ active = (?<active>.*)\n\/\\ color = (?<color>.*)\n",
    r"\/\\ counter = (?<all_counter>(?<counter>.*))\n\/\\ inbox = (?<all_inbox>.*)",
);

/// One leader per term, terms never decrease, and the leader is ahead, on all consistent cuts.
#[test]
fn etcd_raft_keeps_what_raft_promises() {
    screen(&["check", "etcd-raft.prop", ETCD, "--mapping", ETCD_MAPPING], 0, "etcd-raft.txt");
}

/// The first violating cut, the values that falsify the property, and the positions of the nodes.
#[test]
fn etcd_raft_does_not_keep_terms_equal() {
    screen(
        &["check", "etcd-raft-false.prop", ETCD, "--mapping", ETCD_MAPPING],
        1,
        "etcd-raft-false.txt",
    );
}

/// The property holds in each of the 990 states with a host that TLC printed, in 3 runs.
#[test]
fn ewd998_counts_the_messages_in_flight() {
    screen(
        &["check", "ewd998.prop", EWD998, "--parser", EWD998_PARSER, "--executions", EWD998_RUNS],
        0,
        "ewd998.txt",
    );
}

#[test]
fn violations_are_shown_with_their_cut() {
    screen(&["check", "ping.prop", "ping.trace"], 1, "ping.txt");
}

#[test]
fn a_bound_that_is_reached_is_unknown() {
    let rules = temporary("three.prop");
    let claim = "forall a, b, c in nodes where reported(a) and reported(b) and reported(c):\n  \
                 a.term + b.term >= c.term - 99";
    fs::write(&rules, format!("always \"three\": {claim}")).unwrap();
    check(
        &["check", rules.to_str().unwrap(), ETCD, "--mapping", ETCD_MAPPING, "--cases-max", "1000"],
        2,
        &[
            "on 1,000 tuples of compatible states, then the bound was reached",
            "raise it with --cases-max",
        ],
    );
}

/// A misspelt value: the claim is true of every pair, and says nothing.
#[test]
fn a_claim_without_a_case_is_not_a_success() {
    let rules = temporary("leader.prop");
    let claim = "forall l, f in nodes where l.role == \"StateLaeder\": l.term >= f.commit";
    let count = "count(n in nodes where reported(n): n.role == \"Leader\") <= 1";
    fs::write(&rules, format!("always \"a\": {claim}\nalways \"b\": {count}")).unwrap();
    let args = ["check", rules.to_str().unwrap(), ETCD, "--mapping", ETCD_MAPPING];
    let texts = [
        "but was never put to the test: `l.role == \"StateLaeder\"` is never true",
        "did you mean \"StateLeader\"?",
        "it is \"StateCandidate\", \"StateFollower\"",
        "2 hold (2 never put to the test)",
    ];
    check(&args, 4, &texts);
}

/// Also in the recorded order alone, and with a key that nobody binds.
#[test]
fn a_claim_without_a_case_is_told_in_every_way_of_judging() {
    let trace = temporary("idle.csv");
    let locks = r#""{""$map"":[[""k"",""free""]]}""#;
    fs::write(&trace, format!("node,locks,x\na,,1\nb,,2\na,{locks},3\n")).unwrap();
    let rules = temporary("idle.prop");
    let claims = "always \"never led\": forall n in nodes: n.x > 9 leads to n.x > 10\n\
                  always \"keyed\": forall n in nodes: n.locks[key] == \"held\" implies n.x > 9";
    fs::write(&rules, claims).unwrap();
    let [rules, trace] = [rules.to_str().unwrap(), trace.to_str().unwrap()];
    let texts = [
        "but was never put to the test: `n.x > 9` is never true",
        "but was never put to the test: `n.locks[key] == \"held\"` is never true",
        "2 hold (2 never put to the test)",
    ];
    check(&["check", rules, trace], 4, &texts);
    check(&["check", rules, trace, "--order", "recorded"], 4, &texts);
}

/// Money in three accounts, and what is under way: no cut is looked at by itself.
#[test]
fn a_constant_sum_is_decided_over_all_cuts() {
    let trace = temporary("bank.trace");
    fs::write(&trace, bank(2_000)).unwrap();
    let rules = temporary("bank.prop");
    let balances = "sum(n in nodes: n.balance)";
    let claims = format!(
        "always \"in all\": {balances} + sum(m in messages(\"Pay\"): m) == 300\n\
         always \"at rest\" when quiet: {balances} == 300\n\
         always \"no credit\": {balances} <= 300\n\
         always \"wrong\": {balances} == 300\n"
    );
    fs::write(&rules, claims).unwrap();
    let texts = [
        "holds     always \"in all\"",
        "on every consistent cut, by the weights of events",
        "holds     always \"at rest\"",
        "on every cut that is quiet between the nodes it binds, by the weights of events",
        "violated  always \"wrong\"",
        "3 hold, 1 violated, 0 unknown",
    ];
    check(&["check", rules.to_str().unwrap(), trace.to_str().unwrap()], 1, &texts);
}

/// Three accounts with 100 each; at each step one of them pays another, and every third payment is
/// received two steps later.
fn bank(steps: usize) -> String {
    let mut log = String::from("{\"everhold\":\"trace\",\"version\":1}\n{\"is\":\"run\"}\n");
    let mut balance = [100_i64; 3];
    let mut sent = [0; 3];
    let mut line = |node: usize, balance: i64, more: String| {
        log += &format!(
            "{{\"is\":\"event\",\"node\":\"n{node}\",{more},\"state\":{{\"balance\":{balance}}}}}\n"
        );
    };
    (0..3).for_each(|node| line(node, 100, "\"kind\":\"start\"".into()));
    let mut late = None;
    for step in 0..steps {
        let (from, to, amount) = (step % 3, (step + 1 + step / 5 % 2) % 3, step as i64 % 5);
        balance[from] -= amount;
        let send = format!(
            "{{\"to\":\"n{to}\",\"seq\":{},\"label\":\"Pay\",\"payload\":{amount}}}",
            sent[from]
        );
        line(
            from,
            balance[from],
            format!("\"kind\":\"local\",\"name\":\"pay\",\"sends\":[{send}]"),
        );
        let payment = (from, to, amount, sent[from]);
        sent[from] += 1;
        let mut now = vec![payment];
        match step % 3 {
            0 => late = now.pop(),
            2 => now.extend(late.take()),
            _ => {}
        }
        for (from, to, amount, seq) in now {
            balance[to] += amount;
            line(
                to,
                balance[to],
                format!("\"kind\":\"deliver\",\"from\":\"n{from}\",\"seq\":{seq}"),
            );
        }
    }
    log
}

#[test]
fn what_is_not_shown_is_unknown_and_named() {
    let chord = "../../everhold-trace/testdata/chord.log";
    check(&["check", "etcd-raft-false.prop", chord], 2, &["shows no state"]);
}

#[test]
fn several_files_and_runs_are_judged_together() {
    let traces = ["check", "ping.prop", "ping.trace", "ping.trace"];
    check(&traces, 1, &["violated in 2 of 2 runs", "2 runs · 14 events"]);
}

#[test]
fn a_constant_may_be_given() {
    check(&["check", "limit.prop", "ping.trace"], 64, &["unknown name `LIMIT`"]);
    check(&["check", "limit.prop", "ping.trace", "--define", "LIMIT=1"], 0, &["1 hold"]);
    check(&["check", "limit.prop", "ping.trace", "--define", "LIMIT=0"], 1, &["n.pings = 1"]);
    check(&["check", "limit.prop", "ping.trace", "--define", "LIMIT"], 64, &["NAME=VALUE"]);
}

/// A watch looks at some moments; a recording is judged in full, and that is said.
#[test]
fn a_sampled_property_is_judged_in_full() {
    check(
        &["check", "sampled.prop", "ping.trace"],
        0,
        &["judged in full: `every 1s` is for a watch"],
    );
}

#[test]
fn programs_read_one_object_a_line() {
    let output = everhold(&["check", "ping.prop", "ping.trace", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Json> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |is: &str| lines.iter().filter(|l| l["is"] == is).collect::<Vec<_>>();
    let (results, summary) = (of("result"), of("summary"));
    assert_eq!((results.len(), of("property").len(), summary.len()), (4, 4, 1));
    assert_eq!(summary[0]["verdict"], "violated");
    let violated = results.iter().find(|result| result["verdict"] == "violated").unwrap();
    assert_eq!(violated["violation"]["cut"][0]["node"], "client");
    assert_eq!(violated["violation"]["values"][0]["text"], "a.term");
    let output = everhold(&["check", "three-errors.prop", "ping.trace", "--json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let first: Json = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&first["is"], &first["line"], &first["column"]),
        (&"error".into(), &1.into(), &47.into())
    );
}

#[test]
fn colour_is_used_when_asked_for() {
    check(&["check", "ping.prop", "ping.trace", "--color", "always"], 1, &["\u{1b}["]);
    let plain = everhold(&["check", "ping.prop", "ping.trace"]);
    assert!(!plain.stdout.contains(&0x1b));
}

#[test]
fn verdicts_reach_continuous_integration() {
    let junit = temporary("junit.xml");
    let summary = temporary("summary.md");
    let _ = fs::remove_file(&summary);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_everhold"))
        .args([
            "check",
            "etcd-raft-false.prop",
            "../../everhold-trace/testdata/etcd-raft-example.ndjson",
        ])
        .args(["--mapping", "../../everhold-trace/testdata/etcd-raft.mapping.json", "--junit"])
        .arg(&junit)
        .env("GITHUB_STEP_SUMMARY", &summary)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata"))
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(1));
    let xml = fs::read_to_string(junit).expect("it was written");
    assert!(xml.contains("failures=\"2\"") && xml.contains("<failure"), "{xml}");
    let summary = fs::read_to_string(summary).expect("it was written");
    assert!(summary.contains("| violated |") && summary.contains("```text"), "{summary}");
}

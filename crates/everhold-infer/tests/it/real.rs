//! Traces of other projects.

use everhold_infer::{Always, ReasonKind, Settings, always};
use everhold_property::print_expr;
use everhold_trace::Execution;
use everhold_trace::format::ReadOptions;
use everhold_trace::import::ndjson;
use everhold_trace::import::shiviz::{self, Format};

const ETCD: &str = include_str!("../../../everhold-trace/testdata/etcd-raft-example.ndjson");
const MAPPING: &str = include_str!("../../../everhold-trace/testdata/etcd-raft.mapping.json");
const EWD998: &str = include_str!("../../../everhold-trace/testdata/ewd998.log");
const CHORD: &str = include_str!("../../../everhold-trace/testdata/chord.log");

fn infer(executions: &[Execution]) -> Always {
    always(&executions.iter().collect::<Vec<_>>(), &Settings::default())
}

/// The claims, without names and scopes.
fn claims(found: &Always) -> Vec<String> {
    found.lines.iter().map(|line| print_expr(&line.property.body)).collect()
}

fn ewd998() -> Vec<Execution> {
    let parser = concat!(
        r#"^State [0-9]+: <(?<event>\w*) .*>\n\/\\ Host = (?<host>.*)\n\/\\ Clock = "(?<clock>.*)"\n"#,
        r"\/\\ active = (?<active>.*)\n\/\\ color = (?<color>.*)\n\/\\ counter = (?<counter>.*)",
    );
    let format = Format::new(parser, "^=== (?<trace>.*) ===$");
    shiviz::read(EWD998.as_bytes(), &format, &ReadOptions::strict()).unwrap().executions
}

/// Strong leadership at every cut, which Dinv found on deliveries only; commits within the log;
/// nothing goes back.
#[test]
fn etcd() {
    let mapping = ndjson::Mapping::parse(MAPPING).unwrap();
    let runs = ndjson::read(ETCD.as_bytes(), &mapping, &ReadOptions::strict()).unwrap().executions;
    let found = infer(&runs);
    let claims = claims(&found);
    let a_leads = "forall a, b in nodes where a != b: a.role == \"StateLeader\"";
    let leader = format!("{a_leads} implies a");
    for expected in [
        format!("{leader}.log >= b.log"),
        format!("{leader}.commit >= b.commit"),
        "forall n in nodes: n.commit <= n.log".into(),
        "forall n in nodes: previous(n.log) <= n.log".into(),
        "forall n in nodes: previous(n.commit) <= n.commit".into(),
        "forall n in nodes: previous(n.term) <= n.term".into(),
    ] {
        assert!(claims.contains(&expected), "{expected}: {claims:#?}");
    }
    assert_eq!(claims.len(), 6, "{claims:#?}");
    // A vote names a node and is no role; what a leader tells itself is no news.
    for noise in [".vote ==", "sender.role == \"StateLeader\" and receiver.role == \"StateLeader\""]
    {
        assert!(!claims.iter().any(|claim| claim.contains(noise)), "{noise}: {claims:#?}");
    }
    // It has one leader of one term: that there never are two is not to be learned from it.
    let one = format!("{a_leads} and a.term == b.term implies b.role != \"StateLeader\"");
    let hidden = found.hidden.iter().find(|hidden| print_expr(&hidden.property.body) == one);
    let kind = hidden.map(|hidden| hidden.reason.kind());
    assert_eq!(kind, Some(ReasonKind::FollowsFromUnproven), "{one}");
}

/// A passive node neither sends nor receives unless it is woken.
#[test]
fn termination_detection() {
    let claims = claims(&infer(&ewd998()));
    let expected = "forall n in nodes: not n.active implies previous(n.counter) == n.counter";
    assert!(claims.iter().any(|claim| claim == expected), "{claims:#?}");
    // A claim about one of two nodes is no line about two.
    assert!(!claims.iter().any(|claim| claim.ends_with("b.color == \"white\" implies b.active")));
    assert_eq!(claims.len(), 7, "{claims:#?}");
}

/// A log of texts without variables says nothing.
#[test]
fn chord() {
    let format = Format::detect();
    let runs = shiviz::read(CHORD.as_bytes(), &format, &ReadOptions::strict()).unwrap().executions;
    let found = infer(&runs);
    assert_eq!((found.lines.len(), found.tried), (0, 0));
}

//! `testdata/types/*.prop` are checked against one schema and yield their error messages.

use everhold_property::{Library, Schema, Type, Value, check_all, parse, render_all};

use crate::eval::{library, state, value};
use crate::golden::{check, testdata};

fn schema() -> Schema {
    let nodes = state("a server {x: 1}\nb client {x: 1}");
    let mut schema = Schema::default();
    for server in [
        r#"{term: 1, role: "leader", log: [], peers: {node("b")}, vote: null, load: 0.5}"#,
        r#"{term: 2, role: "follower", log: [{term: 1, value: "x"}], table: {"k" -> 1}, vote: node("a")}"#,
    ] {
        schema.observe("server", &value(&nodes, server));
    }
    schema.observe("client", &value(&nodes, "{sent: 3, waiting: false, term: 1}"));
    schema
}

#[test]
fn mismatches_are_explained() {
    for (path, source) in testdata("types") {
        let properties = parse(&source).into_result().expect("the syntax is right");
        let found = check_all(&properties, &library(), &schema());
        let name = path.file_name().expect("it was listed").to_string_lossy().into_owned();
        check(&path, &render_all(&found, &name, &source));
    }
}

#[test]
fn what_fits_passes() {
    let source = r#"
always "1": forall a, b in nodes where a != b: a.term == b.term implies a.role != b.role
always "2": forall s in server nodes, i -> e in s.log: e.term <= s.term and i < len(s.log)
always "3": forall s in server nodes: s.vote.term >= s.term and s.vote in s.peers
always "4": sum(s in server nodes: s.load) / 2 < 1 and count(c in client nodes: c.waiting) < QUORUM
always "5": forall s in server nodes: s.table["k"] == 1 and s.log[0].value is x
always "6" on delivery: sender.term <= receiver.term
always "7": forall s in server nodes: changed(s.role) implies window(s.term, 2) != [1]
always "8": twice(RING) == 32 and max(1, 2.5) > 1 and up(node("a")) and state(node("a")).term > 0
"#;
    let properties = parse(source).into_result().expect("the syntax is right");
    let found = check_all(&properties, &library(), &schema());
    assert_eq!(render_all(&found, "test", source), "");
    let found = check_all(&properties, &library(), &Schema::default());
    assert_eq!(render_all(&found, "test", source), "", "without a schema");
}

#[test]
fn types_join() {
    let check = |a: Value, b: Value, expected: &str| {
        assert_eq!(Type::of(&a).join(Type::of(&b)).to_string(), expected);
    };
    check(Value::Null, Value::Int(1), "int");
    check(Value::Float(1.0), Value::Int(1), "float");
    check(Value::List(vec![]), Value::list([1]), "list of int");
    check(Value::list(["a"]), Value::list([1]), "list of anything");
    let _ = Library::new();
}

//! The meaning of each form, as expressions on small states and their values.

use everhold_property::{
    Library, Snapshot, State, Type, Value, Verdict, evaluate, evaluate_expr, explain, parse,
    parse_expr,
};

/// Reads a state. Each line is a node, `name kind value`: the value `-` stands for a node that has
/// not reported, and `!` before the name for one that is down. A line `a > b` is a message in
/// flight.
pub(crate) fn state(text: &str) -> Snapshot {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut snapshot = Snapshot::default();
    let words = |line: &str| line.splitn(3, ' ').map(str::to_owned).collect::<Vec<_>>();
    for line in lines.iter().map(|line| words(line)).filter(|line| line[1] != ">") {
        let node = snapshot.add(line[0].trim_start_matches('!'), &line[1]);
        snapshot.set_up(node, !line[0].starts_with('!'));
    }
    for line in lines.iter().map(|line| words(line)) {
        let named = |name: &str| {
            let name = name.trim_start_matches('!');
            let found = snapshot.members().iter().find(|member| member.name == name);
            found.expect("the node is listed").id
        };
        if line[1] == ">" {
            snapshot.set_in_flight(named(&line[0]), named(&line[2]), 1);
        } else if line[2] != "-" {
            let node = named(&line[0]);
            let value = value(&snapshot, &line[2]);
            snapshot.set(node, value);
        }
    }
    snapshot
}

pub(crate) fn value(state: &Snapshot, text: &str) -> Value {
    let expr = parse_expr(text).expect("the test writes a value");
    evaluate_expr(&expr, &Library::new(), &[state], &[]).expect("the test writes a value")
}

pub(crate) fn library() -> Library {
    Library::new().with_constant("RING", 16).with_constant("QUORUM", 2).with_function(
        "twice",
        [Type::Int],
        Type::Int,
        |arguments| match arguments {
            [Value::Int(number)] => Ok(Value::Int(2 * number)),
            _ => Err("twice takes an integer".into()),
        },
    )
}

#[track_caller]
fn check(text: &str, cases: &[(&str, &str)]) {
    let state = state(text);
    for (source, expected) in cases {
        let expr = parse_expr(source).unwrap_or_else(|errors| panic!("{source}: {errors:?}"));
        let actual = match evaluate_expr(&expr, &library(), &[&state], &[]) {
            Ok(value) => value.to_string(),
            Err(unknown) => format!("? {unknown}"),
        };
        assert_eq!(actual, *expected, "{source}");
    }
}

#[test]
fn operators() {
    check(
        "",
        &[
            ("1 + 2 * 3 - 4 / 3 % 2", "6"),
            ("7 / 2", "3"),
            ("7.0 / 2", "3.5"),
            ("-7 % 4", "-3"),
            ("1 / 0", "? division by zero"),
            ("9223372036854775807 + 1", "? the number is too large"),
            ("1 == 1.0", "true"),
            ("1 == \"1\"", "false"),
            ("1 < 1.5 and \"a\" < \"b\" and [1, 2] < [1, 3]", "true"),
            ("1 < \"a\"", "? `<` does not apply to int and text"),
            ("1 < null", "? `<` does not apply to int and null"),
            ("null + 1", "null"),
            ("null == null", "true"),
            ("5s == 5000000000", "true"),
            ("1 in [1, 2] and 1 in {1.0} and 3 not in {1}", "true"),
            ("\"a\" in {\"a\" -> 1} and \"a\" in {a: 1} and \"ell\" in \"hello\"", "true"),
            ("1 in null", "false"),
            ("1 in 2", "? `in` does not apply to int and int"),
            ("{1, 2} subset of [2, 1, 3] and null subset of {}", "true"),
            ("{1, 2} disjoint from {3} and not ({1} disjoint from [1])", "true"),
            (
                "[1, 2] prefix of [1, 2, 3] and not ([2] prefix of [1, 2]) and [] prefix of null",
                "true",
            ),
            ("\"le\" prefix of \"leader\"", "true"),
            ("[1, 3] subsequence of [1, 2, 3] and [] subsequence of null", "true"),
            ("[3, 1] subsequence of [1, 2, 3] or [1, 1] subsequence of [1, 2]", "false"),
            ("{1} subsequence of [1]", "? `subsequence of` does not apply to set and list"),
            ("in_flight()", "? messages in flight are not counted here"),
            ("{a: {b: 3}}.a.b", "3"),
            ("{a: 1}.b", "null"),
            ("null.a.b", "null"),
            ("3.a", "? `.` does not apply to int"),
            ("[1, 2][1] == 2 and [1][5] == null and {\"k\" -> 7}[\"k\"] == 7", "true"),
            ("\"Leader\" is Leader", "true"),
        ]
        .map(|(source, expected)| (if source == "3.a" { "(3).a" } else { source }, expected)),
    );
}

#[test]
fn logic_is_three_valued() {
    let unknown = "? `<` does not apply to int and null";
    check(
        "",
        &[
            ("false and 1 < null", "false"),
            ("1 < null and false", "false"),
            ("true or 1 < null", "true"),
            ("1 < null or true", "true"),
            ("1 < null implies true", "true"),
            ("true and 1 < null", unknown),
            ("not 1 < null", unknown),
            ("1", "1"),
            ("not 1", "? `a condition` does not apply to int"),
            ("forall x in [1, null]: x > 1", "false"),
            ("forall x in [2, null]: x > 1", "? `>` does not apply to null and int"),
            ("exists x in [2, null]: x > 1", "true"),
            ("forall x in [1] where x < null: true", "true"),
            ("forall x in null: false", "true"),
            ("exists x in 3: true", "? `in` does not apply to int"),
        ],
    );
}

#[test]
fn functions_and_aggregates() {
    check(
        "",
        &[
            ("len(\"né\") + len([1]) + len(null) + len({a: 1})", "4"),
            ("abs(-3) + max(1, 2, 3) + min([4, 2])", "8"),
            ("abs(null)", "null"),
            ("first([1, 2]) + last([1, 2])", "3"),
            ("keys({\"a\" -> 1})", "{\"a\"}"),
            ("values({a: 1})", "[1]"),
            ("union({1}, [2])", "{1, 2}"),
            ("intersection({1, 2}, [2])", "{2}"),
            ("difference({1, 2}, [2])", "{1}"),
            ("sorted([1, 1, 2]) and not sorted([2, 1])", "true"),
            ("count(x in [1, 2, 3]: x > 1)", "2"),
            ("count(x in [1, 2, 3] where x > 1)", "2"),
            ("sum(x in [1, null, 3]: x)", "4"),
            ("sum(x in []: x)", "0"),
            ("min(x in []: x)", "null"),
            ("avg(x in [1, 2]: x)", "1.5"),
            ("set(x in [2, 1, 2]: x)", "{1, 2}"),
            ("list(i -> x in [5, 6]: i * x)", "[0, 6]"),
            ("list(k -> v in {\"a\" -> 1}: [k, v])", "[[\"a\", 1]]"),
            ("sum(i in 0..4, j in 0..=i: j)", "10"),
            ("sum(x in [1, \"a\"]: x)", "? `+` does not apply to int and text"),
            ("twice(4) + RING", "24"),
            ("twice(\"x\")", "? twice takes an integer"),
            ("nothing", "? unknown name `nothing`"),
        ],
    );
}

#[test]
fn nodes() {
    check(
        "a server {x: 1, peer: node(\"b\"), peers: {node(\"b\"), node(\"c\")}}
         b server {x: 2, peer: node(\"a\")}
         c client -
         !d server {x: 9}",
        &[
            ("count(n in nodes)", "3"),
            ("count(n in all nodes)", "4"),
            ("count(n in all server nodes)", "3"),
            ("sum(n in server nodes: n.x)", "3"),
            ("sum(n in nodes: n.x)", "? n2 has not reported"),
            ("forall n in server nodes: n.peer.peer == n", "true"),
            ("node(\"a\").peer.x", "2"),
            ("node(\"nobody\").x", "null"),
            ("forall n in server nodes: n.x == 1", "false"),
            ("exists n in nodes: n.x == 2", "true"),
            ("exists n in nodes: n.x == 3", "? n2 has not reported"),
            ("set(n in nodes where reported(n): name(n))", "{\"a\", \"b\"}"),
            ("list(n in all nodes: up(n))", "[true, true, true, false]"),
            ("kind(node(\"c\"))", "\"client\""),
            (
                "forall p in node(\"a\").peers: kind(p) == \"server\" or p.x > 0",
                "? n2 has not reported",
            ),
            ("state(node(\"b\")).x", "2"),
        ],
    );
}

#[test]
fn the_past() {
    let states = [1, 2, 2, 5].map(|x| state(&format!("a server {{x: {x}}}")));
    let check = |source: &str, expected: [&str; 4]| {
        let expr = parse_expr(source).expect("the test writes an expression");
        let history: Vec<&dyn State> = states.iter().map(|state| state as &dyn State).collect();
        let values = (1..=4).map(|n| evaluate_expr(&expr, &library(), &history[..n], &[]));
        let values: Vec<String> = values.map(|value| value.expect("known").to_string()).collect();
        assert_eq!(values, expected, "{source}");
    };
    check("previous(node(\"a\").x)", ["1", "1", "2", "2"]);
    check("previous(node(\"a\").x, 2)", ["1", "1", "1", "2"]);
    check("previous(previous(node(\"a\").x))", ["1", "1", "1", "2"]);
    check("changed(node(\"a\").x)", ["false", "true", "false", "true"]);
    check("window(node(\"a\").x, 3)", ["[1]", "[1, 2]", "[1, 2, 2]", "[2, 2, 5]"]);
    check("previous(window(node(\"a\").x, 2))", ["[1]", "[1]", "[1, 2]", "[2, 2]"]);
}

#[test]
fn scopes_exclude_states() {
    let busy = state("a s {x: 1}\nb s {x: 2}\nc s {x: 2}\na > b");
    let check = |header: &str, body: &str, expected: Option<Verdict>| {
        let property = &parse(&format!("always \"p\" {header}: {body}")).properties[0];
        assert_eq!(evaluate(property, &library(), &[&busy], &[]), expected, "{header} {body}");
    };
    let equal = "forall n, m in nodes: n.x == m.x";
    check("", equal, Some(Verdict::Violated));
    check("when all quiet", equal, None);
    // The pair a, b has a message in flight and is skipped; the pair a, c is judged.
    check("when quiet", equal, Some(Verdict::Violated));
    check(
        "when quiet",
        "forall n in nodes, m in nodes where name(n) != \"c\" and name(m) != \"c\": n.x == m.x",
        Some(Verdict::Holds),
    );
    // An expression over all nodes is judged only if all of them are quiet.
    check("when quiet", "sum(n in nodes: n.x) == 5", None);
    check("when quiet", "forall n in nodes: exists m in nodes: m.x > n.x", None);
}

#[test]
fn witnesses_show_what_matters() {
    let check = |body: &str, expected: &str| {
        let state =
            state("a server {x: 1, log: [1, 2], peer: node(\"b\")}\nb server {x: 2, log: [1, 3]}");
        let property = &parse(&format!("always \"p\": {body}")).properties[0];
        let witness = explain(property, &library(), &[&state], &[]);
        assert_eq!(
            witness.map(|witness| witness.to_string()).unwrap_or_default(),
            expected,
            "{body}"
        );
    };
    check("forall a, b in nodes where a != b: not (a.x < b.x)", "a = a\nb = b\na.x = 1\nb.x = 2\n");
    check(
        "forall n in nodes, i -> e in n.log: e == i + 1 or e > RING",
        "n = b\ni = 1\ne = 3\nRING = 16\n",
    );
    check("sum(n in nodes: n.x) == RING", "sum(n in nodes: n.x) = 3\nRING = 16\n");
    check("not exists n in nodes: n.peer != null", "n = a\nn.peer = b\n");
    check("forall n in nodes: n.x > 0 and len(n.log) > n.x", "n = b\nlen(n.log) = 2\nn.x = 2\n");
    check("forall n in nodes: n.x > 0", "");
}

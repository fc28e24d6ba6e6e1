//! The reference agrees with the implementation.

use everhold_property::{
    BinaryOp, Library, REFERENCE, Schema, Snapshot, Type, Value, check_all, evaluate_expr, parse,
    parse_expr, print_all, render_all,
};

fn examples() -> Vec<&'static str> {
    let blocks = REFERENCE.split("```prop\n").skip(1);
    blocks.map(|block| block.split("```").next().expect("a block is closed")).collect()
}

#[test]
fn each_example_is_a_property() {
    let library = Library::new().with_constant("EXTENTS", Value::set([1, 2]));
    // A watch claims what mentions `key` of every key.
    let library = library.with_constant("key", 7);
    assert!(examples().len() >= 5);
    for source in examples() {
        let parsed = parse(source);
        assert_eq!(render_all(&parsed.diagnostics, "reference.md", source), "");
        let found = check_all(&parsed.properties, &library, &Schema::default());
        assert_eq!(render_all(&found, "reference.md", source), "");
        assert_eq!(parse(&print_all(&parsed.properties)).properties, parsed.properties);
    }
}

/// The examples of operators have the results that the page gives, and leave no operator out.
#[test]
fn each_operator_has_its_result() {
    let block = REFERENCE.split("```values\n").nth(1).expect("there is a block");
    let block = block.split("```").next().expect("it is closed");
    let state = Snapshot::default();
    let value = |text: &str| {
        let expr = parse_expr(text).unwrap_or_else(|wrong| panic!("{text}: {wrong:?}"));
        evaluate_expr(&expr, &Library::new(), &[&state], &[])
    };
    for line in block.lines() {
        let (text, result) = line.split_once("  is  ").expect("an expression, and its value");
        let found = value(text).unwrap_or_else(|unknown| panic!("{text}: {unknown}"));
        assert_eq!(Ok(found), value(result), "{text}");
    }
    let library = Library::new();
    let of_states = ["up", "kind", "name", "reported", "state", "node", "in_flight", "messages"];
    for name in library.function_names().filter(|name| !of_states.contains(name)) {
        assert!(block.contains(&format!("{name}(")), "{name}");
    }
}

/// Every operator and function is mentioned, so that the page stays complete.
#[test]
fn nothing_is_left_out() {
    for op in [
        BinaryOp::Subset,
        BinaryOp::Disjoint,
        BinaryOp::Prefix,
        BinaryOp::Subsequence,
        BinaryOp::NotIn,
        BinaryOp::Rem,
    ] {
        assert!(REFERENCE.contains(op.text()), "{}", op.text());
    }
    let library = Library::new().with_function("f", [], Type::Any, |_| Ok(Value::Null));
    for name in library.function_names().filter(|name| *name != "f") {
        assert!(REFERENCE.contains(name), "{name}");
    }
}

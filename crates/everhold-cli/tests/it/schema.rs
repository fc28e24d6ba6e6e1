//! `docs/output.schema.json` describes the output of `--json` for every command.

use std::fs;

use serde_json::Value as Json;

use crate::program::{everhold, temporary};

fn schema() -> Json {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/output.schema.json");
    let text = fs::read_to_string(path).expect("it is there");
    serde_json::from_str(&text).expect("it is JSON")
}

/// Checks a value against the subset of JSON Schema that ours uses; returns the place of the first
/// mismatch.
fn validate(root: &Json, schema: &Json, value: &Json, place: &str) -> Result<(), String> {
    for (word, rule) in schema.as_object().expect("a schema is an object") {
        let fits = match word.as_str() {
            "$ref" => {
                let pointer = rule.as_str().and_then(|rule| rule.strip_prefix('#'));
                let target = pointer.and_then(|pointer| root.pointer(pointer));
                validate(root, target.unwrap_or_else(|| panic!("{rule}")), value, place)?;
                true
            }
            "anyOf" => any_of(root, rule, value, place)?,
            "const" => rule == value,
            "enum" => rule.as_array().is_some_and(|allowed| allowed.contains(value)),
            "type" => is_of_type(rule.as_str().expect("one type"), value),
            "required" => rule.as_array().is_some_and(|names| {
                names.iter().all(|name| value.get(name.as_str().unwrap_or_default()).is_some())
            }),
            "additionalProperties" => closed(schema, value),
            "properties" => fields(root, rule, value, place)?,
            "items" => items(root, rule, value, place)?,
            "$schema" | "title" | "description" | "$defs" => true,
            other => panic!("this test does not know {other:?}"),
        };
        if !fits {
            return Err(format!("{place}: {word} {rule} is not so of {value}"));
        }
    }
    Ok(())
}

fn any_of(root: &Json, rule: &Json, value: &Json, place: &str) -> Result<bool, String> {
    let all = rule.as_array().expect("a list");
    let tried = all.iter().map(|one| validate(root, one, value, place));
    let problems: Vec<String> = tried.filter_map(Result::err).collect();
    if problems.len() < all.len() { Ok(true) } else { Err(problems.join("\n")) }
}

fn is_of_type(name: &str, value: &Json) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("this test does not know the type {other:?}"),
    }
}

fn closed(schema: &Json, value: &Json) -> bool {
    let known = |name: &String| schema["properties"].get(name).is_some();
    value.as_object().is_none_or(|object| object.keys().all(known))
}

fn fields(root: &Json, rule: &Json, value: &Json, place: &str) -> Result<bool, String> {
    for (name, schema) in rule.as_object().expect("names") {
        if let Some(field) = value.get(name) {
            validate(root, schema, field, &format!("{place}.{name}"))?;
        }
    }
    Ok(true)
}

fn items(root: &Json, rule: &Json, value: &Json, place: &str) -> Result<bool, String> {
    for (at, item) in value.as_array().into_iter().flatten().enumerate() {
        validate(root, rule, item, &format!("{place}[{at}]"))?;
    }
    Ok(true)
}

/// Runs a command; each line must conform, and at least one must have each of these fields.
fn check(arguments: &[&str], part: &str, has: &[&str]) {
    let (root, output) = (schema(), everhold(arguments));
    let text = String::from_utf8(output.stdout).expect("output is UTF-8");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!text.is_empty(), "{arguments:?} prints nothing: {said}");
    for line in text.lines() {
        let value: Json = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let found = validate(&root, &root["$defs"][part], &value, "line");
        found.unwrap_or_else(|problem| panic!("{arguments:?}: {problem}"));
    }
    for name in has {
        assert!(text.contains(&format!("\"{name}\"")), "{arguments:?}: no {name} in {text}");
    }
}

const CHORD: &str = "../../everhold-trace/testdata/chord.log";
const ETCD: &str = "../../everhold-trace/testdata/etcd-raft-example.ndjson";

#[test]
fn output_is_as_published() {
    let check_line = ["violation", "cut", "summary", "why_unknown"];
    check(&["check", "ping.prop", "ping.trace", "--json"], "check-line", &check_line);
    check(&["check", "limit.prop", CHORD, "--json"], "check-line", &["is"]);
    let mapping = "../../everhold-trace/testdata/etcd-raft.mapping.json";
    let infer = ["infer", ETCD, "--mapping", mapping, "--all", "--json"];
    check(&infer, "infer-line", &["reason"]);
    check(&["perf", "randtree", "--executions", "40", "--json"], "perf-output", &["good_curve"]);
    let against = ["perf", "randtree", "--against", "none", "--executions", "20", "--json"];
    check(&against, "perf-output", &["reference"]);
}

#[test]
fn almost_invariants_are_as_published() {
    let trace = temporary("almost.jsonl");
    fs::write(&trace, almost_always()).expect("it can be written");
    let trace = trace.to_str().expect("a plain name");
    check(&["infer", "--almost", trace, "--json"], "infer-line", &["almost", "episodes"]);
    let page = temporary("almost.html");
    let page = page.to_str().expect("a plain name");
    let output = everhold(&["infer", "--almost", trace, "--html", page]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let html = fs::read_to_string(page).expect("it was written");
    assert!(html.contains("Exceptions over time") || html.contains("data-form=\"gzip\""));
}

/// Two tests as the library leaves their outcomes: one that failed, and one that was silent.
#[test]
fn outcomes_of_tests_are_as_published() {
    let folder = temporary("outcomes-as-published");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("tests")).expect("a folder can be made");
    let outcome = |name: &str, verdict: &str, finding: Json| {
        let coverage =
            serde_json::json!({"orders": 5, "states": 6, "pairs_seen": 2, "pairs_unseen": 1});
        let outcome = serde_json::json!({
            "v": 1, "name": name, "test": name, "verdict": verdict, "fails": !finding.is_null(),
            "summary": "", "executions": 7, "seconds": 0.5, "properties": ["always \"one\""],
            "coverage": coverage, "finding": finding,
        });
        let file = folder.join("tests").join(name).with_extension("json");
        fs::write(file, outcome.to_string()).expect("it can be written");
    };
    outcome("silent", "no violation", Json::Null);
    let finding = serde_json::json!({"id": "a-1", "cause": "c", "message": "", "steps": 3, "faults": 0, "replay": "r"});
    outcome("failed", "violated", finding);
    let folder = folder.to_str().expect("a plain name");
    check(&["findings", folder, "--json"], "findings-line", &["silent", "failed", "replay"]);
}

/// A counter that follows another one, except at one moment.
fn almost_always() -> String {
    let mut text = String::from("{\"everhold\":\"trace\",\"version\":1}\n{\"is\":\"run\"}\n");
    text += "{\"is\":\"node\",\"name\":\"a\",\"kind\":\"n\"}\n";
    for step in 0..400_u32 {
        let (asked, told) = (step * 7 % 31, step * 7 % 31 + u32::from(step == 200));
        text += &format!(
            "{{\"is\":\"event\",\"node\":\"a\",\"kind\":\"local\",\"name\":\"step\",\
             \"state\":{{\"asked\":{asked},\"told\":{told}}}}}\n"
        );
    }
    text + "{\"is\":\"end\",\"events\":400}\n"
}

/// The validator of this test rejects values that do not conform.
#[test]
fn what_does_not_fit_is_noticed() {
    let root = schema();
    let fits = |text: &str| {
        let value: Json = serde_json::from_str(text).expect("it is JSON");
        validate(&root, &root, &value, "line").is_ok()
    };
    assert!(fits(r#"{"is":"error","message":"no"}"#));
    assert!(!fits(r#"{"is":"error"}"#) && !fits(r#"{"is":"error","message":1}"#));
    assert!(!fits(r#"{"is":"error","message":"no","more":1}"#) && !fits("[]"));
    assert!(!fits(r#"{"name":"n","property":"p","samples":1.5,"distinct":1,"confidence":0.9}"#));
}

//! The native format: round trips, files cut short, and every kind of bad input.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use everhold_trace::format::{
    DiagnosticKind, Item, ReadError, ReadOptions, Reader, TraceFile, Writer, read_all,
};
use everhold_trace::{Execution, Value, notes};

use crate::random::{Random, Shape, execution};

fn written(executions: &[Execution]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    for execution in executions {
        writer.execution(execution).unwrap();
    }
    writer.finish().unwrap()
}

fn strict(file: &[u8]) -> Result<TraceFile, ReadError> {
    read_all(file, &ReadOptions::strict())
}

fn lenient(file: &[u8]) -> TraceFile {
    read_all(file, &ReadOptions::lenient()).unwrap()
}

fn samples(seed: u64, count: usize) -> Vec<Execution> {
    let mut random = Random(seed);
    let mut sample = |i: usize| {
        let shape = Shape::full(&mut random);
        execution(&mut random, shape).with_name(&format!("run {i}")).with_note(notes::SEED, seed)
    };
    (0..count).map(&mut sample).collect()
}

#[test]
fn what_is_written_is_read() {
    for seed in 0..200 {
        let executions = samples(seed, 3);
        assert_eq!(strict(&written(&executions)).unwrap().executions, executions);
    }
}

#[test]
fn states_written_as_changes_are_the_same_states() {
    for seed in 0..200 {
        let original = samples(seed, 1).remove(0);
        let mut writer = Writer::new(Vec::new()).with_changes();
        writer.execution(&original).unwrap();
        let file = writer.finish().unwrap();
        let read = strict(&file).unwrap().executions.remove(0);
        let (a, b) = (original.local_states(), read.local_states());
        for node in original.node_ids() {
            for count in 0..=original.events_of(node).len() {
                assert_eq!(a.at(node, count), b.at(node, count));
            }
        }
        // Writing what was read keeps the changes as they are.
        assert_eq!(written(std::slice::from_ref(&read)), file);
    }
}

#[test]
fn a_file_cut_anywhere_keeps_its_whole_lines() {
    let executions = samples(5, 2);
    let file = written(&executions);
    for end in 0..file.len() {
        let cut = &file[..end];
        let whole_lines = cut.iter().filter(|byte| **byte == b'\n').count();
        let recording = lenient(cut);
        let mut reader = Reader::new(&file[..], &ReadOptions::strict()).unwrap();
        let mut events = 0;
        while let Some(item) = reader.next_item().unwrap() {
            if reader.line() > whole_lines as u64 {
                break;
            }
            events += usize::from(matches!(item, Item::Event(_)));
        }
        let read: usize = recording.executions.iter().map(|e| e.events().len()).sum();
        // The line cut off may be whole but for its line end.
        assert!(read == events || read == events + 1, "{read} of {events} at {end}");
    }
}

#[test]
fn a_run_without_its_end_is_incomplete() {
    let file = "{\"everhold\":\"trace\",\"version\":1}\n{\"is\":\"run\",\"name\":\"a\"}\n\
                {\"is\":\"event\",\"node\":\"x\",\"kind\":\"start\"}\n\
                {\"is\":\"run\",\"name\":\"b\"}\n{\"is\":\"end\",\"events\":0}\n";
    let executions = strict(file.as_bytes()).unwrap().executions;
    assert_eq!(executions.len(), 2);
    assert!(!executions[0].is_complete() && executions[1].is_complete());
}

/// A file with the given lines after header and `run`; `expected` must be the message of a strict
/// reader, and a lenient one must keep `kept` events.
#[track_caller]
fn check_bad(lines: &str, expected: &str, kept: usize) {
    let head = "{\"everhold\":\"trace\",\"version\":1}\n{\"is\":\"run\"}\n";
    check_bad_file(format!("{head}{lines}").as_bytes(), expected, kept);
}

#[track_caller]
fn check_bad_file(file: &[u8], expected: &str, kept: usize) {
    let error = strict(file).unwrap_err();
    assert!(error.to_string().contains(expected), "{error}");
    let recording = lenient(file);
    assert!(!recording.diagnostics.is_empty());
    let said = recording.diagnostics.iter().any(|d| d.to_string().contains(expected));
    assert!(said, "{:?}", recording.diagnostics);
    let events: usize = recording.executions.iter().map(|e| e.events().len()).sum();
    assert_eq!(events, kept);
}

const A: &str = r#"{"is":"event","node":"a","kind":"start"}"#;

#[test]
fn lines_that_cannot_be_read_name_their_line() {
    check_bad(&format!("{A}\n{{\"is\":\"ev\n{A}\n"), "line 4: the line ends in the middle", 2);
    check_bad(&format!("{A}\n{{\"is\":\"ev"), "line 4: the line ends in the middle", 1);
    check_bad(&format!("{A}\nnonsense\n{A}"), "line 4: column 2: expected ident", 2);
    check_bad("{\"is\":\"event\",\"node\":\"a\"}\n", "line 3: an event lacks its field `kind`", 0);
    check_bad("{\"is\":\"event\",\"kind\":\"start\"}\n", "lacks its field `node`", 0);
    check_bad("{\"is\":\"event\",\"node\":\"a\",\"kind\":\"fly\"}\n", "`kind` is \"fly\"", 0);
    check_bad(
        "{\"is\":\"event\",\"node\":true,\"kind\":\"start\"}\n",
        "a node's name or number",
        0,
    );
    check_bad("{\"is\":\"what\"}\n", "`is` is \"what\"; expected run, node", 0);
    check_bad("{\"x\":1}\n", "a line lacks its field `is`", 0);
    let state = |json: &str| A.replace("}", &format!(",\"state\":{json}}}\n"));
    check_bad(&state("{\"$new\":1}"), "`$new` must hold", 0);
    check_bad(&state(&("[".repeat(200) + &"]".repeat(200))), "nested deeper than 128", 0);
    check_bad(&(A.to_owned() + "\n{\"is\":\"end\",\"events\":7}\n"), "counts 7 events, but 1", 1);
}

#[test]
fn invalid_utf8_names_its_column() {
    let mut file = written(&[]);
    file.extend(b"{\"is\":\"run\"}\n{\"is\":\"\xff\"}\n");
    file.extend(A.as_bytes());
    check_bad_file(&file, "line 3: column 8 is not UTF-8", 1);
}

#[test]
fn long_lines_are_read_up_to_the_limit_and_skipped_beyond() {
    let long = A.replace('}', &format!(",\"text\":\"{}\"}}\n", "x".repeat(10_000_000)));
    let mut file = String::from_utf8(written(&[])).unwrap() + "{\"is\":\"run\"}\n";
    write!(file, "{A}\n{long}{A}\n").unwrap();
    assert_eq!(strict(file.as_bytes()).unwrap().executions[0].events().len(), 3);
    let short = ReadOptions::strict().with_line_bytes_max(1 << 20);
    let error = read_all(file.as_bytes(), &short).unwrap_err();
    assert!(error.to_string().contains("line 4: longer than 1048576 bytes"), "{error}");
    let short = ReadOptions::lenient().with_line_bytes_max(1 << 20);
    assert_eq!(read_all(file.as_bytes(), &short).unwrap().executions[0].events().len(), 2);
}

#[test]
fn events_that_cannot_have_happened_name_their_line() {
    let deliver = |node: &str, from: &str, seq: u64| {
        format!(
            "{{\"is\":\"event\",\"node\":\"{node}\",\"kind\":\"deliver\",\"from\":\"{from}\",\"seq\":{seq}}}\n"
        )
    };
    let send = |node: &str, to: &str, seq: u64| {
        format!(
            "{{\"is\":\"event\",\"node\":\"{node}\",\"kind\":\"send\",\"sends\":[{{\"to\":\"{to}\",\"seq\":{seq}}}]}}\n"
        )
    };
    check_bad(&deliver("a", "b", 3), "line 3: node `a`: receive of message n1#3 without a send", 1);
    check_bad(
        &(send("a", "b", 0) + &send("a", "b", 0)),
        "line 4: node `a`: message n0#0 is sent twice",
        2,
    );
    check_bad(&(send("a", "b", 0) + &deliver("c", "a", 0)), "was sent to another node", 2);
    let cycle =
        deliver("a", "b", 0) + &send("a", "b", 0) + &deliver("b", "a", 0) + &send("b", "a", 0);
    check_bad(&cycle, "line 3: node `a`: message n1#0 is received before it is sent", 4);
    let crash = A.replace("start", "crash") + "\n" + A;
    check_bad(&crash, "line 4: node `a`: a step after a crash", 2);
    check_bad("{\"is\":\"lost\",\"message\":[\"a\",4]}\n", "a mark names message n0#4", 0);
    check_bad(&A.replace('}', ",\"changes\":{\"x\":1}}\n"), "no place `x` in the state before", 1);
}

#[test]
fn nodes_are_declared_all_or_none() {
    let node = "{\"is\":\"node\",\"name\":\"b\"}\n";
    check_bad(&format!("{node}{A}\n"), "line 4: node `a` was not declared", 0);
    check_bad(&format!("{node}{node}"), "line 4: node `b` is declared twice", 0);
    let by_number = "{\"is\":\"event\",\"node\":1,\"kind\":\"start\"}\n";
    check_bad(&format!("{node}{by_number}"), "node `1` was not declared", 0);
}

#[test]
fn files_of_another_kind_say_what_they_look_like() {
    let check = |file: &[u8], expected: &str| check_bad_file(file, expected, 0);
    check(b"", "an empty file");
    check(b"hello\n", "text of another format");
    check(b"a,b\n1,2\n", "comma-separated values");
    check(b"host {\"host\":1}\nevent\n", "a log with vector clocks");
    check(b"(?<host>x)\n", "a ShiViz file");
    check(b"\x1f\x8b\x08junk", "a gzip file");
    check(b"\x7fELF\0\0\n", "a binary file");
    check(b"{\"level\":\"debug\"}\n", "JSON of another shape");
    check(b"{\"everhold\":\"trace\",\"version\":9}\n", "version 9 of the format");
    check(b"{\"everhold\":\"trace\"}\n", "the header lacks its field `version`");
    check_bad_file(A.as_bytes(), "not an Everhold trace", 1);
    let outside = String::from_utf8(written(&[])).unwrap() + A;
    let error = strict(outside.as_bytes()).unwrap_err();
    assert!(error.to_string().contains("line 2: expected a `run` line"), "{error}");
}

#[test]
fn too_deep_values_are_not_written() {
    let mut deep = Value::Null;
    for _ in 0..130 {
        deep = Value::List(vec![deep]);
    }
    let mut writer = Writer::new(Vec::new());
    let notes = [("deep".to_owned(), deep)].into();
    let error = writer.begin_run("", &notes).unwrap_err();
    assert!(error.to_string().contains("nests deeper than 120"), "{error}");
}

#[test]
fn a_log_out_of_order_is_put_in_order() {
    let file = "{\"everhold\":\"trace\",\"version\":1}\n{\"is\":\"run\"}\n\
        {\"is\":\"event\",\"node\":\"b\",\"kind\":\"deliver\",\"from\":\"a\",\"seq\":0}\n\
        {\"is\":\"event\",\"node\":\"a\",\"kind\":\"send\",\"sends\":[{\"to\":\"b\",\"seq\":0}]}\n";
    let execution = strict(file.as_bytes()).unwrap().executions.remove(0);
    let order: Vec<_> = execution.events().iter().map(|e| &execution.node(e.node).name).collect();
    assert_eq!(order, ["a", "b"]);
}

/// Whatever the bytes, a reader returns; a lenient one never refuses content.
#[test]
fn damaged_files_never_panic() {
    let mut random = Random(7);
    let original = written(&samples(1, 2));
    for _ in 0..1_500 {
        let mut file = original.clone();
        for _ in 0..=random.below(6) {
            damage(&mut file, &mut random);
        }
        let _ = strict(&file);
        match read_all(file.as_slice(), &ReadOptions::lenient()) {
            Ok(_) => {}
            Err(error) => assert!(matches!(
                error.diagnostics().first().map(|d| &d.kind),
                Some(DiagnosticKind::Compressed)
            )),
        }
    }
}

pub(crate) fn damage(file: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(file.len());
    match random.below(5) {
        0 => file[at] = random.next().to_le_bytes()[0],
        1 => drop(file.drain(at..(at + random.below(40)).min(file.len()))),
        2 => {
            let end = (at + random.below(200)).min(file.len());
            let copy = file[at..end].to_vec();
            let to = random.below(file.len());
            file.splice(to..to, copy);
        }
        3 => file.insert(at, b"\n\"{}[]:,$0"[random.below(10)]),
        _ => {
            // Swap two digits or letters: still JSON, but with another meaning.
            let other = random.below(file.len());
            if file[at].is_ascii_alphanumeric() && file[other].is_ascii_alphanumeric() {
                file.swap(at, other);
            }
        }
    }
    if file.is_empty() {
        file.push(b'x');
    }
}

#[cfg(feature = "zstd")]
#[test]
fn compressed_files_are_read_without_being_told() {
    let executions = samples(3, 3);
    let mut writer = Writer::compressed(Vec::new()).unwrap();
    executions.iter().for_each(|execution| writer.execution(execution).unwrap());
    let file = writer.finish().unwrap();
    assert!(file.len() < written(&executions).len() / 2);
    assert_eq!(strict(&file).unwrap().executions, executions);
    let cut = &file[..file.len() - 5];
    assert!(strict(cut).unwrap_err().to_string().contains("ends in the middle"));
    assert!(!lenient(cut).executions.is_empty());
}

#[cfg(not(feature = "zstd"))]
#[test]
fn a_compressed_file_names_the_feature_to_switch_on() {
    let error = strict(&[0x28, 0xb5, 0x2f, 0xfd, 0]).unwrap_err();
    assert!(error.to_string().contains("the `zstd` feature"), "{error}");
}

/// The file in the format's page is one that the reader takes, and names every key of the schema.
#[test]
fn the_page_shows_a_file_that_can_be_read() {
    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = fs::read_to_string(documents.join("trace-format.md")).unwrap();
    let file = page.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let recording = strict(file.as_bytes()).unwrap();
    assert_eq!(recording.executions[0].messages().len(), 1);
    let schema = fs::read_to_string(documents.join("trace.schema.json")).unwrap();
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    for key in schema["$defs"]["event"]["properties"].as_object().unwrap().keys() {
        assert!(page.contains(&format!("`{key}`")), "the page does not say what `{key}` is");
    }
}

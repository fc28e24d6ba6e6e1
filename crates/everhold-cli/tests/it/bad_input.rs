//! Unusable input: the message has the place, the expectation and a remedy, and the exit code is
//! 64.

use std::fs;
use std::io::Write;

use crate::check::ETCD;
use crate::program::{check, everhold, screen, temporary};

/// Writes a file and checks the message of `show` about it.
#[track_caller]
fn refused(name: &str, content: &[u8], prints: &[&str]) {
    let file = temporary(name);
    fs::write(&file, content).unwrap();
    check(&["show", file.to_str().unwrap()], 64, prints);
}

#[test]
fn a_truncated_file_keeps_what_is_whole_when_asked() {
    check(&["show", "truncated.trace"], 64, &["truncated.trace: line 10:", "--lenient"]);
    check(&["show", "truncated.trace", "--lenient"], 0, &["left out:", "the recording stops here"]);
    let file = temporary("cut.trace.zst");
    check(&["convert", "ping.trace", file.to_str().unwrap()], 0, &[]);
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 20]).unwrap();
    check(&["show", file.to_str().unwrap()], 64, &["ends in the middle"]);
}

#[test]
fn what_is_no_trace_is_said_to_be_none() {
    refused("empty.trace", b"", &["the file is empty"]);
    refused("poem.txt", b"roses are red\n", &["not a trace", "--format"]);
    refused("binary", &[1, 0, 2, 255], &["a binary file"]);
    refused("log.gz", &[0x1f, 0x8b, 8, 0], &["ends in the middle"]);
    refused(
        "poem.log",
        b"roses are red\n",
        &["no event matches the parser", "host, clock and event"],
    );
    refused("other.jsonl", b"{\"a\": 1}\n", &["--mapping FILE"]);
    refused("points.txt", b"{\"VectorClock\": \"\"}\n", &["--format dinv"]);
    refused("table.csv", b"a,b\n1,2\n", &["one of them `node`"]);
}

/// Every format of logs, compressed: what the whole file is read as, and the half of it.
#[test]
fn compressed_logs_are_read_without_being_told() {
    let table: String = (0..50).map(|at| format!("a,{at}\nb,{}\n", at * 7 % 50)).collect();
    let lines: String = (0..50).map(|at| format!("a,b,Ask{at}\n")).collect();
    let govector: String = (1..50).map(|at| format!("a {{\"a\":{at}}}\nstep\n")).collect();
    let logs = [
        ("table.csv", format!("node,x\n{table}"), "events          100"),
        ("lines.txt", format!("from,to,message\n{lines}"), "events          100"),
        ("vectors.log", govector, "events          49"),
    ];
    for (name, text, events) in logs {
        for (ending, packed) in [("gz", gzip(text.as_bytes())), ("zst", zstd(text.as_bytes()))] {
            let file = temporary(&format!("{name}.{ending}"));
            fs::write(&file, &packed).unwrap();
            let path = file.to_str().unwrap();
            check(&["show", path, "--as", "stats"], 0, &[events]);
            fs::write(&file, &packed[..packed.len() / 2]).unwrap();
            check(&["show", path], 64, &["ends in the middle"]);
        }
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

/// Less than half is not enough to judge, also when broken parts are left out.
#[test]
fn a_file_that_is_mostly_broken_is_refused() {
    let file = temporary("garbage.trace");
    let head = "{\"everhold\":\"trace\",\"version\":1}\n{\"is\":\"run\"}\n";
    let event = "{\"is\":\"event\",\"node\":\"a\",\"kind\":\"local\"}\n";
    let path = file.to_str().unwrap();
    fs::write(&file, format!("{head}{}{}", event.repeat(3), "garbage\n".repeat(5))).unwrap();
    let told = ["only 3 events were kept, too few to judge; copy the file again", "line 6: "];
    check(&["show", path, "--lenient"], 64, &told);
    fs::write(&file, format!("{head}{}{}", event.repeat(5), "garbage\n".repeat(3))).unwrap();
    check(&["show", path, "--lenient"], 0, &["left out: "]);
    let table = temporary("broken.csv");
    fs::write(&table, "node,x\na,1\na,1,2\na,1,2\n").unwrap();
    let told = ["only 1 of 3 rows could be read, too few to judge", "line 3: 3 cells, expected 2"];
    check(&["check", "ping.prop", table.to_str().unwrap(), "--lenient"], 64, &told);
}

#[test]
fn wrong_content_has_its_line() {
    refused(
        "new.trace",
        b"{\"everhold\":\"trace\",\"version\":9}\n",
        &["line 1: version 9", "use a newer one"],
    );
    let head = b"{\"everhold\":\"trace\",\"version\":1}\n{\"is\":\"run\"}\n".as_slice();
    refused(
        "utf8.trace",
        &[head, b"{\"is\":\"node\",\"name\":\"\xff\"}\n"].concat(),
        &["line 3: column 22 is not UTF-8"],
    );
    let receive =
        b"{\"is\":\"event\",\"node\":\"a\",\"kind\":\"deliver\",\"from\":\"b\",\"seq\":1}\n";
    refused(
        "receive.trace",
        &[head, receive.as_slice()].concat(),
        &["line 3: node `a`: receive of message", "--lenient"],
    );
    refused(
        "clock.log",
        b"a {\"a\":1}\nx\na {\"a\":1}\ny\n",
        &["line 3: clocks contradict each other"],
    );
}

#[test]
fn files_that_are_not_there_or_no_files() {
    check(&["show", "pong.trace"], 64, &["pong.trace: no such file; did you mean `ping.trace`?"]);
    check(&["show", "golden"], 64, &["golden: a directory", "--together"]);
    check(&["check", "golden", "ping.trace"], 64, &["golden: a directory"]);
    check(&["convert", "ping.trace", "golden", "--to", "csv"], 64, &["name a file to write"]);
    check(&["show", ETCD, "--mapping", "none.json"], 64, &["none.json: no such file"]);
    check(
        &["show", ETCD, "--mapping", "ping.prop"],
        64,
        &["ping.prop: the mapping cannot be used"],
    );
}

#[test]
fn options_that_do_not_fit_together() {
    let chord = "../../everhold-trace/testdata/chord.log";
    check(&["show", chord, "--parser", "(?<host>"], 64, &["cannot be used", "unclosed group"]);
    check(&["show", chord, "--parser", "(?<host>.*)"], 64, &["lacks the group (?<clock>..)"]);
    check(
        &["show", chord, "--format", "csv", "--parser", "x"],
        64,
        &["--parser needs --format shiviz"],
    );
    check(&["show", chord, "--format", "ndjson"], 64, &["--mapping FILE"]);
    check(&["show", chord, "--format", "native", "--together"], 64, &["--together is for logs"]);
    check(&["show", chord, "--format", "csv", "--executions", "x"], 64, &["--executions is for"]);
    check(
        &["show", chord, "--parser", "x", "--mapping", "y"],
        64,
        &["the one that the input needs"],
    );
    check(&["check", "ping.prop", "-", "-"], 64, &["can be given only once"]);
    check(&["check", "ping.prop", "ping.trace", "--cases-max", "0"], 64, &["0"]);
    check(&["check", "ping.prop"], 64, &["TRACE"]);
    check(&["show", chord, "--as", "poem"], 64, &["text, picture, stats"]);
}

#[test]
fn all_errors_of_the_rules_are_shown_at_once() {
    let output = everhold(&["check", "three-errors.prop", "ping.trace"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(output.stdout.is_empty());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.matches("error: ").count(), 3, "{said}");
    for part in ["three-errors.prop:1:47", "did you mean `term`?", ":3:", ":5:", "size"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let file = temporary("empty.prop");
    fs::write(&file, "# nothing\n").unwrap();
    check(&["check", file.to_str().unwrap(), "ping.trace"], 64, &["it contains no property"]);
    fs::write(&file, [b'#', 0xff]).unwrap();
    check(&["check", file.to_str().unwrap(), "ping.trace"], 64, &["line 1: not UTF-8"]);
}

/// An error in one file hides neither the content of the others nor errors in the rules.
#[test]
fn nothing_else_is_lost() {
    screen(&["check", "ping.prop", "truncated.trace", "ping.trace"], 64, "ping.txt");
    check(
        &["check", "three-errors.prop", "truncated.trace", "ping.trace"],
        64,
        &["did you mean `term`?", "truncated.trace: line 10"],
    );
}

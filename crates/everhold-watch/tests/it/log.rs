//! The embedded log: whatever a kill leaves behind, whole entries come back and nothing else does.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use everhold_watch::{Entry, Log, SegmentLog, SegmentOptions};

/// A folder of this test's own, empty.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("log-{name}"));
    let _ = fs::remove_dir_all(&folder);
    folder
}

fn open(folder: &Path, segment_bytes: u64) -> SegmentLog {
    let options = SegmentOptions { segment_bytes, ..SegmentOptions::default() };
    SegmentLog::open(folder, options).expect("the log opens")
}

fn payload(i: usize) -> Vec<u8> {
    (0..i * 3 % 11).map(|j| u8::try_from((i * 7 + j) % 251).unwrap()).collect()
}

fn fill(log: &SegmentLog, count: usize) {
    let entries: Vec<Vec<u8>> = (0..count).map(payload).collect();
    for pair in entries.chunks(2) {
        let pair: Vec<&[u8]> = pair.iter().map(Vec::as_slice).collect();
        log.append(0, &pair).expect("it appends");
    }
}

fn read(log: &SegmentLog, from: u64) -> Vec<Entry> {
    let mut cursor = log.cursor(0, from).expect("a cursor");
    let mut all = Vec::new();
    loop {
        let some = cursor.next(20, Duration::ZERO).expect("it reads");
        if some.is_empty() {
            return all;
        }
        all.extend(some);
    }
}

/// Readers see a part of the written records, in order, under the same numbers.
fn check_honest(entries: &[Entry], context: &str) {
    assert!(entries.is_sorted_by(|a, b| a.sequence < b.sequence), "{context}");
    for entry in entries {
        let written = payload(usize::try_from(entry.sequence).unwrap() - 1);
        assert_eq!(entry.bytes, written, "{context}: entry {}", entry.sequence);
    }
}

#[test]
fn reads_from_every_number_over_segments() {
    let folder = folder("read");
    let log = open(&folder, 64);
    fill(&log, 40);
    for from in 1..=41 {
        let entries = read(&log, from);
        assert_eq!(entries.len(), 41 - usize::try_from(from).unwrap());
        check_honest(&entries, &format!("from {from}"));
    }
    drop(log);
    let log = open(&folder, 64);
    assert_eq!((log.recovered().entries, log.recovered().bytes_cut), (40, 0));
    assert_eq!(log.next_sequence(0).unwrap(), 41);
    log.trim(0, 30).unwrap();
    let kept = read(&log, 1);
    check_honest(&kept, "trimmed");
    assert!(kept[0].sequence > 1 && kept[0].sequence <= 30, "{}", kept[0].sequence);
}

/// The file of the last segment, which is what a kill can leave half written.
fn last_segment(folder: &Path) -> PathBuf {
    let files = fs::read_dir(folder.join("p0")).unwrap().map(|entry| entry.unwrap().path());
    files.max().expect("there is a segment")
}

/// Damages the last segment at one byte, reopens, and goes on writing.
fn check_damage(name: &str, damage: impl Fn(&mut Vec<u8>, usize), loses_only_after: bool) {
    let origin = folder(&format!("{name}-origin"));
    fill(&open(&origin, 1 << 20), 9);
    let file = last_segment(&origin);
    let whole = fs::read(&file).unwrap();
    for at in 0..whole.len() {
        let copy = folder(name);
        fs::create_dir_all(copy.join("p0")).unwrap();
        fs::write(copy.join("partitions"), "1").unwrap();
        let mut bytes = whole.clone();
        damage(&mut bytes, at);
        fs::write(copy.join("p0").join(file.file_name().unwrap()), &bytes).unwrap();
        let log = open(&copy, 1 << 20);
        let entries = read(&log, 1);
        check_honest(&entries, &format!("{name} at byte {at}"));
        if loses_only_after {
            let mut intact = 16;
            let whole = (0..9).take_while(|i| {
                intact += 8 + payload(*i).len();
                intact <= at
            });
            assert_eq!(entries.len(), whole.count(), "{name} at byte {at}");
        }
        let next = log.next_sequence(0).unwrap();
        log.append(0, &[&payload(usize::try_from(next).unwrap() - 1)]).unwrap();
        drop(log);
        let again = read(&open(&copy, 1 << 20), 1);
        assert_eq!(again.len(), entries.len() + 1, "{name} at byte {at}");
        check_honest(&again, &format!("{name} at byte {at}, after going on"));
    }
}

#[test]
fn a_kill_at_any_byte_loses_only_what_was_being_written() {
    check_damage("cut", Vec::truncate, true);
}

#[test]
fn a_byte_changed_anywhere_is_noticed() {
    check_damage("flip", |bytes, at| bytes[at] ^= 0x41, true);
    check_damage("zero", |bytes, at| bytes[at..].fill(0), false);
}

#[test]
fn the_oldest_segments_go_when_there_are_too_many() {
    let folder = folder("bounded");
    let options = SegmentOptions { segment_bytes: 64, partition_bytes_max: 300, partitions: 1 };
    let log = SegmentLog::open(&folder, options).unwrap();
    fill(&log, 200);
    let kept = read(&log, 1);
    check_honest(&kept, "bounded");
    assert_eq!(kept.last().unwrap().sequence, 200);
    assert!(kept.len() < 60, "{} entries kept", kept.len());
}

#[test]
fn another_number_of_partitions_is_refused() {
    let folder = folder("shape");
    drop(open(&folder, 64));
    let options = SegmentOptions { partitions: 4, ..SegmentOptions::default() };
    let error = SegmentLog::open(&folder, options).unwrap_err().to_string();
    assert!(error.contains("has 1 partitions and 4 were asked for"), "{error}");
}

#[test]
fn a_cursor_waits_for_what_is_appended() {
    let log = std::sync::Arc::new(open(&folder("wait"), 1 << 20));
    let mut cursor = log.cursor(0, 1).unwrap();
    let writer = std::thread::spawn({
        let log = std::sync::Arc::clone(&log);
        move || log.append(0, &[b"x"]).unwrap()
    });
    let entries = cursor.next(100, Duration::from_secs(20)).unwrap();
    assert_eq!(entries, [Entry { sequence: 1, bytes: b"x".to_vec() }]);
    writer.join().unwrap();
}

/// The end of the log is lost after it was read: what is written then comes after it all the same.
#[test]
fn a_log_goes_on_after_an_end_that_was_lost() {
    for (read_to, kept) in [(41, 20), (38, 20), (4, 0), (30, 40)] {
        let folder = folder("lost");
        let log = open(&folder, 64);
        fill(&log, kept);
        assert_eq!(log.resume(0, read_to).unwrap(), read_to.saturating_sub(kept as u64 + 1));
        let next = read_to.max(kept as u64 + 1);
        assert_eq!(log.next_sequence(0).unwrap(), next);
        log.append(0, &[b"new", b"newer"]).unwrap();
        for _ in 0..2 {
            let log = open(&folder, 64);
            let news: Vec<(u64, Vec<u8>)> =
                read(&log, next).into_iter().map(|entry| (entry.sequence, entry.bytes)).collect();
            assert_eq!(news, [(next, b"new".to_vec()), (next + 1, b"newer".to_vec())]);
            assert_eq!(log.resume(0, next).unwrap(), 0, "it knows");
            let all = read(&log, 1);
            check_honest(&all[..all.len() - 2], "before");
            assert_eq!(all.len(), kept + 2);
        }
    }
}

#[test]
fn a_log_of_another_version_is_refused_and_kept() {
    let folder = folder("version");
    fill(&open(&folder, 1 << 20), 4);
    let path = fs::read_dir(folder.join("p0")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&path).unwrap();
    for version in [2, 5] {
        bytes[7] = version;
        fs::write(&path, &bytes).unwrap();
        let error = SegmentLog::open(&folder, SegmentOptions::default()).unwrap_err().to_string();
        assert!(error.contains(&format!("version {version}")), "{error}");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
}

//! The slow twin: which images a crash can leave, by rules that are written down a second time, for
//! every sequence of a few operations, against those that the choices of a crash lead to.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// An operation of the twin, on two files of each shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Create(&'static str),
    Put(&'static str, u8),
    Append(&'static str, u8),
    Write(&'static str, u64, u8, usize),
    Truncate(&'static str),
    Rename(&'static str, &'static str),
    Remove(&'static str),
    SyncFile(&'static str),
    SyncNames,
    Sync,
}

fn run(volume: &mut Volume, op: Op) {
    let id = |volume: &Volume, name: &str| volume.now().names.get(name).copied();
    match op {
        Op::Put(name, byte) => {
            let file = volume.create(name, Shape::Record);
            volume.replace(file, &[byte]);
        }
        Op::Append(name, byte) => {
            let file = volume.create(name, Shape::Log);
            volume.append(file, &[byte]);
        }
        Op::Write(name, offset, byte, length) => {
            let file = volume.create(name, Shape::Bytes);
            volume.write(file, offset, &vec![byte; length]);
        }
        Op::Truncate(name) => {
            if let Some(file) = id(volume, name) {
                volume.set_length(file, 0);
            }
        }
        Op::Rename(from, to) => drop(volume.rename(from, to).then_some(())),
        Op::Remove(name) => drop(volume.unlink(name).then_some(())),
        Op::SyncFile(name) => {
            if let Some(file) = id(volume, name) {
                volume.sync_file(file);
            }
        }
        Op::SyncNames => volume.sync_names(),
        Op::Sync => volume.sync(),
        Op::Create(_) => unreachable!("files are made by their first write"),
    }
}

/// Names with contents, in words: two images are the same if nobody can tell them apart.
fn show(image: &Image) -> String {
    let file = |(name, id): (&String, &FileId)| {
        let file = &image.files[id];
        let is_there = file.shape != Shape::Record || file.length > 0;
        let cells: Vec<String> = file.cells.iter().map(|cell| show_cell(cell)).collect();
        is_there.then(|| format!("{name}={}", cells.join(",")))
    };
    image.names.iter().filter_map(file).collect::<Vec<_>>().join(" ")
}

/// The length, unless it is one, and the first and the last byte.
fn show_cell(cell: &[u8]) -> String {
    match cell {
        [one] => one.to_string(),
        [first, .., last] => format!("{}x{first}-{last}", cell.len()),
        [] => "nothing".to_owned(),
    }
}

/// The results of every combination of choices at a crash.
fn chosen(volume: &Volume, model: CrashModel) -> BTreeSet<String> {
    let mut images = BTreeSet::new();
    let mut answers: Vec<(u32, u32)> = Vec::new();
    loop {
        let mut at = 0;
        let mut copy = volume.clone();
        copy.crash(model, false, &mut |_, domain| {
            if at == answers.len() {
                answers.push((0, domain));
            }
            at += 1;
            answers[at - 1].0
        });
        images.insert(show(copy.now()));
        while answers.last().is_some_and(|(answer, domain)| answer + 1 == *domain) {
            answers.pop();
        }
        match answers.last_mut() {
            Some((answer, _)) => *answer += 1,
            None => return images,
        }
    }
}

/// The twin's view of an operation: on which file, and what a later sync made of it.
#[derive(Clone, Debug)]
struct Done {
    op: Op,
    file: usize,
    /// The place of an entry.
    at: usize,
    /// It makes its file longer.
    grows: bool,
    /// Safe under every model.
    safe: bool,
    /// Safe where a journal was committed since.
    journaled: bool,
}

impl Done {
    fn is_name(&self) -> bool {
        matches!(self.op, Op::Create(..) | Op::Rename(..) | Op::Remove(_))
    }

    fn is_meta(&self) -> bool {
        self.is_name() || matches!(self.op, Op::Truncate(_))
    }
}

/// The operations that had an effect, each with its file: creations apart from first writes.
fn history(ops: &[Op]) -> Vec<Done> {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    let mut lengths: Vec<usize> = Vec::new();
    let mut done: Vec<Done> = Vec::new();
    let add = |done: &mut Vec<Done>, op, file, at, grows| {
        done.push(Done { op, file, at, grows, safe: false, journaled: false });
    };
    for op in ops {
        if let Op::Put(name, _) | Op::Append(name, _) = op
            && !names.contains_key(name)
        {
            names.insert(name, lengths.len());
            add(&mut done, Op::Create(name), lengths.len(), 0, false);
            lengths.push(0);
        }
        let file = |name: &str| names.get(name).copied();
        match *op {
            Op::Put(name, _) => {
                let file = names[name];
                add(&mut done, *op, file, 0, lengths[file] == 0);
                lengths[file] = 1;
            }
            Op::Append(name, _) => {
                let file = names[name];
                add(&mut done, *op, file, lengths[file], true);
                lengths[file] += 1;
            }
            Op::Truncate(name) => {
                if let Some(file) = file(name).filter(|file| lengths[*file] > 0) {
                    add(&mut done, *op, file, 0, false);
                    lengths[file] = 0;
                }
            }
            Op::Rename(from, to) => {
                if let Some(file) = names.remove(from) {
                    names.insert(to, file);
                    add(&mut done, *op, file, 0, false);
                }
            }
            Op::Remove(name) => {
                if let Some(file) = names.remove(name) {
                    add(&mut done, *op, file, 0, false);
                }
            }
            Op::Sync => done.iter_mut().for_each(|one| one.safe = true),
            Op::SyncNames => done.iter_mut().for_each(|one| {
                one.journaled |= one.is_meta();
                one.safe |= one.is_name();
            }),
            Op::SyncFile(name) => {
                let Some(synced) = file(name) else { continue };
                done.iter_mut().for_each(|one| {
                    one.journaled |= one.is_meta();
                    one.safe |= one.file == synced && !one.is_name();
                });
            }
            Op::Create(_) | Op::Write(..) => unreachable!("not for the twin"),
        }
    }
    done
}

/// The files that are left if `kept` says of each operation whether its effect survives, and
/// `written` whether its contents do.
fn rebuilt(done: &[Done], kept: &[bool], written: &[bool]) -> String {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    let mut files: BTreeMap<usize, (bool, Vec<u8>)> = BTreeMap::new();
    for ((one, kept), written) in done.iter().zip(kept).zip(written) {
        let (is_record, cells) = files.entry(one.file).or_default();
        match one.op {
            Op::Put(_, byte) if *kept => {
                (*is_record, *cells) = (true, vec![byte]);
            }
            Op::Append(_, byte) if *kept => {
                if cells.len() <= one.at {
                    cells.resize(one.at + 1, 0);
                }
                if *written {
                    cells[one.at] = byte;
                }
            }
            Op::Truncate(_) if *kept => cells.clear(),
            Op::Create(name) if *kept => drop(names.insert(name, one.file)),
            Op::Remove(name) if *kept => drop(names.remove(name)),
            Op::Rename(from, to) if *kept => {
                if names.get(from) == Some(&one.file) {
                    names.remove(from);
                }
                names.insert(to, one.file);
            }
            Op::Put(name, _) => *is_record |= !name.is_empty(),
            _ => {}
        }
    }
    let shown = names.iter().filter_map(|(name, file)| {
        let (is_record, cells) = &files[file];
        let cells: Vec<String> = cells.iter().map(u8::to_string).collect();
        (!is_record || !cells.is_empty()).then(|| format!("{name}={}", cells.join(",")))
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// The rules once more, from the operations alone: every way to keep some effects and lose others,
/// without those that the model forbids.
fn allowed(ops: &[Op], model: CrashModel) -> BTreeSet<String> {
    let done = history(ops);
    let all = vec![true; done.len()];
    if model == CrashModel::Kill {
        return BTreeSet::from([rebuilt(&done, &all, &all)]);
    }
    let count = done.len() as u32;
    let bits = |bits: u32| -> Vec<bool> { (0..count).map(|at| (bits >> at) & 1 == 1).collect() };
    let mut images = BTreeSet::new();
    for kept in (0..1 << count).map(bits) {
        let is_free = |one: &Done| !(one.safe || (one.journaled && model == CrashModel::Ext4));
        let lost = |at: usize| !kept[at];
        if (0..done.len()).any(|at| lost(at) && !is_free(&done[at])) {
            continue;
        }
        let forbidden = (0..done.len()).filter(|at| kept[*at]).any(|later| {
            (0..later).any(|earlier| lost(earlier) && is_tied(&done, later, earlier, model))
        });
        if forbidden {
            continue;
        }
        for written in (0..1 << count).map(bits) {
            let is_loose = |one: &Done| {
                model == CrashModel::Any && matches!(one.op, Op::Append(..)) && !one.safe
            };
            if (0..done.len()).all(|at| written[at] || is_loose(&done[at])) {
                images.insert(rebuilt(&done, &kept, &written));
            }
        }
    }
    images
}

/// Whether the later operation is never seen without the earlier one.
fn is_tied(done: &[Done], later: usize, earlier: usize, model: CrashModel) -> bool {
    let (later, earlier) = (&done[later], &done[earlier]);
    let same_file = later.file == earlier.file && !earlier.is_meta() && !later.is_meta();
    // Both shapes know one order within a file: versions of a record, the length of a log.
    let one_order = same_file;
    let journal = (later.is_meta() || later.grows) && earlier.is_meta();
    one_order || (model == CrashModel::Ext4 && journal)
}

const OPS: [Op; 11] = [
    Op::Put("r", 1),
    Op::Put("s", 2),
    Op::Append("l", 3),
    Op::Append("m", 4),
    Op::Append("l", 5),
    Op::Truncate("l"),
    Op::Rename("l", "m"),
    Op::Remove("r"),
    Op::SyncFile("l"),
    Op::SyncNames,
    Op::Sync,
];

/// Every sequence of up to three operations.
fn sequences(each: &mut dyn FnMut(&[Op], &Volume)) {
    fn go(done: &mut Vec<Op>, volume: &Volume, each: &mut dyn FnMut(&[Op], &Volume)) {
        each(done, volume);
        if done.len() == 3 {
            return;
        }
        for op in OPS {
            let mut next = volume.clone();
            run(&mut next, op);
            done.push(op);
            go(done, &next, each);
            done.pop();
        }
    }
    go(&mut Vec::new(), &Volume::default(), each);
}

#[test]
fn choices_lead_to_what_is_allowed_and_each_model_allows_more() {
    let mut sizes = [0; 3];
    sequences(&mut |ops, volume| {
        let mut smaller: Option<BTreeSet<String>> = None;
        for (number, model) in CrashModel::ALL.into_iter().enumerate() {
            let images = chosen(volume, model);
            assert_eq!(images, allowed(ops, model), "{model:?} after {ops:?}");
            if let Some(smaller) = &smaller {
                assert!(smaller.is_subset(&images), "{model:?} after {ops:?}");
            }
            sizes[number] += images.len();
            smaller = Some(images);
        }
    });
    assert!(sizes[0] < sizes[1] && sizes[1] < sizes[2], "{sizes:?}");
}

/// Every state that a crash can leave after these operations, spelled out by hand.
#[track_caller]
fn check(ops: &[Op], model: CrashModel, expected: &[&str]) {
    let mut volume = Volume::default();
    ops.iter().for_each(|op| run(&mut volume, *op));
    let expected: BTreeSet<String> = expected.iter().map(|&image| image.to_owned()).collect();
    assert_eq!(chosen(&volume, model), expected, "{model:?} after {ops:?}");
}

#[test]
fn states_that_a_crash_can_leave() {
    use CrashModel::{Any, Ext4, Kill};
    use Op::{Append, Put, Remove, Rename, Sync, SyncFile, SyncNames, Truncate, Write};
    let (r, s, both) = ("r=1", "s=2", "r=1 s=2");
    // Names come in order, contents do not.
    check(&[Put("r", 1), Put("s", 2)], Kill, &[both]);
    check(&[Put("r", 1), Put("s", 2)], Ext4, &["", r, s, both]);
    check(&[Put("r", 1), Put("s", 2)], Any, &["", r, s, both]);
    check(&[Put("r", 1), Sync, Put("s", 2)], Any, &[r, both]);
    check(&[Put("r", 1), Put("s", 2), SyncFile("r")], Ext4, &[r, both]);
    // Without a journal, the sync of a file does not keep its name.
    check(&[Put("r", 1), Put("s", 2), SyncFile("r")], Any, &["", r, s, both]);
    check(&[Put("r", 1), SyncFile("r"), SyncNames], Any, &[r]);
    // Later contents of a record replace earlier ones.
    check(&[Put("r", 1), Sync, Put("r", 7), Put("r", 8)], Ext4, &[r, "r=7", "r=8"]);
    // A log grows in order; without ordered data there may be zeros in it.
    let grown = [Append("l", 3), Append("l", 4)];
    check(&grown, Ext4, &["", "l=", "l=3", "l=3,4"]);
    let holes = ["", "l=", "l=3", "l=3,4", "l=0", "l=0,4", "l=0,0", "l=3,0"];
    check(&grown, Any, &holes);
    let cut = [Append("l", 3), Sync, Truncate("l"), Append("l", 4)];
    check(&cut, Ext4, &["l=3", "l=", "l=4"]);
    // A rename without a sync of the file: the new name may lead to nothing or to a half.
    let (written, renamed) = (Write("b", 0, 6, 1024), Rename("b", "c"));
    let (half, whole) = ("512x6-6", "512x6-6,512x6-6");
    let (b, c) = (|cells: &str| format!("b={cells}"), |cells: &str| format!("c={cells}"));
    let states = [b(""), b(half), b(whole), c(""), c(half), c(whole)];
    let states: Vec<&str> = states.iter().map(String::as_str).chain([""]).collect();
    check(&[written, renamed], Ext4, &states);
    check(&[written, SyncFile("b"), renamed], Ext4, &[&b(whole), &c(whole)]);
    check(&[written, SyncFile("b"), renamed, SyncNames], Any, &[&c(whole)]);
    // Sectors that are overwritten in place reach the disk in any order.
    let over = [written, Sync, Write("b", 0, 7, 1024)];
    let old_new = ["512x7-7,512x6-6", "512x6-6,512x7-7", "512x7-7,512x7-7"].map(b);
    check(&over, Ext4, &[&b(whole), &old_new[0], &old_new[1], &old_new[2]]);
    check(&[Put("r", 1), Sync, Remove("r"), SyncFile("l")], Ext4, &["", r]);
}

#[test]
fn an_entry_or_a_record_may_be_torn_once() {
    let mut volume = Volume::default();
    let log = volume.create("l", Shape::Log);
    volume.append(log, b"kept");
    volume.sync();
    for entry in [b"aaaa", b"bbbb"] {
        volume.append(log, entry);
    }
    let lost = volume.crash(CrashModel::Ext4, true, &mut |question, _| match question {
        MODE => Mode::Prefix as u32,
        "torn write" | "writes lost at the end" => 1,
        _ => 0,
    });
    let file = volume.now().file("l").unwrap();
    assert_eq!(file.cells, [&b"kept"[..], b"aaaa", b"bb"]);
    assert_eq!((lost.units, lost.torn), (vec!["l[2]".to_owned()], Some(("l[2]".to_owned(), 1))));
}

/// Loses everything that the model lets a crash lose.
fn lose_all(volume: &mut Volume, model: CrashModel) -> Vec<String> {
    volume.crash(model, false, &mut |question, _| u32::from(question == MODE));
    volume.now().names.keys().cloned().collect()
}

#[test]
fn a_sync_of_some_names_keeps_them_and_what_they_build_on() {
    let built = || {
        let mut volume = Volume::default();
        volume.create("1/a", Shape::Bytes);
        volume.create("1/b", Shape::Bytes);
        volume.rename("1/a", "2/a");
        volume.create("1/a", Shape::Bytes);
        volume
    };
    let check = |folder: &str, expected: &[&str]| {
        let mut volume = built();
        volume.sync_names_where(&|name| name.starts_with(folder));
        assert_eq!(lose_all(&mut volume, CrashModel::Any), expected, "sync of {folder}");
    };
    // The second name `1/a` belongs to the other folder.
    check("2/", &["2/a"]);
    check("1/", &["1/a", "1/b", "2/a"]);
    check("3/", &[]);
    let mut volume = built();
    volume.sync_names_where(&|name| name.starts_with("3/"));
    assert_eq!(lose_all(&mut volume, CrashModel::Ext4), ["1/a", "1/b", "2/a"]);
}

#[test]
fn a_file_that_is_open_stays_without_a_name() {
    let mut volume = Volume::default();
    let file = volume.create("a", Shape::Bytes);
    volume.write(file, 0, b"kept");
    volume.hold(file);
    volume.unlink("a");
    volume.sync();
    assert_eq!(volume.now().files[&file].bytes(), b"kept");
    volume.write(file, 4, b" more");
    volume.release(file);
    assert!(volume.now().files.is_empty() && volume.pending() == 0);
}

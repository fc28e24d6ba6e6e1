//! Random programs over files and directories, on the real kernel and on the model.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use everhold_os::abi::open::{
    O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY,
};
use everhold_os::{AT_FDCWD, Errno, FileKind, Host, Stop};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use crate::random::{Random, programs};

/// One call of a program. Paths are numbers of [`PATHS`].
#[derive(Clone, Copy, Debug)]
enum Op {
    Open(usize, usize, i32),
    Close(usize),
    Read(usize, usize),
    Write(usize, usize),
    ReadAt(usize, usize, i64),
    WriteAt(usize, usize, i64),
    Seek(usize, i64, i32),
    Cut(usize, i64),
    Allocate(usize, bool, i64, i64),
    Sync(usize),
    Lock(usize, i32),
    Flags(usize),
    Status(usize),
    StatusOf(usize),
    List(usize),
    MakeDirectory(usize),
    RemoveDirectory(usize),
    Unlink(usize),
    Rename(usize, usize, bool),
    Link(usize, usize),
    Access(usize),
    Symlink(usize, usize),
    ReadLink(usize),
    StatusThrough(usize),
}

const PATHS: [&str; 16] = [
    "s",
    "d/s",
    "a",
    "b",
    "c",
    "d",
    "d/a",
    "d/b",
    "d/e",
    "d/e/a",
    "d/e/..",
    "a/x",
    "d/",
    "a/",
    "d/.",
    "missing/x",
];
/// Where symbolic links lead.
const TARGETS: [&str; 8] = ["a", "d", "e/../a", "d/", "e/a", "missing", "s", "d/."];
const FLAGS: [i32; 11] = [
    O_RDONLY | O_NOFOLLOW,
    O_RDONLY,
    O_RDWR | O_CREAT,
    O_RDWR | O_CREAT,
    O_WRONLY | O_CREAT | O_TRUNC,
    O_RDWR | O_CREAT | O_EXCL,
    O_WRONLY | O_APPEND | O_CREAT,
    O_RDWR | O_APPEND,
    O_RDONLY | O_DIRECTORY,
    O_WRONLY,
    O_RDONLY | O_CREAT,
];
const SLOTS: usize = 5;

/// A kernel with files.
trait Machine {
    fn run(&mut self, op: Op, step: usize) -> String;
}

fn show<T: std::fmt::Debug>(outcome: Result<T, Errno>) -> String {
    match outcome {
        Ok(value) => format!("{value:?}"),
        Err(errno) => format!("{errno:?}"),
    }
}

fn contents(step: usize, count: usize) -> Vec<u8> {
    (0..count).map(|at| (step * 37 + at / 16) as u8).collect()
}

fn digest(bytes: &[u8]) -> (usize, u64) {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    (bytes.len(), bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix))
}

struct Model {
    host: Host,
    slots: BTreeMap<usize, i32>,
}

fn failed<T>(answer: Result<T, Stop>) -> Result<T, Errno> {
    answer.map_err(|stop| match stop {
        Stop::Failed(errno) => errno,
        Stop::Blocked => panic!("a call that must not wait does"),
    })
}

/// The slot of the descriptor that an operation uses, if it uses one that is open.
fn slot_of(op: Op) -> Option<usize> {
    match op {
        Op::Close(slot) | Op::Read(slot, _) | Op::Write(slot, _) | Op::Seek(slot, ..) => Some(slot),
        Op::ReadAt(slot, ..) | Op::WriteAt(slot, ..) | Op::Cut(slot, _) => Some(slot),
        Op::Sync(slot) | Op::Allocate(slot, ..) | Op::Lock(slot, _) | Op::Flags(slot) => Some(slot),
        Op::Status(slot) | Op::List(slot) => Some(slot),
        _ => None,
    }
}

/// The compared part of a status. File systems count the names of directories in different ways.
fn compared(status: everhold_os::Status) -> (bool, u64, u64) {
    match status.kind {
        FileKind::Directory => (true, 0, 0),
        _ => (false, status.links, status.size),
    }
}

impl Machine for Model {
    fn run(&mut self, op: Op, step: usize) -> String {
        let Some(slot) = slot_of(op) else { return self.run_on_path(op) };
        match self.slots.get(&slot) {
            Some(&fd) => self.run_on_descriptor(op, (slot, fd), step),
            None => "no descriptor".to_owned(),
        }
    }
}

impl Model {
    fn run_on_path(&mut self, op: Op) -> String {
        let Model { host, slots } = self;
        let path = |path: usize| PATHS[path].as_bytes();
        match op {
            Op::Open(slot, name, flags) => {
                let opened = host.openat(AT_FDCWD, path(name), flags, 0o644);
                if let Some(old) = opened.ok().and_then(|fd| slots.insert(slot, fd)) {
                    host.close(old).expect("a slot is open");
                }
                show(opened.map(|_| ()))
            }
            Op::StatusOf(name) => show(host.lstatat(AT_FDCWD, path(name)).map(compared)),
            Op::StatusThrough(name) => show(host.statat(AT_FDCWD, path(name)).map(compared)),
            Op::Symlink(target, name) => {
                show(host.symlinkat(TARGETS[target].as_bytes(), AT_FDCWD, path(name)))
            }
            Op::ReadLink(name) => show(host.readlinkat(AT_FDCWD, path(name)).map(str::to_owned)),
            Op::MakeDirectory(name) => show(host.mkdirat(AT_FDCWD, path(name), 0o755)),
            Op::RemoveDirectory(name) => show(host.rmdirat(AT_FDCWD, path(name))),
            Op::Unlink(name) => show(host.unlinkat(AT_FDCWD, path(name))),
            Op::Rename(from, to, keeps) => {
                show(host.renameat((AT_FDCWD, path(from)), (AT_FDCWD, path(to)), keeps))
            }
            Op::Link(from, to) => show(host.linkat((AT_FDCWD, path(from)), (AT_FDCWD, path(to)))),
            Op::Access(name) => show(host.accessat(AT_FDCWD, path(name))),
            _ => unreachable!("the others use a descriptor"),
        }
    }

    fn run_on_descriptor(&mut self, op: Op, (slot, fd): (usize, i32), step: usize) -> String {
        let Model { host, slots } = self;
        match op {
            Op::Close(_) => {
                slots.remove(&slot);
                show(host.close(fd))
            }
            Op::Read(_, count) => {
                let mut bytes = vec![0; count];
                show(failed(host.read(fd, &mut bytes)).map(|count| digest(&bytes[..count])))
            }
            Op::ReadAt(_, count, at) => {
                let mut bytes = vec![0; count];
                show(host.pread(fd, &mut bytes, at).map(|count| digest(&bytes[..count])))
            }
            Op::Write(_, count) => show(failed(host.write(fd, &contents(step, count)))),
            Op::WriteAt(_, count, at) => show(host.pwrite(fd, &contents(step, count), at)),
            // Where a directory ends is another number on each file system.
            Op::Seek(_, _, 2) if host.fstat(fd).is_ok_and(|s| s.kind == FileKind::Directory) => {
                String::new()
            }
            Op::Seek(_, by, whence) => show(host.lseek(fd, by, whence)),
            Op::Cut(_, to) => show(host.ftruncate(fd, to)),
            Op::Allocate(_, keeps, at, count) => {
                show(host.fallocate(fd, i32::from(keeps), at, count))
            }
            Op::Sync(_) => show(host.fsync(fd)),
            Op::Lock(_, operation) => show(failed(host.flock(fd, operation))),
            Op::Flags(_) => show(host.status_flags(fd).map(|flags| flags & 0o2003)),
            Op::Status(_) => show(host.fstat(fd).map(compared)),
            _ => {
                let names = |entries: Vec<everhold_os::Entry>| {
                    let one =
                        |entry: everhold_os::Entry| (entry.name, entry.kind == FileKind::Directory);
                    let mut names: Vec<(String, bool)> = entries.into_iter().map(one).collect();
                    names.sort();
                    names
                };
                show(host.read_directory(fd).map(names))
            }
        }
    }
}

struct Real {
    root: OwnedFd,
    path: std::path::PathBuf,
    slots: BTreeMap<usize, OwnedFd>,
}

impl Real {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("everhold-os-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder can be made");
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, &path, flags, Mode::empty()).expect("it can be opened");
        Real { root, path, slots: BTreeMap::new() }
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.path));
    }
}

fn real<T>(answer: rustix::io::Result<T>) -> Result<T, Errno> {
    answer.map_err(|errno| Errno(errno.raw_os_error()))
}

fn status(stat: &rustix::fs::Stat) -> (bool, u64, u64) {
    let links = stat.st_nlink;
    match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
        rustix::fs::FileType::Directory => (true, 0, 0),
        _ => (false, links, stat.st_size as u64),
    }
}

fn list(fd: &OwnedFd) -> rustix::io::Result<Vec<(String, bool)>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(fd)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        names.push((name, entry.file_type() == rustix::fs::FileType::Directory));
    }
    names.sort();
    Ok(names)
}

impl Machine for Real {
    fn run(&mut self, op: Op, step: usize) -> String {
        let Some(slot) = slot_of(op) else { return self.run_on_path(op) };
        if self.slots.contains_key(&slot) {
            self.run_on_descriptor(op, slot, step)
        } else {
            "no descriptor".to_owned()
        }
    }
}

impl Real {
    fn run_on_path(&mut self, op: Op) -> String {
        let Real { root, slots, .. } = self;
        let path = |path: usize| PATHS[path];
        match op {
            Op::Open(slot, name, flags) => {
                let flags = OFlags::from_bits_retain(flags as u32) | OFlags::CLOEXEC;
                let mode = Mode::from_raw_mode(0o644);
                let opened = real(rustix::fs::openat(root, path(name), flags, mode));
                show(opened.map(|fd| drop(slots.insert(slot, fd))))
            }
            Op::StatusOf(name) => {
                let stat = rustix::fs::statat(root, path(name), AtFlags::SYMLINK_NOFOLLOW);
                show(real(stat).map(|stat| status(&stat)))
            }
            Op::StatusThrough(name) => {
                let stat = rustix::fs::statat(root, path(name), AtFlags::empty());
                show(real(stat).map(|stat| status(&stat)))
            }
            Op::Symlink(target, name) => {
                show(real(rustix::fs::symlinkat(TARGETS[target], &*root, path(name))))
            }
            Op::ReadLink(name) => {
                let target = real(rustix::fs::readlinkat(&*root, path(name), Vec::new()));
                show(target.map(|target| target.to_string_lossy().into_owned()))
            }
            Op::MakeDirectory(name) => {
                show(real(rustix::fs::mkdirat(root, path(name), Mode::from_raw_mode(0o755))))
            }
            Op::RemoveDirectory(name) => {
                show(real(rustix::fs::unlinkat(root, path(name), AtFlags::REMOVEDIR)))
            }
            Op::Unlink(name) => {
                show(real(rustix::fs::unlinkat(root, path(name), AtFlags::empty())))
            }
            Op::Rename(from, to, false) => {
                show(real(rustix::fs::renameat(&*root, path(from), &*root, path(to))))
            }
            Op::Rename(from, to, true) => {
                let flags = rustix::fs::RenameFlags::NOREPLACE;
                let renamed =
                    rustix::fs::renameat_with(&*root, path(from), &*root, path(to), flags);
                show(real(renamed))
            }
            Op::Link(from, to) => {
                let flags = AtFlags::empty();
                show(real(rustix::fs::linkat(&*root, path(from), &*root, path(to), flags)))
            }
            Op::Access(name) => {
                let exists = rustix::fs::Access::EXISTS;
                show(real(rustix::fs::accessat(root, path(name), exists, AtFlags::empty())))
            }
            _ => unreachable!("the others use a descriptor"),
        }
    }

    fn run_on_descriptor(&mut self, op: Op, slot: usize, step: usize) -> String {
        let fd = &self.slots[&slot];
        match op {
            Op::Close(_) => {
                self.slots.remove(&slot);
                show(Ok(()))
            }
            Op::Read(_, count) => {
                let mut bytes = vec![0; count];
                let read = real(rustix::io::read(fd, bytes.as_mut_slice()));
                show(read.map(|count| digest(&bytes[..count])))
            }
            Op::ReadAt(_, count, at) => {
                let mut bytes = vec![0; count];
                let read = real(rustix::io::pread(fd, bytes.as_mut_slice(), at as u64));
                show(read.map(|count| digest(&bytes[..count])))
            }
            Op::Write(_, count) => show(real(rustix::io::write(fd, &contents(step, count)))),
            Op::WriteAt(_, count, at) => {
                show(real(rustix::io::pwrite(fd, &contents(step, count), at as u64)))
            }
            Op::Seek(_, _, 2) if rustix::fs::fstat(fd).is_ok_and(|stat| status(&stat).0) => {
                String::new()
            }
            Op::Seek(_, by, whence) => {
                let to = match whence {
                    0 => rustix::fs::SeekFrom::Start(by as u64),
                    1 => rustix::fs::SeekFrom::Current(by),
                    _ => rustix::fs::SeekFrom::End(by),
                };
                show(real(rustix::fs::seek(fd, to)))
            }
            Op::Cut(_, to) => show(real(rustix::fs::ftruncate(fd, to as u64))),
            Op::Allocate(_, keeps, at, count) => {
                let mut flags = rustix::fs::FallocateFlags::empty();
                flags.set(rustix::fs::FallocateFlags::KEEP_SIZE, keeps);
                show(real(rustix::fs::fallocate(fd, flags, at as u64, count as u64)))
            }
            Op::Sync(_) => show(real(rustix::fs::fsync(fd))),
            Op::Lock(_, operation) => {
                use rustix::fs::FlockOperation as Lock;
                let operation = match operation & 3 {
                    1 => Lock::NonBlockingLockShared,
                    2 => Lock::NonBlockingLockExclusive,
                    _ => Lock::NonBlockingUnlock,
                };
                show(real(rustix::fs::flock(fd, operation)))
            }
            Op::Flags(_) => {
                let flags = real(rustix::fs::fcntl_getfl(fd));
                show(flags.map(|flags| flags.bits() as i32 & 0o2003))
            }
            Op::Status(_) => show(real(rustix::fs::fstat(fd)).map(|stat| status(&stat))),
            _ => show(real(list(fd))),
        }
    }
}

fn random_op(random: &mut Random) -> Op {
    let slot = random.below(SLOTS);
    let name = random.below(PATHS.len());
    let other = random.below(PATHS.len());
    let count = random.pick(&[0, 1, 10, 511, 512, 513, 1500, 4096]);
    let place = random.pick(&[0, 0, 1, 100, 511, 512, 700, 3000, -1]);
    match random.below(40) {
        0..=6 => Op::Open(slot, name, random.pick(&FLAGS)),
        7 => Op::Close(slot),
        8 | 9 => Op::Read(slot, count),
        10 | 11 => Op::Write(slot, count),
        12 => Op::ReadAt(slot, count, place.max(0)),
        13 => Op::WriteAt(slot, count, place.max(0)),
        14 => Op::Seek(slot, place, random.below(3) as i32),
        15 => Op::Cut(slot, place.max(0)),
        16 => Op::Allocate(slot, random.below(2) == 0, place.max(0), count as i64),
        17 => Op::Sync(slot),
        18 | 19 => Op::Lock(slot, random.pick(&[1, 2, 8]) | 4),
        20 => Op::Flags(slot),
        21 => Op::Status(slot),
        22 => Op::StatusOf(name),
        23 => Op::List(slot),
        24 | 25 => Op::MakeDirectory(name),
        26 => Op::RemoveDirectory(name),
        27 | 28 => Op::Unlink(name),
        29 | 30 => Op::Rename(name, other, false),
        31 => Op::Rename(name, other, true),
        32 => Op::Link(name, other),
        33..=35 => Op::Symlink(random.below(TARGETS.len()), name),
        36 => Op::ReadLink(name),
        37 | 38 => Op::StatusThrough(name),
        _ => Op::Access(name),
    }
}

fn program(seed: u64) -> Vec<Op> {
    let mut random = Random::new(seed);
    let length = 10 + random.below(60);
    let mut ops = vec![Op::MakeDirectory(5), Op::MakeDirectory(8)];
    ops.extend((0..length).map(|_| random_op(&mut random)));
    ops.split_off(random.below(3))
}

/// The first call at which the two differ, with those before it.
fn check(ops: &[Op], name: &str) -> Result<(), String> {
    let mut model = Model { host: Host::for_tests(), slots: BTreeMap::new() };
    let mut kernel = Real::new(name);
    let mut lines = Vec::new();
    for (step, op) in ops.iter().enumerate() {
        let (real, modelled) = (kernel.run(*op, step), model.run(*op, step));
        lines.push(format!("{op:?}: {real} | {modelled}"));
        if real != modelled {
            return Err(lines.join("\n"));
        }
    }
    Ok(())
}

fn shrunk(mut ops: Vec<Op>, name: &str) -> String {
    let mut last = String::new();
    while let Some((fewer, why)) = (0..ops.len()).rev().find_map(|at| {
        let mut fewer = ops.clone();
        fewer.remove(at);
        check(&fewer, name).err().map(|why| (fewer, why))
    }) {
        (ops, last) = (fewer, why);
    }
    last
}

#[test]
fn files_behave_as_on_the_real_kernel() {
    // 300 programs of 40 random calls on average: a defect that shows in one of 100 programs
    // remains unseen in fewer than 5 of 100 runs with other seeds.
    let mut differing = Vec::new();
    for seed in 0..programs(300) {
        let ops = program(seed);
        let name = seed.to_string();
        if check(&ops, &name).is_err() {
            differing.push(format!("program {seed}:\n{}", shrunk(ops, &name)));
        }
        if differing.len() == 10 {
            break;
        }
    }
    assert!(differing.is_empty(), "call: real | model\n{}", differing.join("\n"));
}

//! The contents of a host's disk after a crash, and faults of disks.

use everhold_node::CrashModel;
use everhold_node::volume::MODE;
use everhold_os::abi::open::{LOCK_EX, LOCK_NB, LOCK_UN, O_CREAT, O_DIRECTORY, O_RDONLY, O_RDWR};
use everhold_os::{
    AT_FDCWD, Choices, Disk, DiskSettings, Errno, FileKind, Host, Settings, Stop, ThreadId, Usual,
};

/// One act of a program on files.
#[derive(Clone, Copy, Debug)]
enum Act {
    Folder(&'static str),
    /// Writes a file as a whole.
    Write(&'static str, usize),
    /// Syncs a file.
    Sync(&'static str),
    /// Syncs a folder.
    SyncFolder(&'static str),
    Rename(&'static str, &'static str),
    Unlink(&'static str),
}

fn act(host: &mut Host, act: Act) {
    let open = |host: &mut Host, path: &str, flags: i32| {
        host.openat(AT_FDCWD, path.as_bytes(), flags, 0o644).expect("it can be opened")
    };
    let fd = match act {
        Act::Folder(path) => return host.mkdirat(AT_FDCWD, path.as_bytes(), 0o755).expect("new"),
        Act::Rename(from, to) => {
            let (from, to) = ((AT_FDCWD, from.as_bytes()), (AT_FDCWD, to.as_bytes()));
            return host.renameat(from, to, false).expect("it is there");
        }
        Act::Unlink(path) => return host.unlinkat(AT_FDCWD, path.as_bytes()).expect("there"),
        Act::Write(path, size) => {
            let fd = open(host, path, O_RDWR | O_CREAT);
            assert_eq!(host.write(fd, &vec![b'x'; size]), Ok(size));
            fd
        }
        Act::Sync(path) => {
            let fd = open(host, path, O_RDONLY);
            host.fsync(fd).expect("disks of these tests do not fail");
            fd
        }
        Act::SyncFolder(path) => {
            let fd = open(host, path, O_RDONLY | O_DIRECTORY);
            host.fsync(fd).expect("disks of these tests do not fail");
            fd
        }
    };
    host.close(fd).expect("it is open");
}

/// Every path with the size of its file.
fn listed(host: &mut Host, folder: &str) -> Vec<String> {
    let path = if folder.is_empty() { "/" } else { folder };
    let flags = O_RDONLY | O_DIRECTORY;
    let fd = host.openat(AT_FDCWD, path.as_bytes(), flags, 0).expect("it is a folder");
    let mut all = Vec::new();
    for entry in host.read_directory(fd).expect("it is a folder").split_off(2) {
        let path = format!("{folder}{}", entry.name);
        if entry.kind == FileKind::Directory {
            all.push(format!("{path}/"));
            all.extend(listed(host, &format!("{path}/")));
        } else {
            let size = host.statat(AT_FDCWD, path.as_bytes()).expect("it has a name").size;
            all.push(format!("{path}={size}"));
        }
    }
    host.close(fd).expect("it is open");
    all
}

/// The contents after a crash that loses everything that it can.
#[track_caller]
fn check(acts: &[Act], model: CrashModel, expected: &[&str]) {
    let mut host = Host::for_tests();
    acts.iter().for_each(|one| act(&mut host, *one));
    let mut disk = host.take_disk();
    disk.crash(model, &mut |question, _| u32::from(question == MODE));
    let mut host = Host::for_tests();
    host.insert_disk(disk);
    assert_eq!(listed(&mut host, ""), expected, "{model:?} after {acts:?}");
}

#[test]
fn crashes_lose_what_was_not_synced() {
    use Act::{Folder, Rename, Sync, SyncFolder, Unlink, Write};
    use CrashModel::{Any, Ext4, Kill};
    let written = [Folder("d"), Write("d/a", 700), Write("b", 1)];
    check(&written, Kill, &["b=1", "d/", "d/a=700"]);
    check(&written, Ext4, &[]);
    let synced = [Folder("d"), Write("d/a", 700), Sync("d/a"), Write("b", 1)];
    check(&synced, Ext4, &["d/", "d/a=700"]);
    // POSIX keeps the contents of the file, but neither its name nor that of its folder.
    check(&synced, Any, &[]);
    let all = [Folder("d"), Write("d/a", 3), Sync("d/a"), SyncFolder("d"), SyncFolder("/")];
    check(&all, Any, &["d/", "d/a=3"]);
    // A folder that was renamed keeps what is in it.
    let moved = [Folder("d"), Write("d/a", 3), Rename("d", "e"), Sync("e/a"), SyncFolder("e")];
    check(&moved, Ext4, &["e/", "e/a=3"]);
    let replaced = |last: &[Act]| {
        let mut acts = vec![Write("a", 1), Sync("a"), SyncFolder("/"), Write("t", 2)];
        acts.extend(last);
        acts
    };
    check(&replaced(&[Rename("t", "a")]), Ext4, &["a=1"]);
    check(&replaced(&[Rename("t", "a"), SyncFolder("/")]), Ext4, &["a=0"]);
    check(&replaced(&[Sync("t"), Rename("t", "a"), SyncFolder("/")]), Any, &["a=2"]);
    check(&replaced(&[Unlink("a")]), Ext4, &["a=1"]);
}

#[test]
fn losses_are_named_by_paths() {
    let mut host = Host::for_tests();
    for one in [Act::Folder("d"), Act::Folder("d/e"), Act::Write("d/e/f", 1)] {
        act(&mut host, one);
    }
    let mut disk: Disk = host.take_disk();
    let lost = disk.crash(CrashModel::Ext4, &mut |question, _| u32::from(question == MODE));
    assert_eq!(lost.units, ["name d", "name d/e", "name d/e/f", "d/e/f sector 0"]);
}

/// The last answer of each question.
#[derive(Debug)]
struct Unlucky;

impl Choices for Unlucky {
    fn choose(&mut self, label: &str, domain: u32) -> u32 {
        assert_eq!(label, "fsync fails");
        domain - 1
    }
    fn random(&mut self, _: &mut [u8]) {}
}

#[test]
fn a_sync_may_fail_once_and_the_next_one_does_not_repair_that() {
    let disk = DiskSettings { failing_syncs: 1, ..DiskSettings::default() };
    let mut host = Host::new(Settings { disk, ..Settings::default() }, Box::new(Unlucky));
    let fd = host.openat(AT_FDCWD, b"a", O_RDWR | O_CREAT, 0o644).expect("new");
    host.write(fd, b"lost").expect("there is space");
    assert_eq!(host.fsync(fd), Err(Errno::EIO));
    assert_eq!(host.fsync(fd), Ok(()));
    let mut disk = host.take_disk();
    disk.crash(CrashModel::Ext4, &mut |question, _| u32::from(question == MODE));
    host = Host::for_tests();
    host.insert_disk(disk);
    let fd = host.openat(AT_FDCWD, b"a", O_RDONLY, 0).expect("its name is durable");
    let mut bytes = [1; 9];
    assert_eq!(host.read(fd, &mut bytes), Ok(4));
    assert_eq!(bytes[..4], [0; 4]);
}

#[test]
fn a_full_disk_refuses_what_does_not_fit() {
    let disk = DiskSettings { space: 1_000, ..DiskSettings::default() };
    let mut host = Host::new(Settings { disk, ..Settings::default() }, Box::new(Usual::default()));
    let fd = host.openat(AT_FDCWD, b"a", O_RDWR | O_CREAT, 0o644).expect("new");
    assert_eq!(host.write(fd, &[1; 900]), Ok(900));
    assert_eq!(host.write(fd, &[1; 200]), Err(Stop::Failed(Errno::ENOSPC)));
    assert_eq!(host.pwrite(fd, &[1; 200], 0), Ok(200), "no further space is needed");
    assert_eq!(host.space().free, 100);
    assert_eq!(host.pwrite(fd, &[1], 1 << 40), Err(Errno::EFBIG));
}

#[test]
fn a_file_that_was_unlinked_lives_while_it_is_open() {
    let mut host = Host::for_tests();
    let fd = host.openat(AT_FDCWD, b"a", O_RDWR | O_CREAT, 0o644).expect("new");
    host.write(fd, b"here").expect("there is space");
    host.unlinkat(AT_FDCWD, b"a").expect("it has a name");
    host.fsync(fd).expect("the disk works");
    host.sync();
    let mut bytes = [0; 9];
    assert_eq!(host.pread(fd, &mut bytes, 0), Ok(4));
    assert_eq!(host.fstat(fd).expect("it is open").links, 0);
    host.close(fd).expect("it is open");
    assert!(host.disk().volume().now().files.is_empty());
}

#[test]
fn mappings_read_a_range_and_write_back_what_changed() {
    let mut host = Host::for_tests();
    let fd = host.openat(AT_FDCWD, b"a", O_RDWR | O_CREAT, 0o644).expect("new");
    host.write(fd, b"0123456789").expect("there is space");
    assert_eq!(host.map(fd, 8..12), Ok(b"89\0\0".to_vec()));
    assert_eq!(host.write_back(fd, 8, b"xyz!"), Ok(()));
    assert_eq!(host.map(fd, 0..10), Ok(b"01234567xy".to_vec()));
    assert_eq!(host.fstat(fd).expect("it is open").size, 10);
}

#[test]
fn a_lock_is_waited_for_and_given_back_by_the_last_close() {
    let mut host = Host::for_tests();
    let open = |host: &mut Host| {
        host.openat(AT_FDCWD, b"a", O_RDWR | O_CREAT, 0o644).expect("it can be opened")
    };
    let (one, other) = (open(&mut host), open(&mut host));
    assert_eq!(host.flock(one, LOCK_EX), Ok(()));
    assert_eq!(host.flock(other, LOCK_EX | LOCK_NB), Err(Stop::Failed(Errno::EAGAIN)));
    let waiter = host.spawn();
    host.enter(waiter);
    assert_eq!(host.flock(other, LOCK_EX), Err(Stop::Blocked));
    host.enter(ThreadId(0));
    host.take_woken();
    host.close(one).expect("it is open");
    assert_eq!(host.take_woken(), [waiter]);
    host.enter(waiter);
    assert_eq!(host.flock(other, LOCK_EX), Ok(()));
    assert_eq!(host.flock(other, LOCK_UN), Ok(()));
}

#[test]
fn record_locks_belong_to_the_process() {
    let mut host = Host::for_tests();
    let fd = host.openat(AT_FDCWD, b"a", O_RDWR | O_CREAT, 0o644).expect("new");
    let reader = host.openat(AT_FDCWD, b"a", O_RDONLY, 0).expect("it is there");
    assert_eq!(host.record_lock(fd, true), Ok(()));
    assert_eq!(host.record_lock(reader, false), Ok(()));
    assert_eq!(host.record_lock(reader, true), Err(Errno::EBADF));
}

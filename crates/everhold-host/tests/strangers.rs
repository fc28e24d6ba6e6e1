//! Small pieces of services as strangers write them, one for each part of the system that they use.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::thread;
use std::time::{Duration, SystemTime};

use everhold_host::hosts;

/// Runs a program as the only client in so many executions, all of which succeed.
#[track_caller]
fn runs(executions: u64, program: impl Fn() + Clone + Send + Sync + 'static) {
    let outcome = hosts(move |net| net.client("one", program.clone()))
        .explorer(|e| e.executions(executions).regressions(false))
        .run();
    assert_eq!(outcome.failed, None, "{}", outcome.report);
    assert_eq!(outcome.executions, executions);
}

#[test]
fn the_whole_of_std_fs() {
    runs(5, || {
        fs::create_dir_all("/data/deep/er").unwrap();
        std::env::set_current_dir("/data").unwrap();
        assert_eq!(std::env::current_dir().unwrap().to_str(), Some("/data"));
        fs::write("deep/file", b"hello").unwrap();
        assert_eq!(fs::read("/data/deep/file").unwrap(), b"hello");
        assert_eq!(
            fs::canonicalize("deep/../deep/file").unwrap().to_str(),
            Some("/data/deep/file")
        );
        std::os::unix::fs::symlink("deep/file", "short").unwrap();
        assert_eq!(fs::read_link("short").unwrap().to_str(), Some("deep/file"));
        assert_eq!(fs::read("short").unwrap(), b"hello");
        assert!(fs::symlink_metadata("short").unwrap().file_type().is_symlink());
        assert!(fs::metadata("short").unwrap().is_file());
        assert_eq!(fs::canonicalize("short").unwrap().to_str(), Some("/data/deep/file"));
        fs::copy("deep/file", "copied").unwrap();
        fs::hard_link("copied", "linked").unwrap();
        assert_eq!(fs::metadata("linked").unwrap().nlink(), 2);
        fs::set_permissions("copied", fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(fs::metadata("copied").unwrap().mode() & 0o777, 0o600);
        let file = OpenOptions::new().read(true).write(true).open("copied").unwrap();
        file.write_at(b"J", 0).unwrap();
        file.set_len(3).unwrap();
        file.sync_data().unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(99)).unwrap();
        assert_eq!(fs::metadata("copied").unwrap().mtime(), 99);
        assert_eq!(fs::read_to_string("copied").unwrap(), "Jel");
        let mut names: Vec<_> =
            fs::read_dir(".").unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["copied", "deep", "linked", "short"]);
        fs::remove_file("short").unwrap();
        assert!(fs::exists("deep/file").unwrap());
        fs::remove_dir_all("deep").unwrap();
        assert!(!fs::exists("deep").unwrap());
    });
}

#[test]
fn devices_and_descriptions_of_the_machine() {
    runs(5, || {
        let mut random = [0; 16];
        File::open("/dev/urandom").unwrap().read_exact(&mut random).unwrap();
        assert_ne!(random, [0; 16]);
        File::create("/dev/null").unwrap().write_all(b"gone").unwrap();
        let mut nothing = Vec::new();
        File::open("/dev/null").unwrap().read_to_end(&mut nothing).unwrap();
        assert!(nothing.is_empty());
        let mut zeros = [1; 4];
        File::open("/dev/zero").unwrap().read_exact(&mut zeros).unwrap();
        assert_eq!(zeros, [0; 4]);
        let name = fs::read_to_string("/etc/hostname").unwrap();
        assert_eq!(name.trim(), "one");
        assert!(fs::read_to_string("/etc/hosts").unwrap().contains("one"));
        assert!(fs::create_dir_all(std::env::temp_dir()).is_ok());
        assert_eq!(thread::available_parallelism().unwrap().get(), 2);
    });
}

#[test]
fn temporary_files_and_offsets() {
    runs(5, || {
        let path = std::env::temp_dir().join("work");
        let mut file =
            OpenOptions::new().create_new(true).read(true).write(true).open(&path).unwrap();
        file.write_all(b"0123456789").unwrap();
        file.seek(SeekFrom::Start(4)).unwrap();
        let mut rest = String::new();
        file.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "456789");
        let pieces = [b"ab".as_slice(), b"cd"].map(std::io::IoSlice::new);
        assert_eq!(file.write_vectored(&pieces).unwrap(), 4);
        file.lock().unwrap();
        assert!(File::open(&path).unwrap().try_lock().is_err());
        file.unlock().unwrap();
    });
}

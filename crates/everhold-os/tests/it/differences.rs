//! Differences from Linux that are known and listed in the documentation of the crate.

use std::net::SocketAddr;

use everhold_os::abi::family::{AF_INET, AF_UNIX};
use everhold_os::abi::open::{O_CREAT, O_RDONLY, O_RDWR};
use everhold_os::abi::option::{SO_LINGER, SOL_SOCKET};
use everhold_os::abi::socket::{SOCK_DGRAM, SOCK_STREAM};
use everhold_os::{
    AT_FDCWD, Address, Choices, Errno, FileKind, Host, Settings, Stop, ThreadId, UnixAddress,
};

#[test]
fn a_thread_at_a_descriptor_that_is_closed_is_woken() {
    let mut host = Host::for_tests();
    let (reader, _writer) = host.pipe(0).expect("there is room");
    let waiter = host.spawn();
    host.enter(waiter);
    assert_eq!(host.read(reader, &mut [0; 4]), Err(Stop::Blocked));
    host.enter(ThreadId(0));
    host.close(reader).expect("it is open");
    host.enter(waiter);
    assert_eq!(host.read(reader, &mut [0; 4]), Err(Stop::Failed(Errno::EBADF)));
}

#[test]
fn closing_with_a_linger_time_does_not_wait() {
    let mut host = Host::for_tests();
    let (client, _server) = connection(&mut host);
    let ten_seconds = [1_i32.to_ne_bytes(), 10_i32.to_ne_bytes()].concat();
    host.setsockopt(client, SOL_SOCKET, SO_LINGER, &ten_seconds).expect("it is known");
    assert_eq!(host.write(client, b"unread"), Ok(6));
    assert_eq!(host.close(client), Ok(()));
}

#[test]
fn names_of_unix_sockets_are_not_listed() {
    let mut host = Host::for_tests();
    let socket = host.socket(AF_UNIX, SOCK_STREAM, 0).expect("there is room");
    let path = Address::Unix(UnixAddress::Path(b"/socket".to_vec()));
    host.bind(socket, &path).expect("the name is free");
    assert_eq!(host.accessat(AT_FDCWD, b"/socket"), Ok(()));
    assert_eq!(host.statat(AT_FDCWD, b"/socket").map(|status| status.kind), Ok(FileKind::Other));
    let root = host.openat(AT_FDCWD, b"/", O_RDONLY, 0).expect("it is there");
    assert_eq!(host.read_directory(root).map(|entries| entries.len()), Ok(2));
    assert_eq!(host.unlinkat(AT_FDCWD, b"/socket"), Ok(()));
    assert_eq!(host.accessat(AT_FDCWD, b"/socket"), Err(Errno::ENOENT));
    let other = host.socket(AF_UNIX, SOCK_STREAM, 0).expect("there is room");
    let missing = Address::Unix(UnixAddress::Path(b"/missing/socket".to_vec()));
    assert_eq!(host.bind(other, &missing), Err(Errno::ENOENT));
    assert_eq!(host.socket(AF_UNIX, SOCK_DGRAM, 0), Err(Errno::ESOCKTNOSUPPORT));
}

#[test]
fn directories_are_listed_in_the_order_of_names() {
    let mut host = Host::for_tests();
    for name in [b"b", b"c", b"a"] {
        host.openat(AT_FDCWD, name, O_RDWR | O_CREAT, 0o644).expect("new");
    }
    let root = host.openat(AT_FDCWD, b"/", O_RDONLY, 0).expect("it is there");
    let entries = host.read_directory(root).expect("it is a directory");
    let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, [".", "..", "a", "b", "c"]);
}

/// A connection within a host.
fn connection(host: &mut Host) -> (i32, i32) {
    let address = Address::Ip(SocketAddr::from(([127, 0, 0, 1], 80)));
    let listener = host.socket(AF_INET, SOCK_STREAM, 0).expect("there is room");
    host.bind(listener, &address).expect("the port is free");
    host.listen(listener, 4).expect("it is bound");
    let client = host.socket(AF_INET, SOCK_STREAM, 0).expect("there is room");
    host.connect(client, &address).expect("somebody listens");
    let (server, _) = host.accept(listener, 0).expect("there is a connection");
    (client, server)
}

/// The same answer to everything, and the questions.
#[derive(Debug)]
struct Always(u32, std::rc::Rc<std::cell::RefCell<Vec<String>>>);

impl Choices for Always {
    fn choose(&mut self, label: &str, domain: u32) -> u32 {
        self.1.borrow_mut().push(format!("{label} of {domain}"));
        self.0.min(domain - 1)
    }
    fn random(&mut self, _: &mut [u8]) {}
}

#[test]
fn reads_and_segments_are_split_only_where_that_is_a_choice() {
    let check = |splits: bool, answer: u32, expected: usize, questions: &[&str]| {
        let asked = std::rc::Rc::default();
        let choices = Box::new(Always(answer, std::rc::Rc::clone(&asked)));
        let mut host = Host::new(Settings { splits, ..Settings::default() }, choices);
        let (client, server) = connection(&mut host);
        assert_eq!(host.write(client, b"12345678"), Ok(8));
        let mut bytes = [0; 20];
        assert_eq!(host.read(server, &mut bytes), Ok(expected));
        assert_eq!(*asked.borrow(), questions, "answer {answer}");
        while host.recvfrom(server, &mut bytes, 0x40).is_ok() {}
        assert_eq!(host.bytes_to_read(server), Ok(0), "nothing is lost");
    };
    check(false, 1, 8, &[]);
    check(true, 0, 8, &["bytes of a segment of 3", "bytes of a read of 3"]);
    let halves = ["bytes of a segment of 3", "bytes of a segment of 3", "bytes of a segment of 2"];
    check(true, 2, 4, &[&halves[..], &["bytes of a read of 3"]].concat());
}

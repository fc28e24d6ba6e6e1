//! Calls of C libraries: what programs use without the standard library, on a simulated host.

#![expect(clippy::disallowed_methods, reason = "hosts are programs as they are")]

use std::ffi::{CString, c_int, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use everhold_host::{Net, Outcome, Signal, hosts, signal};

fn check(executions: u64, setup: impl Fn(&mut Net<'_>) + Send + Sync + 'static) -> Outcome {
    hosts(setup).explorer(|e| e.executions(executions).regressions(false)).run()
}

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
fn locks_and_conditions_of_the_c_library() {
    struct Shared {
        mutex: libc::pthread_mutex_t,
        condition: libc::pthread_cond_t,
        filled: u32,
    }
    extern "C" fn fill(shared: *mut c_void) -> *mut c_void {
        let shared = shared.cast::<Shared>();
        // SAFETY: the main thread waits until all others have ended.
        unsafe {
            libc::pthread_mutex_lock(&raw mut (*shared).mutex);
            (*shared).filled += 1;
            libc::pthread_cond_signal(&raw mut (*shared).condition);
            libc::pthread_mutex_unlock(&raw mut (*shared).mutex);
        }
        std::ptr::null_mut()
    }
    runs(100, || {
        let shared = Box::into_raw(Box::new(Shared {
            mutex: libc::PTHREAD_MUTEX_INITIALIZER,
            condition: libc::PTHREAD_COND_INITIALIZER,
            filled: 0,
        }));
        // SAFETY: the arguments are those that the manual asks for.
        unsafe {
            let mut threads = [0; 3];
            for thread in &mut threads {
                libc::pthread_create(thread, std::ptr::null(), fill, shared.cast());
            }
            libc::pthread_mutex_lock(&raw mut (*shared).mutex);
            while (*shared).filled < 3 {
                libc::pthread_cond_wait(&raw mut (*shared).condition, &raw mut (*shared).mutex);
            }
            libc::pthread_mutex_unlock(&raw mut (*shared).mutex);
            for thread in threads {
                libc::pthread_join(thread, std::ptr::null_mut());
            }
        }
    });
}

#[test]
fn semaphores_and_reader_writer_locks_of_the_c_library() {
    runs(100, || {
        // SAFETY: the arguments are those that the manual asks for.
        unsafe {
            let semaphore = Box::into_raw(Box::new(std::mem::zeroed::<libc::sem_t>()));
            libc::sem_init(semaphore, 0, 0);
            let address = semaphore as usize;
            let other = thread::spawn(move || {
                thread::sleep(Duration::from_millis(5));
                libc::sem_post(address as *mut libc::sem_t);
            });
            assert_eq!(libc::sem_wait(semaphore), 0);
            other.join().unwrap();
            let lock = Box::into_raw(Box::new(libc::PTHREAD_RWLOCK_INITIALIZER));
            assert_eq!(libc::pthread_rwlock_wrlock(lock), 0);
            let address = lock as usize;
            let reader = thread::spawn(move || {
                let lock = address as *mut libc::pthread_rwlock_t;
                assert_eq!(libc::pthread_rwlock_rdlock(lock), 0);
                assert_eq!(libc::pthread_rwlock_unlock(lock), 0);
            });
            assert_eq!(libc::pthread_rwlock_unlock(lock), 0);
            reader.join().unwrap();
        }
    });
}

#[test]
fn destructors_of_keys_run_when_a_thread_ends() {
    static RUN: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn note(value: *mut c_void) {
        RUN.fetch_add(value as u32, Ordering::Relaxed);
    }
    runs(10, || {
        let mut key = 0;
        // SAFETY: there is a place for the key.
        assert_eq!(unsafe { libc::pthread_key_create(&raw mut key, Some(note)) }, 0);
        let threads = [5_usize, 7].map(|value| {
            // SAFETY: the key was created.
            thread::spawn(move || unsafe { libc::pthread_setspecific(key, value as *const _) })
        });
        let _ = threads.map(|thread| thread.join().unwrap());
        assert_eq!(RUN.load(Ordering::Relaxed), 12);
    });
}

#[test]
fn timers_events_and_selection() {
    runs(20, || {
        // SAFETY: the arguments are those that the manual asks for.
        unsafe {
            let timer = libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC);
            assert!(timer >= 0);
            let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            let setting = libc::itimerspec {
                it_interval: zero,
                it_value: libc::timespec { tv_sec: 2, tv_nsec: 0 },
            };
            assert_eq!(
                libc::timerfd_settime(timer, 0, &raw const setting, std::ptr::null_mut()),
                0
            );
            let before = Instant::now();
            let mut set = std::mem::zeroed::<libc::fd_set>();
            libc::FD_SET(timer, &raw mut set);
            let null = std::ptr::null_mut();
            let found = libc::select(timer + 1, &raw mut set, null, null, null.cast());
            assert_eq!((found, libc::FD_ISSET(timer, &raw const set)), (1, true));
            let mut count = 0_u64;
            assert_eq!(libc::read(timer, (&raw mut count).cast(), 8), 8);
            assert_eq!((count, before.elapsed()), (1, Duration::from_secs(2)));
            let event = libc::eventfd(1, 0);
            let mut asked = libc::pollfd { fd: event, events: libc::POLLIN, revents: 0 };
            let limit = libc::timespec { tv_sec: 1, tv_nsec: 0 };
            assert_eq!(libc::ppoll(&raw mut asked, 1, &raw const limit, std::ptr::null()), 1);
            assert_eq!(libc::dup2(event, 77), 77);
            assert_eq!(libc::read(77, (&raw mut count).cast(), 8), 8);
            assert_eq!(libc::close(77), 0);
            assert_eq!(libc::usleep(3), 0);
        }
    });
}

#[test]
fn many_datagrams_in_one_call() {
    runs(20, || {
        let one = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let two = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        one.connect(two.local_addr().unwrap()).unwrap();
        // SAFETY: the messages refer to arrays that live long enough.
        unsafe {
            let texts = [*b"one", *b"two"];
            let mut pieces = texts.map(|_| std::mem::zeroed::<libc::iovec>());
            let mut messages = texts.map(|_| std::mem::zeroed::<libc::mmsghdr>());
            for at in 0..2 {
                pieces[at].iov_base = texts[at].as_ptr() as *mut c_void;
                pieces[at].iov_len = 3;
                messages[at].msg_hdr.msg_iov = &raw mut pieces[at];
                messages[at].msg_hdr.msg_iovlen = 1;
            }
            assert_eq!(libc::sendmmsg(one.as_raw_fd(), messages.as_mut_ptr(), 2, 0), 2);
            let mut into = [[0_u8; 8]; 3];
            let mut pieces = [std::mem::zeroed::<libc::iovec>(); 3];
            let mut messages = [std::mem::zeroed::<libc::mmsghdr>(); 3];
            for at in 0..3 {
                pieces[at].iov_base = into[at].as_mut_ptr().cast();
                pieces[at].iov_len = 8;
                messages[at].msg_hdr.msg_iov = &raw mut pieces[at];
                messages[at].msg_hdr.msg_iovlen = 1;
            }
            let flags = libc::MSG_WAITFORONE;
            let null = std::ptr::null_mut();
            let found = libc::recvmmsg(two.as_raw_fd(), messages.as_mut_ptr(), 3, flags, null);
            assert_eq!(found, 2);
            assert_eq!((&into[0][..3], &into[1][..3]), (&b"one"[..], &b"two"[..]));
            assert_eq!((messages[0].msg_len, messages[1].msg_len), (3, 3));
        }
    });
}

#[test]
fn calls_on_files_that_std_does_not_have() {
    runs(5, || {
        let path = std::env::temp_dir().join("work");
        std::fs::write(&path, b"0123456789").unwrap();
        let file = File::open(&path).unwrap();
        let name = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: the arguments are those that the manual asks for.
        unsafe {
            assert_eq!(libc::truncate(name.as_ptr(), 2), 0);
            let mut into = [0_u8; 8];
            let mut piece = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: 8 };
            assert_eq!(libc::preadv(file.as_raw_fd(), &raw mut piece, 1, 1), 1);
            assert_eq!(into[0], b'1');
            let mut space = std::mem::zeroed::<libc::statvfs>();
            assert_eq!(libc::statvfs(name.as_ptr(), &raw mut space), 0);
            assert!(space.f_bavail > 0);
        }
    });
}

#[test]
fn limits_and_identities() {
    runs(5, || {
        // SAFETY: the arguments are those that the manual asks for.
        unsafe {
            let mut limit = std::mem::zeroed::<libc::rlimit>();
            assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
            assert!(limit.rlim_cur >= 1_024);
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
            assert_eq!((libc::getuid(), libc::geteuid()), (1_000, 1_000));
            let mut usage = std::mem::zeroed::<libc::rusage>();
            assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &raw mut usage), 0);
            assert_eq!(libc::umask(0o22), 0o22);
            let name = CString::new("worker").unwrap();
            assert_eq!(libc::prctl(libc::PR_SET_NAME, name.as_ptr()), 0);
            let mut info = std::mem::zeroed::<libc::sysinfo>();
            assert_eq!(libc::sysinfo(&raw mut info), 0);
        }
        assert_eq!(c_int::try_from(std::process::id()), Ok(100));
    });
}
static SEEN: AtomicBool = AtomicBool::new(false);

extern "C" fn see(_: c_int) {
    SEEN.store(true, Ordering::SeqCst);
}

/// Sets a handler as a program in C does.
fn handle(number: c_int, flags: c_int) {
    // SAFETY: an action of zeros with a handler is valid.
    unsafe {
        let mut action = std::mem::zeroed::<libc::sigaction>();
        action.sa_sigaction = see as *const () as usize;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(number, &raw const action, std::ptr::null_mut()), 0);
    }
}

#[test]
fn handlers_run_at_once_if_a_program_raises_a_signal_itself() {
    let outcome = check(20, |net| {
        net.client("program", || {
            handle(libc::SIGUSR1, 0);
            // SAFETY: there is a handler.
            assert_eq!(unsafe { libc::raise(libc::SIGUSR1) }, 0);
            assert!(SEEN.swap(false, Ordering::SeqCst));
            // SAFETY: as above.
            assert_eq!(unsafe { libc::kill(libc::getpid(), libc::SIGUSR1) }, 0);
            while !SEEN.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            // SAFETY: nobody has this number.
            assert_eq!(unsafe { libc::kill(77, 0) }, -1);
        });
    });
    assert_eq!(outcome.failed, None, "{}", outcome.report);
}

#[test]
fn a_signal_ends_a_wait_and_a_blocked_one_stays_pending() {
    let outcome = check(50, |net| {
        net.client("program", || {
            handle(libc::SIGUSR1, libc::SA_RESTART);
            // SAFETY: takes no arguments.
            assert_eq!(unsafe { libc::pause() }, -1);
            assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINTR));
            // SAFETY: the arguments are those that the manual asks for.
            unsafe {
                let mut set = std::mem::zeroed::<libc::sigset_t>();
                libc::sigemptyset(&raw mut set);
                libc::sigaddset(&raw mut set, libc::SIGUSR2);
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
                let mut got = 0;
                assert_eq!(libc::sigwait(&raw const set, &raw mut got), 0);
                assert_eq!(got, libc::SIGUSR2);
                libc::raise(libc::SIGUSR2);
                let mut pending = std::mem::zeroed::<libc::sigset_t>();
                libc::sigpending(&raw mut pending);
                assert_eq!(libc::sigismember(&raw const pending, libc::SIGUSR2), 1);
            }
        });
        net.client("operator", || {
            thread::sleep(Duration::from_secs(1));
            signal("program", Signal::User1);
            thread::sleep(Duration::from_secs(1));
            signal("program", Signal::User2);
        });
    });
    assert_eq!(outcome.failed, None, "{}", outcome.report);
}

/// Maps a file of one page as shared memory.
fn mapped(file: &File, protection: c_int) -> *mut u8 {
    // SAFETY: asks for a new mapping.
    let at = unsafe {
        libc::mmap(std::ptr::null_mut(), 4096, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
    };
    assert_ne!(at, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
    at.cast()
}

#[test]
fn a_mapped_file_is_the_file() {
    use std::os::unix::fs::FileExt;
    runs(5, || {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open("/data")
            .unwrap();
        file.set_len(4096).unwrap();
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let (one, two) = (mapped(&file, both), mapped(&file, libc::PROT_READ));
        // SAFETY: the mappings have a page each.
        unsafe {
            *one.add(700) = 7;
            let mut byte = [0];
            file.read_exact_at(&mut byte, 700).unwrap();
            assert_eq!(byte, [7]);
            file.write_all_at(&[9], 701).unwrap();
            assert_eq!((*one.add(701), *two.add(701), *two.add(700)), (9, 9, 7));
            assert_eq!(libc::munmap(two.cast(), 4096), 0);
            *one.add(702) = 8;
            assert_eq!(libc::munmap(one.cast(), 4096), 0);
        }
        assert_eq!(std::fs::read("/data").unwrap()[700..703], [7, 9, 8]);
    });
}

/// A server that keeps a number in mapped memory, and a user who trusts in it over crashes.
fn number_in_memory(net: &mut Net<'_>, syncs: bool) {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    net.host("server", move || {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open("/number")
            .unwrap();
        file.set_len(4096).unwrap();
        file.sync_all().unwrap();
        File::open("/").unwrap().sync_all().unwrap();
        let number = mapped(&file, libc::PROT_READ | libc::PROT_WRITE);
        for stream in TcpListener::bind("0.0.0.0:80").unwrap().incoming() {
            let Ok(mut stream) = stream else { continue };
            // SAFETY: the mapping has a page, and only this thread uses it.
            let now = unsafe {
                *number += 1;
                if syncs {
                    assert_eq!(libc::msync(number.cast(), 4096, libc::MS_SYNC), 0);
                }
                *number
            };
            let _ = stream.write_all(&[now]);
        }
    });
    net.client("user", || {
        let mut last = 0;
        for _ in 0..3 {
            let mut answer = [0];
            while !TcpStream::connect("server:80")
                .is_ok_and(|mut stream| stream.read_exact(&mut answer).is_ok())
            {
                thread::sleep(Duration::from_millis(50));
            }
            assert!(answer[0] > last, "a number came twice");
            last = answer[0];
        }
    });
    net.faults(everhold_sim::Faults::none().crash(1));
}

#[test]
fn mapped_memory_outlives_a_crash_if_it_was_synced() {
    let outcome = check(500, |net| number_in_memory(net, false));
    assert!(outcome.report.contains("a number came twice"), "{}", outcome.report);
    let outcome = check(300, |net| number_in_memory(net, true));
    assert_eq!(outcome.failed, None, "{}", outcome.report);
}

#[test]
fn directories_are_read_by_all_functions() {
    runs(5, || {
        std::fs::create_dir_all("/d").unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(format!("/d/{name}"), name).unwrap();
        }
        // SAFETY: the arguments are those that the manual asks for.
        unsafe {
            let directory = libc::opendir(c"/d".as_ptr());
            let count = || std::iter::from_fn(|| libc::readdir(directory).as_ref()).count();
            let all = count();
            assert!(all >= 3);
            std::fs::write("/d/d", "d").unwrap();
            libc::rewinddir(directory);
            let first = libc::telldir(directory);
            assert_eq!(count(), all + 1, "rewinding reads anew");
            libc::seekdir(directory, first);
            let mut entry: libc::dirent64 = std::mem::zeroed();
            let mut read = std::ptr::null_mut();
            let mut seen = 0;
            while libc::readdir64_r(directory, &raw mut entry, &raw mut read) == 0
                && !read.is_null()
            {
                seen += 1;
            }
            assert_eq!(seen, all + 1);
            libc::closedir(directory);
        }
    });
}

#[test]
fn robust_locks_are_taken_and_given_back() {
    runs(5, || {
        // SAFETY: the arguments are those that the manual asks for.
        unsafe {
            let mut attributes = std::mem::zeroed();
            libc::pthread_mutexattr_init(&raw mut attributes);
            libc::pthread_mutexattr_setrobust(&raw mut attributes, libc::PTHREAD_MUTEX_ROBUST);
            let mutexes = Box::leak(Box::new([std::mem::zeroed::<libc::pthread_mutex_t>(); 2]));
            for mutex in &mut *mutexes {
                assert_eq!(libc::pthread_mutex_init(mutex, &raw const attributes), 0);
            }
            for mutex in &mut *mutexes {
                assert_eq!(libc::pthread_mutex_lock(mutex), 0);
            }
            for mutex in &mut *mutexes {
                assert_eq!(libc::pthread_mutex_unlock(mutex), 0);
            }
        }
    });
}

#[test]
fn threads_have_the_stacks_that_they_ask_for() {
    fn deep(levels: u32) -> u64 {
        let room = std::hint::black_box([u64::from(levels); 128]);
        if levels == 0 { 0 } else { room[5] + deep(levels - 1) }
    }
    runs(2, || {
        assert!(deep(4_000) > 0);
        let large = thread::Builder::new().stack_size(60 << 20);
        assert!(large.spawn(|| deep(20_000)).unwrap().join().unwrap() > 0);
    });
    let outcome = check(1, |net| {
        net.client("one", || {
            let too_large = thread::Builder::new().stack_size(1 << 30);
            assert!(too_large.spawn(|| ()).is_err());
        });
    });
    assert!(outcome.report.contains("pthread_create with a stack of"), "{}", outcome.report);
}

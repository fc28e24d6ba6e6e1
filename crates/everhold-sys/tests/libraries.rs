//! Shared libraries with state: each host has a state of its own, fresh after a restart.

#![expect(clippy::disallowed_methods, reason = "hosts are programs as they are")]

use std::ffi::CStr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use everhold_host::hosts;
use everhold_sim::Faults;

const LIBRARY: &str = "
static int initialised = 40;
static int zero;
int count(void) { return initialised++ + zero++; }
";

/// Tells the copy of this test that the library is loaded.
const LOADED: &str = "EVERHOLD_TEST_LIBRARY";

/// The library has to be there when the program starts, so the test starts itself again with it.
#[test]
fn the_statics_of_shared_libraries_belong_to_hosts() {
    if std::env::var_os(LOADED).is_some() {
        return in_hosts();
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, library) = (folder.join("count.c"), folder.join("libcount.so"));
    std::fs::write(&source, LIBRARY).unwrap();
    let mut compiled = Command::new("cc");
    compiled.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    assert!(compiled.status().unwrap().success());
    let test = "the_statics_of_shared_libraries_belong_to_hosts";
    let again = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env("LD_PRELOAD", &library)
        .env(LOADED, "1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success(), "{told}{}", String::from_utf8_lossy(&again.stderr));
}

fn in_hosts() {
    let program = || {
        assert_eq!([count(), count()], [40, 42]);
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(count(), 44);
    };
    let outcome = hosts(move |net| {
        net.host("one", program);
        net.host("two", program);
        net.client("user", move || {
            program();
            std::thread::sleep(Duration::from_secs(5));
        });
        net.faults(Faults::none().crash(2));
    })
    .explorer(|e| e.executions(50).regressions(false))
    .run();
    assert_eq!(outcome.failed, None, "{}", outcome.report);
    assert_eq!(count(), 40, "the explorer has a state of its own");
}

fn count() -> i32 {
    const NAME: &CStr = c"count";
    // SAFETY: the library that was loaded with this program has this function.
    unsafe {
        let count = libc::dlsym(libc::RTLD_DEFAULT, NAME.as_ptr());
        assert!(!count.is_null());
        std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> i32>(count)()
    }
}

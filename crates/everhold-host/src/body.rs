//! The programs of hosts: what runs on the main thread of each.

use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::process::{ExitCode, Termination};
use std::rc::Rc;

use everhold_sys::Report;

/// A program: returns its exit code.
pub(crate) type Body = Rc<dyn Fn() -> i32>;

/// The program whose `main` is this function.
pub(crate) fn of<F, T>(main: F) -> Body
where
    F: Fn() -> T + Clone + Send + 'static,
    T: Termination,
{
    Rc::new(move || {
        // Each start of the host begins with what the test gave it.
        let main = main.clone();
        code_of(main().report())
    })
}

/// The number of an exit code, which only shows itself as text.
fn code_of(code: ExitCode) -> i32 {
    let text = format!("{code:?}");
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if text == format!("{:?}", ExitCode::SUCCESS) { 0 } else { digits.parse().unwrap_or(1) }
}

/// Runs a program as the main thread of the host.
pub(crate) fn run(body: &Body) {
    // The hook is a static, and this host has statics of its own.
    std::panic::set_hook(Box::new(tell));
    crate::shown::tap();
    match catch_unwind(AssertUnwindSafe(|| body())) {
        Ok(code) => everhold_sys::call(Report::Returned { code }),
        Err(_) => everhold_sys::call(Report::MainPanicked),
    }
}

fn tell(info: &PanicHookInfo<'_>) {
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let message = info.payload_as_str().unwrap_or("a panic without a text");
    everhold_sys::call(Report::Panicked { message, place: &place });
}

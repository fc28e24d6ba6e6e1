//! Ctrl-C asks for the report so far; a second one ends the process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::SIGINT;
use signal_hook::flag;

/// The exit code that a shell reports for a process that was interrupted.
const INTERRUPTED: i32 = 130;

/// True after the first Ctrl-C. Starts listening at the first call.
pub fn requested() -> bool {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    let flag = FLAG.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        // If the handlers cannot be installed, Ctrl-C just ends the process, as it does without
        // them.
        let _ = flag::register_conditional_shutdown(SIGINT, INTERRUPTED, Arc::clone(&flag));
        let _ = flag::register(SIGINT, Arc::clone(&flag));
        flag
    });
    flag.load(Ordering::Relaxed)
}

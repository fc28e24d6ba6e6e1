//! The questions of every test of a service: whether the right service is silent, whether the mistake is
//! found and made small, and whether one seed always gives the same execution.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use everhold::host::Outcome;
use everhold::{Net, hosts};

/// Searches run one after another, so that their processor time can be told apart.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Executions of one seed, each in a process of its own; `SERVICES_REPEATS` sets another number.
const REPEATS: u64 = 100;

fn repeats() -> u64 {
    let set = std::env::var("SERVICES_REPEATS").ok();
    set.map_or(REPEATS, |set| set.parse().expect("SERVICES_REPEATS is a number"))
}

fn search(
    seed: u64,
    executions: u64,
    setup: impl Fn(&mut Net<'_>) + Send + Sync + 'static,
) -> Outcome {
    hosts(setup).explorer(|e| e.seed(seed).executions(executions).regressions(false)).run()
}

/// The right service: no finding, and each repeat of one execution takes the same steps.
pub fn silent(
    name: &str,
    executions: u64,
    setup: impl Fn(&mut Net<'_>) + Clone + Send + Sync + 'static,
) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let before = processor_time();
    let outcome = search(1, executions, setup.clone());
    let spent = processor_time() - before;
    assert_eq!(outcome.failed, None, "{}", outcome.report);
    let executions = outcome.executions;
    let rate = executions as f64 / spent.as_secs_f64();
    let steps = outcome.steps / executions;
    println!("{name}: {executions} silent executions of {steps} steps, {rate:.0} a CPU-second");
    let again = || {
        let outcome = search(7, 1, setup.clone());
        (outcome.failed, outcome.steps)
    };
    let first = again();
    for repeat in 1..repeats() {
        assert_eq!(again(), first, "repeat {repeat} of seed 7 differs");
    }
}

/// The service with a mistake: it is found, its message says this, and it becomes small.
pub fn found(
    name: &str,
    message: &str,
    executions: u64,
    setup: impl Fn(&mut Net<'_>) + Send + Sync + 'static,
) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let outcome = search(1, executions, setup);
    let failed = outcome.failed.unwrap_or_else(|| panic!("not found\n{}", outcome.report));
    assert!(outcome.report.contains(message), "{failed}\n{}", outcome.report);
    println!("{name}: found in execution {}\n{}", outcome.executions, outcome.report);
}

/// The processor time of the children that ended.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("this is Linux");
    let after_name = stat.rsplit(") ").next().expect("the name is in parentheses");
    // Fields 16 and 17 of proc_pid_stat(5), in hundredths of a second; the name is field 2.
    let ticks: u64 =
        after_name.split(' ').skip(13).take(2).map(|f| f.parse::<u64>().unwrap()).sum();
    Duration::from_millis(10 * ticks)
}

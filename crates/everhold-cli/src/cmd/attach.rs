//! `everhold attach`: unmodified, running processes, observed from outside.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use everhold_attach::{Attached, Options, Plan, ProbeFile, Targets, Totals, missing_capabilities};
use everhold_live::{Report, recording};
use everhold_trace::format::Writer;

use crate::args::{AlarmArg, AttachArgs, TlsArgs, WatchArgs};
use crate::cmd::watch;
use crate::exit::{BadInput, Code};
use crate::plain::{Plain, plain};

/// The interval between two looks at the ring of the kernel.
const TURN: Duration = Duration::from_millis(2);

pub(crate) fn run(args: &AttachArgs) -> Result<Code> {
    let plan = plan(args)?;
    if args.dry_run {
        write!(Plain(io::stdout().lock()), "{}", plan.describe())?;
        let usable = plan.problems().next().is_none();
        return Ok(if usable { Code::Holds } else { Code::Usage });
    }
    refuse_unusable(&plan, args)?;
    let missing = missing_capabilities();
    if !missing.is_empty() {
        let text = format!(
            "{} missing: run this as root, or give them to the program (`setcap \
             cap_bpf,cap_perfmon+ep`); see with --dry-run what would be done",
            missing.join(" and ")
        );
        return Err(BadInput(text).into());
    }
    match &args.rules {
        None => {
            if args.to.is_empty() && args.record.is_none() {
                let text = "what is seen would go nowhere: give --rules to judge it here, --to to \
                            tell a watch, --record to write it down, or --dry-run";
                return Err(BadInput(text.to_owned()).into());
            }
            let attached = start(plan, args, args.to.clone(), false)?;
            tell(&stay(attached, args, &AtomicBool::new(false)));
            merge(args)?;
            Ok(Code::Holds)
        }
        Some(rules) => judged(plan, args, rules),
    }
}

fn plan(args: &AttachArgs) -> Result<Plan> {
    let shown = args.probes.display();
    let text = fs::read_to_string(&args.probes);
    let text = text.map_err(|error| BadInput(format!("{shown}: {error}")))?;
    let file = ProbeFile::parse(&text).map_err(|error| BadInput(format!("{shown}: {error}")))?;
    let programs = args.programs.iter().map(|program| find(program)).collect();
    let targets = Targets { processes: args.pid.clone(), programs };
    Plan::make(file, &targets).map_err(|error| BadInput(error.to_string()).into())
}

/// A program that is given by its name alone is where a shell finds it.
pub(crate) fn find(program: &Path) -> PathBuf {
    let is_name = program.components().count() == 1 && !program.exists();
    let path = std::env::var_os("PATH").filter(|_| is_name);
    let mut places = path.iter().flat_map(std::env::split_paths);
    let found = places.find_map(|place| Some(place.join(program)).filter(|place| place.is_file()));
    found.unwrap_or_else(|| program.to_owned())
}

fn refuse_unusable(plan: &Plan, args: &AttachArgs) -> Result<()> {
    let mut texts = Vec::new();
    for (_, problem) in plan.problems() {
        texts.push(format!("{}: line {}: {}", args.probes.display(), problem.line, problem.text));
    }
    let used = plan.targets.iter().any(|target| !target.resolution.resolved.is_empty());
    if texts.is_empty() || (args.skip_unusable && used) {
        texts.iter().for_each(|text| eprintln!("warning: {}", plain(text)));
        return Ok(());
    }
    let hint = if used { "\n(--skip-unusable goes on without these lines)" } else { "" };
    Err(BadInput(format!("{}{hint}", texts.join("\n"))).into())
}

fn start(
    plan: Plan,
    args: &AttachArgs,
    checkers: Vec<SocketAddr>,
    same_clock: bool,
) -> Result<Attached> {
    let secret = match &args.secret_file {
        None => None,
        Some(path) => {
            let text = fs::read_to_string(path);
            let text = text.map_err(|error| BadInput(format!("{}: {error}", path.display())))?;
            Some(text.trim().as_bytes().to_vec())
        }
    };
    let options = Options {
        checkers,
        system: args.system.clone(),
        kind: args.kind.clone(),
        secret,
        same_clock,
        order: !args.no_order,
        record: args.record.clone(),
        ring_bytes: args.ring_mib.next_power_of_two() << 20,
        report: Report::default(),
    };
    let attached = Attached::start(plan, options).map_err(|error| BadInput(error.to_string()))?;
    eprintln!("attached in {:.0} ms", attached.took.as_secs_f64() * 1e3);
    Ok(attached)
}

/// Observes until the time is over, nobody is left to be observed, or it is told to leave.
fn stay(mut attached: Attached, args: &AttachArgs, is_over: &AtomicBool) -> Totals {
    let end = args.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    while end.is_none_or(|end| Instant::now() < end) && !is_over.load(Ordering::Relaxed) {
        attached.turn();
        if !attached.has_use() {
            eprintln!("all processes have ended");
            break;
        }
        thread::sleep(TURN);
    }
    attached.leave()
}

/// Puts the segments of all nodes together into one trace, for `check`, `infer` and `show`.
fn merge(args: &AttachArgs) -> Result<()> {
    let Some(folder) = &args.record else { return Ok(()) };
    let whole = recording::merge([folder]).map_err(|error| BadInput(error.to_string()))?;
    let path = folder.join("whole.trace");
    let file = BufWriter::new(File::create(&path)?);
    let mut writer = Writer::new(file).with_changes();
    for execution in &whole.executions {
        writer.execution(execution)?;
    }
    writer.finish()?;
    let events: usize = whole.executions.iter().map(|execution| execution.events().len()).sum();
    eprintln!("recorded {events} events in {}", path.display());
    Ok(())
}

fn tell(totals: &Totals) {
    let Totals { hits, records, lost, shed, unreadable, nodes, messages, .. } = totals;
    eprintln!(
        "left: {hits} hits, {messages} messages, {records} records of {nodes} nodes; lost {lost}, shed {shed}, \
         unreadable {unreadable}"
    );
    let Totals { unread, unsent, unassigned, .. } = totals;
    if unread + unsent + unassigned > 0 {
        eprintln!(
            "order: {unread} sends that nobody observed was seen to read, {unsent} receives of what \
             nobody observed was seen to send, {unassigned} messages of which it is not known whose \
             they are"
        );
    }
}

/// Judges rules in this process, on what is seen.
fn judged(plan: Plan, args: &AttachArgs, rules: &Path) -> Result<Code> {
    let watch_args = watch_args(args, rules);
    let (addresses, address) = mpsc::channel();
    let (left, leave) = (Arc::new(AtomicBool::new(false)), AtomicBool::new(false));
    thread::scope(|scope| {
        let over = Arc::clone(&left);
        let watching = scope.spawn(|| {
            let listening = |at| {
                // If nobody waits for the address any more, nobody attaches.
                let _ = addresses.send(at);
            };
            let result =
                watch::run_until(&watch_args, &listening, &|| left.load(Ordering::Relaxed));
            // If the watch could not begin, nobody waits for its address.
            drop(addresses);
            leave.store(true, Ordering::Relaxed);
            result
        });
        let attached = match address.recv() {
            Ok(at) => {
                let checkers = [at].into_iter().chain(args.to.iter().copied()).collect();
                start(plan, args, checkers, args.to.is_empty())
            }
            Err(_) => return watching.join().expect("the watch does not panic"),
        };
        let outcome = attached.map(|attached| {
            let totals = stay(attached, args, &leave);
            // The last news are judged when the snapshots have passed them.
            thread::sleep(Duration::from_millis(500));
            tell(&totals);
        });
        over.store(true, Ordering::Relaxed);
        let code = watching.join().expect("the watch does not panic");
        outcome.and_then(|()| merge(args)).and(code)
    })
}

fn watch_args(args: &AttachArgs, rules: &Path) -> WatchArgs {
    WatchArgs {
        rules: Some(rules.to_owned()),
        listen: Some("127.0.0.1:0".to_owned()),
        folder: args.folder.clone(),
        engine: None,
        partitions: None,
        system: args.system.clone(),
        secret_file: None,
        open: false,
        silence_ms: 1_000,
        wait_ms: 2_000,
        alarm: AlarmArg::Definite,
        metrics: args.metrics.clone(),
        webhook: None,
        json: args.json,
        quiet: false,
        seconds: None,
        at: None,
        add: None,
        remove: Vec::new(),
        tls: TlsArgs::default(),
    }
}

//! `everhold watch`: rules judged on a running system.
//!
//! - `page`: the pages that the watch serves to a browser.
//! - `tls`: encryption, as the options ask for it.

mod page;
mod tls;

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use everhold_property::Verdict;
use everhold_watch::evidence::to_json;
use everhold_watch::export::{self, RuleStanding, Served, Standing, Webhook};
use everhold_watch::intake::IntakeCounts;
use everhold_watch::{
    Alarm, BadRules, Certainty, CheckOptions, Evidence, FileStore, Intake, IntakeOptions, Log,
    LogError, Notice, SegmentLog, SegmentOptions, Store, Timing, Watch, WatchOptions, WatchParts,
};

use crate::args::{AlarmArg, WatchArgs};
use crate::exit::{BadInput, Code};
use crate::plain::{Plain, plain, plain_json};
use crate::words::counted;

pub(crate) fn run(args: &WatchArgs) -> Result<Code> {
    run_until(args, &|_| {}, &|| false)
}

/// Watches until the time is over or `is_over` says so; tells `listening` where probes connect.
pub(crate) fn run_until(
    args: &WatchArgs,
    listening: &dyn Fn(SocketAddr),
    is_over: &dyn Fn() -> bool,
) -> Result<Code> {
    if let Some(address) = &args.at {
        return control(args, address);
    }
    if args.listen.is_none() && args.engine.is_none() {
        let text = "no probe could connect: give --listen ADDRESS, such as 127.0.0.1:7373, and name it \
                    in the probes (`everhold help live`)";
        return Err(BadInput(text.to_owned()).into());
    }
    let secret = read_secret(args)?;
    let text = read_rules(args)?;
    let (log, store) = engine(args)?;
    let evidence = Evidence::open(&args.folder).map_err(bad)?;
    let printer = Printer::new(args)?;
    let (tally, webhook) = (printer.tally(), printer.webhook.clone());
    let parts = WatchParts {
        log: Arc::clone(&log),
        store,
        evidence,
        flows: Arc::new(Vec::new),
        told: printer.told(),
        trouble: Box::new(complain),
    };
    let watch = Arc::new(Watch::start(parts, options(args)).map_err(bad)?);
    put_in_force(&watch, &text, args)?;
    let intake = listen(args, &log, &secret)?;
    if let Some(intake) = &intake {
        watch.ask_through(intake.asker());
    }
    let counts = intake.as_ref().map(|intake| Arc::clone(intake.counts()));
    if let Some(address) = &args.metrics {
        let listener = bind(address, "--metrics")?;
        guard(&listener, &secret, args, "--metrics")?;
        let (watch, intake) = (Arc::clone(&watch), counts.clone());
        let pages = page::pages(&args.folder);
        let served = Served { watch, intake, secret: secret.clone(), pages };
        let secured = tls::page(&args.tls)?;
        let scheme = if secured.is_some() { "https" } else { "http" };
        let at = export::serve_over(secured, listener, served)?;
        eprintln!("page, metrics and control on {scheme}://{at}");
    }
    if let Some(intake) = &intake {
        listening(intake.address());
    }
    stay(args, &watch, counts.as_deref(), text, is_over);
    let standing = Standing::of(&watch, counts.as_deref());
    drop(intake);
    tell_undelivered(webhook.as_deref());
    let tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
    let undecided = tell_undecided(&standing, args.json);
    if !args.json {
        tell_sampled(&standing);
    }
    // A violation that an earlier process told and that is not over yet is not told again.
    let goes_on = standing.verdict() == Verdict::Violated;
    Ok(match (*tally, undecided) {
        _ if goes_on => Code::Violated,
        (1.., _) => Code::Violated,
        (0, true) => Code::Unknown,
        (0, false) => Code::Holds,
    })
}

/// Waits a little for the last alerts.
fn tell_undelivered(webhook: Option<&Webhook>) {
    let left = webhook.map_or(0, |webhook| webhook.wait(Duration::from_secs(2)));
    if left > 0 {
        let alerts = counted(left, "alert");
        complain(format!(
            "{alerts} not delivered yet; a watch in the same folder goes on with that"
        ));
    }
}

/// Reports the rules for which it is unknown whether they held; returns whether there are any.
fn tell_undecided(standing: &Standing, json: bool) -> bool {
    let of_rules = standing.rules.iter().filter(|rule| !rule.is_over).filter_map(|rule| {
        let reason = rule.reason.as_deref()?;
        Some((rule.name.as_str(), reason))
    });
    let mut undecided: Vec<(&str, &str)> = of_rules.collect();
    if standing.rules.is_empty() {
        undecided.push(("", "no rule was judged here"));
    }
    for (rule, reason) in &undecided {
        let text = match json {
            true => {
                let told =
                    serde_json::json!({ "event": "unknown", "rule": rule, "reason": reason });
                plain_json(&told.to_string())
            }
            false => plain(&format!("unknown whether `{rule}` held: {reason}")),
        };
        // The reader of the output may be gone; the exit code carries the same information.
        let _ = writeln!(io::stdout().lock(), "{text}");
    }
    !undecided.is_empty()
}

/// Says of which rules only a part was looked at; that they held is said of that part.
fn tell_sampled(standing: &Standing) {
    let mut out = Plain(io::stdout().lock());
    for RuleStanding { name, sampled, .. } in &standing.rules {
        if let Some(part) = sampled {
            let _ = writeln!(out, "`{name}` was judged {part} only");
        }
    }
}

fn bad(error: LogError) -> BadInput {
    BadInput(error.to_string())
}

fn complain(text: String) {
    let _ = writeln!(Plain(io::stderr().lock()), "warning: {text}");
}

fn read_secret(args: &WatchArgs) -> Result<Vec<u8>> {
    let Some(path) = &args.secret_file else { return Ok(Vec::new()) };
    let text = fs::read_to_string(path);
    let text = text.map_err(|error| BadInput(format!("{}: {error}", path.display())))?;
    let secret = text.trim();
    if secret.is_empty() {
        return Err(BadInput(format!("{}: the secret is empty", path.display())).into());
    }
    Ok(secret.as_bytes().to_vec())
}

fn read_rules(args: &WatchArgs) -> Result<String> {
    let Some(path) = &args.rules else { return Ok(String::new()) };
    let text = fs::read_to_string(path);
    Ok(text.map_err(|error| BadInput(format!("{}: {error}", path.display())))?)
}

/// The log and the store that the arguments select.
fn engine(args: &WatchArgs) -> Result<(Arc<dyn Log>, Box<dyn Store>)> {
    match args.engine.as_deref() {
        None => {
            let partitions = args.partitions.unwrap_or(1);
            let options = SegmentOptions { partitions, ..SegmentOptions::default() };
            let log = SegmentLog::open(&args.folder.join("log"), options).map_err(bad)?;
            let store = FileStore::open(&args.folder, partitions).map_err(bad)?;
            Ok((Arc::new(log), Box::new(store)))
        }
        Some(url) if url.starts_with("nats://") || url.starts_with("tls://") => nats(args, url),
        Some(other) => {
            let text = format!(
                "--engine {other}: an engine is nats://HOST:PORT or tls://HOST:PORT; leave it out for \
                                the embedded one"
            );
            Err(BadInput(text).into())
        }
    }
}

#[cfg(feature = "nats")]
fn nats(args: &WatchArgs, url: &str) -> Result<(Arc<dyn Log>, Box<dyn Store>)> {
    use everhold_watch::nats::{Nats, NatsOptions};
    let (ca, cert, key) = (&args.tls.tls_ca, &args.tls.engine_cert, &args.tls.engine_key);
    let tls = everhold_tls::ClientFiles {
        ca: ca.clone(),
        cert: cert.clone(),
        key: key.clone(),
        name: None,
    };
    let partitions = args.partitions.unwrap_or(8);
    let options = NatsOptions { partitions, tls, ..NatsOptions::new(url) };
    let nats = Nats::connect(&options).map_err(bad)?;
    Ok((Arc::new(nats.log()), Box::new(nats.store())))
}

#[cfg(not(feature = "nats"))]
fn nats(_: &WatchArgs, url: &str) -> Result<(Arc<dyn Log>, Box<dyn Store>)> {
    let text = format!(
        "--engine {url}: this program was built without NATS; build it with \
         `cargo install everhold-cli --features nats`"
    );
    Err(BadInput(text).into())
}

fn options(args: &WatchArgs) -> WatchOptions {
    let timing = Timing {
        silence_max: Duration::from_millis(args.silence_ms),
        wait_max: Duration::from_millis(args.wait_ms),
        ..Timing::default()
    };
    let alarm = match args.alarm {
        AlarmArg::Definite => Alarm::Definite,
        AlarmArg::Possible => Alarm::Possible,
    };
    let check = CheckOptions { timing, alarm, ..CheckOptions::default() };
    WatchOptions { check, ..WatchOptions::default() }
}

/// Writes the rules into the log, unless they are the ones in force already, or the file is still the
/// one that was put in force here: what was changed since then by `--at` outlives a restart.
fn put_in_force(watch: &Watch, text: &str, args: &WatchArgs) -> Result<()> {
    let file = args.rules.as_deref().map_or("rules".into(), |path| path.display().to_string());
    if args.rules.is_none() {
        return Ok(());
    }
    let was_taken = fs::read_to_string(taken(args)).is_ok_and(|old| old == text);
    let present = present_rules(watch, if was_taken { REREAD_MAX } else { Duration::ZERO });
    if present.as_deref() == Some(text) {
        return Ok(());
    }
    if present.is_some() && was_taken {
        eprintln!("the rules were changed since {file} was put in force; they stay as they are");
        return Ok(());
    }
    watch.set_rules(text, &file).map_err(|error| BadInput(error.to_string()))?;
    take_note(args, text);
    Ok(())
}

/// The longest wait for a watch to read rules in its log that an earlier process put there.
const REREAD_MAX: Duration = Duration::from_secs(2);

/// The rules that the log has, once the watch has read them.
fn present_rules(watch: &Watch, patience: Duration) -> Option<String> {
    let end = Instant::now() + patience;
    loop {
        let present = watch.rules().filter(|rules| !rules.is_empty());
        if present.is_some() || Instant::now() >= end {
            return present;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// The copy of the file of rules that was put in force last.
fn taken(args: &WatchArgs) -> PathBuf {
    args.folder.join("rules-taken.prop")
}

fn take_note(args: &WatchArgs, text: &str) {
    if let Err(error) = fs::write(taken(args), text) {
        complain(format!("{}: {error}", taken(args).display()));
    }
}

fn bind(address: &str, option: &str) -> Result<TcpListener> {
    let listener = TcpListener::bind(address);
    Ok(listener.map_err(|error| BadInput(format!("{option} {address}: {error}")))?)
}

/// Refuses addresses that other machines can reach, unless the user allowed it.
fn guard(listener: &TcpListener, secret: &[u8], args: &WatchArgs, option: &str) -> Result<()> {
    let at: SocketAddr = listener.local_addr()?;
    let has_certificates = args.tls.tls_client_ca.is_some() && option == "--listen";
    if at.ip().is_loopback() || args.open || !secret.is_empty() || has_certificates {
        return Ok(());
    }
    let text = format!(
        "{option} {at}: others can reach this address; give --secret-file, or --open if anybody \
         may use it (`everhold help security`)"
    );
    Err(BadInput(text).into())
}

fn listen(args: &WatchArgs, log: &Arc<dyn Log>, secret: &[u8]) -> Result<Option<Intake>> {
    let Some(address) = &args.listen else { return Ok(None) };
    let listener = bind(address, "--listen")?;
    guard(&listener, secret, args, "--listen")?;
    let (system, secret) = (args.system.clone(), secret.to_vec());
    let options = IntakeOptions { system, secret, tls: tls::server(&args.tls)? };
    let how = if options.tls.is_some() { " (TLS)" } else { "" };
    let intake = Intake::start(listener, Arc::clone(log), options, complain)?;
    eprintln!("listening for probes on {}{how}", intake.address());
    Ok(Some(intake))
}

/// Follows the rules file and shows the status until the time is over.
fn stay(
    args: &WatchArgs,
    watch: &Watch,
    intake: Option<&IntakeCounts>,
    text: String,
    is_over: &dyn Fn() -> bool,
) {
    let end = args.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let shows = io::stderr().is_terminal() && !args.quiet;
    let mut rules = RulesFile { text, changed: None, is_late: false };
    while end.is_none_or(|end| Instant::now() < end) && !is_over() {
        thread::sleep(Duration::from_millis(500));
        rules.follow(args, watch);
        if shows {
            eprint!("\r\x1b[K{}", status_line(watch, intake));
            let _ = io::stderr().flush();
        }
    }
    if shows {
        eprintln!();
    }
}

struct RulesFile {
    text: String,
    changed: Option<SystemTime>,
    /// Whether the log did not take the last change yet.
    is_late: bool,
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|data| data.modified()).ok()
}

impl RulesFile {
    /// Puts a changed file in force; its errors are reported once, and the old rules stay in force.
    fn follow(&mut self, args: &WatchArgs, watch: &Watch) {
        let Some(path) = args.rules.as_deref() else { return };
        let changed = modified(path);
        if changed.is_none() || changed == self.changed {
            return;
        }
        let Ok(text) = fs::read_to_string(path) else { return };
        if text == self.text {
            self.changed = changed;
            return;
        }
        match watch.set_rules(&text, &path.display().to_string()) {
            Ok(()) => {
                take_note(args, &text);
                (self.text, self.changed) = (text, changed);
            }
            Err(error) => {
                // What the log does not take is right: it is tried again, and told once.
                let is_late = matches!(error, BadRules::NotWritten(_));
                if !is_late {
                    self.changed = changed;
                }
                if !std::mem::replace(&mut self.is_late, is_late) {
                    complain(format!("the old rules stay in force:\n{error}"));
                }
                return;
            }
        }
        self.is_late = false;
    }
}

fn status_line(watch: &Watch, intake: Option<&IntakeCounts>) -> String {
    let status = watch.status();
    let sum = |value: &dyn Fn(&everhold_watch::PartitionStatus) -> u64| -> u64 {
        status.values().map(value).sum()
    };
    let rules = status.values().next().map_or(0, |status| status.rules.len());
    let firing = sum(&|s| s.rules.values().map(|rule| rule.firing as u64).sum());
    let lag = status.values().map(|s| s.lag_micros).max().unwrap_or(0) / 1_000;
    let nodes = status.values().map(|s| s.sizes.1).max().unwrap_or(0);
    let probes = intake.map_or(0, |intake| intake.connections.load(Relaxed));
    let standing = Standing::of(watch, intake);
    let unknown = standing.rules.iter().find_map(|rule| rule.reason.as_deref());
    let unknown = unknown.map(|reason| format!(" · unknown: {reason}")).unwrap_or_default();
    let sampled = match standing.rules.iter().filter(|rule| rule.sampled.is_some()).count() {
        0 => String::new(),
        some => format!(" ({some} sampled)"),
    };
    plain(&format!(
        "{}{sampled} · {firing} firing · {} ({probes} connected) · {} records · {} \
         lost · lag {lag} ms{unknown}",
        counted(rules, "rule"),
        counted(nodes, "node"),
        sum(&|s| s.counts.records),
        sum(&|s| s.counts.dropped),
    ))
}

/// Prints notices, and counts violations.
struct Printer {
    json: bool,
    webhook: Option<Arc<Webhook>>,
    tally: Arc<Mutex<u64>>,
    folder: String,
}

impl Printer {
    fn new(args: &WatchArgs) -> Result<Printer> {
        let webhook = match &args.webhook {
            Some(url) => {
                let tls = tls::webhook(&args.tls, url)?;
                Some(
                    Webhook::start_over(tls, url, Some(&args.folder), complain)
                        .map(Arc::new)
                        .map_err(|error| BadInput(error.to_string()))?,
                )
            }
            None => None,
        };
        let folder = args.folder.display().to_string();
        Ok(Printer { json: args.json, webhook, tally: Arc::default(), folder })
    }

    fn tally(&self) -> Arc<Mutex<u64>> {
        Arc::clone(&self.tally)
    }

    fn told(self) -> Box<dyn FnMut(&Notice) + Send> {
        Box::new(move |notice| {
            if matches!(notice, Notice::Fired(_)) {
                *self.tally.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            }
            if let Some(webhook) = &self.webhook {
                webhook.tell(notice);
            }
            let text = match self.json {
                true => plain_json(&to_json(notice).to_string()),
                false => plain(&self.text(notice)),
            };
            // The reader of the output may be gone; the evidence is on disk.
            let _ = writeln!(io::stdout().lock(), "{text}");
        })
    }

    fn text(&self, notice: &Notice) -> String {
        let time = |at: everhold_trace::wire::Stamp| export::rfc3339(at.micros());
        let about = |key: &Option<everhold_trace::Value>| {
            key.as_ref().map(|key| format!(" for {key}")).unwrap_or_default()
        };
        match notice {
            Notice::Fired(v) | Notice::Possible(v) => {
                let folder = &self.folder;
                let violated = words_for(notice, v.certainty);
                let mut text = format!("{} `{}` {violated}{}", time(v.at), v.rule, about(&v.key));
                for (name, value) in &v.witness {
                    text.push_str(&format!("\n    {name} = {value}"));
                }
                text.push_str(&format!(
                    "\n    {}; see everhold show {folder}/violations/{}.trace",
                    v.reason, v.id
                ));
                text
            }
            Notice::Resolved { rule, key, at, .. } => {
                format!("{} `{rule}` holds again{}", time(*at), about(key))
            }
            Notice::Incomplete { name, reason, at, .. } => {
                format!("{} unknown what depends on {name}: {reason}", time(*at))
            }
            Notice::Membership { name, what, at, .. } => format!("{} {name} is {what}", time(*at)),
            Notice::Clock { name, ahead, strays: true, at, .. } => {
                let (distance, side) = (ahead.unsigned_abs() as f64 / 1e6, sides(*ahead));
                format!(
                    "{} the clock of {name} is {distance:.3} s {side} the others; its stamps are \
                     corrected, set its clock",
                    time(*at)
                )
            }
            Notice::Clock { name, at, .. } => {
                format!("{} the clock of {name} agrees with the others again", time(*at))
            }
            Notice::Rules { names, not_watched, refused } => {
                let mut text = format!("rules in force: {}", names.join(", "));
                for rule in not_watched {
                    text.push_str(&format!("\nnot watched: {}: {}", rule.name, rule.reason));
                }
                refused.iter().for_each(|reason| text.push_str(&format!("\nrefused: {reason}")));
                text
            }
            Notice::Disabled { rule } => format!("`{rule}` is no longer judged"),
        }
    }
}

/// The certainty of a violation, in words.
fn words_for(notice: &Notice, certainty: Certainty) -> String {
    match (notice, certainty) {
        (Notice::Fired(_), Certainty::Definite) => "is violated".to_owned(),
        (Notice::Fired(_), Certainty::Possible { error }) => {
            format!("is possibly violated (clocks are exact to {error} µs)")
        }
        (_, Certainty::Definite) => "was possibly violated".to_owned(),
        (_, Certainty::Possible { error }) => {
            format!("was possibly violated, for less than clocks tell ({error} µs)")
        }
    }
}

fn sides(ahead: i64) -> &'static str {
    if ahead > 0 { "ahead of" } else { "behind" }
}

/// `--at`: sends a command to a running watch.
fn control(args: &WatchArgs, address: &str) -> Result<Code> {
    let secret = String::from_utf8_lossy(&read_secret(args)?).into_owned();
    let (tls, address) = tls::client(&args.tls, address)?;
    let ask = |method: &str, body: &str| {
        export::ask_over(tls.as_ref(), address, method, "/rules", &secret, body)
            .map_err(|error| BadInput(error.to_string()))
    };
    if args.add.is_none() && args.remove.is_empty() {
        write!(Plain(io::stdout().lock()), "{}", ask("GET", "")?)?;
        return Ok(Code::Holds);
    }
    let add = match &args.add {
        Some(path) => fs::read_to_string(path)
            .map_err(|error| BadInput(format!("{}: {error}", path.display())))?,
        None => String::new(),
    };
    // The watch applies the change to the rules in force, so that concurrent changes do not undo
    // each other.
    let change = serde_json::json!({ "remove": args.remove, "add": add });
    ask("PATCH", &change.to_string())?;
    Ok(Code::Holds)
}

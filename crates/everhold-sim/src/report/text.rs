//! Reports in words.

use std::fmt::Write;

use crate::execute::attempt;
use everhold_node::CrashModel;
use everhold_trace::text::thousands;

use crate::fault::FaultKind;
use crate::regressions::Kept;
use crate::report::{FASTER_TESTS, Finding, Report, Saved, Stop};
use crate::shrink::ShrinkBound;
use crate::untested::Untested;

/// A token longer than this is not worth pasting; the schedule's file is named instead.
const TOKEN_MAX: usize = 400;

/// The output of a failing test, without the files that it leaves behind.
pub(super) fn failure(report: &Report, finding: &Finding) -> String {
    let saved = Saved::default();
    let (head, replay) = (head(report, finding), replay(report, finding, &saved));
    format!("{head}\n{replay}\n{}\n{}", body(report, finding), foot(report, &saved, &None))
}

/// The first part of a report: the violation. Nothing in here can fail.
pub(super) fn head(report: &Report, finding: &Finding) -> String {
    let mut out = format!("✗ VIOLATED  {}    {}", finding.failure.cause, origin(report, finding));
    for line in finding.failure.message.lines() {
        let _ = write!(out, "\n            {line}");
    }
    if let Some(model) = finding.recording.crash_model {
        let _ = write!(out, "\n            {}", about_model(model));
    }
    out
}

pub(super) fn replay(report: &Report, finding: &Finding, saved: &Saved) -> String {
    format!("  Replay     {}", replay_line(report, finding, saved))
}

/// The second part of a report: how the violation came about.
pub(super) fn body(report: &Report, finding: &Finding) -> String {
    let mut out = format!("\n            {}\n", sizes(finding));
    if let Some(declared) = report.expected.declared.get(finding.failure.cause.name()) {
        let _ = writeln!(out, "  Declared   {}", declared.place);
    }
    out.push('\n');
    match attempt("the picture", || Ok(finding.picture())) {
        Ok(picture) if picture.is_empty() => {}
        Ok(picture) => {
            let _ = writeln!(out, "{picture}");
        }
        Err(problem) => {
            let _ = writeln!(out, "    ! problem    {problem}");
        }
    }
    for (name, state) in &finding.recording.monitors {
        let _ = writeln!(out, "  Monitor    {name}: {state}");
    }
    for problem in &finding.recording.problems {
        let _ = writeln!(out, "    ! problem    {problem}");
    }
    doubts(&mut out, report);
    goals(&mut out, report);
    problems(&mut out, report);
    out.truncate(out.trim_end().len());
    out
}

/// The last part of a report: where the finding is kept, and how it was found.
pub(super) fn foot(report: &Report, saved: &Saved, kept: &Option<Kept>) -> String {
    let mut out = String::new();
    let files = [("Trace", &saved.trace), ("Report", &saved.page)];
    for (name, file) in files {
        if let Some(file) = file {
            let _ = writeln!(out, "  {name:<9}  {}", file.display());
        }
    }
    traces(&mut out, report);
    for problem in &saved.problems {
        let _ = writeln!(out, "  Not saved  {problem}");
    }
    let _ = match kept {
        Some(Ok(file)) => writeln!(
            out,
            "  Keep       {}: commit it, this schedule runs first from now on",
            file.display()
        ),
        Some(Err(problem)) => writeln!(out, "  Not kept   {problem}"),
        None => Ok(()),
    };
    let _ = write!(out, "\n{}", summary(report));
    out
}

/// The remedy for a search that was compiled without optimisation.
pub(super) fn unoptimised() -> String {
    let mut out = "    ! slow build this was compiled without optimisation, which makes exploring about ten times \
                   slower; put into the workspace's Cargo.toml:"
        .to_owned();
    for line in FASTER_TESTS.lines() {
        let _ = write!(out, "\n                   {line}");
    }
    out
}

/// The text of the panic: short, because test runners cut long ones off.
pub(super) fn last_words(report: &Report, finding: &Finding, saved: &Saved) -> String {
    let message = finding.failure.message.lines().next().unwrap_or_default();
    let colon = if message.is_empty() { "" } else { ": " };
    let page = saved.page.as_ref().map(|page| format!("\n  report: {}", page.display()));
    format!(
        "{} violated{colon}{message}\n  replay: {}{}",
        finding.failure.cause,
        replay_line(report, finding, saved),
        page.unwrap_or_default()
    )
}

pub(super) fn origin(report: &Report, finding: &Finding) -> String {
    match finding.origin.execution {
        Some(number) => format!(
            "execution {} ({}), seed {:#x}",
            thousands(number),
            finding.origin.search,
            report.seed
        ),
        None => finding.origin.search.clone(),
    }
}

/// The origin of a finding, in a form that stays true: without wall time.
pub(crate) fn story(report: &Report, finding: &Finding) -> String {
    let found = origin(report, finding);
    match finding.shrunk.tries {
        0 => found,
        tries => format!("{found}, {} ({})", shrunk(finding), tried(tries)),
    }
}

/// The extent to which the schedule was shrunk.
fn shrunk(finding: &Finding) -> String {
    let (before, after) = (&finding.original, &finding.schedule);
    let faults = match (before.faults(), after.faults()) {
        (0, 0) => String::new(),
        (before, after) => format!(", {before} → {}", count(after as u64, "fault")),
    };
    let (before, after) = (before.steps() as u64, after.steps() as u64);
    format!("shrunk {} → {}{faults}", thousands(before), count(after, "step"))
}

pub(super) fn sizes(finding: &Finding) -> String {
    if finding.shrunk.tries == 0 {
        let (steps, faults) = (finding.schedule.steps(), finding.schedule.faults());
        return format!("{}, {}", count(steps as u64, "step"), count(faults as u64, "fault"));
    }
    let time = finding.shrunk.time.as_secs_f64();
    let end = match finding.shrunk.cut_short {
        None => "",
        Some(ShrinkBound::Steps) => "; cut short by the bound on its steps",
        Some(ShrinkBound::Time) => "; the time for shrinking ran out",
    };
    format!(
        "{} ({}, {time:.2} s{end}); replayed twice, same result",
        shrunk(finding),
        tried(finding.shrunk.tries),
    )
}

/// "1 try", "2 tries".
fn tried(tries: u32) -> String {
    let noun = if tries == 1 { "try" } else { "tries" };
    format!("{} {noun}", thousands(u64::from(tries)))
}

pub(super) fn replay_line(report: &Report, finding: &Finding, saved: &Saved) -> String {
    if !finding.has_schedule() {
        return search_again(report);
    }
    let token = finding.schedule.token();
    let what = match &saved.schedule {
        Some(file) if token.len() > TOKEN_MAX => file.display().to_string(),
        _ => token,
    };
    match report.test.test_name() {
        Some(name) => format!("EVERHOLD_REPLAY={what} cargo test {name} -- --exact"),
        None => format!("EVERHOLD_REPLAY={what}"),
    }
}

/// The command that leads back to an execution without a schedule, which could not be replayed
/// alone.
fn search_again(report: &Report) -> String {
    let test = report.test.test_name().map(|name| format!(" cargo test {name} -- --exact"));
    format!("EVERHOLD_SEED={}{} (the whole search)", report.seed, test.unwrap_or_default())
}

/// The report of a run without findings: its extent, and how much that proves.
pub(super) fn clean(report: &Report) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}", summary(report));
    let coverage = &report.coverage;
    if report.exhaustive.is_none() && coverage.orders.added() > 0 {
        let _ = writeln!(
            out,
            "    orders       {}{} distinct; chance that the next execution is a new one: {:.0} %",
            about(coverage.orders.is_estimate()),
            thousands(coverage.orders.distinct()),
            coverage.orders.unseen() * 100.0
        );
    }
    if coverage.sampled > 0 {
        sampled(&mut out, report);
    }
    if let Some(progress) = &report.exhaustive {
        let _ = writeln!(out, "    exhaustive   {progress}");
    }
    faults(&mut out, report);
    ends(&mut out, report);
    doubts(&mut out, report);
    goals(&mut out, report);
    if report.rechecked > 0 {
        let _ = writeln!(
            out,
            "    determinism  {} run twice, identical",
            count(report.rechecked, "execution")
        );
    }
    for untested in report.untested() {
        if !matches!(untested, Untested::Goal(_)) {
            let _ = writeln!(out, "    ! untested   {untested}");
        }
    }
    problems(&mut out, report);
    traces(&mut out, report);
    out.truncate(out.trim_end().len());
    out
}

/// The executions that did not end by themselves, by the way in which they ended.
fn ends(out: &mut String, report: &Report) {
    if report.settled > 0 {
        let _ = writeln!(
            out,
            "    settled      {} ended when every timer had ticked 64 times without a consequence",
            count(report.settled, "execution")
        );
    }
    if report.bounded > 0 {
        let _ = writeln!(
            out,
            "    cut off      {} by the bound of {}{}{}: later steps were not seen",
            count(report.bounded, "execution"),
            count(u64::from(report.steps_max), "step"),
            if report.grew { " (it grew with the system)" } else { "" },
            if report.exhaustive.is_some() { "" } else { ", idle ticks not counted" }
        );
    }
    if report.refused > 0 {
        let _ = writeln!(
            out,
            "    no room      {} found a channel or a mailbox full",
            count(report.refused, "message")
        );
    }
    if report.unjudged > 0 {
        let _ = writeln!(
            out,
            "    ! not judged progress was still owed at the end of {}: {}",
            count(report.unjudged, "execution"),
            if report.exhaustive.is_some() {
                "they were cut off by the bound on steps; raise it, or use the default search"
            } else {
                "no state came again, and the longest timer takes too long compared with the others; \
                 raise `temperature_max`, or set timers of similar lengths"
            }
        );
    }
}

/// The executions that could not be judged, and those that took long.
fn doubts(out: &mut String, report: &Report) {
    if let Some(bound) = &report.undecided_bound {
        let _ = writeln!(
            out,
            "    ! not judged {} ended at the bound of a checker: {bound}",
            count(report.undecided, "execution")
        );
    }
    if report.slow > 0 {
        let _ = writeln!(
            out,
            "    slow         {} had a handler that took longer than the patience, and returned",
            count(report.slow, "execution")
        );
    }
}

fn sampled(out: &mut String, report: &Report) {
    let coverage = &report.coverage;
    let unseen = coverage.unseen_pairs();
    let _ = writeln!(
        out,
        "    states       {}{} distinct in {} that were examined closely",
        about(coverage.states.is_estimate()),
        thousands(coverage.states.distinct()),
        count(coverage.sampled, "execution")
    );
    let all = coverage.pairs.len() + unseen.len();
    let _ = writeln!(
        out,
        "    coverage     {} of {all} pairs of a node's phase and a message",
        coverage.pairs.len()
    );
    if !unseen.is_empty() {
        let show = |(kind, phase, message): &(String, String, String)| {
            format!("{message} at {kind} ({phase})")
        };
        let first: Vec<String> = unseen.iter().take(3).map(show).collect();
        let more = unseen.len().saturating_sub(3);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let _ = writeln!(out, "    not seen     {}{more}", first.join(", "));
    }
}

fn faults(out: &mut String, report: &Report) {
    let counts = FaultKind::ALL.into_iter().zip(report.coverage.faults);
    let injected: Vec<String> = counts
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| format!("{} {}", kind.name(), thousands(count)))
        .collect();
    if !injected.is_empty() {
        let _ = writeln!(out, "    faults       {}", injected.join(", "));
    }
}

fn goals(out: &mut String, report: &Report) {
    if report.executions <= 1 {
        return;
    }
    for goal in &report.goals {
        let _ = match goal.reached {
            0 => writeln!(
                out,
                "    ! goal       \"{}\" was never reached: is the test too short, or the goal impossible?",
                goal.name
            ),
            _ if report.exhaustive.is_some() => {
                writeln!(out, "    goal         \"{}\" reached", goal.name)
            }
            reached => writeln!(
                out,
                "    goal         \"{}\" reached in {}",
                goal.name,
                count(reached, "execution")
            ),
        };
    }
}

fn traces(out: &mut String, report: &Report) {
    if let Some(file) = &report.traces_file {
        let kept = count(report.traces.len() as u64, "execution");
        let _ = writeln!(out, "    traces       {kept}: everhold infer {}", file.display());
    }
}

fn problems(out: &mut String, report: &Report) {
    for problem in &report.problems {
        let _ = writeln!(out, "    ! problem    {problem}");
    }
}

pub(super) fn summary(report: &Report) -> String {
    let seconds = report.time.as_secs_f64();
    let rate = if seconds > 0.0 { report.executions as f64 / seconds } else { 0.0 };
    let found = match report.findings.len() {
        0 => "✓ no violation".to_owned(),
        1 => "1 violation".to_owned(),
        many => format!("{many} violations"),
    };
    let stop = match &report.stop {
        Stop::Exhausted => "every execution within the bounds was run".to_owned(),
        Stop::Executions(_) => "stopped by the budget of executions: not a proof".to_owned(),
        Stop::Time(time) => format!("stopped by the budget of {time:?}: not a proof"),
        Stop::Steps(steps) => {
            format!("every execution was run, but only up to {}", count(u64::from(*steps), "step"))
        }
        Stop::Interrupted => "interrupted".to_owned(),
        Stop::Found => "stopped at the finding".to_owned(),
        Stop::Replayed { skipped: None } => "replayed one schedule".to_owned(),
        Stop::Undecided { bound } => format!("an execution could not be judged: {bound}"),
        Stop::PartlySplit => {
            "every execution was run, but of so many nodes partitions cut off only one at a time"
                .to_owned()
        }
        Stop::Unjudged { property } => format!(
            "every execution was run, but whether \"{property}\" may stay owed for ever was not decided"
        ),
        Stop::Stalled { execution } => format!(
            "execution {execution} has not returned from a handler in the search, but did when it was \
             run again alone; is there a lock or another thread that it waits for?"
        ),
        Stop::Diverged { place } => format!("the replay diverged from the recording: {place}"),
        Stop::Replayed { skipped: Some(choice) } => {
            format!("replayed a schedule that no longer fits: {choice} cannot happen")
        }
    };
    format!(
        "{found} · {} · {} ({}) · {} · {seconds:.2} s ({}/s) · {stop}",
        report.name(),
        count(report.executions, "execution"),
        report.search,
        count(report.steps, "step"),
        thousands(rate as u64),
    )
}

fn about(estimate: bool) -> &'static str {
    if estimate { "about " } else { "" }
}

/// "1 execution", "2,000 executions".
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", thousands(number), if number == 1 { "" } else { "s" })
}

/// Explains the meaning of the weakest crash model for the failure.
fn about_model(model: CrashModel) -> &'static str {
    match model {
        CrashModel::Kill => "it fails already when only the process is killed (CrashModel::Kill)",
        CrashModel::Ext4 => {
            "it fails when the machine loses power, under a file system such as ext4 \
             (CrashModel::Ext4), not when only the process is killed"
        }
        CrashModel::Any => {
            "it fails where a file system reorders anything (CrashModel::Any), not under ext4"
        }
    }
}

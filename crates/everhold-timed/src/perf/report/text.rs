//! The report as text.

mod draw;

use std::fmt::Write;

use everhold_trace::text::thousands;

use super::saved::Saved;
use super::{PerfReport, SlowFinding};
use crate::Recorded;
use crate::perf::cause::{Rescue, Shift};
use crate::perf::detect::{Detection, Fired};
use crate::perf::judge::Why;
use crate::perf::lab::{CutShort, seconds};
use crate::perf::path::Path;
use crate::perf::story;
use crate::perf::verdict::PerfVerdict;
use draw::{histogram, strip};

pub(super) use draw::{percent, span};

/// The whole report.
pub(super) fn report(report: &PerfReport, saved: &Saved) -> String {
    let mut out = String::new();
    for finding in &report.findings {
        write_finding(&mut out, report, finding);
    }
    if let Some(replayed) = &report.replayed {
        let _ = writeln!(out, "replayed    {}", replayed.slow.run);
        path(&mut out, &replayed.path, &replayed.slow);
    }
    if let Some(never) = &report.never {
        let _ = writeln!(out, "? UNKNOWN   no execution reached the stopping condition: {never}\n");
    }
    if let Some(mace) = &report.mace {
        draw::mace(&mut out, mace, &|token| replay(report, token));
    }
    distribution(&mut out, report);
    search(&mut out, report);
    correlations(&mut out, report);
    what_if(&mut out, report);
    for problem in &report.problems {
        let _ = writeln!(out, "    ! problem    {problem}");
    }
    let _ = write!(out, "{saved}{}", summary(report));
    out
}

/// Returns the short message with which a test must fail, if it must.
pub(super) fn last_words(report: &PerfReport, saved: &Saved) -> Option<String> {
    if let Some(never) = &report.never {
        return Some(format!("no execution reached the stopping condition: {never}"));
    }
    if report.interrupted() {
        return Some(format!("interrupted after {} executions", report.executions));
    }
    let finding = report.findings.first()?;
    let because = because(finding).unwrap_or_else(|| headline(report, finding));
    let page = saved.page.as_ref().map(|page| format!("\n  report: {}", page.display()));
    Some(format!(
        "slow execution {}: {because}\n  replay: {}{}",
        finding.id(),
        replay(report, &finding.token()),
        page.unwrap_or_default()
    ))
}

/// Returns the most informative reason, as a sentence.
pub(super) fn because(finding: &SlowFinding) -> Option<String> {
    let rescue = finding.causes.rescues.first()?;
    Some(sentence(finding.time, rescue))
}

fn sentence(slow: f64, rescue: &Rescue) -> String {
    let (time, by) = (span(rescue.time), span(rescue.by));
    let instead = format!("{} instead of {time}", span(slow));
    match (&rescue.swapped, rescue.shift) {
        (Some((first, second)), Shift::Later) if *first == rescue.message => format!(
            "{instead} because {second} arrived after {first}; delaying the latter by {by} or more removes it"
        ),
        (Some((first, second)), Shift::Earlier) if *second == rescue.message => {
            format!("{instead} because {second} arrived after {first}; {by} earlier removes it")
        }
        (Some((first, second)), shift) => {
            let way = if shift == Shift::Later { "later" } else { "earlier" };
            let message = &rescue.message;
            format!(
                "{instead} because {second} arrived after {first}; {message} {by} {way} removes it"
            )
        }
        (None, Shift::Later) => {
            format!("{instead}; delaying {} by {by} or more removes it", rescue.message)
        }
        (None, Shift::Earlier) => {
            format!("{instead}; {} {by} earlier removes it", rescue.message)
        }
    }
}

/// Describes the slowness and its size.
pub(super) fn headline(report: &PerfReport, finding: &SlowFinding) -> String {
    let slow = span(finding.time);
    if let (Some(growth), Some(wait)) = (&finding.growth, &finding.wait) {
        return format!(
            "{slow}, as usual: {} rounds of timer {} ({}), one after the other; with {} nodes, {:.0}: \
             the number grows with the nodes (power {:.1})",
            wait.rounds,
            wait.short_name(),
            span(seconds(wait.longest)),
            growth.nodes.0,
            growth.rounds.0,
            growth.power
        );
    }
    let normal = report.detection.normal.filter(|_| !report.detection.common_path());
    let normal = normal.map_or_else(
        || "(as most are)".to_owned(),
        |mode| format!("instead of {}", span(mode.median)),
    );
    let what = match (&finding.signature.why, &finding.wait) {
        (Why::Unfinished, _) => ", without reaching the stopping condition".to_owned(),
        (_, Some(wait)) if wait.waited > 0 => format!(
            ": waits {} for timer {} ({})",
            span(seconds(wait.waited)),
            wait.short_name(),
            rounds(wait.rounds, wait.longest),
        ),
        _ => String::new(),
    };
    format!("{slow} {normal}{what}")
}

fn rounds(rounds: u32, period: u64) -> String {
    format!("{rounds} × {}", span(seconds(period)))
}

fn write_finding(out: &mut String, report: &PerfReport, finding: &SlowFinding) {
    let how = finding.how.word();
    let _ = writeln!(
        out,
        "✗ SLOW      {}    ({how}, seed {:#x})",
        headline(report, finding),
        report.seed
    );
    if let Some(because) = because(finding) {
        let _ = writeln!(out, "            {because}");
    }
    let _ = writeln!(out);
    divergence(out, finding);
    causes(out, finding);
    path(out, &finding.path, &finding.slow);
    let _ = writeln!(out, "  Replay     {}", replay(report, &finding.token()));
    if let Some(nearest) = &finding.nearest {
        let time = span(nearest.recorded.run.time.as_secs_f64());
        let _ =
            writeln!(out, "  Fast       {} ({time}, the nearest)", replay(report, &nearest.token));
    }
    let _ = writeln!(out);
}

fn divergence(out: &mut String, finding: &SlowFinding) {
    let (curve, slow) = (&finding.curve, &finding.slow);
    if curve.points.is_empty() {
        return;
    }
    let _ = writeln!(out, "  P(good)    {}", strip(curve, slow));
    if curve.lost_from_the_start() && curve.falls.is_empty() {
        let _ = writeln!(
            out,
            "             low from the first event on: no event is decisive, the common path is slow"
        );
    }
    for fall in curve.falls.iter().take(3) {
        let at = slow.events.get(fall.event).map_or(0.0, |event| seconds(event.start.0));
        let until =
            if fall.until > fall.event { format!("–{}", fall.until) } else { String::new() };
        let (low, high) = fall.after.band();
        let _ = writeln!(
            out,
            "             falls from {:.2} to {:.2} ({low:.2}–{high:.2}) at event {}{until} of {}, {}: {}",
            fall.before.rate(),
            fall.after.rate(),
            fall.event,
            slow.events.len(),
            span(at),
            story::event(slow, fall.event as u32),
        );
    }
}

fn causes(out: &mut String, finding: &SlowFinding) {
    let causes = &finding.causes;
    if causes.tried == 0 {
        return;
    }
    let _ = writeln!(
        out,
        "  Cause      {} of {} messages, each changed alone, bring it below {}",
        causes.rescuing,
        thousands(causes.tried as u64),
        span(causes.limit)
    );
    for rescue in &causes.rescues {
        let way = match rescue.shift {
            Shift::Later => "later",
            Shift::Earlier => "earlier",
        };
        let _ = writeln!(
            out,
            "             {} {} {way}: {}; still with other draws after it: {} of {}",
            rescue.message,
            span(rescue.by),
            span(rescue.time),
            rescue.robust.hits,
            rescue.robust.tries,
        );
    }
    if causes.rescuing > 3 * causes.rescues.len() {
        let kinds: Vec<String> =
            causes.kinds.iter().take(4).map(|(kind, count)| format!("{kind} {count}")).collect();
        let _ = writeln!(
            out,
            "             by kind: {}; with so many, some are due to chance",
            kinds.join(", ")
        );
    }
}

fn path(out: &mut String, path: &Path, recorded: &Recorded) {
    let spent = spent(path);
    if spent.is_empty() {
        return;
    }
    let _ = writeln!(out, "  Path       {spent}");
    let messages = path.messages(recorded);
    let named: Vec<String> =
        messages.iter().take(6).map(|(kind, count)| format!("{kind} {count}")).collect();
    if !named.is_empty() {
        let _ = writeln!(out, "             via {}", named.join(", "));
    }
}

/// Describes the uses of a path's time, the largest first.
pub(super) fn spent(path: &Path) -> String {
    let shares = path.shares();
    let shares = shares.iter().map(|(name, share)| format!("{name} {}", percent(*share)));
    shares.collect::<Vec<_>>().join(", ")
}

fn distribution(out: &mut String, report: &PerfReport) {
    let found = &report.detection;
    if found.times.is_empty() {
        return;
    }
    let at = |q: f64| span(found.times.quantile(q));
    let _ = writeln!(
        out,
        "    times        p50 {}, p90 {}, p99 {}, most {}",
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
    let _ = write!(out, "{}", histogram(found));
    let _ = writeln!(out, "    limit        {}", slow_share(found));
    if let Some(fit) = &found.multiples {
        let _ = writeln!(
            out,
            "    timer        {} ({}): {} of {} slow executions end just after a multiple",
            fit.timer.name,
            span(fit.timer.period),
            fit.hits,
            fit.slow
        );
    }
    if !found.fired.is_empty() {
        let fired: Vec<&str> = found.fired.iter().map(|test| word(*test)).collect();
        let _ = writeln!(out, "    tests        {}", fired.join(", "));
    }
    let _ = writeln!(
        out,
        "    MacePC       would flag {} (beyond {})",
        percent(found.mace.1),
        span(found.mace.0)
    );
    chance(out, report, found);
}

/// Describes the bound beyond which an execution is slow, and the share of slow executions.
pub(super) fn slow_share(found: &Detection) -> String {
    format!("{} is slow; {} beyond it", span(found.slow_limit), percent(found.slow_share))
}

fn chance(out: &mut String, report: &PerfReport, found: &Detection) {
    if report.findings.is_empty()
        && found.outliers > 0
        && report.never.is_none()
        && report.mace.is_none()
    {
        let _ = writeln!(
            out,
            "    by chance    the slowest executions wait for timers no longer than others do: a long tail, not a finding"
        );
    }
    if let Some(last) = report.survival.last().filter(|last| last.chance > 0.0) {
        let _ = writeln!(
            out,
            "    chance       beyond {}: about {:.1e} (splitting)",
            span(last.beyond),
            last.chance
        );
    }
}

fn word(fired: Fired) -> &'static str {
    match fired {
        Fired::Gap => "a gap between modes",
        Fired::Dip => "more than one mode (dip)",
        Fired::Multiples => "multiples of a timer",
        Fired::CommonPath => "even normal executions wait for a timer",
        Fired::Tail => "a long tail",
        Fired::Unfinished => "executions that did not finish",
    }
}

fn search(out: &mut String, report: &PerfReport) {
    let sought: Vec<String> = report
        .tally
        .iter()
        .map(|t| {
            format!("{} {} ({} slow, most {})", t.how.word(), t.executions, t.slow, span(t.slowest))
        })
        .collect();
    if !sought.is_empty() {
        let _ = writeln!(out, "    searched     {}", sought.join(", "));
    }
    if report.more_findings > 0 {
        let _ = writeln!(
            out,
            "    more         signatures without an explanation: {}",
            report.more_findings
        );
    }
}

fn correlations(out: &mut String, report: &PerfReport) {
    let shown: Vec<String> =
        report.correlations.iter().take(3).map(|c| format!("{} ({:+.2})", c.what, c.r)).collect();
    if !shown.is_empty() {
        let _ = writeln!(out, "    correlated   {}", shown.join(", "));
    }
}

fn what_if(out: &mut String, report: &PerfReport) {
    for answer in &report.what_if {
        let c = &answer.comparison;
        let _ = writeln!(
            out,
            "    what if      {}: median {} → {} ({} of {} slower, {} faster, p {:.3})",
            answer.change,
            span(answer.before),
            span(answer.after),
            c.slower,
            c.pairs,
            c.faster,
            c.p_value
        );
    }
}

/// Returns the command that replays an execution.
pub(super) fn replay(report: &PerfReport, token: &str) -> String {
    let environment = &report.environment;
    match (&report.replay_with, report.test.test_name()) {
        (Some(command), _) => format!("{environment}{command} {token}"),
        (None, Some(name)) => {
            format!("{environment}EVERHOLD_REPLAY={token} cargo test {name} -- --exact")
        }
        (None, None) => format!("{environment}EVERHOLD_REPLAY={token}"),
    }
}

/// Describes the confidence that few executions are slow.
pub(super) fn sure(report: &PerfReport) -> String {
    let share = percent(report.unseen_share());
    format!("with 95 % confidence fewer than {share} of executions are slow (Clopper-Pearson)")
}

/// Returns the last line of the report.
pub(super) fn summary(report: &PerfReport) -> String {
    let wall = report.time.as_secs_f64();
    let rate = if wall > 0.0 { report.events as f64 / wall } else { 0.0 };
    let found = match (report.verdict(), report.findings.len()) {
        (PerfVerdict::Unknown, _) if report.replayed.is_some() => {
            "replayed one execution, which is not slow".to_owned()
        }
        (PerfVerdict::NoneSlow, _) => "✓ no slow execution found".to_owned(),
        (PerfVerdict::Slow, 0) => "1 anomalous execution".to_owned(),
        (_, 0) => "? no slow execution found, but the sample allows no conclusion".to_owned(),
        (_, 1) => "1 kind of slow execution".to_owned(),
        (_, many) => format!("{many} kinds of slow execution"),
    };
    let stop = match report.cut_short {
        Some(CutShort::Interrupted) => "interrupted: the report is partial".to_owned(),
        Some(CutShort::Time) => "out of time: the report is partial".to_owned(),
        None if report.replayed.is_some() || !report.findings.is_empty() => {
            "slow by comparison with the executions that were drawn".to_owned()
        }
        None => sure(report),
    };
    let nodes = match report.nodes.len() {
        // An interruption can come before the first execution.
        0 => String::new(),
        1 => " of 1 node".to_owned(),
        many => format!(" of {many} nodes"),
    };
    format!(
        "{found} · {} · {} executions{nodes} · {} events · {} simulated in {wall:.2} s ({} events/s) · {stop}",
        report.name(),
        thousands(report.executions),
        thousands(report.events),
        span(report.simulated.as_secs_f64()),
        thousands(rate as u64),
    )
}

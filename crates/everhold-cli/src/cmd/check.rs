//! `everhold check`: properties judged on recorded executions.
//!
//! - `rules`: the properties, and the errors in them.
//! - `keyed`: rules about every key, and excerpts of executions.
//! - `orders`: the extent to which the verdict covers all orders of the events.
//! - `why`: the reasons for an unknown verdict.
//! - `text`, `json`, `ci`: the report.

mod ci;
mod json;
mod keyed;
mod orders;
mod rules;
mod text;
mod why;

use std::io::{self, Write};

use anyhow::Result;
use everhold_property::{ExecutionOutcome, Limits, Modality, Rule, Untested, Verdict};
use everhold_trace::{Execution, Order};

use crate::args::{CheckArgs, Color, OrderWord};
use crate::exit::{BadInput, Code};
use crate::input::{self, Given};
use crate::paint::Paint;
use crate::plain::{Painted, PlainJson};
use crate::progress::Progress;
use keyed::{How, Verdicts};
pub(crate) use rules::{Rules, observe};

pub(crate) fn run(args: &CheckArgs, color: Color) -> Result<Code> {
    let inputs = input::read(&args.traces, &args.input)?;
    let rules = Rules::read(&args.rules, &args.define, &inputs.given);
    let mut out = io::stdout().lock();
    let rules = match rules {
        Ok(rules) => rules,
        Err(wrong) => {
            if args.json {
                wrong.json(&mut PlainJson(&mut out))?;
            }
            return Err(BadInput::all(wrong.errors().into_iter().chain(inputs.errors)).into());
        }
    };
    let limits = Limits { cases_max: args.cases_max };
    let recorded = args.order == OrderWord::Recorded;
    let report = judge(&rules, &inputs.given, How { limits, recorded }, &mut |judgement, told| {
        if args.json {
            json::write(judgement, told, &mut PlainJson(&mut out))?;
        } else {
            text::write(judgement, told, Paint::new(color), &mut Painted(&mut out))?;
        }
        out.flush()
    })?;
    if args.json {
        json::write_end(&report, &inputs.errors, &mut PlainJson(&mut out))?;
    } else {
        text::write_end(&report, &mut Painted(&mut out))?;
    }
    out.flush()?;
    if let Some(path) = &args.junit {
        ci::junit(&report, path)?;
    }
    ci::step_summary(&report)?;
    if !inputs.errors.is_empty() {
        return Err(BadInput::all(inputs.errors).into());
    }
    if !args.json {
        text::next(&report, args);
    }
    Ok(report.code())
}

/// One run of one input.
#[derive(Clone, Copy, Debug)]
struct Run<'a> {
    given: &'a Given,
    execution: &'a Execution,
    /// The index of the run in the input, from 0.
    place: usize,
}

impl Run<'_> {
    /// The name of the file, followed by that of the run if the file has several.
    fn name(&self) -> String {
        let file = &self.given.name;
        match (self.execution.name(), self.given.executions.len()) {
            (_, 1) => file.clone(),
            ("", _) => format!("{file}, run {}", self.place + 1),
            (name, _) => format!("{file}, run {} `{name}`", self.place + 1),
        }
    }
}

/// The result of one property on one run.
#[derive(Debug)]
struct Judged<'a> {
    run: Run<'a>,
    outcome: ExecutionOutcome,
    /// Why it holds without having been put to the test.
    untested: Option<Untested>,
    /// Why it was not judged.
    lack: Option<String>,
}

impl Judged<'_> {
    /// Why the outcome is unknown.
    fn why(&self, rule: &Rule) -> String {
        let lack = self.lack.clone();
        lack.unwrap_or_else(|| why::unknown(rule, self.run.execution, &self.outcome))
    }
}

/// The results of one property on all runs.
#[derive(Debug)]
struct Judgement<'a> {
    rule: &'a Rule,
    runs: Vec<Judged<'a>>,
}

/// When a judgement is told. What was found is told before the next run is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// One more run was judged.
    Run {
        /// Whether it is the first one that violates the property.
        violates_first: bool,
    },
    /// All runs were judged.
    All,
}

impl Judgement<'_> {
    /// Whether one run violates a claim that must hold in every run.
    fn is_violated(&self) -> bool {
        self.rule.property().modality != Modality::Sometimes
            && self.runs.iter().any(|judged| judged.outcome.verdict == Verdict::Violated)
    }

    /// The combined verdict. A `sometimes` is reached if one run reaches it; any other claim must
    /// hold in every run.
    fn verdict(&self) -> Verdict {
        let verdicts = self.runs.iter().map(|judged| judged.outcome.verdict);
        let all = match self.rule.property().modality {
            Modality::Sometimes => verdicts.max(),
            _ => verdicts.min(),
        };
        all.unwrap_or(Verdict::Unknown)
    }

    /// Why the property holds although no run put it to the test.
    fn untested(&self) -> Option<&Untested> {
        let all = self.runs.iter().all(|judged| judged.untested.is_some());
        let first = self.runs.first().filter(|_| all && self.verdict() == Verdict::Holds)?;
        first.untested.as_ref()
    }
}

#[derive(Debug)]
struct Report<'a> {
    runs: Vec<Run<'a>>,
    judgements: Vec<Judgement<'a>>,
}

impl Report<'_> {
    fn verdict(&self) -> Verdict {
        self.judgements.iter().map(Judgement::verdict).min().unwrap_or(Verdict::Unknown)
    }

    fn untested(&self) -> usize {
        self.judgements.iter().filter(|judgement| judgement.untested().is_some()).count()
    }

    fn code(&self) -> Code {
        match self.verdict() {
            Verdict::Holds if self.untested() > 0 => Code::Untested,
            verdict => verdict.into(),
        }
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.judgements.iter().filter(|judgement| judgement.verdict() == verdict).count()
    }
}

/// Judges all properties on all runs. Each result is told when it is reached, so that the first
/// violation need not wait for the last run.
fn judge<'a>(
    rules: &'a Rules,
    given: &'a [Given],
    how: How,
    tell: &mut dyn FnMut(&Judgement<'a>, Told) -> io::Result<()>,
) -> io::Result<Report<'a>> {
    let runs: Vec<Run<'a>> = given
        .iter()
        .flat_map(|given| {
            let run = move |(place, execution)| Run { given, execution, place };
            given.executions.iter().enumerate().map(run)
        })
        .collect();
    let empty = |rule: &'a Rule| Judgement { rule, runs: Vec::new() };
    let mut judgements: Vec<Judgement<'a>> = rules.rules.iter().map(empty).collect();
    let progress = Progress::new("checking");
    for (at, run) in runs.iter().enumerate() {
        // The order of a run serves all properties. It can be large, so only one order is kept at a
        // time.
        let order = Order::of(run.execution);
        for (judgement, keyed) in judgements.iter_mut().zip(&rules.keyed) {
            let rule = judgement.rule;
            progress.set(format!("checking \"{}\" on {}", rule.property().name, run.name()));
            let was_violated = judgement.is_violated();
            let Verdicts { outcome, lack, untested } =
                how.judge(rule, keyed.as_ref(), run.execution, &order);
            judgement.runs.push(Judged { run: *run, outcome, untested, lack });
            progress.pause();
            let violates_first = !was_violated && judgement.is_violated();
            tell(judgement, Told::Run { violates_first })?;
            if at + 1 == runs.len() {
                tell(judgement, Told::All)?;
            }
        }
    }
    if runs.is_empty() {
        judgements.iter().try_for_each(|judgement| tell(judgement, Told::All))?;
    }
    Ok(Report { runs, judgements })
}

impl From<Verdict> for Code {
    fn from(verdict: Verdict) -> Code {
        match verdict {
            Verdict::Holds => Code::Holds,
            Verdict::Violated => Code::Violated,
            Verdict::Unknown => Code::Unknown,
        }
    }
}

//! `everhold check`: properties judged on recorded executions.
//!
//! - `rules`: the properties, and everything that is wrong with them.
//! - `orders`: what the judged states say of all orders.
//! - `why`: what an unknown verdict lacks.
//! - `text`, `json`, `ci`: the report.

mod ci;
mod json;
mod orders;
mod rules;
mod text;
mod why;

use std::io::{self, Write};

use anyhow::Result;
use everhold_property::{ExecutionOutcome, Limits, Modality, Rule, Verdict, check_ordered};
use everhold_trace::{Execution, Order};

use crate::args::{CheckArgs, Color};
use crate::exit::{BadInput, Code};
use crate::input::{self, Given};
use crate::paint::Paint;
use crate::plain::{Painted, PlainJson};
use crate::progress::Progress;
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
    let report = judge(&rules, &inputs.given, Limits { cases_max: args.cases_max });
    if args.json {
        json::write(&report, &inputs.errors, &mut PlainJson(&mut out))?;
    } else {
        text::write(&report, Paint::new(color), &mut Painted(&mut out))?;
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
    Ok(report.verdict().into())
}

/// One run of one input.
#[derive(Clone, Copy, Debug)]
struct Run<'a> {
    given: &'a Given,
    execution: &'a Execution,
    /// Its place in the input, from 0.
    place: usize,
}

impl Run<'_> {
    /// The file, and the run where a file has several.
    fn name(&self) -> String {
        let file = &self.given.name;
        match (self.execution.name(), self.given.executions.len()) {
            (_, 1) => file.clone(),
            ("", _) => format!("{file}, run {}", self.place + 1),
            (name, _) => format!("{file}, run {} `{name}`", self.place + 1),
        }
    }
}

/// What one run shows of one property.
#[derive(Debug)]
struct Judged<'a> {
    run: Run<'a>,
    outcome: ExecutionOutcome,
}

/// What all runs show of one property.
#[derive(Debug)]
struct Judgement<'a> {
    rule: &'a Rule,
    runs: Vec<Judged<'a>>,
}

impl Judgement<'_> {
    /// A goal is reached if one run reaches it; any other claim must hold in all of them.
    fn verdict(&self) -> Verdict {
        let verdicts = self.runs.iter().map(|judged| judged.outcome.verdict);
        let all = match self.rule.property().modality {
            Modality::Sometimes => verdicts.max(),
            _ => verdicts.min(),
        };
        all.unwrap_or(Verdict::Unknown)
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

    fn count(&self, verdict: Verdict) -> usize {
        self.judgements.iter().filter(|judgement| judgement.verdict() == verdict).count()
    }
}

fn judge<'a>(rules: &'a Rules, given: &'a [Given], limits: Limits) -> Report<'a> {
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
    for run in &runs {
        // The order of a run serves all properties; it can be large, so one at a time is kept.
        let order = Order::of(run.execution);
        for judgement in &mut judgements {
            let rule = judgement.rule;
            progress.set(format!("checking \"{}\" on {}", rule.property().name, run.name()));
            let outcome = check_ordered(rule, run.execution, &order, limits);
            judgement.runs.push(Judged { run: *run, outcome });
        }
    }
    Report { runs, judgements }
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

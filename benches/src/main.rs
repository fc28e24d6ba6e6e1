//! Measured comparisons with other tools, and the bars that Everhold must meet.
//!
//! `cargo run --release --manifest-path benches/Cargo.toml -- explore --check` measures the area
//! `explore` and fails if a bar is missed. Each area is one file with a function from
//! [`Options`] to a [`Scorecard`]; to add one, add a line to [`AREAS`].

mod bugs;
mod build;
mod cuts;
mod explore;
mod faults;
mod hosts;
mod infer;
mod instrument;
mod liveness;
mod measure;
mod papers;
mod process;
mod quality;
mod shrink;
mod table;
mod timed;
mod watch;

use std::process::ExitCode;

use explore::memory;
use measure::{Scorecard, Size};

/// An area: its name, a description, and its function.
type Area = (&'static str, &'static str, fn(&Options) -> Scorecard);

const AREAS: [Area; 14] = [
    ("explore", "systematic testing: speed, flatness, exhaustive search, memory", explore::run),
    ("bugs", "what it takes to find each bug of the case studies", bugs::run),
    ("papers", "the systems of the papers: their figures beside ours", papers::run),
    ("shrink", "how small findings become, and what that takes", shrink::run),
    (
        "liveness",
        "progress: correct systems are silent at every size, their bugs are found",
        liveness::run,
    ),
    ("cuts", "traces, cuts and the property language: speed, memory", cuts::run),
    ("infer", "properties from traces: speed, memory, what is told", infer::run),
    (
        "instrument",
        "variables that interact with the network: found, expected, time",
        instrument::run,
    ),
    (
        "quality",
        "properties from traces: what an expert wants, what is false or idle",
        quality::run,
    ),
    ("watch", "checking a running system: what it costs, tuples a second, lag", watch::run),
    ("faults", "checking a running system while something fails: what is told", faults::run),
    (
        "hosts",
        "unmodified programs: speed, memory, repeats, beside turmoil and Shuttle",
        hosts::run,
    ),
    ("timed", "timed simulation: speed, flatness, forks", timed::run),
    ("build", "a cold build of a crate that depends on everhold", build::run),
];

/// The exit code for an unusable command line.
const USAGE: u8 = 64;

/// The options on the command line.
pub(crate) struct Options {
    pub(crate) size: Size,
    /// Only the part of the area with this name.
    pub(crate) only: Option<String>,
    /// The number of executions of each search, in areas that support this option.
    pub(crate) executions: Option<u64>,
    /// The number of seeds of each search, in areas that support this option.
    pub(crate) seeds: Option<u64>,
    /// The limit on the time of each search, in areas that support this option.
    pub(crate) seconds: Option<u64>,
    /// Only rows whose name contains this text, in areas that support this option.
    pub(crate) row: Option<String>,
    check: bool,
}

/// A part of an area, by name.
pub(crate) type Part = (&'static str, fn(Size, &mut Scorecard));

impl Options {
    /// Runs the requested parts of an area, in their order.
    pub(crate) fn run(&self, parts: &[Part]) -> Scorecard {
        let mut scores = Scorecard::default();
        for (_, part) in parts.iter().filter(|(name, _)| self.wants(name)) {
            part(self.size, &mut scores);
        }
        scores
    }

    /// Whether a row with this name was requested.
    pub(crate) fn wants_row(&self, name: &str) -> bool {
        self.row.as_deref().is_none_or(|row| name.contains(row))
    }

    /// Whether a part of an area was requested.
    pub(crate) fn wants(&self, part: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == part)
    }

    fn parse(args: &[String]) -> Result<Options, String> {
        let mut options = Options {
            size: Size::Full,
            only: None,
            executions: None,
            seeds: None,
            seconds: None,
            row: None,
            check: false,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--check" => options.check = true,
                "--smoke" => options.size = Size::Smoke,
                "--only" => options.only = Some(args.next().ok_or("--only needs a name")?.clone()),
                "--row" => options.row = Some(args.next().ok_or("--row needs a text")?.clone()),
                "--executions" => options.executions = Some(number(arg, args.next())?),
                "--seeds" => options.seeds = Some(number(arg, args.next())?),
                "--seconds" => options.seconds = Some(number(arg, args.next())?),
                other => return Err(format!("no option {other}")),
            }
        }
        Ok(options)
    }
}

fn number(option: &str, text: Option<&String>) -> Result<u64, String> {
    let number = text.and_then(|text| text.replace('_', "").parse().ok());
    number.filter(|number| *number > 0).ok_or_else(|| format!("{option} needs a number"))
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.split_first() {
        Some((name, rest)) => run(name, rest).unwrap_or_else(|problem| usage(&problem)),
        None => usage("name an area"),
    }
}

fn run(name: &str, args: &[String]) -> Result<ExitCode, String> {
    if name == memory::RESIDENT {
        let executions = args.first().and_then(|count| count.parse().ok());
        memory::resident(executions.ok_or("how many executions?")?);
        return Ok(ExitCode::SUCCESS);
    }
    if watch::run_hidden(name, args).or_else(|| faults::run_hidden(name, args)).is_some() {
        return Ok(ExitCode::SUCCESS);
    }
    if name == papers::d3s::NODES {
        papers::d3s::nodes(&args.iter().map(String::as_str).collect::<Vec<_>>());
        return Ok(ExitCode::SUCCESS);
    }
    let area = AREAS.iter().find(|area| area.0 == name);
    let (_, _, body) = area.ok_or_else(|| format!("no area {name}"))?;
    let options = Options::parse(args)?;
    let scores = body(&options);
    scores.print();
    let failed = options.check && scores.missed() > 0;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn usage(problem: &str) -> ExitCode {
    eprintln!(
        "{problem}\n\nusage: everhold-benches AREA [--check] [--smoke] [--only PART] [--row TEXT]\n       \
         [--executions N] [--seeds N] [--seconds N]\n"
    );
    for (name, what, _) in AREAS {
        eprintln!("  {name:<10} {what}");
    }
    ExitCode::from(USAGE)
}

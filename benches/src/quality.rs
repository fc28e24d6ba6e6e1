//! The quality of inference: ten protocols and more with five invariants each that an expert wants,
//! numbers without meaning beside them, a larger sample that refutes, and a planted exception.

mod catalogue;
mod chains;
mod copies;
mod flows;
mod fresh;
mod judge;
mod leaders;
mod money;
mod noise;
mod sharing;
mod system;

use everhold_infer::{Almost, Always, Line, Settings, always};
use everhold_property::{Library, Property, print};
use everhold_trace::Execution;

use crate::measure::{Bound, Scorecard, Size};
use crate::table::Table;
use crate::{Options, Part};
use catalogue::{Subject, subjects};
use judge::Worlds;
use system::{Random, Recipe};

/// The lines that a reader looks at.
const FIRST: usize = 20;

/// The parts, in the order in which they run.
const PARTS: [Part; 3] = [("table", table), ("held-out", held_out), ("noise", noise::run)];

pub(crate) fn run(options: &Options) -> Scorecard {
    let all = subjects();
    match all.iter().find(|subject| Some(subject.name) == options.only.as_deref()) {
        Some(subject) => {
            show(subject, options.size);
            Scorecard::default()
        }
        None => options.run(&PARTS),
    }
}

fn table(size: Size, scores: &mut Scorecard) {
    figures(false, size, scores);
}

fn held_out(size: Size, scores: &mut Scorecard) {
    figures(true, size, scores);
}

/// The figures of one protocol, or of several together.
#[derive(Default)]
struct Figures {
    first: usize,
    list: usize,
    wanted: usize,
    lines: usize,
    refuted: usize,
    redundant: usize,
    almost: usize,
    subjects: usize,
}

impl Figures {
    fn add(&mut self, other: &Figures) {
        self.first += other.first;
        self.list += other.list;
        self.wanted += other.wanted;
        self.lines += other.lines;
        self.refuted += other.refuted;
        self.redundant += other.redundant;
        self.almost += other.almost;
        self.subjects += other.subjects;
    }

    fn row(&self, name: &str) -> Vec<String> {
        vec![
            name.to_owned(),
            format!("{} of {}", self.first, self.wanted),
            format!("{} of {}", self.list, self.wanted),
            format!("{} of {}", self.refuted, self.lines),
            format!("{} of {}", self.redundant, self.lines),
            format!("{} of {}", self.almost, self.subjects),
        ]
    }
}

/// A list of properties with the marks of the judges.
struct Judged {
    found: Always,
    marks: Vec<&'static str>,
    figures: Figures,
    broken: Option<usize>,
    almost: Vec<Property>,
    missing: Vec<(&'static str, bool)>,
}

/// One run to infer from, and larger ones to refute on.
fn sample(subject: &Subject, size: Size) -> (Execution, Vec<Execution>) {
    let events = size.pick(400, 2_000);
    let run = |seed: u64| (subject.run)(Recipe { seed, events, faulty: false });
    (run(1), (2..size.pick(3, 8)).map(run).collect())
}

fn judge(subject: &Subject, size: Size) -> Judged {
    let (run, larger) = sample(subject, size);
    let settings = Settings::default().lines_max(usize::MAX);
    let found = always(&[&run], &settings);
    let all: Vec<Property> = found.lines.iter().map(|line| line.property.clone()).collect();
    let shown = &all[..all.len().min(FIRST)];
    let mut random = Random::new(5);
    let (worlds, tries) = (Worlds::of(&run), size.pick(30, 1_500));
    let (mut refuted, mut redundant) = (0, 0);
    let mark = |place: usize| {
        let property = &shown[place];
        if judge::is_refuted(property, &larger) {
            refuted += 1;
            return "refuted";
        }
        let decoys = judge::is_about_decoys(property);
        if decoys || worlds.is_redundant(&shown[..=place], tries, &mut random) {
            redundant += 1;
            return if decoys { "trivial" } else { "redundant" };
        }
        ""
    };
    let marks = (0..shown.len()).map(mark).collect();
    let told = |properties: &[Property]| {
        subject.wanted.iter().filter(|texts| judge::says(properties, texts)).count()
    };
    let almost = almost(subject, size);
    let broken = judge::place_of(&almost, subject.broken);
    let missing = subject.wanted.iter().filter(|texts| !judge::says(shown, texts));
    let missing = missing.map(|texts| (texts[0], judge::says(&all, texts))).collect();
    let figures = Figures {
        first: told(shown),
        list: told(&all),
        wanted: subject.wanted.len(),
        lines: shown.len(),
        refuted,
        redundant,
        almost: usize::from(broken.is_some_and(|place| place < 3)),
        subjects: 1,
    };
    Judged { found, marks, figures, broken, almost, missing }
}

/// The almost-invariants of runs in which the protocol makes its mistake.
fn almost(subject: &Subject, size: Size) -> Vec<Property> {
    let recipe = |seed| Recipe { seed, events: size.pick(300, 1_000), faulty: true };
    let runs: Vec<Execution> = (11..14).map(|seed| (subject.run)(recipe(seed))).collect();
    let runs: Vec<&Execution> = runs.iter().collect();
    let report = Almost::default().infer(&runs, &Library::new());
    report.found.into_iter().map(|found| found.property).collect()
}

fn figures(held_out: bool, size: Size, scores: &mut Scorecard) {
    let header = [
        "protocol",
        "first 20 lines",
        "full list",
        "refuted",
        "redundant or trivial",
        "exception in first 3",
    ];
    let mut table = Table::new(&header);
    let mut sum = Figures::default();
    for subject in subjects().iter().filter(|subject| subject.held_out == held_out) {
        let judged = judge(subject, size);
        table.row(judged.figures.row(subject.name));
        sum.add(&judged.figures);
    }
    table.row(sum.row("together"));
    let which = if held_out { "held out" } else { "in development" };
    table.print(&format!("Quality: protocols {which}"));
    if size == Size::Smoke {
        return;
    }
    let share = |part: usize, all: usize| part as f64 / all.max(1) as f64;
    let mut hold = |what: &str, figure: f64, bound: Bound| {
        scores.hold(format!("{which}: {what}"), figure, bound);
    };
    hold("wanted in the first 20 lines", share(sum.first, sum.wanted), Bound::AtLeast(22.0 / 25.0));
    hold("wanted in the full list", share(sum.list, sum.wanted), Bound::AtLeast(1.0));
    hold("refuted by a larger sample", share(sum.refuted, sum.lines), Bound::AtMost(0.01));
    hold("redundant or trivial", share(sum.redundant, sum.lines), Bound::AtMost(0.1));
    hold(
        "exception in the first three",
        share(sum.almost, sum.subjects),
        Bound::AtLeast(8.0 / 9.0),
    );
}

/// The lines of one protocol with the marks of the judges.
fn show(subject: &Subject, size: Size) {
    let judged = judge(subject, size);
    println!("{}", judged.figures.row(subject.name).join(" | "));
    let shown: Vec<&Line> = judged.found.lines.iter().take(FIRST).collect();
    for (place, (line, mark)) in shown.iter().zip(&judged.marks).enumerate() {
        let text = print(&line.property);
        let (claim, score) = (text.trim().replace('\n', " "), line.score);
        println!("{:>3} {mark:<9} {score:.2} {} {claim}", place + 1, line.distinct);
    }
    for (claim, listed) in &judged.missing {
        let hidden = judged
            .found
            .hidden
            .iter()
            .find(|hidden| judge::says(std::slice::from_ref(&hidden.property), &[claim]));
        let reason = hidden.map(|hidden| hidden.reason.to_string());
        println!(
            "missing ({}): {claim} {}",
            if *listed { "listed" } else { "no line" },
            reason.unwrap_or_default()
        );
    }
    println!("exception: {:?}", judged.broken.map(|place| place + 1));
    for property in &judged.almost {
        println!("  ~ {}", print(property).trim().replace('\n', " "));
    }
}

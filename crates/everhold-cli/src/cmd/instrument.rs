//! `everhold instrument`: the variables of a package that interact with the network, found and
//! recorded.
//!
//! - `record`: the recordings of a run as one trace.

mod record;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::Parser as _;
use everhold_instrument::facts::Facts;
use everhold_instrument::insert::Language;
use everhold_instrument::list::{self, Counts};
use everhold_instrument::{Entries, Nodes, Places, Plan, Slices, cargo, copy, go, rust};

use crate::args::{Args, Color, Command as Word, InstrumentArgs, PlacesWord};
use crate::exit::{BadInput, Code};
use crate::plain::Plain;
use crate::words::counted;

pub(crate) fn run(args: &InstrumentArgs, color: Color) -> Result<Code> {
    let language = language(&args.package)?;
    let entries = entries(args)?;
    let facts = match language {
        Language::Rust => rust::read(&args.package, &entries)
            .with_context(|| format!("{}", args.package.display()))?,
        Language::Go => go::read(&args.package, &entries).map_err(BadInput)?,
    };
    let slices = Slices::of(&facts);
    let counts = Counts::of(&facts, &slices);
    if args.list || args.count {
        let mut out = Plain(io::stdout().lock());
        if args.list {
            write!(out, "{}", list::text(&facts, &slices))?;
            writeln!(out)?;
        }
        write!(out, "{}", list::table(&[(name(&args.package), counts)]))?;
        skipped(&facts);
        return Ok(if counts.interacting == 0 { Code::Unknown } else { Code::Holds });
    }
    skipped(&facts);
    if counts.interacting == 0 {
        eprintln!(
            "no variable of {} interacts with the network; name the functions that communicate \
             with --entries (`everhold help instrument`)",
            args.package.display()
        );
        return Ok(Code::Unknown);
    }
    let plan = Plan::of(&facts, &slices, places(args.at), &nodes(&args.node), args.locals);
    let made = make(args, language, &facts, &plan)?;
    match args.run {
        true => run_and_infer(args, &made, color),
        false => Ok(Code::Holds),
    }
}

fn language(package: &Path) -> Result<Language> {
    if package.join("Cargo.toml").exists() {
        return Ok(Language::Rust);
    }
    let files = fs::read_dir(package).with_context(|| format!("{}", package.display()));
    let files = files.map_err(|error| BadInput(format!("{error:#}")))?;
    let mut names = files.flatten().map(|entry| entry.path());
    if names.any(|path| path.extension().is_some_and(|it| it == "go" || it == "mod")) {
        return Ok(Language::Go);
    }
    let text = format!(
        "{}: neither a package of Cargo (Cargo.toml) nor one of Go (go.mod, *.go)",
        package.display()
    );
    Err(BadInput(text).into())
}

fn entries(args: &InstrumentArgs) -> Result<Entries> {
    let Some(path) = &args.entries else { return Ok(Entries::default()) };
    let text = fs::read_to_string(path)
        .map_err(|error| BadInput(format!("{}: {error}", path.display())))?;
    Entries::parse(&text).map_err(|error| BadInput(format!("{}: {error}", path.display())).into())
}

fn name(package: &Path) -> String {
    let full = package.canonicalize().unwrap_or_else(|_| package.to_owned());
    full.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Names what was not read.
fn skipped(facts: &Facts) {
    for skipped in &facts.skipped {
        eprintln!("left out {}: {}", skipped.path, skipped.reason);
    }
}

fn places(word: PlacesWord) -> Places {
    match word {
        PlacesWord::Auto => Places::Auto,
        PlacesWord::Ends => Places::Ends,
        PlacesWord::Network => Places::Network,
        PlacesWord::Marks => Places::Marks,
        PlacesWord::All => Places::All,
    }
}

fn nodes(text: &str) -> Nodes {
    match text {
        "auto" => Nodes::Auto,
        "process" => Nodes::Process,
        other => match other.split_once('.') {
            Some((of, field)) => Nodes::Type { of: of.to_owned(), field: Some(field.to_owned()) },
            None => Nodes::Type { of: other.to_owned(), field: None },
        },
    }
}

/// Makes the copy; returns its folder.
fn make(args: &InstrumentArgs, language: Language, facts: &Facts, plan: &Plan) -> Result<Made> {
    let package = args.package.canonicalize()?;
    let (from, to, root) = match language {
        Language::Rust => {
            let found = cargo::Package::find(&package).map_err(BadInput)?;
            let root = out_folder(args, &found.root.join("target"), &found.name)?;
            let to = found.copy(&root, probe(args).as_deref())?;
            (found.folder, to, root)
        }
        Language::Go => {
            let module = go::Module::find(&package).map_err(BadInput)?;
            let root = out_folder(args, &std::env::temp_dir(), &name(&package))?;
            let to = module.copy(&root)?;
            (module.folder.clone(), to, root)
        }
    };
    let import = match language {
        Language::Rust => String::new(),
        Language::Go => go::Module::find(&package).map_err(BadInput)?.probe(),
    };
    let mut copy = copy::Copy::new(facts, plan, (language, import), &from, &to)?;
    let wrong = match language {
        Language::Rust => {
            let arguments = features(&args.command);
            cargo::settle(&mut copy, |package| cargo::check(package, &arguments))?
        }
        Language::Go => {
            let module = go::Module::find(&package).map_err(BadInput)?;
            cargo::settle(&mut copy, |package| module.check(package, &root))?
        }
    };
    for part in copy.left_out() {
        eprintln!("not recorded, since it does not compile there: {part}");
    }
    if let Some(text) = wrong {
        let text = format!("the package does not build, with or without insertions:\n{text}");
        return Err(BadInput(text).into());
    }
    let node = match &plan.node {
        Some((of, Some(field))) => format!("each `{of}`, told apart by `{field}`"),
        Some((of, None)) => format!("each `{of}`"),
        None => "the process".to_owned(),
    };
    eprintln!(
        "{} recorded at {}; the node is {node}\nthe copy is in {}",
        counted(copy.names().len(), "variable"),
        counted(plan.statements.len(), "place"),
        root.display()
    );
    let environment = match language {
        Language::Rust => Vec::new(),
        Language::Go => go::Module::find(&package).map_err(BadInput)?.environment(&root),
    };
    Ok(Made { folder: to, environment })
}

/// A copy, and the environment in which it is built.
struct Made {
    /// The folder of the package in the copy.
    folder: PathBuf,
    environment: Vec<(String, String)>,
}

fn out_folder(args: &InstrumentArgs, base: &Path, name: &str) -> Result<PathBuf> {
    let folder = args.out.clone().unwrap_or_else(|| base.join("everhold-instrument").join(name));
    fs::create_dir_all(&folder).with_context(|| format!("{}", folder.display()))?;
    Ok(folder.canonicalize()?)
}

/// Returns the folder of the probe's source, unless it has to come from the registry.
fn probe(args: &InstrumentArgs) -> Option<PathBuf> {
    let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../everhold-live");
    let folder = args.probe.clone().unwrap_or_else(own);
    folder.join("Cargo.toml").exists().then(|| folder.canonicalize().unwrap_or(folder))
}

/// Returns the arguments of a command of Cargo that decide what is compiled.
fn features(command: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let mut words = command.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--" => break,
            "--all-features" | "--no-default-features" => found.push(word.clone()),
            "--features" | "-F" => {
                found.extend([word.clone()].into_iter().chain(words.next().cloned()));
            }
            other if other.starts_with("--features=") => found.push(word.clone()),
            _ => {}
        }
    }
    found
}

/// The flags under which Go runs the tests of one package after those of another, and one at a time.
fn go_flags(own: Option<String>) -> String {
    [own.unwrap_or_default().trim(), "-p=1 -parallel=1"].join(" ").trim_start().to_owned()
}

fn run_and_infer(args: &InstrumentArgs, made: &Made, color: Color) -> Result<Code> {
    let copy = &made.folder;
    let folder = copy.join("everhold-recording");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let status = Command::new(&args.command[0])
        .args(&args.command[1..])
        .current_dir(copy)
        .envs(made.environment.iter().cloned())
        .env("EVERHOLD_RECORD", &folder)
        .env("EVERHOLD_RATE", args.rate.to_string())
        // One test at a time: the nodes of two tests are not one system.
        .env("RUST_TEST_THREADS", "1")
        .env("GOFLAGS", go_flags(std::env::var("GOFLAGS").ok()))
        .status()
        .map_err(|error| BadInput(format!("{}: {error}", args.command[0])))?;
    if !status.success() {
        eprintln!("the command ended with {status}; what it recorded is used");
    }
    let trace = copy.join("everhold-recording.jsonl");
    let made = record::collect(&folder, &trace)?;
    if made.runs == 0 {
        eprintln!("the command recorded nothing: no place with a variable was reached");
        return Ok(Code::Unknown);
    }
    for site in &made.sampled {
        eprintln!(
            "{site} was reached more than {} times a second, and recorded so often",
            args.rate
        );
    }
    eprintln!(
        "{} of {} recorded in {}",
        counted(made.events, "event"),
        counted(made.runs, "run"),
        trace.display()
    );
    let lines = args.lines.to_string();
    let infer = Args::try_parse_from([
        "everhold".as_ref(),
        "infer".as_ref(),
        trace.as_os_str(),
        "--lines".as_ref(),
        lines.as_ref(),
    ])?;
    match infer.command {
        Word::Infer(options) => super::infer::run(&options, color),
        _ => unreachable!("the arguments are those of infer"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_in_go_run_one_at_a_time() {
        assert_eq!(go_flags(None), "-p=1 -parallel=1");
        assert_eq!(go_flags(Some("-mod=mod ".to_owned())), "-mod=mod -p=1 -parallel=1");
    }
}

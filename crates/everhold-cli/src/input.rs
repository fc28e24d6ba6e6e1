//! The input: finds files, detects their formats, and reads them.
//!
//! - [`read`] and [`read_one`]: from paths to executions.
//! - `detect`: the format of a file.
//! - `open`: files, directories and the standard input, decompressed, with progress.

mod detect;
mod open;

use std::collections::BTreeSet;
use std::io::BufRead;
use std::path::{Path, PathBuf};

use anyhow::Result;
use everhold_infer::Snapshots;
use everhold_property::nearest;
use everhold_trace::Execution;
use everhold_trace::format::{
    Diagnostic, DiagnosticKind, ReadError, ReadOptions, TraceFile, read_all,
};
use everhold_trace::import::shiviz::{self, Format};
use everhold_trace::import::{csv, dinv, messages, ndjson};

use crate::args::{InputArgs, InputFormat};
use crate::exit::BadInput;
use crate::progress::Progress;
use crate::words::counted;
pub(crate) use open::read_text;
use open::{Opened, files_of, open};

/// One input, read.
#[derive(Debug)]
pub(crate) struct Given {
    /// Its name as the user gave it.
    pub(crate) name: String,
    /// Its runs; at least one.
    pub(crate) executions: Vec<Execution>,
    /// The parts that a lenient reader left out or repaired.
    pub(crate) left_out: Vec<Diagnostic>,
}

/// The inputs that could be read, and the errors in the others.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    pub(crate) given: Vec<Given>,
    pub(crate) errors: Vec<BadInput>,
}

/// Reads all inputs; an input that cannot be used does not prevent the others from being read.
pub(crate) fn read(paths: &[PathBuf], args: &InputArgs) -> Result<Inputs> {
    let how = How::new(args)?;
    if paths.iter().filter(|path| is_stdin(path)).count() > 1 {
        return Err(BadInput("`-`, the standard input, can be given only once".into()).into());
    }
    let mut inputs = Inputs::default();
    let one = |paths: &[PathBuf], inputs: &mut Inputs| match how.read(paths) {
        Ok(given) => inputs.given.push(given),
        Err(error) => inputs.errors.push(error),
    };
    if how.together() {
        one(paths, &mut inputs);
    } else {
        paths.iter().for_each(|path| one(std::slice::from_ref(path), &mut inputs));
    }
    inputs.given.iter().for_each(warn);
    Ok(inputs)
}

/// Reads one input, or returns the reason why it cannot be used.
pub(crate) fn read_one(path: &Path, args: &InputArgs) -> Result<Given> {
    let mut inputs = read(&[path.to_owned()], args)?;
    match inputs.errors.pop() {
        Some(error) => Err(error.into()),
        None => Ok(inputs.given.remove(0)),
    }
}

/// Reads one table of snapshots that holds whole numbers only; `None` if the input is anything else
/// or cannot be used, which [`read`] then tells.
///
/// The same options apply as for all other inputs. The standard input cannot be read twice, so it
/// is left to [`read`].
pub(crate) fn read_snapshots(paths: &[PathBuf], args: &InputArgs) -> Result<Option<Snapshots>> {
    let how = How::new(args)?;
    let [path] = paths else { return Ok(None) };
    if how.together() || is_stdin(path) || !path.is_file() {
        return Ok(None);
    }
    let name = path.display().to_string();
    let progress = Progress::new(&format!("reading {name}"));
    let Ok(Opened { head, input }) = open(path, &progress) else { return Ok(None) };
    let detected = || detect::format(&head, path).ok();
    if how.format.or_else(detected) != Some(InputFormat::Csv) || args.executions.is_some() {
        return Ok(None);
    }
    Ok(Snapshots::read_from(input).ok().flatten())
}

/// The runs of an input that the user selected: one by its name or number, or all.
pub(crate) fn choose_run<'a>(given: &'a Given, run: Option<&str>) -> Result<Vec<&'a Execution>> {
    let Some(run) = run else { return Ok(given.executions.iter().collect()) };
    let named = given.executions.iter().find(|execution| execution.name() == run);
    let number = run.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    if let Some(found) = named.or_else(|| given.executions.get(number?)) {
        return Ok(vec![found]);
    }
    let names: Vec<&str> = given.executions.iter().map(Execution::name).collect();
    let help = match nearest(run, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("it has {} runs: {}", names.len(), names.join(", ")),
    };
    Err(BadInput(format!("{}: no run `{run}`; {help}", given.name)).into())
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The options for reading, checked for consistency.
struct How {
    format: Option<InputFormat>,
    shiviz: Format,
    mapping: Option<ndjson::Mapping>,
    options: ReadOptions,
    together: bool,
}

impl How {
    fn new(args: &InputArgs) -> Result<How> {
        use InputFormat as F;
        let bad = |text: String| Err(BadInput(text).into());
        let implied = match (&args.parser, &args.mapping) {
            (Some(_), Some(_)) => {
                return bad("--parser is for ShiViz logs and --mapping for JSON lines: \
                            give the one that the input needs"
                    .into());
            }
            (Some(_), None) => Some(F::Shiviz),
            (None, Some(_)) => Some(F::Ndjson),
            (None, None) => None,
        };
        let (format, implied_by) =
            (args.format, if args.parser.is_some() { "--parser" } else { "--mapping" });
        if let (Some(format), Some(implied)) = (format, implied)
            && format != implied
        {
            let wanted = implied.word();
            return bad(format!("{implied_by} needs --format {wanted}, not {}", format.word()));
        }
        let format = format.or(implied);
        if args.executions.is_some() && format.is_some_and(|format| !takes_executions(format)) {
            return bad(EXECUTIONS_MISPLACED.into());
        }
        if args.together && matches!(format, Some(F::Native | F::Ndjson | F::Csv | F::Messages)) {
            return bad("--together is for logs with vector clocks, one for each node".into());
        }
        if format == Some(F::Ndjson) && args.mapping.is_none() {
            return bad(NEEDS_MAPPING.into());
        }
        let mapping = args.mapping.as_deref().map(read_mapping).transpose()?;
        let parser = args.parser.clone().unwrap_or_default();
        let shiviz = Format { parser, delimiter: args.executions.clone().unwrap_or_default() };
        let options = if args.lenient { ReadOptions::lenient() } else { ReadOptions::strict() };
        Ok(How { format, shiviz, mapping, options, together: args.together })
    }

    /// Whether all files are one recording.
    fn together(&self) -> bool {
        self.together || self.format == Some(InputFormat::Dinv)
    }

    fn read(&self, paths: &[PathBuf]) -> Result<Given, BadInput> {
        let files = files_of(paths, self.together())?;
        let name = match (paths, is_stdin(&paths[0])) {
            (_, true) => "standard input".to_owned(),
            ([only], false) => only.display().to_string(),
            ([first, rest @ ..], false) => format!("{} and {} more", first.display(), rest.len()),
            ([], false) => unreachable!("at least one path is required"),
        };
        let progress = Progress::new(&format!("reading {name}"));
        let recording = if self.together() {
            self.read_together(&files, &progress)?
        } else {
            self.read_file(&files[0], &name, &progress)?
        };
        let TraceFile { executions, diagnostics: left_out, .. } = recording;
        if executions.is_empty() {
            return Err(BadInput(match left_out.first() {
                Some(first) => format!("{name}: {first}; no usable part remains"),
                None => format!("{name}: there is no run in it; record at least one event"),
            }));
        }
        match share(&executions, &left_out) {
            (kept, broken) if broken > kept.max(1) => Err(mostly_broken(&name, kept, &left_out)),
            _ => Ok(Given { name, executions, left_out }),
        }
    }

    fn read_file(
        &self,
        path: &Path,
        name: &str,
        progress: &Progress,
    ) -> Result<TraceFile, BadInput> {
        let Opened { head, input } = open(path, progress)?;
        let detected =
            || detect::format(&head, path).map_err(|text| BadInput(format!("{name}: {text}")));
        let format = self.format.map_or_else(detected, Ok)?;
        if !self.shiviz.delimiter.is_empty() && !takes_executions(format) {
            return Err(BadInput(format!("{name}: {EXECUTIONS_MISPLACED}")));
        }
        self.parse(format, input).map_err(|error| refused(name, error, &self.options))
    }

    fn parse(&self, format: InputFormat, input: Box<dyn BufRead>) -> Result<TraceFile, ReadError> {
        match format {
            InputFormat::Native => read_all(input, &self.options),
            InputFormat::Shiviz => shiviz::read(input, &self.shiviz, &self.options),
            InputFormat::Govector => {
                let delimiter = &self.shiviz.delimiter;
                let format = Format { delimiter: delimiter.clone(), ..Format::go_vector() };
                shiviz::read(input, &format, &self.options)
            }
            InputFormat::Csv => csv::read(input, &self.options),
            InputFormat::Messages => messages::read(input, &self.options),
            InputFormat::Ndjson => match &self.mapping {
                Some(mapping) => ndjson::read(input, mapping, &self.options),
                None => Err(needs(NEEDS_MAPPING)),
            },
            InputFormat::Dinv => Err(needs(
                "these are Dinv's points; give --format dinv, and the GoVector logs beside them",
            )),
        }
    }

    /// Reads the logs of one run and, with Dinv, the points of each host.
    fn read_together(&self, files: &[PathBuf], progress: &Progress) -> Result<TraceFile, BadInput> {
        let (mut logs, mut points) = (Vec::new(), Vec::new());
        for path in files {
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            let opened = open(path, progress)?;
            match file.strip_suffix("Encoded.txt") {
                Some(host) if self.format == Some(InputFormat::Dinv) => {
                    points.push((host.to_owned(), opened.input));
                }
                _ => logs.push(opened.input),
            }
        }
        let names: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
        let read = match self.format {
            Some(InputFormat::Dinv) => dinv::read(logs, points, &self.options),
            Some(InputFormat::Govector) => {
                shiviz::read_logs(logs, &Format::go_vector(), &self.options)
            }
            _ => shiviz::read_logs(logs, &self.shiviz, &self.options),
        };
        read.map_err(|error| refused(&names.join(" + "), error, &self.options))
    }
}

/// Whether `--executions` says something about a format.
fn takes_executions(format: InputFormat) -> bool {
    matches!(format, InputFormat::Shiviz | InputFormat::Govector)
}

const EXECUTIONS_MISPLACED: &str = "--executions is for ShiViz logs; other formats name their runs";

const NEEDS_MAPPING: &str = "JSON lines of another tool need --mapping FILE, which says which \
    field is the node, the message, the state; see `everhold help logs`";

fn needs(what: &str) -> ReadError {
    let kind = DiagnosticKind::Import { expected: what.to_owned() };
    ReadError::Refused(vec![Diagnostic { line: None, kind }])
}

fn read_mapping(path: &Path) -> Result<ndjson::Mapping, BadInput> {
    let text = read_text(path)?;
    let mapping = ndjson::Mapping::parse(&text);
    mapping.map_err(|error| BadInput(format!("{}: {error}", path.display())))
}

/// The number of events, and that of the lines with errors.
fn share(executions: &[Execution], left_out: &[Diagnostic]) -> (usize, usize) {
    let kept = executions.iter().map(|execution| execution.events().len()).sum();
    let broken: BTreeSet<u64> = left_out.iter().filter_map(|diagnostic| diagnostic.line).collect();
    (kept, broken.len())
}

/// The error of a file of which less than half could be read.
fn mostly_broken(name: &str, kept: usize, left_out: &[Diagnostic]) -> BadInput {
    let broken = left_out.iter().filter(|diagnostic| diagnostic.line.is_some());
    let first: Vec<String> = broken.take(3).map(|d| format!("\nerror: {name}: {d}")).collect();
    BadInput(format!(
        "{name}: most lines could not be read, and only {} were kept, too few to judge; copy the \
         file again, or record again{}",
        counted(kept, "event"),
        first.concat()
    ))
}

/// The largest number of diagnostics that are shown for one file; the rest is counted.
const SHOWN_MAX: usize = 10;

fn refused(name: &str, error: ReadError, options: &ReadOptions) -> BadInput {
    let diagnostics = match &error {
        ReadError::Io(io) => return BadInput(open::io_words(name, io)),
        _ => error.diagnostics(),
    };
    let mut lines: Vec<String> =
        diagnostics.iter().take(SHOWN_MAX).map(|d| format!("{name}: {d}")).collect();
    if diagnostics.len() > SHOWN_MAX {
        lines.push(format!("{name}: and {} more", diagnostics.len() - SHOWN_MAX));
    }
    let mut text = lines.join("\nerror: ");
    if !options.lenient && diagnostics.iter().all(|d| d.line.is_some()) && is_partial(diagnostics) {
        text.push_str("\nhelp: --lenient leaves out what is broken and keeps the rest");
    }
    BadInput(text)
}

/// Whether the file probably has usable parts apart from those with errors.
fn is_partial(diagnostics: &[Diagnostic]) -> bool {
    use DiagnosticKind as D;
    !diagnostics.iter().any(|d| {
        matches!(d.kind, D::NotATrace { .. } | D::UnknownVersion { .. } | D::Compressed)
            || ["no event matches", "too few to judge"]
                .iter()
                .any(|text| d.to_string().contains(text))
    })
}

fn warn(given: &Given) {
    for diagnostic in given.left_out.iter().take(SHOWN_MAX) {
        let line = format!("left out: {}: {diagnostic}", given.name);
        eprintln!("{}", crate::plain::plain(&line));
    }
    if given.left_out.len() > SHOWN_MAX {
        eprintln!("left out: {}: and {} more", given.name, given.left_out.len() - SHOWN_MAX);
    }
}

//! `everhold convert`: a trace or log in another format.

use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use everhold_trace::format::Writer;
use everhold_trace::trace::Fate;
use everhold_trace::{Execution, export};

use crate::args::{ConvertArgs, OutputFormat};
use crate::exit::{BadInput, Code};
use crate::hint;
use crate::input::{self, choose_run};
use crate::plain::Plain;
use crate::words::counted;

pub(crate) fn run(args: &ConvertArgs) -> Result<Code> {
    let to_stdout = args.output.as_os_str() == "-";
    let format = match args.to {
        Some(format) => format,
        None => by_name(&args.output)?,
    };
    if !to_stdout && args.output.is_dir() {
        let name = args.output.display();
        return Err(BadInput(format!("{name}: a directory; name a file to write")).into());
    }
    let given = input::read_one(&args.input_file, &args.input)?;
    let executions = choose_run(&given, args.run.as_deref())?;
    if executions.len() > 1 && matches!(format, OutputFormat::Chrome | OutputFormat::Mermaid) {
        return Err(BadInput(format!(
            "{}: {} runs, and {} takes one; choose it with --run, from 1 to {}",
            given.name,
            executions.len(),
            format.word(),
            executions.len()
        ))
        .into());
    }
    let executions: Vec<Execution> = executions.into_iter().cloned().collect();
    if to_stdout {
        let mut out = BufWriter::new(io::stdout().lock());
        // Another program gets every byte; a terminal would obey some.
        if io::stdout().is_terminal() {
            write(format, &executions, &mut Plain(&mut out))?;
        } else {
            write(format, &executions, &mut out)?;
        }
        out.flush()?;
    } else {
        write_file(format, &executions, &args.output)?;
    }
    report(format, &executions, &args.output, given.left_out.len());
    if !to_stdout && format == OutputFormat::Native {
        let name = args.output.display().to_string();
        hint::next(&format!("everhold show {} --as stats", hint::quoted(&name)));
    }
    Ok(Code::Holds)
}

/// The format that the name of a file implies.
fn by_name(path: &Path) -> Result<OutputFormat> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let name = name.strip_suffix(".zst").unwrap_or(&name);
    Ok(match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("trace" | "everhold" | "jsonl") => OutputFormat::Native,
        Some("log" | "shiviz") => OutputFormat::Shiviz,
        Some("json") => OutputFormat::Chrome,
        Some("mmd" | "mermaid") => OutputFormat::Mermaid,
        Some("csv") => OutputFormat::Csv,
        Some("txt") => OutputFormat::Text,
        _ => {
            return Err(BadInput(format!(
                "{}: the name does not tell the format; add --to native, shiviz, chrome, \
                 mermaid, csv or text",
                path.display()
            ))
            .into());
        }
    })
}

/// Writes into a temporary file first, so that an existing output stays whole until the new one is
/// complete.
fn write_file(format: OutputFormat, executions: &[Execution], path: &Path) -> Result<()> {
    let name = || format!("{}: cannot be written", path.display());
    let beside = PathBuf::from(format!("{}.part", path.display()));
    let result = write_new(format, executions, path, &beside)
        .and_then(|()| fs::rename(&beside, path))
        .with_context(name);
    if result.is_err() {
        let _ = fs::remove_file(&beside);
    }
    result
}

fn write_new(
    format: OutputFormat,
    executions: &[Execution],
    path: &Path,
    beside: &Path,
) -> io::Result<()> {
    let file = BufWriter::new(File::create(beside)?);
    if path.extension().is_some_and(|extension| extension == "zst") {
        let mut encoder = zstd::stream::write::Encoder::new(file, 0)?;
        write(format, executions, &mut encoder)?;
        encoder.finish()?.flush()
    } else {
        let mut file = file;
        write(format, executions, &mut file)?;
        file.flush()
    }
}

fn write(format: OutputFormat, executions: &[Execution], out: &mut impl Write) -> io::Result<()> {
    match format {
        OutputFormat::Native => {
            let mut writer = Writer::new(&mut *out).with_changes();
            executions.iter().try_for_each(|execution| writer.execution(execution))?;
            writer.finish().map(drop)
        }
        OutputFormat::Shiviz => export::shiviz(executions, out),
        OutputFormat::Csv => export::csv(executions, out),
        OutputFormat::Chrome => executions.iter().try_for_each(|e| export::chrome(e, &mut *out)),
        OutputFormat::Mermaid => executions.iter().try_for_each(|e| export::mermaid(e, &mut *out)),
        OutputFormat::Text => {
            for (place, execution) in executions.iter().enumerate() {
                if executions.len() > 1 {
                    let gap = if place > 0 { "\n" } else { "" };
                    writeln!(out, "{gap}run {} {}", place + 1, execution.name())?;
                }
                export::text(execution, &mut *out)?;
            }
            Ok(())
        }
    }
}

/// Reports on standard error what was written, and what the format cannot represent.
fn report(format: OutputFormat, executions: &[Execution], path: &Path, left_out: usize) {
    let sum = |of: &dyn Fn(&Execution) -> usize| executions.iter().map(of).sum::<usize>();
    let events = sum(&|e| e.events().len());
    let messages = sum(&|e| e.messages().len());
    eprintln!(
        "wrote {}: {}, {}, {}",
        path.display(),
        counted(executions.len(), "run"),
        counted(events, "event"),
        counted(messages, "message")
    );
    let states = sum(&|e| e.events().iter().filter(|event| event.observation.is_some()).count());
    let payloads = sum(&|e| {
        e.events().iter().flat_map(|event| &event.sends).filter(|s| s.payload.is_some()).count()
    });
    let in_flight = sum(&|e| e.messages().iter().filter(|m| m.fate() != Fate::Delivered).count());
    let marks = sum(&|e| e.marks().len());
    let notes = sum(&|e| e.notes().len());
    let dropped: &[(usize, &str)] = match format {
        OutputFormat::Native => &[],
        OutputFormat::Shiviz => &[
            (states, "state"),
            (payloads, "payload"),
            (in_flight, "undelivered message"),
            (marks, "mark"),
            (notes, "note"),
        ],
        OutputFormat::Chrome => {
            &[(in_flight, "undelivered message"), (marks, "mark"), (notes, "note")]
        }
        OutputFormat::Mermaid => &[(states, "state"), (payloads, "payload"), (notes, "note")],
        OutputFormat::Csv => &[(payloads, "payload"), (marks, "mark"), (notes, "note")],
        OutputFormat::Text => &[(payloads, "payload")],
    };
    let name = format.word();
    for (count, what) in dropped.iter().filter(|(count, _)| *count > 0) {
        let them = if *count == 1 { "it" } else { "them" };
        eprintln!("dropped {}: {name} has no place for {them}", counted(*count, what));
    }
    if left_out > 0 {
        eprintln!("left out {} of the input, as listed above", counted(left_out, "broken part"));
    }
}

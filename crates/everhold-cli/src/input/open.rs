//! Files, directories and the standard input.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use everhold_property::nearest;
use everhold_trace::format::decompressed;

use super::is_stdin;
use crate::exit::BadInput;
use crate::progress::Progress;

/// A file whose beginning has been read, to detect its format.
pub(super) struct Opened {
    pub(super) head: Vec<u8>,
    /// The whole content, including the beginning.
    pub(super) input: Box<dyn BufRead>,
}

/// The number of bytes for the detection: enough for the first lines of a log.
const HEAD_BYTES: u64 = 16 << 10;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Opens a file; a compressed one is decompressed while it is read.
pub(super) fn open(path: &Path, progress: &Progress) -> Result<Opened, BadInput> {
    let raw: Box<dyn Read> = if is_stdin(path) {
        Box::new(io::stdin())
    } else {
        let file = open_file(path)?;
        progress.add_total(file.metadata().map_or(0, |metadata| metadata.len()));
        Box::new(file)
    };
    let raw = BufReader::with_capacity(128 << 10, progress.counting(raw));
    let plain = gunzipped(raw).and_then(peek);
    plain.map_err(|error| BadInput(io_words(&path.display().to_string(), &error)))
}

/// Reads a whole text file.
pub(crate) fn read_text(path: &Path) -> Result<String, BadInput> {
    let mut bytes = Vec::new();
    let name = path.display();
    open_file(path)?
        .read_to_end(&mut bytes)
        .map_err(|error| BadInput(io_words(&name.to_string(), &error)))?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
        BadInput(format!("{name}: line {line}: not UTF-8; save the file as UTF-8 text"))
    })
}

/// The files of a path: the file itself, or all files of a directory with the logs of one run.
pub(super) fn files_of(paths: &[PathBuf], together: bool) -> Result<Vec<PathBuf>, BadInput> {
    let mut files = Vec::new();
    for path in paths {
        if !(together && path.is_dir()) {
            files.push(path.clone());
            continue;
        }
        let words = |error: io::Error| BadInput(io_words(&path.display().to_string(), &error));
        let entries = path.read_dir().map_err(words)?;
        let mut found = entries
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<Vec<_>>>()
            .map_err(words)?;
        found.retain(|path| path.is_file());
        found.sort();
        if found.is_empty() {
            return Err(BadInput(format!("{}: no file in this directory", path.display())));
        }
        files.extend(found);
    }
    Ok(files)
}

fn open_file(path: &Path) -> Result<File, BadInput> {
    let name = path.display();
    if path.is_dir() {
        return Err(BadInput(format!(
            "{name}: a directory; name the files in it, or give --together if they are logs of \
             one run, one for each node"
        )));
    }
    File::open(path).map_err(|error| {
        let near = if error.kind() == io::ErrorKind::NotFound { similar(path) } else { None };
        let help = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        BadInput(io_words(&name.to_string(), &error) + &help)
    })
}

/// The operating system's message, without its error number.
pub(super) fn io_words(name: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("{name}: no such file"),
        io::ErrorKind::PermissionDenied => {
            format!("{name}: permission denied; make it readable for you")
        }
        io::ErrorKind::UnexpectedEof => {
            format!("{name}: the compressed file ends in the middle; copy it again")
        }
        _ => format!("{name}: cannot be read: {error}"),
    }
}

/// A file in the same folder whose name is similar to that of the missing one.
fn similar(path: &Path) -> Option<String> {
    let wanted = path.file_name()?.to_str()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let names: Vec<String> = folder
        .read_dir()
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    let near = nearest(wanted, names.iter().map(String::as_str))?;
    Some(path.with_file_name(near).display().to_string())
}

/// The same for files of gzip, which the library does not read.
fn gunzipped(mut raw: impl BufRead + 'static) -> io::Result<Box<dyn BufRead>> {
    if raw.fill_buf()?.starts_with(&GZIP_MAGIC) {
        return Ok(Box::new(BufReader::new(flate2::bufread::MultiGzDecoder::new(raw))));
    }
    decompressed(raw)
}

fn peek(mut plain: Box<dyn BufRead>) -> io::Result<Opened> {
    let mut head = Vec::new();
    match plain.by_ref().take(HEAD_BYTES).read_to_end(&mut head) {
        // The reader meets the truncation again, and reports it with a line number.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !head.is_empty() => {}
        other => drop(other?),
    }
    let input = Cursor::new(head.clone()).chain(plain);
    Ok(Opened { head, input: Box::new(BufReader::with_capacity(128 << 10, input)) })
}

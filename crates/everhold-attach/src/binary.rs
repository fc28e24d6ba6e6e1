//! An executable or a library: its code, its symbols, its debug information.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use object::read::{Object, ObjectSection, ObjectSegment, ObjectSymbol};
use object::{CompressionFormat, SymbolKind};

use crate::error::{AttachError, AttachErrorKind};

/// A file of machine code.
pub struct Binary {
    /// Where it was read.
    pub path: PathBuf,
    data: Vec<u8>,
    /// The file with its debug information, if that is another one.
    debug: Option<(PathBuf, Vec<u8>)>,
    /// The supplementary file that several debug files share.
    shared: Option<Vec<u8>>,
    /// Files that should have had its debug information, and why they do not.
    pub refused: Vec<String>,
    /// The number that its linker gave it.
    pub build_id: Option<String>,
    /// Whether it has the function table of Go.
    pub is_go: bool,
    /// Whether exceptions or panics may unwind through its functions.
    pub unwinds: bool,
}

impl fmt::Debug for Binary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Binary")
            .field("path", &self.path)
            .field("build_id", &self.build_id)
            .finish()
    }
}

/// A function by its symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub(crate) name: String,
    pub(crate) address: u64,
    pub(crate) size: u64,
}

impl Binary {
    /// Reads a file, and its debug symbols where distributions put them.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is not an ELF file of x86-64.
    pub fn read(path: &Path) -> Result<Binary, AttachError> {
        Binary::read_as(path, path)
    }

    /// Reads a file that is known by another name, as the executable of a process is.
    ///
    /// # Errors
    ///
    /// As [`read`](Binary::read).
    pub fn read_as(open: &Path, path: &Path) -> Result<Binary, AttachError> {
        let fail =
            |error: String| AttachError::new(AttachErrorKind::Unreadable, path.display(), error);
        let data = fs::read(open).map_err(|error| fail(error.to_string()))?;
        let file = parse(&data).map_err(fail)?;
        let build_id = file.build_id().ok().flatten().map(hexadecimal);
        let is_go = file.section_by_name(".gopclntab").is_some()
            || file.section_by_name(".note.go.buildid").is_some();
        let mut binary = Binary {
            path: path.to_owned(),
            build_id,
            is_go,
            unwinds: false,
            debug: None,
            shared: None,
            refused: Vec::new(),
            data: Vec::new(),
        };
        if file.section_by_name(".debug_info").is_none() {
            binary.debug = debug_file(path, &file, &mut binary.refused);
        }
        drop(file);
        binary.data = data;
        binary.shared = binary.find_shared().transpose().unwrap_or_else(|why| {
            binary.refused.push(why);
            None
        });
        binary.unwinds = binary.has_personality();
        Ok(binary)
    }

    fn file(&self) -> object::File<'_> {
        parse(&self.data).expect("it was parsed when it was read")
    }

    /// The file that has the debug information.
    fn debug_data(&self) -> (&Path, &[u8]) {
        match &self.debug {
            Some((path, data)) => (path, data),
            None => (&self.path, &self.data),
        }
    }

    /// Where its debug information was found, if it is not in the file itself.
    #[must_use]
    pub fn debug_path(&self) -> Option<&Path> {
        self.debug.as_ref().map(|(path, _)| path.as_path())
    }

    /// Whether there is debug information.
    #[must_use]
    pub fn has_debug(&self) -> bool {
        !self.debug_section(".debug_info").is_empty()
    }

    /// A section with debug information; empty if there is none.
    pub(crate) fn debug_section(&self, name: &str) -> Cow<'_, [u8]> {
        let (_, data) = self.debug_data();
        parse(data).map(|file| section(&file, name)).unwrap_or_default()
    }

    /// A section of the shared debug file.
    pub(crate) fn shared_section(&self, name: &str) -> Cow<'_, [u8]> {
        let Some(data) = &self.shared else { return Cow::default() };
        parse(data).map(|file| section(&file, name)).unwrap_or_default()
    }

    /// A section of the file itself.
    pub(crate) fn section(&self, name: &str) -> Cow<'_, [u8]> {
        section(&self.file(), name)
    }

    /// The address of a section of the file itself.
    pub(crate) fn section_address(&self, name: &str) -> Option<u64> {
        self.file().section_by_name(name).map(|section| section.address())
    }

    /// The offset in the file of what is loaded at this address.
    pub(crate) fn offset(&self, address: u64) -> Option<u64> {
        self.file().segments().find_map(|segment| {
            let (start, size) = segment.file_range();
            let inside = address.checked_sub(segment.address())?;
            (inside < size).then(|| start + inside)
        })
    }

    /// The bytes at an address, at most `len`.
    pub(crate) fn bytes(&self, address: u64, len: usize) -> &[u8] {
        let Some(offset) = self.offset(address) else { return &[] };
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.data.len());
        let end = start.saturating_add(len).min(self.data.len());
        &self.data[start..end]
    }

    /// The functions that symbols name; those of the dynamic table if there are no others.
    pub(crate) fn symbols(&self) -> Vec<Symbol> {
        let file = self.file();
        let mut found: Vec<Symbol> = file.symbols().filter_map(|s| symbol(&s)).collect();
        if found.is_empty() && self.debug.is_some() {
            let (_, data) = self.debug_data();
            if let Ok(debug) = parse(data) {
                found = debug.symbols().filter_map(|s| symbol(&s)).collect();
            }
        }
        if found.is_empty() {
            found = file.dynamic_symbols().filter_map(|s| symbol(&s)).collect();
        }
        found
    }

    /// Functions that C++ and Rust put into programs that unwind.
    fn has_personality(&self) -> bool {
        const NAMES: [&str; 2] = ["__gxx_personality_v0", "rust_eh_personality"];
        let file = self.file();
        let named = |symbol: object::Symbol<'_, '_>| {
            symbol.name().is_ok_and(|name| NAMES.iter().any(|known| name.ends_with(known)))
        };
        // A static program without symbols may have one: its tables of handlers are left.
        file.dynamic_symbols().any(named)
            || file.symbols().any(named)
            || file.section_by_name(".gcc_except_table").is_some()
    }

    fn find_shared(&self) -> Option<Result<Vec<u8>, String>> {
        let (path, data) = self.debug_data();
        let file = parse(data).ok()?;
        let (name, id) = file.gnu_debugaltlink().ok()??;
        let name = Path::new(std::str::from_utf8(name).ok()?);
        let whole = path.parent()?.join(name);
        let shared = fs::read(&whole).ok()?;
        let found = build_id(&shared);
        Some(match found.is_none_or(|found| found == hexadecimal(id)) {
            true => Ok(shared),
            false => Err(format!(
                "{} was made for another build of {}; reinstall the debug symbols",
                whole.display(),
                path.display()
            )),
        })
    }
}

fn parse(data: &[u8]) -> Result<object::File<'_>, String> {
    let file = object::File::parse(data);
    let file = file.map_err(|error| format!("no ELF file ({error})"))?;
    match file.architecture() {
        object::Architecture::X86_64 => Ok(file),
        other => Err(format!("made for {other:?}, and probes know x86-64")),
    }
}

fn symbol(symbol: &object::Symbol<'_, '_>) -> Option<Symbol> {
    let is_function = symbol.kind() == SymbolKind::Text && symbol.address() != 0;
    let name = symbol.name().ok().filter(|_| is_function)?;
    // The version of a symbol is no part of its name.
    let name = name.split('@').next().unwrap_or(name).to_owned();
    Some(Symbol { name, address: symbol.address(), size: symbol.size() })
}

/// The bytes of a section, as they were before they were compressed.
fn section<'a>(file: &object::File<'a>, name: &str) -> Cow<'a, [u8]> {
    let compressed = file.section_by_name(name).and_then(|s| s.compressed_data().ok());
    let Some(compressed) = compressed else { return Cow::default() };
    match compressed.format {
        CompressionFormat::None => Cow::Borrowed(compressed.data),
        CompressionFormat::Zlib => {
            let mut bytes = Vec::new();
            let read = flate2::read::ZlibDecoder::new(compressed.data).read_to_end(&mut bytes);
            read.map(|_| Cow::Owned(bytes)).unwrap_or_default()
        }
        CompressionFormat::Zstandard => {
            zstd::stream::decode_all(compressed.data).map(Cow::Owned).unwrap_or_default()
        }
        _ => Cow::default(),
    }
}

fn build_id(data: &[u8]) -> Option<String> {
    parse(data).ok()?.build_id().ok()?.map(hexadecimal)
}

/// The separate debug file, by build id or by name, as the debuggers look for it. One that was made for
/// another build is refused: its addresses and offsets would be wrong.
fn debug_file(
    path: &Path,
    file: &object::File<'_>,
    refused: &mut Vec<String>,
) -> Option<(PathBuf, Vec<u8>)> {
    let mut places = Vec::new();
    if let Some(id) = file.build_id().ok().flatten().map(hexadecimal)
        && id.len() > 2
    {
        let (first, rest) = id.split_at(2);
        places.push(PathBuf::from(format!("/usr/lib/debug/.build-id/{first}/{rest}.debug")));
    }
    if let Ok(Some((name, _))) = file.gnu_debuglink()
        && let (Ok(name), Some(folder)) = (std::str::from_utf8(name), path.parent())
    {
        places.push(folder.join(name));
        places.push(folder.join(".debug").join(name));
        let inside = folder.strip_prefix("/").unwrap_or(folder);
        places.push(Path::new("/usr/lib/debug").join(inside).join(name));
    }
    for place in places.into_iter().filter(|place| place != path) {
        let Ok(data) = fs::read(&place) else { continue };
        if is_of(file, &data) {
            return Some((place, data));
        }
        refused.push(format!(
            "{} was made for another build of the program; install the debug symbols of this one",
            place.display()
        ));
    }
    None
}

/// Whether a debug file was made with a program: both bear the same build id, or, where one of them has
/// none, the file has the checksum that the program names.
fn is_of(file: &object::File<'_>, data: &[u8]) -> bool {
    let own = file.build_id().ok().flatten().map(hexadecimal);
    match (own, build_id(data), file.gnu_debuglink()) {
        (Some(own), Some(other), _) => own == other,
        (_, _, Ok(Some((_, wanted)))) => {
            let mut sum = flate2::Crc::new();
            sum.update(data);
            sum.sum() == wanted
        }
        _ => true,
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Functions by their addresses, from any table.
pub(crate) type Functions = BTreeMap<u64, (String, u64)>;

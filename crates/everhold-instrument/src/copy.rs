//! A copy of a package, in which statements are inserted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::facts::{Begin, Facts};
use crate::insert::{Inserted, Language, Part, insert};
use crate::plan::{Plan, Statement};

/// Folders with the history of a source, which are not copied.
const HISTORY: &[&str] = &[".git", ".hg", ".svn"];

/// A copy with insertions, of which some may be left out.
#[derive(Debug)]
pub struct Copy<'a> {
    facts: &'a Facts,
    statements: Vec<Statement>,
    language: Language,
    /// The import of the probe in Go.
    probe: String,
    /// The package in the original and in the copy.
    from: PathBuf,
    /// The package in the copy.
    pub to: PathBuf,
    left_out: BTreeSet<Part>,
    inserted: BTreeMap<usize, Inserted>,
}

impl<'a> Copy<'a> {
    /// Inserts the statements of a plan into the copy of a package, in which the probe has this
    /// import if it is of Go.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or written.
    pub fn new(
        facts: &'a Facts,
        plan: &Plan,
        (language, probe): (Language, String),
        from: &Path,
        to: &Path,
    ) -> io::Result<Copy<'a>> {
        let mut copy = Copy {
            facts,
            statements: plan.statements.clone(),
            language,
            probe,
            from: from.to_owned(),
            to: to.to_owned(),
            left_out: BTreeSet::new(),
            inserted: BTreeMap::new(),
        };
        (0..facts.files.len()).try_for_each(|file| copy.write(file))?;
        Ok(copy)
    }

    /// Writes a file with its insertions.
    fn write(&mut self, file: usize) -> io::Result<()> {
        let path = &self.facts.files[file].path;
        let statements: Vec<(usize, Statement)> = self
            .statements
            .iter()
            .enumerate()
            .filter(|(number, it)| {
                it.file == file && !self.left_out.contains(&Part::Statement(*number))
            })
            .map(|(number, it)| (number, self.remaining(number, it)))
            .collect();
        let begins: Vec<(usize, &Begin)> = self
            .facts
            .begins
            .iter()
            .enumerate()
            .filter(|(number, it)| {
                it.file == file && !self.left_out.contains(&Part::Begin(*number))
            })
            .collect();
        if statements.is_empty() && begins.is_empty() && !self.inserted.contains_key(&file) {
            return Ok(());
        }
        let text = fs::read_to_string(self.from.join(path))?;
        let statements: Vec<(usize, &Statement)> =
            statements.iter().map(|(n, it)| (*n, it)).collect();
        let mut inserted = insert(&text, self.language, &statements, &begins);
        if self.language == Language::Go && !inserted.parts.is_empty() {
            inserted = crate::go::imported(inserted, &self.probe);
        }
        write_changed(&self.to.join(path), inserted.text.as_bytes())?;
        self.inserted.insert(file, inserted);
        Ok(())
    }

    /// Returns a statement without the variables that were left out, which keep their numbers.
    fn remaining(&self, number: usize, statement: &Statement) -> Statement {
        let mut statement = statement.clone();
        for value in 0..statement.values.len() {
            if self.left_out.contains(&Part::Value(number, value)) {
                statement.values[value].1.clear();
            }
        }
        statement
    }

    /// Leaves out the parts at these places of the copy; returns whether there are any.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn leave_out(&mut self, places: &[Place]) -> io::Result<usize> {
        let before = self.left_out.len();
        let mut changed = BTreeSet::new();
        for place in places {
            let Some(file) = self.file(&place.path) else { continue };
            let Some(inserted) = self.inserted.get(&file) else { continue };
            if let Some(part) = inserted.part_at(&place.bytes(&inserted.text)) {
                self.left_out.insert(part);
                changed.insert(file);
            }
        }
        changed.into_iter().try_for_each(|file| self.write(file))?;
        Ok(self.left_out.len() - before)
    }

    /// Leaves out everything in the files of these places, or in all files; returns the number of
    /// parts.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn leave_out_files(&mut self, places: &[Place]) -> io::Result<usize> {
        let before = self.left_out.len();
        let mut files: BTreeSet<usize> =
            places.iter().filter_map(|place| self.file(&place.path)).collect();
        files.retain(|file| {
            self.inserted.get(file).is_some_and(|inserted| !inserted.parts.is_empty())
        });
        if files.is_empty() {
            files = self.inserted.keys().copied().collect();
        }
        for file in files {
            let parts: Vec<Part> =
                self.inserted[&file].parts.iter().map(|(_, part)| *part).collect();
            self.left_out.extend(parts);
            self.write(file)?;
        }
        Ok(self.left_out.len() - before)
    }

    /// Returns the file of the package at a path of the copy.
    fn file(&self, path: &Path) -> Option<usize> {
        let path = path.strip_prefix(&self.to).unwrap_or(path).to_str()?;
        let path = path.strip_prefix("./").unwrap_or(path);
        self.facts.files.iter().position(|file| file.path == path)
    }

    /// Returns the number of variables that are recorded, each at each of its places.
    #[must_use]
    pub fn recorded(&self) -> usize {
        let values = |(number, it): (usize, &Statement)| match self
            .left_out
            .contains(&Part::Statement(number))
        {
            true => 0,
            false => (0..it.values.len())
                .filter(|at| !self.left_out.contains(&Part::Value(number, *at)))
                .count(),
        };
        self.statements.iter().enumerate().map(values).sum()
    }

    /// Returns the names of the variables that are recorded somewhere.
    #[must_use]
    pub fn names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for (number, it) in self.statements.iter().enumerate() {
            for (at, (name, _)) in it.values.iter().enumerate() {
                let is_left = self.left_out.contains(&Part::Value(number, at))
                    || self.left_out.contains(&Part::Statement(number));
                if !is_left {
                    names.insert(name.clone());
                }
            }
        }
        names
    }

    /// Returns the parts that were left out, in words.
    #[must_use]
    pub fn left_out(&self) -> Vec<String> {
        let place = |it: &Statement| format!("{}:{}", self.facts.files[it.file].path, it.line);
        let words = |part: &Part| match part {
            Part::Value(number, value) => {
                let it = &self.statements[*number];
                format!("{}: `{}`", place(it), it.values[*value].1)
            }
            Part::Statement(number) => {
                let it = &self.statements[*number];
                format!("{}: all of `{}`", place(it), it.site)
            }
            Part::Begin(number) => {
                let it = &self.facts.begins[*number];
                format!("{}: the beginning of `{}`", self.facts.files[it.file].path, it.name)
            }
        };
        self.left_out.iter().map(words).collect()
    }
}

/// A place of an error of the compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub path: PathBuf,
    /// The first byte, and the one after the last; if they are not known, the line and column from 1.
    pub at: Span,
}

/// The part of a file that an error names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Span {
    /// Bytes.
    Bytes(usize, usize),
    /// A line and a column in bytes, both from 1.
    Line(usize, usize),
}

impl Place {
    fn bytes(&self, text: &str) -> std::ops::Range<usize> {
        match self.at {
            Span::Bytes(start, end) => start..end,
            Span::Line(line, column) => {
                let start: usize =
                    text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
                let at = start + column.saturating_sub(1);
                at..at + 1
            }
        }
    }
}

/// Copies a folder, without what was built and without its history. Files that are the same stay
/// untouched, so that a second build is short.
///
/// # Errors
///
/// If a file cannot be read or written.
pub fn tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let (path, kind) = (entry.path(), entry.file_type()?);
        let is_left = HISTORY.iter().any(|left| name == *left) || is_built(&path);
        if is_left || to.starts_with(&path) && kind.is_dir() {
            continue;
        }
        let to = to.join(&name);
        if kind.is_dir() {
            tree(&path, &to)?;
        } else if kind.is_symlink() {
            // The copy has the content: a link could lead out of it.
            match fs::metadata(&path) {
                Ok(target) if target.is_dir() => tree(&path, &to)?,
                Ok(_) => write_changed(&to, &fs::read(&path)?)?,
                Err(_) => {}
            }
        } else if kind.is_file() {
            write_changed(&to, &fs::read(&path)?)?;
            fs::set_permissions(&to, fs::metadata(&path)?.permissions())?;
        }
    }
    Ok(())
}

/// Whether a folder has what Cargo built, and is not a part of the source with the same name.
fn is_built(path: &Path) -> bool {
    let has = |folder: Option<&Path>, name| folder.is_some_and(|it| it.join(name).exists());
    path.file_name().is_some_and(|name| name == "target")
        && (has(Some(path), "CACHEDIR.TAG") || has(path.parent(), "Cargo.toml"))
}

/// Writes a file unless it has this content.
pub(crate) fn write_changed(path: &Path, content: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    // A file without the right to write is replaced.
    let _ = fs::remove_file(path);
    fs::write(path, content)
}

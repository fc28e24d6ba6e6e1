//! The files that an analysis writes.

use std::fmt;
use std::path::PathBuf;

use everhold_sim::engine::{attempt, write_whole};

/// The files written so far, and the errors.
#[derive(Clone, Debug, Default)]
pub(super) struct Saved {
    files: Vec<PathBuf>,
    problems: Vec<String>,
    /// The page of the first finding.
    pub(super) page: Option<PathBuf>,
    /// The regressions file, or the reason why the execution was not kept there.
    kept: Option<Result<PathBuf, String>>,
}

impl Saved {
    /// Makes and writes a file; records the problem and returns false if either fails.
    pub(super) fn write(&mut self, file: PathBuf, make: impl Fn() -> Vec<u8>) -> bool {
        let what = file.display().to_string();
        match attempt(&what, || write_whole(&file, &make())) {
            Ok(()) => self.files.push(file),
            Err(problem) => {
                self.problems.push(problem);
                return false;
            }
        }
        true
    }

    pub(super) fn page(&mut self, file: PathBuf, make: impl Fn() -> Vec<u8>) {
        if self.write(file.clone(), make) {
            self.page.get_or_insert(file);
        }
    }

    /// Records the outcome of writing the entry in the regressions file.
    pub(super) fn keep(&mut self, kept: Option<Result<PathBuf, String>>) {
        self.kept = kept;
    }
}

impl fmt::Display for Saved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for file in &self.files {
            writeln!(f, "    written      {}", file.display())?;
        }
        match &self.kept {
            Some(Ok(file)) => writeln!(
                f,
                "    keep         {}: commit it, this execution runs first from now on",
                file.display()
            )?,
            Some(Err(problem)) => writeln!(f, "    ! not kept   {problem}")?,
            None => {}
        }
        for problem in &self.problems {
            writeln!(f, "    ! not saved  {problem}")?;
        }
        Ok(())
    }
}

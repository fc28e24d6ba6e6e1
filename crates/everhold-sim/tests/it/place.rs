//! Tests of this binary in processes and folders of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A folder that looks like a workspace: with a source file, and a target folder with this binary.
pub(crate) struct Place {
    folder: PathBuf,
    source: &'static str,
}

impl Place {
    pub(crate) fn new(name: &str, source: &'static str) -> Place {
        let name = format!("everhold-{name}-{}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let place = Place { folder, source };
        write(&place.folder.join(source), "");
        write(&place.folder.join("target/CACHEDIR.TAG"), "");
        let exe = std::env::current_exe().expect("tests know themselves");
        fs::create_dir_all(place.exe().parent().expect("it has a folder")).expect("a folder");
        let linked =
            fs::hard_link(&exe, place.exe()).or_else(|_| fs::copy(&exe, place.exe()).map(drop));
        linked.expect("this binary can be copied");
        place
    }

    fn exe(&self) -> PathBuf {
        self.folder.join("target/debug/it")
    }

    pub(crate) fn root(&self) -> &Path {
        &self.folder
    }

    /// The regressions file of the source file.
    pub(crate) fn regressions(&self) -> PathBuf {
        let source = self.folder.join(self.source);
        let stem = source.file_stem().expect("it has a name");
        let folder = source.parent().expect("it has a folder").join("everhold-regressions");
        folder.join(stem).with_extension("txt")
    }

    /// The folder for findings.
    pub(crate) fn findings(&self) -> PathBuf {
        self.folder.join("target/everhold")
    }

    /// The ids of all findings.
    pub(crate) fn ids(&self) -> Vec<String> {
        let folders = fs::read_dir(self.findings()).into_iter().flatten().flatten();
        let names = folders.map(|one| one.file_name().to_string_lossy().into_owned());
        // The outcomes of all tests are beside the findings.
        let mut ids: Vec<_> = names.filter(|name| name != "tests").collect();
        ids.sort();
        ids
    }

    /// The pages of all findings.
    pub(crate) fn pages(&self) -> Vec<PathBuf> {
        self.ids().iter().map(|id| self.findings().join(id).join("report.html")).collect()
    }

    /// A command that runs tests; their output is kept.
    pub(crate) fn command(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Command {
        let mut command = Command::new(self.exe());
        command.args(arguments).arg("--nocapture").current_dir(&self.folder);
        command.envs(environment.iter().copied()).env_remove("RUST_BACKTRACE");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn start(&self, test: &str, environment: &[(&str, &str)]) -> Child {
        self.command(&["--exact", test], environment).spawn().expect("the test starts")
    }

    pub(crate) fn run(&self, test: &str, environment: &[(&str, &str)]) -> Output {
        self.command(&["--exact", test], environment).output().expect("the test runs")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn write(file: &Path, content: &str) {
    fs::create_dir_all(file.parent().expect("it has a folder")).expect("a folder");
    fs::write(file, content).expect("a file");
}

/// All that a process printed.
pub(crate) fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

//! Which instructions of which programs get a breakpoint, before anything is touched.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::binary::Binary;
use crate::error::{AttachError, AttachErrorKind};
use crate::language::{ProbeFile, When};
use crate::processes::{self, FileId};
use crate::program;
use crate::resolve::{Problem, Resolution, Site, resolve};

/// The largest number of processes that get links of their own. With more, one link for all that run
/// the program is cheaper, and the kernel's program looks whose hit it is.
pub(crate) const LINKS_MAX: usize = 8;

/// The observed programs and processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// These processes.
    pub processes: Vec<u32>,
    /// All processes that run these programs, now and later.
    pub programs: Vec<PathBuf>,
}

/// One program or library, and the probes in it.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its name.
    pub name: PathBuf,
    /// A name that works from here, even if the process sees other files.
    pub(crate) open: PathBuf,
    pub(crate) file: FileId,
    /// The processes; none if all that run it are meant.
    pub processes: Option<Vec<u32>>,
    /// The executable whose processes are meant, which is another file for a library.
    pub(crate) executable: FileId,
    /// The description, in words.
    pub kind: String,
    /// Its probes.
    pub resolution: Resolution,
}

/// The changes that attaching would make.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The probe file.
    pub file: ProbeFile,
    /// Each program and library with a probe in it.
    pub targets: Vec<Target>,
}

/// The capabilities that attaching needs, by their numbers.
const CAPABILITIES: [(&str, u32); 2] = [("CAP_BPF", 39), ("CAP_PERFMON", 38)];

/// The capability that includes the others.
const ALL: u32 = 21;

/// The capabilities that this process lacks.
#[must_use]
pub fn missing_capabilities() -> Vec<&'static str> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = held.and_then(|held| u64::from_str_radix(held.trim(), 16).ok()).unwrap_or(0);
    let has = |number: u32| held & (1 << number | 1 << ALL) != 0;
    CAPABILITIES.into_iter().filter(|(_, number)| !has(*number)).map(|(name, _)| name).collect()
}

impl Plan {
    /// Finds every probe in the programs that are meant.
    ///
    /// # Errors
    ///
    /// If a process or a program is not there or cannot be read. Lines that cannot be used are in
    /// the resolutions.
    pub fn make(file: ProbeFile, targets: &Targets) -> Result<Plan, AttachError> {
        let mut plan = Plan { file, targets: Vec::new() };
        for process in &targets.processes {
            let open = processes::executable(*process);
            let name = processes::executable_name(*process);
            let name = name.ok_or_else(|| {
                let text = "it is not there, or its program may not be read from here";
                AttachError::new(AttachErrorKind::Absent, format!("process {process}"), text)
            })?;
            plan.executable(&name, &open, Some(*process))?;
        }
        for program in &targets.programs {
            let whole = fs::canonicalize(program);
            let whole = whole.map_err(|error| {
                AttachError::new(AttachErrorKind::Absent, program.display(), error)
            })?;
            plan.executable(&whole, &whole, None)?;
        }
        for target in &mut plan.targets {
            target.resolution =
                resolve_in(&target.open, &target.name, &plan.file, &mut target.kind)?;
        }
        plan.look_in_libraries();
        Ok(plan)
    }

    fn executable(
        &mut self,
        name: &Path,
        open: &Path,
        process: Option<u32>,
    ) -> Result<(), AttachError> {
        let file = FileId::of(open).ok_or_else(|| {
            AttachError::new(AttachErrorKind::Unreadable, name.display(), "it cannot be read")
        })?;
        let known = self.targets.iter_mut().find(|target| target.file == file);
        match (known, process) {
            (Some(Target { processes: Some(known), .. }), Some(process)) => known.push(process),
            // All processes of it are meant anyway.
            (Some(target), _) => target.processes = None,
            (None, process) => self.targets.push(Target {
                name: name.to_owned(),
                open: open.to_owned(),
                file,
                executable: file,
                processes: process.map(|process| vec![process]),
                kind: String::new(),
                resolution: Resolution::default(),
            }),
        }
        Ok(())
    }

    /// Looks for functions that a program does not have in the libraries that its processes have
    /// loaded.
    fn look_in_libraries(&mut self) {
        let mut found = Vec::new();
        for target in &mut self.targets {
            let process = match &target.processes {
                Some(processes) => processes.first().copied(),
                None => processes::running(target.file).first().copied(),
            };
            let Some(process) = process else { continue };
            for (name, open) in processes::libraries(process) {
                let absent = |problem: &Problem| problem.is_absent;
                if !target.resolution.problems.iter().any(absent) {
                    break;
                }
                let (mut kind, file) = (String::new(), FileId::of(&open));
                let resolution = resolve_in(&open, &name, &self.file, &mut kind);
                let (Ok(mut resolution), Some(file)) = (resolution, file) else { continue };
                let lines = &self.file.probes;
                let was_absent = |line: usize| {
                    target.resolution.problems.iter().any(|p| p.is_absent && p.line == line)
                };
                resolution.resolved.retain(|one| was_absent(lines[one.probe].line));
                resolution.problems.retain(|p| !p.is_absent && was_absent(p.line));
                let here = |line: usize| {
                    resolution.resolved.iter().any(|one| lines[one.probe].line == line)
                        || resolution.problems.iter().any(|p| p.line == line)
                };
                target.resolution.problems.retain(|p| !(p.is_absent && here(p.line)));
                if resolution.resolved.is_empty() && resolution.problems.is_empty() {
                    continue;
                }
                found.push(Target {
                    name,
                    open,
                    file,
                    executable: target.executable,
                    processes: target.processes.clone(),
                    kind,
                    resolution,
                });
            }
        }
        self.targets.extend(found);
    }

    /// Everything that cannot be used, with the program that it is about.
    pub fn problems(&self) -> impl Iterator<Item = (&Path, &Problem)> {
        self.targets.iter().flat_map(|target| {
            target.resolution.problems.iter().map(|problem| (target.name.as_path(), problem))
        })
    }

    /// Says what attaching would do: every address, instruction and its cost, and what is needed.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut text = String::new();
        for target in &self.targets {
            let who = match &target.processes {
                None => "all processes that run it, now and later".to_owned(),
                Some(one) if one.len() == 1 => format!("process {}", one[0]),
                Some(all) => format!("{} processes", all.len()),
            };
            // Writing to a text does not fail.
            let _ = writeln!(text, "{} ({}), {who}", target.name.display(), target.kind);
            for resolved in &target.resolution.resolved {
                let probe = &self.file.probes[resolved.probe];
                let _ = writeln!(text, "  line {}: {}", probe.line, probe.text);
                let when = match probe.when {
                    When::Entry => "seen at",
                    When::Return => "entered at",
                };
                site(&mut text, when, &resolved.entry);
                resolved.exits.iter().for_each(|exit| site(&mut text, "seen at", exit));
                for note in &resolved.notes {
                    let _ = writeln!(text, "    note: {note}");
                }
            }
            for problem in &target.resolution.problems {
                let _ = writeln!(text, "  line {}: cannot be used: {}", problem.line, problem.text);
            }
        }
        let missing = missing_capabilities();
        let all = CAPABILITIES.map(|(name, _)| name).join(" and ");
        let _ = match missing.is_empty() {
            true => writeln!(text, "needs {all}, which are there"),
            false => writeln!(text, "needs {all}; missing: {}", missing.join(" and ")),
        };
        text
    }
}

fn site(text: &mut String, when: &str, site: &Site) {
    let cost = match site.is_cheap {
        true => "the kernel carries it out itself: about 1 µs a hit",
        false => "single-stepped: about 10 µs a hit in a virtual machine",
    };
    let Site { address, offset, place, instruction, .. } = site;
    let _ = writeln!(
        text,
        "    {when} {place} = {address:#x} (offset {offset:#x}), {instruction}, {cost}"
    );
}

fn resolve_in(
    open: &Path,
    name: &Path,
    file: &ProbeFile,
    kind: &mut String,
) -> Result<Resolution, AttachError> {
    let binary = Binary::read_as(open, name)?;
    let debug = match (binary.has_debug(), binary.debug_path()) {
        (true, Some(path)) => format!("debug information in {}", path.display()),
        (true, None) => "with debug information".to_owned(),
        (false, _) => "no debug information".to_owned(),
    };
    let go = if binary.is_go { "Go, " } else { "" };
    let build_id = binary.build_id.as_deref().unwrap_or("none");
    *kind = format!("{go}{debug}, build id {build_id}");
    for refused in &binary.refused {
        kind.push_str("; ");
        kind.push_str(refused);
    }
    let mut resolution = resolve(&binary, &file.probes)?;
    let lines = &file.probes;
    let (fit, large): (Vec<_>, Vec<_>) =
        std::mem::take(&mut resolution.resolved).into_iter().partition(program::fits);
    resolution.resolved = fit;
    resolution.problems.extend(large.into_iter().map(|one| Problem {
        line: lines[one.probe].line,
        text: "it reads more values than fit into one program of the kernel; use two lines".into(),
        is_absent: false,
    }));
    Ok(resolution)
}

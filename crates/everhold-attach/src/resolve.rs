//! From the lines of a probe file to instructions and registers of a program.

use std::collections::BTreeMap;

use crate::binary::{Binary, Functions};
use crate::capture::{Base, Capture, RSP};
use crate::code::{self, Kind as Code};
use crate::dwarf::{Debug, Found, Function, Place, Position, Sections, Typed, is_called};
use crate::error::{AttachError, AttachErrorKind};
use crate::golang;
use crate::language::{Expr, Path, Probe, Root, Step, When};

mod without;

/// An instruction that gets a breakpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its address in the program.
    pub address: u64,
    /// Where it is in the file.
    pub offset: u64,
    /// The function, and how far the instruction is from its beginning.
    pub place: String,
    /// Its kind.
    pub instruction: &'static str,
    /// Whether the kernel carries it out itself: a microsecond instead of ten in a virtual machine.
    pub is_cheap: bool,
    /// The number of the condition under which a jump leaves the function; it is seen only then.
    pub(crate) condition: Option<u8>,
}

/// One line of the probe file in one function of a program.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The line, as its position among the probes of the file.
    pub probe: usize,
    /// The whole name of the function.
    pub function: String,
    /// Where it is entered.
    pub entry: Site,
    /// Where it is left, for probes that look then.
    pub exits: Vec<Site>,
    /// Remarks for the reader of a plan.
    pub notes: Vec<String>,
    /// The stack pointer at the entry, as a register and a distance from it.
    pub(crate) frame: (u8, i64),
    pub(crate) captures: Vec<Capture>,
    /// Which capture each path reads.
    pub(crate) reads: Vec<(Path, usize)>,
    pub(crate) is_go: bool,
    /// Whether the probed instruction is the jump of Go's prologue, which is passed again if it is
    /// taken.
    pub(crate) skips_taken: bool,
}

/// A line that cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The number of the line, from 1.
    pub line: usize,
    /// Why, and what to do.
    pub text: String,
    /// Whether the program does not have the function at all.
    pub is_absent: bool,
}

/// The result of resolving the lines of a probe file in one program.
#[derive(Clone, Debug, Default)]
pub struct Resolution {
    /// The places that can be probed.
    pub resolved: Vec<Resolved>,
    /// The lines that cannot be used, with the reasons.
    pub problems: Vec<Problem>,
}

/// The names of functions, from the best source there is.
enum Names<'a> {
    Debug(Box<Debug<'a>>, BTreeMap<String, Found>),
    Table(Functions),
}

/// Finds every probe in a program.
///
/// # Errors
///
/// If its debug information, or the table of functions of Go, cannot be read at all.
pub fn resolve(binary: &Binary, probes: &[Probe]) -> Result<Resolution, AttachError> {
    let fail =
        |why: String| AttachError::new(AttachErrorKind::Unreadable, binary.path.display(), why);
    let sections = Sections::of(binary);
    let names = match binary.has_debug() {
        true => {
            let debug = Debug::of(&sections)
                .map_err(|error| fail(format!("its debug information cannot be read: {error}")))?;
            let wanted: Vec<&str> = probes.iter().map(|probe| probe.function.as_str()).collect();
            let found = debug.functions(&wanted);
            Names::Debug(Box::new(debug), found)
        }
        false if binary.is_go => Names::Table(golang::functions(binary).map_err(fail)?),
        false => {
            let symbols = binary.symbols().into_iter();
            Names::Table(symbols.map(|s| (s.address, (s.name, s.size))).collect())
        }
    };
    let mut resolution = Resolution::default();
    for (index, probe) in probes.iter().enumerate() {
        let resolver = Resolver { binary, probe, index };
        match resolver.all(&names) {
            Ok(found) => resolution.resolved.extend(found),
            Err(failure) => {
                let (text, is_absent) = failure;
                resolution.problems.push(Problem { line: probe.line, text, is_absent });
            }
        }
    }
    Ok(resolution)
}

/// Why a line cannot be used, and whether that is because the function is not there.
type Failure = (String, bool);

struct Resolver<'a> {
    binary: &'a Binary,
    probe: &'a Probe,
    index: usize,
}

impl Resolver<'_> {
    fn all(&self, names: &Names<'_>) -> Result<Vec<Resolved>, Failure> {
        match names {
            Names::Debug(debug, found) => {
                let found = found.get(&self.probe.function).cloned().unwrap_or_default();
                self.debugged(debug, &found)
            }
            Names::Table(functions) => self.tabled(functions),
        }
    }

    fn debugged(&self, debug: &Debug<'_>, found: &Found) -> Result<Vec<Resolved>, Failure> {
        let wanted = &self.probe.function;
        let Some(first) = found.functions.first() else {
            return Err(match found.inlined {
                0 => (format!("{} has no function {wanted}", self.binary.path.display()), true),
                sites => (
                    format!(
                        "{wanted} has no code of its own: the compiler inlined it at {sites} \
                         sites; probe its caller, or keep it out of line"
                    ),
                    false,
                ),
            });
        };
        let mut names: Vec<&str> = found.functions.iter().map(|f| f.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        if names.len() > 1 {
            return Err((ambiguous(wanted, &names), false));
        }
        let mut resolved = Vec::new();
        for function in &found.functions {
            let mut one = self.function(debug, function).map_err(|text| (text, false))?;
            if found.inlined > 0 {
                let (name, sites) = (&first.name, found.inlined);
                one.notes.push(format!(
                    "{name} is inlined at {sites} further sites, where it is not seen"
                ));
            }
            resolved.push(one);
        }
        Ok(resolved)
    }

    fn function(&self, debug: &Debug<'_>, function: &Function) -> Result<Resolved, String> {
        let parameters = debug.parameters(function);
        let places = debug.places(function, &parameters);
        let mut captures = Captures::default();
        for path in self.paths() {
            let explain = |why| format!("{path}: {why}");
            let start = match &path.root {
                Root::Parameter(number) => {
                    let index = *number;
                    let die = parameters.get(index).ok_or_else(|| {
                        explain(format!(
                            "{} has {} parameters, counted from $0",
                            function.name,
                            parameters.len()
                        ))
                    })?;
                    (Position::of(&places.parameters[index]), debug.type_of(*die))
                }
                Root::Named(name) => {
                    let named = |die| debug.name(die).as_deref() == Some(name);
                    let index = parameters.iter().position(|die| named(*die));
                    let index = index.ok_or_else(|| {
                        let known = parameters.iter().filter_map(|die| debug.name(*die));
                        let known: Vec<String> = known.collect();
                        let there = known.join(", ");
                        explain(format!("{} has the parameters {there}", function.name))
                    })?;
                    (Position::of(&places.parameters[index]), debug.type_of(parameters[index]))
                }
                Root::Result => (Position::of(&self.result()), debug.result(function)),
                Root::Process => (Ok(whole(Base::Process)), None),
                Root::Thread => (Ok(whole(Base::Thread)), None),
            };
            let mut value = Typed { position: start.0.map_err(explain)?, of: start.1 };
            for step in &path.steps {
                value = match step {
                    Step::Field(name) => debug.field(&value, name).map_err(explain)?,
                    Step::At(offset) => without::at(&value, *offset).map_err(explain)?,
                };
            }
            let capture = match path.kind {
                Some(kind) => without::capture_as(&value.position, kind),
                None => debug.capture(&value),
            };
            captures.add(path, capture.map_err(explain)?);
        }
        let (at, frame) = (places.address, places.frame);
        self.finish(&function.name, &function.ranges, at, frame, captures)
    }

    fn result(&self) -> Place {
        let registers = if self.binary.is_go { [0, 3] } else { [0, 1] };
        Place::Parts(registers.map(|register| (Base::Result(register), 8)).to_vec())
    }

    /// The paths that the line reads.
    fn paths(&self) -> impl Iterator<Item = &Path> {
        self.probe.expressions().filter_map(|expression| match expression {
            Expr::Read(path) => Some(path),
            Expr::Literal(_) => None,
        })
    }

    fn tabled(&self, functions: &Functions) -> Result<Vec<Resolved>, Failure> {
        let wanted = &self.probe.function;
        let found: Vec<_> =
            functions.iter().filter(|(_, (name, _))| is_called(name, wanted)).collect();
        let mut names: Vec<&str> = found.iter().map(|(_, (name, _))| name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        if names.len() > 1 {
            return Err((ambiguous(wanted, &names), false));
        }
        if found.is_empty() {
            return Err((self.absent(functions), true));
        }
        let one = |(start, (name, size)): (&u64, &(String, u64))| {
            let mut captures = Captures::default();
            for path in self.paths() {
                let capture = without::capture(path, self.binary.is_go);
                captures.add(path, capture.map_err(|why| format!("{path}: {why}"))?);
            }
            let mut ranges = vec![(*start, start + size.max(&1))];
            ranges.extend(cold_parts(functions, name));
            self.finish(name, &ranges, *start, (RSP, 0), captures)
        };
        found.into_iter().map(|entry| one(entry).map_err(|text| (text, false))).collect()
    }

    fn absent(&self, functions: &Functions) -> String {
        let (wanted, path) = (&self.probe.function, self.binary.path.display());
        if let Some(refused) = self.binary.refused.first() {
            return format!("{path} has no function {wanted}, and {refused}");
        }
        match functions.is_empty() {
            true => format!(
                "{path} is stripped, so {wanted} cannot be found; install its debug symbols (on \
                 Debian the package with -dbgsym at the end), or build it without stripping"
            ),
            false => format!(
                "{path} has no function {wanted} among its {} symbols, and no debug information; \
                 it may be inlined, or the debug symbols are missing",
                functions.len()
            ),
        }
    }

    /// Chooses the instructions.
    fn finish(
        &self,
        name: &str,
        ranges: &[(u64, u64)],
        at: u64,
        frame: (u8, i64),
        captures: Captures,
    ) -> Result<Resolved, String> {
        let mut notes = Vec::new();
        let start = ranges[0].0;
        let (address, skips_taken) = match at == start {
            true => self.cheapest(ranges[0]),
            false => (at, false),
        };
        let exits = match self.probe.when {
            When::Entry => Vec::new(),
            When::Return => self.exits(name, ranges, &mut notes)?,
        };
        Ok(Resolved {
            probe: self.index,
            function: name.to_owned(),
            entry: self.site(name, start, address)?,
            exits,
            notes,
            frame,
            captures: captures.list,
            reads: captures.reads,
            is_go: self.binary.is_go,
            skips_taken,
        })
    }

    /// The first instruction at which the arguments are still in their registers and a breakpoint
    /// is cheap; the first one of all if there is none. In Go, the jump of the prologue: what is
    /// before it runs again when the stack has grown.
    fn cheapest(&self, (start, end): (u64, u64)) -> (u64, bool) {
        let len = usize::try_from(end - start).unwrap_or(usize::MAX);
        let bytes = self.binary.bytes(start, len);
        if self.binary.is_go {
            let growth = code::growth(bytes);
            return (start + growth.unwrap_or(0) as u64, growth.is_some());
        }
        // A mark of where indirect jumps may go is passed by every call, and is not cheap.
        let first = code::decode(bytes);
        let landing = first.filter(|first| first.kind == Code::Landing).map_or(0, |it| it.len);
        let after = bytes.get(landing..).and_then(code::decode);
        match after.is_some_and(|after| after.kind.is_cheap()) {
            true => (start + landing as u64, false),
            false => (start, false),
        }
    }

    fn exits(
        &self,
        name: &str,
        ranges: &[(u64, u64)],
        notes: &mut Vec<String>,
    ) -> Result<Vec<Site>, String> {
        let parts: Vec<(u64, &[u8])> = ranges
            .iter()
            .map(|(start, end)| {
                (*start, self.binary.bytes(*start, usize::try_from(end - start).unwrap_or(0)))
            })
            .collect();
        let exits = code::exits(&parts).map_err(|address| {
            format!(
                "the code of {name} cannot be read at {address:#x}, so its returns are not known"
            )
        })?;
        let sites = exits.jumps.len() + exits.branches.len();
        if sites > 0 {
            notes.push(format!(
                "{name} ends with a jump to another function at {sites} sites; it counts as \
                 returned there, before that function runs"
            ));
        }
        let always = exits.returns.iter().chain(&exits.jumps).map(|address| (*address, None));
        let taken = exits.branches.iter().map(|(address, condition)| (*address, Some(*condition)));
        let all: Vec<(u64, Option<u8>)> = always.chain(taken).collect();
        if all.is_empty() {
            return Err(format!("{name} never returns; use `on entry`"));
        }
        if exits.computed > 0 {
            notes.push(format!(
                "{name} has {} computed jumps; if one of them leaves it, that is not seen",
                exits.computed
            ));
        }
        let start = ranges[0].0;
        let site =
            |(address, condition)| Ok(Site { condition, ..self.site(name, start, address)? });
        all.into_iter().map(site).collect()
    }

    fn site(&self, name: &str, start: u64, address: u64) -> Result<Site, String> {
        let offset = self.binary.offset(address);
        let offset = offset.ok_or_else(|| format!("{address:#x} is not in the file"))?;
        let instruction = code::decode(self.binary.bytes(address, 15));
        let kind = instruction.ok_or_else(|| format!("{address:#x} is no instruction"))?.kind;
        Ok(Site {
            address,
            offset,
            place: format!("{name}+{:#x}", address.wrapping_sub(start)),
            instruction: kind.words(),
            is_cheap: kind.is_cheap(),
            condition: None,
        })
    }
}

/// The parts of a function that compilers put elsewhere since they are rarely run, as symbols show them.
fn cold_parts(functions: &Functions, of: &str) -> Vec<(u64, u64)> {
    let is_part = |name: &str| {
        let number = name.strip_prefix(of).and_then(|rest| rest.strip_prefix(".cold"));
        let digits = |rest: &str| rest.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit());
        number.is_some_and(digits)
    };
    let parts = functions.iter().filter(|(_, (name, size))| *size > 0 && is_part(name));
    parts.map(|(start, (_, size))| (*start, start + size)).collect()
}

fn whole(base: Base) -> Position {
    Position::Parts(vec![(base, 0)])
}

fn ambiguous(wanted: &str, names: &[&str]) -> String {
    let shown = names.iter().take(5).copied().collect::<Vec<_>>().join(", ");
    let more = if names.len() > 5 { ", ..." } else { "" };
    format!("{wanted} names {} functions: {shown}{more}; write more of the name", names.len())
}

/// The values that a line reads, each once.
#[derive(Default)]
struct Captures {
    list: Vec<Capture>,
    reads: Vec<(Path, usize)>,
}

impl Captures {
    fn add(&mut self, path: &Path, capture: Capture) {
        let known = self.list.iter().position(|known| *known == capture);
        let index = known.unwrap_or_else(|| {
            self.list.push(capture);
            self.list.len() - 1
        });
        self.reads.push((path.clone(), index));
    }
}

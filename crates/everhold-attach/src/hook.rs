//! Programs in the kernel: loading, linking and letting go of them.

use std::collections::BTreeMap;
use std::{fmt, io};

use everhold_kernel::Ring;
use everhold_kernel::bpf::{self, Link, LoadError, Map, MapKind, Program, ProgramKind};

use crate::error::{AttachError, AttachErrorKind};
use crate::network::Network;
use crate::plan::{LINKS_MAX, Plan, Target};
use crate::processes::FileId;
use crate::program::{self, COUNTS, Shared, Subject, count};
use crate::resolve::Resolved;

/// The number of calls that may be open at a time, of each line that looks at returns.
const CALLS: u32 = 8_192;

/// The number of processes that can be told apart.
const PROCESSES: u32 = 16_384;

/// A line in a function, in force.
#[derive(Debug)]
pub(crate) struct Hook {
    /// The target and the resolved line in it.
    pub(crate) target: usize,
    pub(crate) resolved: usize,
    links: Vec<Link>,
    /// The programs and maps that the links use.
    _programs: Vec<Program>,
    _calls: Option<Map>,
    seen: Counts,
    /// In how many looks in a row it shed hits.
    pub(crate) shedding: u32,
}

/// The counts of a hook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) hits: u64,
    pub(crate) lost: u64,
    pub(crate) shed: u64,
    pub(crate) unpaired: u64,
}

/// All hooks, and the maps that they share.
#[derive(Debug)]
pub(crate) struct Hooks {
    pub(crate) ring: Ring,
    counts: Map,
    pub(crate) processes: Map,
    /// How many records of messages were lost.
    lost: Map,
    lost_before: u64,
    pub(crate) hooks: Vec<Hook>,
}

/// The kind of an error of the kernel. The numbers are the same on every machine that is supported.
fn kind(error: &io::Error) -> AttachErrorKind {
    match error.raw_os_error() {
        // EPERM and EACCES.
        Some(1 | 13) => AttachErrorKind::NotAllowed,
        // ENOENT and ESRCH.
        Some(2 | 3) => AttachErrorKind::Absent,
        // ENFILE, EMFILE and ENOMEM.
        Some(12 | 23 | 24) => AttachErrorKind::Limit,
        // EOPNOTSUPP.
        Some(95) => AttachErrorKind::Unsupported,
        _ => AttachErrorKind::Refused,
    }
}

/// Why a program could not be loaded.
pub(crate) fn refused(place: impl fmt::Display, error: &LoadError) -> AttachError {
    // A program that the verifier looked at was allowed.
    let kind = if error.log.is_empty() { kind(&error.error) } else { AttachErrorKind::Refused };
    AttachError::new(kind, place, format!("the kernel refuses the program: {error}"))
}

fn unmade(error: &io::Error) -> AttachError {
    AttachError::new(kind(error), "a map of BPF", format!("the kernel refuses it: {error}"))
}

impl Hooks {
    /// Sets all breakpoints of a plan.
    pub(crate) fn set(plan: &Plan, ring_bytes: u32) -> Result<Hooks, AttachError> {
        let create = |kind, key, value, entries| {
            Map::create(kind, key, value, entries).map_err(|error| unmade(&error))
        };
        let rows =
            plan.targets.iter().map(|target| target.resolution.resolved.len()).sum::<usize>();
        let rows = u32::try_from(rows.max(1)).unwrap_or(u32::MAX);
        let ring = create(MapKind::Ring, 0, 0, ring_bytes)?;
        let mut hooks = Hooks {
            ring: Ring::new(ring).map_err(|error| unmade(&error))?,
            counts: create(MapKind::Array, 4, COUNTS, rows)?,
            processes: create(MapKind::Hash, 4, 8, PROCESSES)?,
            lost: create(MapKind::Array, 4, 8, 1)?,
            lost_before: 0,
            hooks: Vec::new(),
        };
        for (index, target) in plan.targets.iter().enumerate() {
            for resolved in 0..target.resolution.resolved.len() {
                let hook = hooks.hook(plan, index, resolved)?;
                hooks.hooks.push(hook);
            }
        }
        Ok(hooks)
    }

    fn hook(&self, plan: &Plan, index: usize, of: usize) -> Result<Hook, AttachError> {
        let target = &plan.targets[index];
        let resolved = &target.resolution.resolved[of];
        let probe = &plan.file.probes[resolved.probe];
        let calls = match resolved.exits.is_empty() {
            true => None,
            false => {
                let words = program::kept(resolved).len().max(1);
                let size = u32::try_from(8 * words).unwrap_or(u32::MAX);
                let calls = Map::create(MapKind::LruHash, 24, size, CALLS);
                Some(calls.map_err(|error| unmade(&error))?)
            }
        };
        let shared = Shared {
            ring: self.ring.map(),
            counts: &self.counts,
            processes: target.is_filtered().then_some(&self.processes),
        };
        let number = u32::try_from(self.hooks.len()).unwrap_or(u32::MAX);
        let (conditions, budget) = (&probe.conditions[..], plan.file.budget);
        let subject = Subject { resolved, conditions, number, budget };
        let load = |code: Vec<bpf::Insn>| {
            Program::load(ProgramKind::Uprobes, &code)
                .map_err(|error| refused(&resolved.function, &error))
        };
        let (mut programs, mut links) = (Vec::new(), Vec::new());
        let link = |program: &Program, offsets: &[u64]| link(target, resolved, program, offsets);
        match &calls {
            None => {
                let seen = load(program::at_entry(shared, subject))?;
                links.extend(link(&seen, &[resolved.entry.offset])?);
                programs.push(seen);
            }
            Some(calls) => {
                let entered = load(program::before_return(shared, subject, calls))?;
                // A call is seen only if its entry was, so the exits come first.
                for (condition, exits) in by_condition(resolved) {
                    let left = load(program::at_return(shared, subject, calls, condition))?;
                    links.extend(link(&left, &exits)?);
                    programs.push(left);
                }
                links.extend(link(&entered, &[resolved.entry.offset])?);
                programs.push(entered);
            }
        }
        Ok(Hook {
            target: index,
            resolved: of,
            links,
            _programs: programs,
            _calls: calls,
            seen: Counts::default(),
            shedding: 0,
        })
    }

    /// Begins to observe the messages of the processes.
    pub(crate) fn network(&self) -> Result<Network, AttachError> {
        Network::watch(self.ring.map(), &self.processes, &self.lost)
    }

    /// How many records of messages were lost since the last look.
    pub(crate) fn lost_messages(&mut self) -> u64 {
        let row = self.lost.get(&[0; 4]).ok().flatten().and_then(|row| row.try_into().ok());
        let now = row.map_or(0, u64::from_ne_bytes);
        now - std::mem::replace(&mut self.lost_before, now)
    }

    /// The counts of a hook since the last look.
    pub(crate) fn news(&mut self, number: usize) -> Counts {
        let key = u32::try_from(number).unwrap_or(u32::MAX).to_ne_bytes();
        let row = self.counts.get(&key).ok().flatten().unwrap_or_default();
        let at = |offset: i16| {
            let start = usize::try_from(offset).unwrap_or(0);
            let part = row.get(start..start + 8).and_then(|part| part.try_into().ok());
            part.map_or(0, u64::from_ne_bytes)
        };
        let now = Counts {
            hits: at(count::HITS),
            lost: at(count::LOST),
            shed: at(count::SHED),
            unpaired: at(count::UNPAIRED),
        };
        let before = std::mem::replace(&mut self.hooks[number].seen, now);
        Counts {
            hits: now.hits - before.hits,
            lost: now.lost - before.lost,
            shed: now.shed - before.shed,
            unpaired: now.unpaired - before.unpaired,
        }
    }

    /// Removes the breakpoints of a hook.
    pub(crate) fn let_go(&mut self, number: usize) {
        self.hooks[number].links.clear();
    }

    pub(crate) fn is_set(&self, number: usize) -> bool {
        !self.hooks[number].links.is_empty()
    }

    /// A process is observed.
    pub(crate) fn admit(&self, process: u32) -> Result<(), AttachError> {
        let set = self.processes.set(&process.to_ne_bytes(), &1_u64.to_ne_bytes());
        set.map_err(|error| {
            let text = format!("it cannot be observed as well: {error}");
            AttachError::new(AttachErrorKind::Limit, format!("process {process}"), text)
        })
    }

    /// A process is gone.
    pub(crate) fn dismiss(&self, process: u32) {
        // A number that stays in the map is one that is looked for in vain.
        let _ = self.processes.remove(&process.to_ne_bytes());
    }
}

/// The offsets of the exits of a function, by the condition under which they are taken.
fn by_condition(resolved: &Resolved) -> BTreeMap<Option<u8>, Vec<u64>> {
    let mut exits: BTreeMap<Option<u8>, Vec<u64>> = BTreeMap::new();
    for exit in &resolved.exits {
        exits.entry(exit.condition).or_default().push(exit.offset);
    }
    exits
}

impl Target {
    /// Whether hits are looked at in the kernel for whose they are.
    fn is_filtered(&self) -> bool {
        match &self.processes {
            Some(processes) => processes.len() > LINKS_MAX,
            // Every process may have the library, and only some run the program.
            None => self.file != self.executable,
        }
    }
}

fn link(
    target: &Target,
    resolved: &Resolved,
    program: &Program,
    offsets: &[u64],
) -> Result<Vec<Link>, AttachError> {
    let name = target.name.display();
    if FileId::of(&target.open) != Some(target.file) {
        let text = "it was replaced by another file just now";
        return Err(AttachError::new(AttachErrorKind::Replaced, name, text));
    }
    let one = |process: Option<u32>| {
        bpf::link_uprobes(program, &target.open, offsets, process).map_err(|error| {
            let kind = match error.raw_os_error() {
                // EINVAL: a kernel before 6.6 does not know links of several breakpoints.
                Some(22) => AttachErrorKind::Unsupported,
                _ => kind(&error),
            };
            let place = &resolved.entry.place;
            let who = process.map_or_else(String::new, |process| format!(" of process {process}"));
            let text = format!("the kernel refuses breakpoints at {place}{who}: {error}");
            AttachError::new(kind, &name, text)
        })
    };
    match &target.processes {
        Some(processes) if processes.len() <= LINKS_MAX => {
            processes.iter().map(|process| one(Some(*process))).collect()
        }
        _ => Ok(vec![one(None)?]),
    }
}

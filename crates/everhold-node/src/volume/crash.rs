//! Which of the pending changes a crash keeps.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Change, FileId, Image, Pending, Shape, Volume};

/// A model of what a crash can do to changes that were not synced. Each allows everything that the
/// one before it allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum CrashModel {
    /// Only the process dies: everything that was written stays.
    Kill,
    /// The machine loses power under a file system such as ext4 with its default settings. Its
    /// journal keeps names, removals, renames and cuts in their order. A file grows in order, and
    /// what it says there is written before its new length. Contents that are overwritten in place
    /// reach the disk in any order. A sync of any file commits the journal.
    #[default]
    Ext4,
    /// The machine loses power under any file system that POSIX allows: names, lengths and contents
    /// reach the disk in any order. A sync of a file keeps its contents and length, not its name.
    Any,
}

impl CrashModel {
    /// All models, the one that allows least first.
    pub const ALL: [CrashModel; 3] = [CrashModel::Kill, CrashModel::Ext4, CrashModel::Any];
}

/// The question whose answer is a [`Mode`].
pub const MODE: &str = "what the disk kept";

/// The first decision of a crash. Losing nothing comes first, so that shrinking removes losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every change survives.
    KeepAll,
    /// None does.
    LoseAll,
    /// The first ones do.
    Prefix,
    /// Each for itself.
    Each,
    /// All but one, and those that need it.
    AllButOne,
    /// One, and those that it needs.
    OnlyOne,
}

impl Mode {
    /// All modes, in the order of their numbers.
    pub const ALL: [Mode; 6] =
        [Mode::KeepAll, Mode::LoseAll, Mode::Prefix, Mode::Each, Mode::AllButOne, Mode::OnlyOne];
}

/// A part of a pending change that a crash keeps or loses as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The change's place in the log of pending changes.
    at: usize,
    part: Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Whole,
    /// The length of a file that grew.
    Length,
    /// The contents of the file at that place.
    Contents,
}

/// The losses of a crash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Names of what was lost, such as `wal[3]`.
    pub units: Vec<String>,
    /// Everything that could be lost was.
    pub all: bool,
    /// The one of them of which a half was kept, and its number among those that could be torn.
    pub torn: Option<(String, u32)>,
}

impl Volume {
    /// A crash: keeps what `choose` decides, out of what the model allows. `choose` is asked
    /// questions by name and answers below the number that comes with them; zero loses nothing.
    /// If `may_tear`, one of the records or entries that are lost may be kept in half.
    pub fn crash(
        &mut self,
        model: CrashModel,
        may_tear: bool,
        choose: &mut dyn FnMut(&str, u32) -> u32,
    ) -> Lost {
        if model == CrashModel::Kill {
            // The machine goes on: nothing is lost, and nothing is more durable than before.
            return Lost::default();
        }
        let units = self.units(model);
        if units.is_empty() {
            return self.come_up(&units, &[], None);
        }
        let kept = self.choose_kept(model, &units, choose);
        let mut torn = None;
        if may_tear {
            let candidates = self.tearable(model, &units, &kept);
            let answer = match candidates.len() {
                0 => 0,
                some => choose("torn write", some as u32 + 1),
            };
            let chosen = answer.checked_sub(1).and_then(|number| candidates.get(number as usize));
            torn = chosen.map(|unit| (*unit, answer));
        }
        self.come_up(&units, &kept, torn)
    }

    /// The changes that a crash can keep or lose, in the order in which they were written.
    #[must_use]
    pub fn units(&self, model: CrashModel) -> Vec<Unit> {
        let mut units = Vec::new();
        for (at, pending) in self.pending.iter().enumerate() {
            let grows = matches!(pending.change, Change::Cell { grows: Some(_), .. });
            match model {
                CrashModel::Kill => {}
                CrashModel::Ext4 if pending.journaled => {}
                CrashModel::Any if grows && pending.shape != Shape::Record => {
                    units.push(Unit { at, part: Part::Length });
                    units.push(Unit { at, part: Part::Contents });
                }
                CrashModel::Ext4 | CrashModel::Any => units.push(Unit { at, part: Part::Whole }),
            }
        }
        units
    }

    fn choose_kept(
        &self,
        model: CrashModel,
        units: &[Unit],
        choose: &mut dyn FnMut(&str, u32) -> u32,
    ) -> Vec<bool> {
        let count = units.len();
        let modes = if count == 1 { 2 } else { Mode::ALL.len() };
        let mode = Mode::ALL[choose(MODE, modes as u32) as usize];
        let mut kept = vec![mode != Mode::LoseAll; count];
        match mode {
            Mode::KeepAll | Mode::LoseAll => {}
            Mode::Prefix => {
                let lost = choose("writes lost at the end", count as u32 + 1) as usize;
                kept[count - lost..].fill(false);
            }
            Mode::Each => {
                for (kept, name) in kept.iter_mut().zip(self.names_of(units)) {
                    *kept = choose(&loses(&name), 2) == 0;
                }
            }
            Mode::AllButOne => kept[choose("the write lost", count as u32) as usize] = false,
            Mode::OnlyOne => {
                let one = choose("the write kept", count as u32) as usize;
                kept.fill(false);
                self.keep_with_needs(model, units, &mut kept, one);
            }
        }
        self.lose_dependants(model, units, &mut kept);
        kept
    }

    fn keep_with_needs(&self, model: CrashModel, units: &[Unit], kept: &mut [bool], one: usize) {
        kept[one] = true;
        for later in (0..=one).rev().filter(|later| units.len() > *later) {
            if kept[later] {
                for earlier in 0..later {
                    kept[earlier] |= self.needs(model, units[later], units[earlier]);
                }
            }
        }
    }

    /// Loses what cannot survive without something that is lost.
    fn lose_dependants(&self, model: CrashModel, units: &[Unit], kept: &mut [bool]) {
        for later in 0..units.len() {
            let missing =
                |earlier: usize| !kept[earlier] && self.needs(model, units[later], units[earlier]);
            kept[later] = kept[later] && !(0..later).any(missing);
        }
    }

    /// Whether a unit can only survive together with an earlier one.
    fn needs(&self, model: CrashModel, later: Unit, earlier: Unit) -> bool {
        let contents = |unit: Unit| unit.part != Part::Length;
        let (later_change, earlier_change) =
            (&self.pending[later.at].change, &self.pending[earlier.at].change);
        // A sector is a picture of the page cache: never something later without the earlier.
        let same_cell = later.at != earlier.at && later_change.replaces(earlier_change);
        if model != CrashModel::Ext4 {
            // A file has one length: a later one covers those before it.
            let same_length = later_change.file() == earlier_change.file()
                && !contents(later)
                && !contents(earlier);
            return same_length || (same_cell && contents(later) && contents(earlier));
        }
        let Change::Cell { file, at, grows, .. } = later_change else {
            return earlier_change.is_journaled();
        };
        match earlier_change {
            Change::Cell { grows: Some(_), file: other, .. }
                if grows.is_some() && file == other =>
            {
                true
            }
            Change::Cell { .. } => same_cell,
            _ if grows.is_some() => true,
            Change::Cut(other, to) => file == other && self.cell_of(later, *to) <= *at,
            _ => false,
        }
    }

    /// The first cell that is wholly behind a length.
    fn cell_of(&self, unit: Unit, length: u64) -> u64 {
        match self.pending[unit.at].shape {
            Shape::Bytes => length.div_ceil(super::SECTOR),
            Shape::Record | Shape::Log => length,
        }
    }

    fn tearable(&self, model: CrashModel, units: &[Unit], kept: &[bool]) -> Vec<Unit> {
        let whole = |at: usize| {
            let unit = units[at];
            let Pending { change, shape, .. } = &self.pending[unit.at];
            let long = matches!(change, Change::Cell { bytes, .. } if bytes.len() > 1);
            let needs_lost =
                |earlier: usize| !kept[earlier] && self.needs(model, unit, units[earlier]);
            let is_contents = unit.part != Part::Length && *shape != Shape::Bytes;
            !kept[at] && long && is_contents && !(0..at).any(needs_lost)
        };
        (0..units.len()).filter(|at| whole(*at)).map(|at| units[at]).collect()
    }

    /// The files after a crash; reads and syncs begin from there.
    fn come_up(&mut self, units: &[Unit], kept: &[bool], torn: Option<(Unit, u32)>) -> Lost {
        let mut lost = Lost::default();
        if kept.contains(&false) {
            let names = self.names_of(units);
            lost.all = kept.iter().all(|kept| !kept);
            let is_torn = |unit: &Unit| torn.is_some_and(|(torn, _)| torn == *unit);
            for ((unit, kept), name) in units.iter().zip(kept).zip(names) {
                if is_torn(unit) {
                    lost.torn = torn.map(|(_, number)| (name.clone(), number));
                }
                if !kept {
                    lost.units.push(name);
                }
            }
        }
        self.now = self.image(units, kept, torn.map(|(unit, _)| unit));
        self.pending.clear();
        self.durable.clone_from(&self.now);
        self.sweep();
        lost
    }

    fn image(&self, units: &[Unit], kept: &[bool], torn: Option<Unit>) -> Image {
        let mut image = self.durable.clone();
        let mut units = units.iter().zip(kept).peekable();
        for (at, pending) in self.pending.iter().enumerate() {
            if units.peek().is_none_or(|(unit, _)| unit.at != at) {
                image.apply(&pending.change, pending.shape);
            }
            while let Some((unit, kept)) = units.next_if(|(unit, _)| unit.at == at) {
                if torn == Some(*unit) {
                    image.apply(&half(&pending.change), pending.shape);
                } else if *kept {
                    image.apply_part(pending, unit.part);
                }
            }
        }
        image
    }

    /// A name for each unit; no two are alike.
    fn names_of(&self, units: &[Unit]) -> Vec<String> {
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        let mut names = Vec::with_capacity(units.len());
        for unit in units {
            let name = self.name_of(*unit);
            let times = seen.entry(name.clone()).or_default();
            *times += 1;
            names.push(if *times == 1 { name } else { format!("{name} (write {times})") });
        }
        names
    }

    fn name_of(&self, unit: Unit) -> String {
        let Pending { change, shape, .. } = &self.pending[unit.at];
        let length_of = |file: FileId| format!("length of {}", self.file_name(file));
        match change {
            Change::Link(name, _) => format!("name {name}"),
            Change::Unlink(name) => format!("removal of {name}"),
            Change::Rename(from, to, _) => format!("rename of {from} to {to}"),
            Change::Cell { file, .. } if unit.part == Part::Length => length_of(*file),
            Change::Cell { file, at, .. } => match shape {
                Shape::Record => self.file_name(*file),
                Shape::Log => format!("{}[{at}]", self.file_name(*file)),
                Shape::Bytes => format!("{} sector {at}", self.file_name(*file)),
            },
            Change::Cut(file, _) => format!("cut of {}", self.file_name(*file)),
            Change::Extend(file, _) => length_of(*file),
            Change::Drop(file, _) => format!("dropped beginning of {}", self.file_name(*file)),
        }
    }

    fn file_name(&self, file: FileId) -> String {
        let images = [&self.now, &self.durable];
        let mut names = images.into_iter().flat_map(|image| &image.names);
        let given = || {
            self.pending.iter().find_map(|pending| match &pending.change {
                Change::Link(name, to) | Change::Rename(_, name, to) if *to == file => Some(name),
                _ => None,
            })
        };
        let name = names.find(|(_, named)| **named == file).map(|(name, _)| name).or_else(given);
        name.cloned().unwrap_or_default()
    }
}

/// The question whether a unit is lost.
#[must_use]
pub fn loses(unit: &str) -> String {
    format!("loses {unit}")
}

/// Half of the bytes reached the disk.
fn half(change: &Change) -> Change {
    let mut torn = change.clone();
    if let Change::Cell { bytes, .. } = &mut torn {
        bytes.truncate(bytes.len() / 2);
    }
    torn
}

impl Image {
    fn apply_part(&mut self, pending: &Pending, part: Part) {
        match (part, &pending.change) {
            (Part::Length, _) => self.grow(pending),
            (Part::Contents, Change::Cell { file, at, bytes, .. }) => {
                let file = self.entry(*file, pending.shape);
                if matches!(file.shape, Shape::Bytes) || *at < file.length {
                    file.put(*at, bytes);
                }
            }
            _ => self.apply(&pending.change, pending.shape),
        }
    }
}

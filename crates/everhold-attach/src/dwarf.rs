//! Debug information: functions by name, and the tree that describes their parameters.

use std::borrow::Cow;
use std::collections::BTreeMap;

use gimli::{AttributeValue, DwarfSections, EndianSlice, LittleEndian, UnitOffset};

use crate::binary::Binary;

mod places;
mod types;

pub(crate) use places::Place;
pub(crate) use types::{Position, Typed, capture_as};

pub(crate) type Bytes<'a> = EndianSlice<'a, LittleEndian>;
type Entry<'a> = gimli::DebuggingInformationEntry<Bytes<'a>>;
type Value<'a> = AttributeValue<Bytes<'a>>;

/// The sections of a file, which the debug information borrows.
pub(crate) struct Sections<'a> {
    own: DwarfSections<Cow<'a, [u8]>>,
    shared: DwarfSections<Cow<'a, [u8]>>,
    pub(crate) frames: Cow<'a, [u8]>,
    pub(crate) frames_address: u64,
    pub(crate) text_address: u64,
}

impl<'a> Sections<'a> {
    pub(crate) fn of(binary: &'a Binary) -> Sections<'a> {
        let load = |id: gimli::SectionId| Ok::<_, gimli::Error>(binary.debug_section(id.name()));
        let shared = |id: gimli::SectionId| Ok::<_, gimli::Error>(binary.shared_section(id.name()));
        Sections {
            own: DwarfSections::load(load).expect("loading does not fail"),
            shared: DwarfSections::load(shared).expect("loading does not fail"),
            frames: binary.section(".eh_frame"),
            frames_address: binary.section_address(".eh_frame").unwrap_or(0),
            text_address: binary.section_address(".text").unwrap_or(0),
        }
    }
}

/// An entry of the tree: its unit, and where it is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Die {
    unit: usize,
    offset: usize,
}

/// The debug information of one file.
pub(crate) struct Debug<'a> {
    dwarf: gimli::Dwarf<Bytes<'a>>,
    /// The units of the file, and after them those of the shared file.
    units: Vec<gimli::Unit<Bytes<'a>>>,
    own: usize,
    sections: &'a Sections<'a>,
}

/// A function that has code.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) die: Die,
    /// The parts of its code, the one with its entry first.
    pub(crate) ranges: Vec<(u64, u64)>,
}

/// The debug information about a wanted function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) functions: Vec<Function>,
    /// In how many places its code was put instead of a call.
    pub(crate) inlined: usize,
    /// The whole names of functions without code.
    pub(crate) declared: Vec<String>,
}

/// An entry that may be a wanted function, before its name is known.
struct Candidate {
    die: Die,
    name: Option<String>,
    origin: Option<Die>,
    is_inlined: bool,
}

impl<'a> Debug<'a> {
    pub(crate) fn of(sections: &'a Sections<'a>) -> gimli::Result<Debug<'a>> {
        let slice = |bytes: &'a Cow<'a, [u8]>| EndianSlice::new(bytes, LittleEndian);
        let dwarf = sections.own.borrow_with_sup(Some(&sections.shared), slice);
        let mut units = Vec::new();
        let mut headers = dwarf.units();
        while let Some(header) = headers.next()? {
            units.push(dwarf.unit(header)?);
        }
        let own = units.len();
        if let Some(shared) = dwarf.sup() {
            let mut headers = shared.units();
            while let Some(header) = headers.next()? {
                units.push(shared.unit(header)?);
            }
        }
        Ok(Debug { dwarf, units, own, sections })
    }

    /// The debug information that a unit belongs to.
    fn dwarf(&self, unit: usize) -> &gimli::Dwarf<Bytes<'a>> {
        if unit < self.own { &self.dwarf } else { self.dwarf.sup().unwrap_or(&self.dwarf) }
    }

    fn unit(&self, die: Die) -> &gimli::Unit<Bytes<'a>> {
        &self.units[die.unit]
    }

    fn entry(&self, die: Die) -> Option<Entry<'a>> {
        self.units.get(die.unit)?.entry(UnitOffset(die.offset)).ok()
    }

    /// The entry that an attribute refers to.
    fn target(&self, unit: usize, value: Value<'a>) -> Option<Die> {
        match value {
            AttributeValue::UnitRef(offset) => Some(Die { unit, offset: offset.0 }),
            AttributeValue::DebugInfoRef(offset) if unit < self.own => {
                self.at(0..self.own, offset.0)
            }
            AttributeValue::DebugInfoRef(offset) | AttributeValue::DebugInfoRefSup(offset) => {
                self.at(self.own..self.units.len(), offset.0)
            }
            _ => None,
        }
    }

    fn at(&self, among: std::ops::Range<usize>, offset: usize) -> Option<Die> {
        let start = |unit: &gimli::Unit<_>| {
            unit.header.debug_info_offset().map_or(usize::MAX, |offset| offset.0)
        };
        let (first, units) = (among.start, &self.units[among]);
        let index = units.partition_point(|unit| start(unit) <= offset).checked_sub(1)?;
        Some(Die { unit: first + index, offset: offset - start(&units[index]) })
    }

    /// Where an entry says what it does not say itself.
    fn origin(&self, unit: usize, entry: &Entry<'a>) -> Option<Die> {
        [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification]
            .into_iter()
            .find_map(|attribute| self.target(unit, entry.attr_value(attribute)?))
    }

    /// An attribute of an entry, or of where it comes from, with the unit that it is in.
    fn inherited(&self, die: Die, attribute: gimli::DwAt) -> Option<(usize, Value<'a>)> {
        let mut die = die;
        for _ in 0..4 {
            let entry = self.entry(die)?;
            if let Some(value) = entry.attr_value(attribute) {
                return Some((die.unit, value));
            }
            die = self.origin(die.unit, &entry)?;
        }
        None
    }

    fn text(&self, unit: usize, value: Value<'a>) -> Option<String> {
        let text = self.dwarf(unit).attr_string(&self.units[unit], value).ok()?;
        Some(text.to_string_lossy().into_owned())
    }

    pub(crate) fn name(&self, die: Die) -> Option<String> {
        let (unit, value) = self.inherited(die, gimli::DW_AT_name)?;
        self.text(unit, value)
    }

    pub(crate) fn type_of(&self, die: Die) -> Option<Die> {
        let (unit, value) = self.inherited(die, gimli::DW_AT_type)?;
        self.target(unit, value)
    }

    fn children(&self, die: Die) -> Vec<Die> {
        let mut found = Vec::new();
        let Ok(mut tree) = self.unit(die).entries_tree(Some(UnitOffset(die.offset))) else {
            return found;
        };
        let Ok(root) = tree.root() else { return found };
        let mut children = root.children();
        while let Ok(Some(child)) = children.next() {
            found.push(Die { unit: die.unit, offset: child.entry().offset().0 });
        }
        found
    }

    fn children_of(&self, die: Die, tag: gimli::DwTag) -> Vec<Die> {
        let mut children = self.children(die);
        children.retain(|child| self.entry(*child).is_some_and(|entry| entry.tag() == tag));
        children
    }

    /// The parameters of a function, in their order.
    pub(crate) fn parameters(&self, function: &Function) -> Vec<Die> {
        let is_result = |die: &Die| {
            // Go lists its results among the parameters.
            let flag = self.inherited(*die, gimli::DW_AT_variable_parameter);
            matches!(flag, Some((_, AttributeValue::Flag(true))))
        };
        let mut found = self.children_of(function.die, gimli::DW_TAG_formal_parameter);
        found.retain(|die| !is_result(die));
        found
    }

    /// The type of the result of a function; of the first one in Go.
    pub(crate) fn result(&self, function: &Function) -> Option<Die> {
        let listed = self.children_of(function.die, gimli::DW_TAG_formal_parameter);
        let known = self.parameters(function);
        let first = listed.into_iter().find(|die| !known.contains(die));
        self.type_of(first.unwrap_or(function.die))
    }

    /// Finds functions by their whole names or the ends of them.
    pub(crate) fn functions(&self, wanted: &[&str]) -> BTreeMap<String, Found> {
        let mut candidates = Vec::new();
        for unit in 0..self.own {
            // A damaged unit hides its own functions only.
            let _ = self.candidates(unit, wanted, &mut candidates);
        }
        let names: BTreeMap<Die, String> = candidates
            .iter()
            .filter_map(|candidate| Some((candidate.die, candidate.name.clone()?)))
            .collect();
        let mut found: BTreeMap<String, Found> =
            wanted.iter().map(|name| ((*name).to_owned(), Found::default())).collect();
        for candidate in &candidates {
            let mut origin = candidate.origin;
            let mut name = candidate.name.as_ref();
            // The whole name is where the function is declared, inside its class.
            while let Some(die) = origin {
                name = names.get(&die).or(name);
                let entry = self.entry(die);
                origin = entry.and_then(|entry| self.origin(die.unit, &entry));
            }
            let Some(name) = name else { continue };
            for (wanted, found) in &mut found {
                if is_called(name, wanted) {
                    self.sort_in(candidate, name, found);
                }
            }
        }
        found
    }

    fn sort_in(&self, candidate: &Candidate, name: &str, found: &mut Found) {
        if candidate.is_inlined {
            found.inlined += 1;
            return;
        }
        let ranges = self.ranges(candidate.die);
        if ranges.is_empty() {
            found.declared.push(name.to_owned());
            return;
        }
        // One function may be described by several units.
        if found.functions.iter().all(|known| known.ranges != ranges) {
            let (name, die) = (name.to_owned(), candidate.die);
            found.functions.push(Function { name, die, ranges });
        }
    }

    fn candidates(
        &self,
        unit: usize,
        wanted: &[&str],
        found: &mut Vec<Candidate>,
    ) -> gimli::Result<()> {
        let endings: Vec<&str> = wanted.iter().map(|name| last_word(name)).collect();
        let mut entries = self.units[unit].entries();
        let mut scopes: Vec<(isize, String)> = Vec::new();
        while let Some(entry) = entries.next_dfs()? {
            let depth = entry.depth();
            while scopes.last().is_some_and(|(level, _)| *level >= depth) {
                scopes.pop();
            }
            let own = || self.text(unit, entry.attr_value(gimli::DW_AT_name)?);
            match entry.tag() {
                gimli::DW_TAG_namespace
                | gimli::DW_TAG_structure_type
                | gimli::DW_TAG_class_type
                | gimli::DW_TAG_union_type
                | gimli::DW_TAG_enumeration_type => {
                    scopes.push((depth, own().unwrap_or_else(|| "{anonymous}".to_owned())));
                }
                gimli::DW_TAG_subprogram | gimli::DW_TAG_inlined_subroutine => {
                    let named = own();
                    let fits = |name: &String| {
                        let name = without_generics(name);
                        endings.iter().any(|ending| name.ends_with(ending))
                    };
                    if named.as_ref().is_some_and(|name| !fits(name)) {
                        continue;
                    }
                    let whole = named.map(|name| {
                        let outer = scopes.iter().map(|(_, scope)| scope.clone());
                        outer.chain([name]).collect::<Vec<_>>().join("::")
                    });
                    found.push(Candidate {
                        die: Die { unit, offset: entry.offset().0 },
                        name: whole,
                        origin: self.origin(unit, entry),
                        is_inlined: entry.tag() == gimli::DW_TAG_inlined_subroutine,
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The parts of the code of an entry, the one with its entry first.
    fn ranges(&self, die: Die) -> Vec<(u64, u64)> {
        let unit = self.unit(die);
        let Some(entry) = self.entry(die) else { return Vec::new() };
        let Ok(mut ranges) = self.dwarf(die.unit).die_ranges(unit, &entry) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        while let Ok(Some(range)) = ranges.next() {
            // A linker sets the addresses of functions that it leaves out to zero.
            if range.begin != 0 && range.begin < range.end {
                found.push((range.begin, range.end));
            }
        }
        found
    }
}

/// Whether a function with this whole name is meant by a name, which may be the end of it.
pub(crate) fn is_called(whole: &str, wanted: &str) -> bool {
    let ends = |whole: &str| {
        whole
            .strip_suffix(wanted)
            .is_some_and(|before| before.is_empty() || before.ends_with([':', '.', '/', ')', '*']))
    };
    ends(whole) || ends(&without_generics(whole))
}

/// A name without what stands between angle brackets, unless that is the beginning of a part:
/// `<T as Trait>::f`.
fn without_generics(name: &str) -> Cow<'_, str> {
    if !name.contains('<') {
        return Cow::Borrowed(name);
    }
    let (mut depth, mut plain) = (0_usize, String::new());
    for c in name.chars() {
        match c {
            '<' => depth += 1,
            '>' if depth > 0 => depth -= 1,
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    Cow::Owned(plain)
}

/// The last word of a name: `b` of `A::b`.
fn last_word(name: &str) -> &str {
    let start = name.rfind(|c: char| !(c.is_alphanumeric() || c == '_'));
    let word = start.map_or(name, |at| &name[at + 1..]);
    if word.is_empty() { name } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_called_by_the_end_of_its_name() {
        assert!(is_called("shop::Node::step", "Node::step"));
        assert!(is_called("shop::Node::step", "step"));
        assert!(!is_called("shop::Node::step", "tep"));
        assert!(is_called("main.(*Node).Step", "(*Node).Step"));
        assert!(is_called("main.(*Node).Step", "Step"));
        assert!(is_called("shop::map<u8, Vec<u8>>", "map"));
        assert!(is_called(
            "go.etcd.io/etcd/raft.(*raft).becomeLeader",
            "raft.(*raft).becomeLeader"
        ));
        assert_eq!(last_word("a::operator()"), "a::operator()");
    }
}

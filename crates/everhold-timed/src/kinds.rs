//! The kinds of events with their durations.

use std::rc::Rc;

use super::draw::look_up;
use super::draws::Draws;
use super::durations::{Durations, scaled};

/// The class of event to which a name belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Message,
    Timer,
    /// Start, restart and task events, which are named in full.
    Other,
}

#[derive(Clone, Debug)]
struct Kind {
    class: Class,
    name: &'static str,
    /// The quantiles of the durations, by bucket.
    table: Rc<[u64]>,
    /// The scale of the durations in this execution, in percent.
    percent: u32,
    transport: u8,
    /// The number of the first entry with the same name: equal texts may be at several addresses.
    number: u16,
}

/// All kinds by number. They are kept from execution to execution; only the scales change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kinds {
    kinds: Vec<Kind>,
}

impl Kinds {
    /// Returns the entry of a name that was seen before at the same address.
    #[inline]
    pub(crate) fn find(&self, class: Class, name: &'static str) -> Option<u16> {
        let is_it = |kind: &&Kind| std::ptr::eq(kind.name, name) && kind.class == class;
        self.kinds.iter().find(is_it).map(|kind| kind.number)
    }

    #[cold]
    pub(crate) fn add(
        &mut self,
        class: Class,
        name: &'static str,
        durations: &Durations,
        draws: &Draws,
        transport: u8,
    ) -> u16 {
        let known = self.kinds.iter().find(|kind| kind.class == class && kind.name == name);
        let kind = match known {
            Some(kind) => Kind { name, ..kind.clone() },
            None => {
                let label = label(class, name);
                let quantiles = durations.get(&label).unwrap_or(durations.default_quantiles());
                let number = u16::try_from(self.kinds.len()).expect("fewer than 2^16 kinds");
                let percent = draws.kind_percent(&label);
                let table = quantiles.table().into();
                Kind { class, name, table, percent, transport, number }
            }
        };
        self.kinds.push(kind);
        self.kinds[self.kinds.len() - 1].number
    }

    /// Prepares for a new execution.
    pub(crate) fn start(&mut self, draws: &Draws) {
        let scales = draws.changes.iter().any(|c| matches!(c, super::Change::Kind { .. }));
        for kind in &mut self.kinds {
            kind.percent =
                if scales { draws.kind_percent(&label(kind.class, kind.name)) } else { 100 };
        }
    }

    #[inline]
    pub(crate) fn duration(&self, kind: u16, draw: u64) -> u64 {
        let kind = &self.kinds[usize::from(kind)];
        let drawn = look_up(&kind.table, draw);
        if kind.percent == 100 { drawn } else { scaled(drawn, kind.percent) }
    }

    #[inline]
    pub(crate) fn transport(&self, kind: u16) -> u8 {
        self.kinds[usize::from(kind)].transport
    }

    /// Returns the names of all kinds, by number.
    pub(crate) fn labels(&self) -> Vec<String> {
        self.kinds.iter().map(|kind| label(kind.class, kind.name)).collect()
    }
}

fn label(class: Class, name: &str) -> String {
    match class {
        Class::Message | Class::Other => name.to_owned(),
        Class::Timer => format!("timer {name}"),
    }
}

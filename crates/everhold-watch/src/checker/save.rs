//! A checker as a checkpoint.

use everhold_property::State;
use everhold_trace::Value;

use super::exchange::{Exchange, Part};
use super::suspect::LastChanges;
use super::{CheckOptions, PartitionChecker};
use crate::assemble::{Assembler, Change, Changing};
use crate::certainty::Suspicion;
use crate::rule::{self, RuleSet};
use crate::save::{BadCheckpoint, Fields, bad, from_bytes, list, number, to_bytes};
use crate::world::World;

const CHECKPOINT_VERSION: u64 = 7;

impl PartitionChecker {
    /// Everything that the rest of the log is judged with.
    #[must_use]
    pub fn checkpoint(&self) -> Vec<u8> {
        to_bytes(&list([number(CHECKPOINT_VERSION), self.saved()]))
    }

    pub(super) fn saved(&self) -> Value {
        list([
            number(self.next),
            self.set.text().into(),
            self.assembler.save(),
            self.world.save(),
            list(self.rules.iter().map(|rule| rule.save(&self.world))),
            number(self.ticked),
            list(self.suspicions.values().flatten().map(Suspicion::save)),
            self.last_changes.save(),
            list(self.exchange.iter().map(|exchange| exchange.save())),
        ])
    }

    /// A checker that goes on from a checkpoint. Changes before it are not in its traces.
    ///
    /// # Errors
    ///
    /// If the bytes are no checkpoint.
    pub fn restore(options: CheckOptions, bytes: &[u8]) -> Result<PartitionChecker, BadCheckpoint> {
        let mut fields = Fields::of(from_bytes(bytes)?)?;
        let version = fields.number()?;
        if version != CHECKPOINT_VERSION {
            return Err(bad(format_args!(
                "it is of version {version}, and this program reads version {CHECKPOINT_VERSION}"
            )));
        }
        PartitionChecker::load(options, Part::of(options.place), fields.any()?)
    }

    pub(super) fn load(
        options: CheckOptions,
        part: Part,
        saved: Value,
    ) -> Result<PartitionChecker, BadCheckpoint> {
        let mut fields = Fields::of(saved)?;
        let mut checker = PartitionChecker::of_part(options, part);
        checker.next = fields.number()?;
        checker.set = RuleSet::parse(&fields.text()?, "rules").map_err(bad)?;
        checker.assembler = Assembler::load(options.timing, fields.any()?)?;
        checker.world = World::load(fields.any()?)?;
        let saved = fields.items()?;
        let selected = part.select(&checker.set);
        checker.world.has_groups(&selected.groupings(), part.place());
        checker.rules = rule::load(&selected, options.incremental, saved, &checker.world)?;
        checker.ticked = fields.number()?;
        for suspicion in fields.each(Suspicion::load)? {
            let of = (suspicion.violation.rule.clone(), suspicion.violation.key.clone());
            checker.suspicions.entry(of).or_default().push(suspicion);
        }
        checker.last_changes = LastChanges::load(fields.any()?)?;
        if part == Part::ByKey {
            let saved = fields.items()?.pop().ok_or_else(|| bad("it is of one partition"))?;
            checker.exchange = Some(Exchange::load(options, &checker.set, saved)?);
        }
        checker.set_horizon();
        checker.waiting = true;
        checker.remember_members();
        Ok(checker)
    }

    /// So that traces begin with who was there.
    fn remember_members(&mut self) {
        let at = self.assembler.frontier();
        for member in self.world.members().iter().filter(|member| member.up) {
            let (name, kind) = (member.name.clone(), member.kind.clone());
            let change = Change { at, node: member.id, what: Changing::Up { name, kind } };
            self.history.push(change, self.world.mapped());
            if let Some(Value::Record(fields)) = self.world.state(member.id) {
                let values = fields.iter().map(|(name, v)| (name.as_str().into(), v.clone()));
                let what = Changing::State(values.collect());
                let change = Change { at, node: member.id, what };
                self.history.push(change, self.world.mapped());
            }
        }
    }
}

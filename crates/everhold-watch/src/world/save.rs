//! The present snapshot as part of a checkpoint.

use std::collections::BTreeSet;

use everhold_property::Member;
use everhold_trace::Value;
use everhold_trace::wire::Name;

use super::{Cell, Shown, Slot, World, relation_map};
use crate::save::{Fields, Read, list, number, stamp};

impl World {
    pub(crate) fn save(&self) -> Value {
        let nodes = self.members.iter().zip(&self.shown).map(|(member, shown)| {
            list([
                number(member.id.0.into()),
                member.name.as_str().into(),
                member.kind.as_str().into(),
                member.up.into(),
                shown.state.clone(),
                shown.reported.into(),
                list(shown.stale.iter().map(|name| name.as_str().into())),
                number(shown.epoch.into()),
                shown.missing.into(),
                number(shown.known_from.into()),
                shown.whole.into(),
                number(shown.refreshing.map_or(0, u64::from)),
                list(shown.untold.iter().map(|name| name.as_str().into())),
                shown.tupled.into(),
                shown.tells_all.into(),
            ])
        });
        let used = self.slots.iter().enumerate().filter(|(_, slot)| slot.used);
        let slots = used.map(|(place, slot)| {
            // Of the other relations the cells say it.
            let is_said = |name: &Name| slot.cells.iter().any(|cell| cell.relation == *name);
            // In an order that does not depend on which came first.
            let unsaid: BTreeSet<&Name> = self.heard_of(place).filter(|n| !is_said(n)).collect();
            let heard = list(unsaid.into_iter().map(|name| name.as_ref().into()));
            list([slot.key.clone(), list(slot.cells.iter().map(cell)), heard])
        });
        let mapped = self.mapped.iter().map(|name| name.as_str().into());
        list([list(nodes), list(slots), list(mapped)])
    }

    pub(crate) fn load(value: Value) -> Read<World> {
        let mut fields = Fields::of(value)?;
        let mut world = World::default();
        for (member, shown) in fields.each(load_node)? {
            world.schema.observe(&member.kind, &shown.state);
            world.keyed_schema.observe(&member.kind, &shown.state);
            world.members.push(member);
            world.shown.push(shown);
        }
        let slots = fields.each(|f| {
            let slot = Slot { used: true, key: f.any()?, cells: f.each(load_cell)?, heard: 0 };
            let names = f.items()?;
            let heard = names.iter().filter_map(Value::as_text).map(Name::from);
            Ok((slot, heard.collect::<Vec<Name>>()))
        })?;
        for (slot, mut heard) in slots {
            let place = world.slots.len();
            heard.extend(slot.cells.iter().map(|cell| Name::clone(&cell.relation)));
            world.index.insert(slot.key.clone(), place);
            world.slots.push(slot);
            heard.iter().for_each(|name| world.hear(place, name));
        }
        for name in fields.items()? {
            world.mapped.extend(name.as_text().map(str::to_owned));
        }
        world.relearn();
        Ok(world)
    }

    /// The types of tuples, which checkpoints leave out.
    fn relearn(&mut self) {
        for slot in self.slots.clone().iter().take(64) {
            for cell in &slot.cells {
                let (Ok(place), Some(value)) = (self.place(cell.node), &cell.value) else {
                    continue;
                };
                let kind = self.members[place].kind.clone();
                let mut whole = Value::Null;
                relation_map(&mut whole, &cell.relation).insert(slot.key.clone(), value.clone());
                self.schema.observe(&kind, &whole);
                let keyed = Value::record([(cell.relation.to_string(), value.clone())]);
                self.keyed_schema.observe(&kind, &keyed);
            }
        }
    }
}

fn load_node(fields: &mut Fields) -> Read<(Member, Shown)> {
    let (id, name, kind) = (fields.node()?, fields.text()?, fields.text()?);
    let member = Member { id, name, kind, up: fields.flag()? };
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let names = |items: Vec<Value>| {
        items.iter().filter_map(|name| name.as_text().map(str::to_owned)).collect()
    };
    let shown = Shown {
        state: fields.any()?,
        reported: fields.flag()?,
        stale: names(fields.items()?),
        epoch: small(fields.number()?),
        missing: fields.flag()?,
        known_from: small(fields.number()?),
        whole: fields.flag()?,
        refreshing: Some(small(fields.number()?)).filter(|epoch| *epoch > 0),
        untold: names(fields.items()?),
        tupled: fields.flag()?,
        tells_all: fields.flag()?,
    };
    Ok((member, shown))
}

fn cell(cell: &Cell) -> Value {
    list([
        number(cell.node.0.into()),
        cell.relation.as_ref().into(),
        number(cell.epoch.into()),
        stamp(cell.at),
        cell.value.is_some().into(),
        cell.value.clone().unwrap_or_default(),
    ])
}

fn load_cell(fields: &mut Fields) -> Read<Cell> {
    Ok(Cell {
        node: fields.node()?,
        relation: fields.text()?.into(),
        epoch: u32::try_from(fields.number()?).unwrap_or(u32::MAX),
        at: fields.stamp()?,
        value: match (fields.flag()?, fields.any()?) {
            (true, value) => Some(value),
            (false, _) => None,
        },
    })
}

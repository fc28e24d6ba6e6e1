//! An exchange as part of a checkpoint, and what it sends.

use everhold_trace::Value;

use super::{Exchange, Interest, Item, Part, Source, Target};
use crate::assemble::{Change, Changing};
use crate::checker::{CheckOptions, PartitionChecker};
use crate::rule::RuleSet;
use crate::save::{Fields, Read, bad, list, number, stamp};

impl Item {
    pub(super) fn save(&self) -> Value {
        match self {
            Item::Change(Change { at, node, what }) => {
                list([number(0), stamp(*at), number(node.0.into()), what.save()])
            }
            Item::Holds { at, node, tuple } => {
                let what = Changing::Add(tuple.clone()).save();
                list([number(1), stamp(*at), number(node.0.into()), what])
            }
            Item::Mark { at, edition, relations } => {
                let names = relations.iter().map(|name| name.as_str().into());
                list([number(2), stamp(*at), number(*edition), list(names)])
            }
        }
    }

    pub(super) fn load(fields: &mut Fields) -> Read<Item> {
        let (kind, at) = (fields.number()?, fields.stamp()?);
        if kind == 2 {
            let edition = fields.number()?;
            let mut names = Fields::of(fields.any()?)?;
            let relations = std::iter::from_fn(|| names.text().ok()).collect();
            return Ok(Item::Mark { at, edition, relations });
        }
        let (node, what) = (fields.node()?, Changing::load(fields.any()?)?);
        match (kind, what) {
            (0, what) => Ok(Item::Change(Change { at, node, what })),
            (1, Changing::Add(tuple)) => Ok(Item::Holds { at, node, tuple }),
            _ => Err(bad("no item of an exchange is like this")),
        }
    }
}

impl Exchange {
    pub(in crate::checker) fn save(&self) -> Value {
        let source = |source: &Source| {
            let queue = source.queue.iter().map(Item::save);
            let (last, edition) = (number(source.last), number(source.edition));
            list([last, stamp(source.frontier), edition, list(queue)])
        };
        let target = |target: &Target| {
            let draft = target.draft.iter().map(Item::save);
            let (told, said) = (stamp(target.told), number(target.said));
            list([told, said, list(draft)])
        };
        let away = self.away.iter().map(|(node, places)| {
            let places = places.iter().map(|place| number((*place).into()));
            list([number(node.0.into()), list(places)])
        });
        list([
            list(self.sources.iter().map(source)),
            list(self.targets.iter().map(target)),
            self.gathered.saved(),
            number(self.edition),
            list(self.pending.iter().map(|set| set.text().into())),
            stamp(self.quiet_until),
            stamp(self.reached),
            list(away),
        ])
    }

    /// The exchange of a checker with these rules.
    pub(in crate::checker) fn load(
        options: CheckOptions,
        rules: &RuleSet,
        value: Value,
    ) -> Read<Box<Exchange>> {
        let mut exchange = Exchange::of(options).ok_or_else(|| bad("it is of one partition"))?;
        let mut fields = Fields::of(value)?;
        exchange.sources = fields.each(|f| {
            let (last, frontier, edition) = (f.number()?, f.stamp()?, f.number()?);
            let mut source = Source { last, frontier, edition, ..Source::default() };
            source.extend(f.each(Item::load)?);
            Ok(source)
        })?;
        exchange.targets = fields.each(|f| {
            let (told, said) = (f.stamp()?, f.number()?);
            Ok(Target { told, said, draft: f.each(Item::load)?, ..Target::default() })
        })?;
        for (number, target) in (0..).zip(&mut exchange.targets) {
            (target.wanted, target.judges) = Interest::of(rules, number, exchange.place);
        }
        let of = exchange.place.of as usize;
        if exchange.sources.len() != of || exchange.targets.len() != of {
            return Err(bad("it is of another number of partitions"));
        }
        let part = Part::Gathered(exchange.place);
        exchange.gathered = Box::new(PartitionChecker::load(options, part, fields.any()?)?);
        exchange.edition = fields.number()?;
        let mut texts = Fields::of(fields.any()?)?;
        while let Ok(text) = texts.text() {
            exchange.pending.push_back(RuleSet::parse(&text, "rules").map_err(bad)?);
        }
        exchange.quiet_until = fields.stamp()?;
        exchange.reached = fields.stamp()?;
        let away = fields.each(|f| {
            let node = f.node()?;
            let mut places = Fields::of(f.any()?)?;
            let places = std::iter::from_fn(|| places.number().ok());
            Ok((node, places.filter_map(|place| u32::try_from(place).ok()).collect()))
        })?;
        exchange.away = away.into_iter().collect();
        Ok(exchange)
    }
}

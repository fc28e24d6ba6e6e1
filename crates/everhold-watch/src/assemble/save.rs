//! An assembler as part of a checkpoint.

use std::collections::{BTreeMap, VecDeque};

use everhold_trace::wire::{Name, Tuple};
use everhold_trace::{NodeId, Value};

use super::{
    Assembler, Changing, ClockReading, Counts, Ended, MemberState, Strays, Timing, Waiting,
};
use crate::entry::Origin;
use crate::save::{Fields, Read, bad, list, number, stamp};

impl Assembler {
    pub(crate) fn save(&self) -> Value {
        let members = self.members.values().map(MemberState::save);
        let ended = self.ended.iter().map(|(node, ended)| {
            list([
                number(node.0.into()),
                number(ended.incarnation),
                ended.name.as_str().into(),
                ended.kind.as_str().into(),
                number(ended.next_batch),
                ended.clean.into(),
                number(ended.heard),
            ])
        });
        let leaving = self
            .leaving
            .iter()
            .map(|(at, node, what)| list([stamp(*at), number(node.0.into()), what.save()]));
        let Counts { records, late, dropped, gaps, ahead, crashed } = self.counts;
        list([
            list(members),
            list(ended),
            stamp(self.frontier),
            number(self.now),
            list(leaving),
            list([records, late, dropped, gaps, ahead, crashed].map(number)),
            list(self.strays.known.iter().map(|node| list(node.map(|node| number(node.0.into()))))),
        ])
    }

    pub(crate) fn load(timing: Timing, value: Value) -> Read<Assembler> {
        let mut fields = Fields::of(value)?;
        let members = fields.each(MemberState::load)?;
        Ok(Assembler {
            timing,
            members: members.into_iter().map(|member| (member.origin.node, member)).collect(),
            ended: fields.each(load_ended)?.into_iter().collect(),
            frontier: fields.stamp()?,
            now: fields.number()?,
            leaving: fields
                .each(|f| Ok((f.stamp()?, f.node()?, Changing::load(f.any()?)?)))?
                .into(),
            counts: counts(&mut Fields::of(fields.any()?)?)?,
            strays: Strays {
                known: fields.each(|f| Ok(f.node().ok()))?.into_iter().collect(),
                news: Vec::new(),
            },
        })
    }
}

fn load_ended(fields: &mut Fields) -> Read<(NodeId, Ended)> {
    let node = fields.node()?;
    let ended = Ended {
        incarnation: fields.number()?,
        name: fields.text()?,
        kind: fields.text()?,
        next_batch: fields.number()?,
        clean: fields.flag()?,
        heard: fields.number()?,
    };
    Ok((node, ended))
}

fn counts(fields: &mut Fields) -> Read<Counts> {
    Ok(Counts {
        records: fields.number()?,
        late: fields.number()?,
        dropped: fields.number()?,
        gaps: fields.number()?,
        ahead: fields.number()?,
        crashed: fields.number()?,
    })
}

impl MemberState {
    fn save(&self) -> Value {
        let queue = self
            .queue
            .iter()
            .map(|waiting| list([stamp(waiting.at), number(waiting.arrived), waiting.what.save()]));
        list([
            number(self.origin.node.0.into()),
            number(self.origin.incarnation),
            self.name.as_str().into(),
            self.kind.as_str().into(),
            stamp(self.passed),
            number(self.heard),
            number(self.moved),
            number(self.next_batch),
            self.missing.into(),
            self.joining.into(),
            self.ahead.into(),
            self.returned.into(),
            list(self.clock.map(|clock| list([Value::Int(clock.ahead), number(clock.error)]))),
            number(self.error),
            self.vague.into(),
            list(queue),
        ])
    }

    fn load(fields: &mut Fields) -> Read<MemberState> {
        let waiting = |f: &mut Fields| {
            let (at, arrived) = (f.stamp()?, f.number()?);
            Ok(Waiting { at, arrived, what: Changing::load(f.any()?)? })
        };
        Ok(MemberState {
            origin: Origin { node: fields.node()?, incarnation: fields.number()? },
            name: fields.text()?,
            kind: fields.text()?,
            passed: fields.stamp()?,
            heard: fields.number()?,
            moved: fields.number()?,
            next_batch: fields.number()?,
            missing: fields.flag()?,
            joining: fields.flag()?,
            ahead: fields.flag()?,
            returned: fields.flag()?,
            clock: fields.each(load_clock)?.pop(),
            error: fields.number()?,
            vague: fields.flag()?,
            queue: VecDeque::from(fields.each(waiting)?),
        })
    }
}

fn load_clock(fields: &mut Fields) -> Read<ClockReading> {
    Ok(ClockReading { ahead: fields.number()?.cast_signed(), error: fields.number()? })
}

impl Changing {
    pub(crate) fn save(&self) -> Value {
        let named = |word: &str, rest: Value| list([word.into(), rest]);
        match self {
            Changing::Up { name, kind } => {
                named("up", list([name.as_str().into(), kind.as_str().into()]))
            }
            Changing::Down { clean } => named("down", list([(*clean).into()])),
            Changing::Observe(values) => named("observe", record(values)),
            Changing::State(values) => named("state", record(values)),
            Changing::Add(tuple) => named("add", save_tuple(tuple)),
            Changing::Remove(tuple) => named("remove", save_tuple(tuple)),
            Changing::Sent { to, seq } => named("sent", list([number(to.0.into()), number(*seq)])),
            Changing::Received { from, seq } => {
                named("received", list([number(from.0.into()), number(*seq)]))
            }
            Changing::Lost { records } => named("lost", list([number(*records)])),
            Changing::Missing { reason } => named("missing", list([reason.as_str().into()])),
            Changing::Refresh => named("refresh", Value::Null),
            Changing::Whole => named("whole", Value::Null),
            Changing::Joining => named("joining", Value::Null),
            Changing::Present => named("present", Value::Null),
        }
    }

    pub(crate) fn load(value: Value) -> Read<Changing> {
        let mut fields = Fields::of(value)?;
        let word = fields.text()?;
        let rest = |fields: &mut Fields| Fields::of(fields.any()?);
        Ok(match word.as_str() {
            "up" => {
                let mut rest = rest(&mut fields)?;
                Changing::Up { name: rest.text()?, kind: rest.text()? }
            }
            "down" => Changing::Down { clean: rest(&mut fields)?.flag()? },
            "observe" => Changing::Observe(values(fields.record()?)),
            "state" => Changing::State(values(fields.record()?)),
            "add" => Changing::Add(load_tuple(&mut rest(&mut fields)?)?),
            "remove" => Changing::Remove(load_tuple(&mut rest(&mut fields)?)?),
            "sent" => {
                let mut rest = rest(&mut fields)?;
                Changing::Sent { to: rest.node()?, seq: rest.number()? }
            }
            "received" => {
                let mut rest = rest(&mut fields)?;
                Changing::Received { from: rest.node()?, seq: rest.number()? }
            }
            "lost" => Changing::Lost { records: rest(&mut fields)?.number()? },
            "missing" => Changing::Missing { reason: rest(&mut fields)?.text()? },
            "refresh" => Changing::Refresh,
            "whole" => Changing::Whole,
            "joining" => Changing::Joining,
            "present" => Changing::Present,
            other => return Err(bad(format_args!("no change is called {other}"))),
        })
    }
}

fn record(values: &[(Name, Value)]) -> Value {
    Value::record(values.iter().map(|(name, value)| (name.to_string(), value.clone())))
}

fn values(fields: BTreeMap<String, Value>) -> Vec<(Name, Value)> {
    fields.into_iter().map(|(name, value)| (Name::from(name), value)).collect()
}

fn save_tuple(tuple: &Tuple) -> Value {
    list([tuple.relation.as_ref().into(), tuple.key.clone(), tuple.value.clone()])
}

fn load_tuple(fields: &mut Fields) -> Read<Tuple> {
    Ok(Tuple { relation: fields.text()?.into(), key: fields.any()?, value: fields.any()? })
}

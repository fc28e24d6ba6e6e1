//! Rules at work as part of a checkpoint.

use everhold_property::{Checker, Member, Point, Progress, Snapshot, State};
use everhold_trace::{NodeId, Value};

use super::by_key::OneKey;
use super::{Firing, Form, RuleCounts, RuleSet, Watched, view::KeyView};
use crate::notice::ViolationId;
use crate::save::{Fields, Read, list, number, stamp};
use crate::world::World;

impl Watched {
    pub(crate) fn save(&self, world: &World) -> Value {
        let firing = self.firing.iter().map(|(key, firing)| {
            list([
                key.is_some().into(),
                key.clone().unwrap_or_default(),
                number(firing.id.0),
                stamp(firing.since),
                list(
                    firing.waits.iter().flat_map(|(node, at)| [number(node.0.into()), stamp(*at)]),
                ),
            ])
        });
        let form = match &self.form {
            Form::Whole(checker) => save_progress(&checker.progress()),
            Form::Tuples(_) | Form::Present(_) => Value::Null,
            Form::ByKey(by_key) => list(by_key.keys.iter().map(|(slot, one)| {
                list([world.slot(*slot).key.clone(), save_progress(&one.checker.progress())])
            })),
        };
        let RuleCounts { evaluations, unknown, violations, possible, nanos, nanos_max } =
            self.counts;
        let counts = [evaluations, unknown, violations, possible, nanos, nanos_max].map(number);
        let moments = self.moments.as_ref().map_or(Value::Null, |moments| moments.save(world));
        list([
            self.name.as_str().into(),
            self.disabled.into(),
            list(firing),
            form,
            list(counts),
            moments,
            list(self.undecided.iter().map(|slot| world.slot(*slot).key.clone())),
        ])
    }

    /// Puts back what was saved of this rule.
    fn load(&mut self, fields: &mut Fields, world: &World) -> Read<()> {
        self.disabled = fields.flag()?;
        let firing = fields.each(|f| {
            let (some, key) = (f.flag()?, f.any()?);
            let (id, since) = (ViolationId(f.number()?), f.stamp()?);
            let mut waits = Fields::of(f.any()?)?;
            let waits = waits.node().and_then(|node| Ok((node, waits.stamp()?))).ok();
            let firing = Firing { id, since, waits };
            Ok((some.then_some(key), firing))
        })?;
        self.firing = firing.into_iter().collect();
        let form = fields.any()?;
        match &mut self.form {
            Form::Whole(checker) => {
                **checker = Checker::resume(&checker.rule().clone(), load_progress(form)?, world);
            }
            Form::Tuples(_) | Form::Present(_) => {}
            Form::ByKey(by_key) => {
                let keys =
                    Fields::of(list([form]))?.each(|f| Ok((f.any()?, load_progress(f.any()?)?)))?;
                for (key, progress) in keys {
                    let Some(slot) = world.slot_of(&key) else { continue };
                    let view = KeyView::of(&by_key.keyed, world, slot);
                    let checker = Checker::resume(&by_key.rule, progress, &view);
                    if checker.is_open() {
                        by_key.open.insert(slot);
                    }
                    by_key.keys.insert(slot, OneKey { checker, view });
                }
                let late = self.firing.keys().flatten().filter_map(|key| world.slot_of(key));
                let late = late.filter(|_| by_key.has_deadline());
                by_key.late = late.collect();
            }
        }
        let mut counts = Fields::of(fields.any()?)?;
        self.counts = RuleCounts {
            evaluations: counts.number()?,
            unknown: counts.number()?,
            violations: counts.number()?,
            possible: counts.number()?,
            nanos: counts.number()?,
            nanos_max: counts.number()?,
        };
        let moments = fields.any()?;
        let undecided = fields.items()?;
        self.undecided = undecided.iter().filter_map(|key| world.slot_of(key)).collect();
        self.moments.as_mut().map_or(Ok(()), |held| held.load(moments, world))
    }
}

/// The rules of a set as they stood.
pub(crate) fn load(
    set: &RuleSet,
    fast: bool,
    saved: Vec<Value>,
    world: &World,
) -> Read<Vec<Watched>> {
    let mut rules = super::adopt(set, Vec::new(), fast);
    for value in saved {
        let mut fields = Fields::of(value)?;
        let name = fields.text()?;
        if let Some(rule) = rules.iter_mut().find(|rule| rule.name == name) {
            rule.load(&mut fields, world)?;
        }
    }
    Ok(rules)
}

fn point((step, now): Point) -> [Value; 2] {
    [number(step), number(now)]
}

fn save_progress(progress: &Progress) -> Value {
    let owed = progress.owed.iter().map(|(bindings, at)| {
        let bindings =
            bindings.iter().map(|(name, value)| list([name.as_str().into(), value.clone()]));
        let [step, now] = point(*at);
        list([list(bindings), step, now])
    });
    list([
        number(progress.steps),
        progress.hot.map_or(Value::Null, |hot| list(point(hot))),
        Value::Bool(progress.reached),
        list(owed),
        list(progress.past.iter().map(save_snapshot)),
    ])
}

fn load_progress(value: Value) -> Read<Progress> {
    let mut fields = Fields::of(value)?;
    let steps = fields.number()?;
    let hot = match fields.any()? {
        Value::Null => None,
        some => {
            let mut fields = Fields::of(some)?;
            Some((fields.number()?, fields.number()?))
        }
    };
    let reached = fields.any()? == Value::Bool(true);
    let owed = fields.each(|f| {
        let bindings = f.each(|f| Ok((f.text()?, f.any()?)))?;
        Ok((bindings, (f.number()?, f.number()?)))
    })?;
    let past = fields.items()?.into_iter().map(load_snapshot).collect::<Read<Vec<Snapshot>>>()?;
    Ok(Progress { steps, hot, reached, owed, past })
}

fn save_snapshot(snapshot: &Snapshot) -> Value {
    list(snapshot.members().iter().map(|member| {
        let state = snapshot.state(member.id);
        list([
            number(member.id.0.into()),
            member.name.as_str().into(),
            member.kind.as_str().into(),
            member.up.into(),
            state.is_some().into(),
            state.cloned().unwrap_or_default(),
        ])
    }))
}

fn load_snapshot(value: Value) -> Read<Snapshot> {
    let nodes = Fields::of(list([value]))?.each(|f| {
        let (id, name, kind) = (f.node()?, f.text()?, f.text()?);
        let member = Member { id, name, kind, up: f.flag()? };
        let (some, state) = (f.flag()?, f.any()?);
        Ok((member, some.then_some(state)))
    })?;
    let mut snapshot = Snapshot::new(nodes.iter().map(|(member, _)| member.clone()).collect());
    let set: Vec<(NodeId, Value)> =
        nodes.into_iter().filter_map(|(member, state)| Some((member.id, state?))).collect();
    set.into_iter().for_each(|(node, state)| snapshot.set(node, state));
    Ok(snapshot)
}

//! The rows of all nodes, and cached results that stay valid while their inputs do not change.

use std::sync::Arc;

use everhold_trace::{NodeId, Value};

use super::compile::Program;
use super::folding::Folding;
use super::ir::{Test, Unit, UnitBody};
use super::row::Row;
use super::run::{Run, World, place_of};
use crate::state::Member;
use crate::verdict::Verdict;

/// With more tuples than this, results are not cached but computed each time.
const TUPLES_MAX: usize = 1 << 16;

/// After more changes than this without a verdict, everything is recomputed.
const CHANGED_MAX: usize = 256;

/// Judges one state after another, each a small change to the last.
///
/// Copies share the rows, so that a search can branch.
#[derive(Clone, Debug)]
pub struct Evaluator {
    program: Program,
    /// The states that the property looks back on, then the present one.
    worlds: Vec<World>,
    caches: Vec<Cache>,
    /// The places of the members that changed in each of the last states, the present one last.
    changed: Vec<Vec<usize>>,
    /// Whether the caches are invalid.
    stale: bool,
    /// Whether a row changed since the caches were brought up to date.
    behind: bool,
    /// The number of rows that refer to other nodes. While there are any, results depend on more
    /// than their own tuple.
    leading_on: usize,
    /// Under `when quiet`: for each pair of places, whether something is in flight.
    busy: Option<Vec<bool>>,
    /// The nodes that the registers hold from the start.
    fixed: Vec<NodeId>,
}

/// The results of a unit for each tuple of places.
#[derive(Clone, Debug)]
pub(super) enum Cache {
    /// Nothing is kept.
    Off,
    Quantified {
        forall: bool,
        tuples: Vec<Verdict>,
        counts: [u32; 3],
    },
    Aggregate(Folding),
}

impl Cache {
    pub(super) fn verdict(&self) -> Option<Verdict> {
        let Cache::Quantified { forall, counts, .. } = self else { return None };
        let [violated, unknown, holds] = *counts;
        Some(match (*forall, violated > 0, unknown > 0, holds > 0) {
            (true, true, _, _) | (false, _, false, false) => Verdict::Violated,
            (true, false, false, _) | (false, _, _, true) => Verdict::Holds,
            (true, false, true, _) | (false, _, true, false) => Verdict::Unknown,
        })
    }

    /// The cached value, if there is one; it may be unknown.
    #[expect(clippy::option_option, reason = "not kept, unknown, or a value")]
    pub(super) fn value(&self) -> Option<Option<Value>> {
        let Cache::Aggregate(folding) = self else { return None };
        Some(folding.value())
    }

    fn set(&mut self, tuple: usize, verdict: Verdict) {
        let Cache::Quantified { tuples, counts, .. } = self else { return };
        counts[tuples[tuple] as usize] -= 1;
        counts[verdict as usize] += 1;
        tuples[tuple] = verdict;
    }
}

impl Evaluator {
    /// An evaluator for these nodes, of which none has reported.
    #[must_use]
    pub fn new(program: &Program, members: &[Member]) -> Evaluator {
        let mut evaluator = Evaluator {
            program: program.clone(),
            worlds: Vec::new(),
            caches: vec![Cache::Off; program.0.units.len()],
            changed: Vec::new(),
            stale: true,
            behind: false,
            leading_on: 0,
            busy: None,
            fixed: Vec::new(),
        };
        evaluator.reset(members);
        evaluator
    }

    /// Starts over with these nodes, of which none has reported.
    pub fn reset(&mut self, members: &[Member]) {
        let world = match self.worlds.pop() {
            Some(mut world) if *world.members == *members => {
                world.rows.fill(None);
                world
            }
            _ => self.world_of(members),
        };
        self.worlds.clear();
        self.worlds.push(world);
        self.leading_on = 0;
        self.everything_changed();
    }

    fn world_of(&self, members: &[Member]) -> World {
        let kinds = &self.program.0.kinds;
        let kind = |member: &Member| kinds.iter().position(|kind| *kind == member.kind);
        World {
            members: members.into(),
            kinds: members.iter().map(kind).collect(),
            rows: vec![None; members.len()],
        }
    }

    fn everything_changed(&mut self) {
        self.stale = true;
        self.changed.clear();
        self.changed.push(Vec::new());
    }

    pub(super) fn world(&self) -> &World {
        self.worlds.last().expect("there is always a present state")
    }

    /// Sets the members: their ids, their kinds, and whether they are up.
    pub fn set_members(&mut self, members: &[Member]) {
        if *self.world().members == *members {
            return;
        }
        let mut world = self.world_of(members);
        let old = self.world();
        for (row, member) in world.rows.iter_mut().zip(members) {
            *row = place_of(&old.members, member.id).and_then(|place| old.rows[place].clone());
        }
        let leads = |row: &&Arc<Row>| row.leads_on;
        self.leading_on = world.rows.iter().flatten().filter(leads).count();
        *self.worlds.last_mut().expect("there is always a present state") = world;
        self.everything_changed();
    }

    /// Whether `node` is the same in these members as in the known ones, so that no update is
    /// needed.
    pub(crate) fn knows(&self, node: NodeId, members: &[Member]) -> bool {
        let own = &self.world().members;
        let find = |members: &[Member]| place_of(members, node).map(|place| members[place].up);
        own.len() == members.len() && find(own) == find(members)
    }

    /// Advances to the next state, which equals the last one until something is set.
    pub fn step(&mut self) {
        let depth = self.program.0.depth;
        if depth > 0 {
            // The last state was not judged, and its changes are about to be forgotten.
            self.stale |= self.behind;
            if self.worlds.len() > depth {
                self.worlds.remove(0);
            }
            self.worlds.push(self.world().clone());
            if self.changed.len() > depth {
                self.changed.remove(0);
            }
            self.changed.push(Vec::new());
        }
    }

    /// Sets the state of `node`.
    pub fn set(&mut self, node: NodeId, state: &Value) {
        let layout = &self.program.0.layout;
        let world = self.worlds.last_mut().expect("there is always a present state");
        let place = place_of(&world.members, node);
        let held = place.and_then(|place| world.rows[place].as_mut());
        // A row that an earlier state shares must not be changed.
        let Some(row) = held.and_then(Arc::get_mut) else {
            let row = layout.row(state);
            return self.set_row(node, Some(Arc::new(row)));
        };
        let led_on = usize::from(row.leads_on);
        // Many changes of a state do not concern this property.
        if layout.update(row, state) {
            self.leading_on = self.leading_on + usize::from(row.leads_on) - led_on;
            self.touch(node);
        }
    }

    /// Does the same as [`Evaluator::set`] with a row that was made before; `None` if the node no
    /// longer reports.
    pub fn set_row(&mut self, node: NodeId, row: Option<Arc<Row>>) {
        let world = self.worlds.last_mut().expect("there is always a present state");
        let Some(place) = place_of(&world.members, node) else { return };
        let held = &mut world.rows[place];
        let same = match (&row, &*held) {
            (Some(row), Some(held)) => Arc::ptr_eq(row, held),
            (None, None) => true,
            _ => false,
        };
        if same {
            return;
        }
        let leads = |row: &Option<Arc<Row>>| usize::from(row.as_ref().is_some_and(|r| r.leads_on));
        self.leading_on = self.leading_on + leads(&row) - leads(held);
        *held = row;
        self.touch(node);
    }

    /// Notes that the results of `node` may have changed.
    fn touch(&mut self, node: NodeId) {
        let Some(place) = place_of(&self.world().members, node) else { return };
        self.behind = true;
        let changed = self.changed.last_mut().expect("there is always a present state");
        if changed.last() != Some(&place) {
            changed.push(place);
        }
        if changed.len() > CHANGED_MAX {
            changed.clear();
            self.stale = true;
        }
    }

    /// Under `when quiet`: sets the pairs of nodes between which messages are in flight. `changed`
    /// is the node whose channels may have changed; `None` means any.
    pub(crate) fn set_busy(
        &mut self,
        changed: Option<NodeId>,
        in_flight: &dyn Fn(NodeId, NodeId) -> bool,
    ) {
        let members = Arc::clone(&self.world().members);
        let n = members.len();
        let whole = self.busy.as_ref().is_none_or(|busy| busy.len() != n * n) || changed.is_none();
        let busy = self.busy.get_or_insert_default();
        busy.resize(n * n, false);
        for (a, from) in members.iter().enumerate() {
            for (b, to) in members.iter().enumerate() {
                if whole || changed == Some(from.id) || changed == Some(to.id) {
                    busy[a * n + b] = in_flight(from.id, to.id);
                }
            }
        }
        match changed {
            Some(node) if !whole => self.touch(node),
            _ => self.stale = true,
        }
    }

    /// Sets the nodes that `sender` and `receiver` stand for.
    pub(crate) fn set_fixed(&mut self, fixed: &[NodeId]) {
        self.fixed = fixed.to_vec();
        self.stale = true;
    }

    /// Judges the present state.
    pub fn verdict(&mut self) -> Verdict {
        self.refresh();
        let code = &*self.program.0;
        if let Test::Unit(unit) = code.test
            && let Some(verdict) = self.caches[unit].verdict()
        {
            return verdict;
        }
        let mut run = Run::new(code, &self.worlds, &self.caches);
        for (reg, node) in self.fixed.iter().enumerate() {
            run.hold(reg, *node);
        }
        run.test(&code.test)
    }

    /// Brings the caches up to date.
    fn refresh(&mut self) {
        let n = self.worlds[self.worlds.len() - 1].members.len();
        let alone = self.leading_on == 0;
        let walk = Walk { busy: self.busy.as_deref(), n };
        let code = &*self.program.0;
        let mut run = Run::new(code, &self.worlds, &[]);
        for (reg, node) in self.fixed.iter().enumerate() {
            run.hold(reg, *node);
        }
        for (unit, cache) in code.units.iter().zip(&mut self.caches) {
            let kept = kept_tuples(unit, n);
            // Quietness is a matter of tuples, so with it even a unit that depends on other nodes
            // is judged tuple by tuple.
            let Some(size) = kept.filter(|_| alone || walk.busy.is_some()) else {
                *cache = Cache::Off;
                continue;
            };
            if self.stale || !alone || matches!(cache, Cache::Off) {
                *cache = new_cache(unit, size);
                walk.all(&mut run, unit, cache);
            } else {
                self.changed.iter().flatten().for_each(|p| walk.with(*p, &mut run, unit, cache));
            }
        }
        self.stale = false;
        self.behind = false;
        if code.depth == 0 {
            self.changed[0].clear();
        }
    }
}

/// The longest tuples whose results are kept.
const ARITY_MAX: usize = 4;

/// The number of results that a unit caches for `n` nodes; `None` if they depend on other nodes or
/// there are too many.
fn kept_tuples(unit: &Unit, n: usize) -> Option<usize> {
    if !unit.local || unit.vars.len() > ARITY_MAX {
        return None;
    }
    let size = unit.vars.iter().try_fold(1_usize, |size, _| size.checked_mul(n))?;
    (size <= TUPLES_MAX).then_some(size)
}

fn new_cache(unit: &Unit, size: usize) -> Cache {
    match &unit.body {
        UnitBody::Quantified { forall, .. } => {
            let neutral = Verdict::from(*forall);
            let mut counts = [0; 3];
            counts[neutral as usize] = u32::try_from(size).expect("TUPLES_MAX is small");
            Cache::Quantified { forall: *forall, tuples: vec![neutral; size], counts }
        }
        UnitBody::Aggregate { op, .. } => Cache::Aggregate(Folding::new(*op, size)),
    }
}

/// Walks tuples of places and judges them.
struct Walk<'b> {
    busy: Option<&'b [bool]>,
    n: usize,
}

impl Walk<'_> {
    /// Visits every tuple.
    fn all<'a>(&self, run: &mut Run<'a>, unit: &'a Unit, cache: &mut Cache) {
        let mut places = [0; ARITY_MAX];
        self.walk(run, unit, cache, &mut places[..unit.vars.len()], 0, None);
    }

    /// Visits every tuple that contains `place`, once.
    fn with<'a>(&self, place: usize, run: &mut Run<'a>, unit: &'a Unit, cache: &mut Cache) {
        let mut places = [0; ARITY_MAX];
        let places = &mut places[..unit.vars.len()];
        for first in 0..places.len() {
            self.walk(run, unit, cache, places, 0, Some((first, place)));
        }
    }

    /// Visits the tuples in which `pin` first occurs at its coordinate.
    fn walk<'a>(
        &self,
        run: &mut Run<'a>,
        unit: &'a Unit,
        cache: &mut Cache,
        places: &mut [usize],
        at: usize,
        pin: Option<(usize, usize)>,
    ) {
        if at == places.len() {
            return self.judge(run, unit, cache, places);
        }
        let choices = match pin {
            Some((first, place)) if first == at => place..place + 1,
            _ => 0..self.n,
        };
        for place in choices {
            if pin.is_some_and(|(first, pinned)| at < first && place == pinned) {
                continue;
            }
            places[at] = place;
            self.walk(run, unit, cache, places, at + 1, pin);
        }
    }

    fn judge<'a>(&self, run: &mut Run<'a>, unit: &'a Unit, cache: &mut Cache, places: &[usize]) {
        let world = run.world();
        let tuple = places.iter().fold(0, |index, place| index * self.n + place);
        let mut counts = !self.is_busy(places);
        for ((reg, nodes), place) in unit.vars.iter().zip(places) {
            counts = counts && world.admits(*nodes, *place);
            run.hold(*reg, world.members[*place].id);
        }
        match (&unit.body, cache) {
            (UnitBody::Quantified { forall, body }, cache) => {
                let verdict = match counts {
                    true => run.instance(*forall, unit.guard.as_ref(), body),
                    false => Verdict::from(*forall),
                };
                cache.set(tuple, verdict);
            }
            (UnitBody::Aggregate { body, .. }, Cache::Aggregate(folding)) => {
                let contribution = match counts {
                    true => run.contribution(unit.guard.as_ref(), body),
                    false => Some(None),
                };
                folding.set(tuple, contribution);
            }
            _ => unreachable!("a unit and its cache are made together"),
        }
    }

    fn is_busy(&self, places: &[usize]) -> bool {
        let Some(busy) = self.busy else { return false };
        places.iter().any(|a| places.iter().any(|b| busy[a * self.n + b]))
    }
}

/// Judges single instances of a property that is one `forall` over nodes.
///
/// Over all consistent cuts such a property holds if it holds for all tuples of compatible local
/// states, so cuts need not be enumerated.
#[derive(Clone, Debug)]
pub struct Tuples {
    program: Program,
    worlds: [World; 1],
}

impl Tuples {
    /// Returns `None` if the property does not have that form, or looks back.
    #[must_use]
    pub fn new(program: &Program, members: &[Member]) -> Option<Tuples> {
        if !program.is_local() || program.depth() > 0 {
            return None;
        }
        let world = Evaluator::new(program, members).world().clone();
        Some(Tuples { program: program.clone(), worlds: [world] })
    }

    /// The number of nodes of an instance.
    #[must_use]
    pub fn arity(&self) -> usize {
        self.unit().vars.len()
    }

    fn unit(&self) -> &Unit {
        self.program.whole_unit().expect("it was asked for at the start")
    }

    /// Whether the member at `place` may stand for variable `var`, as far as its kind is concerned.
    #[must_use]
    pub fn admits(&self, var: usize, place: usize) -> bool {
        let kind = self.unit().vars[var].1.kind;
        kind.is_none_or(|kind| self.worlds[0].kinds[place] == Some(kind))
    }

    /// Whether variable `var` ranges also over nodes that are down.
    #[must_use]
    pub fn wants_down(&self, var: usize) -> bool {
        self.unit().vars[var].1.all
    }

    /// Sets the state of `node`; `None` if it does not report.
    pub fn set(&mut self, node: NodeId, row: Option<Arc<Row>>) {
        let world = &mut self.worlds[0];
        if let Some(place) = place_of(&world.members, node) {
            world.rows[place] = row;
        }
    }

    /// Sets whether `node` is up, for claims that ask for it.
    pub(crate) fn set_up(&mut self, node: NodeId, up: bool) {
        let members = &mut self.worlds[0].members;
        let place = members.iter().position(|member| member.id == node);
        if let Some(place) = place.filter(|place| members[*place].up != up) {
            Arc::make_mut(members)[place].up = up;
        }
    }

    /// Judges one instance. The nodes must be admitted.
    #[must_use]
    pub fn judge(&self, nodes: &[NodeId]) -> Verdict {
        let unit = self.unit();
        let mut run = Run::new(&self.program.0, &self.worlds, &[]);
        for ((reg, _), node) in unit.vars.iter().zip(nodes) {
            run.hold(*reg, *node);
        }
        let UnitBody::Quantified { forall, body } = &unit.body else {
            unreachable!("the whole unit is a quantifier")
        };
        run.instance(*forall, unit.guard.as_ref(), body)
    }
}

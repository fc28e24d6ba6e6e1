//! What the properties say of the present state: violations, goals, and progress that is owed.

use std::cell::RefCell;
use std::collections::BTreeSet;

use everhold_node::{Message, NodeId};

use super::World;
use crate::env::Env;
use crate::execute::quietly;
use crate::failure::{Cause, Failure};
use crate::monitor::MonitorSlot;
use crate::properties::{Names, Properties};
use crate::scene::Scene;
use crate::system::Rule;
use crate::untested::Expected;
use crate::view::View;

/// The largest state that is printed with a violation, in bytes.
const STATE_SHOWN: u64 = 16 << 10;

impl<M: Message> World<M> {
    /// Evaluates the properties; the first that is false becomes the failure.
    #[inline]
    pub(crate) fn check(&mut self) -> bool {
        self.has_no_rules || self.check_rules()
    }

    fn check_rules(&mut self) -> bool {
        if !self.check_properties() {
            return false;
        }
        if let Some(witness) = &self.witness {
            self.try_rules(witness);
        }
        self.judging = true;
        let failure = {
            let env = self.env.borrow();
            let view = View { scene: Scene::explored(&self.slots, &env), looked: None };
            for (rule, reached) in self.sometimes.iter().zip(&mut self.reached) {
                *reached = *reached || (rule.holds)(&view).is_ok();
            }
            let (once, at_end) = self.open.split_at_mut(self.eventually.len());
            for (rule, open) in self.eventually.iter().zip(once) {
                *open = *open && (rule.holds)(&view).is_err();
            }
            for (rule, open) in self.finally.iter().zip(at_end) {
                *open = (rule.holds)(&view).is_err();
            }
            first_false(&self.always, &view)
        };
        let explained = failure.map(|(index, message)| (index, self.explain(index, message)));
        self.judging = false;
        let Some((index, message)) = explained else { return true };
        let cause = Cause::Always(self.always[index].name.clone());
        self.env.borrow_mut().fail_with(Failure { cause, message });
        false
    }

    /// The property that panicked, if one did: the first that panics again.
    pub(crate) fn panicking_property(&mut self) -> Option<String> {
        if !std::mem::take(&mut self.judging) {
            return None;
        }
        let env = self.env.borrow();
        let view = View { scene: Scene::explored(&self.slots, &env), looked: None };
        let rules = [&self.sometimes, &self.eventually, &self.finally, &self.always];
        let mut rules = rules.into_iter().flatten();
        let panicking = rules.find(|rule| quietly(|| (rule.holds)(&view)).is_err());
        panicking.map(|rule| rule.name.clone())
    }

    fn check_properties(&mut self) -> bool {
        let Some(properties) = &mut self.properties else { return true };
        let failure = {
            let env = self.env.borrow();
            let names = Names(&self.names);
            let scene = Scene::explored(&self.slots, &env);
            match env.state.step {
                0 => properties.start(scene, &names),
                _ => properties.step(scene, &names, self.current),
            }
        };
        let holds = failure.is_none();
        if let Some(failure) = failure {
            self.env.borrow_mut().fail_with(failure);
        }
        holds
    }

    /// The names of all goals, in the order of [`reached_goals`](World::reached_goals).
    pub(crate) fn goals(&self) -> Vec<String> {
        let closures = self.sometimes.iter().map(|rule| rule.name.clone());
        let language = self.properties.iter().flat_map(|p| p.goals().map(str::to_owned));
        closures.chain(language).collect()
    }

    /// Whether this execution reached each goal.
    pub(crate) fn reached_goals(&self) -> Vec<bool> {
        let language = self.properties.iter().flat_map(Properties::reached);
        self.reached.iter().copied().chain(language).collect()
    }

    /// The subjects of the properties and faults.
    pub(crate) fn expected(&self) -> Expected {
        let env = self.env.borrow();
        let faults = env.rules.faults.kinds().iter();
        let faults = faults.map(|kind| (kind.clone(), "`Faults::only`".to_owned()));
        let links: BTreeSet<&String> = env.rules.links.kinds().collect();
        let links = links.into_iter().map(|kind| (kind.clone(), "a rule of `Links`".to_owned()));
        let language = self.properties.iter().flat_map(Properties::named_kinds);
        let judged = self.properties.iter().flat_map(Properties::names);
        Expected {
            allowed: self.allowed.clone(),
            named: faults.chain(links).chain(language).collect(),
            kinds: self.kinds.iter().cloned().collect(),
            judged: judged.map(|name| (name, false)).collect(),
            properties: self.property_names(&env),
            declared: self.declared.clone(),
            ..Expected::default()
        }
    }

    /// The names of all properties and monitors, with their sorts.
    fn property_names(&self, env: &Env<M>) -> Vec<String> {
        let sorts = [
            ("always", &self.always),
            ("eventually", &self.eventually),
            ("finally", &self.finally),
        ];
        let closures = sorts.into_iter().flat_map(|(sort, rules)| {
            rules.iter().map(move |rule| format!("{sort} \"{}\"", rule.name))
        });
        let language = self.properties.iter().flat_map(Properties::claims);
        let monitors =
            env.state.monitors.iter().map(|monitor| format!("monitor \"{}\"", monitor.name));
        closures
            .chain(language.map(|name| format!("property \"{name}\"")))
            .chain(monitors)
            .collect()
    }

    /// For each property in the language, whether a state has decided it.
    pub(crate) fn judged(&self) -> Vec<bool> {
        self.properties.as_ref().map_or_else(Vec::new, Properties::judged)
    }

    /// Problems with the properties in the language, judged by the first states.
    pub(crate) fn property_problems(&mut self) -> Vec<String> {
        let env = self.env.borrow();
        let Some(properties) = &mut self.properties else { return Vec::new() };
        properties.start(Scene::explored(&self.slots, &env), &Names(&self.names));
        properties.problems(&self.library)
    }

    /// The property's own explanation of the violation, or else the states that it looked at.
    fn explain(&self, index: usize, message: String) -> String {
        let env = self.env.borrow();
        if !message.is_empty() || env.recorder.is_none() {
            return message;
        }
        let looked = RefCell::new(BTreeSet::new());
        let view = View { scene: Scene::explored(&self.slots, &env), looked: Some(&looked) };
        let _ = (self.always[index].holds)(&view);
        let show = |node: &NodeId| {
            let process = &self.slots[node.index()].process;
            let state = quietly(|| match process.size() {
                0..=STATE_SHOWN => process.observe().to_string(),
                bytes => format!("({bytes} bytes)"),
            });
            let state = state.unwrap_or_else(|panic| panic.to_string());
            format!("{} = {state}", self.name_of(*node))
        };
        looked.borrow().iter().map(show).collect::<Vec<_>>().join(", ")
    }

    /// Whether progress is owed.
    pub(crate) fn is_hot(&self) -> bool {
        self.open.contains(&true)
            || self.env.borrow().state.monitors.iter().any(MonitorSlot::is_hot)
            || self.properties.as_ref().is_some_and(|properties| properties.hot().is_some())
    }

    /// The first rule or monitor that owes progress.
    pub(crate) fn hot(&self) -> Option<Cause> {
        if let Some(open) = self.open.iter().position(|open| *open) {
            return Some(match self.eventually.get(open) {
                Some(rule) => Cause::Liveness(rule.name.clone()),
                None => Cause::Finally(self.finally[open - self.eventually.len()].name.clone()),
            });
        }
        let env = self.env.borrow();
        let monitor = env.state.monitors.iter().find(|monitor| monitor.is_hot());
        let monitor = monitor.map(|monitor| Cause::Liveness(monitor.name.clone()));
        monitor.or_else(|| self.properties.as_ref().and_then(Properties::hot))
    }

    /// The names of everything that can owe progress, each with whether it must be true at the end.
    pub(crate) fn debtors(&self) -> Vec<(String, bool)> {
        let once = self.eventually.iter().map(|rule| (rule.name.clone(), false));
        let at_end = self.finally.iter().map(|rule| (rule.name.clone(), true));
        let env = self.env.borrow();
        let monitors = env.state.monitors.iter().map(|monitor| (monitor.name.clone(), false));
        let language = self.properties.iter().flat_map(Properties::debtors);
        once.chain(at_end).chain(monitors).chain(language).collect()
    }

    /// The [debtors](World::debtors) that owe progress now, as bits; all from the last bit on share
    /// it.
    pub(crate) fn owed(&self) -> u64 {
        let env = self.env.borrow();
        let monitors = env.state.monitors.iter().map(MonitorSlot::is_hot);
        let language = self.properties.iter().flat_map(Properties::owed);
        let owed = self.open.iter().copied().chain(monitors).chain(language);
        owed.enumerate().fold(0, |bits, (at, owed)| bits | (debtor_bit(at) * u64::from(owed)))
    }

    /// True if something must be true at the end, so that having been true before is not enough.
    pub(crate) fn has_finally(&self) -> bool {
        !self.finally.is_empty() || self.properties.as_ref().is_some_and(Properties::has_finally)
    }

    /// True if an execution of this system can be judged for progress at all.
    pub(crate) fn has_liveness(&self) -> bool {
        !self.open.is_empty()
            || !self.env.borrow().state.monitors.is_empty()
            || self.properties.as_ref().is_some_and(Properties::has_liveness)
    }
}

/// The bit of a debtor.
pub(crate) fn debtor_bit(at: usize) -> u64 {
    1 << at.min(u64::BITS as usize - 1)
}

fn first_false<M: Message>(rules: &[Rule<M>], view: &View<'_, M>) -> Option<(usize, String)> {
    rules.iter().enumerate().find_map(|(i, rule)| (rule.holds)(view).err().map(|why| (i, why)))
}

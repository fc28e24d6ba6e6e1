//! How the rules stand, and why nobody can say of some of them whether they hold.
//!
//! The snapshots contain the nodes that are known to be up. A rule that no snapshot violates holds only
//! if these are all the nodes that it speaks of, and if everything that it reads of them is known. So
//! it is unknown while no node is there, while a kind of nodes that it names is missing, while a node
//! is silent that may only have been stopped, while a node does not say how far it has come, while not
//! all is known of a node, and while a key is undecided.

use everhold_property::{Member, State};
use everhold_trace::NodeId;

use super::PartitionChecker;
use crate::assemble::Assembler;
use crate::rule::{RuleStatus, Unknown, Watched};

/// The number of names in a reason; of more there is only word that there are others.
const NAMES: usize = 3;

impl PartitionChecker {
    /// How the rules do.
    pub fn rules(&self) -> Vec<(String, RuleStatus)> {
        let gathered = self.exchange.iter();
        let gathered = gathered.flat_map(|exchange| exchange.statuses(&self.set, &self.assembler));
        self.own_rules(&self.assembler).chain(gathered).collect()
    }

    /// The rules of this checker, with what is heard of the nodes.
    pub(super) fn own_rules(
        &self,
        heard: &Assembler,
    ) -> impl Iterator<Item = (String, RuleStatus)> {
        self.rules.iter().map(|rule| {
            let mut status = rule.status(self.why_unknown(rule, heard));
            let suspected = self.suspicions.iter().filter(|((name, _), _)| *name == rule.name);
            let suspected = suspected.flat_map(|(_, some)| some);
            status.firing -= suspected.filter(|one| one.over.is_none()).count().min(status.firing);
            (rule.name.clone(), status)
        })
    }

    /// Returns the present and former members, each with whether everything that the rules read of it
    /// is known.
    pub fn members(&self) -> impl Iterator<Item = (&Member, bool)> {
        let keyed = self.rules.iter().any(|rule| rule.keyed().is_some());
        let known = move |member: &Member| {
            self.world.state(member.id).is_some() && (!keyed || self.world.is_whole(member.id))
        };
        self.world.members().iter().map(move |member| (member, known(member)))
    }

    /// Whether something is not known of a node that it could tell again.
    #[must_use]
    pub fn can_tell_more(&self, node: NodeId) -> bool {
        let is_lacking =
            |(member, known): (&Member, bool)| member.id == node && member.up && !known;
        self.world.can_tell(node) && self.members().any(is_lacking)
    }

    fn why_unknown(&self, rule: &Watched, heard: &Assembler) -> Option<Unknown> {
        self.who_is_silent(rule, heard)
            .or_else(|| self.who_is_absent(rule))
            .or_else(|| {
                rule.keyed()
                    .and_then(|keyed| keyed.misread(&self.world).next())
                    .map(Unknown::because)
            })
            .or_else(|| self.who_stays_behind(rule, heard))
            .or_else(|| self.who_is_hidden(rule))
            .or_else(|| rule.why_undecided(&self.world).map(Unknown::because))
    }

    /// The nodes that fell silent without a goodbye, and may come back in the same life.
    fn who_is_silent(&self, rule: &Watched, heard: &Assembler) -> Option<Unknown> {
        let silent = heard.silent().filter(|(_, kind)| rule.speaks_of(kind));
        let names = some_of(silent.map(|(name, _)| name))?;
        Some(Unknown::because(format!("nothing is heard of {names}, which may be stopped")))
    }

    /// The nodes that are not there, so that the rule says nothing.
    fn who_is_absent(&self, rule: &Watched) -> Option<Unknown> {
        let up = || self.world.members().iter().filter(|member| member.up);
        if up().next().is_none() {
            return Some(Unknown::nobody("no node is connected".to_owned()));
        }
        let absent = rule.kinds().iter().find(|kind| up().all(|member| member.kind != **kind))?;
        Some(Unknown::nobody(format!("no {absent} is connected")))
    }

    /// The nodes that are heard of, but have not said for long how far they have come.
    fn who_stays_behind(&self, rule: &Watched, heard: &Assembler) -> Option<Unknown> {
        let behind = heard.behind().filter(|(_, kind)| rule.speaks_of(kind));
        let names = some_of(behind.map(|(name, _)| name))?;
        Some(Unknown::because(format!("{names} does not say how far it has come")))
    }

    /// The nodes of which not all is known, where that matters: a rule that is decided all the same is
    /// known, but of a rule about keys it is not known of which keys it speaks.
    fn who_is_hidden(&self, rule: &Watched) -> Option<Unknown> {
        if rule.keyed().is_none() && rule.why_undecided(&self.world).is_none() {
            return None;
        }
        let hidden = self.members().filter(|(member, known)| member.up && !known);
        let hidden = hidden.filter(|(member, _)| rule.speaks_of(&member.kind));
        let names = some_of(hidden.map(|(member, _)| member.name.as_str()))?;
        Some(Unknown::because(format!("of {names} not all is known")))
    }
}

/// Some names in words; `None` if there are none.
fn some_of<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let names: Vec<&str> = names.take(NAMES + 1).collect();
    match names[..] {
        [] => None,
        [.., _] if names.len() > NAMES => Some(format!("{} and others", names[..NAMES].join(", "))),
        _ => Some(names.join(" and ")),
    }
}

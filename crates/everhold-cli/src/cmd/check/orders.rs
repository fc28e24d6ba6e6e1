//! The extent to which the judged states cover all orders in which the events could have happened.

use everhold_property::{Domain, ExprKind, Modality, Quantifier, Rule, Scope};
use everhold_trace::Execution;

/// The number of nodes in an instance of a property, if the property is one `forall` over nodes.
pub(super) fn nodes_bound(rule: &Rule) -> Option<usize> {
    if !rule.program().is_local() {
        return None;
    }
    let mut bound = 0;
    let mut rest = &rule.property().body;
    while let ExprKind::Quantified { quantifier: Quantifier::Forall, over, body } = &rest.kind {
        let over_nodes = over.binders.iter().filter(|b| matches!(b.domain, Domain::Nodes { .. }));
        bound += over_nodes.map(|binder| binder.pattern.idents().len()).sum::<usize>();
        rest = body;
    }
    Some(bound)
}

/// Whether the recorded order decides the property for all orders. The steps of one node have the
/// same order in each, so this is true of a claim about one node and its previous state.
pub(super) fn all_decided(rule: &Rule, execution: &Execution) -> bool {
    let property = rule.property();
    property.modality == Modality::Always
        && property.scope == Scope::EveryCut
        && rule.program().depth() == 1
        && nodes_bound(rule) == Some(1)
        && !asks_others(rule, execution)
}

/// Whether in some state the property refers to another node.
fn asks_others(rule: &Rule, execution: &Execution) -> bool {
    let states = execution.local_states();
    execution.node_ids().any(|node| {
        let counts = 0..=execution.events_of(node).len();
        counts.filter_map(|count| states.at(node, count)).any(|s| rule.program().row(s).leads_on())
    })
}

//! The reasons for an unknown verdict.

use everhold_property::{
    ExecutionOutcome, Member, Modality, Rule, Scope, Snapshot, State, Unknown, evaluate_expr,
};
use everhold_trace::Execution;

use crate::words::number;

/// Explains why the outcome is unknown, and how to make it known.
pub(super) fn unknown(rule: &Rule, execution: &Execution, outcome: &ExecutionOutcome) -> String {
    let property = rule.property();
    if let Some(bound) = outcome.bound {
        return format!(
            "the bound of {} cases was reached; raise it with --cases-max, or name fewer nodes in \
             the property",
            number(bound)
        );
    }
    let tally = outcome.tally;
    let judged = tally.holds + tally.violated + tally.unknown;
    if judged == 0 {
        return nothing_judged(property.scope).to_owned();
    }
    let open = "the recording ends while it is still due; record longer";
    match property.modality {
        Modality::Sometimes if tally.unknown == 0 => {
            format!("never true in the {} states; other executions may reach it", number(judged))
        }
        Modality::Eventually { .. } | Modality::Finally { .. } if tally.unknown < judged => {
            open.to_owned()
        }
        Modality::LeadsTo { .. } => open.to_owned(),
        Modality::Always
        | Modality::Sometimes
        | Modality::Eventually { .. }
        | Modality::Finally { .. } => {
            let lacks = at_the_end(rule, execution);
            let lacks = lacks.unwrap_or_else(|| "something that decides it".to_owned());
            format!("{lacks} (unknown in {} of {} cases)", number(tally.unknown), number(judged))
        }
    }
}

fn nothing_judged(scope: Scope) -> &'static str {
    match scope {
        Scope::EveryCut => "no state was there to be judged",
        Scope::Quiet | Scope::AllQuiet => {
            "no state was quiet; try `at every cut`, or record longer"
        }
        Scope::Delivery | Scope::Chains => "no message was delivered between two nodes",
    }
}

/// The unknown parts of the last global state, in which the most is known.
fn at_the_end(rule: &Rule, execution: &Execution) -> Option<String> {
    let states = execution.local_states();
    let member = |id| {
        let info = execution.node(id);
        Member::new(id, &info.name, &info.kind)
    };
    let mut last = Snapshot::new(execution.node_ids().map(member).collect());
    for id in execution.node_ids() {
        if let Some(state) = states.at(id, execution.events_of(id).len()) {
            last.set(id, state.clone());
        }
    }
    let history: [&dyn State; 1] = [&last];
    let lacking = evaluate_expr(&rule.property().body, rule.library(), &history, &[]).err()?;
    Some(match lacking {
        Unknown::NotReported(node) => {
            let name = &execution.node(node).name;
            format!("node `{name}` shows no state; record one, or leave the node out with `where`")
        }
        Unknown::NoSuchName(_) => return None,
        other => other.to_string(),
    })
}

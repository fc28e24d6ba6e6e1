//! Variables as a user names them: `parent`, `stored.key`, `stored.value.term`, `log.len`.

use super::domain::Domain;
use crate::states::States;
use crate::variables::{Access, Kind, TableId};

/// The name of a variable.
pub(crate) fn name(kind: &Kind, table: TableId, variable: usize) -> String {
    let of = &kind.tables[table];
    let shown = &of.variables[variable];
    let mut parts = Vec::new();
    if let Some((parent, container)) = of.origin.container() {
        parts.push(name(kind, parent, container));
        parts.push(if shown.is_key() { "key" } else { "value" }.to_owned());
    }
    parts.extend(shown.path.iter().filter_map(|access| match access {
        Access::Field(field) | Access::Payload(field) => Some(field.clone()),
        Access::Size => Some("len".to_owned()),
        Access::Key | Access::Entry => None,
    }));
    parts.join(".")
}

/// Whether a variable is one of those wanted, below one, or on the way to one. None means all.
pub(crate) fn is_wanted(name: &str, wanted: &[String]) -> bool {
    let below = |name: &str, of: &str| {
        name.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    wanted.is_empty() || wanted.iter().any(|of| below(name, of) || below(of, name))
}

impl Domain {
    /// Whether its elements and its link come from wanted variables.
    pub(crate) fn is_wanted(&self, states: &States, wanted: &[String]) -> bool {
        let kind = |node: usize| &states.variables.kinds[self.kinds[node]];
        let containers = self.ranges.iter().filter_map(|range| {
            let (table, variable) = kind(range.node).tables[range.table].origin.container()?;
            Some(name(kind(range.node), table, variable))
        });
        let link = self.link.map(|link| name(kind(0), link.table, link.variable));
        containers.chain(link).all(|name| is_wanted(&name, wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_a_name_or_above_it_is_wanted() {
        let wanted = ["table.key".to_owned(), "parent".to_owned()];
        for (name, is) in [
            ("table", true),
            ("table.key", true),
            ("table.value", false),
            ("tables", false),
            ("parent.root", true),
            ("parents", false),
        ] {
            assert_eq!(is_wanted(name, &wanted), is, "{name}");
            assert!(is_wanted(name, &[]));
        }
    }
}

//! The differences between two lists of properties.

use std::collections::BTreeMap;
use std::fmt;

use everhold_property::{Expr, ExprKind, Literal, Property, print, print_expr};

use crate::decisions::claim;

/// The properties that were added, removed and changed from one list to another.
///
/// Names do not count. A property changed if it says the same with other constants.
///
/// ```
/// use everhold_infer::Diff;
/// use everhold_property::parse;
///
/// let old = parse("always \"a\": forall n in nodes: n.x <= 3\nalways \"b\": forall n in nodes: n.y");
/// let new = parse("always \"c\": forall n in nodes: n.x <= 4\nalways \"d\": forall n in nodes: n.z");
/// assert_eq!(Diff::of(&old.properties, &new.properties).to_string(), "\
/// + always \"d\": forall n in nodes: n.z
/// - always \"b\": forall n in nodes: n.y
/// ~ always \"a\": forall n in nodes: n.x <= 3
///   always \"c\": forall n in nodes: n.x <= 4
/// ");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diff {
    /// In the new list only.
    pub appeared: Vec<Property>,
    /// In the old list only.
    pub went: Vec<Property>,
    /// In both, with other constants: the old one and the new one.
    pub changed: Vec<(Property, Property)>,
}

impl Diff {
    /// Compares two lists.
    #[must_use]
    pub fn of(old: &[Property], new: &[Property]) -> Diff {
        let claims = |list: &[Property]| -> BTreeMap<String, Property> {
            list.iter().map(|property| (claim(property), property.clone())).collect()
        };
        let (mut old, mut new) = (claims(old), claims(new));
        let same: Vec<String> = old.keys().filter(|key| new.contains_key(*key)).cloned().collect();
        for key in same {
            old.remove(&key);
            new.remove(&key);
        }
        let mut shapes: BTreeMap<String, Vec<Property>> = BTreeMap::new();
        for property in new.into_values() {
            shapes.entry(shape(&property)).or_default().push(property);
        }
        let mut diff = Diff::default();
        for property in old.into_values() {
            match shapes.get_mut(&shape(&property)).filter(|list| !list.is_empty()) {
                Some(list) => diff.changed.push((property, list.remove(0))),
                None => diff.went.push(property),
            }
        }
        diff.appeared = shapes.into_values().flatten().collect();
        diff.appeared.sort_by_key(claim);
        diff
    }

    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.appeared.is_empty() && self.went.is_empty() && self.changed.is_empty()
    }
}

/// The claim of a property with all constants replaced by the same one.
fn shape(property: &Property) -> String {
    fn level(expr: &Expr) -> Expr {
        let both = |a: &Expr, b: &Expr| (Box::new(level(a)), Box::new(level(b)));
        Expr::new(match &expr.kind {
            ExprKind::Literal(Literal::Null) => expr.kind.clone(),
            ExprKind::Literal(_) => ExprKind::Literal(Literal::Int(0)),
            ExprKind::Unary(op, inner) => ExprKind::Unary(*op, Box::new(level(inner))),
            ExprKind::Binary(op, a, b) => {
                let (a, b) = both(a, b);
                ExprKind::Binary(*op, a, b)
            }
            ExprKind::Quantified { quantifier, over, body } => ExprKind::Quantified {
                quantifier: *quantifier,
                over: over.clone(),
                body: Box::new(level(body)),
            },
            other => other.clone(),
        })
    }
    format!("{:?} {}", property.scope, print_expr(&level(&property.body)))
}

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line =
            |property: &Property| print(property).split_whitespace().collect::<Vec<_>>().join(" ");
        self.appeared.iter().try_for_each(|property| writeln!(f, "+ {}", line(property)))?;
        self.went.iter().try_for_each(|property| writeln!(f, "- {}", line(property)))?;
        for (old, new) in &self.changed {
            writeln!(f, "~ {}\n  {}", line(old), line(new))?;
        }
        Ok(())
    }
}

//! The printer. It writes the one canonical form: `parse(print(p)) == p`.

use std::fmt::{self, Display};

use crate::ast::{
    BinaryOp, Binder, Bound, COMPARISON, Domain, Expr, ExprKind, History, Literal, Modality,
    NEGATE, NOT, Over, Pattern, Property, Quantifier, Sampling, Scope, Share, UnaryOp,
};
use crate::lex::{RESERVED, UNITS};
use crate::parse::scope_text;

/// The canonical text of a property, ending with a new line.
///
/// ```
/// let text = "always \"p\" :  forall n in nodes : (n.up)";
/// let property = &everhold_property::parse(text).properties[0];
/// assert_eq!(everhold_property::print(property), "always \"p\":\n  forall n in nodes:\n    n.up\n");
/// ```
#[must_use]
pub fn print(property: &Property) -> String {
    let mut out = header(property);
    layout(&property.body, 1, &mut out);
    if let Modality::LeadsTo { within: Some(bound) } = property.modality {
        out += &format!(" within {}", bound_text(bound));
    }
    out.push('\n');
    out
}

/// The canonical text of several properties, with an empty line between them.
#[must_use]
pub fn print_all<'a>(properties: impl IntoIterator<Item = &'a Property>) -> String {
    properties.into_iter().map(print).collect::<Vec<_>>().join("\n")
}

/// The canonical text of an expression, on one line.
#[must_use]
pub fn print_expr(expr: &Expr) -> String {
    Open(expr).to_string()
}

impl Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print(self))
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Open(self).fmt(f)
    }
}

/// Lines longer than this are broken at their outermost operators.
const WIDTH_MAX: usize = 96;

fn header(property: &Property) -> String {
    let (word, within) = match property.modality {
        Modality::Always | Modality::LeadsTo { .. } => ("always", None),
        Modality::Sometimes => ("sometimes", None),
        Modality::Eventually { within } => ("eventually", within),
        Modality::Finally { within } => ("finally", within),
    };
    let mut out = format!("{word} {}", quote(&property.name));
    if property.scope != Scope::EveryCut {
        out += &format!(" {}", scope_text(property.scope));
    }
    if let Some(bound) = within {
        out += &format!(" within {}", bound_text(bound));
    }
    let sampling = sampling_text(property.sampling);
    if !sampling.is_empty() {
        out += &format!(" {sampling}");
    }
    out + ":"
}

/// The words for a part of the keys and moments, as in `for 1 in 100 keys every 100ms`; none if all
/// are looked at.
#[must_use]
pub fn sampling_text(sampling: Sampling) -> String {
    let keys = sampling.keys.map(|Share { some, of }| format!("for {some} in {of} keys"));
    let every = sampling.every.map(|nanos| format!("every {}", bound_text(Bound::Nanos(nanos))));
    keys.into_iter().chain(every).collect::<Vec<_>>().join(" ")
}

/// Appends an expression on lines of its own, each outer quantifier on one.
fn layout(expr: &Expr, level: usize, out: &mut String) {
    let indent = format!("\n{}", "  ".repeat(level));
    match &expr.kind {
        ExprKind::Quantified { quantifier, over, body } => {
            *out += &format!("{indent}{} {}:", quantifier_text(*quantifier), Ranges(over));
            layout(body, level + 1, out);
        }
        ExprKind::LeadsTo(from, goal) => {
            *out += &format!("{indent}{}{indent}leads to {}", Side(from), Side(goal));
        }
        ExprKind::Binary(op, ..) if op.precedence() < NOT && too_wide(expr, level) => {
            for (i, (op, part)) in chain(*op, expr).into_iter().enumerate() {
                *out += &indent;
                if i > 0 {
                    *out += op.text();
                    out.push(' ');
                }
                *out += &part;
            }
        }
        _ => *out += &format!("{indent}{}", Open(expr)),
    }
}

fn too_wide(expr: &Expr, level: usize) -> bool {
    print_expr(expr).chars().count() + 2 * level > WIDTH_MAX
}

/// The operands of a chain of one operator, as text.
fn chain(op: BinaryOp, expr: &Expr) -> Vec<(BinaryOp, String)> {
    match &expr.kind {
        ExprKind::Binary(inner, left, right) if *inner == op => {
            let (left_least, right_least) = sides(op);
            let mut parts = if op == BinaryOp::Implies {
                vec![(op, Closed(left, left_least).to_string())]
            } else {
                chain(op, left)
            };
            parts.push((op, Closed(right, right_least).to_string()));
            parts
        }
        _ => vec![(op, Closed(expr, sides(op).0).to_string())],
    }
}

/// The precedence that the left and the right operand need to stand without parentheses.
fn sides(op: BinaryOp) -> (u8, u8) {
    let own = op.precedence();
    match op {
        BinaryOp::Implies => (own + 1, own),
        _ if op.is_comparison() => (own + 1, own + 1),
        _ => (own, own + 1),
    }
}

fn precedence(expr: &Expr) -> u8 {
    match &expr.kind {
        ExprKind::Quantified { .. } | ExprKind::LeadsTo(..) => 0,
        ExprKind::Binary(op, ..) => op.precedence(),
        ExprKind::Is(..) => COMPARISON,
        ExprKind::Unary(UnaryOp::Not, _) => NOT,
        ExprKind::Unary(UnaryOp::Neg, _) => NEGATE,
        _ => u8::MAX,
    }
}

/// An expression in a position where no parentheses are needed.
struct Open<'a>(&'a Expr);

/// An expression in a position where a lower precedence than this needs parentheses.
struct Closed<'a>(&'a Expr, u8);

/// A side of `leads to`, where only another `leads to` needs parentheses.
struct Side<'a>(&'a Expr);

/// The binders and the guard of a quantifier.
struct Ranges<'a>(&'a Over);

impl Display for Closed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if precedence(self.0) < self.1 {
            write!(f, "({})", Open(self.0))
        } else {
            Open(self.0).fmt(f)
        }
    }
}

impl Display for Side<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `forall x in xs: p leads to q` would include `leads to` in the quantifier.
        Closed(self.0, 1).fmt(f)
    }
}

impl Display for Open<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.kind {
            ExprKind::Hole => f.write_str("?"),
            ExprKind::Literal(literal) => f.write_str(&literal_text(literal)),
            ExprKind::Name(name) => f.write_str(name),
            ExprKind::Field(base, field) => {
                Operand(base).fmt(f)?;
                write!(f, ".{}", word(&field.name))
            }
            ExprKind::Index(base, index) => {
                Operand(base).fmt(f)?;
                write!(f, "[{}]", Open(index))
            }
            ExprKind::Call(name, items) => write!(f, "{}({})", name.name, list(items)),
            ExprKind::List(items) => write!(f, "[{}]", list(items)),
            ExprKind::Set(items) => write!(f, "{{{}}}", list(items)),
            ExprKind::Map(entries) => f.write_str(&map_text(entries)),
            ExprKind::Record(fields) => {
                let fields =
                    fields.iter().map(|(name, e)| format!("{}: {}", word(&name.name), Open(e)));
                let fields = fields.collect::<Vec<_>>().join(", ");
                write!(f, "{{{}}}", if fields.is_empty() { ":" } else { &fields })
            }
            ExprKind::Unary(UnaryOp::Not, operand) => {
                // `not a == b` would be read correctly by the parser, but wrongly by people.
                write!(f, "not {}", Closed(operand, COMPARISON + 1))
            }
            ExprKind::Unary(UnaryOp::Neg, operand) => f.write_str(&negated(operand)),
            ExprKind::Binary(op, left, right) => {
                let (left_least, right_least) = sides(*op);
                write!(f, "{} {} ", Closed(left, left_least), op.text())?;
                Closed(right, right_least).fmt(f)
            }
            ExprKind::Is(base, variant) => {
                write!(f, "{} is {}", Closed(base, COMPARISON + 1), word(&variant.name))
            }
            ExprKind::Quantified { quantifier, over, body } => {
                write!(f, "{} {}: {}", quantifier_text(*quantifier), Ranges(over), Open(body))
            }
            ExprKind::Aggregate { op, over, body } => {
                let body = body.as_ref().map_or(String::new(), |body| format!(": {}", Open(body)));
                write!(f, "{}({}{body})", op.name(), Ranges(over))
            }
            ExprKind::History { op, steps, body } => f.write_str(&history_text(*op, *steps, body)),
            ExprKind::LeadsTo(from, goal) => write!(f, "{} leads to {}", Side(from), Side(goal)),
        }
    }
}

/// The expression in front of `.field` or `[index]`.
struct Operand<'a>(&'a Expr);

impl Display for Operand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The lexer would read `-5.x` and `5.x` as a sign or a number followed by something else.
        let closed = matches!(
            self.0.kind,
            ExprKind::Literal(Literal::Int(_) | Literal::Float(_) | Literal::Duration(_))
        );
        if closed { write!(f, "({})", Open(self.0)) } else { Closed(self.0, u8::MAX).fmt(f) }
    }
}

impl Display for Ranges<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binders: Vec<String> = self.0.binders.iter().map(binder_text).collect();
        f.write_str(&binders.join(", "))?;
        match &self.0.guard {
            Some(guard) => write!(f, " where {}", Closed(guard, 1)),
            None => Ok(()),
        }
    }
}

fn binder_text(binder: &Binder) -> String {
    let names = match &binder.pattern {
        Pattern::Names(names) => {
            names.iter().map(|name| name.name.as_str()).collect::<Vec<_>>().join(", ")
        }
        Pattern::Entry(key, value) => format!("{} -> {}", key.name, value.name),
    };
    format!("{names} in {}", domain_text(&binder.domain))
}

fn domain_text(domain: &Domain) -> String {
    let least = COMPARISON + 1;
    match domain {
        Domain::Nodes { kind, all } => {
            let all = if *all { "all " } else { "" };
            let kind = kind.as_ref().map_or(String::new(), |kind| format!("{} ", kind_text(kind)));
            format!("{all}{kind}nodes")
        }
        Domain::Range { from, to, inclusive } => {
            let dots = if *inclusive { "..=" } else { ".." };
            format!("{}{dots}{}", Closed(from, least), Closed(to, least))
        }
        Domain::Values(expr) => Closed(expr, least).to_string(),
    }
}

fn kind_text(kind: &str) -> String {
    if is_word(kind) && kind != "all" { kind.to_owned() } else { quote(kind) }
}

fn quantifier_text(quantifier: Quantifier) -> &'static str {
    match quantifier {
        Quantifier::Forall => "forall",
        Quantifier::Exists => "exists",
    }
}

fn history_text(op: History, steps: u32, body: &Expr) -> String {
    match (op, steps) {
        (History::Previous, 1) => format!("previous({})", Open(body)),
        (History::Previous, steps) => format!("previous({}, {steps})", Open(body)),
        (History::Changed, _) => format!("changed({})", Open(body)),
        (History::Window, steps) => format!("window({}, {steps})", Open(body)),
    }
}

fn negated(operand: &Expr) -> String {
    match &operand.kind {
        // `-5` is a literal; this node is the negation of one.
        ExprKind::Literal(Literal::Int(_) | Literal::Float(_) | Literal::Duration(_)) => {
            format!("-({})", Open(operand))
        }
        _ => format!("-{}", Closed(operand, NEGATE)),
    }
}

fn list(items: &[Expr]) -> String {
    items.iter().map(print_expr).collect::<Vec<_>>().join(", ")
}

fn map_text(entries: &[(Expr, Expr)]) -> String {
    let entries = entries.iter().map(|(key, value)| format!("{} -> {}", Open(key), Open(value)));
    let entries = entries.collect::<Vec<_>>().join(", ");
    if entries.is_empty() { "{->}".into() } else { format!("{{{entries}}}") }
}

fn literal_text(literal: &Literal) -> String {
    match literal {
        Literal::Null => "null".into(),
        Literal::Bool(value) => value.to_string(),
        Literal::Int(value) => value.to_string(),
        // Rust's debug form keeps the decimal point of a whole number and is exact.
        Literal::Float(value) => format!("{value:?}"),
        Literal::Text(text) => quote(text),
        Literal::Bytes(bytes) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("bytes(\"{hex}\")")
        }
        Literal::Duration(nanos) => duration_text(*nanos),
    }
}

fn bound_text(bound: Bound) -> String {
    match bound {
        Bound::Nanos(nanos) => duration_text(i64::try_from(nanos).unwrap_or(i64::MAX)),
        Bound::Steps(1) => "1 step".into(),
        Bound::Steps(steps) => format!("{steps} steps"),
    }
}

/// A duration in the largest unit of which it is a whole multiple.
pub(crate) fn duration_text(nanos: i64) -> String {
    let unit = UNITS.iter().find(|(_, size)| nanos != 0 && nanos % size == 0);
    unit.map_or_else(|| "0s".into(), |(name, size)| format!("{}{name}", nanos / size))
}

fn word(name: &str) -> String {
    // After a dot any word is accepted as a name.
    if is_plain(name) { name.to_owned() } else { quote(name) }
}

fn is_word(name: &str) -> bool {
    is_plain(name) && !RESERVED.contains(&name)
}

fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out += "\\\"",
            '\\' => out += "\\\\",
            '\n' => out += "\\n",
            '\t' => out += "\\t",
            '\r' => out += "\\r",
            c if c.is_control() => out += &format!("\\u{{{:x}}}", u32::from(c)),
            c => out.push(c),
        }
    }
    out + "\""
}

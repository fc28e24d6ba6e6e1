//! Constants and functions: those of the language, and those that the user supplies in Rust.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use everhold_trace::Value;

use crate::ast::{Aggregate, BinaryOp};
use crate::ops;
use crate::types::Type;
use crate::verdict::Unknown;

/// The names that a user gives to values and functions.
///
/// ```
/// use everhold_property::{Library, Type, Value};
/// let library = Library::new()
///     .with_constant("RING", 256)
///     .with_function("distance", [Type::Int, Type::Int], Type::Int, |args| match args {
///         [Value::Int(from), Value::Int(to)] => Ok(Value::Int((to - from).rem_euclid(256))),
///         _ => Err("distance takes two integers".into()),
///     });
/// assert_eq!(library.constant("RING"), Some(&Value::Int(256)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Library {
    constants: BTreeMap<String, Value>,
    functions: BTreeMap<String, Function>,
}

impl Library {
    /// An empty one.
    #[must_use]
    pub fn new() -> Library {
        Library::default()
    }

    /// Names a value.
    #[must_use]
    pub fn with_constant(mut self, name: &str, value: impl Into<Value>) -> Library {
        self.constants.insert(name.to_owned(), value.into());
        self
    }

    /// Names a function. It must be pure: equal arguments give equal results.
    #[must_use]
    pub fn with_function(
        mut self,
        name: &str,
        params: impl IntoIterator<Item = Type>,
        result: Type,
        call: impl Fn(&[Value]) -> Result<Value, String> + Send + Sync + 'static,
    ) -> Library {
        let params = params.into_iter().collect();
        let function = Function { signature: Signature { params, result }, call: Arc::new(call) };
        self.functions.insert(name.to_owned(), function);
        self
    }

    /// The value of this name.
    #[must_use]
    pub fn constant(&self, name: &str) -> Option<&Value> {
        self.constants.get(name)
    }

    /// The function of this name.
    #[must_use]
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions.get(name)
    }

    /// The names of all constants.
    pub fn constant_names(&self) -> impl Iterator<Item = &str> {
        self.constants.keys().map(String::as_str)
    }

    /// The names of all functions, the built-in ones first.
    pub fn function_names(&self) -> impl Iterator<Item = &str> {
        let built_in = Builtin::ALL.iter().map(|(name, ..)| *name);
        built_in.chain(self.functions.keys().map(String::as_str))
    }
}

/// A function supplied by the user.
#[derive(Clone)]
pub struct Function {
    signature: Signature,
    call: Arc<dyn Fn(&[Value]) -> Result<Value, String> + Send + Sync>,
}

impl Function {
    /// The types of its arguments and of its result.
    #[must_use]
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    pub(crate) fn call(&self, arguments: &[Value]) -> Result<Value, Unknown> {
        (self.call)(arguments).map_err(Unknown::Function)
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.signature)
    }
}

/// The types of a function's arguments and of its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// The types of its arguments.
    pub params: Vec<Type>,
    /// The type of its result.
    pub result: Type,
}

/// The functions of the language that depend only on their arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Builtin {
    Len,
    Abs,
    First,
    Last,
    Keys,
    Values,
    Sorted,
    Union,
    Intersection,
    Difference,
    Fold(Aggregate),
    /// The number of messages in flight, which depends on the state as well.
    InFlight,
    /// The payloads of the messages in flight, which depend on the state as well.
    Messages,
    /// A fact about a node, which depends on the state; the evaluators answer it.
    Of(NodeFact),
}

/// The facts about a node other than its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeFact {
    Up,
    Kind,
    Name,
    Reported,
    State,
    /// The node with a given name.
    Named,
}

impl Builtin {
    /// Name, function, least and most arguments.
    pub(crate) const ALL: [(&'static str, Builtin, usize, usize); 25] = [
        ("len", Builtin::Len, 1, 1),
        ("abs", Builtin::Abs, 1, 1),
        ("first", Builtin::First, 1, 1),
        ("last", Builtin::Last, 1, 1),
        ("keys", Builtin::Keys, 1, 1),
        ("values", Builtin::Values, 1, 1),
        ("sorted", Builtin::Sorted, 1, 1),
        ("union", Builtin::Union, 2, 2),
        ("intersection", Builtin::Intersection, 2, 2),
        ("difference", Builtin::Difference, 2, 2),
        ("count", Builtin::Fold(Aggregate::Count), 1, 1),
        ("sum", Builtin::Fold(Aggregate::Sum), 1, 1),
        ("min", Builtin::Fold(Aggregate::Min), 1, 8),
        ("max", Builtin::Fold(Aggregate::Max), 1, 8),
        ("avg", Builtin::Fold(Aggregate::Avg), 1, 1),
        ("set", Builtin::Fold(Aggregate::Set), 1, 1),
        ("list", Builtin::Fold(Aggregate::List), 1, 1),
        ("in_flight", Builtin::InFlight, 0, 1),
        ("messages", Builtin::Messages, 0, 1),
        ("up", Builtin::Of(NodeFact::Up), 1, 1),
        ("kind", Builtin::Of(NodeFact::Kind), 1, 1),
        ("name", Builtin::Of(NodeFact::Name), 1, 1),
        ("reported", Builtin::Of(NodeFact::Reported), 1, 1),
        ("state", Builtin::Of(NodeFact::State), 1, 1),
        ("node", Builtin::Of(NodeFact::Named), 1, 1),
    ];

    pub(crate) fn named(name: &str) -> Option<(Builtin, usize, usize)> {
        let found = Builtin::ALL.iter().find(|(other, ..)| *other == name);
        found.map(|(_, builtin, least, most)| (*builtin, *least, *most))
    }

    /// The result, given the right number of arguments.
    pub(crate) fn call(self, arguments: &[Value]) -> Result<Value, Unknown> {
        let first = &arguments[0];
        match self {
            Builtin::Len => ops::len(first),
            Builtin::Abs => match ops::compare("abs", first, &Value::Int(0)) {
                Ok(order) if order.is_lt() => ops::negate(first),
                Err(unknown) if *first != Value::Null => Err(unknown),
                _ => Ok(first.clone()),
            },
            Builtin::First => list_end(first, "first", <[Value]>::first),
            Builtin::Last => list_end(first, "last", <[Value]>::last),
            Builtin::Keys => {
                Ok(ops::set_of(ops::entries(first)?.into_iter().map(|(k, _)| k).collect()))
            }
            Builtin::Values => {
                let entries = ops::entries(first)?;
                Ok(Value::List(entries.into_iter().map(|(_, value)| value.clone()).collect()))
            }
            Builtin::Sorted => ops::sorted(first),
            Builtin::Union => {
                let mut items = ops::elements(first)?;
                items.extend(ops::elements(&arguments[1])?);
                Ok(ops::set_of(items))
            }
            Builtin::Intersection => filtered(first, &arguments[1], BinaryOp::In),
            Builtin::Difference => filtered(first, &arguments[1], BinaryOp::NotIn),
            Builtin::Fold(op) if arguments.len() > 1 => fold(op, arguments.to_vec()),
            Builtin::Fold(Aggregate::Count) => ops::len(first),
            Builtin::Fold(op) => fold(op, ops::elements(first)?),
            Builtin::InFlight | Builtin::Messages | Builtin::Of(_) => {
                unreachable!("the evaluators answer these")
            }
        }
    }
}

fn list_end(
    value: &Value,
    op: &'static str,
    end: impl Fn(&[Value]) -> Option<&Value>,
) -> Result<Value, Unknown> {
    match value {
        Value::Null => Ok(Value::Null),
        Value::List(items) => Ok(end(items).cloned().unwrap_or_default()),
        _ => Err(ops::mismatch_one(op, value)),
    }
}

fn filtered(items: &Value, other: &Value, keep: BinaryOp) -> Result<Value, Unknown> {
    let mut kept = Vec::new();
    for item in ops::elements(items)? {
        if ops::relate(keep, &item, other)? {
            kept.push(item);
        }
    }
    Ok(ops::set_of(kept))
}

/// Combines the values of an aggregate; `count` receives only those that are true.
pub(crate) fn fold(op: Aggregate, values: Vec<Value>) -> Result<Value, Unknown> {
    match op {
        Aggregate::Count => Ok(Value::Int(i64::try_from(values.len()).unwrap_or(i64::MAX))),
        Aggregate::Set => Ok(ops::set_of(values)),
        Aggregate::List => Ok(Value::List(values)),
        Aggregate::Sum => sum(&values),
        Aggregate::Min => extreme(values, "min", std::cmp::Ordering::is_lt),
        Aggregate::Max => extreme(values, "max", std::cmp::Ordering::is_gt),
        Aggregate::Avg => {
            // Null means that a value is missing, so it is not included.
            let values: Vec<Value> = values.into_iter().filter(|v| *v != Value::Null).collect();
            let count = i64::try_from(values.len()).unwrap_or(i64::MAX);
            match ops::number(&sum(&values)?).zip(ops::number(&Value::Int(count))) {
                Some((sum, count)) if count > 0.0 => Ok(Value::Float(sum / count)),
                _ => Ok(Value::Null),
            }
        }
    }
}

fn sum(values: &[Value]) -> Result<Value, Unknown> {
    let values = values.iter().filter(|value| **value != Value::Null);
    values.into_iter().try_fold(Value::Int(0), |sum, v| ops::arithmetic(BinaryOp::Add, &sum, v))
}

fn extreme(
    values: Vec<Value>,
    op: &'static str,
    better: impl Fn(std::cmp::Ordering) -> bool,
) -> Result<Value, Unknown> {
    let mut best = Value::Null;
    for value in values.into_iter().filter(|value| *value != Value::Null) {
        // A single value is compared with itself, so that a value without an order is refused even
        // when it is alone.
        let against = if best == Value::Null { &value } else { &best };
        if better(ops::compare(op, &value, against)?) || best == Value::Null {
            best = value;
        }
    }
    Ok(best)
}

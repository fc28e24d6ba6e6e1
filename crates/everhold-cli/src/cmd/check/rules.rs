//! The properties, and the errors in them.

use std::io::{self, Write};
use std::path::Path;

use everhold_property::{Diagnostic, Library, Parsed, Property, Rule, Schema, Value, check, parse};
use everhold_trace::value::json::from_json;
use everhold_trace::{Execution, notes};
use serde_json::json;

use super::keyed::{KEY, Keyed, places};
use crate::exit::BadInput;
use crate::input::{self, Given};

/// The properties of a file, ready to be judged; at least one.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) rules: Vec<Rule>,
    /// Of each, where it finds the keys that nobody binds, if it speaks of them.
    pub(crate) keyed: Vec<Option<Keyed>>,
}

/// The errors in a file of properties, or in the options that belong to it.
#[derive(Debug)]
pub(crate) enum Wrong {
    Unusable(BadInput),
    Errors { file: String, source: String, diagnostics: Vec<Diagnostic> },
}

impl Rules {
    /// Reads the properties and checks them against the states in the traces.
    pub(crate) fn read(path: &Path, define: &[String], given: &[Given]) -> Result<Rules, Wrong> {
        let source = input::read_text(path).map_err(Wrong::Unusable)?;
        let library = library(define).map_err(Wrong::Unusable)?;
        let file = path.display().to_string();
        let Parsed { properties, mut diagnostics } = parse(&source);
        let schema = schema(given);
        let keyed: Vec<_> = properties.iter().map(|p| by_key(p, &library, &schema)).collect();
        for (property, keyed) in properties.iter().zip(&keyed) {
            let some_key = library.clone().with_constant(KEY, Value::Null);
            let library = if keyed.is_some() { &some_key } else { &library };
            let mut wrong = check(property, library, &schema);
            // A key has the type that its relation asks for.
            let keys = if keyed.is_some() { places(property) } else { Vec::new() };
            wrong.retain(|wrong| !keys.contains(&wrong.span));
            diagnostics.extend(wrong);
        }
        diagnostics.sort();
        diagnostics.dedup();
        if !diagnostics.is_empty() {
            return Err(Wrong::Errors { file, source, diagnostics });
        }
        if properties.is_empty() {
            let text = "it contains no property; write one, as `everhold help properties` shows";
            return Err(Wrong::Unusable(BadInput(format!("{file}: {text}"))));
        }
        let rules = properties.iter().map(|p| Rule::new(p, &library)).collect();
        Ok(Rules { rules, keyed })
    }
}

impl Rules {
    /// The rules as they speak of one execution: of the key that it is about, if it is about one.
    pub(crate) fn about(&self, execution: &Execution) -> Vec<Rule> {
        let key = execution.notes().get(notes::KEY);
        let one = |(rule, keyed): (&Rule, &Option<_>)| match key.filter(|_| keyed.is_some()) {
            Some(key) => {
                let library = rule.library().clone().with_constant(KEY, key.clone());
                Rule::new(rule.property(), &library)
            }
            None => rule.clone(),
        };
        self.rules.iter().zip(&self.keyed).map(one).collect()
    }
}

impl Wrong {
    /// The errors with their places in the source.
    pub(crate) fn errors(self) -> Vec<BadInput> {
        match self {
            Wrong::Unusable(error) => vec![error],
            Wrong::Errors { file, source, diagnostics } => {
                vec![BadInput::of_properties(&diagnostics, &file, &source)]
            }
        }
    }

    pub(super) fn json(&self, out: &mut impl Write) -> io::Result<()> {
        let Wrong::Errors { file, source, diagnostics } = self else { return Ok(()) };
        for Diagnostic { span, message, help } in diagnostics {
            let before = source.get(..span.start).unwrap_or(source);
            let line = 1 + before.matches('\n').count();
            let column = 1 + before.rsplit('\n').next().map_or(0, |rest| rest.chars().count());
            let object = json!({
                "is": "error", "file": file, "line": line, "column": column,
                "message": message, "help": help,
            });
            writeln!(out, "{object}")?;
        }
        Ok(())
    }
}

/// Where a property finds the keys that it speaks of, if nobody binds or defines that name.
fn by_key(property: &Property, library: &Library, schema: &Schema) -> Option<Keyed> {
    let keyed = Keyed::of(property)?;
    let is_free = library.constant(KEY).is_none() && !check(property, library, schema).is_empty();
    is_free.then_some(keyed)
}

fn library(define: &[String]) -> Result<Library, BadInput> {
    let mut library = Library::new();
    for text in define {
        let Some((name, value)) = text.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(BadInput(format!(
                "--define {text}: expected NAME=VALUE, for instance --define MAX=3"
            )));
        };
        let json = serde_json::from_str(value).ok().and_then(|json| from_json(json).ok());
        library = library.with_constant(name, json.unwrap_or_else(|| Value::from(value)));
    }
    Ok(library)
}

/// The types of all states in the traces.
fn schema(given: &[Given]) -> Schema {
    let mut schema = Schema::default();
    let executions = || given.iter().flat_map(|given| &given.executions);
    if executions().any(|execution| execution.notes().contains_key(notes::PARTIAL)) {
        // An excerpt need not show what other rules read; nothing is known of the types then.
        return schema;
    }
    for execution in executions() {
        observe(&mut schema, execution);
    }
    schema
}

/// Adds the types of an execution's states to the schema.
pub(crate) fn observe(schema: &mut Schema, execution: &Execution) {
    let states = execution.local_states();
    for node in execution.node_ids() {
        let kind = &execution.node(node).kind;
        let mut last = None;
        for count in 0..=execution.events_of(node).len() {
            let version = states.version(node, count);
            if let Some(state) = states.at(node, count).filter(|_| version != last) {
                schema.observe(kind, state);
            }
            last = version;
        }
    }
}

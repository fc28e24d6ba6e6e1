//! The reason why an expected property is not among the lines.

use std::io::Write;

use anyhow::Result;
use everhold_infer::{Always, arranged};
use everhold_property::{
    Library, Limits, Property, Rule, Scope, Verdict, check_execution, parse, print, print_expr,
};

use crate::exit::{BadInput, Code};
use crate::input::Given;
use crate::words;

pub(super) fn explain(
    text: &str,
    found: &Always,
    given: &[Given],
    out: &mut impl Write,
) -> Result<Code> {
    let property = wanted(text)?;
    let rule = Rule::new(&property, &Library::new());
    let mut unknown = false;
    for given in given {
        for execution in &given.executions {
            let outcome = check_execution(&rule, execution, Limits::default());
            unknown |= outcome.verdict == Verdict::Unknown;
            let Some(violation) = outcome.violation else { continue };
            let place = violation.event.map_or("before the first event".to_owned(), |event| {
                let node = words::node(execution, execution.event(event).node);
                format!("at event {} of {}: {node}", event.0, given.name)
            });
            writeln!(out, "it is false {place}, {}", words::short(execution.name(), 40))?;
            write!(out, "{}", violation.witness)?;
            return Ok(Code::Violated);
        }
    }
    // A claim that holds on every cut holds on the quiet ones.
    let everywhere = Property { scope: Scope::EveryCut, ..property.clone() };
    let narrow = matches!(property.scope, Scope::Quiet | Scope::AllQuiet);
    let mut texts = vec![arranged(&property)];
    texts.extend(narrow.then(|| arranged(&everywhere)));
    let same = |other: &Property| texts.contains(&arranged(other));
    if let Some(place) = found.lines.iter().position(|line| same(&line.property)) {
        let line = &found.lines[place].property;
        let literal =
            line.scope == property.scope && print_expr(&line.body) == print_expr(&property.body);
        let words = if literal { "" } else { ", in other words" };
        writeln!(out, "it is line {}{words}", place + 1)?;
        if !literal {
            writeln!(out, "{}", print(line).trim_end())?;
        }
    } else if let Some(hidden) = found.hidden.iter().find(|hidden| same(&hidden.property)) {
        writeln!(out, "it holds, and is hidden: {}", hidden.reason)?;
    } else if unknown {
        writeln!(
            out,
            "it is unknown: a value that it needs was not recorded, or a bound was reached"
        )?;
        return Ok(Code::Unknown);
    } else {
        writeln!(
            out,
            "it holds, but is no form that is tried, or could not have been false: a variable in \
             it is constant, or its condition was never true (see --all)"
        )?;
    }
    Ok(Code::Holds)
}

/// Parses the expected property: a whole property, or the claim alone.
fn wanted(text: &str) -> Result<Property> {
    let whole = if text.trim_start().starts_with("always") {
        text.to_owned()
    } else {
        format!("always \"wanted\": {text}")
    };
    let parsed = parse(&whole);
    match parsed.into_result() {
        Ok(mut properties) if properties.len() == 1 => Ok(properties.remove(0)),
        Ok(_) => Err(BadInput("--why takes one property".into()).into()),
        Err(errors) => Err(BadInput::of_properties(&errors, "--why", &whole).into()),
    }
}

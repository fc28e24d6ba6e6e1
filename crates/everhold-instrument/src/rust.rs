//! The front end for Rust: syntax trees of `syn`, and as much of the types as the source tells.

mod calls;
mod expr;
mod index;
mod network;
mod points;
mod source;
mod walk;

use std::collections::BTreeSet;
use std::path::Path;

use proc_macro2::Span;
use syn::spanned::Spanned;

use crate::entries::Entries;
use crate::facts::{Begin, Direction, Facts, File, Meet, Skipped, VarId};
use crate::files;

use index::Index;
use source::Source;
use walk::{Potential, Walk};

/// Returns the line of a token.
fn line(span: Span) -> usize {
    span.start().line
}

/// A file of the package.
struct Parsed {
    path: String,
    source: Source,
    tree: syn::File,
    is_test: bool,
}

/// Reads a package and returns its facts.
///
/// # Errors
///
/// If the folder cannot be read.
pub fn read(folder: &Path, entries: &Entries) -> std::io::Result<Facts> {
    let mut facts = Facts::default();
    let parsed = parse(folder, &mut facts)?;
    let mut index = Index::default();
    for file in parsed.iter().filter(|file| !file.is_test) {
        index.names(&file.tree.items);
    }
    for (number, file) in parsed.iter().enumerate() {
        let lines = if file.is_test { 0 } else { file.source.lines() };
        facts.files.push(File { path: file.path.clone(), lines });
        match file.is_test {
            true => index.tests(&file.tree.items, number),
            false => index.items(&file.tree.items, number, &mut facts),
        }
    }
    for start in &index.starts {
        let open = start.block.brace_token.span.open().end();
        let offset = parsed[start.file].source.offset(open);
        facts.begins.push(Begin { file: start.file, offset, name: start.name.clone() });
    }
    let (mut potentials, mut carried) = (Vec::new(), BTreeSet::new());
    walk(&index, &parsed, &mut facts, &mut potentials, &mut carried);
    named(&index, &mut facts, entries);
    connect(&mut facts, potentials, &carried);
    Ok(facts)
}

fn parse(folder: &Path, facts: &mut Facts) -> std::io::Result<Vec<Parsed>> {
    let mut parsed = Vec::new();
    for path in files::with_extension(folder, "rs", &mut facts.skipped)? {
        let skip = |reason: String| Skipped { path: path.clone(), reason };
        let text = match std::fs::read_to_string(folder.join(&path)) {
            Ok(text) => text,
            Err(error) => {
                facts.skipped.push(skip(error.to_string()));
                continue;
            }
        };
        if files::is_generated(&text) {
            facts.skipped.push(skip("it is generated".to_owned()));
            continue;
        }
        match syn::parse_file(&text) {
            Ok(tree) => {
                let is_test =
                    path.split('/').any(|part| matches!(part, "tests" | "benches" | "examples"));
                parsed.push(Parsed { source: Source::new(&text), path, tree, is_test });
            }
            Err(error) => {
                let line = error.span().start().line;
                facts.skipped.push(skip(format!("line {line} does not parse ({error})")));
            }
        }
    }
    Ok(parsed)
}

fn walk(
    index: &Index<'_>,
    parsed: &[Parsed],
    facts: &mut Facts,
    potentials: &mut Vec<Potential>,
    carried: &mut BTreeSet<usize>,
) {
    for body in &index.bodies {
        let file = &parsed[body.file];
        let mut unread = BTreeSet::new();
        // Of a receiver by value, the end of the function may have nothing left.
        let receiver = body.signature.receiver();
        let has_self = receiver.is_some_and(|receiver| receiver.reference.is_some());
        Walk {
            index,
            facts,
            source: &file.source,
            potentials,
            carried,
            unread: &mut unread,
            function: body.function,
            file: body.file,
            owner: body.owner.clone(),
            has_self,
            scopes: Vec::new(),
            inner: 0,
            base: 0,
            controls: Vec::new(),
            placed: 0,
        }
        .body(body);
        let reasons = unread.into_iter().map(|reason| Skipped { path: file.path.clone(), reason });
        facts.skipped.extend(reasons);
    }
}

/// Adds the entry points that a person named.
fn named(index: &Index<'_>, facts: &mut Facts, entries: &Entries) {
    for (function, body) in index.bodies.iter().enumerate() {
        let Some(direction) = entries.direction(&facts.functions[function].name) else { continue };
        let callable = &index.callables[function];
        let call = facts.functions[function].name.clone();
        let (file, line) = (body.file, line(body.signature.span()));
        let meets = callable.params.iter().map(|var| Meet {
            var: *var,
            direction,
            call: call.clone(),
            file,
            line,
        });
        facts.meets.extend(meets.collect::<Vec<_>>());
        if direction == Direction::In {
            let var = callable.result;
            facts.meets.push(Meet { var, direction: Direction::Out, call, file, line });
        }
    }
}

/// Decides which variables are connections, and so which calls communicate.
fn connect(facts: &mut Facts, potentials: Vec<Potential>, carried: &BTreeSet<usize>) {
    let mut next: Vec<Vec<VarId>> = vec![Vec::new(); facts.vars.len()];
    for (number, flow) in facts.flows.iter().enumerate() {
        if carried.contains(&number) {
            next[flow.from].push(flow.to);
        }
    }
    let mut waiting: Vec<VarId> =
        (0..facts.vars.len()).filter(|var| facts.vars[*var].is_handle).collect();
    while let Some(var) = waiting.pop() {
        for to in next[var].clone() {
            if !facts.vars[to].is_handle && !facts.vars[to].is_plain {
                facts.vars[to].is_handle = true;
                waiting.push(to);
            }
        }
    }
    for potential in potentials {
        let through = &potential.through;
        if through.is_empty() || through.iter().any(|var| facts.vars[*var].is_handle) {
            facts.meets.extend(potential.meets);
            facts.points.extend(potential.points);
        }
    }
    let handles: Vec<bool> = facts.vars.iter().map(|var| var.is_handle).collect();
    facts.meets.retain(|meet| !handles[meet.var]);
}

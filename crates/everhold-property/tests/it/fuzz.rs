//! Mutated and random texts. A failure prints the text; add it to `testdata/fuzz`.

use everhold_property::{ExprKind, Parsed, parse, print_all, render_all};

use crate::golden::testdata;
use crate::random::{Random, property};

/// For any text the parser terminates and renders its errors, and a text without errors can be read
/// back.
#[track_caller]
fn check(source: &str) {
    let Parsed { properties, diagnostics } = parse(source);
    let rendered = render_all(&diagnostics, "fuzz", source);
    if diagnostics.is_empty() {
        let printed = print_all(&properties);
        assert_eq!(parse(&printed).properties, properties, "{source:?}\n{printed}");
        let hole = properties
            .iter()
            .any(|property| property.body.any(&mut |expr| expr.kind == ExprKind::Hole));
        assert!(!hole, "a hole without a diagnostic: {source:?}");
    } else {
        assert!(rendered.contains("-->"), "{source:?}");
    }
}

#[test]
fn the_corpus_is_survived() {
    for folder in ["ok", "err", "fuzz"] {
        for (_, source) in testdata(folder) {
            check(&source);
        }
    }
}

#[test]
fn mutated_properties_are_survived() {
    let corpus: Vec<String> = ["ok", "err", "fuzz"]
        .iter()
        .flat_map(|folder| testdata(folder))
        .map(|(_, source)| source)
        .collect();
    for seed in 0..8_000 {
        let mut random = Random::new(seed);
        let mut text = match random.below(3) {
            0 => print_all(&[property(&mut random)]),
            _ => random.pick(&corpus),
        };
        for _ in 0..=random.below(4) {
            text = mutate(&mut random, &text);
        }
        check(&text);
    }
}

const PIECES: [&str; 40] = [
    "always ",
    "\"",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ":",
    ",",
    "forall ",
    "exists ",
    "in ",
    "nodes ",
    "not ",
    "and ",
    "implies ",
    "leads to ",
    "within 5s ",
    "..",
    "..=",
    "->",
    "-",
    "=",
    "==",
    "<",
    ".",
    "1",
    "1.5",
    "5sx",
    "9999999999999999999",
    "#",
    "\n",
    "\\u{",
    "é",
    "where ",
    "is ",
    "previous(",
    "count(n in ",
    "window(x, 0)",
];

fn mutate(random: &mut Random, text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let (mut from, mut to) = (random.below(chars.len() + 1), random.below(chars.len() + 1));
    if from > to {
        std::mem::swap(&mut from, &mut to);
    }
    let to = to.min(from + 12);
    let (before, middle, after): (String, String, String) = (
        chars[..from].iter().collect(),
        chars[from..to].iter().collect(),
        chars[to..].iter().collect(),
    );
    match random.below(4) {
        0 => before + &after,
        1 => format!("{before}{middle}{middle}{after}"),
        2 => format!("{before}{}{middle}{after}", random.pick(&PIECES)),
        _ => format!("{before}{}{after}", random.pick(&PIECES)),
    }
}

#[test]
fn hostile_sizes_are_survived() {
    for piece in
        ["(", "[", "{", "not ", "-", "x.", "a and ", "forall x in ", "f(", "a implies ", "x[0]"]
    {
        check(&format!("always \"deep\": {}", piece.repeat(20_000)));
    }
    check(&format!("always \"long\": x == \"{}\"", "é".repeat(1_000_000)));
    check(&"always ".repeat(20_000));
}

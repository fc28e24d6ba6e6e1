//! The parser. It always returns a tree, and every error that it finds.

use std::collections::BTreeMap;

use crate::ast::{Bound, Expr, ExprKind, Modality, Property, Quantifier, Sampling, Scope};
use crate::diagnostic::{Diagnostic, Span, nearest};
use crate::lex::{RESERVED, Token, TokenKind, lex};

mod binder;
mod expr;
mod primary;
mod sampling;
mod sugar;

/// The result of reading a text.
#[derive(Clone, Debug, Default)]
#[must_use = "the diagnostics say what could not be read"]
pub struct Parsed {
    /// The properties. One that has a diagnostic may contain [`ExprKind::Hole`].
    pub properties: Vec<Property>,
    /// Every error, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
}

impl Parsed {
    /// The properties, if there was no error.
    pub fn into_result(self) -> Result<Vec<Property>, Vec<Diagnostic>> {
        if self.diagnostics.is_empty() { Ok(self.properties) } else { Err(self.diagnostics) }
    }
}

/// Reads a file of properties.
///
/// ```
/// let text = r#"always "terms agree": forall a, b in nodes: a.term == b.term"#;
/// let parsed = everhold_property::parse(text);
/// assert!(parsed.diagnostics.is_empty());
/// assert_eq!(parsed.properties[0].name, "terms agree");
/// ```
pub fn parse(source: &str) -> Parsed {
    let mut parser = Parser::new(source);
    let properties = parser.file();
    parser.finish(properties)
}

/// Reads a single expression.
///
/// ```
/// let expr = everhold_property::parse_expr("a.term + 1").unwrap();
/// assert_eq!(everhold_property::print_expr(&expr), "a.term + 1");
/// ```
pub fn parse_expr(source: &str) -> Result<Expr, Vec<Diagnostic>> {
    let mut parser = Parser::new(source);
    let expr = parser.expr();
    if !parser.at_end() {
        parser.unexpected("the end of the expression");
    }
    let parsed = parser.finish(Vec::new());
    if parsed.diagnostics.is_empty() { Ok(expr) } else { Err(parsed.diagnostics) }
}

/// Nesting beyond this is refused, so that no text can exhaust the stack.
const DEPTH_MAX: u32 = 96;
/// The largest number of operands in one chain `a and b and ...`, whose tree is as deep as the
/// chain is long.
const CHAIN_MAX: u32 = 400;

/// The largest number of diagnostics; a file of another kind would produce one for every word.
const DIAGNOSTICS_MAX: usize = 200;

struct Parser<'a> {
    source: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: u32,
    /// The place of the last error; further errors at the same token are consequences of it.
    error_at: Option<usize>,
    /// The bound of a `leads to` between parentheses.
    inner_within: Option<Bound>,
    diagnostics: Vec<Diagnostic>,
}

impl<'a> Parser<'a> {
    fn new(source: &'a str) -> Parser<'a> {
        let mut diagnostics = Vec::new();
        let tokens = lex(source, &mut diagnostics);
        Parser { source, tokens, at: 0, depth: 0, error_at: None, inner_within: None, diagnostics }
    }

    fn finish(mut self, properties: Vec<Property>) -> Parsed {
        self.diagnostics.sort();
        self.diagnostics.dedup();
        if let Some(last) = self.diagnostics.get(DIAGNOSTICS_MAX) {
            let more = self.diagnostics.len() - DIAGNOSTICS_MAX;
            let errors = if more == 1 { "error" } else { "errors" };
            let last = Diagnostic::new(last.span, format!("{more} more {errors} from here on"));
            self.diagnostics.truncate(DIAGNOSTICS_MAX);
            self.diagnostics.push(last);
        }
        Parsed { properties, diagnostics: self.diagnostics }
    }

    fn kind(&self) -> &TokenKind {
        &self.tokens[self.at].kind
    }

    /// The kind of the token `n` places further on; beyond the last token it is `End`.
    fn kind_after(&self, n: usize) -> &TokenKind {
        &self.tokens[(self.at + n).min(self.tokens.len() - 1)].kind
    }

    fn span(&self) -> Span {
        self.tokens[self.at].span
    }

    fn previous_span(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].span
    }

    fn at_end(&self) -> bool {
        *self.kind() == TokenKind::End
    }

    fn bump(&mut self) -> Token {
        let token = self.tokens[self.at].clone();
        if !self.at_end() {
            self.at += 1;
        }
        token
    }

    fn at_punct(&self, punct: &str) -> bool {
        matches!(self.kind(), TokenKind::Punct(found) if *found == punct)
    }

    fn at_word(&self, word: &str) -> bool {
        self.word_after(0) == Some(word)
    }

    fn word_after(&self, n: usize) -> Option<&str> {
        match self.kind_after(n) {
            TokenKind::Word(word) => Some(word),
            _ => None,
        }
    }

    /// A word at the present token that may be a name.
    fn at_name(&self) -> bool {
        self.word_after(0).is_some_and(|word| !RESERVED.contains(&word))
    }

    fn eat_punct(&mut self, punct: &str) -> bool {
        let found = self.at_punct(punct);
        if found {
            self.bump();
        }
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        if found {
            self.bump();
        }
        found
    }

    /// Consumes all of `words`, or none of them.
    fn eat_words(&mut self, words: &[&str]) -> bool {
        let found = words.iter().enumerate().all(|(i, word)| self.word_after(i) == Some(word));
        if found {
            self.at += words.len();
        }
        found
    }

    fn error(&mut self, span: Span, message: impl Into<String>, help: Option<String>) {
        if self.error_at == Some(self.at) {
            return;
        }
        self.error_at = Some(self.at);
        self.diagnostics.push(Diagnostic { span, message: message.into(), help });
    }

    fn unexpected(&mut self, expected: &str) {
        self.unexpected_with(expected, None);
    }

    fn unexpected_with(&mut self, expected: &str, help: Option<String>) {
        let message = format!("expected {expected}, found {}", self.describe());
        let help = self.foreign().or(help);
        // An error at the end of a property is reported behind the last word of that property.
        let ends = (self.at_end() || self.at_header()) && self.at > 0;
        let behind = self.previous_span().end;
        let span = if ends { Span::new(behind, behind + 1) } else { self.span() };
        self.error(span, message, help);
    }

    /// The way to say what a word of another language says, if the error is at or behind one.
    fn foreign(&self) -> Option<String> {
        let before = self.at.checked_sub(1).map(|at| &self.tokens[at].kind);
        [Some(self.kind()), before].into_iter().flatten().find_map(|kind| match kind {
            TokenKind::Word(word) => absent(word).map(str::to_owned),
            _ => None,
        })
    }

    fn describe(&self) -> String {
        match self.kind() {
            TokenKind::End => "the end of the text".into(),
            TokenKind::Word(_) if self.at_header() => "the next property".into(),
            TokenKind::Text(_) => "a text".into(),
            _ => format!("`{}`", &self.source[self.span().start..self.span().end]),
        }
    }

    fn expect_punct(&mut self, punct: &str, after: &str) {
        if !self.eat_punct(punct) {
            self.unexpected(&format!("`{punct}` {after}"));
        }
    }

    fn at_header(&self) -> bool {
        HEADERS.iter().any(|word| self.at_word(word))
    }

    fn file(&mut self) -> Vec<Property> {
        let mut properties = Vec::new();
        while !self.at_end() {
            if self.at_header() {
                properties.push(self.property());
            } else {
                self.not_a_header();
            }
        }
        self.check_names(&properties);
        properties
    }

    /// The keyword that was probably meant by a word that is followed by a name.
    fn misspelt_header(&self) -> Option<&'static str> {
        let word = self.word_after(0).filter(|word| !RESERVED.contains(word))?;
        let named = matches!(self.kind_after(1), TokenKind::Text(_));
        nearest(word, HEADERS).filter(|_| named)
    }

    fn not_a_header(&mut self) {
        if let Some(header) = self.misspelt_header() {
            let help = format!("did you mean `{header}`?");
            self.unexpected_with("`always`, `sometimes`, `eventually` or `finally`", Some(help));
            self.tokens[self.at].kind = TokenKind::Word(header.to_owned());
            return;
        }
        let help = "a property starts like this: always \"name\": ...".to_owned();
        self.unexpected_with("`always`, `sometimes`, `eventually` or `finally`", Some(help));
        self.skip_to_header();
    }

    fn skip_to_header(&mut self) {
        while !self.at_end() && !self.at_header() && self.misspelt_header().is_none() {
            self.bump();
        }
    }

    fn check_names(&mut self, properties: &[Property]) {
        let mut seen: BTreeMap<&str, ()> = BTreeMap::new();
        for property in properties {
            if !property.name.is_empty() && seen.insert(&property.name, ()).is_some() {
                let message = format!("there is already a property named {:?}", property.name);
                let span = Span::new(property.span.start, property.body.span.start);
                let help = "give each property its own name".to_owned();
                self.diagnostics.push(Diagnostic { span, message, help: Some(help) });
            }
        }
    }

    fn property(&mut self) -> Property {
        let start = self.span();
        let header = self.bump();
        let name = self.property_name();
        let Head { scope, within, sampling } = self.head();
        self.expect_punct(":", "before the claim");
        self.inner_within = None;
        let mut body = sugar::lifted(self.body());
        let (within_it, behind) = (self.inner_within, self.eat_within());
        if within_it.is_some() && behind.is_some() {
            let help = "leave out the one within the parentheses or the one behind them";
            self.push(self.previous_span(), "`leads to` has one bound", help);
        }
        let leads = behind.or(within_it);
        if !self.at_end() && !self.at_header() && self.misspelt_header().is_none() {
            self.after_body();
        }
        let modality = match header.kind {
            TokenKind::Word(word) if word == "sometimes" => Modality::Sometimes,
            TokenKind::Word(word) if word == "eventually" => Modality::Eventually { within },
            TokenKind::Word(word) if word == "finally" => Modality::Finally { within },
            _ if is_leads_to(&body) => Modality::LeadsTo { within: leads },
            _ => Modality::Always,
        };
        self.check_shape(header.span, modality, within, leads, &mut body);
        let sampling = self.checked_sampling(header.span, sampling, (modality, scope), &body);
        Property { name, modality, scope, sampling, body, span: start.to(self.previous_span()) }
    }

    fn property_name(&mut self) -> String {
        if let TokenKind::Text(name) = self.kind().clone() {
            if name.is_empty() {
                let help = "describe the claim in a few words".to_owned();
                self.error(self.span(), "the name of a property is empty", Some(help));
            }
            self.bump();
            return name;
        }
        let help = "for instance always \"one leader per term\": ...".to_owned();
        self.unexpected_with("the name of the property between double quotes", Some(help));
        if self.at_name() && !self.scope_word() {
            self.bump();
        }
        String::new()
    }

    fn scope_word(&self) -> bool {
        ["at", "when", "on", "along", "within", "for", "every"]
            .iter()
            .any(|word| self.at_word(word))
    }

    /// The scope, the bound and the sampling, in any order.
    fn head(&mut self) -> Head {
        let (mut scope, mut within, mut sampling) = (None, None, Sampling::default());
        loop {
            let span = self.span();
            if let Some(found) = self.eat_scope() {
                if scope.replace(found).is_some() {
                    self.error(span, "a property has one scope", None);
                }
            } else if let Some(found) = self.eat_within() {
                within = Some(found);
            } else if self.eat_word("for") {
                sampling.keys = self.share_of_keys();
            } else if self.eat_word("every") {
                sampling.every = self.period();
            } else if self.scope_word() {
                self.bad_scope();
            } else {
                return Head { scope: scope.unwrap_or_default(), within, sampling };
            }
        }
    }

    fn eat_scope(&mut self) -> Option<Scope> {
        SCOPES.iter().find(|(words, _)| self.eat_words(words)).map(|(_, scope)| *scope)
    }

    fn bad_scope(&mut self) {
        let scopes: Vec<String> =
            SCOPES.iter().map(|(words, _)| format!("`{}`", words.join(" "))).collect();
        let help = format!("scopes are {}", scopes.join(", "));
        self.error(self.span(), "this is no scope", Some(help));
        while !self.at_end() && !self.at_punct(":") && !self.at_header() {
            self.bump();
        }
    }

    fn eat_within(&mut self) -> Option<Bound> {
        if !self.eat_word("within") {
            return None;
        }
        match self.kind().clone() {
            TokenKind::Duration(nanos) => {
                self.bump();
                Some(Bound::Nanos(nanos.unsigned_abs()))
            }
            TokenKind::Int(steps) if matches!(self.word_after(1), Some("steps" | "step")) => {
                self.at += 2;
                Some(Bound::Steps(steps.unsigned_abs()))
            }
            _ => {
                let help = "for instance `within 5s`, `within 200ms`, `within 20 steps`".to_owned();
                self.unexpected_with("a time or a number of steps", Some(help));
                if matches!(self.kind(), TokenKind::Int(_) | TokenKind::Float(_)) {
                    self.bump();
                }
                None
            }
        }
    }

    /// An expression, or `p leads to q` below any number of `forall`.
    fn body(&mut self) -> Expr {
        let body = self.expr();
        self.leads_to(body)
    }

    fn leads_to(&mut self, from: Expr) -> Expr {
        if !self.eat_words(&["leads", "to"]) {
            return from;
        }
        let goal = self.expr();
        if self.at_word("leads") {
            let help = "write one property for each of them".to_owned();
            self.error(self.span(), "`leads to` does not chain", Some(help));
            self.eat_words(&["leads", "to"]);
            self.expr();
        }
        let span = from.span.to(goal.span);
        Expr { kind: ExprKind::LeadsTo(Box::new(from), Box::new(goal)), span }
    }

    /// Reports tokens after a body, which are most likely a slip within the body.
    fn after_body(&mut self) {
        let help = match self.kind() {
            TokenKind::Punct("=") => Some("write `==` to compare".to_owned()),
            TokenKind::Punct(")" | "]" | "}") => Some("there is no bracket to close".to_owned()),
            TokenKind::Punct(":") => Some("only `forall` and `exists` take a `:`".to_owned()),
            TokenKind::Word(word) => operator_like(word),
            _ => None,
        };
        self.unexpected_with("an operator or the next property", help);
        self.skip_to_header();
    }

    fn check_shape(
        &mut self,
        header: Span,
        modality: Modality,
        within: Option<Bound>,
        leads: Option<Bound>,
        body: &mut Expr,
    ) {
        let is_bounded = matches!(modality, Modality::Eventually { .. } | Modality::Finally { .. });
        let is_leads = matches!(modality, Modality::LeadsTo { .. });
        if within.is_some() && !is_bounded || leads.is_some() && !is_leads {
            let help = "`within` goes with `eventually \"...\" within 5s: p`, with `finally`, \
                        or with `p leads to q within 5s`";
            self.push(header, "this bound has nothing to apply to", help);
        }
        let below = body.any(&mut |expr| matches!(expr.kind, ExprKind::LeadsTo(..)));
        if below && (!is_leads || !leads_only_at_top(body)) {
            let (message, help) = match is_leads {
                true => sugar::why_not_lifted(innermost(body)),
                false => sugar::why_not_lifted(body),
            };
            self.push(body.span, message, help);
            body.kind = ExprKind::Hole;
        }
    }

    fn push(&mut self, span: Span, message: &str, help: &str) {
        self.diagnostics.push(Diagnostic::new(span, message).with_help(help));
    }
}

/// The part between the name of a property and its colon.
struct Head {
    scope: Scope,
    within: Option<Bound>,
    sampling: Sampling,
}

/// The words that a property starts with.
const HEADERS: [&str; 4] = ["always", "sometimes", "eventually", "finally"];

const SCOPES: [(&[&str], Scope); 5] = [
    (&["at", "every", "cut"], Scope::EveryCut),
    (&["when", "quiet"], Scope::Quiet),
    (&["when", "all", "quiet"], Scope::AllQuiet),
    (&["on", "delivery"], Scope::Delivery),
    (&["along", "chains"], Scope::Chains),
];

/// The words of a scope.
pub(crate) fn scope_text(scope: Scope) -> String {
    let found = SCOPES.iter().find(|(_, other)| *other == scope);
    found.expect("SCOPES lists every scope").0.join(" ")
}

fn operator_like(word: &str) -> Option<String> {
    let operators = [
        "and",
        "or",
        "implies",
        "in",
        "not",
        "subset",
        "disjoint",
        "prefix",
        "subsequence",
        "is",
        "leads",
    ];
    nearest(word, operators).map(|near| format!("did you mean `{near}`?"))
}

fn is_leads_to(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::LeadsTo(..) => true,
        ExprKind::Quantified { quantifier: Quantifier::Forall, body, .. } => is_leads_to(body),
        _ => false,
    }
}

/// The `leads to` below any number of `forall`.
fn innermost(expr: &Expr) -> &Expr {
    match &expr.kind {
        ExprKind::Quantified { quantifier: Quantifier::Forall, body, .. } => innermost(body),
        _ => expr,
    }
}

fn leads_only_at_top(expr: &Expr) -> bool {
    let free = |expr: &Expr| !expr.any(&mut |expr| matches!(expr.kind, ExprKind::LeadsTo(..)));
    match &expr.kind {
        ExprKind::LeadsTo(from, goal) => free(from) && free(goal),
        ExprKind::Quantified { quantifier: Quantifier::Forall, over, body } => {
            over.guard.as_ref().is_none_or(|guard| free(guard)) && leads_only_at_top(body)
        }
        _ => false,
    }
}

/// The replacement for a word that other languages have and this one does not.
pub(crate) fn absent(word: &str) -> Option<&'static str> {
    Some(match word {
        "let" => "write `let x = n.term: x > 0`, with a colon before the claim",
        "if" | "then" | "else" => {
            "write `if c then p else q`, where p and q are claims; without `else`, `c implies p`"
        }
        "once" | "historically" => {
            "write `once(p within 20 steps)` or `historically(p within 20 steps)`"
        }
        "since" => {
            "there is no `since`, because a whole past is not kept: write the claim forwards, \
             `p leads to q`, or let the node keep what it has seen in its state; \
             `once(p within 20 steps)`, `previous(e, k)` and `window(e, k)` look back over k states"
        }
        "until" | "unless" => {
            "there is no `until`: write `p leads to q within 5s`, or compare with `previous(e)`"
        }
        "now" => {
            "there is no `now()`: times are bounds, as in `within 5s`; let the node show the end of \
             a lease beside its own clock in its state, and compare the two"
        }
        _ => return None,
    })
}

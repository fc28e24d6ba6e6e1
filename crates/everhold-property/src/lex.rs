//! The lexer. Characters that form no token are reported and skipped.

use crate::diagnostic::{Diagnostic, Span};

/// A token and its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    /// A name or a keyword; the parser tells them apart.
    Word(String),
    Int(i64),
    Float(f64),
    /// In nanoseconds.
    Duration(i64),
    Text(String),
    Punct(&'static str),
    End,
}

/// Words that cannot be names.
pub(crate) const RESERVED: [&str; 16] = [
    "always",
    "sometimes",
    "eventually",
    "finally",
    "forall",
    "exists",
    "in",
    "not",
    "and",
    "or",
    "implies",
    "where",
    "nodes",
    "true",
    "false",
    "null",
];

/// Longer ones first, so that `<=` is not read as `<` and `=`.
const PUNCTUATION: [&str; 31] = [
    "..=", "==", "!=", "<=", ">=", "<>", "&&", "||", "=>", "->", "..", "<", ">", "(", ")", "[",
    "]", "{", "}", ",", ":", ".", "+", "-", "*", "/", "%", "=", "!", ";", "&",
];

/// The symbols of mathematical logic and their equivalents in the language.
const NOTATION: [(char, &str); 12] = [
    ('≤', "<="),
    ('≥', ">="),
    ('≠', "!="),
    ('∀', "forall"),
    ('∃', "exists"),
    ('∈', "in"),
    ('∧', "and"),
    ('∨', "or"),
    ('¬', "not"),
    ('→', "implies"),
    ('⇒', "implies"),
    ('⊆', "subset"),
];

/// The units of time and their nanoseconds, from the largest.
pub(crate) const UNITS: [(&str, i64); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// The tokens of `source`, the last of which is [`TokenKind::End`].
pub(crate) fn lex(source: &str, diagnostics: &mut Vec<Diagnostic>) -> Vec<Token> {
    let mut lexer = Lexer { source, at: 0, diagnostics };
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next_token();
        let end = token.kind == TokenKind::End;
        tokens.push(token);
        if end {
            return tokens;
        }
    }
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.source[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip_while(&mut self, test: impl Fn(char) -> bool) {
        let rest = self.rest();
        self.at += rest.find(|c| !test(c)).unwrap_or(rest.len());
    }

    fn error(&mut self, start: usize, message: impl Into<String>, help: &str) {
        let span = Span::new(start, self.at);
        self.diagnostics.push(Diagnostic::new(span, message).with_help(help));
    }

    fn next_token(&mut self) -> Token {
        loop {
            self.skip_while(char::is_whitespace);
            let start = self.at;
            let Some(first) = self.peek() else {
                return Token { kind: TokenKind::End, span: Span::new(start, start) };
            };
            if first == '#' {
                self.skip_while(|c| c != '\n');
                continue;
            }
            if let Some(kind) = self.token(first) {
                return Token { kind, span: Span::new(start, self.at) };
            }
        }
    }

    /// One token, or nothing if the characters make none; something is consumed in either case.
    fn token(&mut self, first: char) -> Option<TokenKind> {
        let start = self.at;
        if first.is_alphabetic() || first == '_' {
            self.skip_while(|c| c.is_alphanumeric() || c == '_');
            return Some(TokenKind::Word(self.source[start..self.at].to_owned()));
        }
        if first.is_ascii_digit() {
            return Some(self.number(start));
        }
        if first == '"' {
            return Some(TokenKind::Text(self.text(start)));
        }
        if let Some(punct) = PUNCTUATION.iter().find(|punct| self.rest().starts_with(**punct)) {
            self.at += punct.len();
            return Some(TokenKind::Punct(punct));
        }
        self.stray(first)
    }

    /// Reads the notation of other languages as its equivalent here, so that one slip is one error.
    fn stray(&mut self, first: char) -> Option<TokenKind> {
        let start = self.at;
        if first == '\'' {
            let text = self.text(start);
            self.error(start, "texts stand between double quotes", &format!("write \"{text}\""));
            return Some(TokenKind::Text(text));
        }
        self.at += first.len_utf8();
        let shown = first.escape_debug();
        let Some((_, plain)) = NOTATION.iter().find(|(symbol, _)| *symbol == first) else {
            let help = "remove it, or put it between double quotes";
            self.error(start, format!("`{shown}` means nothing here"), help);
            return None;
        };
        self.error(
            start,
            format!("`{shown}` is not part of the language"),
            &format!("write `{plain}`"),
        );
        let punct = PUNCTUATION.iter().find(|punct| *punct == plain);
        Some(
            punct.map_or_else(|| TokenKind::Word((*plain).into()), |punct| TokenKind::Punct(punct)),
        )
    }

    fn number(&mut self, start: usize) -> TokenKind {
        self.skip_while(|c| c.is_ascii_digit() || c == '_');
        let mut float = false;
        let after_dot = self.rest().strip_prefix('.').and_then(|rest| rest.chars().next());
        if after_dot.is_some_and(|c| c.is_ascii_digit()) {
            float = true;
            self.at += 1;
            self.skip_while(|c| c.is_ascii_digit() || c == '_');
        }
        float |= self.exponent();
        let digits = self.source[start..self.at].replace('_', "");
        let unit_start = self.at;
        self.skip_while(|c| c.is_alphanumeric() || c == '_');
        let unit = self.source[unit_start..self.at].to_owned();
        match (unit.is_empty(), float) {
            (true, true) => self.float(start, &digits),
            (true, false) => TokenKind::Int(self.int(start, &digits)),
            (false, _) => TokenKind::Duration(self.duration(start, &digits, &unit)),
        }
    }

    /// Consumes `e9`, `e-9`, `E+9`.
    fn exponent(&mut self) -> bool {
        let rest = self.rest();
        let Some(after) = rest.strip_prefix(['e', 'E']) else { return false };
        let digits = after.strip_prefix(['+', '-']).unwrap_or(after);
        if !digits.starts_with(|c: char| c.is_ascii_digit()) {
            return false;
        }
        self.at += rest.len() - digits.len();
        self.skip_while(|c| c.is_ascii_digit());
        true
    }

    fn int(&mut self, start: usize, digits: &str) -> i64 {
        digits.parse().unwrap_or_else(|_| {
            self.error(start, "this integer is too large", "integers have 64 bits and a sign");
            0
        })
    }

    fn float(&mut self, start: usize, digits: &str) -> TokenKind {
        match digits.parse::<f64>() {
            Ok(value) if value.is_finite() => TokenKind::Float(value),
            _ => {
                self.error(start, "this number is too large", "floats have 64 bits");
                TokenKind::Float(0.0)
            }
        }
    }

    fn duration(&mut self, start: usize, digits: &str, unit: &str) -> i64 {
        let Some((_, nanos)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            let help = "times are written `2h`, `1m`, `5s`, `200ms`, `10us`, `7ns`";
            self.error(start, format!("`{unit}` is not a unit of time"), help);
            return 0;
        };
        let whole = digits.parse::<i64>().ok().and_then(|count| count.checked_mul(*nanos));
        whole.unwrap_or_else(|| {
            let help = "write a whole number of a smaller unit, up to 292 years";
            self.error(start, "this is not a whole number of nanoseconds", help);
            0
        })
    }

    /// Reads a text up to the same quote; an unclosed one ends with its line.
    fn text(&mut self, start: usize) -> String {
        let quote = self.peek();
        self.at += 1;
        let mut text = String::new();
        loop {
            let at = self.at;
            let Some(c) = self.peek().filter(|c| *c != '\n') else {
                self.error(
                    start,
                    "this text is not closed",
                    "add a `\"`; write a new line as `\\n`",
                );
                return text;
            };
            self.at += c.len_utf8();
            match c {
                c if Some(c) == quote => return text,
                '\\' => text.extend(self.escape(at)),
                c => text.push(c),
            }
        }
    }

    fn escape(&mut self, start: usize) -> Option<char> {
        let c = self.peek().filter(|c| *c != '\n')?;
        self.at += c.len_utf8();
        match c {
            'n' => Some('\n'),
            't' => Some('\t'),
            'r' => Some('\r'),
            '0' => Some('\0'),
            '"' | '\\' => Some(c),
            'u' => self.unicode(start),
            _ => {
                self.error(
                    start,
                    "unknown escape",
                    "the escapes are \\n \\t \\r \\0 \\\" \\\\ \\u{1f600}",
                );
                None
            }
        }
    }

    fn unicode(&mut self, start: usize) -> Option<char> {
        let hex = self.rest().strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let Some((hex, _)) = hex.filter(|(hex, _)| hex.len() <= 6) else {
            self.error(start, "unknown escape", "write a character as `\\u{1f600}`");
            return None;
        };
        let c = u32::from_str_radix(hex, 16).ok().and_then(char::from_u32);
        self.at += hex.len() + 2;
        if c.is_none() {
            self.error(start, "no such character", "write a character as `\\u{1f600}`");
        }
        c
    }
}

/// Decodes bytes from pairs of hexadecimal digits.
pub(crate) fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

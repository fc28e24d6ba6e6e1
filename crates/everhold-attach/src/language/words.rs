//! The reader of one line.

use super::Read;
use super::expression::{Comparison, Condition, Expr, Kind, Literal, Path, Root, Step};

/// The rest of a line.
pub(super) struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    pub(super) fn new(line: &'a str) -> Words<'a> {
        Words { rest: line }
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start();
        if self.rest.starts_with('#') {
            self.rest = "";
        }
    }

    /// The next word, up to a space; empty at the end.
    pub(super) fn word(&mut self) -> &'a str {
        self.skip_spaces();
        let end = self.rest.find(char::is_whitespace).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// A function: a word, or a text in quotation marks.
    pub(super) fn function(&mut self) -> Read<String> {
        self.skip_spaces();
        let name = match self.rest.starts_with('"') {
            true => self.text()?,
            false => self.word().to_owned(),
        };
        if name.is_empty() { Err("the name of a function is missing".to_owned()) } else { Ok(name) }
    }

    pub(super) fn end(&mut self) -> Read<()> {
        match self.word() {
            "" => Ok(()),
            more => Err(format!("`{more}` has no place at the end of this line")),
        }
    }

    /// Takes this word if it comes next.
    pub(super) fn takes(&mut self, word: &str) -> bool {
        self.skip_spaces();
        let Some(rest) = self.rest.strip_prefix(word) else { return false };
        if rest.starts_with(is_of_name) {
            return false;
        }
        self.rest = rest;
        true
    }

    /// Takes this sign if it comes next.
    pub(super) fn skips(&mut self, sign: char) -> bool {
        self.skip_spaces();
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn sign(&mut self, sign: char) -> Read<()> {
        if self.skips(sign) {
            Ok(())
        } else {
            Err(format!("`{sign}` is missing before `{}`", self.rest))
        }
    }

    /// A name of letters, digits and `_`.
    pub(super) fn name(&mut self) -> Read<String> {
        self.skip_spaces();
        let end = self.rest.find(|c| !is_of_name(c)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        if name.is_empty() {
            return Err(format!("a name is missing before `{rest}`"));
        }
        self.rest = rest;
        Ok(name.to_owned())
    }

    /// `relation(key, value)`
    pub(super) fn tuple(&mut self) -> Read<(String, Vec<Expr>)> {
        let relation = self.name()?;
        self.sign('(')?;
        if self.skips(')') {
            return Err(format!("`{relation}()`: a tuple has a key at least"));
        }
        let mut terms = vec![self.expression()?];
        while self.skips(',') {
            terms.push(self.expression()?);
        }
        self.sign(')')?;
        Ok((relation, terms))
    }

    /// `name.field = expression`
    pub(super) fn assignment(&mut self) -> Read<(Vec<String>, Expr)> {
        let mut names = vec![self.name()?];
        while self.skips('.') {
            names.push(self.name()?);
        }
        self.sign('=')?;
        Ok((names, self.expression()?))
    }

    pub(super) fn expression(&mut self) -> Read<Expr> {
        self.skip_spaces();
        if self.rest.starts_with('"') {
            return Ok(Expr::Literal(Literal::Text(self.text()?)));
        }
        if self.skips('$') {
            return Ok(Expr::Read(self.path()?));
        }
        for (word, literal) in [
            ("true", Literal::Bool(true)),
            ("false", Literal::Bool(false)),
            ("null", Literal::Null),
        ] {
            if self.takes(word) {
                return Ok(Expr::Literal(literal));
            }
        }
        Ok(Expr::Literal(Literal::Int(self.number()?)))
    }

    fn number(&mut self) -> Read<i64> {
        let negative = self.skips('-');
        let end = self.rest.find(|c| !is_of_name(c)).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        let parsed = match digits.strip_prefix("0x") {
            Some(hexadecimal) => i64::from_str_radix(hexadecimal, 16),
            None => digits.parse(),
        };
        let wrong = |_| format!("`{digits}{rest}`: a value is `$0->field`, a number or a \"text\"");
        let number = parsed.map_err(wrong)?;
        self.rest = rest;
        Ok(if negative { -number } else { number })
    }

    fn text(&mut self) -> Read<String> {
        let inside = &self.rest[1..];
        let end = inside.find('"').ok_or("a text has no end: `\"` is missing")?;
        self.rest = &inside[end + 1..];
        Ok(inside[..end].to_owned())
    }

    /// A path after its `$`.
    fn path(&mut self) -> Read<Path> {
        let name = self.name()?;
        let root = match name.as_str() {
            "ret" => Root::Result,
            "pid" => Root::Process,
            "tid" => Root::Thread,
            _ if name.starts_with(|c: char| c.is_ascii_digit()) => {
                let number = name.parse();
                Root::Parameter(number.map_err(|_| format!("`${name}` is no parameter"))?)
            }
            _ => Root::Named(name),
        };
        let mut steps = Vec::new();
        loop {
            if let Some(rest) = self.rest.strip_prefix("->").or_else(|| self.rest.strip_prefix('.'))
            {
                self.rest = rest;
                steps.push(Step::Field(self.name()?));
            } else if let Some(rest) = self.rest.strip_prefix('[') {
                self.rest = rest;
                steps.push(Step::At(self.number()?));
                self.sign(']')?;
            } else {
                break;
            }
        }
        let kind = match self.rest.strip_prefix(':') {
            Some(rest) => {
                self.rest = rest;
                let word = self.name()?;
                let kind = Kind::of(&word);
                Some(kind.ok_or_else(|| format!("`{word}`: a kind is one of {}", Kind::all()))?)
            }
            None => None,
        };
        Ok(Path { root, steps, kind })
    }

    pub(super) fn condition(&mut self) -> Read<Condition> {
        let left = self.expression()?;
        self.skip_spaces();
        let signs = [
            ("==", Comparison::Equal),
            ("!=", Comparison::Different),
            ("<=", Comparison::AtMost),
            (">=", Comparison::AtLeast),
            ("<", Comparison::Less),
            (">", Comparison::More),
        ];
        let found = signs.into_iter().find(|(sign, _)| self.rest.starts_with(sign));
        let (sign, comparison) =
            found.ok_or("a condition compares: `==`, `!=`, `<`, `<=`, `>` or `>=`")?;
        self.rest = &self.rest[sign.len()..];
        Ok(Condition { left, comparison, right: self.expression()? })
    }
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

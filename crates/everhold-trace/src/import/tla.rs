//! Values as TLC prints them: `<<1, "a">>`, `[x |-> 1]`, `(n1 :> 1 @@ n2 :> 2)`, `{1, 2}`.

use std::collections::BTreeMap;

use crate::Value;

/// How deep values may nest; a guard against logs made to exhaust the stack.
const DEPTH_MAX: usize = 100;

/// The value, if the whole text is one. Functions over names and texts become records, other
/// functions maps, model values text.
pub(super) fn parse(text: &str) -> Option<Value> {
    let mut parser = Parser { rest: text.trim(), depth: 0 };
    let value = parser.value()?;
    parser.rest.trim().is_empty().then_some(value)
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

impl Parser<'_> {
    fn value(&mut self) -> Option<Value> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let value = if self.eat("<<") {
            self.items(">>").map(Value::List)
        } else if self.eat("{") {
            self.items("}").map(|items| Value::Set(items.into_iter().collect()))
        } else if self.eat("[") {
            self.fields().map(Value::Record)
        } else if self.eat("(") {
            self.function()
        } else if self.eat("\"") {
            self.text()
        } else {
            self.word()
        };
        self.depth -= 1;
        value
    }

    fn eat(&mut self, token: &str) -> bool {
        match self.rest.trim_start().strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn items(&mut self, close: &str) -> Option<Vec<Value>> {
        let mut items = Vec::new();
        while !self.eat(close) {
            if !items.is_empty() && !self.eat(",") {
                return None;
            }
            items.push(self.value()?);
        }
        Some(items)
    }

    fn fields(&mut self) -> Option<BTreeMap<String, Value>> {
        let mut fields = BTreeMap::new();
        while !self.eat("]") {
            if !fields.is_empty() && !self.eat(",") {
                return None;
            }
            let Value::Text(name) = self.word()? else { return None };
            if !self.eat("|->") {
                return None;
            }
            fields.insert(name, self.value()?);
        }
        Some(fields)
    }

    fn function(&mut self) -> Option<Value> {
        let mut entries = BTreeMap::new();
        while !self.eat(")") {
            if !entries.is_empty() && !self.eat("@@") {
                return None;
            }
            let key = self.value()?;
            if !self.eat(":>") {
                return None;
            }
            entries.insert(key, self.value()?);
        }
        let named =
            |(key, value): (&Value, &Value)| Some((key.as_text()?.to_owned(), value.clone()));
        match entries.iter().map(named).collect::<Option<_>>() {
            Some(fields) => Some(Value::Record(fields)),
            None => Some(Value::Map(entries)),
        }
    }

    fn text(&mut self) -> Option<Value> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Some(Value::Text(text));
                }
                '\\' => text.push(chars.next()?.1),
                _ => text.push(c),
            }
        }
        None
    }

    fn word(&mut self) -> Option<Value> {
        let rest = self.rest.trim_start();
        let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let end = rest.find(|c| !part(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        self.rest = after;
        match word {
            "" => None,
            "TRUE" => Some(Value::Bool(true)),
            "FALSE" => Some(Value::Bool(false)),
            _ => Some(word.parse().map_or_else(|_| Value::Text(word.to_owned()), Value::Int)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_tlc() {
        let check = |text: &str, value: &str| assert_eq!(parse(text).unwrap().to_string(), value);
        check("<<1, \"a\">>", "[1, \"a\"]");
        check("(n1 :> TRUE @@ n2 :> FALSE)", "{n1: true, n2: false}");
        check("(1 :> 2)", "{1 -> 2}");
        check("[type |-> \"tok\", q |-> -1, s |-> {}]", "{q: -1, s: {}, type: \"tok\"}");
        assert_eq!(parse("sending a message"), None);
        assert_eq!(parse("<<1, 2"), None);
        assert_eq!(parse(&"<<".repeat(10_000)), None);
    }
}

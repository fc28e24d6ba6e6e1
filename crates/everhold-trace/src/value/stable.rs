//! A hash of values that is the same in every process, on every machine and in every version.
//!
//! Partitions of keys and identities of violations outlive a process: they stand in logs, file
//! names and streams that other versions read. So they rest on this function and not on
//! [`std::hash::Hash`], whose input the standard library may change, nor on a crate's hasher.
//!
//! The hash is a fold over 64-bit words, `state = mix(state ^ word)`, that begins with
//! `0x6576_6572_686f_6c64` ("everhold"). `mix` is the finalizer of SplitMix64 (Steele, Lea and
//! Flood, OOPSLA 2014), a bijection in which every bit of the input reaches every bit of the output.
//!
//! ```text
//! value    kind, then
//! 0 null, 1 false, 2 true    nothing
//! 3 int, 4 float, 12 node    one word: two's complement, bits of the double, number
//! 5 text, 6 bytes            length in bytes, then words of 8 bytes, little endian, the last
//!                            filled up with zeros
//! 7 list, 8 set              count, values (a set in the order of `Value`)
//! 9 map                      count, key and value of each, in the order of the keys
//! 10 record                  count, name (as text without its kind) and value, in order of names
//! 11 variant                 name (as text without its kind), value
//! ```

use super::Value;

/// The state of a stable hash; the module explains it.
///
/// ```
/// use everhold_trace::{Value, value::StableHash};
///
/// let key = Value::from("lock 7");
/// assert_eq!(StableHash::of(&key), 0xc240_4334_2dda_03ee);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StableHash(u64);

impl Default for StableHash {
    fn default() -> StableHash {
        StableHash(0x6576_6572_686f_6c64)
    }
}

impl StableHash {
    /// The hash of one value.
    #[must_use]
    pub fn of(value: &Value) -> u64 {
        let mut hash = StableHash::default();
        hash.value(value);
        hash.finish()
    }

    /// Takes in a number.
    #[inline]
    pub fn word(&mut self, word: u64) {
        self.0 = mix(self.0 ^ word);
    }

    /// Takes in bytes, and how many there are.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks();
        words.iter().for_each(|word| self.word(u64::from_le_bytes(*word)));
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.word(u64::from_le_bytes(word));
        }
    }

    /// Takes in a value.
    pub fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.word(0),
            Value::Bool(truth) => self.word(1 + u64::from(*truth)),
            Value::Int(number) => self.both(3, number.cast_unsigned()),
            Value::Float(number) => self.both(4, number.to_bits()),
            Value::Text(text) => {
                self.word(5);
                self.bytes(text.as_bytes());
            }
            Value::Bytes(bytes) => {
                self.word(6);
                self.bytes(bytes);
            }
            Value::List(items) => {
                self.both(7, items.len() as u64);
                items.iter().for_each(|item| self.value(item));
            }
            Value::Set(items) => {
                self.both(8, items.len() as u64);
                items.iter().for_each(|item| self.value(item));
            }
            Value::Map(entries) => {
                self.both(9, entries.len() as u64);
                for (key, value) in entries {
                    self.value(key);
                    self.value(value);
                }
            }
            Value::Record(fields) => {
                self.both(10, fields.len() as u64);
                for (name, value) in fields {
                    self.bytes(name.as_bytes());
                    self.value(value);
                }
            }
            Value::Variant { name, payload } => {
                self.word(11);
                self.bytes(name.as_bytes());
                self.value(payload);
            }
            Value::Node(node) => self.both(12, node.0.into()),
        }
    }

    fn both(&mut self, kind: u64, word: u64) {
        self.word(kind);
        self.word(word);
    }

    /// The hash of what was taken in.
    #[must_use]
    pub fn finish(self) -> u64 {
        self.0
    }
}

#[inline]
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::NodeId;

    /// These numbers are in logs and file names: a change of one of them is a change of a format.
    /// They were computed by a second implementation, in Python, of the table above.
    #[test]
    fn hashes_do_not_change() {
        let text = |text: &str| Value::Text(text.to_owned());
        let record = Value::record([("mode", text("exclusive")), ("since", Value::Int(7))]);
        let variant = Value::Variant { name: "Held".to_owned(), payload: Box::new(record.clone()) };
        let golden = [
            (Value::Null, 0xe609_0cde_b8ee_cb1b),
            (Value::Bool(false), 0xd13b_450a_bef4_87f8),
            (Value::Bool(true), 0xaab3_12c7_d0c6_1f8f),
            (Value::Int(0), 0xcc96_f22f_6490_2be4),
            (Value::Int(-1), 0x625f_09e7_09f4_88f6),
            (Value::Float(1.0), 0x48d1_e12e_9d0c_3c52),
            (text(""), 0x77ab_802e_2e7f_cd30),
            (text("lock 7"), 0xc240_4334_2dda_03ee),
            (text("12345678"), 0x5a77_7766_b79e_134b),
            (text("exactly nine and more"), 0xb53b_a14b_51e4_ac4a),
            (Value::Bytes(vec![0, 255]), 0x02ae_877c_e689_b5f3),
            (Value::List(vec![Value::Int(1), text("a")]), 0x979c_dd1f_65cd_8a57),
            (Value::Set([Value::Int(2), Value::Int(1)].into()), 0xb11c_2d89_b21e_89c0),
            (Value::Map([(text("k"), Value::Int(1))].into()), 0x6f7c_b1d2_4b53_a504),
            (record, 0xd995_03c2_5295_7e49),
            (variant, 0x9c1e_8ef4_7a16_1238),
            (Value::Node(NodeId(3)), 0xca2b_f6ef_cbae_ddd4),
        ];
        let found: Vec<_> = golden.iter().map(|(value, _)| StableHash::of(value)).collect();
        let expected: Vec<_> = golden.iter().map(|(_, hash)| *hash).collect();
        assert_eq!(found, expected, "{found:#x?}");
    }

    /// Values that are written alike in the fold are told apart by kinds and lengths.
    #[test]
    fn different_values_have_different_hashes() {
        let list = |items: Vec<Value>| Value::List(items);
        let a = || Value::Int(1);
        let values = [
            list(vec![list(vec![a()]), a()]),
            list(vec![list(vec![a(), a()])]),
            list(vec![a(), list(vec![a()])]),
            Value::Text("a\0".into()),
            Value::Text("a".into()),
            Value::Bytes(b"a".to_vec()),
            Value::Set([a()].into()),
            list(vec![a()]),
        ];
        let hashes: BTreeSet<u64> = values.iter().map(StableHash::of).collect();
        assert_eq!(hashes.len(), values.len());
        // A million numbers in 64 bits: the odds of a collision are one in 36 million.
        let numbers: BTreeSet<u64> =
            (0..1_000_000).map(|n| StableHash::of(&Value::Int(n))).collect();
        assert_eq!(numbers.len(), 1_000_000);
    }
}

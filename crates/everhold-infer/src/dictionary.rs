//! Each distinct value once, under a small number.

use std::hash::{Hash, Hasher};

use everhold_trace::{NodeId, Value};
use hashbrown::HashTable;

use crate::states::StateId;

/// The number of a value in its [`Dictionary`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(pub(crate) u32);

impl Code {
    /// The place of the code in tables that have an entry for each value of the dictionary.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The code of a node id that no state mentions: no value of the dictionary has it.
    pub(crate) fn of_unmentioned(node: NodeId) -> Code {
        Code(u32::MAX - node.0)
    }

    /// The node of a code that no value of the dictionary has.
    pub(crate) fn unmentioned(self) -> NodeId {
        NodeId(u32::MAX - self.0)
    }

    /// A global state, in the one operand that is not a value: its number.
    pub(crate) fn of_global(state: StateId) -> Code {
        Code(state)
    }

    /// The global state of such an operand.
    pub(crate) fn global(self) -> StateId {
        self.0
    }
}

/// Distinct values and their codes, which are given in the order of first use.
///
/// Null has code [`Dictionary::NULL`] in every dictionary.
///
/// ```
/// use everhold_infer::Dictionary;
/// use everhold_trace::Value;
///
/// let mut values = Dictionary::default();
/// let three = values.code(&Value::Int(3));
/// assert_eq!(values.code(&Value::Int(3)), three);
/// assert_eq!(values.value(three), &Value::Int(3));
/// assert_eq!(values.value(Dictionary::NULL), &Value::Null);
/// ```
#[derive(Clone, Debug)]
pub struct Dictionary {
    values: Vec<Value>,
    hashes: Vec<u64>,
    table: HashTable<Code>,
}

impl Default for Dictionary {
    fn default() -> Dictionary {
        let mut empty =
            Dictionary { values: Vec::new(), hashes: Vec::new(), table: HashTable::new() };
        let null = empty.code(&Value::Null);
        debug_assert_eq!(null, Dictionary::NULL);
        empty
    }
}

impl Dictionary {
    /// The code of null.
    pub const NULL: Code = Code(0);

    /// The code of a value, a new one if it was not met before.
    pub fn code(&mut self, value: &Value) -> Code {
        let hash = hash_of(value);
        let same = |code: &Code| self.values[code.index()] == *value;
        if let Some(code) = self.table.find(hash, same) {
            return *code;
        }
        let code = Code(u32::try_from(self.values.len()).expect("values are fewer than 2^32"));
        self.values.push(value.clone());
        self.hashes.push(hash);
        self.table.insert_unique(hash, code, |code| self.hashes[code.index()]);
        code
    }

    /// The code of a value that was met before.
    #[must_use]
    pub fn find(&self, value: &Value) -> Option<Code> {
        let same = |code: &Code| self.values[code.index()] == *value;
        self.table.find(hash_of(value), same).copied()
    }

    /// The value of a code.
    #[must_use]
    pub fn value(&self, code: Code) -> &Value {
        &self.values[code.index()]
    }

    /// All codes, in the order in which they were given.
    pub fn codes(&self) -> impl Iterator<Item = Code> + use<> {
        (0..u32::try_from(self.values.len()).expect("values are fewer than 2^32")).map(Code)
    }

    /// How many values there are, null included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Never true: null is always there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// The hash of anything, the same in every run of the program.
pub(crate) fn hash_of(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = Mixer(0);
    value.hash(&mut hasher);
    hasher.finish()
}

/// Multiply and rotate, a word at a time.
struct Mixer(u64);

impl Mixer {
    fn word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.word(byte.into());
    }

    fn write_u32(&mut self, word: u32) {
        self.word(word.into());
    }

    fn write_u64(&mut self, word: u64) {
        self.word(word);
    }

    fn write_i64(&mut self, word: i64) {
        self.word(word.cast_unsigned());
    }

    fn write_usize(&mut self, word: usize) {
        self.word(word as u64);
    }

    fn finish(&self) -> u64 {
        // The table looks at the upper bits and at the lower ones.
        self.0 ^ (self.0 >> 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_a_code_and_others_do_not() {
        let mut values = Dictionary::default();
        let all: Vec<Value> = (0..1000)
            .flat_map(|i| {
                [Value::Int(i), Value::Float(i as f64), Value::list([i]), Value::set([i])]
            })
            .collect();
        let codes: Vec<Code> = all.iter().map(|value| values.code(value)).collect();
        assert_eq!(values.len(), all.len() + 1);
        for (value, code) in all.iter().zip(codes) {
            assert_eq!((values.code(value), values.find(value)), (code, Some(code)));
            assert_eq!(values.value(code), value);
        }
        assert_eq!(values.find(&Value::Int(-1)), None);
    }
}

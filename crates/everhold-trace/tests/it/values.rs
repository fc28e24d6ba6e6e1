//! Laws of values on random ones: what is written is read, what is diffed is applied.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use everhold_trace::Value;
use everhold_trace::value::{apply, diff, json};

use crate::random::Random;

#[test]
fn json_round_trips_every_value() {
    let mut random = Random(1);
    for _ in 0..20_000 {
        let value = random.value(4);
        let text = json::to_json(&value).to_string();
        let back = json::from_json(serde_json::from_str(&text).unwrap());
        assert_eq!(back, Ok(value), "{text}");
        let direct = serde_json::to_string(&json::AsJson(&back.unwrap())).unwrap();
        let same = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(same(&direct), same(&text));
    }
}

#[test]
fn applying_the_difference_gives_the_new_value() {
    let mut random = Random(2);
    for _ in 0..20_000 {
        let (old, new) = (random.value(4), random.value(4));
        let mut value = old.clone();
        let changes = diff(&old, &new);
        assert_eq!(changes.is_empty(), old == new);
        apply(&mut value, &changes).unwrap();
        assert_eq!(value, new, "from {old} by {changes:?}");
    }
}

#[test]
fn a_difference_names_the_smallest_part() {
    #[track_caller]
    fn check(old: &str, new: &str, expected: &[&str]) {
        let value = |text: &str| json::from_json(serde_json::from_str(text).unwrap()).unwrap();
        let changes: Vec<_> =
            diff(&value(old), &value(new)).iter().map(ToString::to_string).collect();
        assert_eq!(changes, expected);
    }
    check(r#"{"a":{"b":[1,2]}}"#, r#"{"a":{"b":[1,3,4]}}"#, &["a.b[1]: 2 -> 3", "a.b[2]: + 4"]);
    check("[1,2,3]", "[1]", &["[2]: - 3", "[1]: - 2"]);
    check(r#"{"$set":[1,2]}"#, r#"{"$set":[2,3]}"#, &["[1]: - 1", "[3]: + 3"]);
    check(r#"{"x":1}"#, r#"{"y":1}"#, &["x: - 1", "y: + 1"]);
    check(r#"{"$map":[["k",1]]}"#, r#"{"$map":[["k",2]]}"#, &[r#"["k"]: 1 -> 2"#]);
    check(r#"{"$variant":["V",1]}"#, r#"{"$variant":["V",2]}"#, &["(): 1 -> 2"]);
    check("1", "1.0", &[": 1 -> 1.0"]);
}

#[test]
fn order_equality_and_hash_agree() {
    let mut random = Random(3);
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let mut seen: BTreeMap<Value, u64> = BTreeMap::new();
    for _ in 0..20_000 {
        let value = random.value(2);
        let hash = hasher.hash_one(&value);
        assert_eq!(*seen.entry(value.clone()).or_insert(hash), hash, "{value}");
    }
    assert!(seen.keys().is_sorted());
}

//! `crdts` 7.3.2: merging a stale state into a newer `Map` of `MVReg` brings back a value that was
//! overwritten.

use crdts::{CmRDT, CvRDT, MVReg};

type Map = crdts::Map<&'static str, MVReg<u32, char>, char>;

fn write(map: &mut Map, actor: char, key: &'static str, value: u32) {
    let context = map.get(&key).derive_add_ctx(actor);
    map.apply(map.update(key, context, |register, context| register.write(value, context)));
}

fn read(map: &Map, key: &'static str) -> Vec<u32> {
    map.get(&key).val.map(|register| register.read().val).unwrap_or_default()
}

/// What a third replica reads after it merged `new` and then the stale `old`.
fn run(knows_first: bool) -> (Vec<u32>, Vec<u32>) {
    let mut a = Map::new();
    write(&mut a, 'a', "another key", 1);
    let mut old = a.clone();
    write(&mut old, 'b', "key", 10);
    let mut new = old.clone();
    write(&mut new, 'b', "key", 20);

    let mut third = if knows_first { a } else { Map::new() };
    third.merge(new);
    let before = read(&third, "key");
    third.merge(old);
    (before, read(&third, "key"))
}

#[test]
fn a_stale_state_brings_back_an_overwritten_value() {
    let (before, after) = run(true);
    println!("read before the stale state: {before:?}, after: {after:?}");
    assert_eq!(before, [20]);
    assert_ne!(after, before, "this version is not affected");
}

#[test]
fn a_replica_that_knew_nothing_is_not_affected() {
    assert_eq!(run(false), (vec![20], vec![20]));
}

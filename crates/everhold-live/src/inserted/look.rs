//! Values of unknown types as values of a trace.
//!
//! The source of a package does not tell its types without a compiler. So the inserted call leaves
//! the choice to method resolution: it takes the first of four traits that the type of the
//! variable allows, by the number of references that it has to remove.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt::{self, Debug, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use everhold_trace::Value;

/// The largest number of elements of a container that are shown; of larger ones it is the first.
const ITEMS_MAX: usize = 16;

/// The longest text.
const TEXT_MAX: usize = 64;

/// A value that is to be shown.
#[derive(Debug)]
pub struct Look<'a, T: ?Sized>(pub &'a T);

/// A type whose values are shown.
pub trait Show {
    /// Returns the value; `None` if it is not known at present, such as behind a lock that is held.
    fn show(&self) -> Option<Value>;
}

/// Shows numbers, texts, and what is made of them.
pub trait Plain {
    /// Returns the value.
    fn look(&self) -> Option<Value>;
}

impl<T: Show + ?Sized> Plain for &&&Look<'_, T> {
    fn look(&self) -> Option<Value> {
        self.0.show()
    }
}

/// Shows the number of elements of a container whose elements cannot be shown.
pub trait Counted {
    /// Returns the number of elements.
    fn look(&self) -> Option<Value>;
}

impl<T: Length + ?Sized> Counted for &&Look<'_, T> {
    fn look(&self) -> Option<Value> {
        count(self.0.length())
    }
}

/// Shows the first word of a type's debug text: the variant of an enumeration.
pub trait Debugged {
    /// Returns the word.
    fn look(&self) -> Option<Value>;
}

impl<T: Debug + ?Sized> Debugged for &Look<'_, T> {
    fn look(&self) -> Option<Value> {
        let mut word = Word(String::new());
        // The writer ends the text after its first word, which is an error on purpose.
        let _ = write!(word, "{:?}", self.0);
        let is_name = word.0.chars().next().is_some_and(char::is_alphabetic);
        is_name.then_some(Value::Text(word.0))
    }
}

/// Shows nothing.
pub trait Nothing {
    /// Returns nothing.
    fn look(&self) -> Option<Value>;
}

impl<T: ?Sized> Nothing for Look<'_, T> {
    fn look(&self) -> Option<Value> {
        None
    }
}

/// A writer that takes one word.
struct Word(String);

impl fmt::Write for Word {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            if !(letter.is_alphanumeric() || letter == '_') || self.0.len() >= TEXT_MAX {
                return Err(fmt::Error);
            }
            self.0.push(letter);
        }
        Ok(())
    }
}

/// A container.
pub trait Length {
    /// Returns the number of elements.
    fn length(&self) -> usize;
}

fn count(length: usize) -> Option<Value> {
    i64::try_from(length).ok().map(Value::Int)
}

macro_rules! lengths {
    ($([$($generic:ident),*] $type:ty),* $(,)?) => {
        $(impl<$($generic),*> Length for $type {
            fn length(&self) -> usize {
                self.len()
            }
        })*
    };
}

lengths! {
    [T] Vec<T>, [T] [T], [T] VecDeque<T>, [T] BTreeSet<T>, [T, S] HashSet<T, S>,
    [K, V] BTreeMap<K, V>, [K, V, S] HashMap<K, V, S>,
}

impl<T: Length + ?Sized> Length for &T {
    fn length(&self) -> usize {
        (**self).length()
    }
}

impl<T: Length + ?Sized> Length for &mut T {
    fn length(&self) -> usize {
        (**self).length()
    }
}

macro_rules! ints {
    ($($type:ty)*) => {
        $(impl Show for $type {
            fn show(&self) -> Option<Value> {
                Some(i64::try_from(*self).map_or_else(|_| Value::Text(self.to_string()), Value::Int))
            }
        })*
    };
}

ints! { u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize }

macro_rules! shown {
    ($($type:ty => |$value:ident| $shown:expr),* $(,)?) => {
        $(impl Show for $type {
            fn show(&self) -> Option<Value> {
                let $value = self;
                Some($shown)
            }
        })*
    };
}

shown! {
    bool => |truth| Value::Bool(*truth),
    f32 => |number| Value::Float((*number).into()),
    f64 => |number| Value::Float(*number),
    char => |letter| Value::Text(letter.to_string()),
    str => |text| Value::Text(text.chars().take(TEXT_MAX).collect()),
    String => |text| Value::Text(text.chars().take(TEXT_MAX).collect()),
    () => |_nothing| Value::Null,
    Duration => |time| Value::Int(i64::try_from(time.as_micros()).unwrap_or(i64::MAX)),
    SocketAddr => |address| Value::Text(address.to_string()),
    IpAddr => |address| Value::Text(address.to_string()),
    atomic::AtomicBool => |truth| Value::Bool(truth.load(atomic::Ordering::Relaxed)),
}

macro_rules! atomics {
    ($($type:ident)*) => {
        $(impl Show for atomic::$type {
            fn show(&self) -> Option<Value> {
                self.load(atomic::Ordering::Relaxed).show()
            }
        })*
    };
}

atomics! { AtomicU8 AtomicU16 AtomicU32 AtomicU64 AtomicUsize AtomicI32 AtomicI64 AtomicIsize }

macro_rules! pointers {
    ($($type:ty)*) => {
        $(impl<T: Show + ?Sized> Show for $type {
            fn show(&self) -> Option<Value> {
                (**self).show()
            }
        })*
    };
}

pointers! { &T &mut T Box<T> Rc<T> Arc<T> std::sync::MutexGuard<'_, T> }

impl<T: Show> Show for Option<T> {
    fn show(&self) -> Option<Value> {
        self.as_ref().map_or(Some(Value::Null), Show::show)
    }
}

impl<T: Show, E> Show for Result<T, E> {
    fn show(&self) -> Option<Value> {
        self.as_ref().map_or_else(|_| Some(Value::Text("Err".to_owned())), Show::show)
    }
}

impl<T: Show + ?Sized> Show for Mutex<T> {
    fn show(&self) -> Option<Value> {
        // A lock that is held is not waited for.
        self.try_lock().ok()?.show()
    }
}

impl<T: Show + ?Sized> Show for RwLock<T> {
    fn show(&self) -> Option<Value> {
        self.try_read().ok()?.show()
    }
}

impl<T: Show + ?Sized> Show for RefCell<T> {
    fn show(&self) -> Option<Value> {
        self.try_borrow().ok()?.show()
    }
}

impl<T: Show + Copy> Show for Cell<T> {
    fn show(&self) -> Option<Value> {
        self.get().show()
    }
}

fn list<'a, T: Show + 'a>(items: impl Iterator<Item = &'a T>) -> Option<Vec<Value>> {
    items.take(ITEMS_MAX).map(Show::show).collect()
}

fn map<'a, K: Show + 'a, V: Show + 'a>(
    entries: impl ExactSizeIterator<Item = (&'a K, &'a V)>,
) -> Option<Value> {
    // A part of a map without an order would be another part each time.
    if entries.len() > ITEMS_MAX {
        return count(entries.len());
    }
    entries
        .map(|(key, value)| Some((key.show()?, value.show()?)))
        .collect::<Option<_>>()
        .map(Value::Map)
}

fn set<'a, T: Show + 'a>(items: impl ExactSizeIterator<Item = &'a T>) -> Option<Value> {
    if items.len() > ITEMS_MAX {
        return count(items.len());
    }
    items.map(Show::show).collect::<Option<_>>().map(Value::Set)
}

impl<T: Show> Show for [T] {
    fn show(&self) -> Option<Value> {
        list(self.iter()).map(Value::List)
    }
}

impl<T: Show, const N: usize> Show for [T; N] {
    fn show(&self) -> Option<Value> {
        self[..].show()
    }
}

impl<T: Show> Show for Vec<T> {
    fn show(&self) -> Option<Value> {
        self[..].show()
    }
}

impl<T: Show> Show for VecDeque<T> {
    fn show(&self) -> Option<Value> {
        list(self.iter()).map(Value::List)
    }
}

impl<T: Show> Show for BTreeSet<T> {
    fn show(&self) -> Option<Value> {
        set(self.iter())
    }
}

impl<T: Show, S> Show for HashSet<T, S> {
    fn show(&self) -> Option<Value> {
        set(self.iter())
    }
}

impl<K: Show, V: Show> Show for BTreeMap<K, V> {
    fn show(&self) -> Option<Value> {
        map(self.iter())
    }
}

impl<K: Show, V: Show, S> Show for HashMap<K, V, S> {
    fn show(&self) -> Option<Value> {
        map(self.iter())
    }
}

macro_rules! tuples {
    ($(($($name:ident $at:tt),+))*) => {
        $(impl<$($name: Show),+> Show for ($($name,)+) {
            fn show(&self) -> Option<Value> {
                Some(Value::List(vec![$(self.$at.show()?),+]))
            }
        })*
    };
}

tuples! { (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3) }

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    #[expect(dead_code, reason = "only the debug text is looked at")]
    enum Role {
        Leader { term: u64 },
        Follower,
    }

    struct Hidden;

    #[track_caller]
    fn check(shown: Option<Value>, expected: &str) {
        let shown = shown.map_or_else(|| "-".to_owned(), |value| value.to_string());
        assert_eq!(shown, expected);
    }

    #[test]
    fn each_type_is_shown_as_far_as_it_can_be() {
        let (locked, held) = (Mutex::new(7_u8), Mutex::new(7_u8));
        let _guard = held.lock();
        check(crate::look!(3_u64), "3");
        check(crate::look!("text"), "\"text\"");
        check(crate::look!(Some(vec![1, 2])), "[1, 2]");
        check(crate::look!(None::<u8>), "null");
        check(crate::look!(Arc::new(locked)), "7");
        check(crate::look!(held), "-");
        check(crate::look!(vec![Hidden, Hidden]), "2");
        check(crate::look!(Role::Leader { term: 1 }), "\"Leader\"");
        check(crate::look!(&Role::Follower), "\"Follower\"");
        check(crate::look!(Hidden), "-");
        check(crate::look!(vec![0; 20]), "[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]");
        check(crate::look!((0..17).collect::<BTreeSet<i32>>()), "17");
    }

    /// In generic code only the bounds of a type are known.
    #[test]
    fn generic_code_compiles_without_bounds() {
        fn generic<T>(value: &T) -> Option<Value> {
            crate::look!(value)
        }
        check(generic(&3), "-");
    }
}

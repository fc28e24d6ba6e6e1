//! Objects by number, where numbers of objects that are gone are used again.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// The number of an object of type `T`.
pub(crate) struct Id<T>(u32, PhantomData<fn() -> T>);

impl<T> Id<T> {
    fn new(at: usize) -> Self {
        Id(u32::try_from(at).expect("fewer than 2^32 objects"), PhantomData)
    }

    /// The number itself, as an inode number for example.
    pub(crate) fn number(self) -> u32 {
        self.0
    }
}

impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Id<T> {}
impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<T> Eq for Id<T> {}
impl<T> PartialOrd for Id<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Id<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}
impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// Objects of one type.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    objects: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { objects: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn add(&mut self, object: T) -> Id<T> {
        if let Some(at) = self.free.pop() {
            self.objects[at as usize] = Some(object);
            return Id(at, PhantomData);
        }
        self.objects.push(Some(object));
        Id::new(self.objects.len() - 1)
    }

    pub(crate) fn remove(&mut self, id: Id<T>) -> Option<T> {
        let object = self.objects[id.0 as usize].take();
        if object.is_some() {
            self.free.push(id.0);
        }
        object
    }

    pub(crate) fn get(&self, id: Id<T>) -> Option<&T> {
        self.objects.get(id.0 as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: Id<T>) -> Option<&mut T> {
        self.objects.get_mut(id.0 as usize)?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Id<T>, &T)> {
        let objects = self.objects.iter().enumerate();
        objects.filter_map(|(at, object)| object.as_ref().map(|object| (Id::new(at), object)))
    }
}

impl<T> Index<Id<T>> for Slab<T> {
    type Output = T;
    fn index(&self, id: Id<T>) -> &T {
        self.get(id).expect("an object that is named exists")
    }
}

impl<T> IndexMut<Id<T>> for Slab<T> {
    fn index_mut(&mut self, id: Id<T>) -> &mut T {
        self.objects[id.0 as usize].as_mut().expect("an object that is named exists")
    }
}

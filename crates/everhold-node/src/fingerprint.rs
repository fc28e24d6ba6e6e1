//! Hashes and names of serialised values, without allocating.
//!
//! A search needs to know quickly whether two states are equal ([`hash`]), what sort of message it
//! looks at ([`kind`]) and which phase a node is in ([`phase`]). All three walk a value's
//! [`Serialize`] implementation with a visitor instead of building a tree.

use std::fmt;

use serde::ser::{self, Serialize};

/// A 64-bit hash of a value's serialised form. The same on every platform.
///
/// ```
/// use everhold_node::fingerprint::hash;
/// assert_eq!(hash(&(1u8, "a")), hash(&(1u64, "a")));
/// assert_ne!(hash(&(1u8, "a")), hash(&(2u8, "a")));
/// assert_ne!(hash(&["ab", "c"]), hash(&["a", "bc"]));
/// ```
#[must_use]
pub fn hash<T: Serialize + ?Sized>(value: &T) -> u64 {
    let mut hasher = Hasher::default();
    // The hasher never stops a walk; only a type whose own `Serialize` fails can end it early,
    // and then both runs of the same program end at the same place.
    let _ = value.serialize(&mut Walk { visitor: &mut hasher });
    hasher.finish()
}

/// The name of an enum's variant, or of a struct: what sort of message this is.
///
/// ```
/// use everhold_node::fingerprint::kind;
/// #[derive(serde::Serialize)]
/// enum Msg { Ping(u32), Pong }
/// assert_eq!(kind(&Msg::Ping(1)), "Ping");
/// assert_eq!(kind(&Msg::Pong), "Pong");
/// ```
#[must_use]
pub fn kind<T: Serialize + ?Sized>(value: &T) -> &'static str {
    let mut first = FirstName("message");
    let _ = value.serialize(&mut Walk { visitor: &mut first });
    first.0
}

/// Writes the phase of a node into `out`: the values of its fields that are flags or plain
/// variants, which is how protocols say where they are.
///
/// ```
/// use everhold_node::fingerprint::phase;
/// #[derive(serde::Serialize)]
/// enum Role { Leader }
/// #[derive(serde::Serialize)]
/// struct Server { role: Role, term: u64, busy: bool }
/// let mut out = String::new();
/// phase(&Server { role: Role::Leader, term: 7, busy: false }, &mut out);
/// assert_eq!(out, "role=Leader busy=false");
/// ```
pub fn phase<T: Serialize + ?Sized>(value: &T, out: &mut String) {
    out.clear();
    let mut phase = Phase { out, field: "", depth: 0 };
    let _ = value.serialize(&mut Walk { visitor: &mut phase });
}

/// The number of bytes that a value takes in a plain binary form: numbers at their own width, texts
/// and lists with a length of four bytes, a variant with one byte. A simulated network charges this
/// size for a message.
///
/// ```
/// use everhold_node::fingerprint::size;
/// assert_eq!(size(&(1u8, 2u64, "abc")), 1 + 8 + 4 + 3);
/// ```
#[must_use]
pub fn size<T: Serialize + ?Sized>(value: &T) -> u64 {
    let mut bytes = Bytes(0);
    let _ = value.serialize(&mut Walk { visitor: &mut bytes });
    bytes.0
}

/// Mixes two words; the finaliser of SplitMix64 over their sum.
#[must_use]
#[inline]
pub fn mix(a: u64, b: u64) -> u64 {
    let mut x = a.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(b).wrapping_add(1);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// A visitor of a walk over a value. `Err(Stop)` ends the walk.
trait Visit {
    /// Whether a reader looks at what is met, so that types show themselves for reading.
    const READABLE: bool = true;
    fn number(&mut self, value: u64) -> Result<(), Stop>;
    /// A number that takes so many bytes.
    #[inline]
    fn sized(&mut self, value: u64, bytes: usize) -> Result<(), Stop> {
        let _ = bytes;
        self.number(value)
    }
    /// The length of a list that follows.
    #[inline]
    fn length(&mut self) -> Result<(), Stop> {
        Ok(())
    }
    fn bytes(&mut self, value: &[u8]) -> Result<(), Stop>;
    fn flag(&mut self, value: bool) -> Result<(), Stop>;
    fn unit_variant(&mut self, index: u32, name: &'static str) -> Result<(), Stop>;
    fn variant(&mut self, index: u32, name: &'static str) -> Result<(), Stop>;
    fn record(&mut self, name: &'static str) -> Result<(), Stop>;
    fn field(&mut self, name: &'static str) -> Result<(), Stop>;
    fn enter(&mut self) -> Result<(), Stop>;
    fn leave(&mut self) -> Result<(), Stop>;
}

#[derive(Default)]
struct Hasher {
    state: u64,
}

impl Hasher {
    #[inline]
    fn add(&mut self, word: u64) {
        self.state = (self.state.rotate_left(5) ^ word).wrapping_mul(0x517C_C1B7_2722_0A95);
    }

    fn finish(&self) -> u64 {
        mix(self.state, 0)
    }
}

impl Visit for Hasher {
    #[inline]
    fn number(&mut self, value: u64) -> Result<(), Stop> {
        self.add(value);
        Ok(())
    }
    fn bytes(&mut self, value: &[u8]) -> Result<(), Stop> {
        self.add(value.len() as u64);
        for chunk in value.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word));
        }
        Ok(())
    }
    #[inline]
    fn flag(&mut self, value: bool) -> Result<(), Stop> {
        self.number(u64::from(value))
    }
    #[inline]
    fn unit_variant(&mut self, index: u32, _: &'static str) -> Result<(), Stop> {
        self.number(u64::from(index))
    }
    #[inline]
    fn variant(&mut self, index: u32, _: &'static str) -> Result<(), Stop> {
        self.number(u64::from(index))
    }
    #[inline]
    fn record(&mut self, _: &'static str) -> Result<(), Stop> {
        Ok(())
    }
    #[inline]
    fn field(&mut self, _: &'static str) -> Result<(), Stop> {
        Ok(())
    }
    #[inline]
    fn enter(&mut self) -> Result<(), Stop> {
        self.number(0xE17E)
    }
    #[inline]
    fn leave(&mut self) -> Result<(), Stop> {
        self.number(0x1EA7)
    }
}

/// Keeps the first name it meets and stops.
struct FirstName(&'static str);

impl FirstName {
    fn take(&mut self, name: &'static str) -> Result<(), Stop> {
        self.0 = name;
        Err(Stop)
    }
}

impl Visit for FirstName {
    fn number(&mut self, _: u64) -> Result<(), Stop> {
        Err(Stop)
    }
    fn bytes(&mut self, _: &[u8]) -> Result<(), Stop> {
        Err(Stop)
    }
    fn flag(&mut self, _: bool) -> Result<(), Stop> {
        Err(Stop)
    }
    fn unit_variant(&mut self, _: u32, name: &'static str) -> Result<(), Stop> {
        self.take(name)
    }
    fn variant(&mut self, _: u32, name: &'static str) -> Result<(), Stop> {
        self.take(name)
    }
    fn record(&mut self, name: &'static str) -> Result<(), Stop> {
        self.take(name)
    }
    fn field(&mut self, _: &'static str) -> Result<(), Stop> {
        Ok(())
    }
    fn enter(&mut self) -> Result<(), Stop> {
        Err(Stop)
    }
    fn leave(&mut self) -> Result<(), Stop> {
        Err(Stop)
    }
}

/// Collects the flags and plain variants among a record's own fields.
struct Phase<'a> {
    out: &'a mut String,
    field: &'static str,
    depth: u32,
}

impl Phase<'_> {
    fn show(&mut self, value: &str) -> Result<(), Stop> {
        if self.depth <= 1 {
            if !self.out.is_empty() {
                self.out.push(' ');
            }
            if !self.field.is_empty() {
                self.out.push_str(self.field);
                self.out.push('=');
            }
            self.out.push_str(value);
        }
        Ok(())
    }
}

impl Visit for Phase<'_> {
    fn number(&mut self, _: u64) -> Result<(), Stop> {
        Ok(())
    }
    fn bytes(&mut self, _: &[u8]) -> Result<(), Stop> {
        Ok(())
    }
    fn flag(&mut self, value: bool) -> Result<(), Stop> {
        self.show(if value { "true" } else { "false" })
    }
    fn unit_variant(&mut self, _: u32, name: &'static str) -> Result<(), Stop> {
        self.show(name)
    }
    fn variant(&mut self, _: u32, name: &'static str) -> Result<(), Stop> {
        self.show(name)
    }
    fn record(&mut self, _: &'static str) -> Result<(), Stop> {
        Ok(())
    }
    fn field(&mut self, name: &'static str) -> Result<(), Stop> {
        if self.depth == 1 {
            self.field = name;
        }
        Ok(())
    }
    fn enter(&mut self) -> Result<(), Stop> {
        self.depth += 1;
        Ok(())
    }
    fn leave(&mut self) -> Result<(), Stop> {
        self.depth -= 1;
        Ok(())
    }
}

/// The length of a text or list in bytes.
const LENGTH: u64 = 4;

/// Counts bytes.
struct Bytes(u64);

impl Visit for Bytes {
    // Messages on a network are compact.
    const READABLE: bool = false;
    #[inline]
    fn number(&mut self, _: u64) -> Result<(), Stop> {
        self.0 += 1;
        Ok(())
    }
    #[inline]
    fn sized(&mut self, _: u64, bytes: usize) -> Result<(), Stop> {
        self.0 += bytes as u64;
        Ok(())
    }
    #[inline]
    fn length(&mut self) -> Result<(), Stop> {
        self.0 += LENGTH;
        Ok(())
    }
    #[inline]
    fn bytes(&mut self, value: &[u8]) -> Result<(), Stop> {
        self.0 += LENGTH + value.len() as u64;
        Ok(())
    }
    #[inline]
    fn flag(&mut self, _: bool) -> Result<(), Stop> {
        self.number(0)
    }
    #[inline]
    fn unit_variant(&mut self, _: u32, _: &'static str) -> Result<(), Stop> {
        self.number(0)
    }
    #[inline]
    fn variant(&mut self, _: u32, _: &'static str) -> Result<(), Stop> {
        self.number(0)
    }
    #[inline]
    fn record(&mut self, _: &'static str) -> Result<(), Stop> {
        Ok(())
    }
    #[inline]
    fn field(&mut self, _: &'static str) -> Result<(), Stop> {
        Ok(())
    }
    #[inline]
    fn enter(&mut self) -> Result<(), Stop> {
        Ok(())
    }
    #[inline]
    fn leave(&mut self) -> Result<(), Stop> {
        Ok(())
    }
}

/// The end of a walk that has seen enough.
#[derive(Debug)]
struct Stop;

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the walk ended early")
    }
}

impl std::error::Error for Stop {}

impl ser::Error for Stop {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Stop
    }
}

/// Turns serde's calls into the visitor's.
struct Walk<'v, V> {
    visitor: &'v mut V,
}

macro_rules! as_number {
    ($($method:ident: $type:ty),*) => {$(
        #[inline]
        fn $method(self, value: $type) -> Result<(), Stop> {
            self.visitor.sized(value as u64, size_of::<$type>())
        }
    )*};
}

impl<V: Visit> ser::Serializer for &mut Walk<'_, V> {
    type Ok = ();
    type Error = Stop;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    fn is_human_readable(&self) -> bool {
        V::READABLE
    }

    as_number!(serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64);
    as_number!(serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64);
    as_number!(serialize_char: char);

    fn serialize_bool(self, value: bool) -> Result<(), Stop> {
        self.visitor.flag(value)
    }
    fn serialize_f32(self, value: f32) -> Result<(), Stop> {
        self.visitor.sized(u64::from(value.to_bits()), size_of::<f32>())
    }
    fn serialize_f64(self, value: f64) -> Result<(), Stop> {
        self.visitor.sized(value.to_bits(), size_of::<f64>())
    }
    fn serialize_i128(self, value: i128) -> Result<(), Stop> {
        self.visitor.bytes(&value.to_le_bytes())
    }
    fn serialize_u128(self, value: u128) -> Result<(), Stop> {
        self.visitor.bytes(&value.to_le_bytes())
    }
    fn serialize_str(self, value: &str) -> Result<(), Stop> {
        self.visitor.bytes(value.as_bytes())
    }
    fn serialize_bytes(self, value: &[u8]) -> Result<(), Stop> {
        self.visitor.bytes(value)
    }
    fn serialize_none(self) -> Result<(), Stop> {
        self.visitor.number(0)
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Stop> {
        self.visitor.number(1)?;
        value.serialize(self)
    }
    fn serialize_unit(self) -> Result<(), Stop> {
        self.visitor.number(0)
    }
    fn serialize_unit_struct(self, name: &'static str) -> Result<(), Stop> {
        self.visitor.record(name)
    }
    fn serialize_unit_variant(
        self,
        _: &'static str,
        index: u32,
        variant: &'static str,
    ) -> Result<(), Stop> {
        self.visitor.unit_variant(index, variant)
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Stop> {
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Stop> {
        self.visitor.variant(index, variant)?;
        self.visitor.enter()?;
        value.serialize(&mut *self)?;
        self.visitor.leave()
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<Self, Stop> {
        self.visitor.length()?;
        self.visitor.enter()?;
        Ok(self)
    }
    fn serialize_tuple(self, _: usize) -> Result<Self, Stop> {
        self.visitor.enter()?;
        Ok(self)
    }
    fn serialize_tuple_struct(self, name: &'static str, _: usize) -> Result<Self, Stop> {
        self.visitor.record(name)?;
        self.visitor.enter()?;
        Ok(self)
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        index: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self, Stop> {
        self.visitor.variant(index, variant)?;
        self.visitor.enter()?;
        Ok(self)
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Self, Stop> {
        self.visitor.length()?;
        self.visitor.enter()?;
        Ok(self)
    }
    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Self, Stop> {
        self.visitor.record(name)?;
        self.visitor.enter()?;
        Ok(self)
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        index: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self, Stop> {
        self.visitor.variant(index, variant)?;
        self.visitor.enter()?;
        Ok(self)
    }
}

macro_rules! elements {
    ($($trait:ident::$method:ident),*) => {$(
        impl<V: Visit> ser::$trait for &mut Walk<'_, V> {
            type Ok = ();
            type Error = Stop;
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Stop> {
                value.serialize(&mut **self)
            }
            fn end(self) -> Result<(), Stop> {
                self.visitor.leave()
            }
        }
    )*};
}

elements!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
);

macro_rules! fields {
    ($($trait:ident),*) => {$(
        impl<V: Visit> ser::$trait for &mut Walk<'_, V> {
            type Ok = ();
            type Error = Stop;
            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Stop> {
                self.visitor.field(name)?;
                value.serialize(&mut **self)
            }
            fn end(self) -> Result<(), Stop> {
                self.visitor.leave()
            }
        }
    )*};
}

fields!(SerializeStruct, SerializeStructVariant);

impl<V: Visit> ser::SerializeMap for &mut Walk<'_, V> {
    type Ok = ();
    type Error = Stop;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Stop> {
        key.serialize(&mut **self)
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Stop> {
        value.serialize(&mut **self)
    }
    fn end(self) -> Result<(), Stop> {
        self.visitor.leave()
    }
}

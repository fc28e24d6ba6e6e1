//! Messages that are bytes, and what they show.

use std::fmt;
use std::marker::PhantomData;

use serde::{Serialize, Serializer};

/// How the bytes of an [`Encoded`] message read.
pub trait Codec: 'static {
    /// The value that a reader sees instead of the bytes: usually the enum that was encoded.
    type Shown: Serialize;

    /// Reads the bytes; `None` if they make no sense.
    fn decode(bytes: &[u8]) -> Option<Self::Shown>;
}

/// A message that is bytes, for nodes that speak their real wire format.
///
/// Wherever a message is shown it is decoded first: pictures, traces, coverage, schedules and
/// properties have the kind and the content of what the codec reads. Bytes that the codec cannot read
/// are shown as `Undecodable`. Its size, for networks with a bandwidth, is the number of
/// its bytes and four for their length.
///
/// ```
/// use everhold_node::{Codec, Encoded, fingerprint};
/// use serde::Serialize;
///
/// #[derive(Serialize)]
/// enum Msg { Put(u8), Get }
///
/// struct Wire;
///
/// impl Codec for Wire {
///     type Shown = Msg;
///     fn decode(bytes: &[u8]) -> Option<Msg> {
///         match bytes {
///             [1, value] => Some(Msg::Put(*value)),
///             [2] => Some(Msg::Get),
///             _ => None,
///         }
///     }
/// }
///
/// let put: Encoded<Wire> = vec![1, 7].into();
/// assert_eq!((fingerprint::kind(&put), fingerprint::size(&put)), ("Put", 6));
/// assert_eq!(put.decode().map(|msg| matches!(msg, Msg::Put(7))), Some(true));
/// assert_eq!(fingerprint::kind(&Encoded::<Wire>::from(vec![9])), "Undecodable");
/// ```
pub struct Encoded<C> {
    bytes: Vec<u8>,
    codec: PhantomData<C>,
}

impl<C: Codec> Encoded<C> {
    /// The message as the codec decodes it.
    #[must_use]
    pub fn decode(&self) -> Option<C::Shown> {
        C::decode(&self.bytes)
    }
}

impl<C> Encoded<C> {
    /// The bytes.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl<C> From<Vec<u8>> for Encoded<C> {
    fn from(bytes: Vec<u8>) -> Self {
        Encoded { bytes, codec: PhantomData }
    }
}

impl<C> std::ops::Deref for Encoded<C> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<C> Clone for Encoded<C> {
    fn clone(&self) -> Self {
        self.bytes.clone().into()
    }
}

impl<C> PartialEq for Encoded<C> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl<C> Eq for Encoded<C> {}

impl<C: Codec> fmt::Debug for Encoded<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", everhold_trace::Value::of(self))
    }
}

/// Decoded for readers, and as bytes in compact formats.
impl<C: Codec> Serialize for Encoded<C> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return serializer.serialize_bytes(&self.bytes);
        }
        match self.decode() {
            Some(shown) => shown.serialize(serializer),
            None => serializer.serialize_newtype_variant("Encoded", 0, "Undecodable", &self.bytes),
        }
    }
}

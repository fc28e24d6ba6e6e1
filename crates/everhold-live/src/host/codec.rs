//! Conversion between messages and bytes.

use std::fmt;

use everhold_node::Message;
use serde::de::DeserializeOwned;

/// The wire format of a system's messages.
///
/// [`Codec::postcard`] suits every message type that can be deserialised. A type whose `Serialize`
/// is meant for display, or that has a wire format of its own, brings two functions.
pub struct Codec<M> {
    /// Appends an encoded message to the bytes.
    pub encode: fn(&M, &mut Vec<u8>),
    /// Decodes a message from all of the bytes; the error describes the problem.
    pub decode: fn(&[u8]) -> Result<M, String>,
}

impl<M> Clone for Codec<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Codec<M> {}

impl<M> fmt::Debug for Codec<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Codec")
    }
}

impl<M: Message + DeserializeOwned> Codec<M> {
    /// Returns a codec for the `postcard` format, which is compact and has no field names.
    #[must_use]
    pub fn postcard() -> Codec<M> {
        Codec {
            encode: |message, bytes| {
                let encoded = postcard::to_allocvec(message).expect("a message can be serialised");
                bytes.extend_from_slice(&encoded);
            },
            decode: |bytes| postcard::from_bytes(bytes).map_err(|error| error.to_string()),
        }
    }
}

//! Proof of a shared secret: HMAC-SHA256 over the checker's nonce and the hello.
//!
//! It keeps strangers and misconfigured neighbours out. It does not hide what is said: across a
//! network that others read, put the connection inside TLS or a tunnel.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::{Greeting, Hello, encode};

fn mac(secret: &[u8], greeting: &Greeting, hello: &Hello) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(&greeting.nonce);
    let mut body = Vec::new();
    encode::put_hello(&mut body, &Hello { proof: None, ..hello.clone() });
    mac.update(&body);
    mac
}

/// The proof that a probe puts into its hello.
#[must_use]
pub fn prove(secret: &[u8], greeting: &Greeting, hello: &Hello) -> [u8; 32] {
    mac(secret, greeting, hello).finalize().into_bytes().into()
}

/// Whether the hello's proof fits; takes the same time whatever is wrong.
#[must_use]
pub fn is_proven(secret: &[u8], greeting: &Greeting, hello: &Hello) -> bool {
    let proof = hello.proof.unwrap_or_default();
    mac(secret, greeting, hello).verify_slice(&proof).is_ok() && hello.proof.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeId;
    use crate::wire::{Ordering, VERSION};

    #[test]
    fn a_proof_fits_its_secret_nonce_and_hello_only() {
        let greeting = Greeting { version: VERSION, nonce: [7; 16] };
        let mut hello = Hello {
            version: VERSION,
            system: "bank".to_owned(),
            node: NodeId(1),
            name: "n1".to_owned(),
            kind: "server".to_owned(),
            incarnation: 1,
            order: Ordering::Clocks,
            proof: None,
        };
        assert!(!is_proven(b"secret", &greeting, &hello));
        hello.proof = Some(prove(b"secret", &greeting, &hello));
        assert!(is_proven(b"secret", &greeting, &hello));
        assert!(!is_proven(b"other", &greeting, &hello));
        assert!(!is_proven(b"secret", &Greeting { nonce: [8; 16], ..greeting.clone() }, &hello));
        assert!(!is_proven(b"secret", &greeting, &Hello { node: NodeId(2), ..hello.clone() }));
    }
}

//! The configuration of a system: its nodes and their addresses.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use everhold_tls::{ClientFiles, ClientTls, TlsError};
use everhold_trace::NodeId;
use serde::Deserialize;

/// The nodes of a system with their addresses and settings; every process of the system uses the
/// same file.
///
/// ```
/// use everhold_live::host::Config;
/// let config = Config::parse(r#"{
///     "system": "bank",
///     "nodes": { "0": "127.0.0.1:7000", "1": "127.0.0.1:7001" },
///     "data": "/var/lib/bank",
///     "checkers": ["127.0.0.1:7117"]
/// }"#)?;
/// assert_eq!(config.nodes.len(), 2);
/// # Ok::<(), everhold_live::host::ConfigError>(())
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The system's name; nodes of other systems are refused.
    pub system: String,
    /// Each node's address.
    #[serde(deserialize_with = "nodes")]
    pub nodes: BTreeMap<NodeId, SocketAddr>,
    /// The transport between nodes. Clients always use TCP.
    #[serde(default)]
    pub transport: Transport,
    /// The folder for the nodes' disks, with a subfolder for each node. Without it, disks are lost
    /// when the process ends.
    pub data: Option<PathBuf>,
    /// The addresses of the checkers.
    #[serde(default)]
    pub checkers: Vec<SocketAddr>,
    /// The secret that the checkers require.
    pub secret: Option<String>,
    /// The files for TLS with the checkers, which needs the feature `tls`. Nodes do not use TLS
    /// among themselves.
    pub tls: Option<TlsFiles>,
    /// The folder for recordings.
    pub record: Option<PathBuf>,
    /// The seed of the nodes' random streams. A recording contains it, and its replay uses it.
    #[serde(default)]
    pub seed: u64,
    /// Allows nodes to listen on addresses that other machines can reach. Nodes do not authenticate
    /// each other: use this only on a network on which every machine is trusted.
    #[serde(default)]
    pub open: bool,
}

/// The files for TLS with the checkers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The CA that signed the checkers' certificates; by default the CAs that the system trusts.
    pub ca: Option<PathBuf>,
    /// The certificate of this process, if checkers require one.
    pub cert: Option<PathBuf>,
    /// The key of `cert`.
    pub key: Option<PathBuf>,
    /// The name that the checkers' certificates must have; by default each checker's address.
    pub name: Option<String>,
}

impl TlsFiles {
    pub(super) fn read(&self) -> Result<ClientTls, TlsError> {
        let TlsFiles { ca, cert, key, name } = self.clone();
        ClientTls::read(&ClientFiles { ca, cert, key, name })
    }
}

/// The transports between nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Framed streams: messages arrive in order, and are lost only with their connection.
    #[default]
    Tcp,
    /// Datagrams, which may be lost, duplicated and reordered.
    Udp,
}

impl Config {
    /// Makes the configuration of a system of these nodes, over TCP, without disks and checkers.
    #[must_use]
    pub fn new(system: &str, nodes: impl IntoIterator<Item = (NodeId, SocketAddr)>) -> Config {
        Config {
            system: system.to_owned(),
            nodes: nodes.into_iter().collect(),
            transport: Transport::Tcp,
            data: None,
            checkers: Vec::new(),
            secret: None,
            tls: None,
            record: None,
            seed: 0,
            open: false,
        }
    }

    /// Reads a configuration from a file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is not a valid configuration.
    pub fn read(path: &Path) -> Result<Config, ConfigError> {
        let name = path.display().to_string();
        let fail = |reason| ConfigError { file: Some(name.clone()), reason };
        let text = fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
        Config::parse(&text).map_err(|error| fail(error.reason))
    }

    /// Reads a configuration from JSON text.
    ///
    /// # Errors
    ///
    /// If the text is not a valid configuration; the message gives the place.
    pub fn parse(text: &str) -> Result<Config, ConfigError> {
        let fail = |reason| ConfigError { file: None, reason };
        let config: Config = serde_json::from_str(text).map_err(|error| fail(error.to_string()))?;
        if config.nodes.is_empty() {
            return Err(fail("\"nodes\" is empty; give each node an address".to_owned()));
        }
        let mut addresses: Vec<_> = config.nodes.values().collect();
        addresses.sort();
        match addresses.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(fail(format!("two nodes have the address {}", pair[0]))),
            None => Ok(config),
        }
    }
}

/// Keys in JSON are text, so numbers are parsed here; a number that occurs twice is an error.
fn nodes<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<NodeId, SocketAddr>, D::Error> {
    struct Nodes;
    impl<'de> serde::de::Visitor<'de> for Nodes {
        type Value = BTreeMap<NodeId, SocketAddr>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("node numbers with addresses, as {\"0\": \"127.0.0.1:7000\"}")
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(
            self,
            mut map: A,
        ) -> Result<Self::Value, A::Error> {
            use serde::de::Error;
            let mut nodes = BTreeMap::new();
            while let Some((key, address)) = map.next_entry::<String, SocketAddr>()? {
                let number: u32 = key.parse().map_err(|_| {
                    A::Error::custom(format!("node `{key}` must be a number, as \"0\""))
                })?;
                if nodes.insert(NodeId(number), address).is_some() {
                    return Err(A::Error::custom(format!("node {number} is there twice")));
                }
            }
            Ok(nodes)
        }
    }
    deserializer.deserialize_map(Nodes)
}

/// An error in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, if the configuration came from one.
    pub file: Option<String>,
    /// The problem and its place.
    pub reason: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.as_deref().unwrap_or("configuration");
        write!(f, "{file}: {}", self.reason)
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_named() {
        let check = |text: &str, expected: &str| {
            let error = Config::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("{", "line 1 column 1");
        check(r#"{"system": "s", "nodes": {}}"#, "\"nodes\" is empty");
        check(r#"{"system": "s", "nodes": {"a": "127.0.0.1:1"}}"#, "node `a` must be a number");
        check(r#"{"system": "s", "nodes": {"0": "nowhere"}}"#, "invalid socket address");
        let twice = r#"{"system": "s", "nodes": {"0": "127.0.0.1:1", "0": "127.0.0.1:2"}}"#;
        check(twice, "node 0 is there twice");
        let same = r#"{"system": "s", "nodes": {"0": "127.0.0.1:1", "1": "127.0.0.1:1"}}"#;
        check(same, "two nodes have the address 127.0.0.1:1");
        let typo = r#"{"system": "s", "nodes": {"0": "127.0.0.1:1"}, "dta": "x"}"#;
        check(typo, "unknown field `dta`");
    }
}

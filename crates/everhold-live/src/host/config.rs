//! Who is where.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use everhold_tls::{ClientFiles, ClientTls, TlsError};
use everhold_trace::NodeId;
use serde::Deserialize;

/// The nodes of a system and where they are; the same file serves every process of it.
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
    /// The system's name; nodes of another are not let in.
    pub system: String,
    /// Each node's address.
    #[serde(deserialize_with = "nodes")]
    pub nodes: BTreeMap<NodeId, SocketAddr>,
    /// How nodes reach each other. Clients always come by TCP.
    #[serde(default)]
    pub transport: Transport,
    /// The folder for the nodes' disks, each in a folder of its own below it. Without it disks
    /// are forgotten when the process ends.
    pub data: Option<PathBuf>,
    /// Checkers that watch.
    #[serde(default)]
    pub checkers: Vec<SocketAddr>,
    /// What the checkers ask for.
    pub secret: Option<String>,
    /// Speaks TLS with the checkers; needs the feature `tls`. Nodes among themselves do not.
    pub tls: Option<TlsFiles>,
    /// The folder for recordings.
    pub record: Option<PathBuf>,
    /// Seeds the nodes' random streams. A recording is replayed with the seed that it names.
    #[serde(default)]
    pub seed: u64,
    /// Lets nodes listen on addresses that other machines reach. There is no authentication
    /// between nodes: only do this on a network whose every machine is trusted.
    #[serde(default)]
    pub open: bool,
}

/// The files with which checkers are trusted, and with which they trust.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The CA that signed the checkers' certificates; those that the system trusts, if not given.
    pub ca: Option<PathBuf>,
    /// The certificate to show, if checkers ask for one.
    pub cert: Option<PathBuf>,
    /// The key of `cert`.
    pub key: Option<PathBuf>,
    /// The name that checkers' certificates must have; each one's address, if not given.
    pub name: Option<String>,
}

impl TlsFiles {
    pub(super) fn read(&self) -> Result<ClientTls, TlsError> {
        let TlsFiles { ca, cert, key, name } = self.clone();
        ClientTls::read(&ClientFiles { ca, cert, key, name })
    }
}

/// How nodes reach each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Framed streams: in order, and lost only with their connection.
    #[default]
    Tcp,
    /// Datagrams: lost, repeated and reordered as the network likes.
    Udp,
}

impl Config {
    /// A system of these nodes, over TCP, without disks and checkers.
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
    /// If the file cannot be read, or is no configuration.
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
    /// If it is none; the message says where.
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

/// JSON has text for keys; a number that occurs twice is a mistake.
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

/// Why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, if it came from one.
    pub file: Option<String>,
    /// What is wrong, and where.
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

//! Names of hosts.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

use crate::host::Host;

/// The names and addresses of all hosts, which the hosts share.
#[derive(Clone, Debug, Default)]
pub struct Names(Rc<BTreeMap<String, Vec<IpAddr>>>);

impl Names {
    /// Names with their addresses, the preferred one of each first.
    ///
    /// ```
    /// use everhold_os::Names;
    /// let names = Names::new([("kv-0".to_owned(), vec!["10.0.0.1".parse().unwrap()])]);
    /// assert!(names.knows("10.0.0.1".parse().unwrap()));
    /// ```
    pub fn new(names: impl IntoIterator<Item = (String, Vec<IpAddr>)>) -> Self {
        let lower = |(name, addresses): (String, Vec<IpAddr>)| (name.to_lowercase(), addresses);
        Names(Rc::new(names.into_iter().map(lower).collect()))
    }

    /// The addresses of a name.
    #[must_use]
    pub fn addresses(&self, name: &str) -> &[IpAddr] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// Whether an address belongs to any host.
    #[must_use]
    pub fn knows(&self, address: IpAddr) -> bool {
        self.0.values().flatten().any(|known| *known == address)
    }
}

impl Host {
    /// The addresses of a name or of an address that is written out; none if it is unknown.
    #[must_use]
    pub fn resolve(&self, name: &str) -> Vec<IpAddr> {
        let plain = name.strip_suffix('.').unwrap_or(name).to_lowercase();
        if let Ok(address) = plain.parse() {
            return vec![address];
        }
        if plain == "localhost" || plain.ends_with(".localhost") {
            return vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()];
        }
        self.settings.names.addresses(&plain).to_vec()
    }
}

//! The case studies that run as processes, by name, for `live-node` (which hosts them) and
//! `everhold replay-live` (which replays them).

use everhold::node::Message;
use everhold::prelude::*;
use everhold::sim::BadRecording;
use everhold::trace::Execution;
use everhold_live::Codec;
use everhold_live::host::{Config, Host, HostError, Running};

use crate::{lock, mps, primary_backup, search_engine, torrent};

/// A system that can be hosted by name. The name is also that of its configuration.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// A description in one line.
    pub about: &'static str,
    /// Its bugs by name; the last, `none`, is the fixed system.
    pub bugs: &'static [&'static str],
    /// Its claims, in the property language.
    pub rules: &'static str,
    host: fn(Config, &[NodeId], &str) -> Result<Running, HostError>,
    replay: fn(Explorer, &Execution, &str) -> Result<Report, BadRecording>,
}

/// All cases.
pub static CASES: &[Case] = &[
    Case {
        name: "lock",
        about: "a lock service with leases and cached locks, after Boxwood's",
        bugs: &["grants-before-release", "none"],
        rules: lock::RULES,
        host: host_lock,
        replay: |explorer, recording, bug| {
            let system = lock::system(lock_bug(bug));
            explorer.replay_live(recording, Codec::<lock::Msg>::postcard().decode, system)
        },
    },
    Case {
        name: "primary-backup",
        about: "primary/backup storage after PacificA",
        bugs: &["answers-before-flush", "none"],
        rules: primary_backup::RULES,
        host: host_primary_backup,
        replay: |explorer, recording, bug| {
            let system = primary_backup::system(primary_backup_bug(bug));
            let decode = Codec::<primary_backup::Msg>::postcard().decode;
            explorer.replay_live(recording, decode, system)
        },
    },
    Case {
        name: "mps",
        about: "the leader election of a Paxos service",
        bugs: &["asks-the-living", "none"],
        rules: mps::RULES,
        host: host_mps,
        replay: |explorer, recording, bug| {
            let decode = Codec::<mps::Msg>::postcard().decode;
            explorer.replay_live(recording, decode, mps::system(mps_bug(bug)))
        },
    },
    Case {
        name: "search-engine",
        about: "a web search engine with a slow part",
        bugs: &["slow-tier", "none"],
        rules: search_engine::BALANCED,
        host: host_search_engine,
        replay: |explorer, recording, bug| {
            let decode = Codec::<search_engine::Msg>::postcard().decode;
            explorer.replay_live(recording, decode, search_engine::system(search_bug(bug)))
        },
    },
    Case {
        name: "torrent",
        about: "a BitTorrent client",
        bugs: &["adds-again", "same-order", "none"],
        rules: torrent::RULES,
        host: host_torrent,
        replay: |explorer, recording, bug| {
            let decode = Codec::<torrent::Msg>::postcard().decode;
            let system = torrent::system(torrent::PEERS, torrent_bug(bug));
            explorer.replay_live(recording, decode, system)
        },
    },
];

impl Case {
    /// The case of this name.
    ///
    /// # Errors
    ///
    /// If there is no such system; the error lists the known names.
    pub fn find(name: &str) -> Result<&'static Case, String> {
        let names = || CASES.iter().map(|case| case.name).collect::<Vec<_>>().join(", ");
        let found = CASES.iter().find(|case| case.name == name);
        found.ok_or_else(|| format!("no system `{name}`; there are {}", names()))
    }

    /// Checks the name of a bug.
    ///
    /// # Errors
    ///
    /// If there is no such bug; the error lists the known names.
    pub fn check_bug(&self, bug: &str) -> Result<(), String> {
        if self.bugs.contains(&bug) {
            return Ok(());
        }
        Err(format!("{} has no bug `{bug}`; there are {}", self.name, self.bugs.join(", ")))
    }

    /// Runs some of its nodes in this process.
    ///
    /// # Errors
    ///
    /// If there is no such bug, or if one of the nodes cannot run.
    pub fn host(&self, config: Config, here: &[NodeId], bug: &str) -> Result<Running, String> {
        self.check_bug(bug)?;
        (self.host)(config, here, bug).map_err(|error| error.to_string())
    }

    /// Replays a recording of its nodes in the explorer.
    ///
    /// # Errors
    ///
    /// If there is no such bug, or if the recording is of another system.
    pub fn replay(
        &self,
        explorer: Explorer,
        recording: &Execution,
        bug: &str,
    ) -> Result<Report, String> {
        self.check_bug(bug)?;
        (self.replay)(explorer, recording, bug).map_err(|error| error.to_string())
    }
}

fn lock_bug(name: &str) -> lock::Bug {
    match name {
        "grants-before-release" => lock::Bug::GrantsBeforeRelease,
        _ => lock::Bug::None,
    }
}

fn primary_backup_bug(name: &str) -> primary_backup::Bug {
    match name {
        "answers-before-flush" => primary_backup::Bug::AnswersBeforeFlush,
        _ => primary_backup::Bug::None,
    }
}

fn mps_bug(name: &str) -> mps::Bug {
    match name {
        "asks-the-living" => mps::Bug::AsksTheLiving,
        _ => mps::Bug::None,
    }
}

fn search_bug(name: &str) -> search_engine::Bug {
    match name {
        "slow-tier" => search_engine::Bug::SlowTier,
        _ => search_engine::Bug::None,
    }
}

fn torrent_bug(name: &str) -> torrent::Bug {
    match name {
        "adds-again" => torrent::Bug::AddsAgain,
        "same-order" => torrent::Bug::SameOrder,
        _ => torrent::Bug::None,
    }
}

fn host_lock(config: Config, here: &[NodeId], name: &str) -> Result<Running, HostError> {
    let bug = lock_bug(name);
    let host = |host: Host<lock::Msg>, id: NodeId| match id {
        lock::SERVER => host.node(id, "server", move || lock::Server::new(bug)),
        _ => host.node(id, "client", lock::Client::default),
    };
    start(config, here, name, host)
}

fn host_primary_backup(config: Config, here: &[NodeId], name: &str) -> Result<Running, HostError> {
    let bug = primary_backup_bug(name);
    let host = |host: Host<primary_backup::Msg>, id: NodeId| match id {
        primary_backup::META => host.node(id, "meta", move || primary_backup::Meta::new(bug)),
        _ => host.node(id, "replica", move || primary_backup::Replica::new(id)),
    };
    start(config, here, name, host)
}

fn host_mps(config: Config, here: &[NodeId], name: &str) -> Result<Running, HostError> {
    let bug = mps_bug(name);
    let host =
        |host: Host<mps::Msg>, id| host.node(id, "replica", move || mps::Replica::new(id, bug));
    start(config, here, name, host)
}

fn host_search_engine(config: Config, here: &[NodeId], name: &str) -> Result<Running, HostError> {
    let bug = search_bug(name);
    let host = |host: Host<search_engine::Msg>, id| match id {
        search_engine::FRONT_END => host.node(id, "front end", search_engine::FrontEnd::new),
        _ => host.node(id, "server", move || search_engine::Server::new(id, bug)),
    };
    start(config, here, name, host)
}

fn host_torrent(config: Config, here: &[NodeId], name: &str) -> Result<Running, HostError> {
    let bug = torrent_bug(name);
    let host = |host: Host<torrent::Msg>, id| match id {
        torrent::TRACKER => host.node(id, "tracker", torrent::Tracker::default),
        _ => host.node(id, "peer", move || torrent::Peer::new(id, bug)),
    };
    start(config, here, name, host)
}

fn start<M: Message + serde::de::DeserializeOwned>(
    config: Config,
    here: &[NodeId],
    bug: &str,
    add: impl Fn(Host<M>, NodeId) -> Host<M>,
) -> Result<Running, HostError> {
    let host = Host::new(config, Codec::postcard()).note("bug", bug);
    here.iter().fold(host, |host, id| add(host, *id)).start()
}

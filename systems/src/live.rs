//! The case studies that run as processes, by name, for `live-node` (which hosts them) and
//! `everhold replay-live` (which replays them).

use everhold::node::Message;
use everhold::prelude::*;
use everhold::sim::BadRecording;
use everhold::trace::Execution;
use everhold_live::Codec;
use everhold_live::host::{Config, Host, HostError, Running};

use crate::{lock, primary_backup};

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

fn start<M: Message + serde::de::DeserializeOwned>(
    config: Config,
    here: &[NodeId],
    bug: &str,
    add: impl Fn(Host<M>, NodeId) -> Host<M>,
) -> Result<Running, HostError> {
    let host = Host::new(config, Codec::postcard()).note("bug", bug);
    here.iter().fold(host, |host, id| add(host, *id)).start()
}

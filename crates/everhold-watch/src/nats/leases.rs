//! The distribution of the partitions over the processes that check them.

use std::collections::BTreeMap;

use async_nats::jetstream::kv::{self, CreateErrorKind, Operation, UpdateErrorKind};
use futures_util::StreamExt;

use super::{Nats, server};
use crate::log::LogError;
use crate::store::{Balance, Lease, Store};

/// Leases and checkpoints in buckets of the stream server.
#[derive(Debug)]
pub struct NatsStore {
    nats: Nats,
    /// The revisions of the leases that are held.
    held: BTreeMap<u32, u64>,
    /// Where the last checkpoint of each partition lies.
    parts: BTreeMap<u32, Head>,
    generations: u64,
}

/// A checkpoint's first record: who wrote it, and in which pieces it lies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Head {
    owner: String,
    generation: String,
    pieces: usize,
}

/// A message may have a megabyte; so much of a checkpoint goes into one.
const PIECE: usize = 512 << 10;

impl Head {
    fn text(&self) -> String {
        format!("{} {} {}", self.owner, self.generation, self.pieces)
    }

    fn read(bytes: &[u8]) -> Head {
        let text = String::from_utf8_lossy(bytes);
        let mut words = text.split(' ');
        let mut word = || words.next().unwrap_or_default().to_owned();
        let (owner, generation) = (word(), word());
        Head { owner, generation, pieces: word().parse().unwrap_or(0) }
    }
}

impl NatsStore {
    pub(super) fn new(nats: Nats) -> NatsStore {
        NatsStore { nats, held: BTreeMap::new(), parts: BTreeMap::new(), generations: 0 }
    }

    fn name(&self) -> String {
        format!("{:016x}", self.nats.id)
    }

    fn bucket(&self, name: &str) -> Result<kv::Store, LogError> {
        let bucket = self.nats.bucket(name);
        self.nats.wait(self.nats.context.get_key_value(bucket))
    }

    /// Renews a lease, or notices that it is gone.
    fn renew(
        &mut self,
        leases: &kv::Store,
        partition: u32,
        revision: u64,
    ) -> Result<bool, LogError> {
        let (key, value) = (format!("p{partition}"), self.name().into_bytes().into());
        let renewed = self.nats.wait(async {
            match leases.update(&key, value, revision).await {
                Ok(revision) => Ok(Some(revision)),
                Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => Ok(None),
                Err(error) => Err(error),
            }
        })?;
        match renewed {
            Some(revision) => drop(self.held.insert(partition, revision)),
            None => drop(self.held.remove(&partition)),
        }
        Ok(renewed.is_some())
    }

    /// Tries to take a partition that nobody holds.
    fn take(&mut self, leases: &kv::Store, partition: u32) -> Result<Option<u64>, LogError> {
        let (key, value) = (format!("p{partition}"), self.name().into_bytes().into());
        self.nats.wait(async {
            match leases.create(&key, value).await {
                Ok(revision) => Ok(Some(revision)),
                Err(error) if error.kind() == CreateErrorKind::AlreadyExists => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    /// Takes over the checkpoint: from now on the former owner cannot write it.
    fn take_over(&mut self, partition: u32) -> Result<(Lease, Option<Vec<u8>>), LogError> {
        let checkpoints = self.bucket("checkpoints")?;
        let key = format!("p{partition}.head");
        let found = self.nats.wait(checkpoints.entry(key.clone()))?;
        let found = found.filter(|entry| entry.operation == Operation::Put);
        let mut head = found.as_ref().map(|entry| Head::read(&entry.value)).unwrap_or_default();
        head.owner = self.name();
        let value = head.text().into_bytes().into();
        let fence = match &found {
            Some(entry) => self.nats.wait(checkpoints.update(&key, value, entry.revision))?,
            None => self.nats.wait(checkpoints.create(&key, value))?,
        };
        let mut bytes = Vec::new();
        for piece in 0..head.pieces {
            let key = format!("p{partition}.{}.{piece}", head.generation);
            let piece = self.nats.wait(checkpoints.get(key))?;
            bytes.extend(piece.ok_or_else(|| server("a piece of a checkpoint is missing"))?);
        }
        let checkpoint = (head.pieces > 0).then_some(bytes);
        self.parts.insert(partition, head);
        Ok((Lease { partition, fence }, checkpoint))
    }

    /// The number of partitions that a checker should have, given the present members.
    fn share(&self, leases: &kv::Store) -> Result<usize, LogError> {
        let key = format!("member.{}", self.name());
        self.nats.wait(leases.put(&key, "".into()))?;
        let members = self.nats.wait(async {
            let mut keys = leases.keys().await.map_err(|error| error.to_string())?;
            let mut members = 0;
            while let Some(key) = keys.next().await {
                members += usize::from(key.map_err(|e| e.to_string())?.starts_with("member."));
            }
            Ok::<usize, String>(members)
        })?;
        Ok((self.nats.options.partitions as usize).div_ceil(members.max(1)))
    }

    /// The reports of all processes, by identity.
    ///
    /// # Errors
    ///
    /// If the server does not answer.
    pub fn reports(&self) -> Result<BTreeMap<String, String>, LogError> {
        let told = self.bucket("told")?;
        let identities = self.nats.wait(async {
            let keys = told.keys().await.map_err(|error| error.to_string())?;
            keys.map(|key| key.map_err(|error| error.to_string()))
                .collect::<Vec<_>>()
                .await
                .into_iter()
                .collect::<Result<Vec<String>, String>>()
        })?;
        let mut reports = BTreeMap::new();
        for identity in identities {
            if let Some(report) = self.nats.wait(told.get(identity.clone()))? {
                reports.insert(identity, String::from_utf8_lossy(&report).into_owned());
            }
        }
        Ok(reports)
    }

    fn remove(&self, checkpoints: &kv::Store, partition: u32, old: &Head) {
        for piece in 0..old.pieces {
            let key = format!("p{partition}.{}.{piece}", old.generation);
            let _ = self.nats.wait(checkpoints.purge(key));
        }
    }
}

impl Store for NatsStore {
    fn balance(&mut self) -> Result<Balance, LogError> {
        let leases = self.bucket("leases")?;
        let mut balance = Balance::default();
        for (partition, revision) in self.held.clone() {
            if !self.renew(&leases, partition, revision)? {
                balance.lost.push(partition);
            }
        }
        let share = self.share(&leases)?;
        while self.held.len() > share {
            let Some((partition, revision)) = self.held.pop_last() else { break };
            let key = format!("p{partition}");
            let _ = self.nats.wait(leases.delete_expect_revision(&key, Some(revision)));
            balance.lost.push(partition);
        }
        for partition in 0..self.nats.options.partitions {
            if self.held.len() >= share {
                break;
            }
            if self.held.contains_key(&partition) || balance.lost.contains(&partition) {
                continue;
            }
            if let Some(revision) = self.take(&leases, partition)? {
                balance.gained.push(self.take_over(partition)?);
                self.held.insert(partition, revision);
            }
        }
        Ok(balance)
    }

    fn save(&mut self, lease: Lease, checkpoint: &[u8]) -> Result<Option<Lease>, LogError> {
        let checkpoints = self.bucket("checkpoints")?;
        let Lease { partition, fence } = lease;
        self.generations += 1;
        let generation = format!("{}-{}", self.name(), self.generations);
        let mut pieces = 0;
        for piece in checkpoint.chunks(PIECE) {
            let key = format!("p{partition}.{generation}.{pieces}");
            self.nats.wait(checkpoints.put(&key, piece.to_vec().into()))?;
            pieces += 1;
        }
        let head = Head { owner: self.name(), generation, pieces };
        let (key, value) = (format!("p{partition}.head"), head.text().into_bytes().into());
        let written = self.nats.wait(async {
            match checkpoints.update(&key, value, fence).await {
                Ok(revision) => Ok(Some(revision)),
                Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => Ok(None),
                Err(error) => Err(error),
            }
        })?;
        match written {
            Some(fence) => {
                if let Some(old) = self.parts.insert(partition, head) {
                    self.remove(&checkpoints, partition, &old);
                }
                Ok(Some(Lease { partition, fence }))
            }
            None => {
                self.remove(&checkpoints, partition, &head);
                self.held.remove(&partition);
                Ok(None)
            }
        }
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn report(&mut self, identity: &str, report: &str) -> Result<bool, LogError> {
        let told = self.bucket("told")?;
        let value = report.as_bytes().to_vec().into();
        self.nats.wait(async {
            match told.create(identity, value).await {
                Ok(_) => Ok(true),
                Err(error) if error.kind() == CreateErrorKind::AlreadyExists => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    fn release(&mut self) -> Result<(), LogError> {
        let leases = self.bucket("leases")?;
        for (partition, revision) in std::mem::take(&mut self.held) {
            let key = format!("p{partition}");
            let _ = self.nats.wait(leases.delete_expect_revision(&key, Some(revision)));
        }
        let key = format!("member.{}", self.name());
        self.nats.wait(leases.delete(key))
    }
}

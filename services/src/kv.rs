//! A replicated key-value store on tokio: replicas keep a log of what they were told to store; a
//! client writes to a majority of them and reads from a majority.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The settings of a replica.
#[derive(Clone, Debug)]
pub struct Config {
    pub listen: String,
    pub log: PathBuf,
    /// Whether a record is on the disk before it is acknowledged. It has to be.
    pub syncs: bool,
}

/// A replica's program.
#[tokio::main(flavor = "current_thread")]
pub async fn main_with(config: Config) -> io::Result<()> {
    let store = Arc::new(Mutex::new(Store::open(&config)?));
    let listener = TcpListener::bind(&config.listen).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(serve(stream, Arc::clone(&store)));
    }
}

/// Answers requests, a line each: `get key` and `put key version value`.
async fn serve(stream: TcpStream, store: Arc<Mutex<Store>>) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut requests = BufReader::new(read).lines();
    while let Some(request) = requests.next_line().await? {
        let words: Vec<&str> = request.split(' ').collect();
        let answer = match words[..] {
            ["get", key] => store.lock().unwrap().get(key),
            ["put", key, version, value] => {
                let version = version.parse().map_err(io::Error::other)?;
                store.lock().unwrap().put(key, version, value)?;
                "ok".to_owned()
            }
            _ => "what?".to_owned(),
        };
        write.write_all(format!("{answer}\n").as_bytes()).await?;
    }
    Ok(())
}

/// The values of a replica, and the log in which they survive.
struct Store {
    log: File,
    values: BTreeMap<String, (u64, String)>,
    syncs: bool,
}

impl Store {
    fn open(config: &Config) -> io::Result<Store> {
        let mut log = OpenOptions::new().create(true).read(true).append(true).open(&config.log)?;
        let mut text = String::new();
        log.read_to_string(&mut text)?;
        let records: Vec<&str> = text.split_inclusive('\n').map_while(whole).collect();
        // A crash may have left part of the last record.
        let kept: usize = text.split_inclusive('\n').take(records.len()).map(str::len).sum();
        log.set_len(kept as u64)?;
        log.sync_all()?;
        File::open(config.log.parent().unwrap_or(Path::new("/")))?.sync_all()?;
        let mut store = Store { log, values: BTreeMap::new(), syncs: config.syncs };
        for record in records {
            if let [key, version, value] = record.split(' ').collect::<Vec<_>>()[..] {
                store.remember(key, version.parse().map_err(io::Error::other)?, value);
            }
        }
        Ok(store)
    }

    fn get(&self, key: &str) -> String {
        let (version, value) = self.values.get(key).cloned().unwrap_or_default();
        format!("{version} {value}")
    }

    fn put(&mut self, key: &str, version: u64, value: &str) -> io::Result<()> {
        if self.values.get(key).is_some_and(|(known, _)| *known >= version) {
            return Ok(());
        }
        let record = format!("{key} {version} {value}");
        self.log.write_all(format!("{} {record}\n", checksum(&record)).as_bytes())?;
        if self.syncs {
            self.log.sync_data()?;
        }
        self.remember(key, version, value);
        Ok(())
    }

    fn remember(&mut self, key: &str, version: u64, value: &str) {
        self.values.insert(key.to_owned(), (version, value.to_owned()));
    }
}

/// The record in a line of the log, if the line is whole.
fn whole(line: &str) -> Option<&str> {
    let (sum, record) = line.strip_suffix('\n')?.split_once(' ')?;
    (sum.parse() == Ok(checksum(record))).then_some(record)
}

fn checksum(record: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    record.hash(&mut hasher);
    hasher.finish()
}

/// A client; each key has one client that writes it.
#[derive(Clone, Debug)]
pub struct Client {
    replicas: Vec<String>,
    /// The number of replicas that answer before a read or a write is done; a majority is right.
    quorum: usize,
}

impl Client {
    pub fn new<T: Into<String>>(replicas: impl IntoIterator<Item = T>, quorum: usize) -> Client {
        Client { replicas: replicas.into_iter().map(Into::into).collect(), quorum }
    }

    pub async fn put(&self, key: &str, value: &str) {
        let (version, _) = self.newest(key).await;
        self.ask(&format!("put {key} {} {value}\n", version + 1)).await;
    }

    pub async fn get(&self, key: &str) -> String {
        let (version, value) = self.newest(key).await;
        if version > 0 {
            // Whoever reads next must not see an older value.
            self.ask(&format!("put {key} {version} {value}\n")).await;
        }
        value
    }

    async fn newest(&self, key: &str) -> (u64, String) {
        let answers = self.ask(&format!("get {key}\n")).await;
        let versions = answers.iter().filter_map(|answer| {
            let (version, value) = answer.trim_end().split_once(' ').unwrap_or(("0", ""));
            Some((version.parse().ok()?, value.to_owned()))
        });
        versions.max().unwrap_or_default()
    }

    /// Asks all replicas until there is a quorum of answers.
    async fn ask(&self, request: &str) -> Vec<String> {
        let mut asked = JoinSet::new();
        for replica in self.replicas.clone() {
            asked.spawn(insist(replica, request.to_owned()));
        }
        let mut answers = Vec::new();
        while answers.len() < self.quorum {
            answers.push(asked.join_next().await.expect("no more than all").expect("no panics"));
        }
        answers
    }
}

async fn insist(replica: String, request: String) -> String {
    loop {
        match timeout(Duration::from_secs(1), exchange(&replica, &request)).await {
            Ok(Ok(answer)) if answer.ends_with('\n') => return answer,
            _ => sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn exchange(replica: &str, request: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(replica).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).await?;
    Ok(answer)
}

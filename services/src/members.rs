//! A service whose instances tell each other where they are by gossip, with chitchat over UDP.
//!
//! Each start of an instance has a number, which is kept in a file. It is gossiped, and told to
//! whoever connects.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use chitchat::transport::UdpTransport;
use chitchat::{
    ChitchatConfig, ChitchatHandle, ChitchatId, FailureDetectorConfig, ProtocolVersion,
    spawn_chitchat,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};

/// The port of the gossip, over UDP, and that of the service, over TCP.
const PORT: u16 = 7280;
/// The key under which an instance gossips the number of its start.
const START: &str = "start";
/// The time between two rounds of gossip.
const INTERVAL: Duration = Duration::from_millis(500);
/// The time within which everybody has to know of a start.
const LIMIT: Duration = Duration::from_secs(5);
/// How often the observer looks at every instance, and the time between.
const ROUNDS: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// How an instance is told from its earlier starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// By the time of its start, as chitchat demands.
    OfTheStart,
    /// Not at all.
    Same,
}

impl Generation {
    fn number(self) -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        match self {
            Generation::OfTheStart => since.expect("it is later than 1970").as_millis() as u64,
            Generation::Same => 1,
        }
    }
}

fn address(name: &str) -> SocketAddr {
    let found =
        (name, PORT).to_socket_addrs().expect("the name is known").find(SocketAddr::is_ipv4);
    found.expect("it has an address")
}

async fn gossip(name: &str, seed: &str, generation: u64, start: u64) -> ChitchatHandle {
    let at = address(name);
    let config = ChitchatConfig {
        chitchat_id: ChitchatId::new(name.to_owned(), generation, at),
        cluster_id: "services".to_owned(),
        gossip_interval: INTERVAL,
        listen_addr: at,
        seed_nodes: vec![format!("{seed}:{PORT}")],
        failure_detector_config: FailureDetectorConfig::default(),
        marked_for_deletion_grace_period: Duration::from_secs(3_600),
        catchup_callback: None,
        extra_liveness_predicate: None,
        protocol_version: ProtocolVersion::V0,
    };
    let told = vec![(START.to_owned(), start.to_string())];
    spawn_chitchat(config, told, &UdpTransport).await.expect("the port is free")
}

/// The program of an instance.
#[tokio::main(flavor = "current_thread")]
pub async fn main_with(name: &str, seed: &str, generation: Generation) -> io::Result<()> {
    let start = count_start()?;
    let _gossip = gossip(name, seed, generation.number(), start).await;
    let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        // Who asked may be gone.
        let _ = stream.write_all(start.to_string().as_bytes()).await;
    }
}

fn count_start() -> io::Result<u64> {
    let earlier = fs::read_to_string("/starts").unwrap_or_default().parse().unwrap_or(0);
    fs::write("/starts.new", format!("{}", earlier + 1))?;
    fs::File::open("/starts.new")?.sync_all()?;
    fs::rename("/starts.new", "/starts")?;
    fs::File::open("/")?.sync_all()?;
    Ok(earlier + 1)
}

/// Asks an instance for the number of its start.
async fn asked(name: &str) -> io::Result<u64> {
    let mut text = String::new();
    TcpStream::connect((name, PORT)).await?.read_to_string(&mut text).await?;
    text.parse().map_err(io::Error::other)
}

/// An observer: gossip must bring it the newest start of each instance in time.
#[tokio::main(flavor = "current_thread")]
pub async fn observe(name: &str, instances: &[&str]) {
    let gossip = gossip(name, instances[0], Generation::OfTheStart.number(), 1).await;
    for _ in 0..ROUNDS {
        for instance in instances {
            hear(&gossip, instance).await;
        }
        sleep(PAUSE).await;
    }
}

/// Waits until gossip has brought what an instance itself says, if it says anything.
async fn hear(gossip: &ChitchatHandle, instance: &str) {
    let (mut start, mut since) = (0, Instant::now());
    loop {
        let told = timeout(PAUSE, asked(instance)).await;
        let told = told.ok().and_then(Result::ok).unwrap_or(0);
        if heard(gossip, instance).await >= told {
            return;
        }
        if told != start {
            (start, since) = (told, Instant::now());
        }
        assert!(since.elapsed() < LIMIT, "the news of start {start} of {instance} do not come");
        sleep(INTERVAL).await;
    }
}

/// The number of the newest start of an instance that gossip has brought.
async fn heard(gossip: &ChitchatHandle, name: &str) -> u64 {
    let chitchat = gossip.chitchat();
    let known = chitchat.lock().await;
    let of_name = known.node_states().iter().filter(|(id, _)| *id.node_id == *name);
    let starts = of_name.filter_map(|(_, state)| state.get(START)?.parse().ok());
    starts.max().unwrap_or(0)
}

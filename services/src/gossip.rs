//! Members of a cluster that watch each other with chitchat, over UDP.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chitchat::transport::UdpTransport;
use chitchat::{ChitchatConfig, ChitchatHandle, ChitchatId, FailureDetectorConfig, spawn_chitchat};
use tokio::time::{Instant, sleep};

/// The settings of a member.
#[derive(Clone, Debug)]
pub struct Config {
    pub name: String,
    pub seeds: Vec<String>,
    /// How improbable a silence has to be before a member is given up; 8 is usual.
    pub phi_threshold: f64,
}

const PORT: u16 = 7280;

/// Joins the cluster.
pub async fn join(config: &Config) -> std::io::Result<ChitchatHandle> {
    let here = (config.name.as_str(), PORT).to_socket_addrs()?;
    let here: SocketAddr = here.filter(SocketAddr::is_ipv4).next().expect("a host has an address");
    let generation = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is past 1970");
    let settings = ChitchatConfig {
        chitchat_id: ChitchatId::new(config.name.clone(), generation.as_millis() as u64, here),
        cluster_id: "cluster".to_owned(),
        gossip_interval: Duration::from_millis(500),
        listen_addr: here,
        seed_nodes: config.seeds.iter().map(|seed| format!("{seed}:{PORT}")).collect(),
        failure_detector_config: FailureDetectorConfig {
            phi_threshold: config.phi_threshold,
            initial_interval: Duration::from_millis(500),
            ..FailureDetectorConfig::default()
        },
        marked_for_deletion_grace_period: Duration::from_secs(600),
        catchup_callback: None,
        extra_liveness_predicate: None,
    };
    spawn_chitchat(settings, Vec::new(), &UdpTransport).await.map_err(std::io::Error::other)
}

/// A member's program.
#[tokio::main(flavor = "current_thread")]
pub async fn main_with(config: Config) -> std::io::Result<()> {
    let _member = join(&config).await?;
    std::future::pending().await
}

/// The members that this one believes alive.
pub async fn live(member: &ChitchatHandle) -> Vec<String> {
    let chitchat = member.chitchat();
    let chitchat = chitchat.lock().await;
    let mut names: Vec<_> = chitchat.live_nodes().map(|id| id.node_id.to_string()).collect();
    names.sort();
    names
}

/// Waits until this member believes that these ones are alive; says whether it does in time.
pub async fn sees(member: &ChitchatHandle, names: &[&str], within: Duration) -> bool {
    let start = Instant::now();
    while live(member).await != names {
        if start.elapsed() > within {
            return false;
        }
        sleep(Duration::from_millis(100)).await;
    }
    true
}

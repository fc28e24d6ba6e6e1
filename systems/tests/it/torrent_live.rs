//! A BitTorrent client of 57 peers on real sockets, watched by graphs of stages (D3S, section 5.5).
#![expect(clippy::disallowed_methods, reason = "nodes on real sockets run in real time")]

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use everhold_live::NodeId;
use everhold_systems::torrent::{
    Distribution, ONCE, PEERS, RULES, is_free_rider, neighbour_graph, piece_distribution, trust,
};

use crate::live::{Cluster, PATIENCE, Watcher, folder};

#[test]
fn neighbours_that_are_added_again_are_caught() {
    let folder = folder("torrent-again");
    let (longest, lengths) = channel();
    let flows = move || {
        let longest = longest.clone();
        vec![neighbour_graph(move |_, length| {
            let _ = longest.send(length);
        })]
    };
    let watcher = Watcher::start_with(&folder, RULES, flows);
    let cluster = Cluster::start_together(&folder, "torrent", "adds-again", PEERS + 1, &watcher);
    let mut rules = Vec::new();
    while rules.len() < 2 {
        let violation = watcher.violation(PATIENCE).expect("lists grow");
        if !rules.contains(&violation.rule) {
            rules.push(violation.rule.clone());
        }
    }
    assert!(rules.contains(&ONCE.to_owned()), "{rules:?}");
    assert!(lengths.iter().take(10_000).any(|length| length > i64::from(PEERS)));
    drop(watcher);
    cluster.end();
}

/// The distributions until the average peer has half of the pieces, or the time is over.
fn until_half(distributions: &Receiver<Distribution>) -> Vec<Distribution> {
    let end = Instant::now() + 3 * PATIENCE;
    let mut seen = Vec::new();
    while Instant::now() < end {
        let Ok(now) = distributions.recv_timeout(Duration::from_millis(200)) else { continue };
        let is_half = now.progress() > 0.5;
        seen.push(now);
        if is_half {
            return seen;
        }
    }
    panic!("half of the file was not downloaded: {:?}", seen.last());
}

/// The alarms of the piece distribution until half of the file is downloaded, and the contributions.
fn download(name: &str, bug: &'static str) -> (Option<String>, Vec<(i64, i64)>) {
    let folder = folder(name);
    let (told, distributions) = channel();
    let (trusted, contributions) = channel();
    let flows = move || {
        let (told, trusted) = (told.clone(), trusted.clone());
        let trust = trust(move |_, pairs| drop(trusted.send(pairs)));
        vec![
            piece_distribution(move |_, counts| drop(told.send(counts))),
            trust.sampled(Duration::from_millis(500)),
        ]
    };
    let watcher = Watcher::start_with(&folder, RULES, flows);
    let cluster = Cluster::start_together(&folder, "torrent", bug, PEERS + 1, &watcher);
    until_half(&distributions);
    std::thread::sleep(Duration::from_secs(1));
    let mut uneven = None;
    while let Some(violation) = watcher.violation(Duration::from_millis(50)) {
        if violation.rule == "pieces spread evenly" {
            uneven = Some(violation.reason.clone());
        }
    }
    let last = contributions.try_iter().last().unwrap_or_default();
    drop(cluster);
    (uneven, last)
}

#[test]
fn peers_that_converge_on_the_same_pieces_are_caught() {
    let (uneven, _) = download("torrent-same", "same-order");
    assert!(uneven.is_some());
}

/// Every free rider is told from every other peer but the seed, whose pieces nobody else has at first.
#[test]
fn a_correct_download_is_even_and_free_riders_stand_out() {
    let (uneven, contributions) = download("torrent-even", "none");
    assert_eq!(uneven, None);
    let mut sorted: Vec<i64> = contributions.iter().map(|(_, trust)| *trust).collect();
    sorted.sort_unstable();
    let median = sorted[sorted.len() / 2];
    let is_low = |(_, trust): &&(i64, i64)| trust * 2 < median;
    let low = contributions.iter().filter(is_low).map(|(peer, _)| NodeId(*peer as u32));
    let (riders, others): (Vec<_>, Vec<_>) = low.partition(|peer| is_free_rider(*peer));
    println!(
        "{} free riders and {} others are below half of the median",
        riders.len(),
        others.len()
    );
    assert!(riders.len() >= 9 && others.len() <= 2, "{riders:?} {others:?}");
}

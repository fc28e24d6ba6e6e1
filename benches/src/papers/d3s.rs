//! D3S, section 5 and Table 1: deployed systems, failures injected, and the time to the alarm.
//!
//! Nodes are processes of this program; the watch is in this process. A row is a system with a bug and
//! the predicate that catches it, and the same system without the bug, which must be silent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use everhold::timed::Ended;
use everhold_live::{Config, NodeId};
use everhold_systems::live::Case;
use everhold_systems::{chord, mps, search_engine, torrent};

use super::deployed::Deployed;
use super::{median, seeds};
use crate::Options;
use crate::measure::{Bound, Scorecard};
use crate::process::when_input_ends;
use crate::table::Table;

/// The name under which this program hosts nodes of a system.
pub(crate) const NODES: &str = "papers-nodes";

/// The time after which an alarm is no longer waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time for which a correct system must be silent.
const SILENCE: Duration = Duration::from_secs(12);

/// The rounds of each row; each takes up to a minute of real time.
fn rounds(options: &Options) -> u64 {
    options.seeds.unwrap_or(options.size.pick(1, 5))
}

/// A system that is deployed, and the alarm that is expected.
struct Row {
    system: &'static str,
    bug: &'static str,
    /// The paper's result.
    paper: &'static str,
    /// Waits for the alarm of a deployment with this bug; the time until then.
    alarm: fn(&'static str, Duration) -> Option<Duration>,
}

const ROWS: &[Row] = &[
    Row {
        system: "mps",
        bug: "asks-the-living",
        paper: "a node stuck in Promoting, after hours",
        alarm: promoting,
    },
    Row {
        system: "search-engine",
        bug: "slow-tier",
        paper: "one or two servers take twice the mean",
        alarm: slow_tier,
    },
    Row {
        system: "torrent",
        bug: "adds-again",
        paper: "more than 300 neighbours of 57 peers",
        alarm: neighbours,
    },
    Row {
        system: "torrent",
        bug: "same-order",
        paper: "peers converge on the same pieces",
        alarm: pieces,
    },
];

/// Figure 6: three of five crash and come back, and one node is cut off from most for a while.
fn promoting(bug: &'static str, patience: Duration) -> Option<Duration> {
    let cut = |nodes: &[u32]| mps::Msg::Cut(nodes.iter().copied().map(NodeId).collect());
    let mut deployed =
        Deployed::start("mps", bug, mps::REPLICAS, false, mps::RULES, Arc::new(Vec::new));
    deployed.call(0, &mps::Msg::Command);
    deployed.tell(0, &cut(&[1, 2]));
    deployed.tell(0, &mps::Msg::Command);
    std::thread::sleep(Duration::from_millis(100));
    deployed.tell(2, &cut(&[0, 3, 4]));
    deployed.tell(3, &cut(&[2]));
    let begun = Instant::now();
    deployed.restart(&[1, 0, 4]);
    std::thread::sleep(Duration::from_secs(4));
    deployed.tell(2, &cut(&[]));
    deployed.tell(3, &cut(&[]));
    deployed.alarm(mps::RETURNS, patience).map(|_| begun.elapsed())
}

/// The predicate over servers raises the alarm; the one over tiers, installed then, names the part.
fn slow_tier(bug: &'static str, patience: Duration) -> Option<Duration> {
    let rules = search_engine::BALANCED;
    let nodes = search_engine::SERVERS + 1;
    let deployed = Deployed::start("search-engine", bug, nodes, false, rules, Arc::new(Vec::new));
    let begun = Instant::now();
    deployed.alarm(search_engine::RESPONSE_TIMES, patience)?;
    deployed.refine(&format!("{rules}{}", search_engine::BALANCED_TIERS));
    deployed.alarm(search_engine::TIER_TIMES, patience).map(|_| begun.elapsed())
}

fn neighbours(bug: &'static str, patience: Duration) -> Option<Duration> {
    let flows = || vec![torrent::neighbour_graph(|_, _| ())];
    let nodes = torrent::PEERS + 1;
    let deployed = Deployed::start("torrent", bug, nodes, true, torrent::RULES, Arc::new(flows));
    let begun = Instant::now();
    deployed.alarm("neighbour lists are no longer than the group", patience)?;
    Some(begun.elapsed())
}

fn pieces(bug: &'static str, patience: Duration) -> Option<Duration> {
    let flows = || vec![torrent::piece_distribution(|_, _| ())];
    let nodes = torrent::PEERS + 1;
    let deployed = Deployed::start("torrent", bug, nodes, true, torrent::RULES, Arc::new(flows));
    let begun = Instant::now();
    deployed.alarm("pieces spread evenly", patience)?;
    Some(begun.elapsed())
}

/// The free riders and the others with less than half of the median contribution, at the end of a
/// download.
fn contributions() -> (usize, usize) {
    let (told, heard) = std::sync::mpsc::channel();
    let flows = move || {
        let told = told.clone();
        let trust = torrent::trust(move |_, pairs| drop(told.send(pairs)));
        vec![trust.sampled(Duration::from_millis(500))]
    };
    let nodes = torrent::PEERS + 1;
    let deployed = Deployed::start("torrent", "none", nodes, true, torrent::RULES, Arc::new(flows));
    std::thread::sleep(PATIENCE / 2);
    drop(deployed);
    let last: Vec<(i64, i64)> = heard.try_iter().last().unwrap_or_default();
    let mut sorted: Vec<i64> = last.iter().map(|(_, trust)| *trust).collect();
    sorted.sort_unstable();
    let half = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
    let low = last.iter().filter(|(_, trust)| trust * 2 < half);
    let low: Vec<&(i64, i64)> = low.collect();
    let riders =
        low.iter().filter(|(peer, _)| torrent::is_free_rider(NodeId(*peer as u32))).count();
    (riders, low.len() - riders)
}

pub(super) fn run(options: &Options, scores: &mut Scorecard) {
    deployed(options, scores);
    if options.wants_row("free riders") {
        eprintln!("free riders");
        let (riders, others) = contributions();
        let all = torrent::FREE_RIDERS;
        println!(
            "EigenTrust: {riders} of {all} free riders and {others} others are below half of the median."
        );
        scores.hold(
            "free riders that are told apart",
            riders as f64,
            Bound::AtLeast(f64::from(all)),
        );
        scores.hold("others taken for free riders", others as f64, Bound::AtMost(0.0));
    }
    rings(options, scores);
}

fn deployed(options: &Options, scores: &mut Scorecard) {
    let mut table =
        Table::new(&["system, bug", "paper", "alarms", "median s to the alarm", "false"]);
    let (mut missed, mut false_alarms) = (0, 0);
    for row in ROWS {
        let name = format!("{}, {}", row.system, row.bug);
        if !options.wants_row(&name) {
            continue;
        }
        eprintln!("{name}");
        let rounds = rounds(options);
        let mut times: Vec<f64> = (0..rounds)
            .filter_map(|_| (row.alarm)(row.bug, PATIENCE))
            .map(|time| time.as_secs_f64())
            .collect();
        times.sort_by(f64::total_cmp);
        let untrue = (0..rounds).filter(|_| (row.alarm)("none", SILENCE).is_some()).count();
        missed += rounds as usize - times.len();
        false_alarms += untrue;
        table.row(vec![
            name,
            row.paper.to_owned(),
            format!("{}/{rounds}", times.len()),
            median(&times, rounds).map_or("-".to_owned(), |time| format!("{time:.1}")),
            format!("{untrue}/{rounds}"),
        ]);
    }
    table.print("D3S, section 5: deployed systems");
    scores.hold("rounds without the alarm", missed as f64, Bound::AtMost(0.0));
    scores.hold("false alarms", false_alarms as f64, Bound::AtMost(0.0));
}

/// How long half of the survivors do not hear the other half after the loss.
const STALLS: [Duration; 3] = [Duration::ZERO, Duration::from_millis(500), Duration::from_secs(3)];

/// Section 5.4 on a virtual clock: whether the survivors of a ring of 85 form one ring again.
fn rings(options: &Options, scores: &mut Scorecard) {
    if !options.wants_row("chord") {
        return;
    }
    let mut table = Table::new(&[
        "neighbours a side",
        "stall s",
        "bug",
        "one ring again",
        "median s",
        "rings at the end, most",
    ]);
    let (reaches, stalls) = options.size.pick((&[3][..], &STALLS[1..2]), (&[3, 8], &STALLS[..]));
    let rows = reaches.iter().flat_map(|reach| stalls.iter().map(move |stall| (*reach, *stall)));
    let rows = rows.flat_map(|(reach, stall)| {
        [chord::Bug::StaysApart, chord::Bug::None].map(|bug| (reach, stall, bug))
    });
    for (reach, stall, bug) in rows {
        eprintln!("chord, {reach}, {stall:?}, {bug:?}");
        let (mut times, mut most) = (Vec::new(), 1);
        for seed in 1..=seeds(options) {
            let mut sim = chord::loses_most(85, reach, stall, bug).sim();
            let mut world = sim.start(seed);
            let ran = world.finish();
            most = most.max(world.look(chord::rings).count);
            if ran.ended == Ended::Done {
                times.push(ran.time.as_secs_f64() - chord::LOSS.as_secs_f64());
            }
        }
        times.sort_by(f64::total_cmp);
        if bug == chord::Bug::None {
            let apart = seeds(options) as usize - times.len();
            let claim = format!(
                "chord, {reach} neighbours, {stall:?}: losses after which rings stay apart"
            );
            scores.hold(claim, apart as f64, Bound::AtMost(0.0));
        }
        table.row(vec![
            reach.to_string(),
            format!("{:.1}", stall.as_secs_f64()),
            format!("{bug:?}"),
            format!("{}/{}", times.len(), seeds(options)),
            median(&times, seeds(options)).map_or("-".to_owned(), |time| format!("{time:.1}")),
            most.to_string(),
        ]);
    }
    table.print("D3S, section 5.4: 70 % of 85 nodes die at once, on a virtual clock");
}

/// `CONFIG BUG ID..`: hosts nodes of a system until standard input ends.
pub(crate) fn nodes(words: &[&str]) {
    let [config, bug, ids @ ..] = words else { panic!("{words:?}") };
    let config = Config::read(std::path::Path::new(config)).expect("it was just written");
    let ids: Vec<NodeId> = ids.iter().map(|id| NodeId(id.parse().expect("a number"))).collect();
    let case = Case::find(&config.system).expect("a system that can be hosted");
    let running = case.host(config, &ids, bug).expect("ports are free");
    when_input_ends(|| std::process::exit(0));
    let _ = running.wait();
}

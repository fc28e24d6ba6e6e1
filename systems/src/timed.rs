//! The case studies on a virtual clock: the systems of the MacePC paper with its networks, scales
//! and stopping conditions. `everhold perf` runs them by name.

use everhold::node::Message;
use everhold::perf::{Measured, OnProgress, Perf, PerfReport, WhatIf};
use everhold::prelude::*;
use everhold::timed::{Draws, Durations, Timed};

use crate::dht::Ids;
use crate::{bamboo, bullet, chord, pastry, randtree};

/// A system that can be run by name.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// A description in one line.
    pub about: &'static str,
    /// Its bugs by name; the first is the default, `none` is the fixed system.
    pub bugs: &'static [&'static str],
    /// The default number of nodes.
    pub nodes: usize,
    run: fn(&Settings) -> Result<Ready, String>,
}

/// The variant of a system to run.
#[derive(Debug, Default)]
pub struct Settings {
    /// The bug by name; by default the system's first bug.
    pub bug: Option<String>,
    /// The number of nodes.
    pub nodes: Option<usize>,
    /// The durations of handlers; by default 20 to 200 µs.
    pub durations: Option<Durations>,
}

/// A system that is ready to run, independent of the type of its messages.
pub trait Run {
    /// Looks for slow executions.
    fn perf(self: Box<Self>, how: How) -> PerfReport;
    /// Draws executions without an analysis; returns the length of each, in the order of the seeds.
    fn measure(self: Box<Self>, how: How) -> Vec<Measured>;
    /// Measures the durations of handlers on this machine.
    fn train(&self, executions: u64) -> Durations;
    /// The kinds of events without a measured duration.
    fn untrained(&self) -> Vec<String>;
}

/// A system that is ready to run.
pub type Ready = Box<dyn Run>;

/// The parameters of a search for slow executions; absent ones have the defaults of [`Perf`].
#[derive(Default)]
pub struct How {
    /// The number of executions.
    pub executions: Option<usize>,
    /// The seed.
    pub seed: Option<u64>,
    /// The number of threads.
    pub workers: Option<usize>,
    /// The limit on wall time.
    pub time: Option<Duration>,
    /// For MacePC's analysis: the number of training executions, and the walks from each prefix.
    pub mace: Option<(usize, u32)>,
    /// The changes to try.
    pub what_if: Vec<WhatIf>,
    /// A single execution to replay instead of a search.
    pub replay: Option<Draws>,
    /// A function that is called with the progress.
    pub on_progress: Option<OnProgress>,
    /// The name in the report.
    pub name: String,
    /// The command that runs an execution again when a token is appended to it.
    pub replay_with: String,
}

impl std::fmt::Debug for How {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("How").field("name", &self.name).finish_non_exhaustive()
    }
}

impl How {
    fn apply<M: Message>(self, timed: Timed<M>) -> Perf<M> {
        let mut perf = Perf::new(timed).name(&self.name).replay_with(&self.replay_with);
        if let Some(executions) = self.executions {
            perf = perf.executions(executions);
        }
        if let Some(seed) = self.seed {
            perf = perf.seed(seed);
        }
        if let Some(workers) = self.workers {
            perf = perf.workers(workers);
        }
        if let Some(time) = self.time {
            perf = perf.time(time);
        }
        if let Some((training, walks)) = self.mace {
            perf = perf.mace(training, walks);
        }
        if let Some(call) = self.on_progress {
            perf = perf.on_progress(call);
        }
        if let Some(draws) = self.replay {
            perf = perf.replay(draws);
        }
        self.what_if.into_iter().fold(perf, Perf::what_if)
    }
}

/// A system, and the same system with fewer nodes for comparison.
struct Sizes<M: Message> {
    timed: Timed<M>,
    smaller: Option<Timed<M>>,
}

impl<M: Message> Run for Sizes<M> {
    fn perf(self: Box<Self>, how: How) -> PerfReport {
        let perf = how.apply(self.timed);
        match self.smaller {
            Some(smaller) => perf.smaller(smaller).run(),
            None => perf.run(),
        }
    }

    fn measure(self: Box<Self>, how: How) -> Vec<Measured> {
        how.apply(self.timed).measure()
    }

    fn train(&self, executions: u64) -> Durations {
        self.timed.train(executions)
    }

    fn untrained(&self) -> Vec<String> {
        let mut sim = self.timed.sim();
        sim.run(0);
        sim.untrained()
    }
}

/// The bandwidth for Bullet', in Mbit/s: the paper's 20 MB need more than 17.
const MBITS: f64 = 20.0;

/// All cases.
pub static CASES: &[Case] = &[
    Case {
        name: "randtree",
        about: "an overlay tree; a root forgets that it is joining (MacePC, figure 1)",
        bugs: &["forgets-join", "none"],
        nodes: 4,
        run: |settings| {
            let bug = match settings.bug("randtree")? {
                "forgets-join" => randtree::Bug::ForgetsJoin,
                _ => randtree::Bug::None,
            };
            Ok(settings.ready(4, move |nodes| randtree(nodes, bug)))
        },
    },
    Case {
        name: "chord",
        about: "a ring; of many that join at once most find their place step by step",
        bugs: &["tells-nobody", "none"],
        nodes: 40,
        run: |settings| {
            let bug = match settings.bug("chord")? {
                "tells-nobody" => chord::Bug::TellsNobody,
                _ => chord::Bug::None,
            };
            Ok(settings.ready(40, move |nodes| chord(nodes, bug)))
        },
    },
    Case {
        name: "pastry",
        about: "a hash table; nodes are pushed out of leafsets in silence",
        bugs: &["silent-eviction", "none"],
        nodes: 40,
        run: |settings| {
            let bug = match settings.bug("pastry")? {
                "silent-eviction" => pastry::Bug::SilentEviction,
                _ => pastry::Bug::None,
            };
            Ok(settings.ready(40, move |nodes| pastry::timed(nodes, bug)))
        },
    },
    Case {
        name: "bamboo",
        about: "a hash table for churn; neighbours are not introduced, or forgotten",
        bugs: &["silent-neighbours", "silent-displacement", "forgets-evicted", "none"],
        nodes: 20,
        run: |settings| {
            let (bug, ids) = match settings.bug("bamboo")? {
                "silent-neighbours" => (bamboo::Bug::SilentNeighbours, Ids::Even),
                "silent-displacement" => (bamboo::Bug::SilentDisplacement, Ids::Even),
                "forgets-evicted" => (bamboo::Bug::ForgetsEvicted, Ids::Crowded),
                _ => (bamboo::Bug::None, Ids::Even),
            };
            Ok(settings.ready(20, move |nodes| bamboo::timed(nodes, ids, bug)))
        },
    },
    Case {
        name: "bullet",
        about: "a file for many; who is rejected waits (2 MB), notices are lost (20 MB)",
        bugs: &["bare-rejection", "diffs-with-data", "none", "none-large"],
        nodes: 100,
        run: |settings| {
            let (bug, file) = match settings.bug("bullet")? {
                "bare-rejection" => (bullet::Bug::BareRejection, bullet::File::SMALL),
                "diffs-with-data" => (bullet::Bug::DiffsWithData, bullet::File::LARGE),
                "none-large" => (bullet::Bug::None, bullet::File::LARGE),
                _ => (bullet::Bug::None, bullet::File::SMALL),
            };
            Ok(settings.ready(100, move |nodes| bullet::timed(nodes, file, bug, MBITS)))
        },
    },
    #[cfg(feature = "raft")]
    Case {
        name: "raft",
        about: "the raft crate; after the leader has gone, its client is too patient",
        bugs: &["slow-retry", "none"],
        nodes: 3,
        run: |settings| {
            use crate::raft::timed::{Bug, timed};
            let bug = match settings.bug("raft")? {
                "slow-retry" => Bug::SlowRetry,
                _ => Bug::None,
            };
            Ok(settings.ready(3, move |nodes| timed(nodes, bug)))
        },
    },
];

impl Case {
    /// The case of a name.
    ///
    /// # Errors
    ///
    /// If there is none; the error lists the known names.
    pub fn find(name: &str) -> Result<&'static Case, String> {
        CASES.iter().find(|case| case.name == name).ok_or_else(|| {
            let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
            format!("there is no system `{name}`; there are {}", names.join(", "))
        })
    }

    /// Prepares the system for a run.
    ///
    /// # Errors
    ///
    /// If the settings do not fit the system.
    pub fn ready(&self, settings: &Settings) -> Result<Ready, String> {
        if settings.nodes.is_some_and(|nodes| nodes < 2) {
            return Err(format!("{} needs at least 2 nodes", self.name));
        }
        (self.run)(settings)
    }
}

impl Settings {
    /// The bug by name, checked.
    fn bug(&self, case: &str) -> Result<&str, String> {
        let case = Case::find(case)?;
        let bug = self.bug.as_deref().unwrap_or(case.bugs[0]);
        if case.bugs.contains(&bug) {
            return Ok(bug);
        }
        Err(format!("{} has no bug `{bug}`; it has {}", case.name, case.bugs.join(", ")))
    }

    /// The system with the default number of nodes unless the settings give another, and with a
    /// quarter of them.
    fn ready<M: Message>(&self, nodes: usize, make: impl Fn(usize) -> Timed<M>) -> Ready {
        let nodes = self.nodes.unwrap_or(nodes);
        let smaller = (nodes >= 8).then(|| self.timed(make(nodes / 4)));
        Box::new(Sizes { timed: self.timed(make(nodes)), smaller })
    }

    fn timed<M: Message>(&self, timed: Timed<M>) -> Timed<M> {
        match &self.durations {
            Some(durations) => timed.durations(durations.clone()),
            None => timed,
        }
    }
}

/// Handlers of 20 to 200 µs. The paper's network, with 1 ms and 8 Mbit/s, is the default.
pub(crate) fn handlers() -> Durations {
    Durations::uniform(Duration::from_micros(20), Duration::from_micros(200))
}

/// RandTree until there is one tree.
#[must_use]
pub fn randtree(nodes: usize, bug: randtree::Bug) -> Timed<randtree::Msg> {
    Timed::new(randtree::system(nodes, randtree::DEGREE, bug))
        .durations(handlers())
        .stop_when(randtree::is_one_tree)
        .unchecked()
}

/// Chord until there is one ring.
#[must_use]
pub fn chord(nodes: usize, bug: chord::Bug) -> Timed<chord::Msg> {
    Timed::new(chord::system(nodes, bug))
        .durations(handlers())
        .stop_when(chord::is_one_ring)
        .unchecked()
}

//! How a timed execution ended.

use std::fmt;
use std::time::Duration;

use everhold_sim::Failure;
use everhold_sim::Verdict;

/// One execution in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedRun {
    /// Simulated time until the stopping condition was true, or until the execution ended
    /// otherwise.
    pub time: Duration,
    /// Events handled.
    pub events: u64,
    /// How it ended.
    pub ended: Ended,
    /// Real time that it took. The only field that another run of the same execution changes.
    pub wall: Duration,
}

/// Why an execution ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The stopping condition became true.
    Done,
    /// The limit of simulated time was reached first; what was nearest, if that can be said.
    TimeLimit(Option<String>),
    /// The limit of events was reached first; what was nearest, if that can be said.
    EventLimit(Option<String>),
    /// Nothing could happen any more; what was nearest, if that can be said.
    Quiet(Option<String>),
    /// A property of the system was violated, or a node panicked.
    Failed(Failure),
}

impl TimedRun {
    /// True if the stopping condition became true.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.ended == Ended::Done
    }

    /// The answer in a word: a limit that is reached says nothing.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self.ended {
            Ended::Done => Verdict::Holds,
            Ended::TimeLimit(_) | Ended::EventLimit(_) | Ended::Quiet(_) => Verdict::Unknown,
            Ended::Failed(_) => Verdict::Violated,
        }
    }
}

impl fmt::Display for TimedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (time, events, wall) = (self.time, self.events, self.wall);
        let rest = format!("{events} events, {wall:.1?} of real time");
        let (how, nearest) = match &self.ended {
            Ended::Done => return write!(f, "done after {time:?} ({rest})"),
            Ended::Failed(failure) => return write!(f, "{failure}, after {time:?} ({rest})"),
            Ended::TimeLimit(nearest) => ("the time limit", nearest),
            Ended::EventLimit(nearest) => ("the limit of events", nearest),
            Ended::Quiet(nearest) => ("a state in which nothing can happen", nearest),
        };
        write!(f, "unknown: {how} was reached after {time:?} ({rest})")?;
        match nearest {
            Some(nearest) => write!(f, "; still missing: {nearest}"),
            None => Ok(()),
        }
    }
}

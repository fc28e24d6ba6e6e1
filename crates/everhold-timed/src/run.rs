//! The outcome of a timed execution.

use std::fmt;
use std::time::Duration;

use everhold_sim::Failure;
use everhold_sim::SimVerdict;

/// The outcome of one execution in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedRun {
    /// The simulated time until the stopping condition was true, or until the execution ended for
    /// another reason.
    pub time: Duration,
    /// The number of events handled.
    pub events: u64,
    /// The reason for which it ended.
    pub ended: Ended,
    /// The wall time that it took: the only field in which another run of the same execution may
    /// differ.
    pub wall: Duration,
}

/// The reasons for which an execution ends.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// The stopping condition became true.
    Done,
    /// The limit of simulated time was reached first; with the unmet part of the stopping
    /// condition, if it can be named.
    TimeLimit(Option<String>),
    /// The limit of events was reached first; with the unmet part of the stopping condition, if it
    /// can be named.
    EventLimit(Option<String>),
    /// No further event was possible; with the unmet part of the stopping condition, if it can be
    /// named.
    Quiet(Option<String>),
    /// A property of the system was violated, a node panicked, or did too much in one event.
    Failed(Failure),
    /// A checker reached its bound, which this names: neither right nor wrong.
    Undecided(String),
}

impl TimedRun {
    /// Returns true if the stopping condition became true.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.ended == Ended::Done
    }

    /// Returns the verdict; an execution that reached a limit is unknown.
    #[must_use]
    pub fn verdict(&self) -> SimVerdict {
        match self.ended {
            Ended::Done => SimVerdict::Holds,
            Ended::TimeLimit(_) | Ended::EventLimit(_) | Ended::Quiet(_) | Ended::Undecided(_) => {
                SimVerdict::Unknown
            }
            Ended::Failed(_) => SimVerdict::Violated,
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
            Ended::Undecided(bound) => {
                return write!(f, "unknown: not judged after {time:?} ({rest}): {bound}");
            }
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

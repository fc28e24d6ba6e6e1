//! A search, what it suggests, and an attack on that, in one call: the one step that needs two engines.

use std::fmt;
use std::sync::Arc;

use everhold_infer::{Infer, Inferred};
use everhold_node::Message;
use everhold_sim::{Attack, Explorer, Report, System};

/// The executions of a search from which properties are inferred: its first ones.
const TRACES: u64 = 200;
/// The attack tries this many times the executions of the search,
const ATTACK_TIMES: u64 = 10;
/// and at least this many.
const ATTACK_MIN: u64 = 2_000;

/// Inference for [`Explorer`].
///
/// ```
/// use everhold::prelude::*;
/// use everhold::{InferExecutions, System};
///
/// /// Adds what it is sent, and keeps the largest.
/// #[derive(Clone, Default, Serialize)]
/// struct Adder { largest: u32, total: u32 }
///
/// impl Node for Adder {
///     type Msg = u32;
///     fn start(&mut self, cx: &mut Cx<u32>) {
///         for number in 1..=5 {
///             cx.send(cx.id(), number);
///         }
///     }
///     fn message(&mut self, _: &mut Cx<u32>, _: NodeId, number: u32) {
///         self.largest = self.largest.max(number);
///         self.total += number;
///     }
/// }
///
/// fn adders(system: &mut System<u32>) {
///     system.nodes("adder", 2, |_| Adder::default());
/// }
///
/// let found = Explorer::new().executions(20).infer(adders);
/// assert!(found.attack.report.executions >= 2_000);
/// assert!(found.attack.stood.iter().any(|p| p.name == "n.total <= 15"), "{found}");
/// ```
pub trait InferExecutions {
    /// Explores, infers from the traces of the first 200 executions, and attacks what was inferred:
    /// searches for executions that break it.
    ///
    /// The attack has a budget of its own: ten times the executions of the search, and at least
    /// 2,000. A limit on time holds for the search and the attack each. What falls is in
    /// [`Attacked::attack`], with an execution that shows it.
    ///
    /// For other traces, settings or budgets, take the three steps one by one: [`Explorer::run`] with
    /// [`Explorer::traces`], [`Infer::infer`] of the report, and [`Explorer::attack`].
    ///
    /// # Panics
    ///
    /// As [`Explorer::run`].
    fn infer<M: Message>(self, setup: impl Fn(&mut System<M>) + Send + Sync + 'static) -> Attacked;

    /// Explores and infers in the same way, and attacks nothing: what is inferred held in the
    /// executions that were seen.
    ///
    /// # Panics
    ///
    /// As [`Explorer::run`].
    fn infer_only<M: Message>(
        self,
        setup: impl Fn(&mut System<M>) + Send + Sync + 'static,
    ) -> Inferred;
}

impl InferExecutions for Explorer {
    fn infer<M: Message>(self, setup: impl Fn(&mut System<M>) + Send + Sync + 'static) -> Attacked {
        let setup = Arc::new(setup);
        let own = Arc::clone(&setup);
        let report = self.clone().traces(TRACES).run(move |system| own(system));
        let inferred = report.infer();
        let executions = report.executions.saturating_mul(ATTACK_TIMES).max(ATTACK_MIN);
        let attack =
            self.executions(executions).attack(&inferred.candidates(), move |system| setup(system));
        Attacked { report, inferred, attack }
    }

    fn infer_only<M: Message>(
        self,
        setup: impl Fn(&mut System<M>) + Send + Sync + 'static,
    ) -> Inferred {
        self.traces(TRACES).run(setup).infer()
    }
}

/// What a search suggests, and what is left of it after an attack.
#[derive(Clone, Debug)]
#[must_use = "print it: it says what stood and what fell"]
pub struct Attacked {
    /// The search.
    pub report: Report,
    /// Everything that its executions suggest.
    pub inferred: Inferred,
    /// What stood and what fell.
    pub attack: Attack,
}

impl fmt::Display for Attacked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.inferred.runs;
        writeln!(f, "inferred from {runs} executions, then attacked\n")?;
        self.attack.fmt(f)
    }
}

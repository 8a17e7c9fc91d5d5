//! The lane that measures readers and grace periods on one backend (see [`crate::harness::worker`]).

use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::bench::sync::load::{self, Cell, Measure};
use crate::harness::report::OURS;
use crate::harness::worker as lane;
use crate::peers::{self, LIBURCU, stillpoint};

/// What a lane measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Role {
    /// The library on `membarrier`.
    Membarrier,
    /// The library on signals.
    Signal,
    /// The library with a full fence in each reader.
    Seqcst,
    /// liburcu's flavor on `membarrier`.
    Liburcu,
}

impl Role {
    pub(super) const ALL: [Self; 4] = [Self::Membarrier, Self::Signal, Self::Seqcst, Self::Liburcu];

    /// Name of the backend, as the library spells it.
    fn backend(self) -> &'static str {
        match self {
            Self::Membarrier | Self::Liburcu => "membarrier",
            Self::Signal => "signal",
            Self::Seqcst => "seqcst",
        }
    }

    /// What measures the library, if this build has it, or why it does not.
    fn measure(self) -> Result<Measure, String> {
        match self {
            #[cfg(feature = "liburcu")]
            Self::Liburcu => Ok(load::run::<peers::liburcu::Readers>),
            #[cfg(not(feature = "liburcu"))]
            Self::Liburcu => Err(peers::missing(&[LIBURCU]).remove(0).why),
            _ => Ok(load::run::<stillpoint::RcuReaders>),
        }
    }
}

impl lane::Role for Role {
    /// Ours on its usual backend is what the others are compared to.
    fn system(self) -> &'static str {
        match self {
            Self::Membarrier => OURS,
            Self::Signal => "stillpoint-signal",
            Self::Seqcst => "stillpoint-seqcst",
            Self::Liburcu => LIBURCU,
        }
    }

    fn command(self) -> [&'static str; 2] {
        ["grace", if self == Self::Liburcu { "liburcu" } else { self.backend() }]
    }

    fn fence(self) -> Option<&'static str> {
        Some(self.backend())
    }
}

/// A measurement to make.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Load {
    /// Threads that read, in sections as short as can be.
    pub(super) readers: usize,
    /// How long: one half without a caller of `synchronize()`, the other with one.
    pub(super) time: Duration,
}

/// What a measurement gave.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    /// CPU time of a section while nobody calls, in nanoseconds.
    pub(super) section_ns: f64,
    /// Latencies of a call, in nanoseconds.
    pub(super) p50_ns: u64,
    pub(super) p99_ns: u64,
}

/// Serve measurements of readers and grace periods.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The library and its backend.
    #[arg(value_enum)]
    role: Role,
}

/// The child.
///
/// # Errors
///
/// Fails if a measurement does, or the parent is gone.
pub(crate) fn serve(args: &Args) -> anyhow::Result<()> {
    let measure = args.role.measure();
    let missing = match &measure {
        Ok(_) => lane::lacks_backend(args.role.backend()),
        Err(why) => Some(why.clone()),
    };
    lane::serve(missing, |load: Load| {
        let measure = measure.as_ref().ok().context("asked for what is missing")?;
        let quiet = measure(Cell::new(load.readers, 0, 0, 0, 1), load.time / 2)?;
        let calls = measure(Cell::new(load.readers, 0, 1, 0, 1), load.time / 2)?;
        let latency = |quantile| calls.latencies.value_at_quantile(quantile);
        Ok(Answer { section_ns: quiet.section_ns, p50_ns: latency(0.5), p99_ns: latency(0.99) })
    })
}

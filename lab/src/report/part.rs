//! A part of the report: a bench or an experiment, run in a lane of its own (see [`crate::harness::worker`]).
//!
//! Registries keep the size they once had, and liburcu its workers: a part must not find what another one left behind.

use comfy_table::{Row, Table};
use serde::{Deserialize, Serialize};

use crate::bench::{callback, fence, lock, percpu, qsbr, read, srcu, sync};
use crate::harness::{Budget, Report, worker as lane};
use crate::seeds::{self, Findings};

/// What can be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// `bench read`
    Read,
    /// `bench sync`
    Sync,
    /// `bench fence`
    Fence,
    /// `bench callback`
    Callback,
    /// `bench qsbr`
    Qsbr,
    /// `bench srcu`
    Srcu,
    /// `bench percpu`
    Percpu,
    /// Mutexes of `bench lock` by number of threads
    Lock,
    /// `bench lock-ablation --quick`
    LockAblation,
    /// `seeds e1`
    E1,
    /// `seeds e2`
    E2,
    /// `seeds e3`
    E3,
    /// `seeds e4`
    E4,
    /// `seeds e5`
    E5,
    /// `seeds e6`
    E6,
    /// `seeds e7`
    E7,
}

impl Part {
    /// Name on the command line, and in the raw results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Sync => "sync",
            Self::Fence => "fence",
            Self::Callback => "callback",
            Self::Qsbr => "qsbr",
            Self::Srcu => "srcu",
            Self::Percpu => "percpu",
            Self::Lock => "lock",
            Self::LockAblation => "lock-ablation",
            Self::E1 => "e1",
            Self::E2 => "e2",
            Self::E3 => "e3",
            Self::E4 => "e4",
            Self::E5 => "e5",
            Self::E6 => "e6",
            Self::E7 => "e7",
        }
    }

    /// How long the measurement takes: of a quick report, and of any other.
    pub(super) fn seconds(self, quick: bool) -> f64 {
        let (quickly, usually) = match self {
            Self::Read => (15.0, 30.0),
            Self::Sync => (30.0, 60.0),
            Self::Fence => (10.0, 30.0),
            Self::Callback | Self::Qsbr => (25.0, 60.0),
            Self::Srcu => (15.0, 30.0),
            Self::Percpu => (25.0, 40.0),
            Self::Lock => (40.0, 240.0),
            Self::LockAblation => (30.0, 160.0),
            Self::E1 => (15.0, 40.0),
            Self::E2 => (12.0, 40.0),
            Self::E3 => (24.0, 200.0),
            Self::E4 => (20.0, 40.0),
            Self::E5 => (8.0, 30.0),
            Self::E6 => (25.0, 120.0),
            Self::E7 => (1.0, 1.0),
        };
        if quick { quickly } else { usually }
    }

    fn measure(self, seconds: f64) -> anyhow::Result<Measured> {
        let budget = Budget { seconds, rounds: None };
        let bench = |report: anyhow::Result<Report>| {
            let report = report?;
            let tables = report.tables().iter().map(|table| Grid::of(String::new(), table)).collect();
            Ok(Measured { report, seconds, tables })
        };
        let experiment = |findings: anyhow::Result<Findings>| {
            let Findings { report, tables } = findings?;
            let tables = tables.into_iter().map(|(title, table)| Grid::of(title, &table)).collect();
            Ok(Measured { report, seconds, tables })
        };
        match self {
            Self::Read => bench(read::run(budget)),
            Self::Sync => bench(sync::run(budget)),
            Self::Fence => bench(fence::run(budget)),
            Self::Callback => bench(callback::run(budget)),
            Self::Qsbr => bench(qsbr::run(budget)),
            Self::Srcu => bench(srcu::run(budget)),
            Self::Percpu => bench(percpu::run(budget)),
            Self::Lock => bench(lock::by_threads(budget)),
            Self::LockAblation => bench(lock::parts::run(true, budget)),
            Self::E1 => experiment(seeds::e1::run(budget)),
            Self::E2 => experiment(seeds::e2::run(budget)),
            Self::E3 => experiment(seeds::e3::run(budget)),
            Self::E4 => experiment(seeds::e4::run(budget)),
            Self::E5 => experiment(seeds::e5::run(budget)),
            Self::E6 => experiment(seeds::e6::run(budget)),
            Self::E7 => experiment(seeds::e7::run(budget)),
        }
    }
}

/// The answer of a lane; [`Outcome`](super::data::Outcome) is what its parent makes of it.
#[derive(Debug, Serialize)]
struct Measured {
    #[serde(flatten)]
    report: Report,
    seconds: f64,
    tables: Vec<Grid>,
}

/// A table as the command prints it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Grid {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) title: String,
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Grid {
    fn of(title: String, table: &Table) -> Self {
        let cells = |row: &Row| row.cell_iter().map(|cell| cell.content()).collect();
        Self {
            title,
            head: table.header().map(cells).unwrap_or_default(),
            rows: table.row_iter().map(cells).collect(),
        }
    }
}

/// Serve a part of the report.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The part.
    #[arg(value_enum)]
    part: Part,
}

/// The child: measures for as many seconds as each request says.
///
/// # Errors
///
/// Fails if the measurement does, or the parent is gone.
pub(crate) fn serve(args: &Args) -> anyhow::Result<()> {
    lane::serve(None, |seconds: f64| args.part.measure(seconds))
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn parts_are_called_in_the_results_what_they_are_called_on_the_command_line() {
        for part in Part::value_variants() {
            let value = part.to_possible_value().expect("no part is hidden");
            assert_eq!(value.get_name(), part.name());
        }
    }

    #[test]
    fn a_quick_report_leaves_time_to_build_it_in_ten_minutes() {
        let seconds: f64 = Part::value_variants().iter().map(|part| part.seconds(true)).sum();
        assert!(seconds < 330.0, "{seconds} s");
    }
}

//! A part of the report: a bench or an experiment, measured by a worker of its own (see [`crate::harness::worker`]).
//!
//! Registries keep the size they once had, and liburcu its workers: a part must not find what another one left behind.

use clap::builder::{PossibleValuesParser, TypedValueParser as _};

use crate::bench::{callback, fence, lock, map, percpu, program, qsbr, read, rwlock, srcu, sync};
use crate::harness::worker::{self, Worker};
use crate::harness::{Budget, Report};
use crate::reproduce::{e1, e2, e3, e4, e5, e6};

/// What can be measured by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Name on the command line, and in the raw results.
    pub(super) name: &'static str,
    /// Seconds of the measurement in a quick report, and in any other.
    quick: f64,
    usual: f64,
    /// A system call that is denied to the process.
    denied: Option<&'static str>,
    run: Run,
}

type Run = fn(Budget) -> anyhow::Result<Report>;

const fn part(name: &'static str, quick: f64, usual: f64, run: Run) -> Part {
    Part { name, quick, usual, denied: None, run }
}

/// All parts, in the order in which they are measured.
pub(super) const PARTS: [Part; 19] = [
    part("read", 25.0, 50.0, read::run),
    Part { denied: Some("membarrier"), ..part("read-no-membarrier", 15.0, 30.0, read::run) },
    part("sync", 30.0, 60.0, sync::run),
    part("fence", 10.0, 30.0, fence::run),
    part("callback", 25.0, 60.0, callback::run),
    part("qsbr", 25.0, 60.0, qsbr::run),
    part("srcu", 15.0, 30.0, srcu::run),
    part("percpu", 25.0, 40.0, percpu::run),
    part("map", 40.0, 180.0, |budget| map::run(Budget { quick: budget.seconds < 100.0, ..budget })),
    part("lock", 40.0, 240.0, lock::by_threads),
    part("lock-ablation", 45.0, 160.0, |budget| lock::ablation::run(Budget { quick: true, ..budget })),
    part("rwlock", 25.0, 60.0, rwlock::run),
    part("program", 12.0, 40.0, program::run),
    part("e1", 15.0, 40.0, e1::run),
    part("e2", 12.0, 40.0, e2::run),
    part("e3", 24.0, 200.0, e3::run),
    part("e4", 20.0, 40.0, e4::run),
    part("e5", 8.0, 30.0, e5::run),
    part("e6", 35.0, 120.0, e6::run),
];

/// Parses the name of a part.
pub(super) fn parser() -> impl clap::builder::TypedValueParser<Value = Part> {
    PossibleValuesParser::new(PARTS.map(|part| part.name))
        .try_map(|name| PARTS.into_iter().find(|part| part.name == name).ok_or("no such part"))
}

impl Part {
    /// Returns how long the measurement takes.
    pub(super) fn seconds(self, quick: bool) -> f64 {
        if quick { self.quick } else { self.usual }
    }

    /// Returns whether a system call is denied to the process of the part.
    pub(super) fn is_denied(self) -> bool {
        self.denied.is_some()
    }

    /// Starts a process for the part.
    pub(super) fn start(self) -> anyhow::Result<Worker> {
        let arguments = ["part", self.name];
        match self.denied {
            Some(syscall) => Worker::start_without(syscall, &arguments),
            None => Worker::start(&arguments, None),
        }
    }

    fn measure(self, seconds: f64) -> anyhow::Result<Report> {
        let report = (self.run)(Budget { seconds, rounds: None, quick: false, cells: None })?;
        let tables = report.grids();
        Ok(Report { bench: self.name.into(), seconds: Some(seconds), tables, ..report })
    }
}

/// Serve a part of the report.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The part.
    #[arg(value_parser = parser())]
    part: Part,
}

/// Runs the child: measures for as many seconds as each request asks for.
///
/// # Errors
///
/// Returns an error if the measurement does, or if the parent has ended.
pub(crate) fn serve(args: &Args) -> anyhow::Result<()> {
    worker::serve(None, |seconds: f64| args.part.measure(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_report_takes_less_than_eight_minutes() {
        let seconds: f64 = PARTS.iter().map(|part| part.seconds(true)).sum();
        assert!(seconds < 480.0, "{seconds} s");
    }
}

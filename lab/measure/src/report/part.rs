//! A part of the report: a bench or an experiment, measured by a worker of its own (see [`harness::worker`]).
//!
//! Registries keep the size they once had, and liburcu its workers: a part must not find what another one left
//! behind.

use anyhow::Context as _;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};

use crate::bench::{arc, callback, fence, hazard, lock, map, percpu, programs, qsbr, read, srcu, sync};
use harness::worker::{self, Worker};
use harness::{Budget, Report};

/// What can be measured by itself.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Name on the command line, and in the raw results.
    pub(super) name: &'static str,
    /// Seconds of the measurement in a quick report, and in any other.
    quick: f64,
    usual: f64,
    /// A system call that is denied to the process.
    denied: Option<&'static str>,
    /// `None` for an experiment, which the program `posts` measures.
    run: Option<Run>,
}

type Run = fn(Budget) -> anyhow::Result<Report>;

const fn part(name: &'static str, quick: f64, usual: f64, run: Run) -> Part {
    Part { name, quick, usual, denied: None, run: Some(run) }
}

const fn experiment(name: &'static str, quick: f64, usual: f64) -> Part {
    Part { name, quick, usual, denied: None, run: None }
}

/// All parts, in the order in which they are measured.
pub(super) const PARTS: [Part; 20] = [
    part("read", 25.0, 40.0, read::run),
    Part { denied: Some("membarrier"), ..part("read-no-membarrier", 15.0, 30.0, read::run) },
    part("sync", 40.0, 90.0, sync::run),
    part("fence", 10.0, 25.0, fence::run),
    part("callback", 20.0, 60.0, callback::run),
    part("qsbr", 20.0, 60.0, qsbr::run),
    part("srcu", 20.0, 30.0, srcu::run),
    part("arc", 20.0, 50.0, arc::run),
    part("hazard", 14.0, 50.0, hazard::run),
    part("percpu", 25.0, 40.0, percpu::run),
    part("map", 60.0, 160.0, map::run),
    part("lock", 60.0, 240.0, lock::run),
    part("rwlock", 40.0, 110.0, lock::shared::run),
    part("programs", 80.0, 400.0, programs::run),
    experiment("e1", 15.0, 40.0),
    experiment("e2", 12.0, 40.0),
    experiment("e3", 20.0, 150.0),
    experiment("e4", 20.0, 40.0),
    experiment("e5", 8.0, 30.0),
    experiment("e6", 45.0, 120.0),
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

    /// Starts a process for the part.
    pub(super) fn start(self) -> anyhow::Result<Worker> {
        let arguments = ["part", self.name];
        match self {
            Self { run: None, .. } => Worker::start_beside("posts", &arguments),
            Self { denied: Some(syscall), .. } => Worker::start_without(syscall, &arguments),
            _ => Worker::start(&arguments, None),
        }
    }

    fn measure(self, seconds: f64) -> anyhow::Result<Report> {
        let run = self.run.context("another program measures this part")?;
        Ok(run(Budget { seconds, rounds: None, cells: None })?.as_part(self.name, seconds))
    }
}

/// Serve a part of the report.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The part.
    #[arg(value_parser = parser())]
    part: Part,
}

/// Runs the child: measures for as many seconds as each request asks for.
///
/// # Errors
///
/// Returns an error if the measurement does, or if the parent has ended.
pub fn serve(args: &Args) -> anyhow::Result<()> {
    worker::serve(None, |seconds: f64| args.part.measure(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_report_takes_less_than_ten_minutes() {
        let seconds: f64 = PARTS.iter().map(|part| part.seconds(true)).sum();
        assert!(seconds < 610.0, "{seconds} s");
    }
}

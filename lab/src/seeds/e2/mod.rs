//! E2: what readers and grace periods cost with a full fence in each reader, with membarrier, and with signals.
//!
//! Readers are timed while nobody calls, by their CPU time: with more readers than CPUs the wall time would tell of the
//! scheduler. The caller of `synchronize()` pauses between calls, as in `bench sync`.

pub(crate) mod kind;

use std::time::Duration;

use comfy_table::Table;

use super::Findings;
use crate::bench::fence::running_threads;
use crate::harness::posted::table;
use crate::harness::report::OURS;
use crate::harness::worker::{self as lane, Role as _};
use crate::harness::{Budget, Config, Metric, Posted, Progress, Recorder, Report, Schedule, pin};
use kind::{Answer, Load, Role};

/// CPU time of a section.
const SECTION: Metric = Metric::nanoseconds("section_ns");
/// Latencies of `synchronize()`.
const P50: Metric = Metric::nanoseconds("p50_ns");
const P99: Metric = Metric::nanoseconds("p99_ns");

const POSTED: Posted = Posted {
    source: "sys_membarrier RFC v3b, 2010",
    expected: "sections are cheapest where readers execute no fence (membarrier, signals), grace periods where they do",
    tables: &[],
};

/// Runs the experiment.
///
/// # Errors
///
/// Fails if a lane cannot be started or a load needs more threads than the system allows.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Findings> {
    let (mut lanes, skipped) = lane::start(&Role::ALL)?;
    let readers: Vec<usize> = running_threads(pin::allowed()?.len()).into_iter().filter(|&n| n > 0).collect();

    let (rounds, slice) = budget.split((readers.len() * lanes.len()) as f64, Duration::from_millis(200));
    let schedule = Schedule { rounds, cells: readers.len(), systems: lanes.len() };
    let progress = Progress::new("seeds e2", schedule.len(), slice * schedule.len() as u32);
    let mut recorder = Recorder::default();
    for &readers in &readers {
        for metric in [&SECTION, &P50, &P99] {
            lanes.iter().for_each(|(role, _)| recorder.announce(role.system(), metric, &config(readers)));
        }
    }
    for step in schedule.steps() {
        let readers = readers[step.cell];
        let (role, lane) = &mut lanes[step.system];
        let config = config(readers);
        progress.show(|| format!("round {}/{rounds}: {}, {config}", step.round + 1, role.system()));
        let answer: Answer = lane.measure(&Load { readers, time: slice })?;
        recorder.record(step.round, role.system(), &SECTION, &config, answer.section_ns);
        recorder.record(step.round, role.system(), &P50, &config, answer.p50_ns as f64);
        recorder.record(step.round, role.system(), &P99, &config, answer.p99_ns as f64);
        progress.advance();
    }
    drop(progress);

    let report = Report::new("e2", &recorder, skipped).with_posted(&POSTED);
    let tables = vec![
        ("CPU time of a section".to_owned(), compare(&report, &SECTION, &readers)),
        ("Latency of synchronize(), median".to_owned(), compare(&report, &P50, &readers)),
        ("Latency of synchronize(), 99 %".to_owned(), compare(&report, &P99, &readers)),
    ];
    Ok(Findings { report, tables })
}

fn config(readers: usize) -> Config {
    Config::new([("readers", readers.into())])
}

fn compare(report: &Report, metric: &Metric, readers: &[usize]) -> Table {
    let others = [Role::Signal, Role::Seqcst, Role::Liburcu].map(Role::system);
    let heads = others.iter().flat_map(|&other| [other, "ratio"]);
    let mut table = table(["readers", "stillpoint (membarrier)"].into_iter().chain(heads));
    for &readers in readers {
        let config = config(readers);
        let ours = [readers.to_string(), report.value(OURS, metric, &config)];
        let theirs = others
            .iter()
            .flat_map(|other| [report.value(other, metric, &config), report.ratio(other, metric, &config)]);
        table.add_row(ours.into_iter().chain(theirs));
    }
    table
}

//! E6: the queued lock with each of its mechanisms switched off in turn, for more and more threads a CPU.
//!
//! The posts measured a kernel build in guests with more virtual CPUs than the host has; a virtual CPU there is a thread here, and
//! the lock is what there is to build.

use std::time::Duration;

use comfy_table::Table;
use stillpoint::lock::lab::{self, Event, Policy};

use super::Findings;
use crate::bench::lock::load::{self, Cell, Work};
use crate::bench::lock::parts::{DEFAULT, NO_DEFER, NO_RESERVE, NO_STEAL};
use crate::bench::lock::{JAIN, MAX, MOPS, P999, STD, System, measure};
use crate::harness::posted::{Figures, FiguresRow, table};
use crate::harness::units::digits;
use crate::harness::{Budget, Metric, Posted, Report, pin};
use crate::peers::stillpoint::Variant;

const POSTED: Posted = Posted {
    source: "pvqspinlock v2, 2015; 32 and 48 virtual CPUs on 32 CPUs, kernel build",
    expected: "deferred kicks gain most where CPUs are overcommitted, kick-ahead next to nothing; the lock rate of two threads gains \
               by the pending bit",
    tables: &[
        Figures {
            title: "kernel build",
            unit: "s",
            columns: &["Westmere 32", "Westmere 48", "Haswell 32", "Haswell 48"],
            rows: &[
                FiguresRow { row: "before", values: &[205.0, 634.1, 122.0, 935.9] },
                FiguresRow { row: "+ kick-ahead", values: &[207.4, 632.0, 120.8, 892.5] },
                FiguresRow { row: "+ deferred kick", values: &[181.3, 590.9, 120.5, 808.1] },
                FiguresRow { row: "+ adaptive spinning", values: &[186.2, 578.0, 121.8, 546.9] },
            ],
        },
        Figures {
            title: "lock rate of 2 threads",
            unit: "1/us",
            columns: &["same socket", "other socket"],
            rows: &[
                FiguresRow { row: "before", values: &[6.52, 2.97] },
                FiguresRow { row: "pending bit", values: &[7.08, 4.35] },
            ],
        },
        Figures {
            title: "statistics of one build",
            unit: "count",
            columns: &["pending_lock", "pending_fail", "wait_node", "lock_kick", "unlock_kick", "spurious"],
            rows: &[FiguresRow {
                row: "build",
                values: &[2912098.0, 10619.0, 755359.0, 755354.0, 87.0, 8.0],
            }],
        },
    ],
};

/// The default policy, with events counted.
struct Counted;

impl Policy for Counted {
    const COUNTS: bool = true;

    fn add(event: Event, by: u64) {
        lab::add(event, by);
    }
}

const SYSTEMS: [System; 5] = [DEFAULT, STD, NO_STEAL, NO_RESERVE, NO_DEFER];

/// Runs the experiment.
///
/// # Errors
///
/// Fails if the machine does not allow the threads.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Findings> {
    let cpus = pin::allowed()?.len();
    // 1, 1.5, 2, 8 and 32 threads a CPU.
    let cells: Vec<Cell> =
        [2, 3, 4, 16, 64].iter().map(|halves| Cell::new((halves * cpus).div_ceil(2), 1000, 1000)).collect();
    let recorder = measure("seeds e6", &SYSTEMS, &cells, budget.share(0.95))?;
    let report = Report::new("e6", &recorder, Vec::new()).with_posted(&POSTED);
    let mut tables: Vec<(String, Table)> = [
        ("Acquisitions in a microsecond", &MOPS),
        ("Jain's index of fairness", &JAIN),
        ("99.9 % of waits are shorter", &P999),
        ("The longest wait", &MAX),
    ]
    .map(|(title, metric)| (title.to_owned(), compare(&report, metric, &cells, cpus)))
    .into();
    let counted = Duration::from_secs_f64(budget.seconds * 0.05 / cells.len() as f64);
    tables.push(("Events in a second".to_owned(), count(&cells, counted)?));
    Ok(Findings { report, tables })
}

fn compare(report: &Report, metric: &Metric, cells: &[Cell], cpus: usize) -> Table {
    let mut table = table(["threads"].into_iter().chain(SYSTEMS.iter().map(|system| system.name)));
    for cell in cells {
        let values = SYSTEMS.iter().map(|system| report.value(system.name, metric, &cell.config(cpus)));
        table.add_row([cell.threads.to_string()].into_iter().chain(values));
    }
    table
}

/// What happens in the lock in each cell.
fn count(cells: &[Cell], time: Duration) -> anyhow::Result<Table> {
    let mut table = table([
        "threads",
        "steal",
        "slowpath",
        "wait_node",
        "wait_head",
        "kick",
        "spurious",
        "pend",
        "latency_kick",
        "latency_wake",
    ]);
    let work = Work::measure();
    for cell in cells {
        lab::reset();
        let outcome = load::run::<Variant<Counted>>(*cell, work, time)?;
        let events = lab::read();
        let rate = |count: u64| digits(count as f64 / outcome.elapsed.as_secs_f64());
        let ns = |ns: u64| crate::harness::units::duration(ns as f64);
        table.add_row([
            cell.threads.to_string(),
            rate(events.steal),
            rate(events.lock_slowpath),
            rate(events.wait_node),
            rate(events.wait_head),
            rate(events.kick_unlock),
            rate(events.spurious_wakeup),
            rate(events.reserve),
            ns(events.latency_kick_ns),
            ns(events.latency_wake_ns),
        ]);
    }
    Ok(table)
}

//! E4: QSBR grace periods that sleep, with a flag for each reader that is awaited, and with one flag for all.
//!
//! Ten readers differ in how often they report: some all the time, one every 5 ms. One updater waits for one grace period after
//! the other. With one flag, whoever reports while the updater sleeps wakes it, whether it was waited for or not; with a flag
//! for each reader, the last that it waits for does.
//!
//! In the second cell one reader does not report for 1 s, and another does all the time: what the updater's wait costs.

mod one_flag;
mod scheme;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use comfy_table::Table;

use super::Findings;
use crate::harness::clock::thread_cpu_time;
use crate::harness::crew::{self, Arrivals, Gate};
use crate::harness::posted::{Figures, FiguresRow, table};
use crate::harness::report::OURS;
use crate::harness::{Better, Budget, Config, Metric, Posted, Progress, Recorder, Report, Schedule};
use scheme::Scheme;

const UPDATES: Metric = Metric { name: "updates_per_s", unit: "1/s", better: Better::Higher };
/// CPU time of the updater for each update.
const CPU: Metric = Metric::nanoseconds("updater_cpu_ns");
/// Futex wake-ups by readers for each update.
const WAKES: Metric = Metric::count("reader_wakes", Better::Lower);

const TORTURE: Figures = Figures {
    title: "n_updates of rcutorture in 10 s, 10 readers, 1 updater, median of nine runs",
    unit: "updates",
    columns: &["without flags", "with flags"],
    rows: &[
        FiguresRow { row: "100 attempts before sleeping", values: &[292.0, 408.0] },
        FiguresRow { row: "1 attempt before sleeping", values: &[290.0, 404.0] },
    ],
};

const POSTED: Posted = Posted {
    source: "urcu-qsbr futex wake-up patch, 2011",
    expected: "1.4 times as many updates with a flag for each reader",
    tables: &[TORTURE],
};

/// Time between two reports of each reader.
const MIXED: [Duration; 10] = {
    let us = Duration::from_micros;
    [us(0), us(0), us(0), us(1), us(1), us(10), us(10), us(100), us(100), us(5000)]
};
const SILENT: [Duration; 2] = [Duration::ZERO, Duration::from_secs(1)];

/// Runs the experiment.
///
/// # Errors
///
/// Fails if threads cannot be started.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Findings> {
    let (schemes, skipped) = scheme::all();
    let mut recorder = Recorder::default();
    let metrics = [&UPDATES, &CPU, &WAKES];
    let mut measure = |readers: &'static [Duration], slice: Duration, rounds: usize| -> anyhow::Result<()> {
        let config = config(readers);
        for metric in metrics {
            schemes.iter().for_each(|scheme| recorder.announce(scheme.name(), metric, &config));
        }
        let schedule = Schedule { rounds, cells: 1, systems: schemes.len() };
        let progress = Progress::new("seeds e4", schedule.len(), slice * schedule.len() as u32);
        for step in schedule.steps() {
            let scheme = &schemes[step.system];
            progress.show(|| format!("round {}/{rounds}: {}, {config}", step.round + 1, scheme.name()));
            for (metric, value) in metrics.iter().zip(update(scheme.as_ref(), readers, slice)?) {
                recorder.record(step.round, scheme.name(), metric, &config, value);
            }
            progress.advance();
        }
        Ok(())
    };
    let (rounds, slice) = budget.share(0.7).split(schemes.len() as f64, Duration::from_secs(1));
    measure(&MIXED, slice, rounds)?;
    // A grace period of the reader that is silent for a second takes one to two.
    let silent = (budget.seconds * 0.3 / (2.0 * schemes.len() as f64)).round() as usize;
    measure(&SILENT, Duration::from_millis(1), silent.clamp(1, 3))?;

    let report = Report::new("e4", &recorder, skipped).with_posted(&POSTED);
    let tables = vec![("Ten readers, one updater".to_owned(), compare(&report, &metrics))];
    Ok(Findings { report, tables })
}

fn config(readers: &[Duration]) -> Config {
    let slowest = readers.iter().max().map_or(0, |slowest| slowest.as_millis() as u64);
    Config::new([("readers", readers.len().into()), ("slowest_ms", slowest.into())])
}

fn compare(report: &Report, metrics: &[&Metric]) -> Table {
    let others = ["one-flag", crate::peers::LIBURCU_QSBR];
    let heads = others.iter().flat_map(|&other| [other, "ratio"]);
    let mut table = table(["readers, slowest, metric", OURS].into_iter().chain(heads));
    for readers in [&MIXED[..], &SILENT] {
        let config = config(readers);
        for metric in metrics {
            let label = format!(
                "{}, {:?}, {}",
                readers.len(),
                readers.iter().max().unwrap_or(&Duration::ZERO),
                metric.name
            );
            let ours = [label, report.value(OURS, metric, &config)];
            let theirs = others.iter().flat_map(|other| {
                [report.value(other, metric, &config), report.ratio(other, metric, &config)]
            });
            table.add_row(ours.into_iter().chain(theirs));
        }
    }
    table
}

/// Updates for as long as `slice`, at least one: how many in a second, and what each cost the updater in CPU time, and readers in
/// wake-ups.
fn update(scheme: &dyn Scheme, readers: &[Duration], slice: Duration) -> anyhow::Result<[f64; 3]> {
    let (ready, start, stop) = (Arrivals::default(), Gate::default(), AtomicBool::new(false));
    let end = || {
        stop.store(true, Ordering::Relaxed);
        start.open();
    };
    thread::scope(|scope| {
        for &interval in readers {
            let wait = || {
                ready.arrive();
                start.wait();
            };
            let (ready, stop) = (wait, &stop);
            crew::spawn(scope, move || scheme.read(interval, &ready, stop)).inspect_err(|_| end())?;
        }
        let updater = || {
            ready.arrive();
            start.wait();
            let (begin, cpu, wakes) = (Instant::now(), thread_cpu_time(), scheme.wakes());
            let mut updates = 0_u32;
            while updates == 0 || begin.elapsed() < slice {
                scheme.synchronize();
                updates += 1;
            }
            let cpu = thread_cpu_time() - cpu;
            let each = f64::from(updates);
            [
                each / begin.elapsed().as_secs_f64(),
                cpu.as_nanos() as f64 / each,
                (scheme.wakes() - wakes) as f64 / each,
            ]
        };
        let updater = crew::spawn(scope, updater).inspect_err(|_| end())?;
        ready.wait_for(readers.len() + 1);
        start.open();
        let outcome = crew::join(updater);
        end();
        outcome
    })
}

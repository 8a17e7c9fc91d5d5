//! E3: `synchronize()` on its own track, against the old way: a callback that wakes its caller.
//!
//! Many threads each wait for a grace period and free something, over and over, alone and beside a thread that keeps 3600
//! callbacks queued; and a single thread waits behind 3600 callbacks of its own. Every thread is registered. Two witnesses
//! read all the time, and every wake-up is checked against them (see [`witness`]): a grace period that was too short ends
//! the run with an error.

pub(crate) mod load;
mod track;
mod witness;

use std::thread;
use std::time::{Duration, Instant};

use comfy_table::Table;

use super::Findings;
use crate::harness::buckets::{self, BUCKETS, Counts};
use crate::harness::crew::{self, Gate};
use crate::harness::posted::{Figures, FiguresRow, table};
use crate::harness::report::{OURS, Series, times};
use crate::harness::units::duration;
use crate::harness::worker::{self as lane, Role as _, Worker as Lane, Workers as Lanes};
use crate::harness::{Better, Budget, Config, Metric, Posted, Progress, Recorder, Report, Schedule};
use load::{CALLBACKS, Load, Loops, Phase};
use track::Track;

/// Time of all loops of all threads.
const LOOPS: Metric = Metric::nanoseconds("loops_ns");
/// Share of the wake-ups at which the check against the witnesses could have failed.
const CHECKED: Metric = Metric::count("checked", Better::Higher);
/// Median latency of a single waiter.
const WAIT: Metric = Metric::nanoseconds("wait_p50_ns");
/// Latency behind callbacks to latency without them.
const DELAY: Metric = Metric::ratio("delay");

/// Threads of the post; a machine that does not take them gets fewer.
const MOST_THREADS: usize = 10_000;
/// Loops of the post; a budget that does not last so long gets fewer.
const MOST_LOOPS: u64 = 1000;
/// Threads for each second of the budget: a run of the usual time has all of them.
const THREADS_A_SECOND: f64 = MOST_THREADS as f64 / SECONDS;

/// The usual time of the experiment.
pub(super) const SECONDS: f64 = 40.0;

const TASKS: Figures = Figures {
    title: "10,000 tasks each do 1000 x { synchronize; free }; 60,000 tasks give about the same",
    unit: "s",
    columns: &["before", "after"],
    rows: &[FiguresRow { row: "10,000 tasks", values: &[54.0, 35.0] }],
};

const POSTED: Posted = Posted {
    source: "Reduce synchronize_rcu() latency v4 1/4, 2024; 64 CPUs",
    expected: "the loops take less time on their own track; behind 3,600 callbacks a waiter on the callbacks' track is \
               delayed by all of them, one on its own track is not",
    tables: &[TASKS],
};

/// Runs the experiment.
///
/// # Errors
///
/// Fails if a lane cannot be started or does not survive a measurement: also if a grace period was too short.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Findings> {
    let wanted = (budget.seconds * THREADS_A_SECOND).clamp(2.0, MOST_THREADS as f64) as usize;
    let threads = most_threads(wanted);
    let (mut lanes, skipped) = lane::start(&Track::ALL)?;
    let mut recorder = Recorder::default();
    // The single waiter first: a registry keeps the size that so many threads give it.
    measure_behind(&mut lanes, budget.share(0.25), &mut recorder)?;
    let (cells, histograms) = measure_loops(&mut lanes, threads, budget.share(0.75), &mut recorder)?;

    let tracks: Vec<Track> = lanes.iter().map(|(track, _)| *track).collect();
    let report = Report::new("e3", &recorder, skipped).with_posted(&POSTED);
    let mut tables = vec![show_loops(&report, &cells), show_behind(&report, &tracks)];
    tables.extend(cells.iter().zip(&histograms).map(|(cell, counts)| show_latencies(cell, &tracks, counts)));
    let series = cells.iter().zip(histograms).flat_map(|(cell, counts)| {
        let series = |(track, counts): (Track, Counts)| {
            buckets::series(track.system(), "waits", cell.config(), counts)
        };
        tracks.iter().copied().zip(counts).map(series).collect::<Vec<Series>>()
    });
    let series = series.collect();
    Ok(Findings { report: report.with_series(series), tables })
}

/// As many threads as the system allows, `wanted` at most.
fn most_threads(wanted: usize) -> usize {
    let end = Gate::default();
    let started = thread::scope(|scope| {
        let started = (0..wanted).take_while(|_| crew::spawn(scope, || end.wait()).is_ok()).count();
        end.open();
        started
    });
    // Room for others, and for the witnesses.
    if started < wanted { started * 3 / 4 } else { wanted }
}

/// Loops of many threads.
#[derive(Clone, Copy, Debug)]
struct Cell {
    threads: usize,
    loops: u64,
    flood: bool,
}

impl Cell {
    fn config(&self) -> Config {
        Config::new([
            ("threads", self.threads.into()),
            ("loops", self.loops.into()),
            ("callbacks", if self.flood { CALLBACKS } else { 0 }.into()),
        ])
    }

    fn phase(&self) -> Phase {
        Phase { loops: self.loops, flood: self.flood }
    }
}

/// Counts of each track, by bucket.
type Histograms = Vec<Counts>;

/// Records the time of the loops; returns what was measured, and the latencies.
fn measure_loops(
    lanes: &mut Lanes<Track>,
    threads: usize,
    budget: Budget,
    recorder: &mut Recorder,
) -> anyhow::Result<(Vec<Cell>, Vec<Histograms>)> {
    let mut cells = [false, true].map(|flood| Cell { threads, loops: 1, flood });
    let rounds = fit(&mut cells, lanes, budget)?;
    let schedule = Schedule { rounds, cells: 1, systems: lanes.len() };
    let progress = Progress::new("seeds e3: loops", schedule.len(), Duration::from_secs_f64(budget.seconds));
    let mut histograms = vec![vec![[0; BUCKETS]; lanes.len()]; cells.len()];
    for cell in &cells {
        for metric in [&LOOPS, &CHECKED] {
            lanes.iter().for_each(|(track, _)| recorder.announce(track.system(), metric, &cell.config()));
        }
    }
    for step in schedule.steps() {
        let (track, lane) = &mut lanes[step.system];
        let (round, system) = (step.round, track.system());
        progress.show(|| format!("round {}/{rounds}: {system}", round + 1));
        let results = measure_phases(lane, &cells)?;
        for ((cell, loops), histograms) in cells.iter().zip(results).zip(&mut histograms) {
            let (config, waits) = (cell.config(), cell.threads as u64 * cell.loops);
            recorder.record(round, system, &LOOPS, &config, loops.time.as_nanos() as f64);
            recorder.record(round, system, &CHECKED, &config, loops.checked as f64 / waits as f64);
            let sums = &mut histograms[step.system];
            sums.iter_mut().zip(loops.buckets).for_each(|(sum, count)| *sum += count);
        }
        progress.advance();
    }
    Ok((cells.into(), histograms))
}

/// What a single waiter is behind, and whether a thread works beside it: a fence costs more when another CPU runs a thread of
/// the process, whatever that thread does, so a waiter behind callbacks is compared with one beside such a thread.
const ALONE: (usize, bool) = (0, false);
const BESIDE: (usize, bool) = (0, true);
const BEHIND: (usize, bool) = (CALLBACKS, false);

/// Records the latency of a single waiter, with callbacks in front of it and without.
fn measure_behind(lanes: &mut Lanes<Track>, budget: Budget, recorder: &mut Recorder) -> anyhow::Result<()> {
    // In each round three measurements of each lane; of the two that are compared one or the other comes first.
    let (rounds, time) = budget.split(3.0 * lanes.len() as f64, Duration::from_millis(300));
    let schedule = Schedule { rounds, cells: 1, systems: lanes.len() };
    let progress =
        Progress::new("seeds e3: behind callbacks", schedule.len(), time * 3 * schedule.len() as u32);
    for step in schedule.steps() {
        let (track, lane) = &mut lanes[step.system];
        let system = track.system();
        progress.show(|| format!("round {}/{rounds}: {system}", step.round + 1));
        let mut latency = |(callbacks, busy)| -> anyhow::Result<f64> {
            let ns: u64 = lane.measure(&Load::Behind { callbacks, busy, time })?;
            recorder.record(step.round, system, &WAIT, &behind(callbacks, busy), ns as f64);
            Ok(ns as f64)
        };
        latency(ALONE)?;
        let delay = if step.round % 2 == 0 {
            let beside = latency(BESIDE)?;
            latency(BEHIND)? / beside
        } else {
            latency(BEHIND)? / latency(BESIDE)?
        };
        recorder.record(step.round, system, &DELAY, &behind(CALLBACKS, false), delay);
        progress.advance();
    }
    Ok(())
}

/// Measures all cells, one after the other, with the same threads.
fn measure_phases(lane: &mut Lane, cells: &[Cell]) -> anyhow::Result<Vec<Loops>> {
    let threads = cells.iter().map(|cell| cell.threads).max().unwrap_or(0);
    lane.measure(&Load::Loops { threads, phases: cells.iter().map(Cell::phase).collect() })
}

/// Gives each cell as many loops as fit, the same for all tracks. Returns the number of rounds.
fn fit(cells: &mut [Cell], lanes: &mut Lanes<Track>, budget: Budget) -> anyhow::Result<usize> {
    // A round with a single loop: its time, and that of the loops of each cell; the rest is the threads'.
    let start = Instant::now();
    let mut once = vec![0.0; cells.len()];
    for (_, lane) in lanes.iter_mut() {
        let results = measure_phases(lane, cells)?;
        once.iter_mut().zip(results).for_each(|(sum, loops)| *sum += loops.time.as_secs_f64());
    }
    let round = start.elapsed().as_secs_f64();
    let overhead = round - once.iter().sum::<f64>();
    // As many rounds as leave half of the time for loops, but three at least.
    let rounds = budget.rounds.unwrap_or(((budget.seconds / (2.0 * round)) as usize).clamp(3, 51));
    // One more round has been spent already.
    let share = (budget.seconds / (rounds + 1) as f64 - overhead) / cells.len() as f64;
    for (cell, once) in cells.iter_mut().zip(once) {
        cell.loops = ((share / once) as u64).clamp(1, MOST_LOOPS);
    }
    Ok(rounds)
}

fn behind(callbacks: usize, busy: bool) -> Config {
    Config::new([("callbacks", callbacks.into()), ("busy_threads", u64::from(busy).into())])
}

fn show_loops(report: &Report, cells: &[Cell]) -> (String, Table) {
    let old = Track::Callback.system();
    let liburcu = Track::Liburcu.system();
    let heads = [
        "threads",
        "loops",
        "callbacks",
        "own track",
        "callback track",
        "ratio",
        liburcu,
        "ratio",
        "checked",
    ];
    let mut table = table(heads);
    let posted = |column| TASKS.value(TASKS.rows[0].row, column).unwrap_or(f64::NAN);
    let (before, after) = (posted("before"), posted("after"));
    table.add_row([
        "10000 (posted)".to_owned(),
        "1000".to_owned(),
        String::new(),
        duration(after * 1e9),
        duration(before * 1e9),
        times(after / before),
    ]);
    for cell in cells {
        let config = cell.config();
        table.add_row([
            cell.threads.to_string(),
            cell.loops.to_string(),
            if cell.flood { CALLBACKS } else { 0 }.to_string(),
            report.value(OURS, &LOOPS, &config),
            report.value(old, &LOOPS, &config),
            report.ratio(old, &LOOPS, &config),
            report.value(liburcu, &LOOPS, &config),
            report.ratio(liburcu, &LOOPS, &config),
            report.value(OURS, &CHECKED, &config),
        ]);
    }
    ("Time of all threads' loops of { synchronize; free }".to_owned(), table)
}

fn show_behind(report: &Report, tracks: &[Track]) -> (String, Table) {
    let mut table =
        table(["track", "alone", "beside a busy thread", "behind callbacks", "delay", "min..max"]);
    for track in tracks {
        let system = track.system();
        table.add_row([
            system.to_owned(),
            report.value(system, &WAIT, &behind(0, false)),
            report.value(system, &WAIT, &behind(0, true)),
            report.value(system, &WAIT, &behind(CALLBACKS, false)),
            report.value(system, &DELAY, &behind(CALLBACKS, false)),
            report.range(system, &DELAY, &behind(CALLBACKS, false)),
        ]);
    }
    (
        format!(
            "Latency of a waiter, alone, beside a busy thread, and behind {CALLBACKS} callbacks (delay: the last two)"
        ),
        table,
    )
}

fn show_latencies(cell: &Cell, tracks: &[Track], counts: &Histograms) -> (String, Table) {
    let mut table = table(["below"].into_iter().chain(tracks.iter().map(|track| track.system())));
    let used = |bucket: &usize| counts.iter().any(|counts| counts[*bucket] > 0);
    let first = (0..BUCKETS).find(used).unwrap_or(0);
    let last = (0..BUCKETS).rfind(used).unwrap_or(0);
    for bucket in first..=last {
        let values = counts.iter().map(|counts| counts[bucket].to_string());
        table.add_row([duration((1_u64 << bucket) as f64)].into_iter().chain(values));
    }
    let beside = if cell.flood { format!("beside {CALLBACKS} callbacks") } else { "alone".to_owned() };
    (format!("Latencies of {} threads, {beside}: number of waits", cell.threads), table)
}

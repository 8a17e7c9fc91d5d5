//! `bench programs`: what people write with locks, on the locks of several libraries.
//!
//! Each program runs on all CPUs, and on one. `mops` is the number of its operations per microsecond, `cpu_ns_per_op`
//! the CPU time of one, and `switches_per_op` how often a thread sleeps. Of each eighth step of a thread the time is
//! taken; `step_p999` and `longest_step` are of these. `--cells NAME` selects a program.

mod bank;
mod locks;
mod queues;
mod shared;

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use fastrand::Rng;
use hdrhistogram::Histogram;

use self::bank::Bank;
use self::locks::{Locks, New, Old, Ours, Std};
use self::queues::{Actors, Log, Passing, Pool};
use self::shared::{Attempts, Cache, Memo, ReadMostly, Stealing, Transfers};
use crate::bench::lock::load::Work;
use harness::controls::{Controls, join_all, spawn_all};
use harness::stats::histogram;
use harness::timed_loop::thread_cpu_time;
use harness::{Better, Budget, Config, Metric, Plan, Recorder, Report, System};

const MOPS: Metric = Metric { name: "mops", unit: "1/us", better: Better::Higher };
const CPU: Metric = Metric::nanoseconds("cpu_ns_per_op");
const P999: Metric = Metric::nanoseconds("step_p999");
const LONGEST: Metric = Metric::nanoseconds("longest_step");
const SWITCHES: Metric = Metric::count("switches_per_op", Better::Lower);

const THREADS: [usize; 4] = [1, 2, 8, 64];
/// The time of each of so many steps is taken.
const TIMED: u64 = 8;

/// A program whose threads repeat steps.
trait Program: Sync {
    /// With fewer threads it does not work.
    const LEAST_THREADS: usize = 1;

    fn new(threads: usize, work: Work) -> Self;

    /// Does one thing as the thread with this number. Returns the number of operations.
    fn step(&self, thread: usize, random: &mut Rng) -> u64;

    /// Ends all waits for other threads, also later ones.
    fn close(&self) {}

    /// Returns `true` if the data are right at the end, after so many operations.
    fn check(&self, operations: u64) -> bool;
}

type Values = [f64; 5];
type Measure = fn(&Cell, Duration) -> anyhow::Result<Values>;

/// A program, with a function to measure it on each of [`LIBRARIES`].
struct Kind {
    name: &'static str,
    least_threads: usize,
    measure: [Measure; 4],
}

const LIBRARIES: [&str; 4] = [Ours::NAME, Std::NAME, Old::NAME, New::NAME];

macro_rules! kind {
    ($name:literal, $type:ident$(, $arg:literal)?) => {
        Kind {
            name: $name,
            least_threads: <$type<Ours$(, $arg)?> as Program>::LEAST_THREADS,
            measure: [
                measure::<$type<Ours$(, $arg)?>>,
                measure::<$type<Std$(, $arg)?>>,
                measure::<$type<Old$(, $arg)?>>,
                measure::<$type<New$(, $arg)?>>,
            ],
        }
    };
}

static KINDS: [Kind; 15] = [
    kind!("bank", Bank),
    kind!("queue", Passing, 0),
    kind!("channel", Passing, 1),
    kind!("pool", Pool),
    kind!("actors", Actors),
    kind!("log", Log),
    kind!("transfers", Transfers),
    kind!("attempts", Attempts),
    kind!("cache", Cache),
    kind!("stealing", Stealing),
    kind!("memo", Memo),
    kind!("reads-100", ReadMostly, 0),
    kind!("reads-99", ReadMostly, 1),
    kind!("reads-95", ReadMostly, 5),
    kind!("reads-50", ReadMostly, 50),
];

struct Cell {
    kind: &'static Kind,
    threads: usize,
}

/// Returns the cells that the user selected, or all.
fn cells(budget: Budget) -> anyhow::Result<Vec<Cell>> {
    let selected: Vec<_> =
        KINDS.iter().filter(|kind| budget.cells.is_none_or(|name| name == kind.name)).collect();
    if selected.is_empty() {
        let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
        bail!("no such program; there are {}", names.join(", "));
    }
    let all = selected.into_iter().flat_map(|kind| THREADS.map(|threads| Cell { kind, threads }));
    Ok(all.filter(|cell| cell.threads >= cell.kind.least_threads).collect())
}

/// Runs the bench.
pub fn run(budget: Budget) -> anyhow::Result<Report> {
    let mut systems: Vec<_> =
        LIBRARIES.iter().enumerate().map(|(number, name)| System { name, measure: number }).collect();
    let (mut recorder, cells) = (Recorder::new("programs"), cells(budget)?);
    let metrics = [&MOPS, &CPU, &P999, &LONGEST, &SWITCHES];
    Plan::new(budget, 100, &cells, &mut systems, metrics).in_profiles()?.run(
        &mut recorder,
        |cell, _| Some(Config::new([("program", cell.kind.name.into()), ("threads", cell.threads.into())])),
        |cell, system, slice| (cell.kind.measure[system.measure])(cell, slice),
    )?;
    Ok(Report::new(&recorder, Vec::new()))
}

/// What a thread has done.
struct Share {
    operations: u64,
    cpu: Duration,
    switches: i64,
    times: Histogram<u64>,
}

/// The threads of the cell run the program for `slice`. Returns the values of the metrics.
fn measure<P: Program>(cell: &Cell, slice: Duration) -> anyhow::Result<Values> {
    let (program, controls) = (P::new(cell.threads, Work::calibrated()), Controls::default());
    let (operations, values) = controls.scope(|scope| {
        let running = spawn_all(scope, cell.threads, |number| steps(&program, &controls, number))?;
        let elapsed = controls.start_and_stop(cell.threads, slice);
        program.close();
        let shares = join_all(running)?;
        let operations = shares.iter().map(|share| share.operations).sum::<u64>();
        let count = operations as f64;
        let cpu: Duration = shares.iter().map(|share| share.cpu).sum();
        let switches: i64 = shares.iter().map(|share| share.switches).sum();
        let mut times = histogram();
        shares.iter().try_for_each(|share| times.add(&share.times))?;
        let values = [
            count / elapsed.as_secs_f64() / 1e6,
            cpu.as_nanos() as f64 / count,
            times.value_at_quantile(0.999) as f64,
            times.max() as f64,
            switches as f64 / count,
        ];
        Ok((operations, values))
    })?;
    ensure!(program.check(operations), "{}: the data are wrong at the end", cell.kind.name);
    Ok(values)
}

/// A thread of the program.
fn steps(program: &impl Program, controls: &Controls, number: usize) -> Share {
    let (mut random, mut times) = (Rng::new(), histogram());
    controls.begin();
    let (cpu, switches, mut operations) = (thread_cpu_time(), voluntary_switches(), 0);
    for step in 0_u64.. {
        if controls.must_stop() && step != 0 {
            break;
        }
        let begin = step.is_multiple_of(TIMED).then(Instant::now);
        operations += program.step(number, &mut random);
        if let Some(begin) = begin {
            times.saturating_record(begin.elapsed().as_nanos() as u64);
        }
    }
    Share { operations, cpu: thread_cpu_time() - cpu, switches: voluntary_switches() - switches, times }
}

/// Returns how often the calling thread has slept.
fn voluntary_switches() -> i64 {
    // SAFETY: a structure of numbers, which outlives the call.
    unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage.ru_nvcsw
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_ends_and_makes_progress_on_each_library() {
        for kind in &KINDS {
            let cell = Cell { kind, threads: 3 };
            for measure in kind.measure {
                // On a busy machine no thread may get a CPU in time.
                while measure(&cell, Duration::from_millis(2)).expect("it runs")[0] == 0.0 {}
            }
        }
    }
}

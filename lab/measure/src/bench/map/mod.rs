//! `bench map`: a concurrent hash map beside others.
//!
//! - `op_ns`: CPU time of the process for an operation, workers included; `wall_ns`: the time between two operations,
//!   whichever threads make them. `reads` is the percentage of gets; half of the others insert a random key, half
//!   remove one. So half of the keys are in the map, and every second get finds its key; with 100, every get does.
//! - `p999_ns`: a get, while another thread inserts keys until the table has grown four times and removes them again
//!   (`resizes` is 1), or replaces values (0).
//! - `bytes`: memory of an entry, allocated or mapped, after keys were inserted one by one: the mean of eight
//!   sizes between two powers of two. `insert_max_ns` is the longest of these insertions.
//! - `churn_ns`, `churn_wall_ns`, `churn_peak_bytes`: a table whose entries come and go (see [`churn`]).
//!
//! Keys and values are 8 bytes, but for the `String` keys of a churn. All maps have the same hasher.
//! `stillpoint-copy` is the map whose pairs are copied. `--cells jobs` measures what people do with maps, in place of
//! all that.
//!
//! Each measurement has a worker of its own (see [`harness::worker`]; those of `op_ns` share one for each system):
//! what a map costs depends on where in the heap its entries are, and so on the maps that the process had before.

mod churn;
mod jobs;
mod latency;
mod load;
mod memory;
pub mod systems;

use std::time::Duration;

use anyhow::bail;

use crate::peers::maps::{Map as _, SccIndex};
use harness::controls::{Controls, join_all, spawn_all};
use harness::given::cpu_time;
use harness::{Budget, Config, Metric, Plan, Recorder, Report, System, pin};
use load::Cell;
use systems::{Request, SYSTEMS};

const OP: Metric = Metric::nanoseconds("op_ns");
const WALL: Metric = Metric::nanoseconds("wall_ns");
const P999: Metric = Metric::nanoseconds("p999_ns");
const BYTES: Metric = Metric::bytes("bytes");
const LONGEST: Metric = Metric::nanoseconds("insert_max_ns");

/// Keys of a table that fits into the caches, and of one that does not.
const SIZES: [usize; 2] = [1 << 10, LARGE];
const LARGE: usize = 1 << 20;

/// Runs the bench.
pub fn run(budget: Budget) -> anyhow::Result<Report> {
    match budget.cells {
        Some("jobs") => return jobs::run(budget),
        Some(_) => bail!("no such cells; there are jobs"),
        None => {}
    }
    let mut systems: Vec<_> = SYSTEMS.into_iter().filter(|system| system.measure.numbers.is_some()).collect();
    let mut recorder = Recorder::new("map");
    let threads = SIZES.into_iter().flat_map(|size| [(size, 1), (size, 4)]);
    let cell = |(size, threads)| [100, 98, 90].map(|reads| Cell { reads, threads, size });
    let cells: Vec<_> = threads.flat_map(cell).collect();
    let worker = |&System { name, .. }: &_| Ok(System { name, measure: systems::start(name)? });
    let mut workers = systems.iter().map(worker).collect::<anyhow::Result<Vec<_>>>()?;
    Plan::new(budget.share(0.6), 50, &cells, &mut workers, [&OP, &WALL]).run(
        &mut recorder,
        |cell, _| Some(cell.config()),
        |cell, worker, slice| systems::measure_in(&mut worker.measure, Request::Load(*cell, slice)),
    )?;
    drop(workers);
    Plan::new(budget.share(0.12), 150, &[false, true], &mut systems, [&P999]).run(
        &mut recorder,
        |&resizes, system| {
            // Its insertions replace nothing.
            let replaces = resizes || system.name != SccIndex::<u64>::NAME;
            replaces.then(|| Config::new([("resizes", u32::from(resizes).into())]))
        },
        |&resizes, system, slice| systems::measure(system.name, Request::Latency(resizes, slice)),
    )?;
    let once = Budget { rounds: Some(1), ..budget.share(0.03) };
    Plan::new(once, 1, &[()], &mut systems, [&BYTES, &LONGEST]).run(
        &mut recorder,
        |(), _| Some(Config::new([("size", LARGE.into())])),
        |(), system, _| systems::measure(system.name, Request::Memory),
    )?;
    churn::measure(budget.share(0.25), &mut recorder)?;
    Ok(Report::new(&recorder, Vec::new()))
}

/// Steps between two looks at the stop flag.
const BATCH: usize = 64;

/// Has threads repeat steps for `slice`: each is bound to a CPU, if there are as many. `begin` returns the step of the
/// thread with a number, which gets the number of the step. Returns the nanoseconds of CPU time of the process for a
/// step, and those between two steps, whichever threads make them.
fn repeat<S: FnMut(usize)>(
    threads: usize,
    slice: Duration,
    begin: impl Fn(usize) -> S + Sync,
) -> anyhow::Result<[f64; 2]> {
    let (controls, cpus) = (Controls::default(), pin::allowed()?);
    controls.scope(|scope| {
        let running = spawn_all(scope, threads, |number| {
            let pinned = if threads <= cpus.len() { pin::to(cpus[number]) } else { Ok(()) };
            let (mut step, mut steps) = (begin(number), 0);
            controls.begin();
            // Once at least, where others have the CPU for all of the time.
            while !controls.must_stop() || steps == 0 {
                (steps..steps + BATCH).for_each(&mut step);
                steps += BATCH;
            }
            pinned.map(|()| steps)
        })?;
        controls.ready.wait_for(threads);
        let cpu = cpu_time();
        let elapsed = controls.start_and_stop(threads, slice);
        let steps: usize = join_all(running)?.into_iter().sum::<anyhow::Result<_>>()?;
        Ok([cpu_time() - cpu, elapsed].map(|time| time.as_nanos() as f64 / steps as f64))
    })
}

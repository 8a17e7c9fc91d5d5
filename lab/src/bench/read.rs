//! `bench read`: what a reader pays to open a section, follow a pointer, and close the section.
//!
//! Every system runs the same loop over one shared pointer that is not replaced: open, load the pointer, add the number
//! behind it, close. With nesting 2 a second section is opened inside the first, and `pair_ns` is the time of both.

use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::harness::timed_loop::Threads;
use crate::harness::{self, Budget, Config, Metric, Plan, Recorder, Report, Skipped, System};
use crate::peers::{ReadSide, arc_swap, crossbeam, seize, std as locks, stillpoint};

/// Time for an iteration of the loop in each thread.
const PAIR: Metric = Metric::nanoseconds("pair_ns");

#[derive(Clone, Copy, Debug)]
struct Cell {
    threads: Threads,
    nesting: u32,
}

impl Cell {
    fn config(self) -> Config {
        Config::new([("threads", self.threads.count.into()), ("nesting", self.nesting.into())])
    }
}

/// Measures the time of an iteration, and says why sections cannot be nested, if they cannot.
struct Measure {
    run: fn(Cell, Duration) -> anyhow::Result<f64>,
    cannot_nest: Option<&'static str>,
}

fn system<S: ReadSide>() -> System<Measure> {
    System { name: S::NAME, measure: Measure { run: measure::<S>, cannot_nest: S::CANNOT_NEST } }
}

/// Runs the bench.
///
/// # Errors
///
/// Fails if threads cannot be started or bound to the CPUs of this process.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Report> {
    let mut systems = [
        system::<stillpoint::RcuReaders>(),
        system::<locks::BareLoad>(),
        #[cfg(feature = "liburcu")]
        system::<crate::peers::liburcu::Readers>(),
        system::<crate::peers::Published<crossbeam::Epoch>>(),
        system::<crate::peers::Published<seize::Seize>>(),
        system::<arc_swap::Load>(),
        system::<locks::InRwLock>(),
        system::<locks::InMutex>(),
    ];
    let mut skipped = vec![
        #[cfg(not(feature = "liburcu"))]
        crate::peers::liburcu_missing(),
    ];
    for system in &systems {
        if let Some(why) = system.measure.cannot_nest {
            skipped.push(Skipped { system: system.name, why: format!("with nesting 2: {why}") });
        }
    }
    let threads = Threads::pinned()?;
    let cells: Vec<Cell> = [1, 2]
        .iter()
        .flat_map(|&nesting| threads.iter().map(move |&threads| Cell { threads, nesting }))
        .collect();
    let plan = Plan {
        title: "bench read",
        timing: budget.split((cells.len() * systems.len()) as f64, Duration::from_millis(40)),
        cells: &cells,
        systems: &mut systems,
        metrics: [&PAIR],
    };
    let mut recorder = Recorder::default();
    harness::run(
        plan,
        &mut recorder,
        |cell, _| cell.config(),
        |&cell, system, slice| {
            let can = cell.nesting == 1 || system.measure.cannot_nest.is_none();
            Ok([if can { (system.measure.run)(cell, slice)? } else { f64::NAN }])
        },
    )?;
    Ok(Report::new("read", &recorder, skipped))
}

/// The mean of the threads' times per iteration.
fn measure<S: ReadSide>(cell: Cell, slice: Duration) -> anyhow::Result<f64> {
    let shared = CachePadded::new(S::new());
    cell.threads.measure(slice, |timed_loop| {
        let reader = shared.reader();
        if cell.nesting == 1 {
            timed_loop.time(|n| shared.read(&reader, n))
        } else {
            timed_loop.time(|n| shared.read_nested(&reader, n))
        }
    })
}

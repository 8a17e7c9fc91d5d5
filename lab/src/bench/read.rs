//! `bench read`: the cost of a read-side critical section in which a reader follows a pointer.
//!
//! Every system runs the same loop over one shared pointer that is not replaced: enter a section, load the pointer, add the
//! number behind it, leave. With nesting 2 a second section is entered inside the first, and `pair_ns` is the time of both.

use std::time::Duration;

use crate::harness::timed_loop::Threads;
use crate::harness::{self, Budget, Config, Metric, Plan, Recorder, Report, Skipped, System};
use crate::peers::{self, Published, ReadSide, arc_swap, crossbeam, seize, stillpoint};

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

type Measure = fn(Threads, Duration) -> anyhow::Result<f64>;

/// What measures a section, and one inside another; or why that cannot be.
struct Measures {
    single: Measure,
    nested: Result<Measure, &'static str>,
}

fn system<S: ReadSide>() -> System<Measures> {
    let nested = match S::CANNOT_NEST {
        None => Ok(peers::time_nested_reads::<S> as Measure),
        Some(why) => Err(why),
    };
    System { name: S::NAME, measure: Measures { single: peers::time_reads::<S>, nested } }
}

/// Runs the bench.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Report> {
    let mut systems = [
        system::<stillpoint::RcuReaders>(),
        system::<peers::std::BareLoad>(),
        #[cfg(feature = "liburcu")]
        system::<peers::liburcu::Readers>(),
        system::<Published<crossbeam::Epoch>>(),
        system::<seize::Readers>(),
        system::<arc_swap::Load>(),
        system::<peers::std::InRwLock>(),
        system::<peers::std::InMutex>(),
    ];
    let mut skipped = peers::missing(&[peers::LIBURCU]);
    for system in &systems {
        if let Err(why) = system.measure.nested {
            skipped.push(Skipped { system: system.name.into(), why: format!("with nesting 2: {why}") });
        }
    }
    let threads = Threads::pinned()?;
    let cells: Vec<Cell> = [1, 2]
        .iter()
        .flat_map(|&nesting| threads.iter().map(move |&threads| Cell { threads, nesting }))
        .collect();
    let timing = budget.split((cells.len() * systems.len()) as f64, Duration::from_millis(40));
    let plan = Plan { title: "bench read", timing, cells: &cells, systems: &mut systems, metrics: [&PAIR] };
    let mut recorder = Recorder::default();
    harness::run(
        plan,
        &mut recorder,
        |cell, _| cell.config(),
        |cell, system, slice| {
            let Measures { single, nested } = system.measure;
            let measure = if cell.nesting == 1 { Ok(single) } else { nested };
            Ok([measure.map_or(Ok(f64::NAN), |measure| measure(cell.threads, slice))?])
        },
    )?;
    Ok(Report::new("read", &recorder, skipped))
}

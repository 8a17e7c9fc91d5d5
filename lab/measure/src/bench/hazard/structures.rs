//! A list and a hash table, whose nodes are retired when they are removed.
//!
//! `op_ns` is the time of an operation on a set of numbers, half of which are in it: a search, an insertion, or a removal.
//! For `traversal_ns` a thread searches a long list to its end, again and again, while another one inserts and removes a
//! number at its beginning, which takes `change_ns`.

use std::time::Duration;

use fastrand::Rng;

use super::list::Set;
use crate::peers::nodes::{Haphazard, Nodes, Own, Sections};
use crate::peers::{crossbeam, seize, stillpoint};
use harness::timed_loop::{Threads, repeat};
use harness::{Budget, Config, Metric, Plan, Recorder, systems};

const OPERATION: Metric = Metric::nanoseconds("op_ns");
const TRAVERSAL: Metric = Metric::nanoseconds("traversal_ns");
const CHANGE: Metric = Metric::nanoseconds("change_ns");

/// A structure: its name, the numbers that may be in it, and its buckets.
type Shape = (&'static str, u64, usize);

const SHAPES: [Shape; 2] = [("list", 512, 1), ("hash table", 16_384, 8192)];

/// Percentages of searches. The rest are insertions and removals, as many of each.
const GETS: [u32; 3] = [0, 50, 90];

/// Nodes of the long list.
const LONG: u64 = 10_000;
/// Operations that count as one search of the long list: no thread must search it too often between two looks at the clock.
const LONG_COUNTS_FOR: u32 = 500;

#[derive(Clone, Copy)]
struct Cell {
    shape: Shape,
    gets: u32,
    threads: Threads,
}

/// Records the cost of operations and of long traversals.
pub(super) fn measure(budget: Budget, recorder: &mut Recorder) -> anyhow::Result<()> {
    let mut cells = Vec::new();
    for shape in SHAPES {
        for gets in GETS {
            cells.extend(Threads::pinned()?.into_iter().map(|threads| Cell { shape, gets, threads }));
        }
    }
    let mut systems = systems![time_operations:
        Own, Sections<stillpoint::Stillpoint>, Sections<crossbeam::Epoch>, Sections<seize::Seize>, Haphazard,
    ];
    systems[1].name = RCU;
    Plan::new(budget.share(0.75), 60, &cells, &mut systems, [&OPERATION]).run(
        recorder,
        |cell, _| {
            Some(Config::new([
                ("structure", cell.shape.0.into()),
                ("gets", cell.gets.into()),
                ("threads", cell.threads.count.into()),
            ]))
        },
        |&cell, system, slice| Ok([(system.measure)(cell, slice)?]),
    )?;

    let mut systems = systems![time_traversals:
        Own, Sections<stillpoint::Stillpoint>, Sections<crossbeam::Epoch>, Sections<seize::Seize>, Haphazard,
    ];
    systems[1].name = RCU;
    Plan::new(budget.share(0.25), 100, &[()], &mut systems, [&TRAVERSAL, &CHANGE]).run(
        recorder,
        |(), _| Some(Config::new([("nodes", LONG.into())])),
        |(), system, slice| (system.measure)((), slice),
    )
}

/// Sections of `rcu`, beside our hazard pointers.
const RCU: &str = "stillpoint-rcu";

/// Returns the nanoseconds of an operation.
fn time_operations<S: Nodes>(cell: Cell, slice: Duration) -> anyhow::Result<f64> {
    let (_, keys, buckets) = cell.shape;
    let library = S::new()?;
    let set = Set::<S>::new(buckets);
    {
        let mut thread = library.thread();
        for key in (0..keys).rev().step_by(2) {
            set.bucket(key).insert(key, &mut S::begin(&mut thread));
        }
    }
    let times = cell.threads.measure_each(slice, |number, timed_loop| {
        let (mut thread, mut rng) = (library.thread(), Rng::with_seed(number as u64));
        timed_loop.time(|n| {
            repeat(n, || {
                let random = rng.u64(..);
                let key = random % keys;
                let draw = ((random >> 40) % 200) as u32;
                let bucket = set.bucket(key);
                let operation = &mut S::begin(&mut thread);
                u64::from(if draw < 2 * cell.gets {
                    bucket.contains(key, operation)
                } else if draw.is_multiple_of(2) {
                    bucket.insert(key, operation)
                } else {
                    bucket.remove(key, operation)
                })
            })
        })
    })?;
    Ok(times.iter().sum::<f64>() / times.len() as f64)
}

/// Returns the nanoseconds of a search to the end of the long list, and of a change at its beginning.
fn time_traversals<S: Nodes>((): (), slice: Duration) -> anyhow::Result<[f64; 2]> {
    let library = S::new()?;
    let set = Set::<S>::new(1);
    let list = set.bucket(0);
    {
        let mut thread = library.thread();
        for key in (1..=LONG).rev() {
            list.insert(key, &mut S::begin(&mut thread));
        }
    }
    let cpus = harness::pin::allowed()?.len();
    let two = Threads { count: 2, per_cpu: 2_usize.div_ceil(cpus) };
    let times = two.measure_each(slice, |number, timed_loop| {
        let mut thread = library.thread();
        if number == 0 {
            let mut search = || u64::from(list.contains(u64::MAX, &mut S::begin(&mut thread)));
            return timed_loop.time(|n| repeat(n / LONG_COUNTS_FOR, &mut search))
                * f64::from(LONG_COUNTS_FOR);
        }
        timed_loop.time(|n| {
            repeat(n / 2, || {
                let operation = &mut S::begin(&mut thread);
                u64::from(list.insert(0, operation)) + u64::from(list.remove(0, operation))
            })
        })
    })?;
    Ok([times[0], times[1]])
}

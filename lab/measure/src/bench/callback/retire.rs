//! The cost of retiring a value.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use super::Payload;
use crate::peers::Reclaim;
use harness::Config;
use harness::controls::{Controls, join_all, spawn_all};

/// Values between two checks of the stop flag.
const BATCH: u64 = 64;

/// A writer stops after this many values, so that a library that frees late does not take all memory.
const LIMIT: u64 = 10_000_000;

/// Time between two checks of whether the writers are done.
const TICK: Duration = Duration::from_millis(1);

/// Writers and readers.
pub(super) type Cell = (usize, usize);

pub(super) const CELLS: [Cell; 5] = [(1, 0), (1, 1), (2, 0), (2, 1), (16, 0)];

pub(super) fn config((threads, readers): Cell) -> Config {
    Config::new([("threads", threads.into()), ("readers", readers.into()), ("payload", "[u64; 8]".into())])
}

/// Returns the nanoseconds for each value, from the first one published to the last one freed.
pub(super) fn run<R: Reclaim>((threads, readers): Cell, slice: Duration) -> anyhow::Result<f64> {
    let system = R::new()?;
    // Each writer has a pointer of its own: this is not about races for one. Readers follow the first.
    let slots: Vec<_> = (0..threads).map(|_| CachePadded::new(R::slot(<[u64; 8]>::new(0)))).collect();
    let controls = Controls::default();
    let (start, values) = controls.scope(|scope| {
        spawn_all(scope, readers, |_| {
            let thread = system.thread();
            controls.ready.arrive();
            while !controls.background_must_stop() {
                for _ in 0..BATCH {
                    black_box(R::get(&R::enter(&thread), black_box(&slots[0])).sum());
                }
            }
        })?;
        let writers = spawn_all(scope, threads, |number| {
            let (thread, slot) = (system.thread(), &slots[number]);
            controls.begin();
            let mut values = 0;
            while values < LIMIT && !controls.must_stop() || values == 0 {
                for _ in 0..BATCH {
                    values += 1;
                    R::replace(&thread, slot, Payload::new(values));
                }
            }
            values
        })?;
        controls.ready.wait_for(readers + threads);
        let start = Instant::now();
        controls.start.open();
        // They may reach the limit before.
        while start.elapsed() < slice && !writers.iter().all(|writer| writer.is_finished()) {
            thread::sleep(TICK);
        }
        controls.stop();
        Ok((start, join_all(writers)?.into_iter().sum::<u64>()))
    })?;
    let rest = system.finish();
    let elapsed = start.elapsed();
    drop(rest);
    Ok(elapsed.as_nanos() as f64 / values as f64)
}

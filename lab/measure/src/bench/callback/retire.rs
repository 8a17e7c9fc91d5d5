//! The cost of retiring a value.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use super::Payload;
use crate::peers::Reclaim;
use harness::controls::{Controls, join_all, spawn_all};
use harness::{Config, crew};

/// Values between two checks of the stop flag.
const BATCH: u64 = 64;

/// A writer stops after this many values, so that a library that frees late does not take all memory.
const LIMIT: u64 = 10_000_000;

/// Time between two checks of whether the writers are done.
const TICK: Duration = Duration::from_millis(1);

/// Writers, readers, and what is retired.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    threads: usize,
    readers: usize,
    payload: &'static str,
}

const PLAIN: &str = "[u64; 8]";
const VEC: &str = "Vec of 8 u64";

const fn cell(threads: usize, readers: usize, payload: &'static str) -> Cell {
    Cell { threads, readers, payload }
}

pub(super) const CELLS: [Cell; 11] = [
    cell(1, 0, PLAIN),
    cell(1, 1, PLAIN),
    cell(2, 0, PLAIN),
    cell(2, 1, PLAIN),
    cell(4, 0, PLAIN),
    cell(16, 0, PLAIN),
    cell(1, 0, VEC),
    cell(1, 1, VEC),
    cell(2, 0, VEC),
    cell(4, 0, VEC),
    cell(16, 0, VEC),
];

impl Cell {
    pub(super) fn config(&self) -> Config {
        Config::new([
            ("threads", self.threads.into()),
            ("readers", self.readers.into()),
            ("payload", self.payload.into()),
        ])
    }
}

/// Returns the nanoseconds for each value, from the first one published to the last one freed.
pub(super) fn run<R: Reclaim>(cell: &Cell, slice: Duration) -> anyhow::Result<f64> {
    if cell.payload == PLAIN {
        measure::<R, [u64; 8]>(cell, slice)
    } else {
        measure::<R, Vec<u64>>(cell, slice)
    }
}

fn measure<R: Reclaim, P: Payload>(cell: &Cell, slice: Duration) -> anyhow::Result<f64> {
    let system = R::new()?;
    // Each writer has a pointer of its own: this is not about races for one. Readers follow the first.
    let slots: Vec<_> = (0..cell.threads).map(|_| CachePadded::new(R::slot(P::new(0)))).collect();
    let controls = Controls::default();
    let (start, values) = controls.scope(|scope| {
        spawn_all(scope, cell.readers, || {
            let thread = system.thread();
            controls.ready.arrive();
            while !controls.background_must_stop() {
                for _ in 0..BATCH {
                    black_box(R::get(&R::enter(&thread), black_box(&slots[0])).sum());
                }
            }
        })?;
        let mut writers = Vec::new();
        for slot in &slots {
            writers.push(crew::spawn(scope, || {
                let thread = system.thread();
                controls.begin();
                let mut values = 0;
                while values < LIMIT && !controls.must_stop() || values == 0 {
                    for _ in 0..BATCH {
                        values += 1;
                        R::replace(&thread, slot, P::new(values));
                    }
                }
                values
            })?);
        }
        controls.ready.wait_for(cell.readers + cell.threads);
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

//! What it costs to retire a value.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use super::systems::{Payload, Reclaimer};
use crate::harness::Config;
use crate::harness::crew::{self, Arrivals, Gate};

/// Values between two looks at the stop flag.
const BATCH: u64 = 64;

/// A writer stops after this many values, so that a library that frees late does not take all memory.
const LIMIT: u64 = 10_000_000;

/// How often the measuring thread looks whether the writers are done.
const TICK: Duration = Duration::from_millis(1);

/// What is retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// 64 bytes that need no destructor.
    Plain,
    /// A `Vec` of 64 bytes: a destructor, and a second piece of memory.
    Vec,
}

/// Writers, readers and what they share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    threads: usize,
    readers: usize,
    kind: Kind,
}

pub(super) const CELLS: [Cell; 6] = [
    Cell { threads: 1, readers: 0, kind: Kind::Plain },
    Cell { threads: 1, readers: 1, kind: Kind::Plain },
    Cell { threads: 2, readers: 0, kind: Kind::Plain },
    Cell { threads: 2, readers: 1, kind: Kind::Plain },
    Cell { threads: 1, readers: 0, kind: Kind::Vec },
    Cell { threads: 1, readers: 1, kind: Kind::Vec },
];

impl Cell {
    pub(super) fn config(&self) -> Config {
        let payload = match self.kind {
            Kind::Plain => "[u64; 8]",
            Kind::Vec => "Vec of 8 u64",
        };
        Config::new([
            ("threads", self.threads.into()),
            ("readers", self.readers.into()),
            ("payload", payload.into()),
        ])
    }
}

impl Payload for [u64; 8] {
    fn new(number: u64) -> Self {
        [number; 8]
    }

    fn sum(&self) -> u64 {
        self.iter().fold(0, |sum, word| sum.wrapping_add(*word))
    }
}

impl Payload for Vec<u64> {
    fn new(number: u64) -> Self {
        vec![number; 8]
    }

    fn sum(&self) -> u64 {
        self.iter().fold(0, |sum, word| sum.wrapping_add(*word))
    }
}

/// Nanoseconds for each value, from the first one published to the last one freed.
pub(super) fn run<R: Reclaimer>(cell: &Cell, slice: Duration) -> anyhow::Result<f64> {
    match cell.kind {
        Kind::Plain => measure::<R, [u64; 8]>(cell, slice),
        Kind::Vec => measure::<R, Vec<u64>>(cell, slice),
    }
}

/// What the threads of a measurement wait for and look at.
#[derive(Debug, Default)]
struct Controls {
    ready: Arrivals,
    start: Gate,
    stop_writers: AtomicBool,
    stop_readers: AtomicBool,
}

impl Controls {
    /// Lets every thread finish, whatever it waits for.
    fn end(&self) {
        self.stop_writers.store(true, Ordering::Relaxed);
        self.stop_readers.store(true, Ordering::Relaxed);
        self.start.open();
    }
}

fn measure<R: Reclaimer, P: Payload>(cell: &Cell, slice: Duration) -> anyhow::Result<f64> {
    let system = R::new()?;
    // Each writer has a pointer of its own: who wins a race for one is not the question here. Readers follow the first.
    let slots: Vec<_> = (0..cell.threads).map(|_| CachePadded::new(R::slot(P::new(0)))).collect();
    let controls = Controls::default();
    let written = thread::scope(|scope| {
        let written = write(scope, &controls, &system, &slots, cell, slice);
        controls.end();
        written
    });
    let (start, values) = written?;
    let rest = system.finish();
    let elapsed = start.elapsed();
    drop(rest);
    Ok(elapsed.as_nanos() as f64 / values as f64)
}

/// Runs the writers for `slice`; when they began, and the number of values they retired.
fn write<'scope, R: Reclaimer, P: Payload>(
    scope: &'scope Scope<'scope, '_>,
    controls: &'scope Controls,
    system: &'scope R,
    slots: &'scope [CachePadded<R::Slot<P>>],
    cell: &Cell,
    slice: Duration,
) -> anyhow::Result<(Instant, u64)> {
    for _ in 0..cell.readers {
        crew::spawn(scope, || {
            let thread = system.thread();
            controls.ready.arrive();
            while !controls.stop_readers.load(Ordering::Relaxed) {
                for _ in 0..BATCH {
                    black_box(R::read(&thread, black_box(&slots[0]), P::sum));
                }
            }
        })?;
    }
    let mut writers = Vec::new();
    for slot in slots {
        writers.push(crew::spawn(scope, || {
            let thread = system.thread();
            controls.ready.arrive();
            controls.start.wait();
            let mut values = 0;
            while values < LIMIT && !controls.stop_writers.load(Ordering::Relaxed) || values == 0 {
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
    controls.stop_writers.store(true, Ordering::Relaxed);
    let mut values = 0;
    for writer in writers {
        values += crew::join(writer)?;
    }
    Ok((start, values))
}

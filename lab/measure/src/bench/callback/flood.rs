//! The memory that is unreclaimed while a reader stays in its section.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::Payload;
use crate::peers::Reclaim;
use harness::controls::Controls;
use harness::{Config, crew};

/// The writer stops after this many values, so that a library without a limit does not take all memory.
const LIMIT: u64 = 200_000;

/// The limit of libraries that have one.
const BYTES: u64 = 8 << 20;

/// Time between two readings of the unreclaimed memory.
const TICK: Duration = Duration::from_millis(1);

/// Bytes of all values that exist. There is one flood at a time.
static LIVE: AtomicU64 = AtomicU64::new(0);

/// A value of 1 KiB that is counted while it exists.
#[derive(Debug)]
struct Counted([u64; 128]);

const SIZE: u64 = size_of::<Counted>() as u64;

impl Payload for Counted {
    fn new(number: u64) -> Self {
        Self([number; 128])
    }

    fn sum(&self) -> u64 {
        self.0.iter().fold(0, |sum, word| sum.wrapping_add(*word))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        LIVE.fetch_sub(SIZE, Ordering::Relaxed);
    }
}

/// The result of a flood.
#[derive(Debug)]
pub(super) struct Flood {
    /// The most bytes that existed.
    pub(super) peak: u64,
    /// Nanoseconds for each value of the writer.
    pub(super) value_ns: f64,
    /// Milliseconds and the bytes that existed then.
    pub(super) course: Vec<(f64, f64)>,
}

/// Returns the parameters of a flood that takes `slice`.
pub(super) fn config(slice: Duration) -> Config {
    Config::new([
        ("threads", 1.into()),
        ("readers", 1.into()),
        ("payload", "1 KiB".into()),
        ("stall_ms", (stall(slice).as_millis() as u64).into()),
        ("most_values", LIMIT.into()),
        ("our_limit_bytes", BYTES.into()),
    ])
}

/// Returns how long the reader stays in its first section.
fn stall(slice: Duration) -> Duration {
    slice / 2
}

/// Floods for `slice`.
pub(super) fn run<R: Reclaim>(slice: Duration) -> anyhow::Result<Flood> {
    R::limit(Some(BYTES));
    let system = R::new()?;
    LIVE.store(SIZE, Ordering::Relaxed);
    let slot = R::slot(Counted::new(0));
    let flood = write(&system, &slot, slice);
    drop(slot);
    drop(system.finish());
    R::limit(None);
    let left = LIVE.load(Ordering::Relaxed);
    ensure!(left == 0, "{} has not freed {left} bytes after all deferred work", R::NAME);
    flood
}

fn write<R: Reclaim>(system: &R, slot: &R::Slot<Counted>, slice: Duration) -> anyhow::Result<Flood> {
    let controls = Controls::default();
    controls.scope(|scope| {
        crew::spawn(scope, || {
            let thread = system.thread();
            let guard = R::enter(&thread);
            let value = R::get(&guard, slot);
            controls.begin();
            thread::sleep(stall(slice));
            black_box(value.sum());
            drop(guard);
            while !controls.background_must_stop() {
                black_box(R::get(&R::enter(&thread), slot).sum());
            }
        })?;
        let writer = crew::spawn(scope, || {
            let thread = system.thread();
            controls.begin();
            let start = Instant::now();
            let (mut values, mut peak) = (0, 0);
            while values < LIMIT && !controls.must_stop() || values == 0 {
                values += 1;
                peak = peak.max(LIVE.fetch_add(SIZE, Ordering::Relaxed) + SIZE);
                R::replace(&thread, slot, Counted::new(values));
            }
            (peak, start.elapsed().as_nanos() as f64 / values as f64)
        })?;
        controls.ready.wait_for(2);
        let start = Instant::now();
        controls.start.open();
        let mut course = Vec::new();
        while start.elapsed() < slice {
            course.push((start.elapsed().as_secs_f64() * 1e3, LIVE.load(Ordering::Relaxed) as f64));
            thread::sleep(TICK);
        }
        controls.stop();
        let (peak, value_ns) = crew::join(writer)?;
        Ok(Flood { peak, value_ns, course })
    })
}

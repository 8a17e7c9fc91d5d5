//! The memory that is unreclaimed while a reader stays in its section, or keeps its hazard pointer.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ::haphazard::{AtomicPtr, Domain, HazardPointer as PeerPointer};
use ::stillpoint::Domain as _;
use ::stillpoint::hazard::{Global, HazardPointer};
use ::stillpoint::rcu::{DeferOptions, Limits, Rcu};
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
pub(super) struct Counted([u64; 128]);

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

/// A published value, and the library that frees it.
pub(super) trait Flooded: Sync + Sized {
    const NAME: &'static str;
    /// What a thread reads and writes with.
    type Thread<'a>
    where
        Self: 'a;

    fn new() -> anyhow::Result<Self>;

    fn thread(&self) -> Self::Thread<'_>;

    /// Calls `f` with the value, which is not freed until then.
    fn read<T>(&self, thread: &mut Self::Thread<'_>, f: impl FnOnce(&Counted) -> T) -> T;

    /// Publishes the value, and retires the one before.
    fn replace(&self, thread: &mut Self::Thread<'_>, value: Counted);

    /// Returns when all values have been freed. The other threads have ended.
    fn finish(self);

    /// Sets how many bytes may await reclamation, if the library has such a limit.
    fn limit(bytes: Option<u64>);
}

/// A library with sections.
pub(super) struct InSections<R: Reclaim> {
    library: R,
    slot: R::Slot<Counted>,
}

impl<R: Reclaim> Flooded for InSections<R> {
    const NAME: &'static str = R::NAME;
    type Thread<'a>
        = R::Thread<'a>
    where
        R: 'a;

    fn new() -> anyhow::Result<Self> {
        Ok(Self { library: R::new()?, slot: R::slot(Counted::new(0)) })
    }

    fn thread(&self) -> R::Thread<'_> {
        self.library.thread()
    }

    fn read<T>(&self, thread: &mut R::Thread<'_>, f: impl FnOnce(&Counted) -> T) -> T {
        f(R::get(&R::enter(thread), &self.slot))
    }

    fn replace(&self, thread: &mut R::Thread<'_>, value: Counted) {
        R::replace(thread, &self.slot, value);
    }

    fn finish(self) {
        drop(self.slot);
        drop(self.library.finish());
    }

    fn limit(bytes: Option<u64>) {
        R::limit(bytes);
    }
}

/// This library's hazard pointers.
pub(super) struct Hazards(Rcu<Counted, Global>);

impl Flooded for Hazards {
    const NAME: &'static str = "stillpoint-hazard";
    type Thread<'a> = HazardPointer;

    fn new() -> anyhow::Result<Self> {
        Ok(Self(Rcu::new_in(Counted::new(0), Global)))
    }

    fn thread(&self) -> HazardPointer {
        HazardPointer::new()
    }

    fn read<T>(&self, pointer: &mut HazardPointer, f: impl FnOnce(&Counted) -> T) -> T {
        let result = f(pointer.protect(&self.0));
        pointer.reset();
        result
    }

    fn replace(&self, _: &mut HazardPointer, value: Counted) {
        self.0.replace(value).retire_with(DeferOptions::new().run_on_retiring_thread());
    }

    fn finish(self) {
        drop(self.0);
        Global.barrier();
    }

    fn limit(bytes: Option<u64>) {
        let default = Limits::default();
        Global.set_limits(Limits { bytes: bytes.unwrap_or(default.bytes), ..default });
    }
}

/// haphazard, with its global domain.
pub(super) struct Haphazard(AtomicPtr<Counted>);

impl Flooded for Haphazard {
    const NAME: &'static str = "haphazard";
    type Thread<'a> = PeerPointer<'static>;

    fn new() -> anyhow::Result<Self> {
        Ok(Self(AtomicPtr::from(Box::new(Counted::new(0)))))
    }

    fn thread(&self) -> PeerPointer<'static> {
        PeerPointer::new()
    }

    fn read<T>(&self, pointer: &mut PeerPointer<'static>, f: impl FnOnce(&Counted) -> T) -> T {
        let result = f(self.0.safe_load(pointer).expect("it is never null"));
        pointer.reset_protection();
        result
    }

    fn replace(&self, _: &mut PeerPointer<'static>, value: Counted) {
        let old = self.0.swap(Box::new(value)).expect("it is never null");
        // SAFETY: the value is published no more, and is retired once.
        unsafe { old.retire() };
    }

    fn finish(mut self) {
        // SAFETY: the pointer came from a Box, and no thread reads.
        drop(unsafe { Box::from_raw(*self.0.get_mut()) });
        Domain::global().eager_reclaim();
    }

    fn limit(_: Option<u64>) {}
}

/// Floods for `slice`.
pub(super) fn run<F: Flooded>(slice: Duration) -> anyhow::Result<Flood> {
    F::limit(Some(BYTES));
    LIVE.store(SIZE, Ordering::Relaxed);
    let system = F::new()?;
    let flood = write(&system, slice);
    system.finish();
    F::limit(None);
    let left = LIVE.load(Ordering::Relaxed);
    ensure!(left == 0, "{} has not freed {left} bytes after all deferred work", F::NAME);
    flood
}

fn write<F: Flooded>(system: &F, slice: Duration) -> anyhow::Result<Flood> {
    let controls = Controls::default();
    controls.scope(|scope| {
        crew::spawn(scope, || {
            let mut thread = system.thread();
            let stalled = system.read(&mut thread, |value| {
                controls.begin();
                thread::sleep(stall(slice));
                value.sum()
            });
            black_box(stalled);
            while !controls.background_must_stop() {
                black_box(system.read(&mut thread, Counted::sum));
            }
        })?;
        let writer = crew::spawn(scope, || {
            let mut thread = system.thread();
            controls.begin();
            let start = Instant::now();
            let (mut values, mut peak) = (0, 0);
            while values < LIMIT && !controls.must_stop() || values == 0 {
                values += 1;
                peak = peak.max(LIVE.fetch_add(SIZE, Ordering::Relaxed) + SIZE);
                system.replace(&mut thread, Counted::new(values));
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

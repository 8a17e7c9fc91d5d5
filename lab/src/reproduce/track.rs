//! The worker of E3, which measures one way to wait for grace periods.

use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde::{Deserialize, Serialize};
use stillpoint::rcu;

use super::witness::{WITNESSES, Witnesses};
use crate::harness::buckets::{BUCKETS, bucket, histogram};
use crate::harness::controls::{Controls, join_all, spawn_all};
use crate::harness::crew;
use crate::harness::report::OURS;
use crate::harness::worker::Remote;
use crate::peers::stillpoint::Stillpoint;
use crate::peers::{self, LIBURCU, Reclaim};

/// Work of a callback.
const WORK: Duration = Duration::from_micros(3);

/// Callbacks that wait during a flood, or in front of a waiter: as many as in the post.
pub(super) const CALLBACKS: usize = 3600;

/// Loops of the post.
pub(super) const LOOPS: u64 = 1000;

/// A request to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Load {
    /// Each of `threads` threads waits and frees, over and over. If `flood`, another thread keeps callbacks queued.
    Loops { threads: usize, flood: bool, time: Duration },
    /// A thread queues `callbacks` callbacks and then waits, over and over. If `busy`, another thread works beside it.
    Behind { callbacks: usize, busy: bool, time: Duration },
}

/// The answer of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// Time of [`LOOPS`] loops of all threads, or the median latency of a waiter.
    pub(super) ns: f64,
    /// Share of the waits that began while a witness was inside a section.
    pub(super) checked: f64,
    /// Latencies in the form of the JSON.
    pub(super) counts: Vec<(f64, f64)>,
}

/// A way to wait for grace periods.
trait Track {
    type Library: Reclaim;

    /// Waits for a grace period.
    fn wait(thread: &<Self::Library as Reclaim>::Thread<'_>);

    /// Waits for all callbacks.
    fn barrier();
}

/// `synchronize()`.
struct Separate;

impl Track for Separate {
    type Library = Stillpoint;

    fn wait((): &()) {
        rcu::synchronize();
    }

    fn barrier() {
        rcu::barrier();
    }
}

/// A callback that wakes its caller: behind all other callbacks of the thread, which is how the kernel waited before.
struct ByCallback;

impl Track for ByCallback {
    type Library = Stillpoint;

    fn wait((): &()) {
        let (done, caller) = (Arc::new(AtomicBool::new(false)), thread::current());
        let its_done = Arc::clone(&done);
        rcu::call(move || {
            // Release: the grace period; pairs with the Acquire below.
            its_done.store(true, Ordering::Release);
            caller.unpark();
        });
        while !done.load(Ordering::Acquire) {
            thread::park();
        }
    }

    fn barrier() {
        rcu::barrier();
    }
}

/// `synchronize_rcu()` of liburcu.
#[cfg(feature = "liburcu")]
impl Track for peers::liburcu::Workers<false> {
    type Library = Self;

    fn wait(_: &peers::liburcu::Reader) {
        peers::liburcu::synchronize();
    }

    fn barrier() {
        peers::liburcu::barrier();
    }
}

type Measure = fn(Load) -> anyhow::Result<Answer>;

#[cfg(feature = "liburcu")]
const IN_LIBURCU: Result<Measure, &str> = Ok(measure::<peers::liburcu::Workers<false>>);
#[cfg(not(feature = "liburcu"))]
const IN_LIBURCU: Result<Measure, &str> = Err(peers::NO_LIBURCU);

/// The tracks.
pub(crate) const REMOTES: [Remote<Load, Answer>; 3] = [
    Remote { system: OURS, name: "separate", backend: None, measure: Ok(measure::<Separate>) },
    Remote { system: "callback-track", name: "callback", backend: None, measure: Ok(measure::<ByCallback>) },
    Remote { system: LIBURCU, name: "liburcu", backend: None, measure: IN_LIBURCU },
];

fn measure<T: Track>(load: Load) -> anyhow::Result<Answer> {
    let (library, controls, witnesses) = (T::Library::new()?, Controls::default(), Witnesses::default());
    let answer = controls.scope(|scope| {
        for index in 0..WITNESSES {
            let (library, controls, witnesses) = (&library, &controls, &witnesses);
            crew::spawn(scope, move || witnesses.read(index, library, controls))?;
        }
        match load {
            Load::Loops { threads, flood, time } => {
                if flood {
                    crew::spawn(scope, || keep_flooding::<T>(&library, &controls))?;
                }
                run_loops::<T>(scope, &library, &controls, &witnesses, threads, time)
            }
            Load::Behind { callbacks, busy, time } => {
                if busy {
                    let work = || {
                        while !controls.background_must_stop() {
                            spin_loop();
                        }
                    };
                    crew::spawn(scope, work)?;
                }
                wait_behind::<T>(&library, &witnesses, callbacks, time)
            }
        }
    });
    drop(library.finish());
    answer
}

/// The tasks of the post.
fn run_loops<'scope, T: Track>(
    scope: &'scope Scope<'scope, '_>,
    library: &'scope T::Library,
    controls: &'scope Controls,
    witnesses: &'scope Witnesses,
    threads: usize,
    time: Duration,
) -> anyhow::Result<Answer> {
    let tasks = spawn_all(scope, threads, move || {
        let (mut buckets, mut checked) = ([0_u64; BUCKETS], 0_u64);
        let thread = library.thread();
        controls.begin();
        while !controls.must_stop() || buckets == [0; BUCKETS] {
            let memory = black_box(Box::new([0_u64; 8]));
            let start = Instant::now();
            checked += u64::from(witnesses.check(|| T::wait(&thread)));
            buckets[bucket(start.elapsed())] += 1;
            drop(memory);
        }
        (buckets, checked)
    })?;
    controls.ready.wait_for(threads);
    let start = Instant::now();
    controls.start_and_stop(threads, time);
    let mut counts: Vec<_> = (0..BUCKETS).map(|bucket| ((1_u64 << bucket) as f64, 0.0)).collect();
    let mut all_checked = 0;
    for (buckets, checked) in join_all(tasks)? {
        counts.iter_mut().zip(buckets).for_each(|(sum, count)| sum.1 += count as f64);
        all_checked += checked;
    }
    let waits: f64 = counts.iter().map(|(_, count)| count).sum();
    let ns = start.elapsed().as_nanos() as f64 * threads as f64 * LOOPS as f64 / waits;
    Ok(Answer { ns, checked: all_checked as f64 / waits, counts })
}

/// Callbacks that have not run.
static QUEUED: AtomicUsize = AtomicUsize::new(0);

/// Keeps as many callbacks queued as in the post.
fn keep_flooding<T: Track>(library: &T::Library, controls: &Controls) {
    let thread = library.thread();
    while !controls.background_must_stop() {
        queue::<T>(&thread, CALLBACKS.saturating_sub(QUEUED.load(Ordering::Relaxed)));
        thread::sleep(Duration::from_millis(1));
    }
    T::barrier();
}

/// Queues callbacks.
fn queue<T: Track>(thread: &<T::Library as Reclaim>::Thread<'_>, callbacks: usize) {
    for _ in 0..callbacks {
        QUEUED.fetch_add(1, Ordering::Relaxed);
        T::Library::call(thread, || {
            let start = Instant::now();
            while start.elapsed() < WORK {}
            QUEUED.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// Waits behind `callbacks` callbacks of the same thread.
fn wait_behind<T: Track>(
    library: &T::Library,
    witnesses: &Witnesses,
    callbacks: usize,
    time: Duration,
) -> anyhow::Result<Answer> {
    let thread = library.thread();
    let (mut latencies, mut checked) = (histogram(), 0_u64);
    let begin = Instant::now();
    while begin.elapsed() < time || latencies.is_empty() {
        queue::<T>(&thread, callbacks);
        let start = Instant::now();
        checked += u64::from(witnesses.check(|| T::wait(&thread)));
        latencies.saturating_record(start.elapsed().as_nanos() as u64);
        T::barrier();
        let queued = QUEUED.load(Ordering::Relaxed);
        ensure!(queued == 0, "{queued} callbacks have not run before the end of a barrier");
        // Long enough for an idle worker to fall asleep.
        thread::sleep(Duration::from_millis(1));
    }
    let (ns, waits) = (latencies.value_at_quantile(0.5) as f64, latencies.len() as f64);
    Ok(Answer { ns, checked: checked as f64 / waits, counts: Vec::new() })
}

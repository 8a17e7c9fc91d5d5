//! The worker of E3, which measures one way to wait for grace periods.

use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use crossbeam_utils::CachePadded;
use serde::{Deserialize, Serialize};
use stillpoint::rcu;

use harness::controls::{Controls, join_all, spawn_all};
use harness::crew;
use harness::report::OURS;
use harness::stats::histogram;
use harness::worker::Remote;
use measure::peers::Reclaim;
use measure::peers::stillpoint::Stillpoint;

/// Work of a callback.
const WORK: Duration = Duration::from_micros(3);

/// Length of a section of the witness, and of the pause after it.
const SECTION: Duration = Duration::from_micros(5);
const PAUSE_US: std::ops::RangeInclusive<u64> = 0..=100;

/// Callbacks that wait during a flood, or in front of a waiter: as many as in the post.
pub(super) const CALLBACKS: usize = 3600;

/// Loops of the post.
pub(super) const LOOPS: u64 = 1000;

/// A request to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Load {
    /// Each of `threads` threads waits and frees, over and over. If `flood`, another thread keeps callbacks queued.
    Loops { threads: usize, flood: bool, time: Duration },
    /// A thread queues `callbacks` callbacks and then waits, over and over. If `busy`, another thread works beside
    /// it.
    Behind { callbacks: usize, busy: bool, time: Duration },
}

/// The answer of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// Time of [`LOOPS`] loops of all threads, or the median latency of a waiter.
    pub(super) ns: f64,
    /// Share of the waits that began while the witness was inside a section.
    pub(super) checked: f64,
    /// The number of waits in each bucket: bucket n is of those below 2^n ns, and not below half of that.
    pub(super) counts: Vec<u64>,
}

const BUCKETS: usize = 40;

/// Returns the bucket of a latency.
fn bucket(latency: Duration) -> usize {
    let ns = latency.as_nanos() as u64;
    ((u64::BITS - ns.leading_zeros()) as usize).min(BUCKETS - 1)
}

/// Returns a power of two that at least this part of the waits are below.
pub(super) fn below(counts: &[u64], part: f64) -> f64 {
    let most = (counts.iter().sum::<u64>() as f64 * part).ceil() as u64;
    let mut sum = 0;
    let reaches = |count: &u64| {
        sum += count;
        sum >= most
    };
    counts.iter().position(reaches).map_or(f64::NAN, |bucket| (1_u64 << bucket) as f64)
}

/// The ways to wait.
pub(crate) const REMOTES: &[Remote<Load, Answer>] = &[
    remote(OURS, "separate", |load| measure::<Stillpoint>(load, |()| rcu::synchronize(), rcu::barrier)),
    remote("callback-track", "callback", |load| {
        measure::<Stillpoint>(load, |()| by_callback(), rcu::barrier)
    }),
    #[cfg(feature = "liburcu")]
    remote(measure::peers::LIBURCU, "liburcu", |load| {
        use measure::peers::liburcu::{Workers, barrier, synchronize};
        measure::<Workers<false>>(load, |_| synchronize(), barrier)
    }),
];

const fn remote(
    system: &'static str,
    name: &'static str,
    measure: fn(Load) -> anyhow::Result<Answer>,
) -> Remote<Load, Answer> {
    Remote { system, name, backend: None, measure }
}

/// Waits for a callback that wakes its caller: behind all other callbacks of the thread, as the kernel did before.
fn by_callback() {
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

/// Callbacks that have not run.
static QUEUED: AtomicUsize = AtomicUsize::new(0);

/// A way to wait for grace periods, and the threads of a measurement.
struct Track<R: Reclaim> {
    library: R,
    wait: fn(&R::Thread<'_>),
    barrier: fn(),
    controls: Controls,
    witness: Witness,
}

fn measure<R: Reclaim>(load: Load, wait: fn(&R::Thread<'_>), barrier: fn()) -> anyhow::Result<Answer> {
    let (controls, witness) = Default::default();
    let track = &Track { library: R::new()?, wait, barrier, controls, witness };
    track.controls.scope(|scope| {
        crew::spawn(scope, || track.witness.read(&track.library, &track.controls))?;
        match load {
            Load::Loops { threads, flood, time } => {
                if flood {
                    crew::spawn(scope, || track.keep_flooding())?;
                }
                let tasks = spawn_all(scope, threads, |_| track.wait_and_free())?;
                track.controls.ready.wait_for(threads);
                let start = Instant::now();
                track.controls.start_and_stop(threads, time);
                sum_up(&join_all(tasks)?, start)
            }
            Load::Behind { callbacks, busy, time } => {
                if busy {
                    crew::spawn(scope, || {
                        while !track.controls.background_must_stop() {
                            spin_loop();
                        }
                    })?;
                }
                track.wait_behind(callbacks, time)
            }
        }
    })
}

/// Returns the time of all loops at the rate of these, and how many waits were checked.
fn sum_up(tasks: &[([u64; BUCKETS], u64)], start: Instant) -> anyhow::Result<Answer> {
    let elapsed = start.elapsed().as_nanos() as f64;
    let count = |bucket: usize| tasks.iter().map(|task| task.0[bucket]).sum();
    let counts: Vec<u64> = (0..BUCKETS).map(count).collect();
    let waits = counts.iter().sum::<u64>() as f64;
    let checked = tasks.iter().map(|task| task.1).sum::<u64>() as f64 / waits;
    Ok(Answer { ns: elapsed * tasks.len() as f64 * LOOPS as f64 / waits, checked, counts })
}

impl<R: Reclaim> Track<R> {
    /// Runs a task of the post. Returns the number of waits by latency, and of those that were checked.
    fn wait_and_free(&self) -> ([u64; BUCKETS], u64) {
        let (mut buckets, mut checked) = ([0; BUCKETS], 0);
        let thread = self.library.thread();
        self.controls.begin();
        while !self.controls.must_stop() || buckets == [0; BUCKETS] {
            let memory = black_box(Box::new([0_u64; 8]));
            let start = Instant::now();
            checked += u64::from(self.witness.check(|| (self.wait)(&thread)));
            buckets[bucket(start.elapsed())] += 1;
            drop(memory);
        }
        (buckets, checked)
    }

    /// Keeps as many callbacks queued as in the post.
    fn keep_flooding(&self) {
        let thread = self.library.thread();
        while !self.controls.background_must_stop() {
            Self::queue(&thread, CALLBACKS.saturating_sub(QUEUED.load(Ordering::Relaxed)));
            thread::sleep(Duration::from_millis(1));
        }
        (self.barrier)();
    }

    fn queue(thread: &R::Thread<'_>, callbacks: usize) {
        for _ in 0..callbacks {
            QUEUED.fetch_add(1, Ordering::Relaxed);
            R::call(thread, || {
                let start = Instant::now();
                while start.elapsed() < WORK {}
                QUEUED.fetch_sub(1, Ordering::Relaxed);
            });
        }
    }

    /// Waits behind `callbacks` callbacks of the same thread.
    fn wait_behind(&self, callbacks: usize, time: Duration) -> anyhow::Result<Answer> {
        let thread = self.library.thread();
        let (mut latencies, mut checked) = (histogram(), 0_u64);
        let begin = Instant::now();
        while begin.elapsed() < time || latencies.is_empty() {
            Self::queue(&thread, callbacks);
            let start = Instant::now();
            checked += u64::from(self.witness.check(|| (self.wait)(&thread)));
            latencies.saturating_record(start.elapsed().as_nanos() as u64);
            (self.barrier)();
            let queued = QUEUED.load(Ordering::Relaxed);
            ensure!(queued == 0, "{queued} callbacks have not run before the end of a barrier");
            // Long enough for an idle worker to fall asleep.
            thread::sleep(Duration::from_millis(1));
        }
        let (ns, waits) = (latencies.value_at_quantile(0.5) as f64, latencies.len() as f64);
        Ok(Answer { ns, checked: checked as f64 / waits, counts: Vec::new() })
    }
}

/// A thread that shows when it reads, so that a waiter can check that it waited long enough.
///
/// The witness increments its number at the beginning of each section and before its end, so the number is odd
/// inside. A number that is odd before a grace period must have changed after it: the section had begun, so the grace
/// period waited for its end, which comes after the second increment.
#[derive(Debug, Default)]
struct Witness(CachePadded<AtomicU64>);

impl Witness {
    fn read<R: Reclaim>(&self, library: &R, controls: &Controls) {
        let thread = library.thread();
        // Only this thread writes the number. Release: a thread that reads it knows that the section has begun, or
        // ended; pairs with the Acquire in `check`.
        let step = || self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Release);
        while !controls.background_must_stop() {
            let guard = R::enter(&thread);
            step();
            let start = Instant::now();
            while start.elapsed() < SECTION {}
            step();
            drop(guard);
            thread::sleep(Duration::from_micros(fastrand::u64(PAUSE_US)));
        }
    }

    /// Calls `wait`, which waits for a grace period. Returns whether the witness was inside a section before, and
    /// panics if it is still inside the same section afterwards.
    fn check(&self, wait: impl FnOnce()) -> bool {
        // Acquire: the grace period begins after this; pairs with the Release in `read`.
        let before = self.0.load(Ordering::Acquire);
        wait();
        let was_inside = before % 2 == 1;
        // Relaxed: the grace period orders the end of the section before this.
        let is_still_inside = was_inside && self.0.load(Ordering::Relaxed) == before;
        assert!(!is_still_inside, "a grace period ended inside section {before}, which began before it");
        was_inside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_below_the_power_of_two_of_their_bucket() {
        let mut counts = [0; BUCKETS];
        for ns in [1, 2, 3, 1023] {
            counts[bucket(Duration::from_nanos(ns))] += 1;
        }
        assert_eq!((&counts[..4], counts[10]), (&[0, 1, 2, 0][..], 1));
        assert_eq!([below(&counts, 0.5), below(&counts, 0.99)], [4.0, 1024.0]);
        assert_eq!(bucket(Duration::from_secs(3600)), BUCKETS - 1);
    }

    #[test]
    #[should_panic(expected = "a grace period ended inside section 3")]
    fn short_grace_period_is_noticed() {
        let witness = Witness::default();
        witness.0.store(1, Ordering::Relaxed);
        assert!(witness.check(|| witness.0.store(3, Ordering::Relaxed)));
        witness.check(|| ());
    }
}

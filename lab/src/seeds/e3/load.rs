//! The lane that measures one track (see [`crate::harness::worker`]): in a process of its own, as a registry keeps the size
//! that ten thousand threads once gave it.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use super::track::{Track, Waiter};
use super::witness::{WITNESSES, Witnesses};
use crate::harness::buckets::histogram;
use crate::harness::buckets::{BUCKETS, Counts, bucket};
use crate::harness::crew::{self, Arrivals, Gate};
use crate::harness::worker as lane;

/// Work of a callback of the flood.
const WORK: Duration = Duration::from_micros(3);

/// Callbacks that wait while there is a flood, or in front of a waiter: as many as in the post.
pub(super) const CALLBACKS: usize = 3600;

/// A measurement to make.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Load {
    /// `threads` threads each wait and free as often as each phase says: to start so many costs more than the loops.
    Loops { threads: usize, phases: Vec<Phase> },
    /// A thread queues `callbacks` callbacks and then waits, over and over for `time`; beside it another works, if `busy`.
    Behind { callbacks: usize, busy: bool, time: Duration },
}

/// What all threads do before they go on together.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Phase {
    /// Waits of each thread.
    pub(super) loops: u64,
    /// Whether another thread keeps [`CALLBACKS`] callbacks queued.
    pub(super) flood: bool,
}

/// What the loops of a phase gave.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Loops {
    /// From the first loop of a thread to the last of all threads.
    pub(super) time: Duration,
    /// Latencies of all waits.
    pub(super) buckets: Vec<u64>,
    /// Waits that began while a witness was inside a section.
    pub(super) checked: u64,
}

/// Serve measurements of one track.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The way to wait.
    #[arg(value_enum)]
    track: Track,
}

/// The child.
///
/// # Errors
///
/// Fails if a measurement does, or the parent is gone.
pub(crate) fn serve(args: &Args) -> anyhow::Result<()> {
    lane::serve(args.track.missing(), |load: Load| {
        let answer = match load {
            Load::Loops { threads, phases } => serde_json::to_value(run_loops(args.track, threads, &phases)?),
            Load::Behind { callbacks, busy, time } => {
                serde_json::to_value(run_behind(args.track, callbacks, busy, time)?)
            }
        };
        Ok(answer?)
    })
}

/// What the threads of a measurement wait for and look at.
#[derive(Debug, Default)]
struct Controls {
    witnesses: Witnesses,
    stages: Vec<Stage>,
    stop: AtomicBool,
}

/// Where the threads of a phase meet.
#[derive(Debug, Default)]
struct Stage {
    ready: Arrivals,
    start: Gate,
    done: Arrivals,
    stop_flood: AtomicBool,
}

/// Lets every thread finish when dropped, whatever it waits for: also when a check has failed.
struct End<'a>(&'a Controls);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
        for stage in &self.0.stages {
            stage.stop_flood.store(true, Ordering::Relaxed);
            stage.start.open();
        }
    }
}

/// Runs `measure` beside the witnesses.
fn beside_witnesses<T>(
    track: Track,
    stages: usize,
    measure: impl for<'scope> FnOnce(&'scope Scope<'scope, '_>, &'scope Controls) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let stages = (0..stages).map(|_| Stage::default()).collect();
    let controls = Controls { stages, ..Controls::default() };
    thread::scope(|scope| {
        let controls = &controls;
        let _end = End(controls);
        for index in 0..WITNESSES {
            crew::spawn(scope, move || {
                controls.witnesses.read(index, track.waiter().as_ref(), &controls.stop);
            })?;
        }
        measure(scope, controls)
    })
}

fn run_loops(track: Track, threads: usize, phases: &[Phase]) -> anyhow::Result<Vec<Loops>> {
    beside_witnesses(track, phases.len(), |scope, controls| {
        let mut waiters = Vec::new();
        for _ in 0..threads {
            let phases = phases.to_vec();
            waiters.push(crew::spawn(scope, move || wait_and_free(track, controls, &phases))?);
        }
        let mut sums = Vec::new();
        for (stage, phase) in controls.stages.iter().zip(phases) {
            stage.ready.wait_for(threads);
            let flood = || crew::spawn(scope, move || keep_flooding(track, &stage.stop_flood));
            let flood = phase.flood.then(flood).transpose()?;
            let start = Instant::now();
            stage.start.open();
            stage.done.wait_for(threads);
            sums.push(Loops { time: start.elapsed(), buckets: vec![0; BUCKETS], checked: 0 });
            stage.stop_flood.store(true, Ordering::Relaxed);
            flood.map(crew::join).transpose()?;
        }
        for waiter in waiters {
            for (sum, (buckets, checked)) in sums.iter_mut().zip(crew::join(waiter)?) {
                sum.buckets.iter_mut().zip(buckets).for_each(|(sum, count)| *sum += count);
                sum.checked += checked;
            }
        }
        Ok(sums)
    })
}

/// Arrives when dropped, also by a panic, so that nobody waits for ever for a thread that failed.
struct Arrival<'a>(&'a Arrivals);

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        self.0.arrive();
    }
}

/// A task of the post: wait for a grace period and free something, over and over. For each phase the latencies, and the
/// waits at which the check could have failed.
fn wait_and_free(track: Track, controls: &Controls, phases: &[Phase]) -> Vec<(Counts, u64)> {
    let stages = controls.stages.iter();
    let meetings: Vec<_> =
        stages.map(|stage| (Arrival(&stage.ready), &stage.start, Arrival(&stage.done))).collect();
    let waiter = track.waiter();
    let mut results = Vec::new();
    for ((ready, start, _done), phase) in meetings.into_iter().zip(phases) {
        let (mut buckets, mut checked) = ([0; BUCKETS], 0);
        drop(ready);
        start.wait();
        for _ in 0..phase.loops {
            let memory = black_box(Box::new([0_u64; 8]));
            let start = Instant::now();
            checked += u64::from(controls.witnesses.check(|| waiter.wait()));
            buckets[bucket(start.elapsed())] += 1;
            drop(memory);
        }
        results.push((buckets, checked));
    }
    results
}

/// Callbacks of the flood that have not run.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Keeps as many callbacks queued as in the post, until `stop`.
fn keep_flooding(track: Track, stop: &AtomicBool) {
    let waiter = track.waiter();
    while !stop.load(Ordering::Relaxed) {
        queue(waiter.as_ref(), CALLBACKS.saturating_sub(WAITING.load(Ordering::Relaxed)));
        thread::sleep(Duration::from_millis(1));
    }
    waiter.barrier();
}

/// Queues callbacks that each work for a moment.
fn queue(waiter: &dyn Waiter, callbacks: usize) {
    for _ in 0..callbacks {
        WAITING.fetch_add(1, Ordering::Relaxed);
        waiter.call(|| {
            let start = Instant::now();
            while start.elapsed() < WORK {}
            WAITING.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// The median latency of a wait behind `callbacks` callbacks of the same thread, in nanoseconds; beside a thread that works as
/// the callbacks do, if `busy`.
fn run_behind(track: Track, callbacks: usize, busy: bool, time: Duration) -> anyhow::Result<u64> {
    beside_witnesses(track, 0, |scope, controls| {
        if busy {
            crew::spawn(scope, || {
                while !controls.stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })?;
        }
        let waiter = track.waiter();
        let mut latencies = histogram();
        let begin = Instant::now();
        while begin.elapsed() < time || latencies.is_empty() {
            queue(waiter.as_ref(), callbacks);
            let start = Instant::now();
            controls.witnesses.check(|| waiter.wait());
            latencies.saturating_record(start.elapsed().as_nanos() as u64);
            waiter.barrier();
            let waiting = WAITING.load(Ordering::Relaxed);
            ensure!(waiting == 0, "{waiting} callbacks have not run before the end of a barrier");
            // Long enough for the worker to fall asleep, as it is when nobody has queued anything.
            thread::sleep(Duration::from_millis(1));
        }
        Ok(latencies.value_at_quantile(0.5))
    })
}

//! `bench percpu`: the cost of an operation on per-CPU data, beside alternatives.
//!
//! Every system runs the same loop: in one thread, in one thread a CPU, and in 16 threads a CPU, which the scheduler
//! migrates. `op_ns` is the CPU time of an operation: with more threads than CPUs the wall time would measure the
//! scheduler. Each system is used as its documentation recommends, in its fastest correct form.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::sync::SyncHistogram;
use stillpoint::percpu::{self, Counter, Histogram, Pool};

use harness::report::OURS;
use harness::timed_loop::{Threads, TimedLoop, repeat};
use harness::{Budget, Config, Metric, Plan, Recorder, Report, System, pin};

/// CPU time of an operation.
const OP: Metric = Metric::nanoseconds("op_ns");

/// The loop of a system, in the calling thread. Returns the nanoseconds of an operation.
pub type Loop = Box<dyn Fn(&TimedLoop) -> f64 + Sync>;

/// Runs the bench.
pub fn run(budget: Budget) -> anyhow::Result<Report> {
    let cpus = pin::allowed()?.len();
    let ops = [
        ("add", add(cpus)),
        ("pool", pool(cpus)),
        ("cpu_number", cpu_number()),
        ("histogram", histogram(cpus)),
        ("clone", clone()),
    ];
    let all: usize = ops.iter().map(|(_, systems)| systems.len()).sum();
    let mut recorder = Recorder::new("percpu");
    for (op, mut systems) in ops {
        let budget = budget.share(systems.len() as f64 / all as f64);
        let config = |threads| config(threads, Some(op));
        measure(&OP, &mut systems, config, budget, &mut recorder)?;
    }
    Ok(Report::new(&recorder, Vec::new()))
}

/// Records `metric` of each system for all numbers of threads.
pub fn measure(
    metric: &'static Metric,
    systems: &mut [System<Loop>],
    config: impl Fn(Threads) -> Config,
    budget: Budget,
    recorder: &mut Recorder,
) -> anyhow::Result<()> {
    Plan::new(budget, 40, &Threads::all()?, systems, [metric]).run(
        recorder,
        |&threads, _| Some(config(threads)),
        |threads, system, slice| Ok([threads.measure(slice, |timed_loop| (system.measure)(timed_loop))?]),
    )
}

/// Returns the parameters of a measurement, with the operation if there are several.
pub fn config(threads: Threads, op: Option<&str>) -> Config {
    let (count, per_cpu) = (("threads", threads.count.into()), ("threads_per_cpu", threads.per_cpu.into()));
    match op {
        Some(op) => Config::new([("op", op.into()), count, per_cpu]),
        None => Config::new([count, per_cpu]),
    }
}

/// A system that runs `op` on something shared.
pub fn system<T: Sync + 'static, R>(
    name: &'static str,
    shared: T,
    op: impl Fn(&T) -> R + Sync + 'static,
) -> System<Loop> {
    batches(name, shared, move |shared, n| {
        let op = &op;
        repeat(n, move || {
            op(shared);
            0
        })
    })
}

/// A system that runs a number of operations at a time.
pub fn batches<T: Sync + 'static>(
    name: &'static str,
    shared: T,
    batch: impl Fn(&T, u32) -> u64 + Sync + 'static,
) -> System<Loop> {
    let run = move |timed_loop: &TimedLoop| timed_loop.time_on_cpu(|n| batch(black_box(&shared), n));
    System { name, measure: Box::new(run) }
}

/// Returns one for each CPU.
fn each<T>(cpus: usize, make: impl Fn() -> T) -> Box<[CachePadded<T>]> {
    (0..cpus).map(|_| CachePadded::new(make())).collect()
}

/// Locks the mutex of the current CPU.
#[inline(always)]
fn lock_own<T>(mutexes: &[CachePadded<Mutex<T>>]) -> MutexGuard<'_, T> {
    mutexes[percpu::cpu() % mutexes.len()].lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local!(static LOCAL: Cell<u64> = const { Cell::new(0) });

fn add(cpus: usize) -> Vec<System<Loop>> {
    vec![
        system(OURS, <Counter>::new(), |counter| counter.add(1)),
        // The lower bound: a number that cannot be summed up.
        batches("thread-local", (), |(), n| {
            LOCAL.with(|local| {
                repeat(n, || {
                    let local = black_box(local);
                    local.set(local.get() + 1);
                    0
                })
            })
        }),
        system("shared-atomic", CachePadded::new(AtomicU64::new(0)), |shared| shared.fetch_add(1, Relaxed)),
        // With as many cells as threads at most, as its documentation asks.
        system("fast-counter", fast_counter::ConcurrentCounter::new(16 * cpus), |counter| counter.add(1)),
        system("contatori", contatori::counters::unsigned::Unsigned::new(), |counter| counter.add(1)),
        // The CPU number alone allows this.
        system("atomic-per-cpu", each(cpus, || AtomicU64::new(0)), |words| {
            words[percpu::cpu() % words.len()].fetch_add(1, Relaxed)
        }),
        system("mutex-per-cpu", each(cpus, || Mutex::new(0u64)), |numbers| *lock_own(numbers) += 1),
    ]
}

/// A clone of a pointer that all threads share, which is dropped at once.
fn clone() -> Vec<System<Loop>> {
    let owner = percpu::ArcOwner::new(5u64);
    let pair = |local: &Cell<u64>| {
        local.set(local.get() + 1);
        black_box(local).set(local.get() - 1);
        0
    };
    vec![
        system(OURS, owner, |owner| drop(black_box(percpu::ArcOwner::share(owner)))),
        system("std-arc", Arc::new(5u64), |shared| drop(black_box(shared.clone()))),
        // The lower bound: a number up and down that cannot be summed up.
        batches("thread-local", (), move |(), n| LOCAL.with(|local| repeat(n, || pair(black_box(local))))),
        // What clones in the same loop pay without one word for all: two words of the current CPU.
        system("counter-pair", Counter::<i64>::new(), |counter| {
            counter.add(1);
            counter.add(-1);
        }),
    ]
}

/// A pooled object.
type Buffer = [u64; 8];

fn pool(cpus: usize) -> Vec<System<Loop>> {
    let ours = Pool::new(32);
    for _ in 0..16 * cpus {
        let _ = ours.push(Box::new([0; 8]));
    }
    let full = || Mutex::new((0..16).map(|_| Box::new([0; 8])).collect::<Vec<Box<Buffer>>>());
    vec![
        system(OURS, ours, |pool| {
            let buffer = pool.pop().unwrap_or_default();
            pool.push(buffer)
        }),
        // The thread may migrate between the two.
        system("mutex-per-cpu", each(cpus, full), |pools| {
            let buffer = lock_own(pools).pop().unwrap_or_default();
            lock_own(pools).push(buffer);
        }),
        system("malloc", (), |()| drop(black_box(Box::<Buffer>::default()))),
    ]
}

pub fn cpu_number() -> Vec<System<Loop>> {
    vec![
        batches(OURS, (), |(), n| repeat(n, || black_box(percpu::cpu()) as u64)),
        // SAFETY: takes nothing.
        batches("sched_getcpu", (), |(), n| repeat(n, || black_box(unsafe { libc::sched_getcpu() }) as u64)),
    ]
}

fn histogram(cpus: usize) -> Vec<System<Loop>> {
    let hdr = || Hdr::<u64>::new_with_bounds(1, 1 << 40, 1).expect("the bounds are in order");
    let shared = Mutex::new(SyncHistogram::from(hdr()));
    let recorder = move |timed_loop: &TimedLoop| {
        let mut recorder = shared.lock().unwrap_or_else(PoisonError::into_inner).recorder();
        timed_loop.time_on_cpu(|n| {
            repeat(n, || {
                recorder.record(black_box(12_345)).expect("it is in the bounds");
                0
            })
        })
    };
    vec![
        system(OURS, Histogram::new(), |histogram| histogram.record(black_box(12_345))),
        // A recorder for each thread is its fastest form.
        System { name: "hdrhistogram-recorder", measure: Box::new(recorder) },
        system("hdrhistogram-mutex-per-cpu", each(cpus, move || Mutex::new(hdr())), |histograms| {
            lock_own(histograms).record(black_box(12_345)).expect("it is in the bounds");
        }),
    ]
}

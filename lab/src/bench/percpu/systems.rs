//! The systems of the per-CPU bench, each as its documentation recommends, in its fastest correct form.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crossbeam_utils::CachePadded;
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::sync::SyncHistogram;
use stillpoint::percpu::{self, Counter, Histogram, Pool};

use crate::harness::report::OURS;
use crate::harness::timed_loop::{TimedLoop, repeat};

/// A way to do an operation.
pub(super) trait System: Sync {
    /// Name in the report.
    fn name(&self) -> &'static str;

    /// Operates in the calling thread until the time is over; the nanoseconds of an operation.
    fn run(&self, timed_loop: &TimedLoop) -> f64;
}

/// An operation, and the systems that do it.
type Op = (&'static str, Vec<Box<dyn System>>);

/// A system that is a loop over something shared.
struct Loop<T, F> {
    name: &'static str,
    shared: T,
    body: F,
}

impl<T: Sync, F: Fn(&T, u32) -> u64 + Sync> System for Loop<T, F> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&self, timed_loop: &TimedLoop) -> f64 {
        timed_loop.time_on_cpu(|n| (self.body)(black_box(&self.shared), n))
    }
}

fn system<T: Sync + 'static>(
    name: &'static str,
    shared: T,
    body: impl Fn(&T, u32) -> u64 + Sync + 'static,
) -> Box<dyn System> {
    Box::new(Loop { name, shared, body })
}

/// One for each CPU.
fn each<T>(cpus: usize, make: impl Fn() -> T) -> Box<[CachePadded<T>]> {
    (0..cpus).map(|_| CachePadded::new(make())).collect()
}

/// All operations. There are `cpus` CPUs.
pub(super) fn all(cpus: usize) -> Vec<Op> {
    vec![
        ("add", add(cpus)),
        ("pool", pool(cpus)),
        ("cpu_number", cpu_number()),
        ("histogram", histogram(cpus)),
    ]
}

thread_local!(static LOCAL: Cell<u64> = const { Cell::new(0) });

fn add(cpus: usize) -> Vec<Box<dyn System>> {
    vec![
        system(OURS, Counter::new(), |counter, n| {
            repeat(n, move || {
                counter.add(1);
                0
            })
        }),
        // The lower bound: a number that cannot be summed up.
        system("thread-local", (), |(), n| {
            LOCAL.with(|local| {
                repeat(n, move || {
                    let local = black_box(local);
                    local.set(local.get() + 1);
                    0
                })
            })
        }),
        system("shared-atomic", CachePadded::new(AtomicU64::new(0)), |shared, n| {
            repeat(n, move || {
                shared.fetch_add(1, Relaxed);
                0
            })
        }),
        // With as many cells as threads at most, which its documentation asks for.
        system("fast-counter", fast_counter::ConcurrentCounter::new(16 * cpus), |counter, n| {
            repeat(n, move || {
                counter.add(1);
                0
            })
        }),
        system("contatori", contatori::counters::unsigned::Unsigned::new(), |counter, n| {
            repeat(n, move || {
                counter.add(1);
                0
            })
        }),
        // What one can do with the CPU's number alone.
        system("atomic-per-cpu", each(cpus, || AtomicU64::new(0)), |words, n| {
            repeat(n, move || {
                words[percpu::cpu() % words.len()].fetch_add(1, Relaxed);
                0
            })
        }),
        system("mutex-per-cpu", each(cpus, || Mutex::new(0u64)), |words, n| {
            repeat(n, move || {
                *words[percpu::cpu() % words.len()].lock().unwrap_or_else(PoisonError::into_inner) += 1;
                0
            })
        }),
    ]
}

/// What is pooled.
type Buffer = [u64; 8];

fn pool(cpus: usize) -> Vec<Box<dyn System>> {
    let ours = Pool::new(32);
    for _ in 0..16 * cpus {
        let _ = ours.push(Box::new([0; 8]));
    }
    let full = || Mutex::new((0..16).map(|_| Box::new([0; 8])).collect::<Vec<Box<Buffer>>>());
    vec![
        system(OURS, ours, |pool, n| {
            repeat(n, move || {
                let buffer = pool.pop().unwrap_or_default();
                let _ = pool.push(buffer);
                0
            })
        }),
        // Taken from one, put back into one: perhaps another CPU's by then.
        system("mutex-per-cpu", each(cpus, full), |pools, n| {
            let lock = |cpu: usize| pools[cpu % pools.len()].lock().unwrap_or_else(PoisonError::into_inner);
            repeat(n, move || {
                let buffer = lock(percpu::cpu()).pop().unwrap_or_default();
                lock(percpu::cpu()).push(buffer);
                0
            })
        }),
        system("malloc", (), |(), n| {
            repeat(n, move || {
                drop(black_box(Box::<Buffer>::default()));
                0
            })
        }),
    ]
}

fn cpu_number() -> Vec<Box<dyn System>> {
    vec![
        system(OURS, (), |(), n| repeat(n, || black_box(percpu::cpu()) as u64)),
        // SAFETY: takes nothing.
        system("sched_getcpu", (), |(), n| repeat(n, || black_box(unsafe { libc::sched_getcpu() }) as u64)),
    ]
}

fn histogram(cpus: usize) -> Vec<Box<dyn System>> {
    let hdr = || Hdr::<u64>::new_with_bounds(1, 1 << 40, 1).expect("the bounds are in order");
    vec![
        system(OURS, Histogram::new(), |histogram, n| {
            repeat(n, move || {
                histogram.record(black_box(12_345));
                0
            })
        }),
        // Its fastest: a recorder for each thread.
        Box::new(HdrRecorder(Mutex::new(hdr().into()))),
        system("hdrhistogram-mutex-per-cpu", each(cpus, move || Mutex::new(hdr())), |histograms, n| {
            repeat(n, move || {
                let cpu = percpu::cpu() % histograms.len();
                let mut histogram = histograms[cpu].lock().unwrap_or_else(PoisonError::into_inner);
                histogram.record(black_box(12_345)).expect("it is in the bounds");
                0
            })
        }),
    ]
}

struct HdrRecorder(Mutex<SyncHistogram<u64>>);

impl System for HdrRecorder {
    fn name(&self) -> &'static str {
        "hdrhistogram-recorder"
    }

    fn run(&self, timed_loop: &TimedLoop) -> f64 {
        let mut recorder = self.0.lock().unwrap_or_else(PoisonError::into_inner).recorder();
        timed_loop.time_on_cpu(|n| {
            repeat(n, || {
                recorder.record(black_box(12_345)).expect("it is in the bounds");
                0
            })
        })
    }
}

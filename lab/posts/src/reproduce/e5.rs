//! E5: a per-CPU counter by `lock; cmpxchg`, by `cmpxchg` in an rseq critical section, and by load and store in one,
//! which is the library's; and the cost of the CPU number.
//!
//! The loops come from `bench percpu`. The overhead of a row is its loop less the bare loop, in the same round.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crossbeam_utils::CachePadded;
use stillpoint::percpu::{self, Counter};

use super::posted::posted;
use harness::report::{OURS, Skipped};
use harness::timed_loop::{Threads, repeat};
use harness::{Budget, Metric, Recorder, Report, System};
use measure::bench::percpu::{Loop, batches, config, cpu_number, measure, system};

/// CPU time of an iteration.
const LOOP: Metric = Metric::nanoseconds("loop_ns");
/// The same, less that of the bare loop.
const OVERHEAD: Metric = Metric::nanoseconds("overhead_ns");
/// CPU time of a look-up of the CPU number.
const NUMBER: Metric = Metric::nanoseconds("cpu_number_ns");

const BARE: &str = "bare-loop";
const LOCKED: &str = "lock-cmpxchg";
const LOCKED_VDSO: &str = "lock-cmpxchg-vdso";
const RESTARTED: &str = "cmpxchg-restart";
const VDSO: &str = "vdso-getcpu";

type GetCpu = extern "C" fn(*mut libc::c_uint, *mut libc::c_uint, *mut libc::c_void) -> libc::c_int;

/// Returns the vdso's function, which the C library does not call if it has the number itself.
fn vdso_getcpu() -> Option<GetCpu> {
    // SAFETY: the names are C strings; the kernel's library is in every process and stays; the function has this
    // type.
    unsafe {
        let vdso = libc::dlopen(c"linux-vdso.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if vdso.is_null() {
            return None;
        }
        let found = libc::dlsym(vdso, c"__vdso_getcpu".as_ptr());
        (!found.is_null()).then(|| std::mem::transmute::<*mut libc::c_void, GetCpu>(found))
    }
}

#[inline(always)]
fn call(getcpu: GetCpu) -> usize {
    let mut cpu = 0;
    getcpu(&mut cpu, std::ptr::null_mut(), std::ptr::null_mut());
    cpu as usize
}

/// Increments a counter by `lock; cmpxchg`.
#[inline(always)]
fn increment(word: &AtomicU64) {
    let mut old = word.load(Relaxed);
    while let Err(now) = word.compare_exchange(old, old + 1, Relaxed, Relaxed) {
        old = now;
    }
}

/// Returns a counter for each CPU.
fn counters() -> Box<[CachePadded<AtomicU64>]> {
    (0..percpu::report().cpus()).map(|_| CachePadded::new(AtomicU64::new(0))).collect()
}

/// A `cmpxchg` in a critical section, where there is one.
fn restarted() -> Option<System<Loop>> {
    #[cfg(target_arch = "x86_64")]
    return super::section::area_offset().map(|offset| {
        system(RESTARTED, counters(), move |rows| {
            // SAFETY: there is a row for each CPU, and the offset is that of every thread.
            while !unsafe { super::section::increment(rows.as_ptr(), rows.len(), offset) } {}
        })
    });
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// Runs the experiment.
pub(crate) fn run(budget: Budget) -> anyhow::Result<Report> {
    let mut loops = vec![
        batches(BARE, (), |(), n| repeat(n, || black_box(0))),
        system(LOCKED, counters(), |words| increment(&words[percpu::cpu()])),
        system(OURS, <Counter>::new(), |counter| counter.add(1)),
    ];
    let mut numbers = cpu_number();
    numbers.retain(|system| system.name == OURS);
    let mut skipped = Vec::new();
    let mut skip = |system: &'static str, why: &str| {
        skipped.push(Skipped { system: system.into(), why: why.to_owned() });
    };
    match restarted() {
        Some(restarted) => loops.push(restarted),
        None => skip(RESTARTED, "needs x86-64 and a C library that registers threads (glibc 2.35)"),
    }
    match vdso_getcpu() {
        Some(getcpu) => {
            loops.push(system(LOCKED_VDSO, counters(), move |words| increment(&words[call(getcpu)])));
            numbers.push(batches(VDSO, (), move |(), n| repeat(n, || black_box(call(getcpu)) as u64)));
        }
        None => [LOCKED_VDSO, VDSO].iter().for_each(|name| skip(name, "the vdso has no getcpu")),
    }
    let mut recorder = Recorder::new("e5");
    let config = |threads| config(threads, None);
    let part = loops.len() as f64 / (loops.len() + numbers.len()) as f64;
    measure(&LOOP, &mut loops, config, budget.share(part), &mut recorder)?;
    measure(&NUMBER, &mut numbers, config, budget.share(1.0 - part), &mut recorder)?;
    for config in Threads::all()?.into_iter().map(config) {
        for system in loops.iter().filter(|system| system.name != BARE) {
            let (of, bare) = ((system.name, &LOOP, &config), (BARE, &LOOP, &config));
            recorder.derive(&OVERHEAD, of, bare, |of, bare| of - bare);
        }
    }
    let posted = posted(
        "per-CPU critical sections, RFC, 2015; 32 threads on a 16-core Xeon E5-2630 v3",
        "load-store with restart costs least; its overhead is 3.2 times smaller than that of lock; cmpxchg (5.4 times with \
         the number of the CPU from the vdso), and the number from memory a small part of the vdso's",
        &[
            "Posted: a loop, ns
             | loop | overhead
             bare-loop | 3.7 | 0
             lock-cmpxchg | 22.0 | 18.3
             cmpxchg-restart | 11.1 | 7.4
             load-store with restart | 9.4 | 5.7",
            "Posted: the number of the CPU, ns
             | number
             vdso | 12.7
             TLS-cached | 0.3",
        ],
    );
    Ok(Report { posted, ..Report::new(&recorder, skipped) })
}

//! Per-CPU data: mode, CPU number, counters.

use stillpoint::percpu::{self, BucketHistogram, Counter, Histogram, Mode};
#[cfg(not(stillpoint_portable))]
use support::fork;
use support::prelude::*;
#[cfg(target_os = "linux")]
use support::rseq;
use support::variants::VARIANTS;

/// Adds in several threads that migrate, while another thread checks that no sum decreases.
#[cfg(target_os = "linux")]
fn add_under_load(counter: &Counter, threads: u64, adds: u64, unregistered: impl Fn(u64) -> bool + Sync) {
    let cpus = rseq::allowed_cpus();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|number| {
                let (cpus, unregistered) = (&cpus, &unregistered);
                scope.spawn(move || {
                    if unregistered(number) {
                        rseq::unregister();
                    }
                    for add in 0..adds {
                        counter.add(1);
                        match add % 512 {
                            0 => rseq::pin(&[cpus[(add / 512 + number) as usize % cpus.len()]]),
                            100 => rseq::pin(cpus),
                            200 => thread::yield_now(),
                            _ => {}
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut last = 0;
            while !stop.load(Relaxed) {
                let now = counter.get();
                assert!(now >= last, "{now} after {last}");
                last = now;
            }
        });
        for worker in workers {
            worker.join().expect("the worker ends");
        }
        stop.store(true, Relaxed);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn sums_are_exact_while_threads_migrate() {
    alone!(in each variant);
    let counter = Counter::new();
    let rounds = repetitions(50_000) as u64;
    add_under_load(&counter, 16, rounds, |_| false);
    assert_eq!(counter.get(), 16 * rounds);
}

#[cfg(target_os = "linux")]
#[test]
fn registered_and_unregistered_threads_share_a_counter() {
    let _running = deadline();
    let counter = Counter::new();
    let rounds = repetitions(50_000) as u64;
    add_under_load(&counter, 8, rounds, |number| number % 2 == 0);
    assert_eq!(counter.get(), 8 * rounds);
}

#[test]
fn counters_count_and_wrap_in_every_integer_of_64_bits() {
    static LEVEL: Counter<i64> = Counter::new();
    in_threads(4, |_| (0..1000).for_each(|_| LEVEL.add(-1)));
    assert_eq!((LEVEL.get(), format!("{LEVEL:?}")), (-4000, "Counter(-4000)".into()));
    let (unsigned, signed) = (Counter::new(), Counter::<i64>::default());
    let (bytes, change) = (Counter::<usize>::new(), Counter::<isize>::new());
    [u64::MAX, 3].into_iter().for_each(|by| unsigned.add(by));
    [i64::MAX, 1].into_iter().for_each(|by| signed.add(by));
    [usize::MAX - 7, 3].into_iter().for_each(|by| bytes.add(by));
    [isize::MIN, 1].into_iter().for_each(|by| change.add(by));
    assert_eq!((unsigned.get(), signed.get()), (2, i64::MIN));
    assert_eq!((bytes.get(), change.get()), (usize::MAX - 4, isize::MIN + 1));
    assert_eq!(format!("{change:>24}|{bytes}"), "    -9223372036854775807|18446744073709551611");
}

#[test]
fn sum_acquires_what_precedes_an_add() {
    let _running = deadline();
    for _ in 0..300 {
        let (counter, before) = (Counter::new(), AtomicU64::new(0));
        counter.prepare();
        thread::scope(|scope| {
            scope.spawn(|| {
                for done in 1..=10 {
                    before.store(done, Relaxed);
                    counter.add(1);
                }
            });
            loop {
                let found = counter.get();
                assert!(before.load(Relaxed) >= found);
                if found == 10 {
                    break;
                }
                thread::yield_now();
            }
        });
    }
}

#[test]
fn snapshot_sum_includes_each_counted_value() {
    let values = repetitions(20_000) as u64;
    // Its bucket is summed long after the first.
    const VALUE: u64 = 1 << 40;
    alone!(in each variant);
    let histogram = Histogram::new();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..values).for_each(|_| histogram.record(VALUE)));
        }
        loop {
            let seen = histogram.snapshot();
            assert!(seen.sum() >= VALUE * seen.count(), "{seen}");
            if seen.count() == 2 * values {
                assert_eq!(seen.sum(), 2 * values * VALUE);
                break;
            }
        }
    });
}

#[test]
fn snapshot_displays_count_sum_and_quantiles() {
    let histogram = Histogram::new();
    assert_eq!(histogram.to_string(), "0 values, sum 0");
    (0..100).for_each(|_| histogram.record(5));
    histogram.record(7);
    let line = "101 values, sum 507: 50 % up to 5, 90 % up to 5, 99 % up to 5, all up to 7";
    assert_eq!(histogram.snapshot().to_string(), line);
}

#[cfg(not(stillpoint_portable))]
#[test]
fn cpu_number_follows_the_thread() {
    alone!(in each variant);
    let cpus = rseq::allowed_cpus();
    assert!(percpu::report().cpus() > *cpus.last().expect("there is a CPU"));
    for &cpu in &cpus {
        rseq::pin(&[cpu]);
        assert_eq!(percpu::cpu(), cpu);
    }
    // In a thread that starts later, too.
    let seen = thread::spawn(percpu::cpu).join().expect("the thread ends");
    assert_eq!(seen, *cpus.last().expect("there is a CPU"));
}

#[cfg(not(stillpoint_portable))]
#[test]
fn report_names_the_registration() {
    let Some(variant) = child::variant() else {
        let test = report_names_the_registration;
        for (variant, environment) in ["library", "own", "atomic"].into_iter().zip(VARIANTS) {
            child::with_environment(test, variant, environment);
        }
        for mode in ["rseq", "neither"] {
            child::with_environment(test, mode, &[("STILLPOINT_PERCPU", mode)]);
        }
        return;
    };
    let report = percpu::report();
    let text = report.to_string();
    // SAFETY: the name is a C string, and the symbol that of a number.
    let size = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()).cast::<u32>().as_ref() };
    let (glibc, registers) = (size.is_some(), size.is_some_and(|&size| size != 0));
    let expected = match variant.as_str() {
        "library" if registers => "rseq: the C library registers each thread",
        "rseq" if registers => "rseq: rseq was asked for; the C library registers each thread",
        // Also glibc 2.36 on RISC-V.
        "library" | "own" if glibc || cfg!(target_env = "musl") => {
            "rseq: the C library does not register threads, each is registered here at its first use"
        }
        "atomic" => "atomic: atomic was asked for; it needs nothing",
        "neither" => "atomic: STILLPOINT_PERCPU names no mode (rseq, atomic)",
        _ => return eprintln!("not checked with this C library: {text}"),
    };
    assert_eq!(text, expected);
    assert_eq!(percpu::register_thread(), report.mode() == Mode::Rseq);
}

#[cfg(not(stillpoint_portable))]
#[test]
fn own_registration_ends_with_the_thread() {
    if child::variant().is_none() {
        child::with_environment(own_registration_ends_with_the_thread, "", VARIANTS[1]);
        return;
    }
    let _running = deadline();
    // Later threads use its memory again, and the kernel would write to it.
    let counter = Counter::<u64>::new();
    for _ in 0..500 {
        in_threads(4, |_| {
            counter.add(1);
            thread::yield_now();
            counter.add(1);
        });
    }
    assert_eq!(counter.get(), 4000);
}

#[test]
fn thread_local_destructor_may_add() {
    alone!(in each variant);
    static ENDED: Counter = Counter::new();
    struct AddsLate;
    impl Drop for AddsLate {
        fn drop(&mut self) {
            ENDED.add(1);
        }
    }
    thread_local!(static LATE: AddsLate = const { AddsLate });
    for early in [false, true] {
        thread::spawn(move || {
            if early {
                ENDED.add(1);
            }
            LATE.with(|_| ());
            ENDED.add(1);
        })
        .join()
        .expect("the thread ends");
    }
    assert_eq!(ENDED.get(), 5);
}

#[cfg(not(stillpoint_portable))]
#[test]
fn fork_child_keeps_counting() {
    alone!(in each variant);
    let counter = Counter::<u64>::new();
    counter.add(2);
    fork::in_child(|| {
        (0..1000).for_each(|_| counter.add(1));
        assert_eq!(counter.get(), 1002);
    });
    assert_eq!(counter.get(), 2);
}

#[test]
fn histogram_counts_each_value_once() {
    alone!(in each variant);
    let histogram = Histogram::new();
    let all = repetitions(10_000) as u64;
    in_threads(8, |_| {
        for value in 0..all {
            histogram.record(value);
            if value % 1000 == 0 {
                thread::yield_now();
            }
        }
    });
    let seen = histogram.snapshot();
    assert_eq!(seen.count(), 8 * all);
    // Each thread has recorded each value of a bucket once.
    for (low, high, count) in seen.buckets() {
        let values = all.min(high + 1) - low;
        assert_eq!(count, 8 * values, "{low}..={high}");
    }
    assert_eq!(seen.sum(), 8 * (0..all).sum::<u64>());
    assert_eq!(seen.quantile(0.0), Some(0));
    assert!(seen.quantile(1.0).is_some_and(|most| most >= all - 1));
    histogram.record(u64::MAX);
    let later = histogram.snapshot().since(&seen);
    assert_eq!((later.count(), later.sum(), later.quantile(0.5)), (1, u64::MAX, Some(u64::MAX)));
    assert_eq!(Histogram::new().snapshot().quantile(0.5), None);
}

#[cfg(not(stillpoint_portable))]
#[test]
fn thread_that_other_code_has_registered_is_reported() {
    if child::variant().is_none() {
        child::with_environment(
            thread_that_other_code_has_registered_is_reported,
            "registered",
            &[("GLIBC_TUNABLES", "glibc.pthread.rseq=0")],
        );
        return;
    }
    if !rseq::register() {
        return eprintln!("NOT CHECKED: no rseq, or the C library registers threads");
    }
    let report = percpu::report();
    assert_eq!(report.mode(), Mode::Atomic, "{report}");
    assert!(report.to_string().contains("other code, such as another copy of this library"), "{report}");
}

#[test]
fn histogram_with_bounds_counts_each_value_once() {
    alone!(in each variant);
    const BOUNDS: [u64; 16] =
        [0, 1, 3, 10, 30, 100, 300, 999, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 9998];
    let histogram = BucketHistogram::new(&BOUNDS);
    let all = repetitions(10_000) as u64;
    in_threads(8, |_| (0..all).for_each(|value| histogram.record(value)));
    let seen = histogram.snapshot();
    for (bound, count) in seen.cumulative(BOUNDS) {
        assert_eq!(count, 8 * all.min(bound + 1), "{bound}");
    }
    assert_eq!((seen.count(), seen.sum()), (8 * all, 8 * (0..all).sum::<u64>()));
    for bounds in [&[1, 1][..], &[2, 1], &[0; 17]] {
        let refused = catch_unwind(|| BucketHistogram::new(bounds)).expect_err("no such bounds");
        assert!(message(&*refused).contains("bounds"), "{}", message(&*refused));
    }
}

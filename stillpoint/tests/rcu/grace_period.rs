//! Grace periods and their callers.

use std::hint::spin_loop;

use support::prelude::*;

#[test]
fn grace_period_without_readers_issues_no_heavy_fence() {
    own!(Own);
    Own.synchronize();
    assert_eq!((Own.stats().grace_periods, Own.stats().heavy_fences), (1, 0));
    // The caller alone does not count as a reader.
    drop(Own::enter());
    Own.synchronize();
    assert_eq!((Own.stats().grace_periods, Own.stats().heavy_fences), (2, 0));
}

#[test]
fn sleeping_grace_period_is_woken_once() {
    own!(Own);
    const READERS: usize = 4;
    let (inside, leave) = (Barrier::new(READERS + 1), Barrier::new(READERS + 1));
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                let guard = Own::enter();
                inside.wait();
                leave.wait();
                drop(guard);
            });
        }
        inside.wait();
        let writer = waiting_synchronize::<Own>();
        leave.wait();
        writer.join().expect("the grace period ends");
    });
    let stats = Own.stats();
    assert_eq!((stats.grace_periods, stats.sleeps, stats.heavy_fences), (1, 1, 2));
    assert!(stats.wakeups <= 1, "{stats:?}");
}

#[test]
fn later_sections_do_not_delay_a_grace_period() {
    own!(Own);
    let first = Own::enter();
    let writer = waiting_synchronize::<Own>();
    let (entered, done) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            let guard = Own::enter();
            entered.wait();
            done.wait();
            drop(guard);
        });
        entered.wait();
        drop(first);
        writer.join().expect("the grace period ends before the later section");
        done.wait();
    });
}

#[test]
fn grace_periods_end_beside_overlapping_sections() {
    own!(Own);
    const READERS: u64 = 3;
    let stop = AtomicBool::new(false);
    let entries = AtomicU64::new(0);
    let reached = |count| {
        until(|| entries.load(Acquire) >= count || stop.load(Relaxed));
    };
    thread::scope(|scope| {
        for own in 0..READERS {
            let (stop, entries) = (&stop, &entries);
            scope.spawn(move || {
                // A relay: a reader leaves only after the next one has entered.
                for entry in (own..).step_by(READERS as usize).take_while(|_| !stop.load(Relaxed)) {
                    reached(entry);
                    let guard = Own::enter();
                    entries.fetch_max(entry + 1, Release);
                    reached(entry + 2);
                    drop(guard);
                }
            });
        }
        reached(1);
        for _ in 0..200 {
            Own.synchronize();
        }
        stop.store(true, Relaxed);
    });
    assert_eq!(Own.stats().grace_periods, 200);
}

#[test]
fn callers_during_a_grace_period_share_the_next_one() {
    own!(Own);
    const CALLERS: u64 = 31;
    let grace_periods = || {
        let before = Own.stats();
        let guard = Own::enter();
        let first = waiting_synchronize::<Own>();
        let others: Vec<_> = (0..CALLERS).map(|_| thread::spawn(|| Own.synchronize())).collect();
        until(|| Own.stats().callers >= before.callers + 1 + CALLERS);
        assert_eq!(Own.stats().grace_periods, before.grace_periods);
        assert!(others.iter().all(|other| !other.is_finished()));
        drop(guard);
        first.join().expect("the grace period ends");
        for other in others {
            other.join().expect("the grace period ends");
        }
        Own.stats().grace_periods - before.grace_periods
    };
    // Once more if a caller, which was counted before it took its snapshot, took it during the second one.
    until(|| grace_periods() == 2);
}

#[test]
fn tried_grace_period_waits_for_no_reader() {
    own!(Own);
    assert!(Own.try_synchronize());
    assert_eq!(Own.stats().grace_periods, 1);
    let cookie = GracePeriod::now_in(Own);
    let guard = Own::enter();
    assert!(!Own.try_synchronize(), "inside a section of its own");
    // Beside a leader that sleeps for the section, and without one.
    let others_try =
        || thread::scope(|scope| scope.spawn(|| Own.try_synchronize()).join()).expect("no panic");
    assert!(!others_try());
    let writer = waiting_synchronize::<Own>();
    assert!(!others_try() && !cookie.is_elapsed());
    drop(guard);
    writer.join().expect("the grace period ends");
    assert!(cookie.is_elapsed());
    until(|| Own.try_synchronize());
}

/// How long a try waits for a leader that has no CPU.
const PATIENCE: Duration = Duration::from_millis(50);

#[test]
fn tried_grace_periods_beside_tries_that_fail_elapse() {
    own!(Own);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                // Fails if the other thread is inside.
                let _ = Own.try_synchronize();
            }
        });
        let failed = (0..repetitions(10_000)).filter(|_| {
            let guard = Own::enter();
            (0..100).for_each(|_| spin_loop());
            drop(guard);
            let begin = Instant::now();
            !Own.try_synchronize() && begin.elapsed() < PATIENCE
        });
        let failed = failed.count();
        stop.store(true, Relaxed);
        assert_eq!(failed, 0, "nothing blocks them");
    });
}

#[test]
fn tried_grace_periods_beside_other_leaders_elapse() {
    own!(Own);
    in_threads(8, |caller| {
        // A grace period with readers issues a fence, and takes some time.
        Own::register();
        for _ in 0..repetitions(20_000) {
            if caller == 0 {
                Own.synchronize();
            }
            let begin = Instant::now();
            assert!(Own.try_synchronize() || begin.elapsed() >= PATIENCE, "nothing blocks it");
        }
    });
}

#[test]
fn writes_before_synchronize_are_visible_after_it() {
    own!(Own);
    const CALLERS: usize = 32;
    // Relaxed, all of them: only the grace period orders the first store before the second.
    static WRITTEN: [AtomicU64; CALLERS] = [const { AtomicU64::new(0) }; CALLERS];
    static RETURNED: [AtomicU64; CALLERS] = [const { AtomicU64::new(0) }; CALLERS];
    thread::scope(|scope| {
        let writers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                scope.spawn(move || {
                    for round in 1..=repetitions(200) as u64 {
                        WRITTEN[caller].store(round, Relaxed);
                        if caller % 2 == 0 {
                            Own.synchronize();
                        } else if !Own.try_synchronize() {
                            continue;
                        }
                        RETURNED[caller].store(round, Relaxed);
                    }
                })
            })
            .collect();
        Own::register();
        while !writers.iter().all(|writer| writer.is_finished()) {
            for (written, returned) in WRITTEN.iter().zip(&RETURNED) {
                let returned = returned.load(Relaxed);
                let guard = Own::enter();
                let written = written.load(Relaxed);
                drop(guard);
                assert!(written >= returned, "{written} < {returned}");
            }
        }
    });
}

#[test]
fn grace_period_skips_idle_threads_until_they_read() {
    own!(Own);
    let visited = || {
        let before = Own.stats();
        Own.synchronize();
        assert_eq!(Own.stats().grace_periods, before.grace_periods + 1);
        Own.stats().scanned - before.scanned
    };
    let step = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Does nothing in a thread that is not registered.
            Own::hint_idle();
            drop(Own::enter());
            step.wait();
            step.wait();
            Own::hint_idle();
            step.wait();
            step.wait();
            let guard = Own::enter();
            // Does nothing inside a section.
            Own::hint_idle();
            assert!(Own::in_read_section());
            drop(guard);
            step.wait();
            step.wait();
            Own::hint_idle();
            Own::hint_idle();
            step.wait();
        });
        for expected in [1, 0, 1] {
            step.wait();
            assert_eq!(visited(), expected);
            step.wait();
        }
        step.wait();
        assert_eq!(visited(), 0);
    });
}

#[test]
fn grace_period_skips_readers_of_threads_that_have_exited() {
    own!(Own);
    let all = Barrier::new(100);
    thread::scope(|scope| {
        let threads = [(); 100].map(|()| {
            scope.spawn(|| {
                (0..repetitions(1000)).for_each(|_| drop(Own::enter()));
                all.wait();
            })
        });
        // The scope does not wait for destructors of thread-local variables; this does.
        for thread in threads {
            thread.join().expect("no panic");
        }
    });
    // A thread that is registered, so that a grace period scans.
    Own::register();
    let others = thread::spawn(|| {
        Own.synchronize();
        Own.stats()
    });
    let stats = others.join().expect("no panic");
    assert_eq!((stats.readers, stats.grace_periods, stats.scanned), (100, 1, 1));
}

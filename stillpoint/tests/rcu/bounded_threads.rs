//! The bound on memory for threads that exit, that retire in every way, and that are inside sections of two domains.

use stillpoint::EnterSection;
use support::asleep::{sleeps, tid};
use support::owner::{LOCAL, section_elsewhere};
use support::prelude::*;

/// A value with a destructor.
fn value() -> Box<[String; 1]> {
    Box::new(["value".to_owned()])
}

#[test]
fn short_lived_threads_stay_within_the_limit() {
    own!(Own);
    const LIMIT: u64 = 1 << 20;
    const THREADS: u64 = 4;
    Own.set_limits(Limits { count: 1 << 20, bytes: LIMIT, ..Limits::default() });
    let leave = section_elsewhere::<Own>();
    let stop = AtomicBool::new(false);
    // Too little for a thread to do its bookkeeping.
    let retire = || {
        let _guard = Own::enter();
        Own.retire_with(value(), DeferOptions::new().heap_bytes(60 << 10));
    };
    let most = thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    thread::spawn(retire).join().expect("the thread ends");
                }
            });
        }
        let mut stats = Own.stats();
        until(|| {
            stats = Own.stats();
            stats.limit_waits >= THREADS || stats.queued_bytes > 4 * LIMIT
        });
        stop.store(true, Relaxed);
        leave();
        stats.queued_bytes
    });
    assert!(most <= 2 * LIMIT, "{most} bytes wait");
}

#[test]
fn every_way_to_retire_stays_within_the_limit() {
    own!(Own);
    const LIMIT: u64 = 4096;
    Own.set_limits(Limits { count: LIMIT, bytes: 1 << 30, ..Limits::default() });
    let stop = AtomicBool::new(false);
    let outside: fn(DeferOptions) = |options| Own.retire_with(value(), options);
    let inside = |options| {
        let _guard = Own::enter();
        (0..32).for_each(|_| Own.retire_with(value(), options));
    };
    let nested = |options| {
        let _outer = Own::enter();
        for _ in 0..8 {
            let _inner = Own::enter();
            Own.retire_with(value(), options);
        }
    };
    let outside_at_times = |options| {
        Own.retire_with(value(), options);
        for _ in 1..64 {
            let _guard = Own::enter();
            Own.retire_with(value(), options);
        }
    };
    let repinned = |options| {
        let mut guard = Own::enter();
        for _ in 0..1000 {
            Own.retire_with(value(), options);
            guard.repin();
        }
    };
    let most = thread::scope(|scope| {
        let (stop, (started, start)) = (&stop, channel());
        for retire in [outside, inside, nested, outside_at_times, repinned] {
            for options in [DeferOptions::new(), LOCAL, DeferOptions::new(), LOCAL] {
                let started = started.clone();
                scope.spawn(move || {
                    started.send(tid()).expect("the test listens");
                    while !stop.load(Relaxed) {
                        retire(options);
                    }
                });
            }
        }
        let threads: Vec<_> = start.iter().take(20).collect();
        let mut most = 0;
        let mut sample = || {
            let stats = Own.stats();
            // Callbacks that have run since it looked for these are counted as waiting too, beside those that came since.
            if Own.stats().done == stats.done {
                most = stats.queued.max(most);
            }
            most
        };
        // A reader stalls until all writers sleep, a few times.
        for _ in 0..20 {
            let _guard = Own::enter();
            until(|| sample() > 4 * LIMIT || threads.iter().all(|thread| sleeps(*thread)));
        }
        stop.store(true, Relaxed);
        most
    });
    assert!(most <= 2 * LIMIT, "{most} values wait");
}

#[test]
fn two_nested_domains_do_not_block_each_other() {
    own!(A);
    stillpoint::domain! { struct B; }
    fn nested<Outer, Inner>(all: &Barrier)
    where
        Outer: StaticDomain + EnterSection,
        Inner: StaticDomain + EnterSection,
    {
        Inner::INSTANCE.set_limits(Limits { count: 256, bytes: 1 << 20, ..Limits::default() });
        let _outer = Outer::INSTANCE.enter_section();
        all.wait();
        let inner = Inner::INSTANCE.enter_section();
        (0..1024).for_each(|_| Inner::INSTANCE.retire(value()));
        drop(inner);
    }
    let all = Barrier::new(2);
    // Above the limits, a wait may take ten seconds.
    until_quick(Duration::from_secs(8), || {
        thread::scope(|scope| {
            scope.spawn(|| nested::<A, B>(&all));
            nested::<B, A>(&all);
        });
    });
}

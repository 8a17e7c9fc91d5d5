//! Limits: which callers they block, and until when.

use std::any::type_name;

/// Calls `check` with a domain of each kind, which has no limits yet.
macro_rules! in_each_domain {
    ($check:ident) => {
        own!(Own);
        $check(&Own);
        stillpoint::qsbr_domain! { struct Quiescent; }
        $check(&Quiescent);
        hazard::domain! { struct Hazards; }
        $check(&Hazards);
        $check(&srcu::Domain::new());
    };
}

use stillpoint::{Domain, hazard};
use support::futures::{Wakes, block_on, poll, waker};
use support::owner::{busy, section_elsewhere};
use support::prelude::*;

const LIMIT: u64 = 1000;
const LIMITS: Limits = Limits { count: LIMIT, bytes: 1 << 30, blocks: true };

#[test]
fn callback_that_defers_above_the_limit_does_not_wait() {
    own!(Own);
    stillpoint::domain! { struct Other; }
    static HOLDS: AtomicBool = AtomicBool::new(false);
    Own.set_limits(LIMITS);
    Other.set_limits(LIMITS);
    // The other domain's worker is busy, so that its backlog grows too.
    let busy = busy::<Other>();
    Own.call(|| {
        (0..4 * LIMIT).for_each(|_| {
            Own.call(|| ());
            Other.call(|| ());
        });
        let (own, other) = (Own.stats(), Other.stats());
        assert!(own.queued > LIMIT && other.queued > LIMIT, "{own}, {other}");
        assert_eq!([own.limit_waits, other.limit_waits], [0; 2]);
        HOLDS.store(true, Relaxed);
    });
    Own.barrier();
    drop(busy);
    Other.barrier();
    assert!(HOLDS.load(Relaxed), "an assertion in the callback has failed");
}

#[test]
fn changed_limits_wake_a_throttled_caller() {
    own!(Own);
    assert_eq!(Limits::default(), Limits { count: 1 << 17, bytes: 64 << 20, blocks: true });
    let change = |limits| {
        let (busy, before, begin) = (busy::<Own>(), Own.stats().limit_waits, Instant::now());
        Own.set_limits(LIMITS);
        let caller = thread::spawn(|| (0..2 * LIMIT).for_each(|_| Own.call(|| ())));
        until(|| Own.stats().limit_waits != before);
        Own.set_limits(limits);
        caller.join().expect("no panic");
        let (waits, time) = (Own.stats().limit_waits - before, begin.elapsed());
        drop(busy);
        Own.barrier();
        // By itself a caller continues after ten seconds.
        let is_in_time = time < Duration::from_secs(8);
        assert!(!is_in_time || waits == 1, "{waits} waits");
        is_in_time
    };
    until(|| change(Limits::default()));
    until(|| change(Limits { blocks: false, ..LIMITS }));
}

/// A caller that may be inside a section, or is inside one of another domain, is throttled for a moment at a time:
/// the worker may wait for it.
#[test]
fn caller_that_may_be_inside_goes_on_soon() {
    own!(Own);
    stillpoint::domain! { struct Other; }
    Own.set_limits(LIMITS);
    // By itself each of them would wait for ten seconds.
    const LIMITED: Duration = Duration::from_secs(8);
    until_quick(LIMITED, || {
        let (busy, before) = (busy::<Own>(), Own.stats().limit_overruns);
        let guard = Other::enter();
        (0..2 * LIMIT).for_each(|_| Own.call(|| ()));
        drop(guard);
        assert!(Own.stats().limit_overruns > before + 1, "{}", Own.stats());
        drop(busy);
        Own.barrier();
    });
    until_quick(LIMITED, || {
        let domain = srcu::Domain::new();
        domain.set_limits(LIMITS);
        let (end, ended) = channel::<()>();
        domain.call(move || _ = ended.recv().expect_err("the sender is dropped"));
        (0..8 * LIMIT).for_each(|_| domain.call(|| ()));
        assert!(domain.stats().limit_overruns > 1, "{}", domain.stats());
        drop(end);
        domain.barrier();
    });
}

#[test]
fn stall_hook_that_defers_above_the_limit_does_not_wait() {
    stillpoint::domain! { struct Own; }
    stillpoint::domain! { struct Stalls; }
    static HAS_DEFERRED: AtomicBool = AtomicBool::new(false);
    alone!();
    Own.set_limits(LIMITS);
    let busy = busy::<Own>();
    rcu::set_stall_timeout(Some(Duration::from_millis(1)));
    rcu::set_stall_hook(Box::new(|stall| {
        if stall.domain() == type_name::<Stalls>() && !HAS_DEFERRED.load(Acquire) {
            (0..2 * LIMIT).for_each(|_| Own.call(|| ()));
            HAS_DEFERRED.store(true, Release);
        }
    }));
    let guard = Stalls::enter();
    let writer = thread::spawn(|| Stalls.synchronize());
    until(|| HAS_DEFERRED.load(Acquire));
    assert!(Own.stats().queued > LIMIT, "{}", Own.stats());
    assert_eq!(Own.stats().limit_waits, 0);
    // The writer's thread is throttled when it exits.
    drop((guard, busy));
    writer.join().expect("no panic");
    Own.barrier();
}

#[test]
fn callers_outside_sections_are_throttled() {
    own!(Own);
    let (calls, call) = counter();
    Own.set_limits(LIMITS);
    let leave = section_elsewhere::<Own>();
    let writer = thread::spawn(move || (0..5 * LIMIT).for_each(|_| Own.call(call)));
    let mut stats = Own.stats();
    until(|| {
        stats = Own.stats();
        stats.limit_waits != 0
    });
    // The writer notices after a block.
    assert!(stats.queued <= LIMIT + 64, "{stats}");
    // Inside a section it is only counted.
    let guard = Own::enter();
    (0..5 * LIMIT).for_each(|_| Own.call(call));
    assert!(Own.stats().queued >= 5 * LIMIT);
    drop(guard);
    assert_eq!(calls.load(Acquire), 0);
    leave();
    writer.join().expect("no panic");
    Own.barrier();
    assert_eq!(calls.load(Acquire) as u64, 10 * LIMIT);
}

#[test]
fn stalled_reader_keeps_a_writer_under_the_byte_limit() {
    own!(Own);
    const SIZE: usize = 10_000;
    const BYTES: u64 = 4 << 20;
    static WAITING: AtomicUsize = AtomicUsize::new(0);
    static PEAK: AtomicUsize = AtomicUsize::new(0);
    struct Block(#[expect(dead_code, reason = "takes room")] [u8; SIZE]);
    impl Block {
        fn new() -> Box<Self> {
            PEAK.fetch_max(WAITING.fetch_add(SIZE, Relaxed) + SIZE, Relaxed);
            Box::new(Self([1; SIZE]))
        }
    }
    impl Drop for Block {
        fn drop(&mut self) {
            WAITING.fetch_sub(SIZE, Relaxed);
        }
    }
    Own.set_limits(Limits { bytes: BYTES, ..Limits::default() });
    // Where threads wait for a CPU for ten seconds, a writer overruns the limit.
    until(|| {
        let (stop, before) = (AtomicBool::new(false), Own.stats().limit_overruns);
        thread::scope(|scope| {
            scope.spawn(|| {
                // Stalls until it throttles the writers, a few times.
                for _ in 0..20 {
                    let (guard, waits) = (Own::enter(), Own.stats().limit_waits);
                    // A value's bytes on the heap are unknown, and count after a long grace period.
                    until(|| {
                        let stats = Own.stats();
                        stats.queued_bytes > BYTES || stats.limit_waits != waits
                    });
                    drop(guard);
                }
                let guard = Own::enter();
                until(|| Own.stats().limit_waits != 0);
                drop(guard);
                stop.store(true, Release);
            });
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Acquire) {
                        Own.retire(Block::new());
                    }
                });
            }
        });
        Own.barrier();
        assert_eq!(WAITING.load(Relaxed), 0);
        let peak = PEAK.swap(0, Relaxed);
        let is_in_time = Own.stats().limit_overruns == before;
        // Each of the two may exceed the limit by an unreported block and one value.
        let bound = BYTES as usize + 2 * ((64 << 10) + 2 * SIZE);
        assert!(peak <= bound || !is_in_time, "{peak} bytes waited, more than {bound}");
        is_in_time
    });
}

#[test]
fn call_above_a_limit_that_does_not_block_is_counted() {
    fn check<D: Domain>(domain: &D) {
        let name = type_name::<D>();
        assert!(domain.is_below_limit(), "{name}");
        domain.set_limits(Limits { blocks: false, ..LIMITS });
        let (end, ended) = channel::<()>();
        domain.call(move || _ = ended.recv().expect_err("the sender is dropped"));
        (0..20 * LIMIT).for_each(|_| domain.call(|| ()));
        let stats = domain.stats();
        assert!(stats.queued > 10 * LIMIT && stats.limit_overruns >= 100, "{name}: {stats}");
        assert!(!domain.is_below_limit(), "{name}");
        assert_eq!(stats.limit_waits, 0, "{name}");
        // Also if the thread reports more often than it has to.
        for _ in 0..100 {
            (0..8).for_each(|_| domain.call(|| ()));
            domain.flush();
        }
        assert!(domain.stats().limit_overruns >= stats.limit_overruns + 10, "{name}: {}", domain.stats());
        drop(end);
        domain.barrier();
        assert!(domain.is_below_limit(), "{name}");
    }
    in_each_domain!(check);
}

#[test]
fn values_that_are_only_pushed_count_for_the_limit() {
    fn check<D: Domain>(domain: &D) {
        let name = type_name::<D>();
        domain.set_limits(LIMITS);
        let (end, ended) = channel::<()>();
        domain.call(move || _ = ended.recv().expect_err("the sender is dropped"));
        (0..2 * LIMIT).for_each(|_| domain.retire_with(Box::new(0), DeferOptions::new().push_only()));
        assert!(!domain.is_below_limit(), "{name}");
        let stats = domain.stats();
        assert_eq!([stats.limit_waits, stats.limit_overruns], [0; 2], "{name}");
        drop(end);
        domain.barrier();
        assert!(domain.is_below_limit(), "{name}");
    }
    in_each_domain!(check);
}

/// Above its limit until the result is dropped.
fn above_limit<D: Domain>(domain: &D) -> Sender<()> {
    domain.set_limits(Limits { blocks: false, ..LIMITS });
    let (end, ended) = channel::<()>();
    domain.call(move || _ = ended.recv().expect_err("the sender is dropped"));
    (0..2 * LIMIT).for_each(|_| domain.call(|| ()));
    assert!(!domain.is_below_limit());
    end
}

#[test]
fn futures_are_ready_below_the_limit_and_not_above() {
    const FUTURES: usize = if cfg!(miri) { 100 } else { 100_000 };
    let _running = deadline();
    let domain = srcu::Domain::new();
    let end = above_limit(&domain);
    let (wakes, waker) = Wakes::new();
    let mut futures: Vec<_> = (0..FUTURES).map(|_| domain.below_limit()).collect();
    futures.iter_mut().for_each(|future| assert!(poll(future, &waker).is_pending()));
    // Those that are dropped are not woken.
    futures.truncate(FUTURES / 2);
    drop(end);
    until(|| wakes.get() == FUTURES / 2);
    futures.iter_mut().for_each(|future| assert!(poll(future, &waker).is_ready()));
    drop(futures);
    assert_eq!(wakes.get(), FUTURES / 2);
    // Ready at once.
    block_on(domain.below_limit());
}

/// Tasks that each make a change when they may, although each change exceeds the limit.
#[test]
fn futures_go_on_one_after_the_other_while_each_exceeds_the_limit() {
    const SIZE: usize = 1 << 20;
    let _running = deadline();
    let domain = srcu::Domain::new();
    domain.set_limits(Limits { bytes: SIZE as u64, blocks: false, ..Limits::default() });
    let done = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    block_on(domain.below_limit());
                    domain.retire_with(Box::new(0_u8), DeferOptions::new().heap_bytes(SIZE));
                    done.fetch_add(1, Relaxed);
                }
            });
        }
    });
    domain.barrier();
    assert_eq!(done.load(Relaxed), 400);
}

#[test]
fn wakers_that_panic_or_block_do_not_delay_futures_below_the_limit() {
    let _running = deadline();
    let domain = srcu::Domain::new();
    let end = above_limit(&domain);
    let (release, released) = channel::<()>();
    let released = std::sync::Mutex::new(released);
    let blocks = waker(move || _ = released.lock().map(|released| released.recv()));
    let panics = waker(|| panic!("on purpose"));
    let (wakes, waker) = Wakes::new();
    let mut hostile: Vec<_> = (0..4).map(|_| domain.below_limit()).collect();
    for (future, waker) in hostile.iter_mut().zip([&panics, &blocks, &panics, &blocks]) {
        assert!(poll(future, waker).is_pending());
    }
    let mut future = domain.below_limit();
    assert!(poll(&mut future, &waker).is_pending());
    drop(end);
    // Callbacks run, whatever the wakers do.
    domain.barrier();
    assert!(domain.is_below_limit());
    block_on(domain.below_limit());
    drop(release);
    // It is not polled before: a future that finds by itself that it is below the limit needs no wake-up.
    until(|| wakes.get() == 1);
    assert!(poll(&mut future, &waker).is_ready());
}

//! Callbacks run once, in order, after the sections that were open, whatever they do. The backlog is bounded, and an
//! idle worker sleeps.

use std::cell::RefCell;
use std::future::Future;
use std::panic::catch_unwind;
use std::pin::pin;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread::ThreadId;
use std::time::{Duration, Instant};
use std::{fs, mem, thread};

use stillpoint::Domain as _;
use stillpoint::rcu::{DeferOptions, Limits, RcuDomain};
use stillpoint::srcu;
use support::callbacks::{LAZY, counter};
use support::child;
use support::deadline::deadline;
use support::panics::message;
#[cfg(target_os = "linux")]
use support::threads::deny_threads;
use support::time_limit::repetitions;
use support::tracked::Tracked;
use support::until::until;

/// Returns a waker that counts.
fn counting_waker() -> (Arc<AtomicUsize>, Waker) {
    struct Counting(Arc<AtomicUsize>);
    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, AcqRel);
        }
    }
    let wakes = Arc::new(AtomicUsize::new(0));
    (Arc::clone(&wakes), Arc::new(Counting(wakes)).into())
}

#[test]
fn callbacks_of_a_thread_run_in_order_before_barrier() {
    stillpoint::domain! { struct Own; }
    const THREADS: usize = 4;
    let _running = deadline();
    let each = repetitions(5000);
    let seen: [&'static AtomicUsize; THREADS] = [(); THREADS].map(|()| &*Box::leak(Box::default()));
    let wrong: &'static AtomicUsize = Box::leak(Box::default());
    thread::scope(|scope| {
        for seen in seen {
            scope.spawn(move || {
                for index in 0..each {
                    let options = if index % 7 == 0 { LAZY } else { DeferOptions::new() };
                    let padding = [index; 5];
                    let check = move || {
                        if seen.fetch_add(1, AcqRel) != padding[index % 5] {
                            wrong.fetch_add(1, Relaxed);
                        }
                    };
                    Own.call_with(check, options);
                    if index % 1000 == 0 {
                        Own.barrier();
                        assert_eq!(seen.load(Acquire), index + 1);
                    }
                }
            });
        }
    });
    Own.barrier();
    assert_eq!(seen.map(|seen| seen.load(Acquire)), [each; THREADS]);
    assert_eq!(wrong.load(Relaxed), 0);
}

#[test]
fn callbacks_wait_for_all_open_sections() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    let ((calls, call), drops) = (counter(), &*Box::leak(Box::<AtomicUsize>::default()));
    let value = || Box::new(Tracked(drops));
    let guard = Own::enter();
    let defer = || {
        Own.call(call);
        Own.call_with(call, LAZY);
        Own.call_with(call, DeferOptions::new().heap_bytes(1 << 20));
        Own.retire(value());
        Own.retire_with(value(), LAZY);
        (0..5).for_each(|_| Own.retire(value()));
        // SAFETY: from a box, and not used again.
        unsafe { Own.retire_raw(NonNull::from(Box::leak(value())), DeferOptions::new()) };
    };
    defer();
    // Joined: a thread that exits reports its bytes elsewhere.
    thread::scope(|scope| scope.spawn(defer).join().expect("no panic"));
    let stats = Own.stats();
    assert_eq!((stats.queued, stats.done), (22, 0));
    assert!(stats.queued_bytes >= 2 << 20, "{stats:?}");
    until(|| Own.stats().sleeps != 0);
    until(|| Own.stats().oldest > Duration::ZERO);
    assert_eq!((calls.load(Acquire), drops.load(Acquire)), (0, 0));
    drop(guard);
    Own.barrier();
    assert_eq!((calls.load(Acquire), drops.load(Acquire)), (6, 16));
    // The counters may change after the barrier has returned.
    until(|| Own.stats().done == 22);
    let stats = Own.stats();
    assert_eq!((stats.queued, stats.queued_bytes, stats.oldest), (0, 0, Duration::ZERO));
    assert!(stats.to_string().contains("0 queued"), "{stats}");
}

#[test]
fn callback_may_defer_read_and_wait() {
    stillpoint::domain! { struct Own; }
    fn chain(left: usize, end: impl FnOnce() + Send + 'static) {
        drop(Own::enter());
        Own.synchronize();
        match left {
            0 => end(),
            _ => Own.call(move || chain(left - 1, end)),
        }
    }
    let _running = deadline();
    let (ends, end) = counter();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| Own.call(move || chain(20, end)));
        }
    });
    until(|| ends.load(Acquire) == 4);
}

#[test]
fn thread_local_destructors_may_defer() {
    stillpoint::domain! { struct Own; }
    struct Appends(RefCell<Option<Box<dyn Fn()>>>);
    impl Drop for Appends {
        fn drop(&mut self) {
            self.0.take().expect("set")();
        }
    }
    thread_local! {
        static APPENDS: Appends = const { Appends(RefCell::new(None)) };
    }
    let _running = deadline();
    let (calls, call) = counter();
    for round in 1..=50 {
        thread::spawn(move || {
            let append = move || {
                Own.call(call);
                Own.retire(Box::new(7));
                let guard = Own::enter();
                Own.call(call);
                drop(guard);
            };
            APPENDS.with(|appends| appends.0.replace(Some(Box::new(append))));
            Own.call(call);
        })
        .join()
        .expect("no panic");
        Own.barrier();
        assert_eq!(calls.load(Acquire), 3 * round);
    }
}

#[test]
fn panicking_callback_is_counted_and_others_run() {
    stillpoint::domain! { struct Own; }
    struct PanicsToo;
    impl Drop for PanicsToo {
        fn drop(&mut self) {
            panic!("the payload of a panic");
        }
    }
    let _running = deadline();
    let (calls, call) = counter();
    let before = Own.stats().panics;
    for _ in 0..10 {
        Own.call(call);
        Own.call(|| panic!("on purpose"));
        Own.call(|| std::panic::panic_any(PanicsToo));
        Own.call(call);
    }
    Own.barrier();
    assert_eq!(calls.load(Acquire), 20);
    assert!(Own.stats().panics >= before + 20);
}

#[test]
fn callback_panic_is_reported_with_domain_and_type() {
    stillpoint::domain! { struct Own; }
    struct Fragile;
    impl Drop for Fragile {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    const SITE: u32 = line!() + 1;
    static SLEEPABLE: srcu::Domain = srcu::Domain::new();
    if child::variant().is_none() {
        let said = child::stderr(callback_panic_is_reported_with_domain_and_type, "", None);
        let (own, fragile) = (std::any::type_name::<Own>(), std::any::type_name::<Fragile>());
        let lines: Vec<_> = said.lines().filter(|line| line.starts_with("stillpoint: ")).collect();
        let callback = format!(
            "stillpoint: a callback deferred in {own} has panicked: {}::callback_panic_is_reported_with_domain_and_type::{{{{closure}}}}",
            module_path!()
        );
        let value = format!("stillpoint: the destructor of a value retired in {own} has panicked: {fragile}");
        let sleepable = format!("deferred in srcu::Domain, made at {}:{SITE}:", file!());
        assert_eq!(lines.len(), 4, "{said}");
        assert_eq!(lines.iter().filter(|line| line.starts_with(&callback)).count(), 2, "{said}");
        assert_eq!(lines.iter().filter(|line| **line == value).count(), 1, "{said}");
        return assert!(lines.iter().any(|line| line.contains(&sleepable)), "{said}");
    }
    let _running = deadline();
    Own.call(|| panic!("on purpose"));
    // Too large to be stored inline.
    let large = [7_u8; 100];
    Own.call(move || panic!("on purpose, {}", large[99]));
    Own.retire(Box::new(Fragile));
    Own.barrier();
    SLEEPABLE.call(|| panic!("on purpose"));
    SLEEPABLE.barrier();
}

#[test]
fn barrier_panics_where_it_would_deadlock() {
    stillpoint::domain! { struct Own; }
    stillpoint::domain! { struct Other; }
    let _running = deadline();
    Own.call(|| ());
    let guard = Own::enter();
    let panic = catch_unwind(|| Own.barrier()).expect_err("inside a section");
    assert!(
        message(&*panic).starts_with("barrier() inside a read-side critical section"),
        "{}",
        message(&*panic)
    );
    Other.barrier();
    drop(guard);
    let said = Arc::new(Mutex::new(String::new()));
    let says = Arc::clone(&said);
    Own.call(move || {
        let panic = catch_unwind(|| Own.barrier()).expect_err("inside a callback");
        *says.lock().expect("no panic") = message(&*panic).to_owned();
    });
    Own.barrier();
    assert!(said.lock().expect("no panic").starts_with("barrier() inside a callback"));
}

#[test]
fn barrier_in_a_nested_callback_of_its_domain_panics() {
    stillpoint::domain! { struct Outer; }
    stillpoint::domain! { struct Inner; }
    /// Calls `barrier` of the outer domain, if a callback of that runs on this thread.
    struct Asks(ThreadId, Arc<Mutex<Option<String>>>);
    impl Drop for Asks {
        fn drop(&mut self) {
            if thread::current().id() == self.0 {
                let panic = catch_unwind(|| Outer.barrier()).expect_err("inside a callback");
                *self.1.lock().expect("no panic") = Some(message(&*panic).to_owned());
            }
        }
    }
    let _running = deadline();
    let said = Arc::new(Mutex::new(None));
    let has_said = |said: &Mutex<Option<_>>| said.lock().expect("no panic").is_some();
    // The inner domain's worker has no time for them: the retiring thread itself drops some.
    let (says, is_busy, busy) = (Arc::clone(&said), Arc::new(AtomicBool::new(false)), Arc::clone(&said));
    let begins = Arc::clone(&is_busy);
    Inner.call(move || {
        begins.store(true, Relaxed);
        until(|| has_said(&busy));
    });
    until(|| is_busy.load(Relaxed));
    Outer.call(move || {
        until(|| {
            let asks = Asks(thread::current().id(), Arc::clone(&says));
            Inner.retire_with(Box::new(asks), DeferOptions::new().run_on_retiring_thread());
            has_said(&says)
        });
    });
    Outer.barrier();
    Inner.barrier();
    let said = said.lock().expect("no panic").take().expect("the callback has run");
    assert!(said.starts_with("barrier() inside a callback"), "{said}");
}

#[test]
fn barrier_with_nothing_left_returns_beside_a_leaked_guard() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    let (calls, call) = counter();
    Own.call(call);
    Own.barrier();
    thread::spawn(|| mem::forget(Own::enter())).join().expect("no panic");
    Own.barrier();
    assert_eq!(calls.load(Acquire), 1);
}

#[test]
fn futures_of_barriers_are_woken_once_after_all_callbacks_before_them() {
    stillpoint::domain! { struct Own; }
    const FUTURES: usize = 1000;
    let _running = deadline();
    let (calls, call) = counter();
    let (wakes, waker) = counting_waker();
    let context = &mut Context::from_waker(&waker);
    assert!(pin!(Own.barrier_async()).poll(context).is_ready(), "nothing was deferred");
    let (release, is_released) = mpsc::channel();
    Own.call(move || is_released.recv().expect("it is sent"));
    let mut futures: Vec<_> = (0..FUTURES).map(|_| Box::pin(Own.barrier_async())).collect();
    for future in &mut futures {
        Own.call_with(call, LAZY);
        assert!(future.as_mut().poll(context).is_pending());
    }
    // Polled again, it is one future still; dropped, it is none.
    assert!(futures[0].as_mut().poll(context).is_pending());
    drop(futures.pop());
    assert_eq!((calls.load(Acquire), wakes.load(Acquire)), (0, 0));
    release.send(()).expect("the callback waits");
    until(|| wakes.load(Acquire) == FUTURES - 1);
    assert_eq!(calls.load(Acquire), FUTURES);
    // The first is served before later callbacks run.
    Own.call(call);
    futures.iter_mut().for_each(|future| assert!(future.as_mut().poll(context).is_ready()));
    Own.barrier();
    assert_eq!(wakes.load(Acquire), FUTURES - 1);
}

#[test]
fn lazy_callbacks_run_with_urgent_ones() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    let (calls, call) = counter();
    let mut expected = 0;
    let mut company: [(usize, Box<dyn FnMut()>); 4] = [
        (0, Box::new(|| Own.barrier())),
        (1, Box::new(move || Own.call(call))),
        // Past the low mark, by count or by bytes.
        (20_000, Box::new(move || (0..20_000).for_each(|_| Own.call_with(call, LAZY)))),
        (1, Box::new(move || Own.call_with(call, LAZY.heap_bytes(20 << 20)))),
    ];
    for _ in 0..3 {
        for (more, bring) in &mut company {
            let start = Instant::now();
            Own.call_with(call, LAZY);
            // Even if a worker scans the queue, nothing runs for ten seconds.
            let rounds = Own.stats().grace_periods;
            until(|| start.elapsed() > Duration::from_millis(20));
            let seen = (calls.load(Acquire), Own.stats().grace_periods);
            assert!(seen == (expected, rounds) || start.elapsed() > Duration::from_secs(9), "{seen:?}");
            bring();
            // All run once the mark is reached, except perhaps the last ones.
            until(|| calls.load(Acquire) > expected);
            Own.barrier();
            expected += 1 + *more;
            assert_eq!(calls.load(Acquire), expected);
        }
    }
}

#[test]
#[ignore = "takes ten seconds"]
fn lazy_callbacks_run_after_ten_seconds() {
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    let (calls, call) = counter();
    let start = Instant::now();
    Own.call_with(call, LAZY);
    until(|| calls.load(Acquire) == 1);
    assert!(start.elapsed() >= Duration::from_secs(9));
}

#[test]
fn callers_outside_sections_are_throttled() {
    stillpoint::domain! { struct Own; }
    const LIMIT: u64 = 1000;
    let _running = deadline();
    let (calls, call) = counter();
    Own.set_limits(Limits { count: LIMIT, ..Limits::default() });
    let (inside, stop) = (Barrier::new(2), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let guard = Own::enter();
            inside.wait();
            until(|| stop.load(Acquire));
            drop(guard);
        });
        inside.wait();
        let writer = scope.spawn(|| (0..5 * LIMIT).for_each(|_| Own.call(call)));
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
        stop.store(true, Release);
        writer.join().expect("no panic");
    });
    Own.barrier();
    assert_eq!(calls.load(Acquire) as u64, 10 * LIMIT);
}

#[test]
fn stalled_reader_keeps_a_writer_under_the_byte_limit() {
    stillpoint::domain! { struct Own; }
    const SIZE: usize = 10_000;
    const LIMIT: u64 = 4 << 20;
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
    let _running = deadline();
    Own.set_limits(Limits { bytes: LIMIT, ..Limits::default() });
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
                        stats.queued_bytes > LIMIT || stats.limit_waits != waits
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
        let bound = LIMIT as usize + 2 * ((64 << 10) + 2 * SIZE);
        assert!(peak <= bound || !is_in_time, "{peak} bytes waited, more than {bound}");
        is_in_time
    });
}

#[test]
fn callbacks_do_not_wait_for_readers_of_other_domains() {
    stillpoint::domain! { struct Stalled; }
    stillpoint::domain! { struct Other; }
    let _running = deadline();
    let ((stalled, of_stalled), (others, of_other)) = (counter(), counter());
    let guard = Stalled::enter();
    Stalled.call(of_stalled);
    until(|| Stalled.stats().sleeps != 0);
    for round in 1..=repetitions(100) {
        Other.call(of_other);
        until(|| others.load(Acquire) == round);
    }
    Other.barrier();
    assert_eq!(stalled.load(Acquire), 0);
    drop(guard);
    Stalled.barrier();
    assert_eq!(stalled.load(Acquire), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn callbacks_run_without_worker_threads() {
    if child::variant().is_none() {
        let test = callbacks_run_without_worker_threads;
        return child::run(test, "no threads", None);
    }
    stillpoint::domain! { struct Own; }
    const LIMIT: u64 = 1000;
    let _running = deadline();
    let (calls, call) = counter();
    let (denied, done) = (Barrier::new(3), Barrier::new(3));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                denied.wait();
                for _ in 0..100 {
                    (0..100).for_each(|_| Own.call(call));
                    drop(Own::enter());
                    Own.barrier();
                }
                done.wait();
            });
        }
        deny_threads();
        denied.wait();
        done.wait();
    });
    assert_eq!(calls.load(Acquire), 20_000);
    Own.set_limits(Limits { count: LIMIT, ..Limits::default() });
    // The caller may hold a lock that the callbacks take.
    for _ in 0..20 * LIMIT {
        Own.call(call);
    }
    assert_eq!(calls.load(Acquire), 20_000);
    assert!(Own.stats().limit_overruns >= 10);
    // The thread that polls is the worker.
    assert!(pin!(Own.barrier_async()).poll(&mut Context::from_waker(Waker::noop())).is_ready());
    assert_eq!(calls.load(Acquire), 20_000 + 20 * LIMIT as usize);
    // Callbacks that wait and that defer run in the caller's own thread.
    Own.call(move || {
        Own.synchronize();
        Own.call(call);
    });
    Own.barrier();
    Own.barrier();
    assert_eq!(calls.load(Acquire), 20_001 + 20 * LIMIT as usize);
}

/// Returns the states and context-switch counts of the existing workers.
fn switches() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").expect("the process has threads").flatten();
    let status = tasks.flat_map(|task| fs::read_to_string(task.path().join("status")));
    let workers = status.filter(|status| status.contains("stillpoint-rcu"));
    let counts = |status: String| {
        status.lines().filter(|line| line.contains("ctxt") || line.starts_with("State")).collect::<String>()
    };
    workers.map(counts).collect()
}

/// Returns `true` if there is one worker, which sleeps for `time`.
fn are_idle_for(time: Duration) -> bool {
    let (before, start) = (switches(), Instant::now());
    // A worker that starts has no name yet.
    if before.len() != 1 {
        return false;
    }
    while start.elapsed() < time {
        thread::park_timeout(time);
    }
    // A runnable worker would change later.
    switches() == before && before[0].contains("(sleeping)")
}

/// Runs an urgent and a lazy callback. Then one idle worker is left, sooner or later.
fn work<D: RcuDomain>() {
    let (calls, call) = counter();
    D::INSTANCE.call(call);
    until(|| calls.load(Acquire) == 1);
    D::INSTANCE.call_with(call, LAZY);
    D::INSTANCE.barrier();
}

#[cfg(target_os = "linux")]
#[test]
fn worker_of_an_idle_process_is_not_woken() {
    if child::variant().is_none() {
        return child::run(worker_of_an_idle_process_is_not_woken, "", None);
    }
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    work::<Own>();
    until(|| are_idle_for(Duration::from_secs(2)));
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "takes ten seconds"]
fn worker_of_an_idle_process_sleeps_ten_seconds() {
    if child::variant().is_none() {
        let test = worker_of_an_idle_process_sleeps_ten_seconds;
        return child::run(test, "", None);
    }
    stillpoint::domain! { struct Own; }
    let _running = deadline();
    work::<Own>();
    until(|| are_idle_for(Duration::from_secs(10)));
}

#[test]
fn local_destructor_may_read_statistics() {
    stillpoint::domain! { struct Own; }
    struct Asks(&'static AtomicUsize);
    impl Drop for Asks {
        fn drop(&mut self) {
            Own.stats();
            self.0.fetch_add(1, Relaxed);
        }
    }
    let _running = deadline();
    let (count, _) = counter();
    for _ in 0..1000 {
        Own.retire_with(Box::new(Asks(count)), DeferOptions::new().run_on_retiring_thread());
    }
    Own.barrier();
    assert_eq!(count.load(Relaxed), 1000);
}

//! Callbacks run once, in order, after the sections that were open, whatever they do.

#[cfg(target_os = "linux")]
use support::futures::poll;
use support::prelude::*;

#[test]
fn callbacks_of_a_thread_run_in_order_before_barrier() {
    own!(Own);
    const THREADS: usize = 4;
    let each = repetitions(5000);
    let seen: [&'static AtomicUsize; THREADS] = [(); THREADS].map(|()| &*Box::leak(Box::default()));
    let wrong: &'static AtomicUsize = Box::leak(Box::default());
    thread::scope(|scope| {
        for seen in seen {
            scope.spawn(move || {
                for index in 0..each {
                    let padding = [index; 5];
                    let check = move || {
                        if seen.fetch_add(1, AcqRel) != padding[index % 5] {
                            wrong.fetch_add(1, Relaxed);
                        }
                    };
                    Own.call(check);
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
    own!(Own);
    let ((calls, call), drops) = (counter(), &*Box::leak(Box::<AtomicUsize>::default()));
    let value = || Box::new(Tracked(drops));
    let guard = Own::enter();
    let defer = || {
        Own.call(call);
        Own.call(call);
        Own.call_with(call, DeferOptions::new().heap_bytes(1 << 20));
        (0..8).for_each(|_| Own.retire(value()));
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
fn thread_local_destructors_may_defer() {
    own!(Own);
    type Appends = OnDrop<Box<dyn FnMut()>>;
    thread_local! { static APPENDS: RefCell<Option<Appends>> = const { RefCell::new(None) }; }
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
            APPENDS.set(Some(OnDrop(Box::new(append))));
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
    own!(Own);
    struct PanicsToo;
    impl Drop for PanicsToo {
        fn drop(&mut self) {
            panic!("the payload of a panic");
        }
    }
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
fn callbacks_do_not_wait_for_readers_of_other_domains() {
    own!(Stalled);
    stillpoint::domain! { struct Other; }
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
    alone!();
    stillpoint::domain! { struct Own; }
    const LIMIT: u64 = 1000;
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
    assert!(poll(&mut Own.barrier_async(), Waker::noop()).is_ready());
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

#[test]
fn local_destructor_may_read_statistics() {
    own!(Own);
    let (count, increment) = counter();
    let asks = move || {
        Own.stats();
        increment();
    };
    for _ in 0..1000 {
        Own.retire_with(Box::new(OnDrop(asks)), DeferOptions::new().run_on_retiring_thread());
    }
    Own.barrier();
    assert_eq!(count.load(Relaxed), 1000);
}

/// Waits until `count` values have been dropped, without other activity.
fn await_drops(drops: &AtomicUsize, count: usize) {
    until(|| drops.load(Acquire) >= count);
    assert_eq!(drops.load(Acquire), count);
}

#[test]
fn retired_value_is_dropped_without_further_activity() {
    own!(Own, DROPS);
    let value = Rcu::new_in(Tracked(&DROPS), Own);
    // One, then many, then one again: in every state of the worker.
    let mut count = 0;
    for more in [1, 10_000, 1, 1, 5000, 1] {
        for _ in 0..more {
            drop(value.replace(Tracked(&DROPS)));
        }
        count += more;
        await_drops(&DROPS, count);
    }
}

#[test]
fn long_chain_of_retirements_needs_no_deep_stack() {
    own!(Own, DROPS);
    const WIDTH: usize = 100_000;
    Own.retire(Box::new(OnDrop(|| {
        let value = Rcu::new_in(Tracked(&DROPS), Own);
        (0..WIDTH).for_each(|_| drop(value.replace(Tracked(&DROPS))));
    })));
    await_drops(&DROPS, WIDTH + 1);
}

//! A thousand domains whose readers stall, and few threads.

use std::fs;
use std::sync::Mutex;

use support::futures::poll;
use support::prelude::*;

/// Returns how many threads of the library there are.
pub fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("the process has threads").flatten();
    // A thread may end at any time.
    let names = tasks.flat_map(|task| fs::read_to_string(task.path().join("comm")));
    names.filter(|name| name.trim() == "stillpoint-rcu").count()
}

/// Each domain has a retired value, a grace period that was started, futures, and a reader inside.
fn stall_domains(count: usize) {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    let limit = thread::available_parallelism().expect("a number").get() + 3;
    DROPPED.store(0, Relaxed);
    let domains: Vec<_> = (0..count).map(|_| srcu::Domain::new()).collect();
    let guards: Vec<_> = domains.iter().map(srcu::Domain::enter).collect();
    let mut most = 0;
    let mut waiting = Vec::new();
    for domain in &domains {
        domain.retire(Box::new(OnDrop(|| _ = DROPPED.fetch_add(1, Release))));
        let period = GracePeriod::start_in(domain.clone());
        let (mut elapse, mut barrier) = (period.clone().into_future(), domain.barrier_async());
        assert!(
            poll(&mut elapse, Waker::noop()).is_pending() && poll(&mut barrier, Waker::noop()).is_pending()
        );
        waiting.push((period, elapse, barrier));
        most = most.max(threads());
    }
    // All have been tried by then, several times.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(500) {
        most = most.max(threads());
    }
    assert!(most <= limit, "{most} threads, but {limit} at most");
    assert_eq!(DROPPED.load(Relaxed), 0);
    // A callback that blocks stops no other.
    let (release, released) = channel::<()>();
    rcu::call(move || _ = released.recv());
    drop(guards);
    until(|| DROPPED.load(Acquire) == count);
    for (period, mut elapse, mut barrier) in waiting {
        until(|| period.is_elapsed());
        until(|| poll(&mut elapse, Waker::noop()).is_ready());
        until(|| poll(&mut barrier, Waker::noop()).is_ready());
    }
    drop(release);
}

#[test]
fn thousand_domains_with_stalled_readers_have_few_threads() {
    alone!();
    // Reports of stalls would come on a slow machine, and there may be a thread more for each that takes long.
    rcu::set_stall_timeout(None);
    stall_domains(1000);
    // Elsewhere than on Linux the child of a fork may only `exec`.
    #[cfg(not(stillpoint_portable))]
    in_child(|| stall_domains(1000));
}

/// Domains whose readers stall have all threads that there are for domains.
fn stalled_domains() -> Vec<(srcu::Guard<'static>, GracePeriod<srcu::Domain>)> {
    let count = thread::available_parallelism().expect("a number").get();
    let stall = |_| {
        let domain: &'static srcu::Domain = Box::leak(Box::default());
        let guard = domain.enter();
        domain.call(|| ());
        (guard, GracePeriod::start_in(domain.clone()))
    };
    (0..count).map(stall).collect()
}

/// No attempt finds a moment without a reader: only a thread that sleeps for them finds that each has left.
#[test]
fn domain_without_a_thread_waits_for_readers_that_overlap() {
    alone!();
    let stalled = stalled_domains();
    let domain = srcu::Domain::new();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for reader in 0..3 {
            let (domain, stop) = (&domain, &stop);
            scope.spawn(move || {
                thread::sleep(Duration::from_millis(20 * reader));
                while !stop.load(Relaxed) {
                    let _guards = (rcu::enter(), domain.enter());
                    thread::sleep(Duration::from_millis(60));
                }
            });
        }
        for _ in 0..3 {
            rcu::call(|| ());
            rcu::barrier();
            let period = GracePeriod::start_in(domain.clone());
            until(|| period.is_elapsed());
            domain.call(|| ());
            domain.barrier();
        }
        stop.store(true, Relaxed);
    });
    drop(stalled);
}

/// The hook is called by the thread that serves all domains without a thread of their own.
#[test]
fn stall_hook_that_blocks_stops_no_other_domain() {
    alone!();
    let stalled = stalled_domains();
    let (release, released) = channel::<()>();
    let (entered, hook_runs) = channel();
    let released = Mutex::new(released);
    rcu::set_stall_timeout(Some(Duration::from_millis(10)));
    rcu::set_stall_hook(Box::new(move |_| {
        _ = entered.send(());
        _ = released.lock().expect("no panic under the lock").recv();
    }));
    let domain = srcu::Domain::new();
    let guard = domain.enter();
    domain.call(|| ());
    hook_runs.recv().expect("a report");
    static RUN: AtomicBool = AtomicBool::new(false);
    let others = [(); 10].map(|()| srcu::Domain::new());
    for other in &others {
        RUN.store(false, Relaxed);
        other.call(|| RUN.store(true, Release));
        until(|| RUN.load(Acquire));
    }
    drop((release, guard, stalled));
}

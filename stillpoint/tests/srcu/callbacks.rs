//! Callbacks of an `srcu` domain run once, after the sections that were open, even if the domain is dropped.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::mpsc::channel;
use std::thread;

#[cfg(target_os = "linux")]
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use stillpoint::Domain as _;
use stillpoint::rcu::{DeferOptions, GracePeriod, Limits, Rcu};
use stillpoint::srcu::Domain;
use support::callbacks::{LAZY, counter};
use support::child;
use support::deadline::deadline;
use support::panics::message;
#[cfg(target_os = "linux")]
use support::threads::deny_threads;
use support::time_limit::repetitions;
use support::tracked::Tracked;
use support::until::until;

#[test]
fn barrier_waits_for_callbacks_of_all_threads() {
    const THREADS: usize = 4;
    let _running = deadline();
    let each = repetitions(5000);
    let (calls, call) = counter();
    let (drops, _) = counter();
    let domain = &Domain::new();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(move || {
                for index in 0..each {
                    domain.call_with(call, if index % 7 == 0 { LAZY } else { DeferOptions::new() });
                    domain.retire(Box::new(Tracked(drops)));
                    domain.retire_with(Box::new([index; 3]), DeferOptions::new().run_on_retiring_thread());
                }
                domain.barrier();
            });
        }
    });
    domain.barrier();
    assert_eq!([calls, drops].map(|count| count.load(Acquire)), [THREADS * each; 2]);
    let stats = domain.stats();
    assert_eq!((stats.queued, stats.queued_bytes), (0, 0), "{stats}");
    assert_eq!(stats.done, 3 * (THREADS * each) as u64, "{stats}");
}

#[test]
fn callbacks_wait_for_open_sections() {
    let _running = deadline();
    let (calls, call) = counter();
    let (drops, _) = counter();
    let domain = Domain::new();
    let value = Rcu::new_in(Tracked(drops), domain.clone());
    let guard = domain.enter();
    let seen = value.load(&guard);
    drop(value.replace(Tracked(drops)));
    domain.call(call);
    domain.retire(Box::new(Tracked(drops)));
    // The worker waits for the section.
    until(|| domain.stats().sleeps != 0);
    assert_eq!([calls, drops, seen.0].map(|count| count.load(Acquire)), [0; 3]);
    drop(guard);
    domain.barrier();
    assert_eq!([calls, drops].map(|count| count.load(Acquire)), [1, 2]);
}

#[test]
fn statistics_count_a_callback_before_a_barrier_returns() {
    let _running = deadline();
    let domain = Domain::new();
    let (calls, call) = counter();
    for round in 1..=100 {
        domain.call(call);
        until(|| calls.load(Acquire) == round);
        // Most often nothing is left to wait for.
        domain.barrier();
        let stats = domain.stats();
        assert_eq!((stats.queued, stats.done), (0, round as u64), "{stats}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn callbacks_of_a_migrating_thread_run_in_order() {
    const ROUNDS: usize = 50;
    const EACH: usize = 40;
    static OUT_OF_ORDER: AtomicUsize = AtomicUsize::new(0);
    let _running = deadline();
    let all = sched_getaffinity(None).expect("the CPUs");
    let cpus: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&cpu| all.is_set(cpu)).collect();
    if cpus.len() == 1 {
        eprintln!("NOT CHECKED: migration, as the process may run on one CPU only");
    }
    let domain = Domain::new();
    let (last, _) = counter();
    for round in 0..ROUNDS {
        let mut one = CpuSet::new();
        one.set(cpus[round % cpus.len()]);
        sched_setaffinity(None, &one).expect("an allowed CPU");
        for number in round * EACH..(round + 1) * EACH {
            let call = move || {
                let before = last.swap(number + 1, AcqRel);
                OUT_OF_ORDER.fetch_add(usize::from(before != number), Release);
            };
            domain.call_with(call, if number % 5 == 0 { LAZY } else { DeferOptions::new() });
        }
    }
    domain.barrier();
    assert_eq!((last.load(Acquire), OUT_OF_ORDER.load(Acquire)), (ROUNDS * EACH, 0));
}

#[test]
fn callback_may_read_defer_and_wait() {
    let _running = deadline();
    let (calls, call) = counter();
    let domain = Domain::new();
    let own = domain.clone();
    domain.call(move || {
        drop(own.enter());
        own.synchronize();
        own.call(call);
        let guard = own.enter();
        own.call(call);
        drop(guard);
    });
    domain.barrier();
    domain.barrier();
    assert_eq!(calls.load(Acquire), 2);
}

#[test]
fn panicking_callback_does_not_stop_others() {
    let _running = deadline();
    let (calls, call) = counter();
    let domain = Domain::new();
    let before = domain.stats().panics;
    for index in 0..20 {
        domain.call(move || if index % 2 == 0 { panic!("on purpose") } else { call() });
    }
    domain.barrier();
    assert_eq!(calls.load(Acquire), 10);
    assert!(domain.stats().panics >= before + 10);
}

#[test]
fn barrier_inside_a_callback_panics() {
    let _running = deadline();
    let (sender, receiver) = channel();
    let domain = Domain::new();
    let own = domain.clone();
    domain.call(move || {
        let refused = catch_unwind(AssertUnwindSafe(|| own.barrier()));
        sender.send(refused.map_err(|panic| message(&*panic).to_owned())).expect("the test listens");
    });
    let refused = receiver.recv().expect("the callback runs").expect_err("it would wait for itself");
    assert!(refused.contains("inside a callback"), "{refused}");
}

/// A structure with a domain of its own, which it drains when it is dropped.
struct Table {
    domain: Domain,
    call: Box<dyn Fn() + Send + Sync>,
    drained: &'static AtomicUsize,
}

impl Drop for Table {
    fn drop(&mut self) {
        let call = mem::replace(&mut self.call, Box::new(|| ()));
        self.domain.call(call);
        self.domain.barrier();
        self.drained.fetch_add(1, AcqRel);
    }
}

#[test]
fn retired_structure_drains_its_own_domain() {
    stillpoint::domain! { struct Outer; }
    const TABLES: usize = 10;
    let _running = deadline();
    let (calls, call) = counter();
    let (drained, _) = counter();
    for _ in 0..TABLES {
        Outer.retire(Box::new(Table { domain: Domain::new(), call: Box::new(call), drained }));
    }
    Outer.barrier();
    assert_eq!([calls, drained].map(|count| count.load(Acquire)), [TABLES; 2]);
}

#[cfg(target_os = "linux")]
#[test]
fn retired_structure_drains_its_domain_without_workers() {
    stillpoint::domain! { struct Outer; }
    if child::variant().is_none() {
        return child::run(retired_structure_drains_its_domain_without_workers, "", None);
    }
    let _running = deadline();
    let (calls, call) = counter();
    let (drained, _) = counter();
    deny_threads();
    Outer.retire(Box::new(Table { domain: Domain::new(), call: Box::new(call), drained }));
    // This thread runs the callbacks of both domains, nested.
    Outer.barrier();
    assert_eq!([calls, drained].map(|count| count.load(Acquire)), [1; 2]);
}

#[test]
fn last_handle_drop_runs_deferred_work() {
    let _running = deadline();
    let (calls, call) = counter();
    let (drops, _) = counter();
    for round in 0..200 {
        let domain = Domain::new();
        domain.call(call);
        domain.retire(Box::new(Tracked(drops)));
        if round % 3 == 0 {
            GracePeriod::start_in(domain.clone());
        }
    }
    until(|| calls.load(Acquire) == 200 && drops.load(Acquire) == 200);
}

#[test]
fn callback_may_drop_the_last_handle() {
    let _running = deadline();
    let (calls, call) = counter();
    for _ in 0..200 {
        let domain = Domain::new();
        let own = domain.clone();
        domain.call(move || {
            own.call(call);
            drop(own);
            call();
        });
        domain.call(call);
    }
    until(|| calls.load(Acquire) == 600);
}

#[test]
fn value_owning_its_domains_pointers_is_dropped() {
    struct Node(#[expect(dead_code, reason = "owned")] Rcu<Tracked, Domain>);
    let _running = deadline();
    let (drops, _) = counter();
    let domain = Domain::new();
    for _ in 0..100 {
        domain.retire(Box::new(Node(Rcu::new_in(Tracked(drops), domain.clone()))));
    }
    drop(domain);
    until(|| drops.load(Acquire) == 100);
}

#[test]
fn handles_are_cloned_and_dropped_concurrently() {
    let _running = deadline();
    let (calls, call) = counter();
    let domain = Domain::new();
    thread::scope(|scope| {
        for _ in 0..4 {
            let domain = domain.clone();
            scope.spawn(move || {
                for _ in 0..2000 {
                    let own = domain.clone();
                    drop(own.enter());
                    drop(own);
                }
                domain.call(call);
            });
        }
        drop(domain);
    });
    until(|| calls.load(Acquire) == 4);
}

#[test]
fn concurrent_first_uses_share_one_domain() {
    let _running = deadline();
    for _ in 0..200 {
        let domain = &Domain::new();
        let number = thread::scope(|scope| {
            let made = [(); 3].map(|()| scope.spawn(|| Rcu::new_in(1, domain.clone())));
            made.map(|made| made.join().expect("no panic"))
        });
        let guard = domain.enter();
        assert_eq!(number.each_ref().map(|number| *number.load(&guard)), [1; 3]);
    }
}

#[test]
fn caller_inside_a_section_is_throttled_briefly() {
    const LIMIT: u64 = 1000;
    let _running = deadline();
    let (calls, call) = counter();
    let domain = Domain::new();
    domain.set_limits(Limits { count: LIMIT, ..Limits::default() });
    let guard = domain.enter();
    for _ in 0..4 * LIMIT {
        domain.call(call);
    }
    let stats = domain.stats();
    assert!(stats.limit_waits > 0 && stats.limit_overruns > 0, "{stats}");
    assert_eq!((stats.queued, calls.load(Acquire)), (4 * LIMIT, 0), "{stats}");
    drop(guard);
    domain.barrier();
    assert_eq!(calls.load(Acquire) as u64, 4 * LIMIT);
}

#[cfg(target_os = "linux")]
#[test]
fn srcu_callbacks_run_without_worker_threads() {
    if child::variant().is_none() {
        let test = srcu_callbacks_run_without_worker_threads;
        return child::run(test, "denied", None);
    }
    let _running = deadline();
    let (calls, call) = counter();
    deny_threads();
    let domain = Domain::new();
    domain.call(call);
    domain.barrier();
    assert_eq!(calls.load(Acquire), 1);
    let own = domain.clone();
    domain.call(move || {
        own.call(call);
        drop(own);
    });
    domain.call_with(call, LAZY);
    drop(domain);
    // The handle in the callback was the last.
    until(|| calls.load(Acquire) >= 1);
    let domain = Domain::new();
    domain.call(call);
    domain.retire(Box::new([1; 8]));
    domain.call_with(call, LAZY);
    let before = calls.load(Acquire);
    drop(domain);
    assert_eq!(calls.load(Acquire), before + 2);
    // It does not wait for a guard that was leaked.
    let domain = Domain::new();
    mem::forget(domain.enter());
    domain.call(call);
    drop(domain);
    assert_eq!(calls.load(Acquire), before + 2);
}

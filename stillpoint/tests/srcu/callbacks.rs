//! Callbacks of an `srcu` domain run once, after the sections that were open, even if the domain is dropped.

#[cfg(target_os = "linux")]
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use stillpoint::srcu::Domain;
use support::prelude::*;

#[test]
fn barrier_waits_for_callbacks_of_all_threads() {
    const THREADS: usize = 4;
    let _running = deadline();
    let each = repetitions(5000);
    let (calls, call) = counter();
    let (drops, _) = counter();
    let domain = &Domain::new();
    in_threads(THREADS, |_| {
        for index in 0..each {
            domain.call(call);
            domain.retire(Box::new(Tracked(drops)));
            domain.retire_with(Box::new([index; 3]), DeferOptions::new().run_on_retiring_thread());
        }
        domain.barrier();
    });
    domain.barrier();
    assert_eq!([calls, drops].map(|count| count.load(Acquire)), [THREADS * each; 2]);
    let stats = domain.stats();
    assert_eq!((stats.queued, stats.queued_bytes), (0, 0), "{stats}");
    assert_eq!(stats.done, 3 * (THREADS * each) as u64, "{stats}");
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
            domain.call(call);
        }
    }
    domain.barrier();
    assert_eq!((last.load(Acquire), OUT_OF_ORDER.load(Acquire)), (ROUNDS * EACH, 0));
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
    own!(Outer);
    const TABLES: usize = 10;
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
    alone!();
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

#[cfg(target_os = "linux")]
#[test]
fn srcu_callbacks_run_without_worker_threads() {
    alone!();
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
    domain.call(call);
    drop(domain);
    // The handle in the callback was the last.
    until(|| calls.load(Acquire) >= 1);
    let domain = Domain::new();
    domain.call(call);
    domain.retire(Box::new([1; 8]));
    domain.call(call);
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

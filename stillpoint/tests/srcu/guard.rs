//! Guards that sleep, move between threads, and outlive them.

use std::collections::HashSet;
use std::fmt::Debug;

use stillpoint::rcu::Ref;
use stillpoint::srcu::{Domain, Guard, OwnedGuard};
use support::prelude::*;
use tokio::runtime::Builder;

/// Waits until a grace period of `domain` sleeps.
fn until_it_sleeps(domain: &Domain, before: u64) {
    until(|| domain.stats().sleeps != before);
}

#[test]
fn guards_and_domains_are_send_sync_and_small() {
    fn is<T: Send + Sync>() {}
    is::<Guard<'_>>();
    is::<OwnedGuard>();
    is::<Domain>();
    is::<Rcu<String, Domain>>();
    is::<Ref<'static, String, Domain>>();
    is::<Ref<'static, dyn Debug + Send + Sync, Domain>>();
    assert_eq!(size_of::<Guard<'_>>(), 2 * size_of::<usize>());
}

#[test]
fn tried_grace_period_is_blocked_by_guards_of_any_thread() {
    let _running = deadline();
    let domain = Domain::new();
    assert!(domain.try_synchronize());
    let guard = domain.enter();
    assert!(!domain.try_synchronize());
    let (before, writer) = (domain.stats().sleeps, domain.clone());
    let writer = thread::spawn(move || writer.synchronize());
    until_it_sleeps(&domain, before);
    assert!(!domain.try_synchronize());
    drop(guard);
    writer.join().expect("the grace period ends");
    assert!(domain.try_synchronize());
}

#[test]
fn guard_outliving_its_thread_is_waited_for() {
    static DOMAIN: Domain = Domain::new();
    let _running = deadline();
    let guard = thread::spawn(|| DOMAIN.enter()).join().expect("no panic");
    let readers = GracePeriod::now_in(DOMAIN.clone());
    assert!(!readers.wait_timeout(Duration::from_millis(10)));
    thread::spawn(move || drop(guard)).join().expect("no panic");
    readers.wait();
}

#[test]
fn domain_does_not_wait_for_guards_of_another() {
    let _running = deadline();
    let domains: Vec<Domain> = (0..100).map(|_| Domain::new()).collect();
    let guards: Vec<_> = domains.iter().skip(1).map(Domain::enter).collect();
    domains[0].synchronize();
    drop(guards);
    domains.iter().for_each(Domain::synchronize);
}

#[test]
fn owned_guard_outlives_all_other_handles() {
    let _running = deadline();
    let domain = Domain::new();
    let value = Rcu::new_in(Tracked::leaked(), domain.clone());
    let (guard, drops) = (domain.enter_owned(), value.load(&domain.enter()).0);
    domain.call(|| ());
    drop(value.replace(Tracked::leaked()));
    drop((value, domain));
    thread::sleep(Duration::from_millis(5));
    assert_eq!(drops.load(Acquire), 0);
    thread::spawn(move || drop(guard)).join().expect("no panic");
    until(|| drops.load(Acquire) != 0);
}

#[test]
fn handles_of_one_domain_are_equal() {
    let [one, other] = [Domain::new(), Domain::new()];
    // Unused.
    assert_eq!(one, one);
    assert_ne!(one, other);
    let clone = one.clone();
    assert_eq!(clone, one);
    assert_ne!(one, other);
    assert_ne!(other, clone);
    other.prepare();
    assert_ne!(one, other);
    let moved = other;
    assert_eq!(moved, moved.clone());
}

#[test]
fn hundred_thousand_guards_cost_at_most_two_wakeups() {
    let _running = deadline();
    let wakeups = || {
        let domain = &Domain::new();
        let guards: Vec<_> = (0..repetitions(100_000)).map(|_| domain.enter()).collect();
        assert_eq!(domain.stats().readers, guards.len() as u64);
        thread::scope(|scope| {
            let writer = scope.spawn(|| domain.synchronize());
            until_it_sleeps(domain, 0);
            // Begins later: the grace period does not wait for it, and it does not count down.
            let late = domain.enter();
            drop(domain.enter());
            drop(guards);
            writer.join().expect("no panic");
            drop(late);
        });
        let stats = domain.stats();
        assert_eq!((stats.readers, stats.sleeps), (0, 1), "{stats}");
        assert!(stats.wakeups <= 3, "{stats}");
        assert!(stats.heavy_fences <= 3, "{stats}");
        stats.wakeups
    };
    // Once more if the leader, which had counted its sleep, lost its CPU before it slept.
    until(|| wakeups() != 0);
}

#[test]
fn guard_is_held_over_await_across_threads() {
    const TASKS: usize = 20;
    const ROUNDS: usize = 100;
    static DOMAIN: Domain = Domain::new();
    let _running = deadline();
    let value = Arc::new(Rcu::new_in(Tracked::leaked(), DOMAIN.clone()));
    let moved = Arc::new(AtomicUsize::new(0));
    let readers = (0..TASKS).map(|_| {
        let (value, moved) = (Arc::clone(&value), Arc::clone(&moved));
        async move {
            for _ in 0..ROUNDS {
                let guard = DOMAIN.enter();
                let seen = value.load(&guard);
                let before = thread::current().id();
                tokio::task::yield_now().await;
                moved.fetch_add(usize::from(thread::current().id() != before), Relaxed);
                assert_eq!(seen.0.load(Acquire), 0);
            }
        }
    });
    let writer = {
        let value = Arc::clone(&value);
        async move {
            for _ in 0..ROUNDS {
                let old = value.replace(Tracked::leaked());
                GracePeriod::now_in(DOMAIN.clone()).await;
                drop(old);
            }
        }
    };
    let runtime = Builder::new_multi_thread().worker_threads(4).build().expect("a runtime");
    let readers: Vec<_> = readers.map(|reader| runtime.spawn(reader)).collect();
    let writer = runtime.spawn(writer);
    runtime.block_on(async {
        for reader in readers {
            reader.await.expect("no panic");
        }
        writer.await.expect("no panic");
    });
    DOMAIN.barrier();
    assert_eq!(DOMAIN.stats().readers, 0);
}

#[test]
fn pointer_debug_output_reads_in_its_own_section() {
    let domain = Domain::new();
    let number = Rcu::new_in(7, domain.clone());
    assert_eq!(format!("{number:?}"), "Rcu(7)");
    drop(number.update_with(&domain.enter(), |old| old + 1));
    assert_eq!(number.into_inner(), 8);
    domain.synchronize();
    assert!(format!("{domain:?}").contains(file!()));
}

#[test]
fn cookies_of_two_domains_do_not_compare() {
    let domains = [Domain::new(), Domain::new()];
    let [a, b] = domains.each_ref().map(|domain| GracePeriod::now_in(domain.clone()));
    assert_ne!(a, b);
    assert_eq!(a.partial_cmp(&b), None);
    let same = GracePeriod::now_in(domains[0].clone());
    assert_eq!(a, same);
    assert_eq!(HashSet::from([a.clone(), b.clone(), same]).len(), 2);
    domains[0].synchronize();
    let later = GracePeriod::now_in(domains[0].clone());
    assert!(a < later && a != later);
    // `b` has not elapsed with it.
    assert!(a.is_elapsed() && !b.is_elapsed());
}

#[test]
fn grace_period_after_one_that_failed_ends_beside_new_sections() {
    let _running = deadline();
    let domain = Domain::new();
    let old = domain.enter();
    // Tries a grace period, which the section blocks.
    domain.flush();
    let (mut section, has_ended) = (domain.enter(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            domain.synchronize();
            has_ended.store(true, Release);
        });
        until(|| domain.stats().sleeps != 0);
        drop(old);
        // One is open at any time.
        while !has_ended.load(Acquire) {
            let next = domain.enter();
            drop(mem::replace(&mut section, next));
        }
    });
}

//! The memory of `srcu` domains: what they had in their queues goes back when they are dropped, a first use may find
//! none, and domains that defer nothing need little.

use stillpoint::srcu::Domain;
use support::counting::{LARGE, LARGE_LIVE, live, without_memory};
use support::prelude::*;

/// Bytes of the state that a domain allocates at its first use; portable systems have the counters of each CPU in it.
const STATE: usize = if cfg!(stillpoint_portable) { 384 } else { 320 };

#[test]
fn dropped_domain_leaves_no_large_block() {
    alone!();
    // `LARGE_LIVE` counts the blocks of `LARGE` bytes and more of all threads: values, and blocks of callbacks. The
    // state of a domain is smaller.
    let round = || {
        let domain = Domain::new();
        let value = Rcu::new_in([0_u8; 2 * LARGE], domain.clone());
        drop(domain.enter());
        // More than one block of callbacks in the thread's queue.
        for _ in 0..1000 {
            domain.call(|| ());
        }
        drop(value.replace([1; 2 * LARGE]));
        value.replace([1; 2 * LARGE]).wait();
        value.replace([1; 2 * LARGE]).retire_with(DeferOptions::new());
        GracePeriod::start_in(domain.clone());
        domain.retire(Box::new([2_u8; 2 * LARGE]));
    };
    // Allocates what is allocated once per process.
    round();
    let settled = || {
        let mut last = LARGE_LIVE.load(Relaxed);
        let mut same = 0;
        while same < 1000 {
            thread::yield_now();
            let live = LARGE_LIVE.load(Relaxed);
            same = if live == last { same + 1 } else { 0 };
            last = live;
        }
        last
    };
    // The whole is repeated if a thread of the library that an earlier round has left has allocated meanwhile.
    until(|| {
        let before = settled();
        (0..50).for_each(|_| round());
        let (begin, is_free) = (Instant::now(), || LARGE_LIVE.load(Relaxed) <= before);
        // The workers free the domains.
        until(|| is_free() || begin.elapsed() > Duration::from_secs(10));
        is_free()
    });
}

#[test]
fn first_use_without_memory_panics_and_may_be_retried() {
    alone!();
    static DOMAIN: Domain = Domain::new();
    // The default hook allocates, and its message would be lost.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    // From 320 bytes on: the state of a domain, but not what a panic takes.
    let refused = catch_unwind(|| without_memory(320, || drop(DOMAIN.enter())));
    std::panic::set_hook(hook);
    let panic = refused.expect_err("there is no memory");
    assert!(message(&*panic).contains("no memory for the srcu::Domain"), "{}", message(&*panic));
    drop(DOMAIN.enter());
    DOMAIN.synchronize();
}

/// A domain that was read and waited for, but has deferred nothing, has allocated its state and no queues.
#[test]
fn domain_that_has_deferred_nothing_has_no_queues() {
    alone!();
    let use_one = |domain: &Domain| {
        drop(domain.enter());
        domain.synchronize();
    };
    use_one(&Domain::new());
    const COUNT: usize = 1000;
    let mut domains: Vec<_> = (0..COUNT).map(|_| Domain::new()).collect();
    // Of this thread alone, which allocates and frees it all.
    let before = live();
    domains.iter().for_each(use_one);
    let each = (live() - before) / COUNT;
    eprintln!("{each} bytes of a domain");
    assert!(each <= STATE, "{each}");
    domains.clear();
    assert!(live() <= before, "{} bytes are left", live() - before);
}

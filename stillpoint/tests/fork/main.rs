//! Children of forks. Each test forks in a process of its own.
// Elsewhere than on Linux the child of a fork may only `exec`.
#![cfg(not(any(loom, stillpoint_portable)))]

mod lock;
mod qsbr;
mod rcu;
mod srcu;
mod stall;

use stillpoint::{EnterSection, fence};
use support::futures::block_on;
use support::prelude::*;

/// Uses everything once, outside sections.
fn exercise<D: EnterSection<Hazards = ()>>(domain: &D) {
    fence::light();
    fence::heavy();
    let ((runs, run), (drops, _)) = (counter(), counter());
    let value = Rcu::new_in(Tracked(drops), domain.clone());
    let reference = value.read();
    let old = value.replace(Tracked(drops));
    domain.call(run);
    domain.call_with(run, DeferOptions::new().heap_bytes(100));
    domain.retire(Box::new([7_u8; 100]));
    let readers = GracePeriod::start_in(domain.clone());
    drop(old);
    assert!(!readers.is_elapsed());
    assert_eq!((runs.load(Acquire), drops.load(Acquire)), (0, 0));
    drop(reference);
    until(|| readers.is_elapsed());
    domain.barrier();
    assert_eq!((runs.load(Acquire), drops.load(Acquire)), (2, 1));
    // The worker sleeps by now, or is about to.
    domain.call(run);
    until(|| runs.load(Acquire) == 3);
    drop(value.replace(Tracked(drops)).wait());
    domain.synchronize();
    until(|| domain.try_synchronize());
    let now = || GracePeriod::now_in(domain.clone());
    now().wait();
    assert!(now().wait_timeout(Duration::MAX));
    block_on(now().into_future());
    domain.call(run);
    block_on(domain.barrier_async());
    assert_eq!(runs.load(Acquire), 4);
}

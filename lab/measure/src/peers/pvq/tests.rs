use std::sync::atomic::AtomicU32;
use std::thread;

use super::super::Lock as _;
use super::*;

patches! {
    /// Waiters halt at once, so that each wait uses the hash table and kicks.
    Eager "eager" { const SPIN_THRESHOLD: u32 = 1; }
    EagerPosted "eager, as posted" {
        const AS_POSTED: bool = true;
        const SPIN_THRESHOLD: u32 = 16;
    }
    EagerQueued "eager, without the pending bit" {
        const PENDING_BIT: bool = false;
        const SPIN_THRESHOLD: u32 = 1;
    }
    EagerAhead "eager, kick-ahead" {
        const DEFERRED_KICK: bool = false;
        const ADAPTIVE_SPINNING: bool = false;
        const SPIN_THRESHOLD: u32 = 1;
    }
    Medium "medium" { const SPIN_THRESHOLD: u32 = 600; }
}

/// Threads take several locks in turn. Each holder checks that it is alone.
fn exclude<P: Patches>(threads: usize, rounds: u64) {
    let locks: [(Pvq<P>, AtomicU32); 3] = std::array::from_fn(|_| (Pvq::new(), AtomicU32::new(0)));
    thread::scope(|scope| {
        for thread in 0..threads {
            let locks = &locks;
            scope.spawn(move || {
                for round in 0..rounds {
                    let (lock, holders) = &locks[(round as usize / 8 + thread % 2) % locks.len()];
                    lock.with(|count| {
                        assert_eq!(holders.fetch_add(1, Relaxed), 0, "{}: two holders", P::NAME);
                        if round.is_multiple_of(4) {
                            yield_now();
                        }
                        *count += 1;
                        holders.fetch_sub(1, Relaxed);
                    });
                }
            });
        }
    });
    let total: u64 = locks.iter().map(|(lock, _)| lock.with(|count| *count)).sum();
    assert_eq!(total, threads as u64 * rounds, "{}", P::NAME);
    locks.iter().for_each(|(lock, _)| assert_eq!(lock.lock.word.load(Relaxed), 0, "{}", P::NAME));
}

#[test]
fn eager_halts_exclude_and_lose_no_wake_up() {
    exclude::<Eager>(8, 1000);
    exclude::<EagerPosted>(8, 1000);
    exclude::<EagerQueued>(8, 1000);
    exclude::<EagerAhead>(8, 1000);
}

#[test]
fn halts_after_some_spinning_exclude_and_lose_no_wake_up() {
    exclude::<Medium>(6, 1000);
}

#[test]
fn every_stage_of_the_series_excludes() {
    exclude::<UnconditionalKick>(3, 200);
    exclude::<PendingBit>(3, 200);
    exclude::<KickAhead>(3, 200);
    exclude::<DeferredKick>(3, 200);
    exclude::<Series>(3, 200);
    exclude::<Merged>(3, 200);
    exclude::<Posted>(3, 200);
}

#[test]
fn halted_waiters_are_counted_and_kicked() {
    stat::reset();
    let count = |stat: Stat| stat::read(1.0)[stat as usize];
    let lock = Pvq::<Counted<Eager>>::new();
    thread::scope(|scope| {
        lock.with(|_| {
            (0..2).for_each(|_| drop(scope.spawn(|| lock.with(|count| *count += 1))));
            while count(Stat::WaitHead) == 0.0 || count(Stat::WaitNode) == 0.0 {
                yield_now();
            }
        });
    });
    assert_eq!(lock.with(|count| *count), 2);
    assert!(count(Stat::UnlockKick) > 0.0);
    assert_eq!(count(Stat::LockKick), 0.0);
}

#[test]
fn hash_table_finds_entries_behind_removed_ones() {
    let locks: Vec<Pvq<Series>> = (0..64).map(|_| Pvq::new()).collect();
    for (index, lock) in locks.iter().enumerate() {
        hash::insert::<Series>(lock.lock.address(), index as u32 + 1);
    }
    for first in [1, 0] {
        for (index, lock) in locks.iter().enumerate().skip(first).step_by(2) {
            assert_eq!(hash::remove(lock.lock.address()), index as u32 + 1);
        }
    }
}

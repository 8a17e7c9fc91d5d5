//! Closures of the hash map that take long, beside other threads that change the same entry all the time.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use stillpoint::rcu;
use stillpoint_collections::HashMap;
use stillpoint_collections::hash_map::Operation;
use support::deadline::deadline;

/// A map whose key 1 other threads change while it lives.
struct Busy<'a> {
    map: &'a HashMap<u32, u64>,
    changes: &'a AtomicU64,
}

/// Runs `body` beside two threads that change the entry of key 1 in a loop.
fn beside_writers(body: impl FnOnce(Busy<'_>)) {
    let map = HashMap::from([(1, 0)]);
    let (changes, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    /// Ends the writers, also after a panic.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    thread::scope(|scope| {
        for writer in 0..2 {
            let (map, changes, stop) = (&map, &changes, &stop);
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    if writer == 0 {
                        map.insert(1, 0, &rcu::enter());
                    } else {
                        map.update(&1, |_| 0, &rcu::enter());
                    }
                    changes.fetch_add(1, Relaxed);
                }
            });
        }
        let _stop = Stop(&stop);
        body(Busy { map: &map, changes: &changes });
    });
}

impl Busy<'_> {
    /// Returns once another thread has changed the entry, or after `limit`.
    fn wait_for_change(&self, limit: Duration) {
        let (begin, before) = (Instant::now(), self.changes.load(Relaxed));
        // Of both writers: the first change may have been made before.
        while self.changes.load(Relaxed) < before + 3 && begin.elapsed() < limit {
            thread::yield_now();
        }
    }
}

const SLOW: Duration = Duration::from_millis(20);

/// More calls than any of these operations needs.
const MOST: u32 = 200;

fn count(calls: &Cell<u32>) {
    calls.set(calls.get() + 1);
    assert!(calls.get() < MOST, "the operation loses for ever");
}

#[test]
fn slow_retain_succeeds_beside_fast_writers() {
    let _running = deadline();
    beside_writers(|busy| {
        let calls = Cell::new(0);
        let slow = |_: &u32, _: &u64| {
            count(&calls);
            busy.wait_for_change(SLOW);
            false
        };
        busy.map.retain(slow, &rcu::enter());
    });
}

/// The closure does not end before another thread has changed the entry: the operation must not hold that thread for
/// ever.
#[test]
fn closure_that_waits_for_other_writers_does_not_deadlock() {
    let _running = deadline();
    beside_writers(|busy| {
        let calls = Cell::new(0);
        let waits = |_: &u64| {
            calls.set(calls.get() + 1);
            let limit = if calls.get() < 11 { Duration::MAX } else { SLOW };
            busy.wait_for_change(limit);
            7
        };
        assert_eq!(busy.map.update(&1, waits, &rcu::enter()), Some(&7));
    });
}

/// The closures of two threads change each other's entry, and their own.
#[test]
fn closures_that_change_each_others_entries_end() {
    let _running = deadline();
    let map = HashMap::from([(1, 0), (2, 0)]);
    thread::scope(|scope| {
        for (own, other) in [(1, 2), (2, 1)] {
            let map = &map;
            scope.spawn(move || {
                for _ in 0..20 {
                    let (calls, guard) = (Cell::new(0), rcu::enter());
                    let change = |old: &u64| {
                        calls.set(calls.get() + 1);
                        map.update(&other, |old| old + 1, &guard);
                        if calls.get() < 50 {
                            map.insert(own, 0, &guard);
                        }
                        old + 1
                    };
                    assert!(map.update(&own, change, &guard).is_some());
                }
            });
        }
    });
}

/// The closure uses all of the map, before it is its operation's turn and afterwards.
#[test]
fn slow_closure_may_use_the_map() {
    let _running = deadline();
    beside_writers(|busy| {
        let (map, calls, guard) = (busy.map, Cell::new(0), rcu::enter());
        (2..2000).for_each(|key| _ = map.insert(key, 0, &guard));
        let uses = |_: &u64| {
            count(&calls);
            match calls.get() % 8 {
                0 => map.reserve(3000, &guard),
                1 => map.shrink_to_fit(&guard),
                2 => map.retain(|key, _| key % 2 == 1, &guard),
                3 => _ = map.iter(&guard).count(),
                4 => _ = map.update(&3, |_| *map.update(&5, |old| old + 1, &guard).unwrap_or(&0), &guard),
                5 => _ = map.compute(&1, |_| Operation::<_, ()>::Insert(9), &guard),
                6 => _ = map.get_or_insert_with(&7, || *map.insert(7, 1, &guard).unwrap_or(&2), &guard),
                _ => map.clear(&guard),
            }
            if calls.get() < 40 {
                map.insert(1, 0, &guard);
                busy.wait_for_change(SLOW);
            }
            7
        };
        // `None` if a call before has removed the entry.
        assert!(matches!(map.update(&1, uses, &guard), Some(7) | None));
        assert!(calls.get() >= 40);
    });
}

/// A turn does not help an operation whose closure changes its own entry. Other writers do not wait for its end.
#[test]
fn writer_beside_a_closure_that_defeats_itself_succeeds() {
    let _running = deadline();
    let map = HashMap::from([(1, 0)]);
    let (calls, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            // Until it is the operation's turn.
            while calls.load(Relaxed) < 12 {
                thread::yield_now();
            }
            map.insert(1, 1, &rcu::enter());
            is_done.store(true, Relaxed);
        });
        let guard = rcu::enter();
        let change = |_: &u64| {
            let calls = calls.fetch_add(1, Relaxed);
            assert!(calls < 100, "the writer waits as long as the operation takes");
            let begin = Instant::now();
            while calls > 8 && !is_done.load(Relaxed) && begin.elapsed() < 5 * SLOW {
                thread::yield_now();
            }
            if !is_done.load(Relaxed) {
                map.insert(1, 0, &guard);
            }
            7
        };
        assert_eq!(map.update(&1, change, &guard), Some(&7));
    });
}

/// A panic ends the operation: other writers go on, and another slow operation succeeds.
#[test]
fn panic_in_a_slow_closure_releases_the_entry() {
    let _running = deadline();
    beside_writers(|busy| {
        let calls = Cell::new(0);
        let panics = |_: &u64| {
            count(&calls);
            busy.wait_for_change(SLOW);
            assert!(calls.get() < 20, "the closure panics");
            // So that the operation never succeeds before.
            busy.map.insert(1, 0, &rcu::enter());
            7
        };
        assert!(catch_unwind(AssertUnwindSafe(|| _ = busy.map.update(&1, panics, &rcu::enter()))).is_err());
        // Outside a section, which would keep what the writers retire, so that they would be throttled.
        busy.wait_for_change(Duration::MAX);
        calls.set(0);
        let slow = |_: &u64| {
            count(&calls);
            busy.wait_for_change(SLOW);
            7
        };
        assert_eq!(busy.map.update(&1, slow, &rcu::enter()), Some(&7));
    });
}

//! The bound on memory behind a stalled reader, for values that own memory: what they own counts, or their number.

use stillpoint::Domain;
use stillpoint::rcu::{Atomic, Owned, Shared};
use support::owner::section_elsewhere;
use support::prelude::*;

const MIB: usize = 1 << 20;
const LIMIT: u64 = 8 << 20;

/// Calls `retire`, which retires a value in `domain`, while a reader stalls, until the thread is throttled. Returns
/// how many values wait then. `end` ends the section of the reader.
fn retired_until_throttled<D: Domain>(domain: &D, end: impl FnOnce(), retire: impl Fn() + Sync) -> u64 {
    const MOST: u64 = 1000;
    let _running = deadline();
    domain.set_limits(Limits { bytes: LIMIT, ..Limits::default() });
    // The worker must have waited for some time, before a number of values is too much.
    domain.call(|| ());
    until(|| domain.stats().sleeps != 0);
    let since = Instant::now();
    until(|| since.elapsed() > Duration::from_millis(150));
    let before = domain.stats().limit_waits;
    let is_throttled = || domain.stats().limit_waits != before;
    thread::scope(|scope| {
        // The thread itself counts, up to the value with which it is throttled: it may continue at once, or after
        // some time.
        let retiring = scope.spawn(|| {
            let retired = (1..=MOST).find(|_| {
                retire();
                is_throttled()
            });
            retired.unwrap_or(MOST + 1)
        });
        until(|| is_throttled() || retiring.is_finished());
        end();
        retiring.join().expect("no panic")
    })
}

fn replaced_until_throttled<T: Send + Sync + 'static, D: StaticDomain<Section = Guard<D>>>(
    make: impl Fn() -> T + Sync,
) -> u64 {
    let pointer = Rcu::new_in(make(), *D::INSTANCE);
    retired_until_throttled(D::INSTANCE, section_elsewhere::<D>(), || drop(pointer.replace(make())))
}

macro_rules! replaced {
    ($make:expr) => {{
        stillpoint::domain! { struct Own; }
        replaced_until_throttled::<_, Own>($make)
    }};
}

/// Checks that as many mebibytes wait as the limit allows.
fn assert_weighed(retired: u64) {
    assert!(retired <= LIMIT / MIB as u64 + 1, "{retired} values of a mebibyte wait");
}

#[test]
fn strings_and_vectors_count_with_what_they_own() {
    assert_weighed(replaced!(|| vec![0_u8; MIB]));
    assert_weighed(replaced!(|| Vec::<u64>::with_capacity(MIB / 8)));
    assert_weighed(replaced!(|| String::with_capacity(MIB)));
    assert_weighed(replaced!(|| vec![0_u32; MIB / 4].into_boxed_slice()));
}

#[test]
fn values_count_with_what_the_program_says() {
    stillpoint::domain! { struct Own; }
    let pointer = Rcu::new_in(Table::new(), Own);
    assert_weighed(retired_until_throttled(&Own, section_elsewhere::<Own>(), || {
        pointer.replace(Table::new()).retire_with(DeferOptions::new().heap_bytes(MIB));
    }));
}

#[test]
fn values_without_a_size_count_with_their_size() {
    stillpoint::domain! { struct Own; }
    let pointer: Rcu<[u8], Own> = Rcu::from_box_in(vec![0; MIB].into(), Own);
    assert_weighed(retired_until_throttled(&Own, section_elsewhere::<Own>(), || {
        drop(pointer.swap(vec![0; MIB].into()));
    }));
}

/// A type that the library does not know.
struct Table {
    _rows: Vec<u8>,
}

impl Table {
    fn new() -> Self {
        Self { _rows: vec![0; MIB] }
    }
}

/// 64 KiB each, and a block that is not reported yet.
const UNKNOWN: u64 = LIMIT / (16 << 10) + 64;

#[test]
fn number_of_unknown_values_is_bounded_behind_a_stalled_reader() {
    let retired = replaced!(Table::new);
    assert!(retired <= UNKNOWN, "{retired} values wait");
    stillpoint::domain! { struct Boxes; }
    stillpoint::domain! { struct Closures; }
    let boxes = retired_until_throttled(&Boxes, section_elsewhere::<Boxes>(), || {
        Boxes.retire(Box::new(Table::new()))
    });
    assert!(boxes <= UNKNOWN, "{boxes} boxes wait");
    let closures = retired_until_throttled(&Closures, section_elsewhere::<Closures>(), || {
        let table = Table::new();
        Closures.call(move || drop(table));
    });
    assert!(closures <= UNKNOWN, "{closures} closures wait");
    stillpoint::domain! { struct Batches; }
    let batches = retired_until_throttled(&Batches, section_elsewhere::<Batches>(), || {
        unsafe fn free(table: *mut ()) {
            // SAFETY: it comes from `into_raw`, below.
            drop(unsafe { Box::from_raw(table.cast::<Table>()) });
        }
        let table = Box::into_raw(Box::new(Table::new())).cast();
        // SAFETY: as above.
        unsafe {
            Batches.retire_raw_with(table, 0, free, DeferOptions::new().unknown_heap_bytes().count(16))
        };
    });
    assert!(batches <= UNKNOWN / 16, "{batches} batches of 16 wait");
}

#[test]
fn number_of_unlinked_nodes_is_bounded_behind_a_stalled_reader() {
    stillpoint::domain! { struct Own; }
    let head: Atomic<Table, Own> = Atomic::null();
    let nodes = retired_until_throttled(&Own, section_elsewhere::<Own>(), || {
        let guard = Own::enter();
        let old = head.swap(Owned::new(Table::new()), &guard);
        // SAFETY: no other pointer leads to the node.
        unsafe { Own.retire_shared(old, DeferOptions::new()) };
    });
    assert!(nodes <= UNKNOWN + 1, "{nodes} nodes wait");
    let guard = Own::enter();
    // SAFETY: as above.
    unsafe { Own.retire_shared(head.swap(Shared::null(), &guard), DeferOptions::new()) };
}

#[test]
fn known_values_are_not_bounded_by_their_number() {
    stillpoint::domain! { struct Own; }
    let retired = retired_until_throttled(&Own, section_elsewhere::<Own>(), || Own.retire(Box::new(0_u64)));
    assert_eq!(retired, 1001);
}

#[test]
fn backlog_grows_slowly_after_the_throttle_has_timed_out() {
    let _running = deadline();
    // In a domain of `srcu`, callers are paced from the beginning, as they may be inside a section.
    let domain = srcu::Domain::new();
    domain.set_limits(Limits { bytes: 1 << 20, ..Limits::default() });
    let guard = domain.enter();
    let pointer = Rcu::new_in(vec![0_u8; 1], domain.clone());
    let (retired, since) = (AtomicU64::new(0), Instant::now());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                // Two mebibytes above the limit, at a mebibyte a second.
                while retired.fetch_add(16 << 10, Relaxed) < 3 << 20 {
                    pointer.replace(vec![0; 16 << 10]);
                }
            });
        }
        until(|| retired.load(Relaxed) >= 3 << 20);
        let took = since.elapsed();
        assert!(took > Duration::from_millis(1000), "two mebibytes above the limit took {took:?}");
        drop(guard);
    });
}

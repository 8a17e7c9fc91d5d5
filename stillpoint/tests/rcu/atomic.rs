//! `Atomic`, `Owned` and `Shared` in all kinds of domains. `loom_structures.rs` has stacks and lists.

use std::fmt::Debug;

use stillpoint::rcu::{Atomic, Owned, Shared};
use support::prelude::*;

const TASKS: usize = 3;
/// Values of each thread.
const VALUES: usize = if cfg!(miri) { 20 } else { 3000 };
/// For how long readers are to read as often.
const TIME: Duration = Duration::from_secs(3);

/// A value that is 0 once it has been dropped.
struct Zeroed(AtomicU64);

impl Drop for Zeroed {
    fn drop(&mut self) {
        self.0.store(0, Relaxed);
    }
}

/// A writer replaces a node by swap, compare-exchange and store, while readers use what they loaded.
fn exercise_readers<D: Flavour>() {
    let new = || Owned::new(Zeroed(AtomicU64::new(7)));
    let domain = D::make();
    let current = Atomic::<Zeroed, D>::new(new());
    let (ended, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 1..TASKS {
            scope.spawn(|| {
                while !ended.load(Relaxed) {
                    domain.within(|section| {
                        let node = current.load(section);
                        assert!(node.tag() <= 1);
                        thread::yield_now();
                        let value = node.as_ref().expect("never null").0.load(Relaxed);
                        assert_ne!(value, 0, "read a dropped node");
                    });
                    reads.fetch_add(1, Relaxed);
                }
            });
        }
        let (mut round, begin) = (0, Instant::now());
        // Beside other load it takes long to yield, so there are fewer reads.
        let least = || if begin.elapsed() < TIME { VALUES / 2 } else { VALUES / 100 };
        while round < VALUES / 2 || reads.load(Relaxed) < least() {
            round += 1;
            domain.within(|section| {
                let old = match round % 3 {
                    0 => current.swap(new(), section),
                    1 => {
                        let marked = current.fetch_or(1, section).with_tag(1);
                        assert!(
                            current.compare_exchange(marked, new(), section).is_ok(),
                            "there is one writer"
                        );
                        marked
                    }
                    _ => {
                        let old = current.load(section);
                        current.store(new());
                        old
                    }
                };
                // SAFETY: the only writer has unlinked it.
                unsafe { domain.retire_shared(old, DeferOptions::new()) };
            });
        }
        ended.store(true, Relaxed);
    });
    domain.barrier();
    let mut current = current;
    // SAFETY: the threads have ended.
    drop(unsafe { current.take() });
}

#[test]
fn reader_never_sees_a_dropped_node() {
    each_flavour!(exercise_readers);
}

#[test]
fn tag_has_the_bits_below_the_alignment() {
    fn check<T>(value: T, bits: usize) {
        let mut next: Atomic<T, Threads> = Atomic::new(Owned::new(value).with_tag(usize::MAX));
        let guard = Threads::enter();
        let node = next.load(&guard);
        assert_eq!((node.tag(), node.is_null()), (bits, false));
        assert_eq!(next.fetch_and(0b101, &guard), node);
        assert_eq!(next.load(&guard).tag(), bits & 0b101);
        assert_eq!(next.fetch_or(0b10, &guard).tag(), bits & 0b101);
        assert_eq!(next.load(&guard).tag(), bits & 0b111);
        assert!(Shared::<T>::null().with_tag(usize::MAX).is_null());
        assert_eq!(Shared::<T>::null().with_tag(usize::MAX).tag(), bits);
        // SAFETY: no other thread has the pointer.
        let owned = unsafe { next.take() }.expect("not null");
        assert_eq!(owned.tag(), bits & 0b111);
        assert!(next.get_mut().is_null());
    }
    #[repr(align(64))]
    struct Aligned;

    check::<()>((), 0);
    check::<u8>(1, 0);
    check::<[u64; 0]>([], 7);
    check::<Aligned>(Aligned, 63);
}

#[test]
fn null_pointers_differ_from_values_without_size() {
    let mut next: Atomic<(), Threads> = Atomic::default();
    assert!(next.get_mut().as_ref().is_none());
    next.store(Owned::new(()));
    assert!(next.get_mut().as_ref().is_some());
    // SAFETY: no other thread has the pointer.
    assert!(unsafe { next.take() }.is_some());
    // SAFETY: as above.
    assert!(unsafe { next.take() }.is_none());
    // SAFETY: there is no node.
    let of_null = catch_unwind(|| unsafe { Shared::<()>::null().into_owned() });
    assert!(of_null.is_err());
}

#[test]
fn failed_exchange_gives_the_new_pointer_back() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let mut first: Atomic<Tracked, Threads> = Atomic::new(Owned::new(Tracked(&DROPS)));
    let guard = Threads::enter();
    let current = first.load(&guard);
    let before = DROPS.load(Relaxed);
    let new = Owned::new(Tracked(&DROPS)).with_tag(1);
    let address = &raw const *new;
    let error = first.compare_exchange(current.with_tag(1), new, &guard).expect_err("another tag");
    assert_eq!(error.current, current);
    assert_eq!((&raw const *error.new, error.new.tag()), (address, 1));
    assert_eq!(DROPS.load(Relaxed), before);
    drop(error);
    assert_eq!(DROPS.load(Relaxed), before + 1);
    let new = Owned::new(Tracked(&DROPS)).with_tag(1);
    let new = first.try_store(current.with_tag(1), new).expect_err("another tag");
    assert_eq!((new.tag(), first.load(&guard)), (1, current));
    drop(new);
    let stored = first.compare_exchange(current, current.with_tag(3), &guard).expect("no other thread");
    assert_eq!((stored, stored.as_ptr()), (first.load(&guard), current.as_ptr()));
    // SAFETY: no other thread has the pointer.
    drop(unsafe { first.take() });
    assert_eq!(DROPS.load(Relaxed), 3);
}

#[test]
fn concurrent_tag_changes_are_all_kept() {
    let _running = deadline();
    let mut next: Atomic<u64, Threads> = Atomic::new(Owned::new(0));
    thread::scope(|scope| {
        for bit in [1, 2, 4] {
            let next = &next;
            scope.spawn(move || {
                for _ in 0..VALUES {
                    let guard = Threads::enter();
                    assert_eq!(next.fetch_or(bit, &guard).tag() & bit, 0);
                    assert_eq!(next.fetch_and(!bit, &guard).tag() & bit, bit);
                }
            });
        }
    });
    assert_eq!(next.get_mut().tag(), 0);
    // SAFETY: the threads have ended.
    drop(unsafe { next.take() });
}

#[test]
fn retiring_a_null_pointer_does_nothing() {
    stillpoint::domain! { struct Own; }
    // SAFETY: there is no node.
    unsafe { Own.retire_shared(Shared::<String>::null().with_tag(1), DeferOptions::new()) };
    Own.barrier();
    assert_eq!((Own.stats().queued, Own.stats().done), (0, 0));
}

#[test]
fn pointers_are_formatted_without_their_nodes() {
    struct Opaque;
    let mut first: Atomic<Opaque, Threads> = Atomic::null();
    assert_eq!(format!("{:?}", first.get_mut().with_tag(0)), "Shared { address: 0x0, tag: 0 }");
    assert_eq!(format!("{first:?}"), "Atomic(Shared { address: 0x0, tag: 0 })");
    assert_eq!(format!("{:?}", Owned::new(7_u64).with_tag(2)), "Owned { value: 7, tag: 2 }");
}

#[test]
fn owned_pointer_becomes_shared_and_back() {
    let guard = Threads::enter();
    let first: Atomic<u64, Threads> = Atomic::new(Owned::from(Box::new(7_u64)).with_tag(1));
    let shared = first.load(&guard);
    // SAFETY: from a pointer to the node, which exists.
    let same = unsafe { Shared::from_ptr(shared.as_ptr()) };
    assert_eq!((same.tag(), same.with_tag(1)), (0, shared));
    assert_ne!(same, shared);
    // SAFETY: no other thread has the pointer.
    let mut owned = unsafe { shared.into_owned() };
    *owned += 1;
    assert_eq!(*owned.into_box(), 8);
    assert_eq!(size_of::<Option<Owned<u8>>>(), size_of::<usize>());
}

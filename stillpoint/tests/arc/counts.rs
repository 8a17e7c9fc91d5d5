//! Counts with `Exact`, and which values guards keep.

use std::rc::Rc;
use std::sync::{RwLock, Weak};

use stillpoint::arc::{ArcCell, Cache, Guard, RefCnt};
use support::prelude::*;

type Counted = ArcCell<Arc<u32>>;

#[test]
fn guard_gets_a_reference_when_its_value_is_replaced() {
    let value = Arc::new(1);
    let cell = ArcCell::new(Arc::clone(&value));
    let guards = [cell.load(), cell.load()];
    assert_eq!(Arc::strong_count(&value), 2, "guards have no references of their own");
    cell.store(Arc::new(2));
    assert_eq!(Arc::strong_count(&value), 3, "each guard has one, the cell has none");
    drop(guards);
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn guard_keeps_its_own_value_and_no_other() {
    let values = [1, 2, 3].map(Arc::new);
    let weak = values.each_ref().map(Arc::downgrade);
    let [first, second, third] = values;
    let cell = ArcCell::new(first);
    let guard = cell.load();
    cell.store(second);
    cell.store(third);
    assert_eq!(weak.each_ref().map(Weak::strong_count), [1, 0, 1]);
    drop(cell);
    assert_eq!(**guard, 1);
    assert_eq!(weak.each_ref().map(Weak::strong_count), [1, 0, 0]);
}

/// Loads so many guards, of which `counted` have references of their own.
fn hold(count: usize, counted: usize) {
    let value = Arc::new(1);
    let cell = ArcCell::new(Arc::clone(&value));
    let mut guards: Vec<_> = (0..count).map(|_| cell.load()).collect();
    assert_eq!(Arc::strong_count(&value), 2 + counted, "{count}");
    // A free slot is found again, wherever it is.
    for index in [0, count / 2, count - 1] {
        guards[index] = Guard::from_inner(Arc::clone(&value));
        let before = Arc::strong_count(&value);
        guards[index] = cell.load();
        assert!(Arc::strong_count(&value) <= before, "{count}");
    }
    cell.store(Arc::new(2));
    assert_eq!(Arc::strong_count(&value), 1 + count, "{count}");
    let (rest, inner) = (guards.split_off(count / 2), guards.into_iter().map(Guard::into_inner));
    let inner: Vec<_> = inner.collect();
    assert_eq!(Arc::strong_count(&value), 1 + count, "{count}");
    thread::spawn(|| drop((rest, inner))).join().unwrap();
    assert_eq!(Arc::strong_count(&value), 1, "{count}");
}

#[test]
fn guards_of_a_thread_do_not_count() {
    let counts: &[usize] = if cfg!(miri) { &[1, 7, 8] } else { &[1, 7, 8, 64] };
    counts.iter().for_each(|&count| hold(count, 0));
}

/// No store looks at more slots than 7 of each thread, and 448 others of the process.
#[test]
#[cfg_attr(miri, ignore = "no processes")]
fn guards_beyond_the_limit_of_slots_count() {
    alone!();
    for count in [455, 456, 1000, 100_000] {
        hold(count, count - 455);
    }
}

#[test]
fn load_full_and_into_inner_count() {
    let cell = ArcCell::new(Arc::new(1));
    let full = cell.load_full();
    assert_eq!(Arc::strong_count(&full), 2);
    let loaded = Guard::into_inner(cell.load());
    assert_eq!(Arc::strong_count(&full), 3);
    let guard = cell.load();
    cell.store(Arc::new(2));
    assert_eq!(Arc::strong_count(&full), 3, "full, loaded, guard");
    let kept = Guard::into_inner(guard);
    assert_eq!(Arc::strong_count(&full), 3, "the reference was paid");
    drop((loaded, kept));
    assert_eq!(Arc::strong_count(&full), 1);
}

#[test]
fn one_value_in_two_cells_is_counted_twice() {
    let value = Arc::new(1);
    let cells: [Counted; 2] = [(); 2].map(|()| ArcCell::new(Arc::clone(&value)));
    let guards = cells.each_ref().map(ArcCell::load);
    cells[0].store(Arc::new(2));
    // Guards of the other cell may have been paid too. Their references are their own.
    assert!(Arc::strong_count(&value) >= 3);
    cells[1].store(Arc::new(2));
    assert_eq!(Arc::strong_count(&value), 3);
    drop(guards);
    assert_eq!(Arc::strong_count(&value), 1);
}

/// The guard of a moved cell: the cell has another address when it lets go of the value.
#[test]
fn cell_may_move_while_guards_exist() {
    let value = Arc::new(1);
    let cell = ArcCell::new(Arc::clone(&value));
    let guard = cell.load();
    let moved = Box::new(cell);
    moved.store(Arc::new(2));
    assert_eq!((**guard, Arc::strong_count(&value)), (1, 2));
}

/// A weak reference has the address of the strong ones, and another count.
#[test]
fn strong_and_weak_references_to_one_value_are_told_apart() {
    let value = Arc::new(1);
    let strong = ArcCell::new(Arc::clone(&value));
    let weak = ArcCell::new(Arc::downgrade(&value));
    let (strong_guard, weak_guard) = (strong.load(), weak.load());
    weak.store(Weak::new());
    assert_eq!((Arc::strong_count(&value), Arc::weak_count(&value)), (2, 1));
    strong.store(Arc::new(2));
    assert_eq!((Arc::strong_count(&value), Arc::weak_count(&value)), (2, 1));
    drop(strong_guard);
    assert_eq!((Arc::strong_count(&value), Arc::weak_count(&value)), (1, 1));
    drop(weak_guard);
    assert_eq!((Arc::strong_count(&value), Arc::weak_count(&value)), (1, 0));
    assert!(weak.load().upgrade().is_none());
}

/// A pointer into the value of an `Arc`. If a cell took it, its address would be that of a weak pointer to the value,
/// with the tag.
#[derive(Clone)]
struct Odd(Arc<[u8; 2]>);

// SAFETY: the count is that of the `Arc`.
unsafe impl RefCnt for Odd {
    type Base = u8;

    fn into_ptr(me: Self) -> *mut u8 {
        Arc::into_raw(me.0).cast::<u8>().cast_mut().wrapping_add(1)
    }

    fn as_ptr(me: &Self) -> *mut u8 {
        Arc::as_ptr(&me.0).cast::<u8>().cast_mut().wrapping_add(1)
    }

    unsafe fn from_ptr(ptr: *const u8) -> Self {
        // SAFETY: the caller's contract.
        Self(unsafe { Arc::from_raw(ptr.wrapping_sub(1).cast()) })
    }
}

#[test]
fn pointer_with_an_odd_address_is_refused() {
    let value = Arc::new([1, 2]);
    let cell = ArcCell::new(None);
    type Store = fn(&ArcCell<Option<Odd>>, Option<Odd>);
    let stores: [Store; 3] = [
        ArcCell::store,
        |cell, odd| _ = cell.compare_exchange(ptr::null(), odd),
        |cell, odd| _ = cell.update(|_| odd.clone()),
    ];
    for store in stores {
        let refused = catch_unwind(AssertUnwindSafe(|| store(&cell, Some(Odd(Arc::clone(&value))))));
        assert!(refused.is_err());
        assert_eq!((Arc::strong_count(&value), cell.load().is_none()), (1, true));
    }
    assert!(catch_unwind(|| ArcCell::new(Odd(value))).is_err());
}

#[test]
fn weak_pointer_without_a_value_is_not_none() {
    let cell = ArcCell::new(Some(Weak::<u32>::new()));
    assert!(cell.load().as_ref().is_some_and(|weak| weak.upgrade().is_none()));
    let guard = cell.load();
    assert!(cell.swap(None).is_some() && guard.is_some() && cell.load().is_none());
    assert!(catch_unwind(|| ArcCell::new(Some(None::<Arc<u32>>))).is_err(), "of two kinds of none");
}

#[test]
fn values_may_borrow_and_belong_to_one_thread() {
    let text = String::from("borrowed");
    let cell = ArcCell::new(Arc::new(text.as_str()));
    let guard = cell.load();
    cell.store(Arc::new("other"));
    assert_eq!(**guard, text);
    let cell = ArcCell::new(Rc::new(Cell::new(1)));
    let guard = cell.load();
    guard.set(2);
    assert_eq!(cell.swap(Rc::default()).get(), 2);
    assert_eq!(Rc::strong_count(&guard), 1);
}

#[test]
fn compare_exchange_compares_the_value_that_is_there() {
    let values = [1, 2].map(Arc::new);
    let cell = ArcCell::new(Arc::clone(&values[0]));
    let Err((now, rejected)) = cell.compare_exchange(Arc::as_ptr(&values[1]), Arc::new(3)) else {
        panic!("another value is there")
    };
    assert_eq!((**now, *rejected), (1, 3));
    drop(now);
    let old = cell.compare_exchange(Arc::as_ptr(&values[0]), Arc::clone(&values[1])).unwrap();
    assert!(Arc::ptr_eq(&old, &values[0]));
    assert_eq!(values.each_ref().map(Arc::strong_count), [2, 2]);
    let empty: ArcCell<Option<Arc<u32>>> = ArcCell::empty();
    assert!(empty.compare_exchange(ptr::null(), Some(Arc::clone(&old))).unwrap().is_none());
    assert!(empty.compare_exchange(ptr::null(), None).is_err());
    assert_eq!(empty.into_inner().as_deref(), Some(&1));
}

#[test]
fn update_that_panics_changes_nothing() {
    let cell = ArcCell::new(Arc::new(1));
    let panicked = catch_unwind(|| cell.update(|_| panic!("as planned")));
    assert!(panicked.is_err());
    let old = cell.update(|old| {
        if **old < 10 {
            cell.update(|old| Arc::new(**old + 1));
        }
        Arc::new(**old + 1)
    });
    assert_eq!((*old, **cell.load()), (10, 11));
    assert_eq!(Arc::strong_count(&old), 1);
}

#[test]
fn update_that_comes_late_drops_what_it_made() {
    let made = Arc::new(());
    let cell = ArcCell::new(Arc::new(None));
    let mut calls = 0;
    cell.update(|_| {
        calls += 1;
        if calls == 1 {
            cell.store(Arc::new(None));
        }
        Arc::new(Some(Arc::clone(&made)))
    });
    assert_eq!((calls, Arc::strong_count(&made)), (2, 2));
}

#[test]
fn cache_keeps_its_value_until_it_is_used() {
    let value = Arc::new(1);
    let cell = ArcCell::new(Arc::clone(&value));
    let mut cache = Cache::new(&cell);
    assert_eq!(Arc::strong_count(&value), 3);
    cell.store(Arc::new(2));
    assert_eq!(Arc::strong_count(&value), 2);
    assert_eq!(**cache.load(), 2);
    assert_eq!(Arc::strong_count(&value), 1);
}

/// A pointer whose clones wait until the value is `true`.
struct Waits(Arc<AtomicBool>);

impl Clone for Waits {
    fn clone(&self) -> Self {
        let clone = Self(Arc::clone(&self.0));
        until(|| self.0.load(Acquire));
        clone
    }
}

// SAFETY: the pointer and the count are those of the `Arc`.
unsafe impl RefCnt for Waits {
    type Base = AtomicBool;

    fn into_ptr(me: Self) -> *mut AtomicBool {
        Arc::into_raw(me.0).cast_mut()
    }

    fn as_ptr(me: &Self) -> *mut AtomicBool {
        Arc::as_ptr(&me.0).cast_mut()
    }

    unsafe fn from_ptr(ptr: *const AtomicBool) -> Self {
        // SAFETY: the caller's contract.
        Self(unsafe { Arc::from_raw(ptr) })
    }
}

fn yield_often() {
    (0..1000).for_each(|_| thread::yield_now());
}

#[test]
fn store_waits_for_a_load_that_is_counting() {
    let _running = deadline();
    let value = Arc::new(AtomicBool::new(false));
    let cell = ArcCell::new(Waits(Arc::clone(&value)));
    let address = cell.as_ptr();
    thread::scope(|s| {
        s.spawn(|| cell.load_full());
        until(|| Arc::strong_count(&value) == 3);
        let store = s.spawn(|| cell.store(Waits(Arc::default())));
        until(|| cell.as_ptr() != address);
        yield_often();
        let has_waited = !store.is_finished();
        value.store(true, Release);
        assert!(has_waited);
    });
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn lock_is_a_strategy() {
    let cell: ArcCell<Arc<u32>, RwLock<()>> = ArcCell::default();
    let guard = cell.load();
    cell.store(Arc::new(1));
    assert_eq!((**guard, **cell.load()), (0, 1));
    assert_eq!(Arc::try_unwrap(Guard::into_inner(guard)), Ok(0));
    let (old, address) = (Arc::downgrade(&cell.load_full()), cell.as_ptr());
    thread::scope(|s| {
        let reading = cell.strategy().read();
        let store = s.spawn(|| cell.store(Arc::new(2)));
        until(|| cell.as_ptr() != address);
        yield_often();
        assert!(!store.is_finished() && old.strong_count() == 1, "a store waits for loads");
        drop(reading);
    });
    thread::scope(|s| {
        let writing = cell.strategy().write();
        let load = s.spawn(|| cell.load_full());
        yield_often();
        assert!(!load.is_finished(), "a load waits for a store");
        drop(writing);
    });
    assert_eq!(old.strong_count(), 0);
}

/// An object of a program. The address is never dereferenced.
#[derive(Clone)]
struct Behind(*mut u64);

// SAFETY: as if there were an object.
unsafe impl RefCnt for Behind {
    type Base = u64;

    fn into_ptr(me: Self) -> *mut u64 {
        me.0
    }

    fn as_ptr(me: &Self) -> *mut u64 {
        me.0
    }

    unsafe fn from_ptr(ptr: *const u64) -> Self {
        Self(ptr.cast_mut())
    }
}

#[test]
fn object_behind_a_value_without_size_is_not_paid_for_that() {
    let value = Arc::new(());
    let object = ArcCell::new(Behind(Arc::as_ptr(&value).cast_mut().cast()));
    let guard = object.load();
    let (strong, weak) = (ArcCell::new(Arc::clone(&value)), ArcCell::new(Arc::downgrade(&value)));
    let guards = (strong.load(), weak.load());
    strong.store(Arc::new(()));
    weak.store(Weak::new());
    assert_eq!((Arc::strong_count(&value), Arc::weak_count(&value)), (2, 1), "those of the guards");
    drop((guard, guards));
    assert_eq!((Arc::strong_count(&value), Arc::weak_count(&value)), (1, 0));
}

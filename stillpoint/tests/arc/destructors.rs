//! Destructors of values that use the cell, panic, or run late.

use stillpoint::arc::{ArcCell, Guard};
use support::prelude::*;

#[test]
fn destructor_may_load_and_store_in_the_same_cell() {
    static CELL: ArcCell<Option<Arc<Nested>>> = ArcCell::empty();
    static DROPS: AtomicU32 = AtomicU32::new(0);
    struct Nested(u32);
    impl Drop for Nested {
        fn drop(&mut self) {
            DROPS.fetch_add(1, Relaxed);
            if self.0 > 0 {
                let before = CELL.load();
                assert!(before.as_ref().is_none_or(|value| value.0 < self.0));
                CELL.store(Some(Arc::new(Nested(self.0 - 1))));
            }
        }
    }
    let _running = deadline();
    CELL.store(Some(Arc::new(Nested(9))));
    CELL.store(None);
    while CELL.load().is_some() {
        CELL.store(None);
    }
    assert_eq!(DROPS.load(Relaxed), 10);
}

#[test]
fn destructor_that_panics_leaves_the_cell_usable() {
    struct Panics(bool);
    impl Drop for Panics {
        fn drop(&mut self) {
            if self.0 {
                panic!("as planned");
            }
        }
    }
    let cell = ArcCell::new(Arc::new(Panics(true)));
    assert!(catch_unwind(AssertUnwindSafe(|| cell.store(Arc::new(Panics(true))))).is_err());
    let guard = cell.load();
    cell.store(Arc::new(Panics(false)));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(guard))).is_err(), "the guard had the last reference");
    assert!(!cell.load().0);
    cell.store(Arc::new(Panics(false)));
}

/// A thread-local variable whose destructor loads, and drops a guard that was loaded before.
#[test]
fn destructors_of_thread_local_variables_may_load() {
    static CELL: ArcCell<Option<Arc<u32>>> = ArcCell::empty();
    static SEEN: AtomicU32 = AtomicU32::new(0);
    struct Late(Guard<Option<Arc<u32>>>);
    impl Drop for Late {
        fn drop(&mut self) {
            let now = CELL.load();
            SEEN.fetch_add(**now.as_ref().unwrap() + **self.0.as_ref().unwrap(), Relaxed);
        }
    }
    thread_local! { static LATE: RefCell<Option<Late>> = const { RefCell::new(None) }; }
    let _running = deadline();
    CELL.store(Some(Arc::new(1)));
    let first = CELL.load_full().unwrap();
    for _ in 0..2 {
        thread::spawn(|| LATE.set(Some(Late(CELL.load())))).join().unwrap();
    }
    assert_eq!(SEEN.load(Relaxed), 4);
    CELL.store(None);
    assert_eq!(Arc::strong_count(&first), 1);
}

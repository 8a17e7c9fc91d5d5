//! Models of atomic `Arc`s: pointers that are loaded, kept and dropped beside a writer that takes their value out of
//! its cell, and pays. First the cells, then the slots alone.
//!
//! A value has a count as an `Arc` has. The thread that releases the last reference frees it: the model stores 0.

use std::mem::ManuallyDrop;

use loom::sync::atomic::{AtomicUsize, Ordering};
use stillpoint::arc::thread::{has_no_guards, register, run_retired};
use stillpoint::arc::{ArcCell, Deferred, Exact, Guard, RefCnt, Strategy};
use stillpoint::slots::record::Records;
use stillpoint::slots::scan::GuardSlots;
use stillpoint::slots::slot::Slot;
use support::model::*;

struct Value {
    count: AtomicUsize,
    alive: UnsafeCell<u32>,
}

/// Returns a value with one reference. Its memory is never freed.
fn value() -> *mut Value {
    let alive = UnsafeCell::new(0);
    alive.with_mut(|alive| unsafe { *alive = 7 });
    Box::into_raw(Box::new(Value { count: AtomicUsize::new(1), alive }))
}

/// The functions of the standard library's `Arc`, with its orderings. The last one acquires by a load, as the
/// library's does under ThreadSanitizer: a fence would order what the slots must order themselves.
fn increment(value: *mut Value) {
    // SAFETY: the memory of values is never freed.
    let before = unsafe { &*value }.count.fetch_add(1, Ordering::Relaxed);
    assert_ne!(before, 0, "a reference to a freed value");
}

fn decrement(value: *mut Value) {
    // SAFETY: the memory of values is never freed.
    let value = unsafe { &*value };
    let before = value.count.fetch_sub(1, Ordering::Release);
    assert_ne!(before, 0, "released more often than there are references");
    if before == 1 {
        value.count.load(Ordering::Acquire);
        value.alive.with_mut(|alive| unsafe { *alive = 0 });
    }
}

/// Twice, as an interrupt that another thread waits for may land at each.
fn look(value: *mut Value) {
    for _ in 0..2 {
        poll();
        // SAFETY: the memory of values is never freed.
        look_at(unsafe { &(*value).alive });
    }
}

/// Returns `true` if no reference is left.
fn is_freed(value: *mut Value) -> bool {
    // SAFETY: the memory of values is never freed.
    unsafe { &*value }.count.load(Ordering::Relaxed) == 0
}

/// A counted pointer.
struct Counted(*mut Value);

// SAFETY: loom checks every access of the values.
unsafe impl Send for Counted {}
// SAFETY: as above.
unsafe impl Sync for Counted {}

impl Clone for Counted {
    fn clone(&self) -> Self {
        increment(self.0);
        Self(self.0)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        decrement(self.0);
    }
}

// SAFETY: counts references to values whose memory is never freed.
unsafe impl RefCnt for Counted {
    type Base = Value;

    fn into_ptr(me: Self) -> *mut Value {
        ManuallyDrop::new(me).0
    }

    fn as_ptr(me: &Self) -> *mut Value {
        me.0
    }

    unsafe fn from_ptr(ptr: *const Value) -> Self {
        Self(ptr.cast_mut())
    }
}

/// Runs `reader` beside `writer`, with a cell that has a value. In the end the value is freed.
fn race<S: Strategy<Counted> + Default + Send + Sync + 'static>(
    reader: fn(&ArcCell<Counted, S>),
    writer: fn(&ArcCell<Counted, S>),
) {
    check(0, 2, move || {
        let first = value();
        let cell = Arc::new(ArcCell::with_strategy(Counted(first), S::default()));
        register();
        support::model::race(&cell, |cell| interruptible(0, || reader(cell)), writer);
        assert!(is_freed(first), "a reference is lost");
        assert!(has_no_guards());
    });
}

/// Refutes: slot-not-filled, loads-not-awaited, guards-paid-before-wait, slot-filled-after-section
#[test]
fn guard_outlives_the_section_and_the_store() {
    race::<Exact>(|cell| look(cell.load().0), |cell| cell.store(Counted(value())));
}

/// Refutes: counted-after-section
#[test]
fn counted_load_is_beside_a_store() {
    race::<Exact>(|cell| look(cell.load_full().0), |cell| drop(cell.swap(Counted(value()))));
}

/// Refutes: slot-released-before-count
#[test]
fn guard_becomes_a_reference_beside_a_store() {
    race::<Exact>(|cell| look(Guard::into_inner(cell.load()).0), |cell| cell.store(Counted(value())));
}

#[test]
fn guard_outlives_a_deferred_store() {
    let store = |cell: &ArcCell<_, _>| {
        cell.store(Counted(value()));
        run_retired();
    };
    race::<Deferred>(|cell| look(cell.load().0), store);
}

/// The thread's own slot is in use.
/// Refutes: slot-of-nothing-kept
#[test]
fn load_of_nothing_keeps_no_slot() {
    check(0, 0, || {
        register();
        let (cell, empty) = (ArcCell::new(Counted(value())), ArcCell::<Option<Counted>>::empty());
        let guards = (cell.load(), empty.load());
        assert!(guards.1.is_none() && !has_no_guards());
        drop(guards);
        assert!(has_no_guards());
    });
}

/// Slots, one of which has a guard of the first of two values.
struct State {
    guards: GuardSlots,
    slot: &'static Slot,
    first: *mut Value,
    second: *mut Value,
}

impl State {
    fn new() -> Arc<Self> {
        let records = Box::leak(Box::new(Records::new(u64::MAX)));
        let slot = records.of(records.claim().unwrap()).find_free().unwrap();
        let [first, second] = [value(), value()];
        slot.fill(first.cast());
        Arc::new(Self { guards: GuardSlots::new(records), slot, first, second })
    }

    /// Pays the guards of a value that was in a cell, whose loads have ended, and releases the reference of the cell.
    fn release(&self, value: *mut Value) {
        for _ in 0..self.guards.pay(value.cast(), || increment(value)) {
            decrement(value);
        }
        decrement(value);
    }

    fn release_first(&self) {
        self.release(self.first);
    }

    /// Drops the guard of a value, in any thread.
    fn drop_guard(&self, value: *mut Value) {
        look(value);
        if self.slot.release(value.cast()) {
            decrement(value);
        }
    }

    fn drop_first(&self) {
        self.drop_guard(self.first);
    }

    /// Fills the slot with a guard of the second value, and drops that.
    fn guard_second(&self) {
        self.slot.fill(self.second.cast());
        self.drop_guard(self.second);
    }
}

/// Refutes: slot-not-paid, no-fence-after-payment, Slot::release:Release, Slot::protects:Acquire
#[test]
fn guard_is_dropped_beside_its_payment() {
    check(0, 3, || {
        let state = State::new();
        race_reader(&state, State::release_first, State::drop_first);
        assert!(is_freed(state.first), "a reference is lost");
        assert!(state.slot.is_free());
    });
}

/// The thread that takes the payment may release the last reference but one, and another thread the last.
#[test]
fn paid_reference_is_released_after_it_was_added() {
    check(0, 3, || {
        let state = State::new();
        let pay = |state: &State| {
            let surplus = state.guards.pay(state.first.cast(), || increment(state.first));
            let first = state.first;
            let other = thread::spawn(move || decrement(first));
            for _ in 0..surplus {
                decrement(first);
            }
            other.join().unwrap();
        };
        race_reader(&state, pay, State::drop_first);
        assert!(is_freed(state.first), "a reference is lost");
    });
}

/// A writer that finds another value in a slot frees the one that was there. The guard is dropped in another thread
/// than that which fills the slot again.
/// Refutes: Slot::is_free:Acquire, Slot::fill:Release, Slot::release:Release#2
#[test]
fn slot_that_is_filled_again_publishes_its_earlier_guards() {
    check(0, 2, || {
        let state = State::new();
        let free_first = |state: &State| {
            if state.slot.protects(state.second.cast()) {
                decrement(state.first);
            }
        };
        race_readers(&state, free_first, 2, |state, index| {
            if index == 0 {
                state.drop_first();
            } else if state.slot.is_free() {
                state.slot.fill(state.second.cast());
            }
        });
    });
}

/// The same beside the whole scan.
#[test]
fn slot_is_filled_again_beside_a_writer_of_its_earlier_guard() {
    check(0, 2, || {
        let state = State::new();
        race_readers(&state, State::release_first, 2, |state, index| {
            if index == 0 {
                state.drop_first();
            } else if state.slot.is_free() {
                state.guard_second();
            }
        });
        assert!(is_freed(state.first), "a reference is lost");
        state.release(state.second);
        assert!(is_freed(state.second), "a reference is lost");
    });
}

/// Both writers have taken the same pointer out of a cell of their own.
/// Refutes: payment-not-compared
#[test]
fn two_writers_pay_one_guard_once() {
    check(0, 1, || {
        let state = State::new();
        increment(state.first);
        race_all(&state, State::release_first, 2, |state, index| match index {
            0 => interruptible(0, || state.drop_first()),
            _ => state.release_first(),
        });
        assert!(is_freed(state.first), "a reference is lost");
    });
}

/// The payment for a guard comes when its slot has another one, of another value.
/// Refutes: payment-of-another-guard
#[test]
fn late_payment_is_not_for_the_next_guard() {
    check(0, 3, || {
        let state = State::new();
        race_reader(&state, State::release_first, |state| {
            state.drop_first();
            state.guard_second();
        });
        assert!(is_freed(state.first), "a reference is lost");
        state.release(state.second);
        assert!(is_freed(state.second), "a reference is lost");
    });
}

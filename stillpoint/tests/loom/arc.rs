//! Models of atomic `Arc`s: pointers that are loaded, kept and dropped beside a writer that takes their value out of its
//! cell, and pays. First the cells, then the slots alone.
//!
//! A value has a count as an `Arc` has. The thread that releases the last reference frees it: the model stores 0.

use std::mem::ManuallyDrop;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use stillpoint::arc::thread::{has_no_guards, register, run_retired};
use stillpoint::arc::{ArcCell, Deferred, Exact, Guard, RefCnt, Strategy};
use stillpoint::slots::record::{Record, Records};
use stillpoint::slots::scan::GuardSlots;
use stillpoint::slots::slot::Slot;
use stillpoint::sync::model::{poll, reader as interruptible};
use support::model::{check, look_at};

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

/// The functions of the standard library's `Arc`, with its orderings. The last one acquires by a load, as the library's
/// does under ThreadSanitizer: a fence would order what the slots must order themselves.
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
        let shared = cell.clone();
        register();
        let t = thread::spawn(move || writer(&shared));
        interruptible(0, || reader(&cell));
        t.join().unwrap();
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

/// Slots, and a value.
struct State {
    records: &'static Records,
    guards: GuardSlots,
    first: *mut Value,
}

// SAFETY: loom checks every access of the cells.
unsafe impl Sync for State {}
// SAFETY: as above.
unsafe impl Send for State {}

impl State {
    fn new() -> Arc<Self> {
        let records = Box::leak(Box::new(Records::new()));
        Arc::new(Self { records, guards: GuardSlots::new(records), first: value() })
    }

    /// Returns the record of a new thread.
    fn record(&self) -> &'static Record {
        self.records.of(self.records.claim().unwrap())
    }

    /// Pays the guards of a value that was in a cell, whose loads have ended, and releases the reference of the cell.
    fn release(&self, value: *mut Value) {
        for _ in 0..self.guards.pay(value.cast(), || increment(value)) {
            decrement(value);
        }
        decrement(value);
    }
}

/// Drops a guard, in any thread.
fn drop_guard(slot: &Slot, value: *mut Value) {
    look(value);
    if slot.release(value.cast()) {
        decrement(value);
    }
}

fn free_slot(record: &'static Record) -> &'static Slot {
    record.find_free().unwrap()
}

/// Runs `body` as reader number `index`.
fn spawn(state: &Arc<State>, index: usize, body: impl FnOnce(&State) + 'static) -> thread::JoinHandle<()> {
    let state = state.clone();
    thread::spawn(move || interruptible(index, || body(&state)))
}

/// Refutes: slot-not-paid, no-fence-after-payment, Slot::release:Release, Slot::protects:Acquire
#[test]
fn guard_is_dropped_beside_its_payment() {
    check(0, 3, || {
        let state = State::new();
        let (slot, first) = (free_slot(state.record()), state.first);
        slot.fill(first.cast());
        let t = spawn(&state, 0, move |_| drop_guard(slot, first));
        state.release(first);
        t.join().unwrap();
        assert!(is_freed(first), "a reference is lost");
        assert!(slot.is_free());
    });
}

/// The thread that takes the payment may release the last reference but one, and another thread the last.
#[test]
fn paid_reference_is_released_after_it_was_added() {
    check(0, 3, || {
        let state = State::new();
        let (slot, first) = (free_slot(state.record()), state.first);
        slot.fill(first.cast());
        let t = spawn(&state, 0, move |_| drop_guard(slot, first));
        let w = state.clone();
        let surplus = w.guards.pay(first.cast(), || increment(first));
        let u = thread::spawn(move || decrement(first));
        for _ in 0..surplus {
            decrement(first);
        }
        u.join().unwrap();
        t.join().unwrap();
        assert!(is_freed(first), "a reference is lost");
    });
}

/// A writer that finds another value in a slot frees the one that was there. The guard is dropped in another thread than
/// that which fills the slot again.
/// Refutes: Slot::is_free:Acquire, Slot::fill:Release, Slot::release:Release#2
#[test]
fn slot_that_is_filled_again_publishes_its_earlier_guards() {
    check(0, 2, || {
        let state = State::new();
        let (slot, first, second) = (free_slot(state.record()), state.first, value());
        slot.fill(first.cast());
        let t = spawn(&state, 0, move |_| drop_guard(slot, first));
        let u = spawn(&state, 1, move |_| {
            if slot.is_free() {
                slot.fill(second.cast());
            }
        });
        if slot.protects(second.cast()) {
            decrement(first);
        }
        t.join().unwrap();
        u.join().unwrap();
    });
}

/// The same beside the whole scan.
#[test]
fn slot_is_filled_again_beside_a_writer_of_its_earlier_guard() {
    check(0, 2, || {
        let state = State::new();
        let (slot, first, second) = (free_slot(state.record()), state.first, value());
        slot.fill(first.cast());
        let t = spawn(&state, 0, move |_| drop_guard(slot, first));
        let u = spawn(&state, 1, move |_| {
            if slot.is_free() {
                slot.fill(second.cast());
                drop_guard(slot, second);
            }
        });
        state.release(first);
        t.join().unwrap();
        u.join().unwrap();
        assert!(is_freed(first), "a reference is lost");
        state.release(second);
        assert!(is_freed(second), "a reference is lost");
    });
}

/// Both writers have taken the same pointer out of a cell of their own.
/// Refutes: payment-not-compared
#[test]
fn two_writers_pay_one_guard_once() {
    check(0, 1, || {
        let state = State::new();
        let (slot, first) = (free_slot(state.record()), state.first);
        increment(first);
        slot.fill(first.cast());
        let t = spawn(&state, 0, move |_| drop_guard(slot, first));
        let w = state.clone();
        let u = thread::spawn(move || w.release(first));
        state.release(first);
        t.join().unwrap();
        u.join().unwrap();
        assert!(is_freed(first), "a reference is lost");
    });
}

/// The payment for a guard comes when its slot has another one, of another value.
/// Refutes: payment-of-another-guard
#[test]
fn late_payment_is_not_for_the_next_guard() {
    check(0, 3, || {
        let state = State::new();
        let (slot, first, second) = (free_slot(state.record()), state.first, value());
        slot.fill(first.cast());
        let t = spawn(&state, 0, move |_| {
            drop_guard(slot, first);
            slot.fill(second.cast());
            drop_guard(slot, second);
        });
        state.release(first);
        t.join().unwrap();
        assert!(is_freed(first), "a reference is lost");
        state.release(second);
        assert!(is_freed(second), "a reference is lost");
    });
}

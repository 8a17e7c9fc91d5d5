//! The slots of hazard pointers under loom, for models of programs' own structures. See `rcu/loom.rs`.
//!
//! Without the records of the library, which have models of their own.

use std::array;
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::slot::Slot;
use crate::sync::model::{READERS, get_held, put_held};

/// Slots of a thread: the hazard pointers that it may have at once.
const SLOTS: usize = 8;

struct OfThread {
    slots: [Slot; SLOTS],
    /// Those from here on have not been in use. Not an atomic of loom, which would try old values: a slot that is
    /// taken after a collection has looked here protects what was published after its heavy fence.
    taken: AtomicUsize,
}

loom::lazy_static! {
    static ref THREADS: [OfThread; READERS] = array::from_fn(|_| OfThread {
        slots: array::from_fn(|_| Slot::new()),
        taken: AtomicUsize::new(0),
    });
}

loom::thread_local! {
    static FREE: RefCell<Vec<&'static Slot>> = RefCell::default();
}

/// Takes a slot for a hazard pointer. The calling thread [gives it back](give_back) itself.
pub fn take() -> Option<&'static Slot> {
    let OfThread { slots, taken } = &THREADS[get_held()];
    let free = FREE.with(|free| free.borrow_mut().pop());
    let slot = free.or_else(|| slots.get(taken.fetch_add(1, Relaxed)))?;
    slot.reserve();
    Some(slot)
}

/// The calling thread no longer uses the slot. Returns `true` if it has no guard or hazard pointer now.
pub fn give_back(slot: &'static Slot) -> bool {
    FREE.with(|free| free.borrow_mut().push(slot));
    put_held()
}

/// Returns what all slots protect.
pub(crate) fn protected() -> Vec<usize> {
    let taken = |thread: &'static OfThread| thread.slots.iter().take(thread.taken.load(Relaxed));
    THREADS.iter().flat_map(taken).filter_map(Slot::address).collect()
}

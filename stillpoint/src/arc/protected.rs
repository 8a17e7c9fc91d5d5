//! Pointers that are loaded from a cell, and what a writer does with one that it has taken out.

use core::mem::{self, ManuallyDrop};
use core::ptr;

use super::ref_cnt::RefCnt;
use super::thread;
use crate::rcu::published_ptr::PublishedPtr;
use crate::slots::slot::Slot;
use crate::sync::step;

/// A pointer, and what keeps its value alive: a slot, or a reference.
///
/// Invariant: without a slot, it owns a reference, or the pointer is null. With a slot, the slot protects the
/// pointer, and belongs to this value alone.
#[derive(Debug)]
pub struct Protected<T: RefCnt> {
    slot: Option<&'static Slot>,
    pointer: ManuallyDrop<T>,
}

impl<T: RefCnt> Protected<T> {
    /// Loads the pointer of a cell.
    ///
    /// # Safety
    ///
    /// `source` holds a pointer of [`RefCnt::into_ptr`] and a reference. A thread that takes it out does not use that
    /// reference before the loads that are in progress have ended, and guards have been [paid](pay_guards).
    #[inline(always)]
    pub(super) unsafe fn load(source: &PublishedPtr<T::Base>) -> Self {
        let Some(slot) = thread::take_slot() else {
            // SAFETY: the caller's contract.
            return Self::counted(unsafe { load_counted(source) });
        };
        let unfilled = Unfilled(slot);
        let section = thread::enter();
        mem::forget(unfilled);
        let pointer = source.load();
        let slot = if pointer.is_null() {
            // There is no value to protect.
            step!("slot-of-nothing-kept", slot.give_back());
            None
        } else {
            slot.fill(address::<T>(pointer));
            Some(slot)
        };
        // The thread that takes the pointer out of the cell waits for the section, and then sees the slot.
        drop(section);
        // SAFETY: the cell's reference, as long as the slot protects the pointer.
        Self { slot, pointer: ManuallyDrop::new(unsafe { T::from_ptr(pointer) }) }
    }

    /// A pointer with its own reference.
    #[inline(always)]
    pub(super) fn counted(pointer: T) -> Self {
        Self { slot: None, pointer: ManuallyDrop::new(pointer) }
    }

    /// Returns the pointer with a reference of its own.
    #[inline]
    pub(super) fn into_inner(self) -> T {
        let this = ManuallyDrop::new(self);
        // SAFETY: read once, as the original is not dropped.
        let pointer = unsafe { ptr::read(&*this.pointer) };
        if let Some(slot) = this.slot {
            // The reference of the result, before the slot is given up.
            let raw = T::inc(&pointer);
            if slot.release(address::<T>(raw)) {
                // SAFETY: the reference that a writer has paid.
                unsafe { T::dec(raw) };
            }
        }
        pointer
    }

    /// Returns the pointer.
    #[inline(always)]
    pub(super) fn pointer(&self) -> &T {
        &self.pointer
    }

    /// Returns the raw pointer.
    #[inline(always)]
    fn as_ptr(&self) -> *mut T::Base {
        T::as_ptr(&self.pointer)
    }
}

impl<T: RefCnt> Drop for Protected<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.slot.is_some_and(|slot| !slot.release(address::<T>(self.as_ptr()))) {
            return;
        }
        // SAFETY: the reference of this value: its own, or the one that a writer has paid. Dropped once.
        unsafe { ManuallyDrop::drop(&mut self.pointer) };
    }
}

/// Gives a slot back if the thread cannot enter a section.
struct Unfilled(&'static Slot);

impl Drop for Unfilled {
    #[cold]
    fn drop(&mut self) {
        self.0.give_back();
    }
}

/// Loads the pointer of a cell, with a reference of its own. Takes no slot.
///
/// # Safety
///
/// As [`Protected::load`].
#[inline]
pub unsafe fn load_counted<T: RefCnt>(source: &PublishedPtr<T::Base>) -> T {
    let _section = thread::enter();
    // SAFETY: no thread releases the cell's reference until the section ends.
    unsafe { cloned(source.load()) }
}

/// Returns the pointer, with a reference of its own.
///
/// # Safety
///
/// The pointer comes from [`RefCnt::into_ptr`], and no thread releases the last reference during this call.
#[inline]
pub unsafe fn cloned<T: RefCnt>(pointer: *mut T::Base) -> T {
    // SAFETY: the caller's contract; it is not dropped.
    T::clone(&ManuallyDrop::new(unsafe { T::from_ptr(pointer) }))
}

/// Pays the guards that have the pointer. Then the reference that was the cell's is the caller's.
///
/// # Safety
///
/// The caller has taken the pointer, with its reference, out of a cell. All loads from the cell that may have
/// returned it have ended.
pub unsafe fn pay_guards<T: RefCnt>(pointer: *mut T::Base) {
    if pointer.is_null() {
        return;
    }
    // SAFETY: the reference of the caller, until the end.
    let value = ManuallyDrop::new(unsafe { T::from_ptr(pointer) });
    let surplus = thread::pay_guards(address::<T>(pointer), || _ = T::inc(&value));
    for _ in 0..surplus {
        // SAFETY: the guard did not take the reference.
        unsafe { T::dec(pointer) };
    }
}

/// Pays the guards that have the pointer, and releases the cell's reference.
///
/// # Safety
///
/// As [`pay_guards`], and a grace period of all loads has ended since the pointer was taken out. It is not null.
pub unsafe fn release<T: RefCnt>(pointer: *const T::Base) {
    // SAFETY: the caller's contract.
    unsafe {
        if thread::may_have_guards(address::<T>(pointer.cast_mut())) {
            pay_guards::<T>(pointer.cast_mut());
        }
        T::dec(pointer);
    }
}

/// What a slot has for the pointer: its address, with the tag of its type.
#[inline(always)]
fn address<T: RefCnt>(pointer: *mut T::Base) -> *mut () {
    pointer.cast::<()>().wrapping_byte_add(T::TAG)
}

#[cfg(all(test, target_os = "linux", not(any(loom, miri, stillpoint_portable))))]
mod tests {
    use std::iter;
    use std::panic::catch_unwind;

    use support::child;

    use super::*;
    use crate::arc::ArcCell;

    /// There is no key for a destructor of the thread.
    #[test]
    fn load_that_panics_keeps_no_slot() {
        if !child::is_alone(load_that_panics_keeps_no_slot) {
            return;
        }
        let mut key = 0;
        // SAFETY: the key is valid.
        let keys =
            iter::from_fn(|| unsafe { libc::pthread_key_create(&raw mut key, None) == 0 }.then_some(()));
        assert_ne!(keys.count(), 0);
        for _ in 0..100 {
            assert!(catch_unwind(|| ArcCell::new(std::sync::Arc::new(1)).load()).is_err());
        }
        assert!(thread::TABLE.records().slots().all(Slot::is_free));
    }
}

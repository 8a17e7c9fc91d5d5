//! Guards: what a load returns.

use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr;

use super::ref_cnt::RefCnt;
use super::strategy::{Exact, Strategy};
use super::thread;
use crate::hazard::slot::Slot;
use crate::rcu::published_ptr::PublishedPtr;

/// A pointer that was loaded from a cell: it dereferences to the pointer.
///
/// It keeps its own value alive, and nothing else. It may be held for any length of time, sent to other threads, held
/// across `.await`, and dropped after the cell. Most guards have no reference of their own: loading and dropping one does
/// not change the count. The count has it as soon as the cell lets go of the value.
///
/// ```
/// use std::sync::Arc;
/// use stillpoint::arc::ArcCell;
///
/// let cell: ArcCell<Arc<u32>> = ArcCell::new(Arc::new(1));
/// let guard = cell.load();
/// assert_eq!(Arc::strong_count(&guard), 1, "that of the cell");
/// cell.store(Arc::new(2));
/// assert_eq!(Arc::strong_count(&guard), 1, "that of the guard");
/// assert_eq!(**guard, 1);
/// ```
pub struct Guard<T: RefCnt, S: Strategy<T> = Exact> {
    protected: Protected<T>,
    _strategy: PhantomData<fn() -> S>,
}

impl<T: RefCnt, S: Strategy<T>> Guard<T, S> {
    #[inline(always)]
    pub(super) fn new(protected: Protected<T>) -> Self {
        Self { protected, _strategy: PhantomData }
    }

    /// Returns the pointer, with a reference of its own.
    #[inline]
    pub fn into_inner(guard: Self) -> T {
        guard.protected.into_inner()
    }

    /// Makes a guard of a pointer that was not loaded from a cell.
    #[inline]
    pub fn from_inner(pointer: T) -> Self {
        Self::new(Protected::counted(pointer))
    }
}

impl<T: RefCnt, S: Strategy<T>> Deref for Guard<T, S> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.protected.pointer
    }
}

impl<T: RefCnt, S: Strategy<T>> From<T> for Guard<T, S> {
    fn from(pointer: T) -> Self {
        Self::from_inner(pointer)
    }
}

impl<T: RefCnt + Default, S: Strategy<T>> Default for Guard<T, S> {
    fn default() -> Self {
        Self::from_inner(T::default())
    }
}

impl<T: RefCnt + fmt::Debug, S: Strategy<T>> fmt::Debug for Guard<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: RefCnt + fmt::Display, S: Strategy<T>> fmt::Display for Guard<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A pointer, and what keeps its value alive: a slot, or a reference.
///
/// Invariant: without a slot, it owns a reference, or the pointer is null. With a slot, the slot protects the pointer, and
/// belongs to this value alone.
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
    pub unsafe fn load(source: &PublishedPtr<T::Base>) -> Self {
        let Some(slot) = thread::free_slot() else {
            // SAFETY: the caller's contract.
            return Self::counted(unsafe { load_counted(source) });
        };
        thread::in_section(source, |pointer| {
            // Null has no value to protect.
            let slot = (!pointer.is_null()).then(|| {
                slot.fill(address::<T>(pointer));
                slot
            });
            // SAFETY: the cell's reference, as long as the slot protects the pointer.
            Self { slot, pointer: ManuallyDrop::new(unsafe { T::from_ptr(pointer) }) }
        })
    }

    /// A pointer with its own reference.
    #[inline(always)]
    pub fn counted(pointer: T) -> Self {
        Self { slot: None, pointer: ManuallyDrop::new(pointer) }
    }

    /// Returns the pointer with a reference of its own.
    #[inline]
    pub fn into_inner(self) -> T {
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

    /// Returns the raw pointer.
    #[inline(always)]
    pub fn as_ptr(&self) -> *mut T::Base {
        T::as_ptr(&self.pointer)
    }
}

impl<T: RefCnt> Drop for Protected<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(slot) = self.slot
            && !slot.release(address::<T>(self.as_ptr()))
        {
            return;
        }
        // SAFETY: the reference of this value: its own, or the one that a writer has paid. Dropped once.
        unsafe { ManuallyDrop::drop(&mut self.pointer) };
    }
}

/// Loads the pointer of a cell, with a reference of its own. Takes no slot.
///
/// # Safety
///
/// As [`Protected::load`].
#[inline]
pub unsafe fn load_counted<T: RefCnt>(source: &PublishedPtr<T::Base>) -> T {
    thread::in_section(source, |pointer| {
        // SAFETY: no thread releases the cell's reference until the section ends.
        unsafe { cloned(pointer) }
    })
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
/// The caller has taken the pointer, with its reference, out of a cell. All loads from the cell that may have returned it
/// have ended.
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
/// As [`pay_guards`].
pub unsafe fn release<T: RefCnt>(pointer: *const T::Base) {
    // SAFETY: the caller's contract.
    unsafe {
        pay_guards::<T>(pointer.cast_mut());
        T::dec(pointer);
    }
}

/// What a slot has for the pointer: its address, with the tag of its type.
#[inline(always)]
fn address<T: RefCnt>(pointer: *mut T::Base) -> *mut () {
    pointer.cast::<()>().wrapping_byte_add(T::TAG)
}

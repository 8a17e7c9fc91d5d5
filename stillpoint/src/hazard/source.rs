//! What a hazard pointer can protect.

use super::HazardDomain;
use crate::pointer::pointable::Pointable;
use crate::pointer::shared::Shared;
use crate::rcu::{Atomic, Rcu, RcuOption};
use crate::slots::slot::Slot;

/// A reference to a pointer that a [`HazardPointer`](super::HazardPointer) can protect.
///
/// An [`Atomic`] lends its node for as long as it is protected. An [`Rcu`] or [`RcuOption`] owns its value, so it is
/// borrowed for that time as well.
pub trait Source<'h> {
    /// What is lent for `'h`, while the slot protects it.
    type Output;

    /// Loads the pointer, and protects its value by the slot.
    ///
    /// # Safety
    ///
    /// The slot is in a record that collections look at, belongs to the caller, and is not changed during `'h`.
    unsafe fn protect(self, slot: &'static Slot) -> Self::Output;
}

impl<'h, T: ?Sized + Pointable, D: HazardDomain> Source<'h> for &Atomic<T, D> {
    type Output = Shared<'h, T>;

    #[inline(always)]
    unsafe fn protect(self, slot: &'static Slot) -> Shared<'h, T> {
        Shared::from_word(slot.protect(Shared::<T>::TAG, || self.published().load()))
    }
}

impl<'h, T: ?Sized + Send + Sync + 'static, D: HazardDomain> Source<'h> for &'h RcuOption<T, D> {
    type Output = Option<&'h T>;

    #[inline(always)]
    unsafe fn protect(self, slot: &'static Slot) -> Option<&'h T> {
        let word = slot.protect(0, || self.published().load());
        // SAFETY: the slot protects it; `self` is borrowed.
        unsafe { self.protected(word) }
    }
}

impl<'h, T: ?Sized + Send + Sync + 'static, D: HazardDomain> Source<'h> for &'h Rcu<T, D> {
    type Output = &'h T;

    #[inline(always)]
    unsafe fn protect(self, slot: &'static Slot) -> &'h T {
        // SAFETY: the caller's contract; never empty.
        unsafe { self.as_option().protect(slot).unwrap_unchecked() }
    }
}

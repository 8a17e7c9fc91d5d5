//! References to published values that bring their read-side critical section with them.

use core::borrow::Borrow as _;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;

use super::guard::Global;
use super::option::RcuOption;
use super::pointer::Rcu;
use crate::{Domain, EnterSection};

/// A reference to a published value, and the read-side critical section in which it was loaded.
///
/// Returned by [`Rcu::read`] and [`RcuOption::read`]. Dropping it ends the section, as dropping a
/// [`Guard`](super::Guard) does. It can be sent to other threads if the guard can: in [`srcu`](crate::srcu), not in
/// [`rcu`](crate::rcu).
///
/// ```
/// use stillpoint::rcu::{Rcu, Ref};
///
/// let hosts = Rcu::new(vec![String::from("a"), String::from("b")]);
/// let last: Ref<'_, str> = Ref::map(hosts.read(), |hosts| hosts[1].as_str());
/// hosts.replace(vec![]);
/// assert_eq!(*last, *"b");
/// ```
#[must_use = "the section ends when the reference is dropped"]
pub struct Ref<'a, T: ?Sized, D: EnterSection = Global> {
    /// Not a reference, which would be dangling while the guard is dropped.
    value: NonNull<T>,
    guard: D::Guard<'a>,
    _lends: PhantomData<&'a T>,
}

// SAFETY: a `&T` and a guard.
unsafe impl<'a, T: ?Sized + Sync, D: EnterSection> Send for Ref<'a, T, D> where D::Guard<'a>: Send {}
// SAFETY: as above.
unsafe impl<'a, T: ?Sized + Sync, D: EnterSection> Sync for Ref<'a, T, D> where D::Guard<'a>: Sync {}

impl<'a, T: ?Sized, D: EnterSection> Ref<'a, T, D> {
    /// Makes a reference to a part of the value.
    ///
    /// An associated function, so that it does not hide a method of `T`.
    pub fn map<U: ?Sized>(this: Self, f: impl FnOnce(&T) -> &U) -> Ref<'a, U, D> {
        let value = NonNull::from(f(&this));
        Ref { value, guard: this.guard, _lends: PhantomData }
    }
}

impl<T: ?Sized + Send + 'static, D: Domain> RcuOption<T, D> {
    /// Begins a read-side critical section and loads the value: see [`Rcu::read`].
    ///
    /// The section ends at once if there is no value.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> Option<Ref<'_, T, D>>
    where
        D: EnterSection,
    {
        let guard = self.domain().enter_section();
        let value = NonNull::from(self.load(guard.borrow())?);
        Some(Ref { value, guard, _lends: PhantomData })
    }
}

impl<T: ?Sized + Send + 'static, D: Domain> Rcu<T, D> {
    /// Begins a read-side critical section and loads the value, which lives as long as the section.
    ///
    /// Takes as long as [`rcu::enter`](super::enter) and [`load`](Self::load) together. To load several pointers, or
    /// one several times, take one guard and use `load`.
    ///
    /// While the reference exists, its thread must not wait for a grace period: this panics, and in
    /// [`srcu`](crate::srcu) it deadlocks.
    ///
    /// # Panics
    ///
    /// As [`rcu::enter`](super::enter).
    ///
    /// ```
    /// use stillpoint::rcu::Rcu;
    ///
    /// let limits = Rcu::new(vec![10, 20]);
    /// assert_eq!(limits.read().len(), 2);
    ///
    /// let old = limits.read();
    /// limits.replace(vec![]);
    /// assert_eq!(old[1], 20);
    /// ```
    #[inline]
    #[track_caller]
    pub fn read(&self) -> Ref<'_, T, D>
    where
        D: EnterSection,
    {
        let guard = self.domain().enter_section();
        let value = NonNull::from(self.load(guard.borrow()));
        Ref { value, guard, _lends: PhantomData }
    }
}

impl<T: ?Sized, D: EnterSection> Deref for Ref<'_, T, D> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: loaded inside the section of `guard`.
        unsafe { self.value.as_ref() }
    }
}

impl<T: ?Sized + fmt::Debug, D: EnterSection> fmt::Debug for Ref<'_, T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display, D: EnterSection> fmt::Display for Ref<'_, T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

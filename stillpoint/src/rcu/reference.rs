//! References to published values that bring their read-side critical section with them.

use core::borrow::Borrow as _;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::{self, NonNull};
use std::sync::Arc;

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

/// A [`Ref`] that owns a share of the pointer instead of borrowing it: for tasks and threads.
///
/// Returned by [`Rcu::read_owned`] and [`RcuOption::read_owned`]. It is `'static`, and in [`srcu`](crate::srcu) also
/// `Send`.
///
/// ```
/// use std::sync::Arc;
/// use stillpoint::rcu::Rcu;
/// use stillpoint::srcu::Domain;
///
/// # tokio::runtime::Builder::new_multi_thread().build().unwrap().block_on(async {
/// let motd = Arc::new(Rcu::new_in(String::from("welcome"), Domain::new()));
///
/// let text = motd.read_owned();
/// let task = tokio::spawn(async move {
///     tokio::task::yield_now().await;
///     text.len()
/// });
/// motd.replace(String::from("bye")).await;
/// assert_eq!(task.await.unwrap(), 7);
/// # });
/// ```
#[must_use = "the section ends when the reference is dropped"]
pub struct OwnedRef<T: ?Sized + Send + 'static, D: EnterSection = Global> {
    value: NonNull<T>,
    /// Before the owner, so that the section ends first: the owner's handle of the domain may be the last.
    _guard: D::Guard<'static>,
    _owner: Arc<RcuOption<T, D>>,
}

// SAFETY: a `&T`, a guard, and an `Arc` that may drop the value.
unsafe impl<T: ?Sized + Send + Sync, D: EnterSection> Send for OwnedRef<T, D> where D::Guard<'static>: Send {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send + Sync, D: EnterSection> Sync for OwnedRef<T, D> where D::Guard<'static>: Sync {}

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

    /// [`read`](Self::read), for a reference that keeps the pointer: see [`Rcu::read_owned`].
    #[track_caller]
    pub fn read_owned(self: &Arc<Self>) -> Option<OwnedRef<T, D>>
    where
        D: EnterSection,
    {
        // SAFETY: the domain lies in the `Arc`, and the `OwnedRef` keeps that until it has dropped the guard.
        let domain: &'static D = unsafe { &*ptr::from_ref(self.domain()) };
        let guard = domain.enter_section();
        let value = NonNull::from(self.load(guard.borrow())?);
        Some(OwnedRef { value, _guard: guard, _owner: Arc::clone(self) })
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

    /// [`read`](Self::read), for a reference that keeps the pointer, and is not bound to a lifetime.
    ///
    /// It also changes the count of the `Arc`. In a domain of [`srcu`](crate::srcu) it can be held across `.await` in a
    /// task that runs on several threads: see [`OwnedRef`].
    ///
    /// # Panics
    ///
    /// As [`read`](Self::read).
    #[track_caller]
    pub fn read_owned(self: &Arc<Self>) -> OwnedRef<T, D>
    where
        D: EnterSection,
    {
        let this = Arc::into_raw(Arc::clone(self)).cast::<RcuOption<T, D>>();
        // SAFETY: an `Rcu` is an `RcuOption`, `repr(transparent)`, which is never empty.
        unsafe { Arc::from_raw(this).read_owned().unwrap_unchecked() }
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

impl<T: ?Sized + Send + 'static, D: EnterSection> Deref for OwnedRef<T, D> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: loaded inside the section of `_guard`.
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

impl<T: ?Sized + Send + fmt::Debug + 'static, D: EnterSection> fmt::Debug for OwnedRef<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + Send + fmt::Display + 'static, D: EnterSection> fmt::Display for OwnedRef<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

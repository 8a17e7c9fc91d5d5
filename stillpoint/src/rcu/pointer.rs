//! Values that readers see through a pointer and writers replace.

use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::{self, NonNull};

use super::guard::{Global, RcuDomain};
use crate::Domain;
use crate::domain::deferred;
use crate::rcu::published_ptr::PublishedPtr;
use crate::reclaim::options::DeferOptions;

/// A value that many threads read while others replace it whole.
///
/// [`load`](Self::load) takes about a nanosecond, guard included, and never waits. [`replace`](Self::replace) publishes
/// a new value and returns the old one as [`Retired`]: drop that to free the value after a grace period, or wait for
/// the readers and take the value back.
///
/// An `Rcu` allocates when it is created, so a static needs a `LazyLock`:
///
/// ```
/// use std::sync::LazyLock;
/// use stillpoint::rcu::{self, Rcu};
///
/// static LIMITS: LazyLock<Rcu<Vec<u32>>> = LazyLock::new(|| Rcu::new(vec![10]));
///
/// LIMITS.modify(|limits| limits.push(20));
/// assert_eq!(*LIMITS.load(&rcu::enter()), [10, 20]);
/// let old = LIMITS.replace(vec![30]).wait();
/// assert_eq!(old, [10, 20]);
/// ```
///
/// A reference cannot outlive its guard:
///
/// ```compile_fail,E0505
/// use stillpoint::rcu::{self, Rcu};
///
/// let config = Rcu::new(1);
/// let guard = rcu::enter();
/// let value = config.load(&guard);
/// drop(guard);
/// assert_eq!(*value, 1);
/// ```
pub struct Rcu<T: Send + 'static, D: Domain = Global> {
    value: PublishedPtr<T>,
    domain: D,
    _owns: PhantomData<T>,
}

// SAFETY: a shared `Rcu` lends `&T` to several threads (`T: Sync`) and moves values to the thread that replaces or
// frees them (`T: Send`).
unsafe impl<T: Send + Sync + 'static, D: Domain> Sync for Rcu<T, D> {}
// SAFETY: owns its value, as a `Box` does.
unsafe impl<T: Send + 'static, D: Domain> Send for Rcu<T, D> {}

impl<T: Send + 'static> Rcu<T> {
    /// Publishes `value` to the readers of the [`Global`] domain.
    pub fn new(value: T) -> Self {
        Self::new_in(value, Global)
    }
}

impl<T: Send + 'static, D: Domain> Rcu<T, D> {
    /// Publishes `value` to the readers of `domain`.
    pub fn new_in(value: T, domain: D) -> Self {
        // Here rather than when something is retired, since it may allocate.
        domain.register_for_fork();
        Self { value: PublishedPtr::new(Box::into_raw(Box::new(value))), domain, _owns: PhantomData }
    }

    /// Returns the current value, which lives as long as the guard.
    ///
    /// # Panics
    ///
    /// If the guard is of another [`srcu::Domain`](crate::srcu::Domain) than this pointer. (Guards of other domains
    /// have other types.)
    #[inline]
    pub fn load<'a>(&'a self, guard: &'a D::Section) -> &'a T {
        self.domain.check(guard);
        let value = self.value.load();
        // SAFETY: the pointer comes from a Box. A writer that unpublishes it frees it only after a grace period, which
        // the guard keeps from ending. The drop of this `Rcu` frees it too, which the borrow of `self` excludes.
        unsafe { &*value }
    }

    /// Publishes `new`, and returns the old value for disposal.
    ///
    /// Readers see either value whole. Those that have loaded the old one keep it until their section ends.
    pub fn replace(&self, new: T) -> Retired<T, D> {
        self.swap(Box::new(new))
    }

    /// [`replace`](Self::replace), for a value that is already boxed.
    pub fn swap(&self, new: Box<T>) -> Retired<T, D> {
        Retired::new(self.value.swap(Box::into_raw(new)), self.domain.clone())
    }

    /// [`update`](Rcu::update) inside an open section.
    ///
    /// `guard` is a guard of [`rcu`](crate::rcu) or [`srcu`](crate::srcu), or a handle of [`qsbr`](crate::qsbr).
    ///
    /// ```
    /// use stillpoint::qsbr;
    /// use stillpoint::rcu::Rcu;
    ///
    /// let numbers = Rcu::new_in(vec![1, 2], qsbr::Global);
    /// let thread = qsbr::register();
    /// numbers.update_with(&thread, |old| [&old[..], &[3]].concat());
    /// assert_eq!(numbers.load(&thread).len(), 3);
    /// # drop(thread);
    /// ```
    pub fn update_with(&self, guard: &D::Section, mut f: impl FnMut(&T) -> T) -> Retired<T, D>
    where
        T: Sync,
    {
        self.domain.check(guard);
        let mut seen = self.value.load();
        let old = loop {
            // SAFETY: as in `load`. The guard also keeps the address from being reused, so the exchange below succeeds
            // only if the value is still the one that `f` saw.
            let new = Box::into_raw(Box::new(f(unsafe { &*seen })));
            match self.value.compare_exchange(seen, new) {
                Ok(old) => break old,
                Err(current) => seen = current,
            }
            // SAFETY: `new` was not published.
            drop(unsafe { Box::from_raw(new) });
        };
        Retired::new(old, self.domain.clone())
    }

    /// Returns the value without waiting: the exclusive borrow excludes readers.
    pub fn get_mut(&mut self) -> &mut T {
        // SAFETY: the pointer comes from a Box, and the exclusive borrow excludes every `load`.
        unsafe { &mut *self.value.get_mut() }
    }

    /// Takes the value out, without waiting.
    pub fn into_inner(self) -> T {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: not used again, as `this` is not dropped.
        drop(unsafe { ptr::read(&this.domain) });
        // SAFETY: the pointer comes from a Box, `self` is not borrowed, and its destructor does not run.
        *unsafe { Box::from_raw(this.value.get_mut()) }
    }
}

impl<T: Send + 'static, D: RcuDomain> Rcu<T, D> {
    /// Publishes the value that `f` makes of the current one, and returns the old value for disposal.
    ///
    /// `f` runs inside a read-side critical section, and again whenever another writer has replaced the value in the
    /// meantime. Only for domains of [`crate::rcu`]: for others, use [`update_with`](Self::update_with), which takes
    /// the guard or the handle.
    ///
    /// ```
    /// use stillpoint::rcu::Rcu;
    ///
    /// let numbers = Rcu::new(vec![1, 2]);
    /// let old = numbers.update(|old| old.iter().copied().chain([3]).collect());
    /// assert_eq!(old.wait(), [1, 2]);
    /// ```
    #[track_caller]
    pub fn update(&self, f: impl FnMut(&T) -> T) -> Retired<T, D>
    where
        T: Sync,
    {
        self.update_with(&D::enter(), f)
    }

    /// Publishes a clone of the current value that `f` has changed, and returns the old value for disposal.
    ///
    /// An [`update`](Self::update) for small changes.
    ///
    /// ```
    /// use stillpoint::rcu::Rcu;
    ///
    /// let numbers = Rcu::new(vec![1, 2]);
    /// let old = numbers.modify(|numbers| numbers.push(3));
    /// assert_eq!(old.wait(), [1, 2]);
    /// ```
    #[track_caller]
    pub fn modify(&self, mut f: impl FnMut(&mut T)) -> Retired<T, D>
    where
        T: Sync + Clone,
    {
        self.update(|old| {
            let mut new = old.clone();
            f(&mut new);
            new
        })
    }
}

impl<T: Send + 'static, D: Domain> Drop for Rcu<T, D> {
    fn drop(&mut self) {
        // SAFETY: the pointer comes from a Box; every reference from `load` borrowed `self`.
        drop(unsafe { Box::from_raw(self.value.get_mut()) });
    }
}

impl<T: Send + Default + 'static> Default for Rcu<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: Send + 'static> From<T> for Rcu<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: Send + Sync + fmt::Debug + 'static, D: Domain> fmt::Debug for Rcu<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.domain.with_section(|section| match section {
            Some(section) => f.debug_tuple("Rcu").field(self.load(section)).finish(),
            None => f.debug_struct("Rcu").finish_non_exhaustive(),
        })
    }
}

/// A value that is no longer published, but may still have readers.
///
/// [`wait`](Self::wait) for them and take it back. Or drop it: the value is then dropped after a grace period, and this
/// may block, as in [`retire`](super::retire).
pub struct Retired<T: Send + 'static, D: Domain = Global> {
    /// From a Box. Not a Box, which must not be aliased: readers may hold references.
    value: NonNull<T>,
    domain: D,
    _owns: PhantomData<T>,
}

// SAFETY: owns its value, as a `Box` does.
unsafe impl<T: Send + 'static, D: Domain> Send for Retired<T, D> {}
// SAFETY: lends `&T`, and only if `T: Sync` (see `Deref`).
unsafe impl<T: Send + 'static, D: Domain> Sync for Retired<T, D> {}

impl<T: Send + 'static, D: Domain> Retired<T, D> {
    /// `value` comes from a Box and has just been unpublished by the caller.
    fn new(value: *mut T, domain: D) -> Self {
        Self { value: NonNull::new(value).expect("a Box is not null"), domain, _owns: PhantomData }
    }

    /// Blocks for a grace period and returns the value, which then has no readers.
    ///
    /// # Panics
    ///
    /// As [`synchronize`](super::synchronize). The value is then retired.
    pub fn wait(self) -> T {
        *self.wait_boxed()
    }

    /// Drops the value after a grace period, as dropping `self` does, with [`DeferOptions`].
    pub fn retire_with(self, options: DeferOptions) {
        let (value, domain) = self.into_parts();
        // SAFETY: as in `drop`, which does not run.
        unsafe { deferred::retire::<T>(&domain, value.cast(), options) };
    }

    /// [`wait`](Self::wait), without moving the value out of its box.
    pub fn wait_boxed(self) -> Box<T> {
        // A panic here drops `self`, which retires the value.
        self.domain.synchronize();
        let (value, _) = self.into_parts();
        // SAFETY: the pointer comes from a Box, its readers are gone, and the destructor of `self` does not run.
        unsafe { Box::from_raw(value.as_ptr()) }
    }

    fn into_parts(self) -> (NonNull<T>, D) {
        let this = ManuallyDrop::new(self);
        // SAFETY: not used again, as `this` is not dropped.
        (this.value, unsafe { ptr::read(&this.domain) })
    }
}

impl<T: Send + Sync + 'static, D: Domain> Deref for Retired<T, D> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `self` keeps the value, and all other references are shared.
        unsafe { self.value.as_ref() }
    }
}

impl<T: Send + 'static, D: Domain> Drop for Retired<T, D> {
    fn drop(&mut self) {
        // SAFETY: the pointer comes from a Box, has been unpublished, and is not used again here.
        unsafe { deferred::retire::<T>(&self.domain, self.value.cast(), DeferOptions::new()) };
    }
}

impl<T: Send + 'static, D: Domain> fmt::Debug for Retired<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retired").finish_non_exhaustive()
    }
}

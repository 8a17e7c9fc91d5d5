//! Values that readers see through a pointer and writers replace.

use core::borrow::Borrow as _;
use core::fmt;

use super::exchange_error::CompareExchangeError;
use super::guard::Global;
use super::option::RcuOption;
use super::retired::Retired;
use crate::{Domain, EnterSection};

/// A value that many threads read while others replace it whole.
///
/// [`load`](Self::load) takes about a nanosecond, guard included, and never waits. [`replace`](Self::replace)
/// publishes a new value and returns the old one as [`Retired`]: drop that to free the value after a grace period, or
/// wait for the readers and take the value back.
///
/// ```
/// use stillpoint::rcu::{self, Rcu};
///
/// let limits = Rcu::new(vec![10]);
///
/// limits.modify(|limits| limits.push(20));
/// assert_eq!(*limits.load(&rcu::enter()), [10, 20]);
/// let old = limits.replace(vec![30]).wait();
/// assert_eq!(old, [10, 20]);
/// ```
///
/// An `Rcu` allocates when it is created. A static is a [`RcuOption`], which is empty at first, or has a `LazyLock`.
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
///
/// # Values without a size
///
/// A trait object, a slice or a `str` is published as a box. Reading it takes two dependent loads, as its pointer of
/// two words lies in a box of its own.
///
/// ```
/// use std::fmt::Display;
/// use stillpoint::rcu::Rcu;
///
/// let motd: Rcu<dyn Display + Send + Sync> = Rcu::from_box(Box::new("welcome"));
/// motd.swap(Box::new(42));
/// assert_eq!(motd.read().to_string(), "42");
/// ```
#[doc(alias("ArcSwap", "epoch"))]
#[repr(transparent)]
pub struct Rcu<T: ?Sized + Send + 'static, D: Domain = Global>(
    /// Never empty, except in `into_box`.
    RcuOption<T, D>,
);

const NEVER_EMPTY: &str = "an Rcu is never empty";

impl<T: Send + 'static> Rcu<T> {
    /// Publishes `value` to the readers of the [`Global`] domain.
    pub fn new(value: T) -> Self {
        Self::new_in(value, Global)
    }
}

impl<T: ?Sized + Send + 'static> Rcu<T> {
    /// [`new`](Self::new), for a value that is already boxed.
    pub fn from_box(value: Box<T>) -> Self {
        Self::from_box_in(value, Global)
    }
}

impl<T: ?Sized + Send + 'static, D: Domain> Rcu<T, D> {
    /// Publishes `value` to the readers of `domain`.
    pub fn new_in(value: T, domain: D) -> Self
    where
        T: Sized,
    {
        Self::from_box_in(Box::new(value), domain)
    }

    /// [`new_in`](Self::new_in), for a value that is already boxed.
    pub fn from_box_in(value: Box<T>, domain: D) -> Self {
        Self(RcuOption::from_box_in(Some(value), domain))
    }

    /// Returns the domain whose guards and handles read the value.
    pub fn domain(&self) -> &D {
        self.0.domain()
    }

    /// Returns the current value, which lives as long as the guard.
    ///
    /// # Panics
    ///
    /// If the guard is of another [`srcu::Domain`](crate::srcu::Domain) than this pointer. (Guards of other domains
    /// have other types.)
    #[doc(alias = "rcu_dereference")]
    #[inline]
    #[track_caller]
    pub fn load<'a>(&'a self, guard: &'a D::Section) -> &'a T {
        // SAFETY: never empty.
        unsafe { self.0.load(guard).unwrap_unchecked() }
    }

    /// The same pointer, which is never empty.
    #[inline(always)]
    pub(crate) fn as_option(&self) -> &RcuOption<T, D> {
        &self.0
    }

    /// Publishes `new`, and frees the old value after a grace period, as [`Retired`] does when it is dropped.
    ///
    /// ```
    /// use stillpoint::rcu::Rcu;
    ///
    /// let config = Rcu::new(String::from("first"));
    /// config.store(String::from("second"));
    /// assert_eq!(*config.read(), "second");
    /// ```
    pub fn store(&self, new: T)
    where
        T: Sized,
    {
        drop(self.replace(new));
    }

    /// Publishes `new`, and returns the old value for disposal.
    ///
    /// Readers see either value whole. Those that have loaded the old one keep it until their section ends.
    #[doc(alias = "rcu_assign_pointer")]
    pub fn replace(&self, new: T) -> Retired<T, D>
    where
        T: Sized,
    {
        self.swap(Box::new(new))
    }

    /// [`replace`](Self::replace), for a value that is already boxed.
    pub fn swap(&self, new: Box<T>) -> Retired<T, D> {
        self.0.swap(Some(new)).expect(NEVER_EMPTY)
    }

    /// Publishes `new` if the value is still `current`, which the caller has loaded. Returns the old value for
    /// disposal.
    ///
    /// Compares identity, not contents: the exchange fails if the value was replaced in the meantime, even by an
    /// equal one. As long as `current` is borrowed its memory is not reused, so there is no ABA problem. Values of
    /// size zero have no identity: the exchange succeeds even if another one of the type has replaced `current`.
    ///
    /// `guard` is what lends the reference in the error. The loop that most programs need is
    /// [`update`](Self::update).
    ///
    /// # Errors
    ///
    /// Returns the value that it found, and `new`, if `current` is no longer published.
    ///
    /// ```
    /// use stillpoint::rcu::{self, Rcu};
    ///
    /// let leader = Rcu::new(String::from("a"));
    /// let guard = rcu::enter();
    /// let seen = leader.load(&guard);
    /// assert!(leader.compare_exchange(&guard, seen, Box::new("b".into())).is_ok());
    ///
    /// // Too late: `seen` has been replaced.
    /// let failed = leader.compare_exchange(&guard, seen, Box::new("c".into())).unwrap_err();
    /// assert_eq!((failed.current.as_str(), failed.new.as_str()), ("b", "c"));
    /// ```
    ///
    /// # Panics
    ///
    /// As [`load`](Self::load).
    #[track_caller]
    pub fn compare_exchange<'a>(
        &'a self,
        guard: &'a D::Section,
        current: &T,
        new: Box<T>,
    ) -> Result<Retired<T, D>, CompareExchangeError<&'a T, Box<T>>> {
        match self.0.compare_exchange(guard, Some(current), Some(new)) {
            Ok(old) => Ok(old.expect(NEVER_EMPTY)),
            Err(CompareExchangeError { current, new }) => Err(CompareExchangeError {
                current: current.expect(NEVER_EMPTY),
                new: new.expect("it was given"),
            }),
        }
    }

    /// Publishes the value that `f` makes of the current one, and returns the old value for disposal.
    ///
    /// `f` runs inside a read-side critical section, and again whenever another writer has replaced the value in the
    /// meantime. If it panics, nothing has changed.
    ///
    /// For domains of [`rcu`](crate::rcu) and [`srcu`](crate::srcu). A thread of [`qsbr`](crate::qsbr) calls
    /// [`update_with`](Self::update_with).
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
        T: Sized + Sync,
        D: EnterSection,
    {
        self.update_with(self.domain().enter_section().borrow(), f)
    }

    /// [`update`](Self::update) inside an open section, in every domain.
    ///
    /// `guard` is a guard of [`rcu`](crate::rcu) or [`srcu`](crate::srcu), or a handle of [`qsbr`](crate::qsbr).
    ///
    /// # Panics
    ///
    /// As [`load`](Self::load).
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
    #[track_caller]
    pub fn update_with(&self, guard: &D::Section, mut f: impl FnMut(&T) -> T) -> Retired<T, D>
    where
        T: Sized + Sync,
    {
        self.0.update_with(guard, |old| old.map(&mut f)).expect(NEVER_EMPTY)
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
        T: Clone + Sync,
        D: EnterSection,
    {
        self.update(|old| {
            let mut new = old.clone();
            f(&mut new);
            new
        })
    }

    /// Returns the value without waiting: the exclusive borrow excludes readers.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().expect(NEVER_EMPTY)
    }

    /// Takes the value out, without waiting.
    pub fn into_box(self) -> Box<T> {
        self.0.into_box().expect(NEVER_EMPTY)
    }

    /// Takes the value out, without waiting.
    pub fn into_inner(self) -> T
    where
        T: Sized,
    {
        *self.into_box()
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

impl<T: ?Sized + Send + Sync + fmt::Debug + 'static, D: Domain> fmt::Debug for Rcu<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.domain().with_section(|section| match section {
            Some(section) => f.debug_tuple("Rcu").field(&self.load(section)).finish(),
            None => f.debug_struct("Rcu").finish_non_exhaustive(),
        })
    }
}

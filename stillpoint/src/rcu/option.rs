//! A pointer to a value that may be missing. All other pointers to published values are made of it.

use core::borrow::Borrow as _;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use super::exchange_error::CompareExchangeError;
use super::guard::Global;
use super::retired::Retired;
use crate::pointer::thin::ThinPtr;
use crate::rcu::published_ptr::PublishedPtr;
use crate::{Domain, EnterSection};

/// An [`Rcu`](super::Rcu) that may be empty, for statics: it is `const` to create, and allocates nothing then.
///
/// ```
/// use stillpoint::rcu::RcuOption;
///
/// static BANNER: RcuOption<String> = RcuOption::empty();
///
/// assert!(BANNER.read().is_none());
/// assert!(BANNER.replace(Some("maintenance at noon".into())).is_none());
/// assert_eq!(*BANNER.read().unwrap(), "maintenance at noon");
/// BANNER.take();
/// ```
///
/// With a sleepable domain of its own:
///
/// ```
/// use stillpoint::rcu::RcuOption;
/// use stillpoint::srcu::Domain;
///
/// static VISITS: RcuOption<u64, Domain> = RcuOption::empty_in(Domain::new());
///
/// VISITS.update(|visits| Some(visits.map_or(1, |visits| visits + 1)));
/// let guard = VISITS.domain().enter();
/// assert_eq!(VISITS.load(&guard), Some(&1));
/// ```
pub struct RcuOption<T: ?Sized + Send + 'static, D: Domain = Global> {
    /// The word of a [`ThinPtr`], or null.
    value: PublishedPtr<()>,
    domain: D,
    /// Owns the value, as a `Box` does: this is `Sync` if `T` is.
    _owns: PhantomData<T>,
    /// Values go in and out through shared references: invariant in `T`, as a `Cell` is.
    _exchanges: PhantomData<fn(*mut T)>,
}

impl<T: ?Sized + Send + 'static> RcuOption<T> {
    /// Creates an empty pointer of the [`Global`] domain.
    pub const fn empty() -> Self {
        Self::empty_in(Global)
    }
}

impl<T: ?Sized + Send + 'static, D: Domain> RcuOption<T, D> {
    /// Creates an empty pointer of `domain`.
    pub const fn empty_in(domain: D) -> Self {
        Self {
            value: PublishedPtr::new(ptr::null_mut()),
            domain,
            _owns: PhantomData,
            _exchanges: PhantomData,
        }
    }

    pub(super) fn from_box_in(value: Option<Box<T>>, domain: D) -> Self {
        Self {
            value: PublishedPtr::new(into_word(value)),
            domain,
            _owns: PhantomData,
            _exchanges: PhantomData,
        }
    }

    /// Returns the domain whose guards and handles read the value.
    pub fn domain(&self) -> &D {
        &self.domain
    }

    /// Returns the current value, which lives as long as the guard: see [`Rcu::load`](super::Rcu::load).
    ///
    /// # Panics
    ///
    /// If the guard is of another [`srcu::Domain`](crate::srcu::Domain) than this pointer.
    #[inline]
    #[track_caller]
    pub fn load<'a>(&'a self, guard: &'a D::Section) -> Option<&'a T> {
        self.domain.check_section(guard);
        // SAFETY: loaded inside the section.
        unsafe { Self::reference(self.value.load()) }
    }

    /// The pointer, for hazard pointers.
    #[inline(always)]
    pub(crate) fn published(&self) -> &PublishedPtr<()> {
        &self.value
    }

    /// # Safety
    ///
    /// `word` is what the slot of a hazard pointer protects for `'a`, in a domain with hazard pointers. `self` is
    /// borrowed for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn protected<'a>(&self, word: *mut ()) -> Option<&'a T> {
        // SAFETY: as in `reference`, with the hazard pointer in place of the section.
        unsafe { Self::reference(word) }
    }

    /// # Safety
    ///
    /// `word` was loaded inside a section of the domain that lasts for `'a`. `self` is borrowed for `'a`.
    #[inline(always)]
    unsafe fn reference<'a>(word: *mut ()) -> Option<&'a T> {
        // SAFETY: the pointer comes from a box. A writer that unpublishes it frees it only after a grace period,
        // which the section keeps from ending. The drop of `self` frees it too, which the borrow of `self` excludes.
        thin(word).map(|value| unsafe { &*value.as_ptr() })
    }

    /// Publishes `new`, or nothing, and returns the old value for disposal: see
    /// [`Rcu::replace`](super::Rcu::replace).
    pub fn replace(&self, new: Option<T>) -> Option<Retired<T, D>>
    where
        T: Sized,
    {
        self.swap(new.map(Box::new))
    }

    /// [`replace`](Self::replace), for a value that is already boxed.
    pub fn swap(&self, new: Option<Box<T>>) -> Option<Retired<T, D>> {
        // First, since it panics if there is no memory for the domain's first use.
        let domain = self.domain.clone();
        let old = self.value.swap(into_word(new));
        thin(old).map(|value| Retired::new(value, domain))
    }

    /// Leaves the pointer empty, and returns the old value for disposal.
    pub fn take(&self) -> Option<Retired<T, D>> {
        self.swap(None)
    }

    /// Publishes `new` if the value is still `current`: see [`Rcu::compare_exchange`](super::Rcu::compare_exchange).
    ///
    /// # Errors
    ///
    /// Returns the value that it found, and `new`, if another value is published, or none.
    ///
    /// ```
    /// use stillpoint::rcu::{self, RcuOption};
    ///
    /// static LEADER: RcuOption<String> = RcuOption::empty();
    ///
    /// let guard = rcu::enter();
    /// let claim = |name: &str| LEADER.compare_exchange(&guard, None, Some(Box::from(name.to_string())));
    /// assert!(claim("a").is_ok());
    /// assert_eq!(claim("b").unwrap_err().current.unwrap(), "a");
    /// ```
    #[track_caller]
    pub fn compare_exchange<'a>(
        &'a self,
        guard: &'a D::Section,
        current: Option<&T>,
        new: Option<Box<T>>,
    ) -> ExchangeResult<T, D, Option<&'a T>> {
        self.domain.check_section(guard);
        let seen = self.value.load();
        // SAFETY: loaded inside the section.
        let found = unsafe { Self::reference(seen) };
        if found.map(ptr::from_ref) != current.map(ptr::from_ref) {
            return Err(CompareExchangeError { current: found, new });
        }
        self.exchange(seen, new).map_err(|CompareExchangeError { current, new }| {
            // SAFETY: found inside the section.
            CompareExchangeError { current: unsafe { Self::reference(current) }, new }
        })
    }

    /// Publishes `new` if the pointer is still `seen`. The caller is inside a section, in which it loaded `seen`: so
    /// the address is not reused.
    fn exchange(&self, seen: *mut (), new: Option<Box<T>>) -> ExchangeResult<T, D, *mut ()> {
        // First, as in `swap`.
        let domain = self.domain.clone();
        let new = into_word(new);
        match self.value.compare_exchange(seen, new) {
            Ok(old) => Ok(thin(old).map(|value| Retired::new(value, domain))),
            Err(current) => {
                // SAFETY: `new` was not published.
                let new = thin(new).map(|new| unsafe { new.into_box() });
                Err(CompareExchangeError { current, new })
            }
        }
    }

    /// Publishes what `f` makes of the current value: see [`Rcu::update_with`](super::Rcu::update_with).
    #[track_caller]
    pub fn update_with(
        &self,
        guard: &D::Section,
        mut f: impl FnMut(Option<&T>) -> Option<T>,
    ) -> Option<Retired<T, D>>
    where
        T: Sized + Sync,
    {
        self.domain.check_section(guard);
        let mut seen = self.value.load();
        loop {
            // SAFETY: loaded inside the section.
            let new = f(unsafe { Self::reference(seen) }).map(Box::new);
            match self.exchange(seen, new) {
                Ok(old) => return old,
                Err(found) => seen = found.current,
            }
        }
    }

    /// [`update_with`](Self::update_with) in a section of its own: see [`Rcu::update`](super::Rcu::update).
    #[track_caller]
    pub fn update(&self, f: impl FnMut(Option<&T>) -> Option<T>) -> Option<Retired<T, D>>
    where
        T: Sized + Sync,
        D: EnterSection,
    {
        self.update_with(self.domain.enter_section().borrow(), f)
    }

    /// Returns the value without waiting: the exclusive borrow excludes readers.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: the pointer comes from a box, and the exclusive borrow excludes every `load`.
        thin(self.value.get_mut()).map(|value| unsafe { &mut *value.as_ptr() })
    }

    /// Takes the value out, without waiting.
    pub fn into_box(self) -> Option<Box<T>> {
        // SAFETY: the pointer comes from a box, `self` is not borrowed, and its destructor finds it empty.
        thin(self.value.swap(ptr::null_mut())).map(|value| unsafe { value.into_box() })
    }

    /// Takes the value out, without waiting.
    pub fn into_inner(self) -> Option<T>
    where
        T: Sized,
    {
        self.into_box().map(|value| *value)
    }
}

#[inline(always)]
fn thin<T: ?Sized>(word: *mut ()) -> Option<ThinPtr<T>> {
    NonNull::new(word).map(ThinPtr::from_word)
}

fn into_word<T: ?Sized>(value: Option<Box<T>>) -> *mut () {
    value.map_or(ptr::null_mut(), |value| ThinPtr::new(value).word().as_ptr())
}

impl<T: ?Sized + Send + 'static, D: Domain> Drop for RcuOption<T, D> {
    fn drop(&mut self) {
        // SAFETY: the pointer comes from a box; every reference from `load` borrowed `self`.
        drop(thin::<T>(self.value.get_mut()).map(|value| unsafe { value.into_box() }));
    }
}

impl<T: ?Sized + Send + 'static> Default for RcuOption<T> {
    fn default() -> Self {
        Self::empty()
    }
}

impl<T: Send + 'static> From<Option<T>> for RcuOption<T> {
    fn from(value: Option<T>) -> Self {
        Self::from_box_in(value.map(Box::new), Global)
    }
}

impl<T: ?Sized + Send + Sync + fmt::Debug + 'static, D: Domain> fmt::Debug for RcuOption<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.domain.with_section(|section| match section {
            Some(section) => f.debug_tuple("RcuOption").field(&self.load(section)).finish(),
            None => f.debug_struct("RcuOption").finish_non_exhaustive(),
        })
    }
}

/// The result of [`RcuOption::compare_exchange`], which finds a `C`.
type ExchangeResult<T, D, C> = Result<Option<Retired<T, D>>, CompareExchangeError<C, Option<Box<T>>>>;

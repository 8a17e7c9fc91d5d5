//! Values that are no longer published, and the wait for their readers.

use core::fmt;
use core::future::{Future, IntoFuture};
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::pin::Pin;
use core::ptr;
use core::task::{Context, Poll, ready};

use super::grace_period::{Elapse, GracePeriod};
use super::guard::Global;
use crate::Domain;
use crate::domain::defer::retire;
use crate::domain::options::DeferOptions;
use crate::pointer::shared::Shared;
use crate::pointer::thin::ThinPtr;
use crate::reclaim::domain::reader_outside;

/// A value that is no longer published, but may still have readers.
///
/// Drop it: the value is then dropped after a grace period, and this may block, as in [`retire`](super::retire). Or
/// take the value back when its readers are gone: [`wait`](Self::wait) for them, or `.await` them.
///
/// ```
/// use stillpoint::rcu::Rcu;
///
/// async fn rotate(key: &Rcu<[u8; 32]>, new: [u8; 32]) {
///     let mut old = key.replace(new).await;
///     // No reader uses the old key any more.
///     old.fill(0);
/// }
/// # let key = Rcu::new([1; 32]);
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(rotate(&key, [2; 32]));
/// # assert_eq!(key.into_inner(), [2; 32]);
/// ```
pub struct Retired<T: ?Sized + Send + 'static, D: Domain = Global> {
    /// Not a Box, which must not be aliased: readers may hold references.
    value: ThinPtr<T>,
    domain: D,
}

// SAFETY: owns its value, as a `Box` does.
unsafe impl<T: ?Sized + Send + 'static, D: Domain> Send for Retired<T, D> {}
// SAFETY: lends `&T`, and only if `T: Sync` (see `Deref`).
unsafe impl<T: ?Sized + Send + 'static, D: Domain> Sync for Retired<T, D> {}

impl<T: ?Sized + Send + 'static, D: Domain> Retired<T, D> {
    /// The caller has unpublished `value`, and does not use it again.
    pub(super) fn new(value: ThinPtr<T>, domain: D) -> Self {
        Self { value, domain }
    }

    /// Makes the caller the owner of a node that it has unlinked from a data structure.
    ///
    /// # Panics
    ///
    /// If the node is null.
    ///
    /// # Safety
    ///
    /// As for [`Domain::retire_shared`]: only sections of the domain that are open now load or use the node, and
    /// only the result frees it.
    ///
    /// ```
    /// use stillpoint::rcu::{self, Atomic, Global, Owned, Retired, Shared};
    ///
    /// let current: Atomic<String> = Atomic::new(Owned::new("old".into()));
    /// let guard = rcu::enter();
    /// let old = current.swap(Shared::null(), &guard);
    /// // SAFETY: no other pointer led to the node.
    /// let old = unsafe { Retired::from_shared(old, Global) };
    /// drop(guard);
    /// assert_eq!(old.wait(), "old");
    /// ```
    #[track_caller]
    pub unsafe fn from_shared(node: Shared<'_, T>, domain: D) -> Self
    where
        T: Sized,
    {
        Self::new(ThinPtr::from_word(node.node().expect("a node").cast()), domain)
    }

    /// Blocks for a grace period and returns the value, which then has no readers.
    ///
    /// # Panics
    ///
    /// As [`synchronize`](super::synchronize). The value is then retired.
    #[track_caller]
    pub fn wait(self) -> T
    where
        T: Sized,
        D: Domain<Hazards = ()>,
    {
        // A panic here drops `self`, which retires the value.
        let own = reader_outside(&self.domain, "Retired::wait()");
        self.domain.engine().synchronize(own);
        // SAFETY: the grace period began after the value was unpublished.
        *unsafe { self.into_box() }
    }

    /// Drops the value after a grace period, as dropping `self` does, with [`DeferOptions`].
    pub fn retire_with(self, options: DeferOptions) {
        let (value, domain) = self.into_parts();
        // SAFETY: the value has been unpublished, and is not used again. References to it are shared.
        unsafe { retire(&domain, value, options) };
    }

    /// # Safety
    ///
    /// A grace period has ended that began after the value was unpublished.
    unsafe fn into_box(self) -> Box<T> {
        // SAFETY: the readers are gone, and the destructor of `self` does not run.
        unsafe { self.into_parts().0.into_box() }
    }

    fn into_parts(self) -> (ThinPtr<T>, D) {
        let this = ManuallyDrop::new(self);
        // SAFETY: not used again, as `this` is not dropped.
        (this.value, unsafe { ptr::read(&this.domain) })
    }
}

impl<T: ?Sized + Send + Sync + 'static, D: Domain> Deref for Retired<T, D> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `self` keeps the value, and all other references are shared.
        unsafe { &*self.value.as_ptr() }
    }
}

impl<T: ?Sized + Send + 'static, D: Domain> Drop for Retired<T, D> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: as in `retire_with`.
        unsafe { retire(&self.domain, self.value, DeferOptions::new()) };
    }
}

impl<T: ?Sized + Send + 'static, D: Domain> fmt::Debug for Retired<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retired").finish_non_exhaustive()
    }
}

impl<T: Send + 'static, D: Domain<Hazards = ()>> IntoFuture for Retired<T, D> {
    type Output = T;
    type IntoFuture = Reclaim<T, D>;

    /// Takes one atomic operation. The grace period starts when the future is polled.
    #[track_caller]
    fn into_future(self) -> Reclaim<T, D> {
        // The unpublication happens before: whichever thread did it, `self` came from there. So the Release in
        // `SharedSeq::snapshot` publishes it to the grace period.
        let period = GracePeriod::now_in(self.domain.clone());
        Reclaim { elapse: period.into_future(), retired: Some(self) }
    }
}

/// The future of a [`Retired`] value: ready when the value has no readers. If it is dropped, the value is retired.
///
/// # Panics
///
/// Polling panics inside a section of the domain, as for a [`GracePeriod`](GracePeriod#panics), and after a poll has
/// returned the value.
#[must_use = "dropping it retires the value"]
pub struct Reclaim<T: Send + 'static, D: Domain = Global> {
    /// Its cookie was taken after the value was unpublished: see `into_future`.
    elapse: Elapse<D>,
    /// None after a poll has returned the value.
    retired: Option<Retired<T, D>>,
}

impl<T: Send + 'static, D: Domain> Future for Reclaim<T, D> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        ready!(self.elapse.poll_for("a Retired", context));
        let retired = self.retired.take().expect("the value has been returned already");
        // SAFETY: the grace period began after the value was unpublished: see `elapse`.
        Poll::Ready(*unsafe { retired.into_box() })
    }
}

impl<T: Send + 'static, D: Domain> fmt::Debug for Reclaim<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reclaim").finish_non_exhaustive()
    }
}

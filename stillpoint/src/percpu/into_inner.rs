//! The wait of an owner for its value: see [`IntoInner`].

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::ptr::NonNull;
use core::task::{Context, Poll};
use std::time::Duration;

use super::arc_inner::{Inner, count, own};
use super::zero::{self, WaiterId};

/// Waits until all clones of a value are gone, and gives it back: see
/// [`ArcOwner::into_inner`](super::ArcOwner::into_inner). It is a future too, for any executor.
///
/// If it is dropped, the last clone drops the value. **A wait in the thread or task that has a clone itself never
/// returns**, nor does one for a clone that was leaked.
///
/// ```
/// use stillpoint::percpu::ArcOwner;
///
/// async fn shut_down(state: ArcOwner<String>) {
///     let state: String = ArcOwner::into_inner(state).await;
///     // No task uses the state any more.
///     assert_eq!(state, "state");
/// }
/// # let owner = ArcOwner::new("state".to_owned());
/// # let task = ArcOwner::share(&owner);
/// # std::thread::spawn(move || drop(task));
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(shut_down(owner));
/// ```
#[must_use = "dropping it drops the value when the last clone is gone"]
pub struct IntoInner<T> {
    /// The block, whose value is kept for this; `None` once it has been taken.
    inner: Option<NonNull<Inner<T>>>,
    id: WaiterId,
}

// SAFETY: takes or drops the value when no thread uses it any more, and shares nothing but its address.
unsafe impl<T: Send> Send for IntoInner<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for IntoInner<T> {}

impl<T> IntoInner<T> {
    /// The count of the block has been killed, and keeps the value.
    pub(super) fn new(inner: NonNull<Inner<T>>) -> Self {
        Self { inner: Some(inner), id: 0 }
    }

    #[track_caller]
    fn inner(&self) -> NonNull<Inner<T>> {
        self.inner.expect("the value is given once")
    }

    /// Blocks until all clones are gone.
    ///
    /// # Panics
    ///
    /// If the value was given to a poll before.
    #[track_caller]
    pub fn wait(mut self) -> T {
        // SAFETY: the block is there until the value is taken.
        zero::wait(unsafe { count(self.inner()) }, None);
        self.take()
    }

    /// Blocks until all clones are gone, but no longer than `timeout`.
    ///
    /// # Errors
    ///
    /// Returns itself if there are clones, to wait again.
    ///
    /// # Panics
    ///
    /// If the value was given to a poll before.
    ///
    /// ```
    /// use std::time::Duration;
    /// use stillpoint::percpu::ArcOwner;
    ///
    /// let owner = ArcOwner::new(5);
    /// let clone = ArcOwner::share(&owner);
    /// let rest = ArcOwner::into_inner(owner).wait_timeout(Duration::from_millis(10)).expect_err("there is a clone");
    /// drop(clone);
    /// assert_eq!(rest.wait(), 5);
    /// ```
    #[track_caller]
    pub fn wait_timeout(mut self, timeout: Duration) -> Result<T, Self> {
        // SAFETY: as above.
        let is_zero = zero::wait(unsafe { count(self.inner()) }, Some(timeout));
        if is_zero { Ok(self.take()) } else { Err(self) }
    }

    /// Takes the value: the count is zero.
    #[track_caller]
    fn take(&mut self) -> T {
        let inner = self.inner();
        // SAFETY: the block is there.
        zero::forget(unsafe { count(inner) }, &mut self.id);
        self.inner = None;
        // SAFETY: the count is zero and keeps the value, which is taken once.
        unsafe { own(inner) }.value
    }
}

impl<T> Future for IntoInner<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // SAFETY: as in `wait`.
        let count = unsafe { count(self.inner()) };
        zero::poll(count, &mut self.id, context).map(|()| self.take())
    }
}

impl<T> Drop for IntoInner<T> {
    fn drop(&mut self) {
        /// Leaves the value to the last clone, or drops it, also after a panic: the waker is code of the program.
        struct Abandon<T>(NonNull<Inner<T>>);
        impl<T> Drop for Abandon<T> {
            fn drop(&mut self) {
                // SAFETY: as in `wait`. After this the last clone may free the block.
                if unsafe { count(self.0) }.abandon() {
                    // SAFETY: the count is zero, and has kept the value for this.
                    drop(unsafe { own(self.0) });
                }
            }
        }
        let Some(inner) = self.inner else { return };
        let _abandon = Abandon(inner);
        // SAFETY: as in `wait`.
        zero::forget(unsafe { count(inner) }, &mut self.id);
    }
}

impl<T> fmt::Debug for IntoInner<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: as in `wait`.
        let is_ready = self.inner.is_some_and(|inner| unsafe { count(inner) }.is_zero());
        f.debug_struct("IntoInner").field("is_ready", &is_ready).finish_non_exhaustive()
    }
}

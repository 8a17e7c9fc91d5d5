//! The way of a value from the last clone back to its owner: see [`IntoInner`].

use core::cell::UnsafeCell;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::Arc;
use std::time::Duration;

use super::event::{Event, WaiterId};

/// The place for the value. Shared by the [`IntoInner`] and the thread that gives the value; the last of them drops it.
pub struct Handoff<T> {
    /// The value is there.
    given: Event,
    /// Written before `given`, and then used by the `IntoInner` only.
    value: UnsafeCell<Option<T>>,
}

// SAFETY: hands the value from thread to thread, and never shares it.
unsafe impl<T: Send> Sync for Handoff<T> {}

impl<T> Handoff<T> {
    pub fn new() -> Self {
        Self { given: Event::new(), value: UnsafeCell::new(None) }
    }

    /// Gives the value. Called once.
    pub fn give(&self, value: T) {
        // SAFETY: not used by another thread before the event.
        unsafe { *self.value.get() = Some(value) };
        self.given.set();
    }
}

/// Waits until all clones of a value are gone, and gives it back: see [`ArcOwner::into_inner`](super::ArcOwner::into_inner).
/// It is a future too, for any executor.
///
/// If it is dropped, the last clone drops the value. **A wait in the thread or task that has a clone itself never returns**, nor
/// does one for a clone that was leaked.
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
    handoff: Arc<Handoff<T>>,
    id: WaiterId,
}

impl<T> IntoInner<T> {
    pub(super) fn new(handoff: Arc<Handoff<T>>) -> Self {
        Self { handoff, id: 0 }
    }

    /// Blocks until all clones are gone.
    ///
    /// # Panics
    ///
    /// If the value was given to a poll before.
    #[track_caller]
    pub fn wait(self) -> T {
        self.handoff.given.wait(None);
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
    pub fn wait_timeout(self, timeout: Duration) -> Result<T, Self> {
        if self.handoff.given.wait(Some(timeout)) { Ok(self.take()) } else { Err(self) }
    }

    /// Takes the value, which has been given.
    #[track_caller]
    fn take(&self) -> T {
        debug_assert!(self.handoff.given.has_happened());
        // SAFETY: used by this alone since the event, which the caller has seen.
        unsafe { (*self.handoff.value.get()).take() }.expect("the value is given once")
    }
}

impl<T> Future for IntoInner<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Self { handoff, id } = &mut *self;
        handoff.given.poll(id, context).map(|()| self.take())
    }
}

impl<T> Drop for IntoInner<T> {
    fn drop(&mut self) {
        self.handoff.given.forget(&mut self.id);
    }
}

impl<T> fmt::Debug for IntoInner<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntoInner")
            .field("is_ready", &self.handoff.given.has_happened())
            .finish_non_exhaustive()
    }
}

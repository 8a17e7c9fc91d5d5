//! Domains whose readers report quiescent states.

use core::panic::Location;
use core::ptr::NonNull;

use super::handle::{Handle, RegisterError};
use crate::rcu::deferred;
use crate::rcu::reports::Reports;
use crate::rcu::world::{self, Words, World};
use crate::rcu::{Hints, Limits, Static, Stats};

/// A domain: threads that report, and the grace periods that wait for them and for nobody else.
///
/// Most programs need only [`Global`], which the functions of [`crate::qsbr`] use. Others are made by
/// [`qsbr::domain!`](crate::qsbr_domain). A handle of one domain does not open a pointer of another:
///
/// ```
/// use stillpoint::qsbr::{self, Domain};
/// use stillpoint::rcu::Rcu;
///
/// qsbr::domain! {
///     /// Routing tables.
///     pub struct Routes;
/// }
///
/// let table = Rcu::new_in(vec![1, 2, 3], Routes);
/// let thread = Routes::register();
/// assert_eq!(table.load(&thread).len(), 3);
/// ```
///
/// # Safety
///
/// Implemented by [`qsbr::domain!`](crate::qsbr_domain) only, which gives each type its own state.
pub unsafe trait Domain: Static<Kind = Reports, Section = Handle<Self>> {
    /// Registers the calling thread: see [`qsbr::register`](super::register).
    #[track_caller]
    fn register() -> Handle<Self> {
        match Self::try_register() {
            Ok(handle) => handle,
            Err(why) => panic!("cannot register with {}: {why}", core::any::type_name::<Self>()),
        }
    }

    /// [`register`](Self::register), which tells why it cannot be done.
    #[track_caller]
    fn try_register() -> Result<Handle<Self>, RegisterError> {
        Handle::register(Location::caller())
    }

    /// Whether the calling thread has a handle that is online.
    fn is_online() -> bool {
        Self::INSTANCE.is_reading()
    }

    /// Waits for a grace period: see [`qsbr::synchronize`](super::synchronize).
    fn synchronize() {
        world::synchronize(&Self::INSTANCE);
    }

    /// Calls `f` after a grace period: see [`rcu::call`](crate::rcu::call).
    #[track_caller]
    fn call(f: impl FnOnce() + Send + 'static) {
        Self::call_with(f, Hints::new());
    }

    /// [`call`](Self::call), with [`Hints`].
    #[track_caller]
    fn call_with(f: impl FnOnce() + Send + 'static, hints: Hints) {
        deferred::call(&Self::INSTANCE, f, hints);
    }

    /// Drops `value` after a grace period: see [`rcu::retire`](crate::rcu::retire).
    #[inline]
    #[track_caller]
    fn retire<T: Send + 'static>(value: Box<T>) {
        Self::retire_with(value, Hints::new());
    }

    /// [`retire`](Self::retire), with [`Hints`].
    #[inline]
    #[track_caller]
    fn retire_with<T: Send + 'static>(value: Box<T>, hints: Hints) {
        // SAFETY: the pointer comes from the box, which the caller has given up.
        unsafe { Self::retire_raw(NonNull::from(Box::leak(value)), hints) };
    }

    /// [`retire`](Self::retire) for a value that readers still hold references to.
    ///
    /// # Safety
    ///
    /// As for [`qsbr::retire_raw`](super::retire_raw).
    #[inline]
    #[track_caller]
    unsafe fn retire_raw<T: Send + 'static>(value: NonNull<T>, hints: Hints) {
        // SAFETY: the caller's contract.
        unsafe { deferred::retire(&Self::INSTANCE, value, hints) };
    }

    /// Waits until all that was deferred before has been done: see [`qsbr::barrier`](super::barrier).
    fn barrier() {
        deferred::barrier(&Self::INSTANCE);
    }

    /// How much may wait: see [`qsbr::set_limits`](super::set_limits).
    fn set_limits(limits: Limits) {
        Self::INSTANCE.core().callbacks.set_limits(limits);
    }

    /// Counters since the start of the process.
    fn stats() -> Stats {
        Stats::of(&Self::INSTANCE)
    }
}

/// What users of [`Domain`] are told.
#[doc(hidden)]
pub static WORDS: Words = Words {
    inside: "synchronize() by a thread whose handle is online would wait for itself: use Handle::synchronize, or wait inside \
             Handle::offline",
    inside_barrier: "barrier() by a thread whose handle is online would wait for itself: call it inside Handle::offline",
    orphaned: "synchronize() would wait for ever: a thread ended while it was online in this domain (its handle was leaked)",
    ends: "with a leaked handle, online in the domain",
};

/// Defines an isolated domain of [`qsbr`](crate::qsbr): a type without data, with threads and grace periods of its own. Also
/// `qsbr::domain!`.
///
/// ```
/// use stillpoint::qsbr::{self, Domain};
///
/// qsbr::domain! {
///     /// Sessions of the connection table.
///     pub struct Sessions;
/// }
///
/// let mut thread = Sessions::register();
/// thread.synchronize();
/// ```
#[macro_export]
macro_rules! qsbr_domain {
    ($(#[$attr:meta])* $vis:vis struct $name:ident;) => {
        $crate::static_domain! { qsbr $(#[$attr])* $vis struct $name; }
    };
}

crate::qsbr_domain! {
    /// The domain of the functions of [`crate::qsbr`].
    pub struct Global;
}

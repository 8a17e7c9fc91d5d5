//! Domains whose readers report quiescent states.

use core::panic::Location;

use super::handle::{Handle, RegisterError};
use crate::rcu::Static;
use crate::rcu::reports::Reports;
use crate::rcu::world::{Words, World};

/// A domain: threads that report, and the grace periods that wait for them and for nobody else.
///
/// Most programs need only [`Global`], which the functions of [`crate::qsbr`] use. Others are made by
/// [`qsbr::domain!`](crate::qsbr_domain). A handle of one domain does not open a pointer of another:
///
/// ```
/// use stillpoint::qsbr;
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
pub unsafe trait QsbrDomain: Static<Kind = Reports, Section = Handle<Self>> {
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

    /// Returns `true` if the calling thread has a handle that is online.
    fn is_online() -> bool {
        Self::INSTANCE.is_reading()
    }
}

/// What users of [`QsbrDomain`] are told.
#[doc(hidden)]
pub static WORDS: Words = Words {
    inside: "synchronize() by a thread whose handle is online would wait for itself: use Handle::synchronize, or wait inside \
             Handle::offline",
    inside_barrier: "barrier() by a thread whose handle is online would wait for itself: call it inside Handle::offline",
};

/// Defines an isolated domain of [`qsbr`](crate::qsbr): a type without data, with threads and grace periods of its own. Also
/// `qsbr::domain!`.
///
/// ```
/// use stillpoint::qsbr;
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

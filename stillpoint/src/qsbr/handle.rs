//! A thread that reads and reports, as a value.

use core::error::Error;
use core::fmt;
use core::marker::PhantomData;
use core::panic::Location;

use crate::Domain as _;
use crate::domain::deferred;
use crate::domain::raw::{Messages, RawDomain};
use crate::domain::static_domain::{StaticDomain, leave_if_ended, queue_of, register, registered_reader};
use crate::readers::qsbr::Qsbr;
use crate::readers::reader::{Owner, Reader};
use crate::reclaim::queue::PushAction;

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
pub unsafe trait QsbrDomain: StaticDomain<Protocol = Qsbr, Section = Handle<Self>> {
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
        Self::INSTANCE.in_read_section()
    }
}

/// What users of [`QsbrDomain`] are told.
#[doc(hidden)]
pub static MESSAGES: Messages = Messages {
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

/// The calling thread's registration with the domain `D`, which lends references ([`Rcu::load`](crate::rcu::Rcu::load)).
///
/// The thread is online: it must [report](Self::quiescent), go [offline](Self::offline), or drop the handle, or grace periods
/// do not end.
///
/// A reference lives no longer than until the next report:
///
/// ```compile_fail,E0502
/// use stillpoint::{qsbr, rcu::Rcu};
///
/// let config = Rcu::new_in(1, qsbr::Global);
/// let mut thread = qsbr::register();
/// let value = config.load(&thread);
/// thread.quiescent();
/// assert_eq!(*value, 1);
/// ```
pub struct Handle<D: QsbrDomain = Global> {
    /// The counter as this thread has seen it; what `state` of the reader says while it is online.
    seen: u64,
    reader: &'static Reader,
    /// Neither `Send` nor `Sync`: it speaks for its thread, and is used without atomic operations.
    _thread: PhantomData<*mut D>,
}

/// Why a thread cannot be registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegisterError {
    /// It has a handle already, which may be offline or leaked.
    Registered,
    /// Something is used up: the message says what.
    Exhausted(&'static str),
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registered => f.pad("this thread has a handle already"),
            Self::Exhausted(what) => f.pad(what),
        }
    }
}

impl Error for RegisterError {}

impl<D: QsbrDomain> Handle<D> {
    pub(super) fn register(site: &'static Location<'static>) -> Result<Self, RegisterError> {
        if D::with_thread_state(|local| local.has_handle.get()) {
            return Err(RegisterError::Registered);
        }
        let reader = match registered_reader::<D>() {
            Some(reader) => {
                // The thread has deferred something before. Nobody awaits it, as it is offline.
                reader.set_owner(Owner { thread: crate::sys::thread::tid().unsigned_abs(), site });
                reader
            }
            None => register::<D>(site).map_err(RegisterError::Exhausted)?,
        };
        D::with_thread_state(|local| local.has_handle.set(true));
        Ok(Self { seen: D::shared().readers().thread_online(reader), reader, _thread: PhantomData })
    }

    /// Reports that the thread holds no references, as the compiler sees.
    ///
    /// A load and a comparison, if no grace period has begun since the last report. Otherwise an atomic operation, and, if a
    /// grace period sleeps that waits for this thread as the last one, a system call. A thread that has deferred work waits here
    /// while more is queued than the [limits](crate::Domain::set_limits) allow.
    #[inline]
    pub fn quiescent(&mut self) {
        let counter = D::shared().readers().current_counter();
        if counter != self.seen {
            self.report_slow(counter);
        }
    }

    #[cold]
    fn report_slow(&mut self, counter: u64) {
        self.seen = counter;
        D::shared().readers().quiescent_state(self.reader, counter);
        if D::shared().core.callbacks.must_throttle(queue_of::<D>(self.reader)) {
            self.offline(|| ());
        }
    }

    /// Runs `f` while the thread is offline: grace periods do not wait for it. For whatever may block, and for long work without
    /// reads.
    ///
    /// The thread is online again afterwards, also if `f` panics.
    ///
    /// ```
    /// use std::{thread, time::Duration};
    /// use stillpoint::qsbr;
    ///
    /// let mut thread = qsbr::register();
    /// thread.offline(|| thread::sleep(Duration::from_millis(1)));
    /// ```
    pub fn offline<T>(&mut self, f: impl FnOnce() -> T) -> T {
        D::shared().readers().thread_offline(self.reader);
        let online = Offline(self);
        online.0.relieve();
        f()
    }

    /// A thread that has deferred work waits here, offline, while more is queued than it should be.
    fn relieve(&self) {
        if D::shared().core.callbacks.must_throttle(queue_of::<D>(self.reader)) {
            deferred::flush(&D::INSTANCE, queue_of::<D>(self.reader), PushAction::Flush);
        }
    }

    /// Waits until every other thread that is online now has reported, or gone offline. This one is offline meanwhile.
    ///
    /// # Panics
    ///
    /// As [`qsbr::synchronize`](super::synchronize).
    pub fn synchronize(&mut self) {
        self.offline(|| D::INSTANCE.synchronize());
    }
}

/// Brings the thread back online.
struct Offline<'a, D: QsbrDomain>(&'a mut Handle<D>);

impl<D: QsbrDomain> Drop for Offline<'_, D> {
    fn drop(&mut self) {
        self.0.seen = D::shared().readers().thread_online(self.0.reader);
    }
}

impl<D: QsbrDomain> Drop for Handle<D> {
    fn drop(&mut self) {
        D::shared().readers().thread_offline(self.reader);
        self.relieve();
        D::with_thread_state(|local| local.has_handle.set(false));
        leave_if_ended::<D>();
    }
}

impl<D: QsbrDomain> fmt::Debug for Handle<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("domain", &core::any::type_name::<D>()).finish_non_exhaustive()
    }
}

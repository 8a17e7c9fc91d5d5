//! The handles of threads, and the domains that have them.

use core::fmt;
use core::marker::PhantomData;
use core::panic::Location;
use core::ptr;

use crate::Domain as _;
use crate::domain::static_domain::{DropBeforeAwaitOrUseSrcu, StaticDomain};
use crate::domain::thread::{leave_if_ended, queue_of, register, registered_reader};
use crate::readers::sections::reader::{Owner, Reader};
use crate::reclaim::domain::{RawDomain as _, assert_outside_hook};
use crate::reclaim::queue::PushAction;

/// Defines a domain of [`qsbr`](crate::qsbr): a type without data. Also `qsbr::domain!`.
///
/// A handle of one domain cannot load a pointer of another.
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
#[macro_export]
macro_rules! qsbr_domain {
    ($(#[$attr:meta])* $vis:vis struct $name:ident;) => {
        $crate::static_domain! { qsbr $(#[$attr])* $vis struct $name; }
    };
}

crate::static_domain! { qsbr
    /// The domain of the functions of [`crate::qsbr`]. [`qsbr::domain!`](crate::qsbr_domain) defines further ones.
    pub struct Global = "stillpoint::qsbr::Global";
}

/// The calling thread's registration with the domain `D`.
///
/// It lends references: [`Rcu::load`](crate::rcu::Rcu::load) borrows it.
/// The thread is online: it must [report](Self::quiescent), go [offline](Self::offline), or drop the handle, or grace
/// periods do not end. A reference cannot outlive the next report:
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
pub struct Handle<D: StaticDomain = Global> {
    /// The counter as this thread last saw it: the reader's `gp_seen` while it is online.
    seen: u64,
    reader: &'static Reader,
    /// It stands for its thread, and is used without atomic operations.
    _thread: PhantomData<(*mut DropBeforeAwaitOrUseSrcu, D)>,
}

impl<D: StaticDomain<Section = Self>> Handle<D> {
    /// Registers the calling thread: see [`qsbr::register`](super::register). For the macro.
    #[doc(hidden)]
    #[track_caller]
    pub fn register() -> Self {
        match Self::try_register() {
            Ok(handle) => handle,
            Err(what) => {
                let why = what.unwrap_or("this thread has a handle already");
                panic!("cannot register with {}: {why}", D::name());
            }
        }
    }

    /// [`register`](Self::register), which returns an error instead of panicking. For other languages.
    ///
    /// # Errors
    ///
    /// `None` if the thread has a handle already, which may be offline or leaked; or what is exhausted.
    #[doc(hidden)]
    #[track_caller]
    pub fn try_register() -> Result<Self, Option<&'static str>> {
        if D::with_thread_state(|local| local.has_handle.get()) {
            return Err(None);
        }
        let site = Location::caller();
        let reader = match registered_reader::<D>() {
            Some(reader) => {
                // The thread has deferred something before. It is offline, so no grace period waits for it.
                reader.set_owner(Owner { thread: crate::sys::thread::tid().unsigned_abs(), site });
                reader
            }
            None => register::<D>(site).map_err(Some)?,
        };
        D::with_thread_state(|local| local.has_handle.set(true));
        let seen = D::shared().readers().thread_online(reader);
        Ok(Self { seen, reader, _thread: PhantomData })
    }

    /// Returns `true` if the calling thread has a handle of the domain that is online. For the macro.
    #[doc(hidden)]
    pub fn is_online() -> bool {
        D::INSTANCE.in_read_section()
    }
}

impl<D: StaticDomain> Handle<D> {
    /// Reports that the thread holds no references, as the compiler checks.
    ///
    /// Takes a load and a comparison if no grace period has begun since the last report. Otherwise an atomic
    /// operation, and a system call if a sleeping grace period waits for this thread as the last one. Blocks if the
    /// thread has deferred callbacks and the backlog exceeds its [limits](crate::Domain::set_limits).
    #[doc(alias = "rcu_quiescent_state")]
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
        if D::shared().core.work.callbacks.must_throttle(queue_of::<D>(self.reader)) {
            self.offline(|| ());
        }
    }

    /// Runs `f` while the thread is offline, so that grace periods do not wait for it.
    ///
    /// For calls that may block, and for long work without reads. The thread is online again afterwards, even if `f`
    /// panics. The [module](super#blocking) has an example.
    pub fn offline<T>(&mut self, f: impl FnOnce() -> T) -> T {
        let online_at_drop = Offline(self);
        online_at_drop.0.go_offline();
        f()
    }

    /// Takes the thread offline. Blocks if it has deferred callbacks and the backlog exceeds its limits.
    fn go_offline(&self) {
        D::shared().readers().thread_offline(self.reader);
        let queue = queue_of::<D>(self.reader);
        let callbacks = &D::shared().core.work.callbacks;
        if callbacks.must_throttle(queue) {
            callbacks.act(PushAction::Flush, queue, D::INSTANCE);
        }
    }

    /// Blocks until every other online thread has reported or gone offline. Until then this thread is offline.
    ///
    /// # Panics
    ///
    /// In a stall hook.
    #[track_caller]
    pub fn synchronize(&mut self) {
        assert_outside_hook("Handle::synchronize()");
        self.offline(|| D::INSTANCE.synchronize());
    }
}

/// Brings the thread back online when it is dropped.
struct Offline<'a, D: StaticDomain>(&'a mut Handle<D>);

impl<D: StaticDomain> Drop for Offline<'_, D> {
    fn drop(&mut self) {
        self.0.seen = D::shared().readers().thread_online(self.0.reader);
    }
}

impl<D: StaticDomain> Drop for Handle<D> {
    fn drop(&mut self) {
        self.go_offline();
        let is_own = registered_reader::<D>().is_some_and(|own| ptr::eq(own, self.reader));
        if is_own {
            D::with_thread_state(|local| local.has_handle.set(false));
            leave_if_ended::<D>();
        }
        // Where thread-local variables are keys, what knows of the reader may be destroyed before the handle.
        #[cfg(stillpoint_portable)]
        if !is_own {
            crate::domain::thread::leave_if_forgotten::<D>(self.reader);
        }
    }
}

impl<D: StaticDomain> fmt::Debug for Handle<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("domain", &D::name()).finish_non_exhaustive()
    }
}

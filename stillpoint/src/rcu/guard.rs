//! The read-side section as a value.

use core::fmt;
use core::marker::PhantomData;

use super::domain::{Global, RcuDomain, attend, repin_slow};
use super::reader::{Exit, Reader};

/// An open read-side section of the domain `D`. Dropping it ends the section.
///
/// Guards of one thread may be nested and dropped in any order; the section lasts until the last one is dropped. A guard
/// stays in its thread. While it lives, no grace period that begins can end.
///
/// Dropping the outermost guard waits if values were retired inside the section, and more waits to be freed than
/// [`set_limits`](super::set_limits) allows; otherwise it never does.
///
/// A leaked guard (`mem::forget`) never ends its section: grace periods wait for it, also once its thread has exited. The
/// [stall report](super#stalls) names the thread.
///
/// ```
/// use stillpoint::rcu;
///
/// let outer = rcu::enter();
/// let inner = rcu::enter();
/// drop(outer);
/// assert!(rcu::in_read_section());
/// drop(inner);
/// assert!(!rcu::in_read_section());
/// ```
///
/// ```compile_fail,E0277
/// let guard = stillpoint::rcu::enter();
/// std::thread::spawn(move || drop(guard));
/// ```
#[must_use = "the section ends when the guard is dropped"]
pub struct Guard<D: RcuDomain = Global> {
    reader: &'static Reader,
    /// Neither `Send` nor `Sync`: the reader's fast paths belong to its thread.
    _thread: PhantomData<*mut D>,
}

impl<D: RcuDomain> Guard<D> {
    /// The calling thread has just entered with `reader`.
    #[inline(always)]
    pub(super) fn new(reader: &'static Reader) -> Self {
        Self { reader, _thread: PhantomData }
    }

    /// Ends the section and begins a new one, if this is the thread's only guard: grace periods that began before need
    /// not wait any longer. References loaded through the guard end here, as the compiler sees.
    ///
    /// Costs a few loads when no grace period has begun since the section did. If the thread has retired values inside it, and
    /// more waits to be freed than [`set_limits`](super::set_limits) allows, it waits here, outside any section, as on dropping
    /// the guard. For long loops of reads:
    ///
    /// ```
    /// use stillpoint::rcu::{self, Rcu};
    ///
    /// let limit = Rcu::new(10);
    /// let mut guard = rcu::enter();
    /// let mut sum = 0;
    /// for i in 0..100 {
    ///     guard.repin();
    ///     sum += i % limit.load(&guard);
    /// }
    /// assert_eq!(sum, 450);
    /// ```
    #[inline]
    pub fn repin(&mut self) {
        if self.reader.repin(D::shared().readers().counter()) == Exit::Attention {
            repin_slow::<D>(self.reader);
        }
    }
}

impl<D: RcuDomain> Drop for Guard<D> {
    #[inline]
    fn drop(&mut self) {
        if self.reader.leave() == Exit::Attention {
            attend::<D>(self.reader);
        }
    }
}

impl<D: RcuDomain> fmt::Debug for Guard<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("domain", &core::any::type_name::<D>()).finish_non_exhaustive()
    }
}

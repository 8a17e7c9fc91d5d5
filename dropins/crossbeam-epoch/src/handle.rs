//! Handles of collectors.

use std::fmt;
use std::rc::Rc;

use crate::collector::Collector;
use crate::guard::Guard;
use crate::local::{Handle, HandleGuard};

/// A participant of a [`Collector`], of one thread.
///
/// Its guards may be nested, and may outlive it. They do not pin the thread's other handles, nor does
/// [`pin`](crate::pin) pin them.
///
/// ```
/// use crossbeam_epoch::Collector;
///
/// let handle = Collector::new().register();
/// let guard = handle.pin();
/// assert!(handle.is_pinned() && !crossbeam_epoch::is_pinned());
/// drop(guard);
/// assert!(!handle.is_pinned());
/// ```
pub struct LocalHandle {
    handle: Rc<Handle>,
}

impl LocalHandle {
    pub(crate) fn new(collector: Collector) -> Self {
        Self { handle: Rc::new(Handle::new(collector)) }
    }

    /// Pins the handle.
    #[inline]
    pub fn pin(&self) -> Guard {
        Guard::of_handle(HandleGuard::new(&self.handle))
    }

    /// Returns `true` if the handle has a guard.
    #[inline]
    pub fn is_pinned(&self) -> bool {
        self.handle.is_pinned()
    }

    /// Returns the handle's collector.
    #[inline]
    pub fn collector(&self) -> &Collector {
        &self.handle.collector
    }
}

impl fmt::Debug for LocalHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalHandle").finish_non_exhaustive()
    }
}

impl Collector {
    /// Creates a handle, by which a thread takes part.
    pub fn register(&self) -> LocalHandle {
        LocalHandle::new(self.clone())
    }
}

//! What becomes of the pointer that a store replaces.

use core::mem;
use std::sync::{PoisonError, RwLock};

use super::protected::{Protected, cloned, load_counted, pay_guards, release};
use super::ref_cnt::RefCnt;
use super::thread;
use crate::rcu::published_ptr::PublishedPtr;
use crate::sync::step;

/// How a cell protects what is loaded, and releases what is replaced: [`Exact`], [`Deferred`], or
/// `RwLock<()>`. Other types cannot implement it.
pub trait Strategy<T: RefCnt>: sealed::Strategy<T> {}

impl<T: RefCnt, S: sealed::Strategy<T>> Strategy<T> for S {}

pub(crate) mod sealed {
    use super::*;

    /// # Safety of its functions
    ///
    /// `source` is the pointer of a cell, of [`RefCnt::into_ptr`] and with a reference. `old` has been taken out of
    /// it, with its reference, and is given to one call.
    pub trait Strategy<T: RefCnt> {
        /// Loads the pointer.
        unsafe fn load(&self, source: &PublishedPtr<T::Base>) -> Protected<T>;

        /// Loads the pointer, with a reference of its own.
        unsafe fn load_full(&self, source: &PublishedPtr<T::Base>) -> T {
            // SAFETY: the caller's contract.
            unsafe { self.load(source) }.into_inner()
        }

        /// Returns the old pointer, with a reference of its own.
        unsafe fn take(&self, old: *mut T::Base) -> T;

        /// Releases the old pointer.
        unsafe fn discard(&self, old: *mut T::Base) {
            // SAFETY: the caller's contract.
            drop(unsafe { self.take(old) });
        }

        /// Returns the pointer of a cell that no other thread uses any more.
        unsafe fn take_last(&mut self, old: *mut T::Base) -> T {
            // SAFETY: the caller's contract. A load has ended before another thread may give up the cell.
            unsafe {
                pay_guards::<T>(old);
                T::from_ptr(old)
            }
        }
    }
}

/// Counts are exact when a store returns: the cell has given up its reference to the old value, and guards that have
/// it own theirs. If it was the last reference, the storing thread has destroyed the value. The default.
///
/// A store waits for a grace period: for a process-wide fence ([`fence::heavy`](crate::fence::heavy)), and for
/// threads that are in the middle of a load. It looks at each thread that has ever loaded a pointer. If a guard has
/// the old value, it executes a second fence. So a store takes some microseconds, and more while other threads run:
/// for what is replaced now and then, as configuration is. A store waits for a time slice if a thread has lost its
/// CPU in the middle of a load.
///
/// Values need not be `'static`, nor `Send`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Exact;

impl<T: RefCnt> sealed::Strategy<T> for Exact {
    #[inline(always)]
    unsafe fn load(&self, source: &PublishedPtr<T::Base>) -> Protected<T> {
        // SAFETY: the caller's contract; `take` waits, and pays.
        unsafe { Protected::load(source) }
    }

    #[inline]
    unsafe fn load_full(&self, source: &PublishedPtr<T::Base>) -> T {
        // SAFETY: as above.
        unsafe { load_counted(source) }
    }

    unsafe fn take(&self, old: *mut T::Base) -> T {
        if !old.is_null() {
            step!("loads-not-awaited", thread::wait_for_loads("a store to an `ArcCell`"));
        }
        // SAFETY: the caller's contract; the loads have ended.
        unsafe {
            pay_guards::<T>(old);
            T::from_ptr(old)
        }
    }
}

/// A store does not wait, however many threads there are: a worker of the library releases the cell's reference to
/// the old value soon, within milliseconds, and destroys the value if that was the last.
///
/// So counts lag, [`Arc::try_unwrap`](std::sync::Arc::try_unwrap) of what a swap returns fails for a while, and
/// destructors run in another thread. [`barrier`](super::barrier) waits for all that. What waits is bounded by the
/// [limits](crate::rcu::Limits) of [their domain](super::domain): above them, stores block.
///
/// Loads cost the same as with [`Exact`].
///
/// ```
/// use std::sync::Arc;
/// use stillpoint::arc::{self, ArcCell, Deferred};
///
/// let cell = ArcCell::with_strategy(Arc::new(1), Deferred);
/// let old = cell.swap(Arc::new(2));
/// arc::barrier();
/// assert_eq!(Arc::try_unwrap(old), Ok(1));
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Deferred;

impl<T: RefCnt + Send + 'static> sealed::Strategy<T> for Deferred {
    #[inline(always)]
    unsafe fn load(&self, source: &PublishedPtr<T::Base>) -> Protected<T> {
        // SAFETY: the caller's contract; what is taken out is released after a grace period.
        unsafe { Protected::load(source) }
    }

    #[inline]
    unsafe fn load_full(&self, source: &PublishedPtr<T::Base>) -> T {
        // SAFETY: as above.
        unsafe { load_counted(source) }
    }

    unsafe fn take(&self, old: *mut T::Base) -> T {
        // SAFETY: the caller's contract: the cell's reference is released later.
        unsafe {
            let pointer = cloned(old);
            retire::<T>(old);
            pointer
        }
    }

    #[inline]
    unsafe fn discard(&self, old: *mut T::Base) {
        // SAFETY: the caller's contract.
        unsafe { retire::<T>(old) };
    }
}

/// A load takes the read lock for as long as it increments the count. For comparison.
impl<T: RefCnt> sealed::Strategy<T> for RwLock<()> {
    unsafe fn load(&self, source: &PublishedPtr<T::Base>) -> Protected<T> {
        let _read = self.read().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: a thread that takes it out takes the lock afterwards.
        Protected::counted(unsafe { cloned(source.load()) })
    }

    unsafe fn take(&self, old: *mut T::Base) -> T {
        drop(self.write().unwrap_or_else(PoisonError::into_inner));
        // SAFETY: the loads that may have it have ended, and have references of their own.
        unsafe { T::from_ptr(old) }
    }
}

/// Has the cell's reference [released](release) after a grace period of the loads.
///
/// # Safety
///
/// `old` has been taken out of a cell, with its reference.
#[inline]
unsafe fn retire<T: RefCnt + Send + 'static>(old: *mut T::Base) {
    if old.is_null() {
        return;
    }
    // SAFETY: pointers to types with a size have one representation.
    let release = unsafe { mem::transmute::<unsafe fn(*const T::Base), unsafe fn(*mut ())>(release::<T>) };
    // SAFETY: the caller's contract. The pointer is `Send` and `'static`.
    unsafe { thread::retire(old.cast(), size_of::<T::Base>(), release) };
}

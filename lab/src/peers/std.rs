//! The standard library's locks, and no protection at all.

use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use super::{BoxSlot, Lock, ReadSide, VALUE};

/// No protection: the lower bound. Sections cost nothing here, nested or not.
pub(crate) struct BareLoad(BoxSlot<u64>);

impl ReadSide for BareLoad {
    const NAME: &'static str = "bare-load";
    type Reader<'a> = ();
    type Guard<'a> = &'a AtomicPtr<u64>;

    fn new() -> Self {
        Self(BoxSlot::new(Box::new(VALUE)))
    }

    fn reader(&self) {}

    #[inline(always)]
    fn enter<'a>(&'a self, (): &'a ()) -> &'a AtomicPtr<u64> {
        &self.0.0
    }

    #[inline(always)]
    fn load(&self, guard: &&AtomicPtr<u64>) -> u64 {
        // SAFETY: the number is not freed before the slot, which is borrowed.
        unsafe { *guard.load(Ordering::Acquire) }
    }
}

pub(crate) struct InRwLock(RwLock<Box<u64>>);

impl ReadSide for InRwLock {
    const NAME: &'static str = "std-rwlock";
    type Reader<'a> = ();
    type Guard<'a> = RwLockReadGuard<'a, Box<u64>>;

    fn new() -> Self {
        Self(RwLock::new(Box::new(VALUE)))
    }

    fn reader(&self) {}

    #[inline(always)]
    fn enter<'a>(&'a self, (): &'a ()) -> Self::Guard<'a> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline(always)]
    fn load(&self, guard: &Self::Guard<'_>) -> u64 {
        ***guard
    }
}

pub(crate) struct InMutex(Mutex<Box<u64>>);

impl ReadSide for InMutex {
    const NAME: &'static str = "std-mutex";
    type Reader<'a> = ();
    type Guard<'a> = MutexGuard<'a, Box<u64>>;

    fn new() -> Self {
        Self(Mutex::new(Box::new(VALUE)))
    }

    fn reader(&self) {}

    #[inline(always)]
    fn enter<'a>(&'a self, (): &'a ()) -> Self::Guard<'a> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline(always)]
    fn load(&self, guard: &Self::Guard<'_>) -> u64 {
        ***guard
    }
}

impl Lock for Mutex<u64> {
    const NAME: &'static str = "std";

    fn new() -> Self {
        Self::new(0)
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        f(&mut self.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

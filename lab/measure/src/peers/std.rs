//! The standard library's mutex, and no protection at all.

use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{BoxSlot, Lock, ReadSide, VALUE, read_side};

/// No protection: the lower bound. Sections cost nothing here, nested or not.
pub struct BareLoad(BoxSlot<u64>);

read_side!(
    BareLoad,
    "bare-load",
    &'a AtomicPtr<u64>,
    Self(BoxSlot::new(Box::new(VALUE))),
    |this| &this.0.0,
    // SAFETY: the number is not freed before the slot, which is borrowed.
    |_this, pointer| unsafe { *pointer.load(Ordering::Acquire) }
);

pub struct InMutex(Mutex<Box<u64>>);

read_side!(
    InMutex,
    "std-mutex",
    MutexGuard<'a, Box<u64>>,
    Self(Mutex::new(Box::new(VALUE))),
    |this| this.0.lock().unwrap_or_else(PoisonError::into_inner),
    |_this, guard| ***guard
);

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

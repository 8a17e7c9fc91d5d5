//! A lock that is held while the process forks, so that the child finds consistent what it guards.
//!
//! Between the hooks of [`sys::fork`](super::fork), handlers of the program run in the forking thread, and may need
//! the lock: that thread has it. Signals are blocked under the lock: their handlers may fork.

use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::thread::block_signals;

/// See the [module](self).
#[derive(Debug)]
pub struct ForkLock<T> {
    lock: Mutex<()>,
    value: UnsafeCell<T>,
    /// The guard of the forking thread.
    held: UnsafeCell<Option<MutexGuard<'static, ()>>>,
    /// The [identity](this_thread) of the forking thread, or null.
    holder: AtomicPtr<()>,
    /// The forks of that thread: the handler of a signal that interrupts a fork may fork.
    forks: AtomicU32,
}

// SAFETY: the value is accessed under the lock; `held`, by the forking thread while it holds the lock.
unsafe impl<T: Send> Sync for ForkLock<T> {}

impl<T> ForkLock<T> {
    pub const fn new(value: T) -> Self {
        Self {
            lock: Mutex::new(()),
            value: UnsafeCell::new(value),
            held: UnsafeCell::new(None),
            holder: AtomicPtr::new(ptr::null_mut()),
            forks: AtomicU32::new(0),
        }
    }

    /// Calls `f` under the lock. `f` calls neither this lock nor the program.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let _blocked = block_signals();
        let _guard = (!self.is_held_here()).then(|| self.lock());
        // SAFETY: under the lock, and `f` does not get here again.
        f(unsafe { &mut *self.value.get() })
    }

    /// Takes the lock before a fork.
    pub fn hold(&'static self) {
        let _blocked = block_signals();
        if !self.is_held_here() {
            let guard = self.lock();
            // SAFETY: under the lock.
            unsafe { *self.held.get() = Some(guard) };
            self.holder.store(this_thread(), Relaxed);
        }
        self.forks.fetch_add(1, Relaxed);
    }

    /// Releases the lock after a fork, in the parent and in the child.
    pub fn release(&'static self) {
        let _blocked = block_signals();
        if self.is_held_here() && self.forks.fetch_sub(1, Relaxed) == 1 {
            self.holder.store(ptr::null_mut(), Relaxed);
            // SAFETY: this thread holds the lock.
            drop(unsafe { (*self.held.get()).take() });
        }
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        // Nothing under the lock panics.
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_held_here(&self) -> bool {
        // Relaxed, here and above: only this thread stores its identity, and the lock orders the rest.
        self.holder.load(Relaxed) == this_thread()
    }
}

/// Returns an address of the calling thread's own, which stays the same in the child, unlike its id.
fn this_thread() -> *mut () {
    std::thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| ptr::from_ref(place).cast_mut().cast())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The handler of a signal that interrupts a fork may fork.
    #[test]
    fn lock_is_held_until_the_outermost_of_nested_forks_is_over() {
        static LOCK: ForkLock<u32> = ForkLock::new(0);
        let is_free =
            || std::thread::scope(|s| s.spawn(|| LOCK.lock.try_lock().is_ok()).join().expect("no panic"));
        for _ in 0..2 {
            LOCK.hold();
            LOCK.hold();
            LOCK.with(|value| *value += 1);
            LOCK.release();
            assert!(!is_free(), "the outer fork still holds it");
            LOCK.with(|value| *value += 1);
            LOCK.release();
            assert!(is_free());
        }
        assert_eq!(LOCK.with(|value| *value), 4);
    }
}

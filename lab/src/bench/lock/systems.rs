//! The mutexes of the lock bench.

use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::mem;
use std::ptr;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

use stillpoint::lock::lab::{Policy, Raw};

use super::load::{self, Cell, Outcome, Work};
use crate::harness::report::OURS;

/// A lock around a number.
pub(crate) trait Lock: Sync {
    fn new() -> Self;

    /// Calls `f` with the lock held.
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R;
}

/// A lock, its name in the report, and how to measure it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct System {
    pub(crate) name: &'static str,
    pub(crate) run: fn(Cell, Work, Duration) -> anyhow::Result<Outcome>,
    /// Waiters do not sleep: with more threads than processors it stands still.
    pub(crate) only_spins: bool,
}

impl System {
    pub(crate) const fn new<L: Lock>(name: &'static str) -> Self {
        Self { name, run: load::run::<L>, only_spins: false }
    }

    const fn spinning<L: Lock>(name: &'static str) -> Self {
        Self { only_spins: true, ..Self::new::<L>(name) }
    }
}

pub(crate) const STD: System = System::new::<std::sync::Mutex<u64>>("std");

pub(super) const SYSTEMS: &[System] = &[
    System::new::<stillpoint::lock::Mutex<u64>>(OURS),
    STD,
    System::new::<parking_lot_12::Mutex<u64>>("parking_lot-0.12"),
    System::new::<parking_lot::Mutex<u64>>("parking_lot-0.13"),
    System::new::<usync::Mutex<u64>>("usync"),
    System::new::<Pthread<{ libc::PTHREAD_MUTEX_DEFAULT }>>("pthread"),
    #[cfg(target_env = "gnu")]
    System::new::<Pthread<{ libc::PTHREAD_MUTEX_ADAPTIVE_NP }>>("pthread-adaptive"),
    System::spinning::<Ticket>("ticket"),
    System::spinning::<Mcs>("mcs"),
];

impl Lock for stillpoint::lock::Mutex<u64> {
    fn new() -> Self {
        Self::new(0)
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        f(&mut self.lock())
    }
}

impl Lock for std::sync::Mutex<u64> {
    fn new() -> Self {
        Self::new(0)
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        f(&mut self.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Lock for parking_lot::Mutex<u64> {
    fn new() -> Self {
        Self::new(0)
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        f(&mut self.lock())
    }
}

impl Lock for parking_lot_12::Mutex<u64> {
    fn new() -> Self {
        Self::new(0)
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        f(&mut self.lock())
    }
}

impl Lock for usync::Mutex<u64> {
    fn new() -> Self {
        Self::new(0)
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        f(&mut self.lock())
    }
}

/// Our lock with other mechanisms or constants.
#[derive(Debug)]
pub(crate) struct Variant<P> {
    lock: Raw<P>,
    value: UnsafeCell<u64>,
}

// SAFETY: only the holder of the lock accesses the value.
unsafe impl<P: Policy> Sync for Variant<P> {}

impl<P: Policy> Lock for Variant<P> {
    fn new() -> Self {
        Self { lock: Raw::new(), value: UnsafeCell::new(0) }
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        self.lock.lock();
        // SAFETY: this thread holds the lock.
        let result = f(unsafe { &mut *self.value.get() });
        // SAFETY: as above.
        unsafe { self.lock.unlock() };
        result
    }
}

/// The C library's mutex, of the default kind or another. Boxed, as it must not move.
struct Pthread<const KIND: libc::c_int> {
    lock: Box<UnsafeCell<libc::pthread_mutex_t>>,
    value: UnsafeCell<u64>,
}

// SAFETY: only the holder of the lock accesses the value. which is made for several threads.
unsafe impl<const KIND: libc::c_int> Sync for Pthread<KIND> {}

impl<const KIND: libc::c_int> Lock for Pthread<KIND> {
    fn new() -> Self {
        let lock = Box::new(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        if KIND != libc::PTHREAD_MUTEX_DEFAULT {
            // SAFETY: attributes are plain data, initialized before use; the mutex is not in use yet.
            unsafe {
                let mut attributes: libc::pthread_mutexattr_t = mem::zeroed();
                libc::pthread_mutexattr_init(&mut attributes);
                libc::pthread_mutexattr_settype(&mut attributes, KIND);
                libc::pthread_mutex_init(lock.get(), &attributes);
                libc::pthread_mutexattr_destroy(&mut attributes);
            }
        }
        Self { lock, value: UnsafeCell::new(0) }
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        // SAFETY: the mutex is initialized, and does not move.
        unsafe { libc::pthread_mutex_lock(self.lock.get()) };
        // SAFETY: this thread holds the lock.
        let result = f(unsafe { &mut *self.value.get() });
        // SAFETY: as above.
        unsafe { libc::pthread_mutex_unlock(self.lock.get()) };
        result
    }
}

/// Strict order of arrival, all spin on one word.
struct Ticket {
    next: AtomicU32,
    served: AtomicU32,
    value: UnsafeCell<u64>,
}

// SAFETY: only the holder of the lock accesses the value.
unsafe impl Sync for Ticket {}

impl Lock for Ticket {
    fn new() -> Self {
        Self { next: AtomicU32::new(0), served: AtomicU32::new(0), value: UnsafeCell::new(0) }
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        while self.served.load(Ordering::Acquire) != ticket {
            spin_loop();
        }
        // SAFETY: it is this thread's turn.
        let result = f(unsafe { &mut *self.value.get() });
        self.served.store(ticket.wrapping_add(1), Ordering::Release);
        result
    }
}

/// Strict order of arrival, each spins on a word of its own (Mellor-Crummey and Scott, 1991).
struct Mcs {
    tail: AtomicPtr<Waiter>,
    value: UnsafeCell<u64>,
}

#[derive(Default)]
struct Waiter {
    next: AtomicPtr<Waiter>,
    waits: AtomicBool,
}

// SAFETY: only the holder of the lock accesses the value.
unsafe impl Sync for Mcs {}

impl Lock for Mcs {
    fn new() -> Self {
        Self { tail: AtomicPtr::new(ptr::null_mut()), value: UnsafeCell::new(0) }
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        let own = Waiter { next: AtomicPtr::default(), waits: AtomicBool::new(true) };
        let own_ptr = ptr::from_ref(&own).cast_mut();
        let before = self.tail.swap(own_ptr, Ordering::AcqRel);
        // SAFETY: the previous tail waits until it has handed the lock to this thread, through `next`.
        if let Some(before) = unsafe { before.as_ref() } {
            before.next.store(own_ptr, Ordering::Release);
            while own.waits.load(Ordering::Acquire) {
                spin_loop();
            }
        }
        // SAFETY: it is this thread's turn.
        let result = f(unsafe { &mut *self.value.get() });
        let none = ptr::null_mut();
        if self.tail.compare_exchange(own_ptr, none, Ordering::Release, Ordering::Relaxed).is_err() {
            let mut next = own.next.load(Ordering::Acquire);
            while next.is_null() {
                spin_loop();
                next = own.next.load(Ordering::Acquire);
            }
            // SAFETY: the next one waits until this store.
            unsafe { (*next).waits.store(false, Ordering::Release) };
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lock_excludes() {
        let cell = Cell::new(3, 100, 0);
        for system in SYSTEMS {
            let outcome = (system.run)(cell, Work::measure(), Duration::from_millis(20));
            let outcome = outcome.unwrap_or_else(|why| panic!("{}: {why}", system.name));
            assert_eq!(outcome.shares.len(), 3, "{}", system.name);
            assert!(outcome.shares.iter().all(|&share| share > 0), "{}", system.name);
        }
    }
}

//! Locks whose waiters never sleep.

use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use super::Lock;

/// Strict order of arrival, all spin on one word.
pub(crate) struct Ticket {
    next: AtomicU32,
    served: AtomicU32,
    value: UnsafeCell<u64>,
}

// SAFETY: a thread touches the value only while it holds the lock.
unsafe impl Sync for Ticket {}

impl Lock for Ticket {
    const NAME: &'static str = "ticket";

    fn new() -> Self {
        Self { next: AtomicU32::new(0), served: AtomicU32::new(0), value: UnsafeCell::new(0) }
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        while self.served.load(Ordering::Acquire) != ticket {
            spin_loop();
        }
        // SAFETY: this thread holds the lock.
        let result = f(unsafe { &mut *self.value.get() });
        self.served.store(ticket.wrapping_add(1), Ordering::Release);
        result
    }
}

/// Strict order of arrival, each spins on a word of its own (Mellor-Crummey and Scott, 1991).
pub(crate) struct Mcs {
    tail: AtomicPtr<Waiter>,
    value: UnsafeCell<u64>,
}

#[derive(Default)]
struct Waiter {
    next: AtomicPtr<Waiter>,
    waits: AtomicBool,
}

// SAFETY: a thread touches the value only while it holds the lock.
unsafe impl Sync for Mcs {}

impl Lock for Mcs {
    const NAME: &'static str = "mcs";

    fn new() -> Self {
        Self { tail: AtomicPtr::new(ptr::null_mut()), value: UnsafeCell::new(0) }
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        let own = Waiter { next: AtomicPtr::default(), waits: AtomicBool::new(true) };
        let own_ptr = ptr::from_ref(&own).cast_mut();
        let before = self.tail.swap(own_ptr, Ordering::AcqRel);
        // SAFETY: the thread of the former tail does not return before it has handed over to this one, through `next`.
        if let Some(before) = unsafe { before.as_ref() } {
            before.next.store(own_ptr, Ordering::Release);
            while own.waits.load(Ordering::Acquire) {
                spin_loop();
            }
        }
        // SAFETY: this thread holds the lock.
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

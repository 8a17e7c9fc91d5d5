//! A lock and an event, which allocate nothing and can be reset in the child of a fork.

use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering::*};

/// A lock of one word: 0 free, 1 held, 2 held and perhaps waited for.
#[derive(Debug)]
pub struct Lock(AtomicU32);

/// Releases the lock when dropped.
#[derive(Debug)]
pub struct Held<'a>(&'a Lock);

impl Lock {
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Acquires the lock until the result is dropped.
    pub fn hold(&self) -> Held<'_> {
        self.acquire();
        Held(self)
    }

    pub fn acquire(&self) {
        // Acquire, here and below: pairs with the Release in `release`.
        if self.0.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            while self.0.swap(2, Acquire) != 0 {
                wait(&self.0, 2, None);
            }
        }
    }

    /// Releases the lock, which the calling thread holds.
    pub fn release(&self) {
        // Release: publishes what the lock protects; pairs with the Acquires in `acquire`.
        if self.0.swap(0, Release) == 2 {
            wake(&self.0, 1);
        }
    }

    /// Makes the lock free. For the only thread of a process, as after a fork.
    pub fn reset_in_child(&self) {
        self.0.store(0, Relaxed);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Counts what threads wait for.
#[derive(Debug)]
pub struct Event(AtomicU32);

impl Event {
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Returns the count, to be taken before a condition is checked.
    pub fn count(&self) -> u32 {
        // Acquire: the condition; pairs with the Release in `notify`.
        self.0.load(Acquire)
    }

    /// Sleeps until the count is no longer `seen`, or for this many nanoseconds. May return early.
    pub fn wait(&self, seen: u32, ns: Option<u64>) {
        wait(&self.0, seen, ns);
    }

    /// Wakes all threads that wait, after the condition has changed.
    pub fn notify(&self) {
        // Release: publishes the condition; pairs with the Acquire in `count`.
        self.0.fetch_add(1, Release);
        wake(&self.0, i32::MAX);
    }

    /// Blocks until the condition holds, which a thread that calls [`notify`](Self::notify) establishes.
    pub fn wait_until(&self, condition: impl Fn() -> bool) {
        loop {
            let seen = self.count();
            if condition() {
                return;
            }
            self.wait(seen, None);
        }
    }
}

fn wait(word: &AtomicU32, expected: u32, ns: Option<u64>) {
    let limit = ns.map(|ns| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    });
    let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word and the time outlive the call. Every result means: check again.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, expected, limit) };
}

fn wake(word: &AtomicU32, count: i32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel does not access the memory of the word.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, count) };
}

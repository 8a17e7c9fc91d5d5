//! Callbacks whose memory is the caller's, and queues of them.

use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering::*};

/// A callback.
pub type Function = unsafe extern "C" fn(*mut RcuHead);

/// `struct rcu_head`: 16 bytes in the caller's memory.
#[repr(C)]
#[derive(Debug)]
pub struct RcuHead {
    next: *mut RcuHead,
    function: Option<Function>,
}

/// A queue of callbacks: a stack that is taken as a whole (Treiber, 1986). Appending never waits.
#[derive(Debug)]
pub struct Queue(AtomicPtr<RcuHead>);

impl Queue {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Appends a callback. Returns `true` if the queue was empty.
    ///
    /// # Safety
    ///
    /// `head` is valid, and the queue's until the callback is called.
    pub unsafe fn push(&self, head: *mut RcuHead, function: Function) -> bool {
        // SAFETY: the caller's contract.
        unsafe {
            (*head).function = Some(function);
            self.append(head, head)
        }
    }

    /// Appends a chain from the newest callback to the oldest.
    unsafe fn append(&self, newest: *mut RcuHead, oldest: *mut RcuHead) -> bool {
        let mut top = self.0.load(Relaxed);
        loop {
            // SAFETY: the chain is this thread's until the exchange.
            unsafe { (*oldest).next = top };
            // Release: publishes the chain, and what the caller has unpublished; pairs with the Acquire in `take`.
            match self.0.compare_exchange_weak(top, newest, Release, Relaxed) {
                Ok(_) => return top.is_null(),
                Err(now) => top = now,
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.load(Relaxed).is_null()
    }

    /// Takes all callbacks.
    pub fn take(&self) -> Batch {
        // Acquire: pairs with the Release in `append` of each callback, as read-modify-writes continue its release
        // sequence.
        let mut top = self.0.swap(ptr::null_mut(), Acquire);
        let mut first = ptr::null_mut();
        while !top.is_null() {
            // SAFETY: the callbacks are this thread's now.
            let next = unsafe { (*top).next };
            // SAFETY: as above.
            unsafe { (*top).next = first };
            first = top;
            top = next;
        }
        Batch(first)
    }

    /// Puts back what was taken, before all callbacks that have been appended since.
    pub(crate) fn put_back(&self, batch: Batch) {
        let (mut chain, mut next) = (ptr::null_mut(), batch.0);
        while !next.is_null() {
            let head: *mut RcuHead = next;
            // SAFETY: the callbacks are this thread's.
            unsafe {
                next = (*head).next;
                (*head).next = chain;
            }
            chain = head;
        }
        // Release: as in `append`.
        while self.0.compare_exchange(ptr::null_mut(), chain, Release, Relaxed).is_err() {
            // Acquire: as in `take`.
            let newest = self.0.swap(ptr::null_mut(), Acquire);
            // SAFETY: as there; only the taker, which is this thread, empties the queue.
            unsafe { (*oldest(newest)).next = chain };
            chain = newest;
        }
    }

    /// Moves all callbacks of `other` to the end of this queue.
    pub fn take_over(&self, other: &Queue) {
        // Acquire: as in `take`.
        let newest = other.0.swap(ptr::null_mut(), Acquire);
        if !newest.is_null() {
            // SAFETY: the callbacks are this thread's now.
            unsafe { self.append(newest, oldest(newest)) };
        }
    }
}

/// Returns the last callback of a chain, which is not empty.
unsafe fn oldest(newest: *mut RcuHead) -> *mut RcuHead {
    let mut head = newest;
    // SAFETY: the chain is the caller's.
    unsafe {
        while !(*head).next.is_null() {
            head = (*head).next;
        }
    }
    head
}

/// Callbacks from the oldest on.
#[derive(Debug)]
pub struct Batch(*mut RcuHead);

impl Batch {
    pub fn is_empty(&self) -> bool {
        self.0.is_null()
    }

    /// Calls the callbacks. A grace period has passed since they were taken.
    pub fn run(self) {
        let mut next = self.0;
        while !next.is_null() {
            let head = next;
            // SAFETY: valid until the callback is called, which may free it.
            unsafe {
                next = (*head).next;
                if let Some(function) = (*head).function {
                    function(head);
                }
            }
        }
    }
}

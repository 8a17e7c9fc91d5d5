//! Deferred functions of a handle, until they are handed to the collector's domain.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Functions that wait for the same grace period.
#[derive(Default)]
pub(crate) struct Bag {
    functions: Vec<Deferred>,
    /// The memory that they free.
    bytes: usize,
}

enum Deferred {
    Call(Box<dyn FnOnce()>),
    Drop { pointer: *mut (), drop_fn: unsafe fn(*mut ()) },
}

impl Bag {
    /// As many functions are handed over together.
    pub(crate) const CAPACITY: usize = 64;

    /// # Safety
    ///
    /// Any thread may call `f` after a grace period, however late.
    pub(crate) unsafe fn push_call<'a>(&mut self, f: impl FnOnce() + 'a) {
        let f: Box<dyn FnOnce() + 'a> = Box::new(f);
        // SAFETY: the caller's contract: what is borrowed for `'a` exists until `f` was called.
        let f = unsafe { mem::transmute::<Box<dyn FnOnce() + 'a>, Box<dyn FnOnce()>>(f) };
        self.functions.push(Deferred::Call(f));
    }

    /// # Safety
    ///
    /// Any thread may call `drop_fn` with `pointer` once after a grace period, however late.
    pub(crate) unsafe fn push_drop(&mut self, pointer: *mut (), bytes: usize, drop_fn: unsafe fn(*mut ())) {
        self.functions.push(Deferred::Drop { pointer, drop_fn });
        self.bytes += bytes;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.functions.len() >= Self::CAPACITY
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Calls the functions. One that panics does not keep the others from running.
    ///
    /// # Safety
    ///
    /// A grace period has ended since the last one was pushed.
    pub(crate) unsafe fn run(self) {
        for function in self.functions {
            let run = || match function {
                Deferred::Call(f) => f(),
                // SAFETY: the contracts of `push_drop` and `run`.
                Deferred::Drop { pointer, drop_fn } => unsafe { drop_fn(pointer) },
            };
            if let Err(payload) = catch_unwind(AssertUnwindSafe(run)) {
                // The panic hook has reported it. The destructor of the payload could panic too.
                mem::forget(payload);
            }
        }
    }
}

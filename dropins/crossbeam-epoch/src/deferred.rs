//! Deferred functions, and bags of them.

use std::mem::{self, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use stillpoint::Domain;
use stillpoint::rcu::GracePeriod;

use crate::fork;

/// A function that is called once: a closure of one word at most, or a larger one in a box.
pub(crate) struct Deferred {
    call: unsafe fn(Word),
    closure: Word,
}

type Word = MaybeUninit<*mut ()>;

// SAFETY: the contract of `new`.
unsafe impl Send for Deferred {}

impl Deferred {
    /// # Safety
    ///
    /// Any thread may call `f`, however late, and what it borrows exists until then.
    #[inline]
    pub(crate) unsafe fn new<F: FnOnce()>(f: F) -> Self {
        /// # Safety
        ///
        /// `closure` contains an `F`, which is not used again.
        unsafe fn call<F: FnOnce()>(closure: Word) {
            // SAFETY: the caller's contract; a word is large enough, and aligned.
            let f = unsafe { ptr::from_ref(&closure).cast::<F>().read() };
            f();
        }
        /// # Safety
        ///
        /// `closure` is a pointer to an `F` in a box, which is not used again.
        unsafe fn call_boxed<F: FnOnce()>(closure: Word) {
            // SAFETY: the caller's contract.
            let f = unsafe { Box::from_raw(closure.assume_init().cast::<F>()) };
            f();
        }
        if size_of::<F>() > size_of::<Word>() || align_of::<F>() > align_of::<Word>() {
            return Self { call: call_boxed::<F>, closure: Word::new(Box::into_raw(Box::new(f)).cast()) };
        }
        let mut closure = Word::uninit();
        // SAFETY: as in `call`.
        unsafe { ptr::from_mut(&mut closure).cast::<F>().write(f) };
        Self { call: call::<F>, closure }
    }

    /// # Safety
    ///
    /// The contract of `new`: not too early.
    unsafe fn call(self) {
        // SAFETY: `new` has stored the closure that `call` wants, and this is the only call.
        let call = || unsafe { (self.call)(self.closure) };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(call)) {
            // The panic hook has reported it. The destructor of the payload could panic too.
            mem::forget(payload);
        }
    }
}

/// Functions of one participant, in order. Dropped, it calls none.
#[derive(Default)]
pub(crate) struct Bag {
    functions: Vec<Deferred>,
}

impl Bag {
    const CAPACITY: usize = 64;

    #[inline]
    pub(crate) fn push(&mut self, function: Deferred) {
        if self.functions.capacity() == 0 {
            self.functions.reserve_exact(Self::CAPACITY);
        }
        self.functions.push(function);
    }

    /// Moves the functions of `other` behind its own.
    pub(crate) fn append(&mut self, mut other: Self) {
        if self.is_empty() {
            *self = other;
            return;
        }
        self.functions.append(&mut other.functions);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.functions.len() >= Self::CAPACITY
    }

    pub(crate) fn len(&self) -> usize {
        self.functions.len()
    }

    /// Calls the functions. One that panics does not keep the others from running. After one that forks, the child
    /// does not run the others: they are the parent's.
    ///
    /// # Safety
    ///
    /// No section is open that was when the last one was pushed.
    pub(crate) unsafe fn run(self) {
        let generation = fork::generation();
        for function in self.functions {
            if fork::generation() != generation {
                break;
            }
            // SAFETY: the caller's contract.
            unsafe { function.call() };
        }
    }
}

/// A bag, and the grace period that it waits for.
pub(crate) struct SealedBag<D: Domain> {
    cookie: GracePeriod<D>,
    bag: Bag,
}

impl<D: Domain> SealedBag<D> {
    pub(crate) fn new(bag: Bag, domain: D) -> Self {
        // Taken after the functions were pushed.
        Self { cookie: GracePeriod::now_in(domain), bag }
    }

    pub(crate) fn is_elapsed(&self) -> bool {
        self.cookie.is_elapsed()
    }

    pub(crate) fn into_inner(self) -> Bag {
        self.bag
    }
}

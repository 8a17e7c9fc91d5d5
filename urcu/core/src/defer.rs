//! `defer_rcu`: calls without a head. Each registered thread has a ring of them, which a callback empties.
//!
//! The child of a fork also makes the calls of the threads that it has lost. Their locks are free there, and their
//! rings are complete, except for a call that was just being queued.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering::*, compiler_fence};

use crate::flavor::{Flavor, synchronize};
use crate::queue::RcuHead;
use crate::sync::Lock;
use crate::workers;

/// A deferred function.
pub type Deferred = unsafe extern "C" fn(*mut c_void);

/// The number of calls of a thread that may be outstanding before the thread waits.
const ROOM: usize = 1024;

/// The second word of `InlinedReader::private`: the calls of a thread.
const OWN_CALLS: usize = 1;

/// The threads that are registered for `defer_rcu`.
#[derive(Debug)]
pub struct Deferring {
    /// Held during `rcu_defer_barrier` as well.
    lock: Lock,
    first: AtomicPtr<Calls>,
}

/// The outstanding calls of a thread.
#[derive(Debug)]
struct Calls {
    /// Protects the state.
    lock: Lock,
    /// Held by the thread that calls functions, so that they are called in order.
    running: Lock,
    state: UnsafeCell<State>,
    callback: UnsafeCell<RcuHead>,
    /// The next in `Deferring::first`.
    next: AtomicPtr<Calls>,
}

#[derive(Debug)]
struct State {
    ring: [(Option<Deferred>, *mut c_void); ROOM],
    /// The numbers of the next call to run, and of the next call to come.
    head: usize,
    tail: usize,
    /// The end of the calls that the callback may run.
    served: usize,
    /// The end of the calls that the barrier runs.
    barrier: usize,
    /// The callback is in a queue.
    is_queued: bool,
    /// The thread has unregistered.
    is_closed: bool,
}

impl Calls {
    /// Calls `f` with the state, under the lock.
    fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let _held = self.lock.hold();
        // SAFETY: under the lock, and `f` calls nothing that takes it.
        f(unsafe { &mut *self.state.get() })
    }

    /// Runs the calls before number `end`. A grace period has passed since they were deferred.
    fn run_until(&self, end: usize) {
        let _running = self.running.hold();
        loop {
            let call = self.with(|state| {
                let is_due = state.head != state.tail && (end.wrapping_sub(state.head) as isize) > 0;
                is_due.then(|| {
                    state.head = state.head.wrapping_add(1);
                    state.ring[state.head.wrapping_sub(1) % ROOM]
                })
            });
            match call {
                // SAFETY: the program's function, with the argument that belongs to it.
                Some((Some(function), argument)) => unsafe { function(argument) },
                Some((None, _)) => {}
                None => return,
            }
        }
    }

    /// Runs all calls that are there now.
    fn run_all<F: Flavor>(&self) {
        let (head, tail) = self.with(|state| (state.head, state.tail));
        if head != tail {
            synchronize::<F>();
            self.run_until(tail);
        }
    }
}

impl Deferring {
    pub(crate) const fn new() -> Self {
        Self { lock: Lock::new(), first: AtomicPtr::new(ptr::null_mut()) }
    }
}

/// Returns the calls of the calling thread, if it is registered for `defer_rcu`.
fn own_calls<'a, F: Flavor>() -> Option<&'a Calls> {
    let calls = F::own_if_any()?.private[OWN_CALLS].load(Relaxed).cast::<Calls>();
    // SAFETY: null, or valid until the thread unregisters.
    unsafe { calls.as_ref() }
}

/// `rcu_defer_register_thread`: 0, or a negative error number.
pub fn register<F: Flavor>() -> c_int {
    if own_calls::<F>().is_some() {
        return 0;
    }
    // SAFETY: zeros are a valid value: free locks, an empty ring, null pointers.
    let calls = unsafe { libc::calloc(1, size_of::<Calls>()).cast::<Calls>().as_ref() };
    let Some(calls) = calls else { return -libc::ENOMEM };
    let place = ptr::from_ref(calls).cast_mut();
    F::own().private[OWN_CALLS].store(place.cast(), Relaxed);
    let deferring = &F::domain().deferring;
    let _held = deferring.lock.hold();
    calls.next.store(deferring.first.load(Relaxed), Relaxed);
    // Release: the list is complete in the child of a fork.
    deferring.first.store(place, Release);
    0
}

/// `rcu_defer_unregister_thread`: runs what is left.
pub fn unregister<F: Flavor>() {
    let Some(calls) = own_calls::<F>() else { return };
    calls.run_all::<F>();
    F::own().private[OWN_CALLS].store(ptr::null_mut(), Relaxed);
    {
        let deferring = &F::domain().deferring;
        let _held = deferring.lock.hold();
        let mut link = &deferring.first;
        // SAFETY: the calls in the list are valid under the lock.
        while let Some(other) = unsafe { link.load(Relaxed).as_ref() } {
            if ptr::eq(other, calls) {
                link.store(calls.next.load(Relaxed), Relaxed);
                break;
            }
            link = &other.next;
        }
    }
    let is_queued = calls.with(|state| {
        state.is_closed = true;
        state.is_queued
    });
    if !is_queued {
        // SAFETY: in no list, and the callback is in no queue.
        unsafe { libc::free(ptr::from_ref(calls).cast_mut().cast()) };
    }
}

/// `defer_rcu`.
///
/// # Safety
///
/// `function` may be called with `argument` after a grace period, in any thread.
pub unsafe fn defer<F: Flavor>(function: Deferred, argument: *mut c_void) {
    let Some(calls) = own_calls::<F>() else {
        // The thread is not registered: this needs no memory.
        synchronize::<F>();
        // SAFETY: the caller's contract.
        return unsafe { function(argument) };
    };
    let must_queue = loop {
        let pushed = calls.with(|state| {
            if state.tail.wrapping_sub(state.head) == ROOM {
                return None;
            }
            state.ring[state.tail % ROOM] = (Some(function), argument);
            // The child of a fork in this moment must not have an old call under this number.
            compiler_fence(Release);
            state.tail = state.tail.wrapping_add(1);
            let must_queue = !state.is_queued;
            if must_queue {
                state.is_queued = true;
                state.served = state.tail;
            }
            Some(must_queue)
        });
        match pushed {
            Some(must_queue) => break must_queue,
            None => calls.run_all::<F>(),
        }
    };
    if must_queue {
        // SAFETY: the callback lives until it finds the ring empty and closed.
        unsafe { workers::call::<F>(calls.callback.get(), run_deferred::<F>) };
    }
}

/// Runs the calls that were deferred before the callback was queued.
unsafe extern "C" fn run_deferred<F: Flavor>(head: *mut RcuHead) {
    // SAFETY: the callback is part of the calls, which are valid.
    let calls = unsafe { &*head.byte_sub(offset_of!(Calls, callback)).cast::<Calls>() };
    calls.run_until(calls.with(|state| state.served));
    let (is_queued, is_closed) = calls.with(|state| {
        state.is_queued = state.head != state.tail;
        state.served = state.tail;
        (state.is_queued, state.is_closed)
    });
    if is_queued {
        // SAFETY: as in `defer`.
        unsafe { workers::call::<F>(head, run_deferred::<F>) };
    } else if is_closed {
        // SAFETY: in no list any more.
        unsafe { libc::free(ptr::from_ref(calls).cast_mut().cast()) };
    }
}

/// `rcu_defer_barrier_thread`: runs what the calling thread has deferred.
pub fn barrier_thread<F: Flavor>() {
    if let Some(calls) = own_calls::<F>() {
        calls.run_all::<F>();
    }
}

/// `rcu_defer_barrier`: runs what all threads have deferred.
pub fn barrier<F: Flavor>() {
    let deferring = &F::domain().deferring;
    let _held = deferring.lock.hold();
    let all = || {
        let mut next = deferring.first.load(Relaxed);
        core::iter::from_fn(move || {
            // SAFETY: the calls in the list are valid under the lock.
            let calls: &Calls = unsafe { next.as_ref() }?;
            next = calls.next.load(Relaxed);
            Some(calls)
        })
    };
    for calls in all() {
        calls.with(|state| state.barrier = state.tail);
    }
    synchronize::<F>();
    for calls in all() {
        calls.run_until(calls.with(|state| state.barrier));
    }
}

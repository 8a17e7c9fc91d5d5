//! `defer_rcu`: calls without a head. Each registered thread has a ring of them, which a thread of the library
//! empties.
//!
//! That thread is no worker of `call_rcu`: neither `rcu_barrier` nor a fork waits for a deferred function. In qsbr it
//! is not registered, so grace periods do not wait for it either. One lock is held while deferred functions are
//! called, by any thread, so they exclude each other.
//!
//! The child of a fork also makes the calls of the threads that it has lost, as soon as one of its threads uses
//! `defer_rcu`. Their locks are free there, and their rings are complete, except for a call that was just being
//! queued or made.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::*, compiler_fence};

use stillpoint::urcu::now;

use crate::flavor::{Flavor, offline, synchronize};
use crate::generation::generation;
use crate::lock::{Event, Lock, LockGuard};
use crate::worker::start_thread;

/// A deferred function.
pub type Deferred = unsafe extern "C" fn(*mut c_void);

/// The number of calls of a thread that may be outstanding before the thread waits. liburcu's rings have as many
/// words, and a call takes one of them at least.
const ROOM: usize = 4096;

/// How long the thread lets calls gather, and waits for a grace period of another caller, in nanoseconds.
const LINGER_NS: u64 = 1_000_000;

/// The second word of `InlinedReader::private`: the calls of a thread.
const OWN_CALLS: usize = 1;

/// A flavor with `defer_rcu`.
pub trait DeferRcu: Flavor {
    fn deferring() -> &'static Deferring;
}

/// The threads that are registered for `defer_rcu`, and the thread that makes their calls.
#[derive(Debug)]
pub struct Deferring {
    /// A thread holds it while it calls functions, and while calls leave the list.
    running: Lock,
    /// A thread holds it for a moment to change the list or to start the thread, perhaps with `running`.
    lock: Lock,
    /// Either lock protects the list for readers.
    first: AtomicPtr<Calls>,
    /// The [`generation`] in which the thread was started; 0 if it was not.
    started_in: AtomicU32,
    /// The thread sleeps, or is about to: `defer_rcu` wakes it.
    is_idle: AtomicBool,
    event: Event,
}

/// The outstanding calls of a thread.
#[derive(Debug)]
struct Calls {
    /// Protects the state.
    lock: Lock,
    state: UnsafeCell<State>,
    /// The next in `Deferring::first`.
    next: AtomicPtr<Calls>,
}

#[derive(Debug)]
struct State {
    ring: [(Option<Deferred>, *mut c_void); ROOM],
    /// The numbers of the next call to run, and of the next call to come.
    head: usize,
    tail: usize,
    /// The end of the calls that the library's thread makes next.
    served: usize,
    /// The end of the calls that the barrier makes.
    barrier: usize,
}

impl State {
    fn is_empty(&self) -> bool {
        self.head == self.tail
    }
}

impl Calls {
    /// Calls `f` with the state, under the lock.
    fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let _held = self.lock.hold();
        // SAFETY: under the lock, and `f` calls nothing that takes it.
        f(unsafe { &mut *self.state.get() })
    }

    /// Makes the calls before number `end`, under `Deferring::running`. A grace period has passed since they were
    /// deferred.
    fn run_until(&self, end: usize) {
        loop {
            let call = self.with(|state| {
                let is_due = !state.is_empty() && (end.wrapping_sub(state.head) as isize) > 0;
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

    /// Makes all calls that are there now, under `Deferring::running`.
    fn run_all<F: Flavor>(&self) {
        let (is_empty, tail) = self.with(|state| (state.is_empty(), state.tail));
        if !is_empty {
            synchronize::<F>();
            self.run_until(tail);
        }
    }
}

impl Deferring {
    pub const fn new() -> Self {
        Self {
            running: Lock::new(),
            lock: Lock::new(),
            first: AtomicPtr::new(ptr::null_mut()),
            started_in: AtomicU32::new(0),
            is_idle: AtomicBool::new(false),
            event: Event::new(),
        }
    }

    /// Waits for the functions that are being called, and keeps others from being called until the result is dropped.
    /// While it waits, the calling thread is offline, in qsbr: the thread that calls them may wait for a grace
    /// period.
    fn hold_running<F: Flavor>(&self) -> Option<LockGuard<'_>> {
        let mut held = None;
        offline::<F>(|_| held = Some(self.running.hold()));
        held
    }

    /// Returns the calls of all threads. Under either lock.
    fn all(&self) -> impl Iterator<Item = &Calls> {
        // Acquire: new calls, for a thread that holds `running` only; pairs with the Release in `register`.
        let mut next = self.first.load(Acquire);
        core::iter::from_fn(move || {
            // SAFETY: the calls in the list are valid under either lock.
            let calls: &Calls = unsafe { next.as_ref() }?;
            next = calls.next.load(Relaxed);
            Some(calls)
        })
    }

    /// Starts the thread, if it does not run. Returns an error number if that is impossible. Under `lock`.
    fn start<F: DeferRcu>(&self) -> Result<(), c_int> {
        extern "C" fn main<F: DeferRcu>(_: *mut c_void) -> *mut c_void {
            if !F::QSBR {
                F::register_thread();
            }
            run::<F>()
        }
        // Relaxed: the lock orders; `defer` only wants to know.
        if self.started_in.load(Relaxed) != generation() {
            let thread = start_thread(main::<F>, ptr::null_mut())?;
            // SAFETY: the thread is joinable, and no other thread joins or detaches it.
            unsafe { libc::pthread_detach(thread) };
            self.started_in.store(generation(), Relaxed);
        }
        Ok(())
    }
}

/// The life of the library's thread.
fn run<F: DeferRcu>() -> ! {
    let (deferring, engine) = (F::deferring(), F::engine());
    loop {
        let seen = deferring.event.count();
        // Relaxed: a thread that defers a call after this check sees it by the lock of its calls.
        deferring.is_idle.store(true, Relaxed);
        let is_empty = {
            let _held = deferring.lock.hold();
            deferring.all().fold(true, |is_empty, calls| {
                calls.with(|state| {
                    state.served = state.tail;
                    is_empty && state.is_empty()
                })
            })
        };
        if is_empty {
            deferring.event.wait(seen, None);
            continue;
        }
        deferring.is_idle.store(false, Relaxed);
        let cookie = engine.snapshot();
        deferring.event.wait(deferring.event.count(), Some(now() + LINGER_NS));
        if !engine.is_done(cookie) {
            offline::<F>(|own| engine.wait_for(own, cookie));
        }
        let _running = deferring.running.hold();
        for calls in deferring.all() {
            calls.run_until(calls.with(|state| state.served));
        }
    }
}

/// Returns the calls of the calling thread, if it is registered for `defer_rcu`.
fn own_calls<'a, F: Flavor>() -> Option<&'a Calls> {
    let calls = F::own_if_any()?.private[OWN_CALLS].load(Relaxed).cast::<Calls>();
    // SAFETY: null, or valid until the thread unregisters.
    unsafe { calls.as_ref() }
}

/// `rcu_defer_register_thread`: 0, or a negative error number.
pub fn register<F: DeferRcu>() -> c_int {
    if own_calls::<F>().is_some() {
        return 0;
    }
    // SAFETY: zeros are a valid value: a free lock, an empty ring, a null pointer.
    let calls = unsafe { libc::calloc(1, size_of::<Calls>()).cast::<Calls>().as_ref() };
    let Some(calls) = calls else { return -libc::ENOMEM };
    let place = ptr::from_ref(calls).cast_mut();
    let deferring = F::deferring();
    let _held = deferring.lock.hold();
    if let Err(error) = deferring.start::<F>() {
        // SAFETY: no other thread has seen it.
        unsafe { libc::free(place.cast()) };
        return -error;
    }
    F::own().private[OWN_CALLS].store(place.cast(), Relaxed);
    calls.next.store(deferring.first.load(Relaxed), Relaxed);
    // Release: the list is complete in the child of a fork; also pairs with the Acquire in `all`.
    deferring.first.store(place, Release);
    0
}

/// `rcu_defer_unregister_thread`: makes the calls that are left.
pub fn unregister<F: DeferRcu>() {
    let Some(calls) = own_calls::<F>() else { return };
    // A deferred function that defers another call finds a thread that is not registered.
    F::own().private[OWN_CALLS].store(ptr::null_mut(), Relaxed);
    let deferring = F::deferring();
    let _running = deferring.hold_running::<F>();
    calls.run_all::<F>();
    {
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
    // SAFETY: in no list any more, which other threads use under either lock.
    unsafe { libc::free(ptr::from_ref(calls).cast_mut().cast()) };
}

/// `defer_rcu`.
///
/// # Safety
///
/// `function` may be called with `argument` after a grace period, in any thread.
pub unsafe fn defer<F: DeferRcu>(function: Deferred, argument: *mut c_void) {
    let Some(calls) = own_calls::<F>() else {
        // The thread is not registered: this needs no memory.
        synchronize::<F>();
        // SAFETY: the caller's contract.
        return unsafe { function(argument) };
    };
    loop {
        let is_full = calls.with(|state| {
            let is_full = state.tail.wrapping_sub(state.head) == ROOM;
            if !is_full {
                state.ring[state.tail % ROOM] = (Some(function), argument);
                // The child of a fork in this moment must not have an old call under this number.
                compiler_fence(Release);
                state.tail = state.tail.wrapping_add(1);
            }
            is_full
        });
        if !is_full {
            break;
        }
        barrier_thread::<F>();
    }
    let deferring = F::deferring();
    // In the child of a fork. Without a thread, calls wait for a barrier, or for a full ring.
    if deferring.started_in.load(Relaxed) != generation() {
        let _held = deferring.lock.hold();
        _ = deferring.start::<F>();
    }
    // Relaxed: see `run`.
    if deferring.is_idle.load(Relaxed) {
        deferring.event.notify();
    }
}

/// `rcu_defer_barrier_thread`: makes the calls that the calling thread has deferred, and waits for those that are
/// being made.
pub fn barrier_thread<F: DeferRcu>() {
    if let Some(calls) = own_calls::<F>() {
        let _running = F::deferring().hold_running::<F>();
        calls.run_all::<F>();
    }
}

/// `rcu_defer_barrier`: makes the calls that all threads have deferred, and waits for those that are being made.
pub fn barrier<F: DeferRcu>() {
    let deferring = F::deferring();
    if deferring.first.load(Relaxed).is_null() {
        return;
    }
    let _running = deferring.hold_running::<F>();
    let is_empty = deferring.all().fold(true, |is_empty, calls| {
        calls.with(|state| {
            state.barrier = state.tail;
            is_empty && state.is_empty()
        })
    });
    if !is_empty {
        synchronize::<F>();
        // Threads that have registered since have no calls before number 0.
        for calls in deferring.all() {
            calls.run_until(calls.with(|state| state.barrier));
        }
    }
}

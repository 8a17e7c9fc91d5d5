//! An event that happens once. Threads block until it has happened, and futures are woken.
//!
//! The wakers of all events are in one map, by the address of the event, so that an event is one word, and the child of a
//! fork finds a lock that another thread held. A future sets `WAITERS` after it has left its waker; the thread that sets
//! `HAPPENED` wakes all if it finds that. Both are read-modify-writes of one word: the one that comes later sees the other.
//!
//! The address is only a key. If the event is gone when its waiters are taken, and there is another one in its place, the
//! futures of that are woken for nothing.

use core::mem;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use core::task::{Context, Poll, Waker};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::sync::block_on::{block_on, wake};
use crate::sync::{ForkSafe, now};
use crate::sys::fork::{ForkHook, register_for_fork};
use crate::sys::init_array;

const HAPPENED: u32 = 1;
const WAITERS: u32 = 2;

/// See the [module](self).
#[derive(Debug)]
pub struct Event(AtomicU32);

/// A future of an event: 0 while it has left no waker.
pub type WaiterId = u64;

type Wakers = BTreeMap<(usize, WaiterId), Waker>;

static WAKERS: ForkSafe<Mutex<Wakers>> = ForkSafe::new(Mutex::new(BTreeMap::new()));

/// Goes on in the child of a fork, whose futures may have the numbers that they got in the parent.
static LAST_ID: AtomicU64 = AtomicU64::new(0);

/// Futures that are polled in the child become waiters again.
static FORK: ForkHook = ForkHook::in_child(7, || {
    // SAFETY: the child has one thread, which is in no function of this module.
    unsafe { WAKERS.overwrite(Mutex::new(BTreeMap::new())) };
});
init_array!(register_for_fork(&FORK));

fn wakers() -> MutexGuard<'static, Wakers> {
    // Nothing panics under the lock: wakers are cloned, called and dropped outside.
    WAKERS.get().lock().unwrap_or_else(PoisonError::into_inner)
}

impl Event {
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Makes it happen, and wakes those that wait. The event may be gone when this returns.
    pub fn set(&self) {
        let address = self.address();
        // Release: publishes what precedes the event; pairs with the Acquires below.
        if self.0.fetch_or(HAPPENED, Release) & WAITERS == 0 {
            return;
        }
        let mut wakers = wakers();
        let mut own = wakers.split_off(&(address, 0));
        let mut others = own.split_off(&(address + 1, 0));
        wakers.append(&mut others);
        drop(wakers);
        own.into_values().for_each(wake);
    }

    pub fn has_happened(&self) -> bool {
        // Acquire: sees what precedes the event; pairs with the Release in `set`.
        self.0.load(Acquire) & HAPPENED != 0
    }

    /// Polls a future, which has the address of the event to itself until [`forget`](Self::forget) with its `id`.
    pub fn poll(&self, id: &mut WaiterId, context: &Context<'_>) -> Poll<()> {
        if self.has_happened() {
            return Poll::Ready(());
        }
        register_for_fork(&FORK);
        let waker = context.waker().clone();
        if *id == 0 {
            // Relaxed: only the number matters.
            *id = LAST_ID.fetch_add(1, Relaxed) + 1;
        }
        let old = wakers().insert((self.address(), *id), waker);
        drop(old);
        // Acquire: as above.
        if self.0.fetch_or(WAITERS, Acquire) & HAPPENED != 0 { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Forgets a future, which is not polled again.
    pub fn forget(&self, id: &mut WaiterId) {
        let id = mem::take(id);
        if id != 0 {
            let old = wakers().remove(&(self.address(), id));
            drop(old);
        }
    }

    /// Blocks until it happens, or for `timeout`. Returns `true` if it has happened.
    pub fn wait(&self, timeout: Option<Duration>) -> bool {
        // A time that the clock cannot express is never reached.
        let until = timeout
            .and_then(|timeout| u64::try_from(timeout.as_nanos()).ok())
            .and_then(|timeout| now().checked_add(timeout));
        let mut id = 0;
        let happened = block_on(until, |waker| self.poll(&mut id, &Context::from_waker(waker)).is_ready());
        self.forget(&mut id);
        happened
    }

    fn address(&self) -> usize {
        (&raw const self.0).addr()
    }
}

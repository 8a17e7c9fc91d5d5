//! An event that happens once. Threads block until it has happened, and futures are woken.
//!
//! Wakers are kept by the address of their event, in buckets, as the kernel keeps the waiters of a futex. So an event is one
//! word, and the child of a fork finds the locks that other threads held. A future sets `WAITERS` after it has left its
//! waker; the thread that sets `HAPPENED` wakes all if it finds that. Both are read-modify-writes of one word: the one that
//! comes later sees the other.
//!
//! The address is only a key. If the event is gone when its waiters are taken, and there is another one in its place, the
//! futures of that are woken for nothing.

use core::mem;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use core::task::{Context, Poll, Waker};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::free_words::FREE;
use crate::sync::block_on::{block_on, wake};
use crate::sync::ordered::OrderedMap;
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

/// A map, as a bucket may have many events, and an event many waiters: each costs their logarithm.
type Bucket = CachePadded<Mutex<OrderedMap<Waker>>>;

const BUCKETS: usize = 64;

/// The most waiters that [`Event::set`] removes before it lets other threads have the lock.
const BATCH: usize = 64;

static TABLE: ForkSafe<[Bucket; BUCKETS]> = ForkSafe::new(empty());

/// Goes on in the child of a fork, whose futures may have the numbers that they got in the parent.
static LAST_ID: AtomicU64 = AtomicU64::new(0);

/// Futures that are polled in the child become waiters again. Another thread of the parent may have been taking a word.
pub static FORK: ForkHook = ForkHook::in_child(7, || {
    // SAFETY: the child has one thread, which is in no function of these modules.
    unsafe {
        TABLE.overwrite(empty());
        FREE.reset_in_child();
    }
});
init_array!(register_for_fork(&FORK));

const fn empty() -> [Bucket; BUCKETS] {
    [const { CachePadded::new(Mutex::new(OrderedMap::new())) }; BUCKETS]
}

/// Locks the bucket of an event.
fn bucket(address: u64) -> MutexGuard<'static, OrderedMap<Waker>> {
    // Fibonacci hashing (Knuth): the top bits depend on all others, so it does not matter how far events are apart.
    let hash = address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - BUCKETS.ilog2());
    // Nothing panics under the lock: wakers are cloned, called and dropped outside.
    TABLE.get()[hash as usize].lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut own = Vec::new();
        let mut end = 0;
        while own.len() == end {
            end += BATCH;
            let mut bucket = bucket(address);
            while own.len() < end {
                let Some(key) = bucket.first_from((address, 0)).filter(|key| key.0 == address) else { break };
                own.extend(bucket.remove(key));
            }
        }
        own.into_iter().for_each(wake);
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
        let old = bucket(self.address()).insert((self.address(), *id), waker);
        drop(old);
        // Acquire: as above.
        if self.0.fetch_or(WAITERS, Acquire) & HAPPENED != 0 { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Forgets a future, which is not polled again.
    pub fn forget(&self, id: &mut WaiterId) {
        let id = mem::take(id);
        if id != 0 {
            let old = bucket(self.address()).remove((self.address(), id));
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

    fn address(&self) -> u64 {
        (&raw const self.0).addr() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::task::Wake;
    use support::deadline::deadline;

    #[test]
    fn set_does_not_wait_for_waiters_of_other_buckets() {
        let _running = deadline();
        let events = [const { Event::new() }; 2 * BUCKETS];
        let mut ids = [0; 2 * BUCKETS];
        let context = Context::from_waker(Waker::noop());
        for (event, id) in events.iter().zip(&mut ids) {
            assert!(event.poll(id, &context).is_pending());
        }
        let locked = bucket(events[0].address());
        let is_elsewhere = |event: &Event| {
            locked.first_from((event.address(), 0)).is_none_or(|(of, _)| of != event.address())
        };
        let (mut elsewhere, mut here) = (0, 0);
        for event in &events {
            if is_elsewhere(event) {
                event.set();
                elsewhere += 1;
            } else {
                here += 1;
            }
        }
        // Neighbours are not in one bucket.
        assert!(here * 4 < elsewhere, "{here} of {}", events.len());
        drop(locked);
        events.iter().zip(&mut ids).for_each(|(event, id)| event.forget(id));
        assert!(events.iter().all(|event| {
            let first = bucket(event.address()).first_from((event.address(), 0));
            first.is_none_or(|(of, _)| of != event.address())
        }));
    }

    #[test]
    fn set_wakes_all_waiters_and_those_of_no_other_event() {
        struct Count(AtomicU64);
        impl Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Relaxed);
            }
        }
        let _running = deadline();
        let events = [const { Event::new() }; 2 * BUCKETS];
        let counts = [(); 2 * BUCKETS].map(|()| Arc::new(Count(AtomicU64::new(0))));
        for (waiters, (event, count)) in events.iter().zip(&counts).enumerate() {
            let waker = Waker::from(count.clone());
            for _ in 0..3 * waiters {
                assert!(event.poll(&mut 0, &Context::from_waker(&waker)).is_pending());
            }
        }
        for (waiters, (event, count)) in events.iter().zip(&counts).enumerate() {
            assert_eq!(count.0.load(Relaxed), 0);
            event.set();
            assert_eq!(count.0.load(Relaxed), 3 * waiters as u64);
        }
    }
}

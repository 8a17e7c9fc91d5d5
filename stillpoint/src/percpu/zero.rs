//! Threads and futures that wait for a [`Count`] to be zero.
//!
//! Wakers are kept by the address of their count, in buckets, as the kernel keeps the waiters of a futex. So waiters
//! cost the count one bit, and the child of a fork finds the locks that other threads held. A future sets that bit
//! after it has left its waker, and the thread that finds zero wakes all if it finds the bit. Both are
//! read-modify-writes of one word: the one that comes later sees the other.
//!
//! The address is only a key. If the count is gone when its waiters are taken, and there is another one in its place,
//! the futures of that are woken for nothing.

use core::mem;
use core::sync::atomic::{AtomicU64, Ordering::*};
use core::task::{Context, Poll, Waker};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::count::{Count, FoundZero};
use crate::sync::block_on::{block_on, wake_all};
use crate::sync::ordered::OrderedMap;
use crate::sync::{CachePadded, ForkSafe, after};
use crate::sys::fork::{ForkHook, register_for_fork};
use crate::sys::init_array;

/// A future of a count: 0 while it has left no waker.
pub type WaiterId = u64;

/// A map, as a bucket may have many counts, and a count many waiters: each costs their logarithm.
type Bucket = CachePadded<Mutex<OrderedMap<Waker>>>;

const BUCKETS: usize = 64;

/// The most waiters that [`found`] removes before it lets other threads have the lock.
const BATCH: usize = 64;

static TABLE: ForkSafe<[Bucket; BUCKETS]> = ForkSafe::new(empty());

/// Goes on in the child of a fork, whose futures may have the numbers that they got in the parent.
static LAST_ID: AtomicU64 = AtomicU64::new(0);

/// Futures that are polled in the child become waiters again.
static FORK: ForkHook = ForkHook::in_child(8, || {
    // SAFETY: the child has one thread, which is in no function of this module.
    unsafe { TABLE.overwrite(empty()) };
});
init_array!(register_for_fork(&FORK));

const fn empty() -> [Bucket; BUCKETS] {
    [const { CachePadded::new(Mutex::new(OrderedMap::new())) }; BUCKETS]
}

/// Locks the bucket of a count.
fn bucket(address: u64) -> MutexGuard<'static, OrderedMap<Waker>> {
    // Fibonacci hashing (Knuth): the top bits depend on all others, so it does not matter how far counts are apart.
    let hash = address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - BUCKETS.ilog2());
    // Nothing panics under the lock: wakers are cloned, called and dropped outside.
    TABLE.get()[hash as usize].lock().unwrap_or_else(PoisonError::into_inner)
}

fn address(count: *const Count) -> u64 {
    count.addr() as u64
}

/// Wakes those that wait for the count, which may be gone, in the thread that has found zero.
#[cold]
pub fn found(zero: FoundZero, count: *const Count) {
    if !zero.is_awaited {
        return;
    }
    let address = address(count);
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
    wake_all(own);
}

/// Polls a future, which has the address of the count to itself until [`forget`] with its `id`.
pub fn poll(count: &Count, id: &mut WaiterId, context: &Context<'_>) -> Poll<()> {
    if count.is_zero() {
        return Poll::Ready(());
    }
    register_for_fork(&FORK);
    let waker = context.waker().clone();
    if *id == 0 {
        // Relaxed: only the number matters.
        *id = LAST_ID.fetch_add(1, Relaxed) + 1;
    }
    let address = address(count);
    let old = bucket(address).insert((address, *id), waker);
    drop(old);
    if count.set_awaited() { Poll::Ready(()) } else { Poll::Pending }
}

/// Forgets a future, which is not polled again.
pub fn forget(count: &Count, id: &mut WaiterId) {
    let id = mem::take(id);
    if id != 0 {
        let address = address(count);
        let old = bucket(address).remove((address, id));
        drop(old);
    }
}

/// Blocks until the count is zero, or for `timeout`. Returns `true` if it is zero.
pub fn wait(count: &Count, timeout: Option<Duration>) -> bool {
    let mut id = 0;
    let is_zero = block_on(timeout.and_then(after), |waker| {
        poll(count, &mut id, &Context::from_waker(waker)).is_ready()
    });
    forget(count, &mut id);
    is_zero
}

#[cfg(test)]
mod tests {
    use super::super::count::Killed;
    use super::*;
    use std::sync::Arc;
    use std::task::Wake;
    use support::deadline::deadline;

    /// Returns killed counts, with a reference each.
    fn counts() -> Vec<Count> {
        let counts: Vec<_> = (0..2 * BUCKETS).map(|_| Count::new()).collect();
        for count in &counts {
            count.get();
            assert_eq!(count.kill(false), Killed::Pending);
        }
        counts
    }

    fn put(count: &Count) {
        found(count.put().expect("it is the last"), count);
    }

    fn is_awaited(bucket: &OrderedMap<Waker>, count: &Count) -> bool {
        bucket.first_from((address(count), 0)).is_some_and(|(of, _)| of == address(count))
    }

    #[test]
    fn zero_does_not_wait_for_waiters_of_other_buckets() {
        let _running = deadline();
        let counts = counts();
        let mut ids = [0; 2 * BUCKETS];
        let context = Context::from_waker(Waker::noop());
        for (count, id) in counts.iter().zip(&mut ids) {
            assert!(poll(count, id, &context).is_pending());
        }
        let locked = bucket(address(&counts[0]));
        let (mut elsewhere, mut here) = (0, 0);
        for count in &counts {
            if is_awaited(&locked, count) {
                here += 1;
            } else {
                put(count);
                elsewhere += 1;
            }
        }
        // Neighbours are not in one bucket.
        assert!(here * 4 < elsewhere, "{here} of {}", counts.len());
        drop(locked);
        counts.iter().zip(&mut ids).for_each(|(count, id)| forget(count, id));
        assert!(counts.iter().all(|count| !is_awaited(&bucket(address(count)), count)));
    }

    #[test]
    fn zero_wakes_all_waiters_and_those_of_no_other_count() {
        struct Woken(AtomicU64);
        impl Wake for Woken {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Relaxed);
            }
        }
        let _running = deadline();
        let counts = counts();
        let woken = [(); 2 * BUCKETS].map(|()| Arc::new(Woken(AtomicU64::new(0))));
        for (waiters, (count, woken)) in counts.iter().zip(&woken).enumerate() {
            let waker = Waker::from(woken.clone());
            for _ in 0..3 * waiters {
                assert!(poll(count, &mut 0, &Context::from_waker(&waker)).is_pending());
            }
        }
        for (waiters, (count, woken)) in counts.iter().zip(&woken).enumerate() {
            assert_eq!(woken.0.load(Relaxed), 0);
            put(count);
            assert_eq!(woken.0.load(Relaxed), 3 * waiters as u64);
        }
    }
}

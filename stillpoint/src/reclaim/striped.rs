//! The queues of a domain whose readers are not tied to threads: a few, which threads share.
//!
//! A [`Queue`] has one owner: here, the thread that holds the lock of its stripe, for the time of a push. The worker
//! runs all callbacks, as no thread is the one that deferred them.
//!
//! A thread pushes to the same stripe all its life, whatever its CPU. So its callbacks run in order.

use core::cell::Cell;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crossbeam_utils::CachePadded;

use crate::reclaim::backlog::Amount;
use crate::reclaim::callback::Callback;
use crate::reclaim::queue::{PushAction, Queue};
use crate::sync::{ForkSafe, Mutex};

/// As many threads can push at a time.
const STRIPES: usize = if cfg!(loom) { 1 } else { 4 };

/// See the [module](self).
#[derive(Debug)]
pub struct StripedQueues([CachePadded<Stripe>; STRIPES]);

#[derive(Debug)]
struct Stripe {
    push_lock: ForkSafe<Mutex<()>>,
    queue: Queue,
}

/// Returns the number of the calling thread's stripe. Threads get them in turn, as they first push.
fn own_stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        // Without a destructor, so that late destructors may push.
        static OWN: Cell<Option<usize>> = const { Cell::new(None) };
    }
    OWN.with(|own| {
        own.get().unwrap_or_else(|| {
            // Relaxed: only the number matters.
            let number = NEXT.fetch_add(1, Relaxed) % STRIPES;
            own.set(Some(number));
            number
        })
    })
}

impl StripedQueues {
    pub const COUNT: usize = STRIPES;

    pub fn new() -> Self {
        Self(core::array::from_fn(|_| {
            CachePadded::new(Stripe { push_lock: ForkSafe::new(Mutex::new(())), queue: Queue::new() })
        }))
    }

    pub fn get(&self, index: usize) -> &Queue {
        &self.0[index].queue
    }

    /// Pushes to the calling thread's queue. Returns that queue, and what must be reported to the backlog, if it is time
    /// for that.
    pub fn push(&self, callback: Callback, lazy: bool) -> (&Queue, Option<[Amount; 2]>) {
        let Stripe { push_lock, queue } = &*self.0[own_stripe()];
        // No code of the program runs under the lock.
        let _guard = push_lock.get().lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // SAFETY: the holder of the lock is the queue's owner.
        let action = unsafe { queue.push(callback.for_worker(), lazy) };
        (queue, (action == PushAction::Flush).then(|| queue.take_unreported()))
    }

    /// Makes lazy callbacks urgent. Returns what must be reported to the backlog.
    pub fn flush(&self) -> [[Amount; 2]; STRIPES] {
        self.0.each_ref().map(|stripe| {
            let _guard = stripe.push_lock.get().lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            stripe.queue.expedite();
            stripe.queue.take_unreported()
        })
    }

    /// Forgets all callbacks, which the parent runs.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork, and not inside another function of this or
    /// of the queues.
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self) {
        for stripe in &self.0 {
            // SAFETY: the caller's contract.
            unsafe {
                stripe.push_lock.overwrite(Mutex::new(()));
                stripe.queue.reset_in_child();
            }
        }
    }
}

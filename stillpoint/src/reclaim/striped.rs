//! The queues of a domain whose readers are nobody's: a few, which threads share.
//!
//! [`Queue`] wants one owner. Here that is whoever holds the line's lock, for the time of an append. Entries are never local:
//! no thread is the one that deferred them, so the worker runs them all.

use crossbeam_utils::CachePadded;

use crate::reclaim::backlog::Amount;
use crate::reclaim::callback::Callback;
use crate::reclaim::queue::{PushAction, Queue};
use crate::reclaim::worker::CallbackQueues;
use crate::sync::{ForkSafe, Mutex};

/// Threads on as many CPUs can append at a time.
const STRIPES: usize = if cfg!(loom) { 1 } else { 4 };

/// See the [module](self).
#[derive(Debug)]
pub struct StripedQueues([CachePadded<Stripe>; STRIPES]);

#[derive(Debug)]
struct Stripe {
    /// Who holds it owns the queue.
    push_lock: ForkSafe<Mutex<()>>,
    queue: Queue,
}

impl CallbackQueues for StripedQueues {
    fn len(&self) -> usize {
        STRIPES
    }

    fn queue(&self, index: usize) -> &Queue {
        &self.0[index].queue
    }
}

impl StripedQueues {
    pub fn new() -> Self {
        Self(core::array::from_fn(|_| {
            CachePadded::new(Stripe { push_lock: ForkSafe::new(Mutex::new(())), queue: Queue::new() })
        }))
    }

    /// Appends to the queue of `cpu`; that queue, and what the domain is to be told of it, if it is time for that.
    pub fn push(&self, cpu: usize, entry: Callback, lazy: bool) -> (&Queue, Option<[Amount; 2]>) {
        let Stripe { push_lock, queue } = &*self.0[cpu % STRIPES];
        // No code of the program runs under the lock.
        let _guard = push_lock.get().lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // SAFETY: the holder of the lock is the queue's owner.
        let chores = unsafe { queue.push(entry.for_anybody(), lazy) };
        (queue, (chores == PushAction::Flush).then(|| queue.report()))
    }

    /// Forgets all entries, which are the parent's.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork, and not inside another function of this or of the
    /// queues.
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self) {
        for line in &self.0 {
            // SAFETY: the caller's contract.
            unsafe {
                line.push_lock.overwrite(Mutex::new(()));
                line.queue.reset_in_child();
            }
        }
    }
}

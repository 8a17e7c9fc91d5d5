//! The queues of a domain whose readers are not tied to threads: a few, which threads share.
//!
//! A [`Queue`] has one owner: here, the thread that holds the lock of its stripe, for the time of a push. The worker
//! runs all callbacks, as no thread is the one that deferred them.
//!
//! A thread pushes to the same stripe all its life, whatever its CPU. So its callbacks run in order.
//!
//! The first push allocates the stripes: of many domains, most are only read and waited for.

use core::array;
use core::cell::Cell;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::reclaim::amount::Reported;
use crate::reclaim::callback::Callback;
use crate::reclaim::queue::{PushAction, Queue};
use crate::sync::{CachePadded, ForkSafe, LazyBox, Mutex};

/// As many threads can push at a time.
const STRIPES: usize = 4;

type Stripes = [CachePadded<Stripe>; STRIPES];

/// See the [module](self).
#[derive(Debug)]
pub struct StripedQueues(LazyBox<Stripes>);

#[derive(Debug)]
struct Stripe {
    push_lock: ForkSafe<Mutex<()>>,
    queue: Queue,
}

impl Stripe {
    fn all() -> Stripes {
        array::from_fn(|_| {
            CachePadded::new(Self { push_lock: ForkSafe::new(Mutex::new(())), queue: Queue::new() })
        })
    }
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
    pub const fn new() -> Self {
        Self(LazyBox::new())
    }

    /// Returns the stripes, or none before the first push.
    fn stripes(&self) -> &[CachePadded<Stripe>] {
        self.0.get().map_or(&[], |stripes| stripes)
    }

    /// Returns the number of queues. It does not decrease.
    pub fn count(&self) -> usize {
        self.stripes().len()
    }

    pub fn get(&self, index: usize) -> &Queue {
        &self.stripes()[index].queue
    }

    /// Pushes to the calling thread's queue, and reports to the backlog if it is time for that. Returns that queue,
    /// and `true` if it has, unless the caller only pushes.
    pub fn push(&self, callback: Callback, reported: &Reported) -> (&Queue, bool) {
        let stripes = self.0.get_or_make(Stripe::all);
        let Stripe { push_lock, queue } = &*stripes[own_stripe()];
        // No code of the program runs under the lock.
        let _guard = push_lock.get().lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // SAFETY: the holder of the lock is the queue's owner.
        let action = unsafe { queue.push(callback.for_worker()) };
        let flushes = action == PushAction::Flush;
        // The worker runs all callbacks of these queues, and reports them.
        if flushes || action == PushAction::Report {
            queue.report_pushed(reported);
        }
        if flushes {
            queue.flushes();
        }
        (queue, flushes)
    }

    /// Reports all that was pushed.
    pub fn report(&self, reported: &Reported) {
        for stripe in self.stripes() {
            let _guard = stripe.push_lock.get().lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            stripe.queue.report(reported);
        }
    }

    /// Forgets all callbacks, which the parent runs.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork, and not inside another function of this or
    /// of the queues.
    pub unsafe fn reset_in_child(&self) {
        for stripe in self.stripes() {
            // SAFETY: the caller's contract.
            unsafe {
                stripe.push_lock.overwrite(Mutex::new(()));
                stripe.queue.reset_in_child();
            }
        }
    }
}

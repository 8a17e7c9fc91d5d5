//! A wait in parts, for the package in `dropins/pthread/`: there a thread sleeps in code that its cancellation may
//! unwind. No stable interface.

use core::ptr;
use core::sync::atomic::AtomicU32;

use super::Condvar;
use super::list::WaitList;
use crate::lock::mutex::polling;
use crate::lock::nodes::table;
use crate::lock::waiter;

impl Condvar {
    /// Appends the caller to the waiters, whatever mutex it holds. Returns the number of its node. If it has none, it
    /// is not notified: returns 0, and for how many nanoseconds it is to sleep.
    ///
    /// # Safety
    ///
    /// The caller calls [`end_wait`](Self::end_wait) with the result, in this thread, before it ends.
    #[doc(hidden)]
    pub unsafe fn begin_wait(&self) -> (u32, u64) {
        // Programs may wait with different mutexes, one after the other. Any number stands for them.
        match self.start_wait(1) {
            Some(id) if id != 0 => (id, 0),
            _ => (0, polling::begin_sleep()),
        }
    }

    /// Returns the word on which the waiter with this node sleeps, with the private futex, while it is
    /// [`WAITING_PARKED`](crate::lock::nodes::WAITING_PARKED). Spins for the notification first. The caller has
    /// released the mutex.
    #[doc(hidden)]
    pub fn wait_word(id: u32) -> *const AtomicU32 {
        if id != 0 {
            waiter::with(|waiter| waiter.patience.spin(|ns| WaitList::spin(id, ns)));
            WaitList::announce_sleep(id);
        }
        ptr::from_ref(&*table().node(id).state)
    }

    /// Removes the caller from the waiters. Returns `true` if it has been notified.
    ///
    /// # Safety
    ///
    /// `id` is what the calling thread's last [`begin_wait`](Self::begin_wait) of this variable has returned.
    #[doc(hidden)]
    pub unsafe fn end_wait(&self, id: u32) -> bool {
        if id == 0 {
            polling::end_sleep();
            return false;
        }
        let notified = !self.waiters.leave(id);
        waiter::with(|waiter| waiter.finish_wait(id));
        notified
    }
}

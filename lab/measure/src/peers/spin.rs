//! Locks whose waiters never sleep, and get the lock in the order of their arrival: a ticket lock, where all spin on
//! one word, and an MCS lock, where each spins on a word of its own (Mellor-Crummey and Scott, 1991).

use mcslock::raw::MutexNode;

use super::{Lock, lock};

pub type Ticket = spin::mutex::TicketMutex<u64>;
pub type Mcs = mcslock::raw::spins::Mutex<u64>;

lock!(Ticket, "ticket");

impl Lock for Mcs {
    const NAME: &'static str = "mcs";

    fn new() -> Self {
        Self::new(0)
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R {
        self.lock_with_then(&mut MutexNode::new(), f)
    }
}

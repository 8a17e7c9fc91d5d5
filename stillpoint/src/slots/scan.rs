//! What a writer does with a pointer that it has taken out of a cell: it pays the guards that have it.
//!
//! The caller's grace period has ended: every load that returned the pointer from that cell has filled its slot, and
//! the scan sees that, or what the slot's guard or a later one did afterwards. No load from the cell returns the
//! pointer any more, unless it is published again, which is another writer's reference.
//!
//! # The scan
//!
//! ```text
//! first look   no slot has the pointer, as in most cases: nothing to pay
//! lock         other writers that pay wait
//! pay          a reference for each slot that has the pointer and no payment
//! heavy fence
//! last look    takes back what was paid for guards that have been dropped
//! ```
//!
//! A guard that has the pointer, and is not found, was loaded from another cell: the writer that takes it out of
//! *that* cell pays for it. It does no harm to pay such a guard: the reference is to the value that it has.
//!
//! A guard that was paid by one writer may be found by the next, which has the same pointer from another cell: it is
//! paid, and left alone. If it is being dropped, its reference may be taken by this writer instead: then the guard
//! finds none.
//!
//! # Invariants
//!
//! 1. Under the lock, `paid` is set by the holder only; without it, it is never set.
//! 2. After the last look, each slot that has the pointer has a payment that its guard will find: the guard's light
//!    fence comes after the heavy one, or the last look would not have found the pointer ([`super::slot`]).

use super::protected::LastCollection;
use super::record::Records;
use super::slot::Slot;
use crate::fence::heavy;
use crate::sync::{ForkSafe, Mutex, const_unless_loom, step};

/// The slots of guards of counted pointers.
#[derive(Debug)]
pub struct GuardSlots {
    /// What the slots have, for threads that release what was replaced.
    last: LastCollection,
    /// Held by a thread that pays.
    paying: ForkSafe<Mutex<()>>,
}

impl GuardSlots {
    const_unless_loom! {
        pub fn new(records: &'static Records) -> Self {
            Self { last: LastCollection::new(records), paying: ForkSafe::new(Mutex::new(())) }
        }
    }

    /// Returns `false` if no guard has `address`, which was taken out of a cell before a grace period that is one of
    /// the `completed` first. Threads that ask after the same grace periods share a look at the slots.
    pub fn may_have(&self, address: *mut (), completed: u64) -> bool {
        self.last.protected(completed).contains(address.addr())
    }

    /// Pays the guards that protect `address`, which is not null. `increment` adds a reference to the value: it must
    /// not panic, nor call this. Returns the number of references that the caller must release: those for guards that
    /// were dropped in the meantime.
    ///
    /// Blocks for a heavy fence if there is such a guard, and while another thread pays.
    pub fn pay(&self, address: *mut (), increment: impl Fn()) -> usize {
        let slots = || self.last.records().slots();
        if !slots().any(|slot| slot.protects(address)) {
            return 0;
        }
        // Nothing under the lock panics.
        let _lock = self.paying.get().lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut paid: Vec<&Slot> = Vec::new();
        for slot in slots().filter(|slot| slot.protects(address) && !slot.is_paid(address)) {
            increment();
            slot.pay(address);
            paid.push(slot);
        }
        step!("no-fence-after-payment", heavy());
        paid.into_iter().filter(|slot| !slot.protects(address) && slot.take(address)).count()
    }

    /// Forgets what threads were doing that the child of a fork does not have. The caller resets the slots.
    ///
    /// # Safety
    ///
    /// The calling thread is the only one in the process, as after a fork, and not inside a function of this.
    #[cfg(not(loom))]
    pub unsafe fn reset_in_child(&self) {
        // SAFETY: the caller's contract.
        unsafe {
            step!("payer-kept-in-child", self.paying.overwrite(Mutex::new(())));
            step!("collection-kept-in-child", self.last.reset_in_child());
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use core::mem;
    use core::ptr::without_provenance_mut;

    use super::*;

    /// A thread is gone that pays, and one that looked at the slots before the fork.
    /// Refutes: payer-kept-in-child, collection-kept-in-child
    #[test]
    fn child_pays_and_looks_at_slots_anew() {
        let records = Box::leak(Box::new(Records::new(0)));
        let (guards, value) = (GuardSlots::new(records), without_provenance_mut(16));
        assert!(!guards.may_have(value, 1));
        mem::forget(guards.paying.get().lock());
        records.of(records.claim().expect("memory")).slots()[0].fill(value);
        // SAFETY: no other thread has these.
        unsafe { guards.reset_in_child() };
        assert!(guards.may_have(value, 1));
        assert!(guards.paying.get().try_lock().is_ok());
        assert_eq!(guards.pay(value, || ()), 0);
    }
}

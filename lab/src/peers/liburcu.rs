//! liburcu's memb flavor. The measured loops are C (`peers/liburcu.c`), because its readers are inline C functions.

use std::marker::PhantomData;
use std::time::Duration;

mod ffi {
    use super::Counters;

    unsafe extern "C" {
        pub(super) safe fn lab_urcu_register();
        pub(super) safe fn lab_urcu_unregister();
        pub(super) safe fn lab_urcu_synchronize();
        pub(super) safe fn lab_urcu_counters() -> Counters;
        pub(super) fn lab_urcu_read(slot: *const *const u64, pairs: u32) -> u64;
        pub(super) fn lab_urcu_read_nested(slot: *const *const u64, pairs: u32) -> u64;
        pub(super) fn lab_urcu_long_section(slot: *const *const u64, ns: u64) -> u64;
    }
}

/// What liburcu did since the program started.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counters {
    /// Grace periods driven while a thread was registered.
    pub(crate) grace_periods: u64,
    /// Calls of `membarrier`.
    pub(crate) membarriers: u64,
    /// Calls of `FUTEX_WAKE`: by readers that let a grace period go on, and by leaders for the callers they served.
    pub(crate) wakes: u64,
}

/// Reads the counters.
pub(crate) fn counters() -> Counters {
    ffi::lab_urcu_counters()
}

/// `synchronize_rcu()`. The calling thread must not hold a section.
pub(crate) fn synchronize() {
    ffi::lab_urcu_synchronize();
}

/// A pointer that readers follow inside a section.
#[derive(Debug)]
pub(crate) struct Slot(Box<*const u64>);

// SAFETY: the slot and the number behind it are never written after `new`.
unsafe impl Send for Slot {}
// SAFETY: as for `Send`.
unsafe impl Sync for Slot {}

impl Slot {
    /// A slot that points at `value`.
    pub(crate) fn new(value: u64) -> Self {
        Self(Box::new(Box::into_raw(Box::new(value))))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `Box::into_raw` in `new`, and readers borrow the slot.
        drop(unsafe { Box::from_raw(self.0.cast_mut()) });
    }
}

/// The calling thread as a registered reader, until dropped.
#[derive(Debug)]
pub(crate) struct Reader(PhantomData<*const ()>);

impl Reader {
    /// Registers the calling thread, which must not be registered already.
    pub(crate) fn register() -> Self {
        ffi::lab_urcu_register();
        Self(PhantomData)
    }

    /// Opens, reads and closes `pairs` sections, one after the other.
    pub(crate) fn read(&self, slot: &Slot, pairs: u32) -> u64 {
        // SAFETY: the thread is registered, as `self` is not `Send`; the slot points at a live number.
        unsafe { ffi::lab_urcu_read(&raw const *slot.0, pairs) }
    }

    /// Like [`Reader::read`], with a second section inside each.
    pub(crate) fn read_nested(&self, slot: &Slot, pairs: u32) -> u64 {
        // SAFETY: as in `read`.
        unsafe { ffi::lab_urcu_read_nested(&raw const *slot.0, pairs) }
    }

    /// One section that lasts for `length`, spent looking at the clock.
    pub(crate) fn long_section(&self, slot: &Slot, length: Duration) -> u64 {
        // SAFETY: as in `read`.
        unsafe { ffi::lab_urcu_long_section(&raw const *slot.0, length.as_nanos() as u64) }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        ffi::lab_urcu_unregister();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_counts_as_a_grace_period_only_if_it_issued_barriers() {
        // Nothing is registered: there is nothing to wait for.
        let before = counters();
        synchronize();
        let after = counters();
        assert_eq!(after.grace_periods - before.grace_periods, 0);
        assert_eq!(after.membarriers - before.membarriers, 0);

        let slot = Slot::new(7);
        let reader = Reader::register();
        assert_eq!(reader.read(&slot, 10), 70);
        assert_eq!(reader.read_nested(&slot, 10), 70);
        assert_eq!(reader.long_section(&slot, Duration::from_micros(1)), 7);

        let before = counters();
        synchronize();
        let after = counters();
        if after.membarriers == before.membarriers {
            // membarrier is denied here, and liburcu uses fences that cannot be counted.
            return;
        }
        assert_eq!(after.grace_periods - before.grace_periods, 1);
        assert_eq!(after.membarriers - before.membarriers, 2);
        assert_eq!(after.wakes - before.wakes, 0);
    }
}

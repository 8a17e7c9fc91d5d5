//! Hazard pointers of other languages, without a stable interface.

use core::ptr;

use crate::readers::sections::reader::Reader;
use crate::slots::pointers::OwnSlot;
use crate::slots::slot::Slot;

/// A hazard pointer, or none: two words, of which the first points to its slot.
#[derive(Debug)]
#[repr(C)]
pub struct RawHazardPointer {
    slot: *const Slot,
    record: *const Reader,
}

impl RawHazardPointer {
    /// Makes a hazard pointer. Returns `None` if there is no memory.
    pub fn new() -> Option<Self> {
        let (slot, record) = OwnSlot::take()?.into_raw();
        Some(Self { slot, record })
    }

    /// Gives the hazard pointer back, if it is one.
    ///
    /// # Safety
    ///
    /// The words come from [`new`](Self::new), or the first is null. Another copy of them is not used again.
    pub unsafe fn destroy(&mut self) {
        if !self.slot.is_null() {
            // SAFETY: the caller's contract.
            unsafe { OwnSlot::from_raw(self.slot, self.record) }.give_back();
            self.slot = ptr::null();
        }
    }
}

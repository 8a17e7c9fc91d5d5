//! The slots of hazard pointers.

use super::record::Place;
use super::slot::Slot;
use super::thread::slot_table;
use crate::readers::sections::reader::Reader;

slot_table!(6);

/// A slot that belongs to one hazard pointer.
#[derive(Debug, Clone, Copy)]
pub struct OwnSlot {
    pub slot: &'static Slot,
    /// The record of the slot, if it is of no thread: that of a hazard pointer that was made by a thread without free
    /// slots.
    record: Option<&'static Reader>,
}

impl OwnSlot {
    /// Takes a slot of the calling thread. Returns `None` if there is no memory for one.
    #[inline]
    pub fn take() -> Option<Self> {
        let Some(slot) = free_slot() else { return Self::take_record() };
        slot.reserve();
        Some(Self { slot, record: None })
    }

    /// Takes a record, and its first slot that is free.
    #[cold]
    fn take_record() -> Option<Self> {
        let reader = TABLE.claim()?;
        let Some((_, slot)) = TABLE.records().attached_to(reader).find_free(Place::FIRST) else {
            TABLE.release(reader);
            return None;
        };
        slot.reserve();
        Some(Self { slot, record: Some(reader) })
    }

    /// Returns the parts.
    #[cfg(feature = "capi")]
    pub fn into_raw(self) -> (*const Slot, *const Reader) {
        (self.slot, self.record.map_or(core::ptr::null(), core::ptr::from_ref))
    }

    /// # Safety
    ///
    /// The parts come from [`into_raw`](Self::into_raw), and are not used again.
    #[cfg(feature = "capi")]
    pub unsafe fn from_raw(slot: *const Slot, record: *const Reader) -> Self {
        // SAFETY: the caller's contract; slots and readers are never freed.
        unsafe { Self { slot: &*slot, record: record.as_ref() } }
    }

    /// Gives the slot back, in any thread. It is not used again.
    #[inline]
    pub fn give_back(self) {
        self.slot.give_back();
        if let Some(reader) = self.record {
            TABLE.release(reader);
        }
    }
}

//! The slots of hazard pointers.

use core::ffi::c_void;

use super::record::Place;
use super::slot::Slot;
use super::thread::{SlotTable, ThreadSlots};
use crate::readers::sections::reader::Reader;
use crate::sys::fork::{ForkHook, register_for_fork};
use crate::sys::init_array;

pub static TABLE: SlotTable = SlotTable::new(exit, &FORK);

std::thread_local! {
    static THREAD: ThreadSlots = const { ThreadSlots::new() };
}

#[inline(always)]
fn with_thread<R>(f: impl FnOnce(&ThreadSlots) -> R) -> R {
    match THREAD.try_with(f) {
        Ok(result) => result,
        // There is no destructor.
        Err(_) => unreachable!(),
    }
}

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
        let Some(slot) = with_thread(|thread| thread.free(&TABLE)) else { return Self::take_record() };
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

/// The destructor of a thread with a record. Hazard pointers that the thread has made may outlive it.
///
/// # Safety
///
/// `reader` was armed by [`SlotTable`].
unsafe extern "C" fn exit(reader: *mut c_void) {
    with_thread(|thread| thread.exit(&TABLE, reader));
}

static FORK: ForkHook = ForkHook::in_child(6, in_child);

init_array!(register_for_fork(&FORK));

/// # Safety
///
/// See [`ForkHook::child`].
unsafe fn in_child() {
    // SAFETY: the caller's contract.
    with_thread(|thread| unsafe { thread.reset_in_child(&TABLE) });
}

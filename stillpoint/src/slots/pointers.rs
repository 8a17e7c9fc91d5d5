//! The slots of hazard pointers.

use super::slot::Slot;
use super::thread::slot_table;

// A hazard pointer cannot do without a slot.
slot_table!(6, u64::MAX);

/// Takes a slot for a hazard pointer, which any thread may [give back](Slot::give_back). Returns `None` if there is
/// no memory for one.
#[inline]
pub fn take() -> Option<&'static Slot> {
    let slot = take_slot()?;
    slot.reserve();
    Some(slot)
}

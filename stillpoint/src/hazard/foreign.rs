//! Hazard pointers of other languages, without a stable interface.

use crate::slots::pointers;
use crate::slots::slot::Slot;

/// A hazard pointer, or none.
#[derive(Debug)]
#[repr(transparent)]
pub struct RawHazardPointer(Option<&'static Slot>);

impl RawHazardPointer {
    /// Makes a hazard pointer. Returns `None` if there is no memory.
    pub fn new() -> Option<Self> {
        pointers::take().map(|slot| Self(Some(slot)))
    }

    /// Gives the hazard pointer back, if it is one.
    ///
    /// # Safety
    ///
    /// The word comes from [`new`](Self::new), or is null. Another copy of it is not used again.
    pub unsafe fn destroy(&mut self) {
        if let Some(slot) = self.0.take() {
            slot.give_back();
        }
    }
}

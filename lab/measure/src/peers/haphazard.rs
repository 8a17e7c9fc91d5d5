//! haphazard: hazard pointers.

use std::cell::RefCell;
use std::hint::black_box;

use haphazard::{AtomicPtr, HazardPointer};

use super::{ReadSide, VALUE};
use harness::timed_loop::repeat;

/// A hazard pointer for each thread, which it uses for all its reads: to make one for each read is slower.
pub struct Hazard(AtomicPtr<u64>);

impl ReadSide for Hazard {
    const NAME: &'static str = "haphazard";
    type Reader<'a> = RefCell<HazardPointer<'static>>;
    type Guard<'a> = RefCell<HazardPointer<'static>>;

    fn new() -> Self {
        Self(AtomicPtr::from(Box::new(VALUE)))
    }

    fn reader(&self) -> Self::Reader<'_> {
        RefCell::new(HazardPointer::new())
    }

    fn enter<'a>(&'a self, _: &'a Self::Reader<'_>) -> Self::Guard<'a> {
        RefCell::new(HazardPointer::new())
    }

    fn load(&self, guard: &Self::Guard<'_>) -> u64 {
        self.0.safe_load(&mut guard.borrow_mut()).copied().unwrap_or_default()
    }

    #[inline(never)]
    fn read(&self, reader: &Self::Reader<'_>, n: u32) -> u64 {
        let (this, mut hazard) = (black_box(self), reader.borrow_mut());
        repeat(n, || {
            let value = this.0.safe_load(&mut hazard).copied().unwrap_or_default();
            hazard.reset_protection();
            value
        })
    }
}

impl Drop for Hazard {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a Box and was never replaced; no reader has this value any more.
        drop(unsafe { Box::from_raw(*self.0.get_mut()) });
    }
}

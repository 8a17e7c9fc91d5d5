//! liburcu's qsbr flavor. The measured loops are C (`peers/liburcu_qsbr.c`); its system calls are counted with those of the
//! other flavor.

use std::hint::black_box;
use std::marker::PhantomData;

use super::{BoxSlot, GracePeriods, ReadSide, VALUE};

mod ffi {
    unsafe extern "C" {
        pub(super) safe fn lab_qsbr_register();
        pub(super) safe fn lab_qsbr_unregister();
        pub(super) safe fn lab_qsbr_synchronize();
        pub(super) safe fn lab_qsbr_report();
        pub(super) fn lab_qsbr_read(slot: *const *mut u64, reads: u32) -> u64;
        pub(super) safe fn lab_qsbr_quiescent(reports: u32) -> u64;
    }
}

/// `synchronize_rcu()`. The calling thread is not registered.
pub(crate) fn synchronize() {
    ffi::lab_qsbr_synchronize();
}

/// The calling thread as a registered reader, until dropped.
#[derive(Debug)]
pub(crate) struct Reader(PhantomData<*const ()>);

impl Reader {
    /// Registers the calling thread, which must not be registered already.
    pub(crate) fn register() -> Self {
        ffi::lab_qsbr_register();
        Self(PhantomData)
    }

    /// Reads `reads` times.
    pub(crate) fn read(&self, slot: &BoxSlot<u64>, reads: u32) -> u64 {
        // SAFETY: the thread is registered, as `self` is not `Send`; the slot points at a live number.
        unsafe { ffi::lab_qsbr_read(slot.0.as_ptr(), reads) }
    }

    /// Reports `reports` times.
    pub(crate) fn quiescent(&self, reports: u32) -> u64 {
        ffi::lab_qsbr_quiescent(reports)
    }

    /// Reports once, by a call.
    pub(crate) fn report(&self) {
        ffi::lab_qsbr_report();
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        ffi::lab_qsbr_unregister();
    }
}

/// The readers of the qsbr flavor, whose loops are inlined in C.
pub(crate) struct Readers(BoxSlot<u64>);

impl ReadSide for Readers {
    const NAME: &'static str = super::LIBURCU_QSBR;
    type Reader<'a> = Reader;
    type Guard<'a> = &'a Reader;

    fn new() -> Self {
        Self(BoxSlot::new(Box::new(VALUE)))
    }

    fn reader(&self) -> Reader {
        Reader::register()
    }

    fn enter<'a>(&'a self, reader: &'a Reader) -> &'a Reader {
        reader
    }

    fn load(&self, guard: &&Reader) -> u64 {
        guard.read(black_box(&self.0), 1)
    }

    fn read(&self, reader: &Reader, n: u32) -> u64 {
        reader.read(black_box(&self.0), n)
    }

    fn load_many(&self, reader: &Reader, n: u32) -> u64 {
        self.read(reader, n)
    }

    fn quiescent(reader: &mut Reader, n: u32) -> u64 {
        reader.quiescent(n)
    }
}

impl GracePeriods for Readers {
    fn synchronize(&self) {
        synchronize();
    }
}

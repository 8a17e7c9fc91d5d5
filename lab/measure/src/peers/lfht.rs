//! liburcu's hash table, `cds_lfht`, with readers of the memb flavor. Each operation is a C function
//! (`peers/liburcu.c`), because the read-side critical section around it is inline C code.

use std::hash::BuildHasher as _;
use std::ptr::NonNull;
use std::thread;

use super::liburcu::Reader;
use super::maps::{CDS_LFHT, Hasher, Map};

mod ffi {
    use std::ffi::{c_ulong, c_void};

    unsafe extern "C" {
        pub(super) safe fn lab_lfht_new(buckets: c_ulong) -> *mut c_void;
        pub(super) fn lab_lfht_get(map: *mut c_void, hash: c_ulong, key: u64, value: &mut u64) -> bool;
        pub(super) fn lab_lfht_insert(map: *mut c_void, hash: c_ulong, key: u64, value: u64) -> bool;
        pub(super) fn lab_lfht_remove(map: *mut c_void, hash: c_ulong, key: u64);
        pub(super) fn lab_lfht_free(map: *mut c_void);
    }
}

/// A map of numbers. Threads that use it are registered.
#[derive(Debug)]
pub struct Lfht {
    map: NonNull<std::ffi::c_void>,
    hasher: Hasher,
}

// SAFETY: the functions of `cds_lfht` may be called by any registered thread.
unsafe impl Send for Lfht {}
// SAFETY: as above.
unsafe impl Sync for Lfht {}

impl Lfht {
    fn new(buckets: usize) -> Self {
        let map = ffi::lab_lfht_new(buckets as u64);
        Self { map: NonNull::new(map).expect("memory for a table"), hasher: Hasher::default() }
    }
}

impl Default for Lfht {
    fn default() -> Self {
        Self::for_entries(1 << 10)
    }
}

impl Drop for Lfht {
    fn drop(&mut self) {
        let map: &Self = self;
        // In a thread of its own, because this one may be registered, or not.
        thread::scope(|scope| {
            scope.spawn(move || {
                let _thread = Reader::register();
                // SAFETY: the map is not used any more, and the thread is registered.
                unsafe { ffi::lab_lfht_free(map.map.as_ptr()) };
            });
        });
    }
}

impl Map for Lfht {
    const NAME: &'static str = CDS_LFHT;

    fn register() -> impl Sized {
        Reader::register()
    }

    fn for_entries(entries: usize) -> Self {
        Self::new(entries.next_power_of_two())
    }

    #[inline(always)]
    fn get(&self, &key: &u64) -> Option<u64> {
        let mut value = 0;
        // SAFETY: the thread is registered.
        let found =
            unsafe { ffi::lab_lfht_get(self.map.as_ptr(), self.hasher.hash_one(key), key, &mut value) };
        found.then_some(value)
    }

    #[inline(always)]
    fn insert(&self, key: u64, value: u64) {
        // SAFETY: as above.
        let inserted =
            unsafe { ffi::lab_lfht_insert(self.map.as_ptr(), self.hasher.hash_one(key), key, value) };
        assert!(inserted, "no memory for an entry");
    }

    #[inline(always)]
    fn remove(&self, &key: &u64) {
        // SAFETY: as above.
        unsafe { ffi::lab_lfht_remove(self.map.as_ptr(), self.hasher.hash_one(key), key) };
    }
}

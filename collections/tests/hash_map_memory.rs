//! Buckets that a chain does not need any more are used in others, and all are freed with the map.
#![cfg(not(loom))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

use stillpoint::rcu;
use stillpoint_collections::HashMap;

/// Counts the pieces of memory that may be buckets.
struct Watched;

static LIVE: AtomicIsize = AtomicIsize::new(0);

/// The alignment of a bucket.
const BUCKET: usize = 64;

// SAFETY: the system's allocator.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() == BUCKET {
            LIVE.fetch_add(1, Relaxed);
        }
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if layout.align() == BUCKET {
            LIVE.fetch_sub(1, Relaxed);
        }
        // SAFETY: the caller's contract, and all memory is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// All keys are in the same bucket, most with fingerprints of their own.
#[derive(Clone, Copy, Default)]
struct OneBucket(u64);

impl BuildHasher for OneBucket {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for OneBucket {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = u64::from(bytes[0]) << 56;
    }
}

#[test]
#[cfg_attr(
    any(stillpoint_portable, not(target_os = "linux")),
    ignore = "parking_lot's table is aligned as buckets are"
)]
fn chained_buckets_are_used_again_and_freed_with_the_map() {
    const KEYS: u32 = 40;
    let map: HashMap<u32, u32, OneBucket> = HashMap::with_hasher(OneBucket::default());
    let all_in_and_out = || {
        let guard = rcu::enter();
        map.insert(0, 0, &guard);
        let empty = LIVE.load(Relaxed);
        (0..KEYS).for_each(|key| _ = map.insert(key, key, &guard));
        (0..KEYS).for_each(|key| _ = map.remove(&key, &guard));
        (empty, LIVE.load(Relaxed))
    };
    let (empty, filled) = all_in_and_out();
    assert!((1..20).contains(&(filled - empty)), "{filled} pieces for {KEYS} entries, {empty} before");
    for _ in 0..50 {
        assert_eq!(all_in_and_out(), (filled, filled), "chains do not use buckets again");
    }
    drop(map);
    rcu::barrier();
    assert_eq!(LIVE.load(Relaxed), 0, "buckets of a map that was dropped");
}

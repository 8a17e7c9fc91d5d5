//! Buckets that a chain does not need any more are used in others, all are freed with the map, and replaced tables
//! count.
#![cfg(not(loom))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;

use stillpoint::rcu;
use stillpoint_collections::{CopyMap, HashMap};

#[path = "hash_map/hashers.rs"]
#[expect(dead_code, reason = "others are for other tests")]
mod hashers;

use hashers::Masked;

/// Counts the pieces of memory that may be buckets.
struct Watched;

static LIVE: AtomicIsize = AtomicIsize::new(0);
/// Values of [`HEAP`] bytes.
static VALUES: AtomicIsize = AtomicIsize::new(0);
/// All bytes.
static BYTES: AtomicIsize = AtomicIsize::new(0);
thread_local! {
    /// Those of this thread.
    static OWN: Cell<isize> = const { Cell::new(0) };
}

/// The alignment of a bucket.
const BUCKET: usize = 64;
/// A size that nothing else has.
const HEAP: usize = 1237;

// SAFETY: the system's allocator.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as isize, Relaxed);
        OWN.set(OWN.get() + layout.size() as isize);
        if layout.align() == BUCKET {
            LIVE.fetch_add(1, Relaxed);
        } else if layout.size() == HEAP {
            VALUES.fetch_add(1, Relaxed);
        }
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as isize, Relaxed);
        OWN.set(OWN.get() - layout.size() as isize);
        if layout.align() == BUCKET {
            LIVE.fetch_sub(1, Relaxed);
        } else if layout.size() == HEAP {
            VALUES.fetch_sub(1, Relaxed);
        }
        // SAFETY: the caller's contract, and all memory is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// `change` inserts a key, or removes it.
fn check<M>(map: M, change: impl Fn(&M, u32, bool)) {
    const KEYS: u32 = 40;
    let all_in_and_out = || {
        change(&map, 0, true);
        let empty = LIVE.load(Relaxed);
        (0..KEYS).for_each(|key| change(&map, key, true));
        (0..KEYS).for_each(|key| change(&map, key, false));
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

/// The pieces, and what has been retired, are those of the process: the tests run one after the other.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
#[cfg_attr(
    any(stillpoint_portable, not(target_os = "linux")),
    ignore = "parking_lot's table is aligned as buckets are"
)]
fn chained_buckets_are_used_again_and_freed_with_the_map() {
    let _alone = ALONE.lock();
    // All keys are in the same bucket, most with tags of their own.
    let hasher = Masked(0xFF << 56);
    let map = HashMap::with_capacity_and_hasher(64, hasher);
    check(map, |map, key, is_there| {
        let guard = rcu::enter();
        _ = if is_there { map.insert(key, key, &guard) } else { map.remove(&key, &guard) };
    });
    let map = CopyMap::with_capacity_and_hasher(64, hasher);
    check(map, |map, key, is_there| _ = if is_there { map.insert(key, key) } else { map.remove(&key) });
}

#[test]
fn map_of_one_entry_takes_less_than_a_kilobyte() {
    let _alone = ALONE.lock();
    // The first map of the process allocates more. The harness, which starts threads of other tests, does not count.
    let taken = [0, 1].map(|_| {
        let (map, copies) = (HashMap::new(), CopyMap::new());
        let before = OWN.get();
        map.insert(1_u64, 1_u64, &rcu::enter());
        let between = OWN.get();
        copies.insert(1_u64, 1_u64);
        [between - before, OWN.get() - between]
    });
    assert!(taken[1].iter().all(|&bytes| bytes < 1000), "{taken:?}");
}

/// While a reader is inside, so that the table waits.
#[test]
fn replaced_tables_count_towards_the_limits() {
    const BUCKETS: usize = if cfg!(miri) { 1 << 9 } else { 1 << 13 };
    let _alone = ALONE.lock();
    let added = |shrink: &dyn Fn(&rcu::Guard)| {
        rcu::barrier();
        let guard = rcu::enter();
        let before = rcu::stats().queued_bytes;
        shrink(&guard);
        rcu::stats().queued_bytes - before
    };
    let map: HashMap<u64, u64> = HashMap::with_capacity(4 * BUCKETS);
    let bytes = added(&|guard| map.shrink_to_fit(guard)) as usize;
    assert!((64 * BUCKETS..256 * BUCKETS).contains(&bytes), "HashMap: {bytes}");
    let map: CopyMap<u64, u64> = CopyMap::with_capacity(5 * BUCKETS);
    let bytes = added(&|_| map.shrink_to_fit()) as usize;
    assert!((128 * BUCKETS..256 * BUCKETS).contains(&bytes), "CopyMap: {bytes}");
}

/// However many there were, and whether the thread that has removed them continues or exits.
#[test]
fn removed_entries_are_freed_but_for_a_bounded_rest() {
    const SOME: [u32; 3] = if cfg!(miri) { [1, 20, 100] } else { [1, 1000, 100_000] };
    let _alone = ALONE.lock();
    let map = HashMap::new();
    let churn = |entries| {
        for key in 0..entries {
            map.insert(key, String::with_capacity(HEAP), &rcu::enter());
            map.remove(&key, &rcu::enter());
        }
        rcu::barrier();
        VALUES.load(Relaxed)
    };
    for entries in SOME {
        let before = BYTES.load(Relaxed);
        let left = thread::scope(|scope| scope.spawn(|| churn(entries)).join().expect("no panic"));
        assert!(left * HEAP as isize <= 16 << 10, "{left} values of {entries}");
        rcu::barrier();
        assert_eq!(VALUES.load(Relaxed), 0, "the thread has exited");
        let kept = BYTES.load(Relaxed) - before;
        assert!(kept < 5 << 20, "{kept} bytes");
    }
}

/// Destructors of the program may use thread-local variables that are gone then.
#[test]
fn exit_with_removed_entries_runs_no_destructors_of_the_program() {
    use stillpoint::Domain as _;

    thread_local! { static POOL: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) }; }
    static LATE: AtomicIsize = AtomicIsize::new(0);
    struct Pooled(u64);
    impl Drop for Pooled {
        fn drop(&mut self) {
            if POOL.try_with(|pool| pool.borrow_mut().push(self.0)).is_err() {
                LATE.fetch_add(1, Relaxed);
            }
        }
    }

    let _alone = ALONE.lock();
    let map = HashMap::new();
    let run = || {
        for key in 0..60 {
            map.insert(key, key, &rcu::enter());
            map.remove(&key, &rcu::enter());
        }
        // It goes before what the map has in the thread, as it comes later.
        POOL.with_borrow_mut(|pool| pool.reserve(1000));
        let options = rcu::DeferOptions::new().run_on_retiring_thread();
        (0..70).for_each(|at| rcu::Global.retire_with(Box::new(Pooled(at)), options));
        (0..2).for_each(|_| rcu::synchronize());
    };
    for _ in 0..20 {
        thread::scope(|scope| scope.spawn(run).join().expect("no panic"));
    }
    rcu::barrier();
    assert_eq!(LATE.load(Relaxed), 0);
}

/// The child has the last removals of the thread that forks, and perhaps a depot that another has locked. It has a map
/// that no other thread uses: buckets that others have locked stay locked in it.
#[test]
#[cfg(all(target_os = "linux", not(stillpoint_portable)))]
#[cfg_attr(miri, ignore = "it cannot fork")]
fn entries_come_and_go_in_the_child_of_a_fork() {
    use std::sync::atomic::AtomicBool;

    let _alone = ALONE.lock();
    let maps = [HashMap::new(), HashMap::new()];
    let churn = |map: &HashMap<u64, String>, keys: std::ops::Range<u64>| {
        for key in keys {
            map.insert(key, key.to_string(), &rcu::enter());
            map.remove(&key, &rcu::enter());
        }
    };
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let rounds = (0..).take_while(|_| !stop.load(Relaxed));
            rounds.for_each(|round| churn(&maps[1], round << 9..(round + 1) << 9));
        });
        for _ in 0..20 {
            churn(&maps[0], u64::MAX - 1000..u64::MAX - 10);
            // SAFETY: the child only uses what works there, and exits.
            let child = unsafe { libc::fork() };
            if child == 0 {
                churn(&maps[0], u64::MAX - 9000..u64::MAX);
                rcu::barrier();
                // SAFETY: as above.
                unsafe { libc::_exit(0) };
            }
            let mut status = -1;
            // SAFETY: it is a child of this process.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0);
        }
        stop.store(true, Relaxed);
    });
}

/// With so many entries, some of the maps are being resized.
#[test]
fn maps_that_are_dropped_in_the_middle_of_a_resize_leak_nothing() {
    let _alone = ALONE.lock();
    let value = Arc::new(());
    for entries in (64..700).step_by(if cfg!(miri) { 90 } else { 9 }) {
        let map = HashMap::new();
        (0..entries).for_each(|key| _ = map.insert(key, value.clone(), &rcu::enter()));
        drop(map);
        drop((0..entries).map(|key| (key, key)).collect::<CopyMap<u32, u32>>());
    }
    rcu::barrier();
    assert_eq!(Arc::strong_count(&value), 1);
    if cfg!(all(target_os = "linux", not(stillpoint_portable))) {
        assert_eq!(LIVE.load(Relaxed), 0, "buckets of maps that were dropped");
    }
}

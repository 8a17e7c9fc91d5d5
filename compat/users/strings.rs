//! A program that uses crossbeam-skiplist: threads replace, remove and read strings, and one thread stays pinned now and
//! then. `ci/compat.sh` runs it on `compat/crossbeam-epoch`. Fails if a reader sees a string that has been freed, if more
//! memory waits than the limits allow, or if memory is lost.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_skiplist::SkipMap;

/// Counts the bytes that are allocated.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: it is the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

const THREADS: u64 = 8;
const KEYS: u64 = 1000;
const TIME: Duration = Duration::from_secs(3);
/// How long the stalled thread stays pinned.
const STALL: Duration = Duration::from_millis(600);
/// The most nodes that may wait: the limit, and what threads add before they notice.
const NODES: usize = (1 << 17) + 128 * THREADS as usize;
/// A node, its tower, and its string.
const NODE_BYTES: usize = 512;

/// Returns the string of a key: its number again and again.
fn text(key: u64, version: u64) -> String {
    format!("{key:08}").repeat(20 + version as usize % 10)
}

fn check(key: u64, text: &str) {
    let number = format!("{key:08}");
    assert!(text.len() >= 160 && text.as_bytes().chunks(8).all(|part| part == number.as_bytes()), "{text}");
}

fn main() {
    crossbeam_epoch::pin().flush();
    let before = LIVE.load(Relaxed);
    let (map, stop, operations) = (SkipMap::new(), AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (map, stop, operations) = (&map, &stop, &operations);
            scope.spawn(move || {
                let mut random = thread + 1;
                while !stop.load(Relaxed) {
                    // xorshift64
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let key = random % KEYS;
                    match random >> 60 {
                        0..8 => drop(map.insert(key, text(key, random >> 32))),
                        8..12 => drop(map.remove(&key)),
                        _ => map.get(&key).inspect(|entry| check(key, entry.value())).map_or((), drop),
                    }
                    operations.fetch_add(1, Relaxed);
                }
            });
        }
        let end = Instant::now() + TIME;
        while Instant::now() < end {
            let guard = crossbeam_epoch::pin();
            thread::sleep(STALL);
            drop(guard);
            thread::sleep(STALL / 4);
        }
        stop.store(true, Relaxed);
    });
    let peak = PEAK.load(Relaxed) - before;
    println!("{} operations, peak {} KiB", operations.load(Relaxed), peak >> 10);
    assert!(peak < NODES * NODE_BYTES, "{peak} bytes");
    for entry in &map {
        check(*entry.key(), entry.value());
    }
    drop(map);
    // What the threads have deferred, and the map. Twice, unless a thread still exits, or the library's waits for a CPU.
    let lost = || LIVE.load(Relaxed).saturating_sub(before);
    for round in 0..1000 {
        crossbeam_epoch::pin().flush();
        if lost() < 64 << 10 {
            break;
        }
        thread::sleep(Duration::from_millis(round.min(10)));
    }
    assert!(lost() < 64 << 10, "{} bytes are left", lost());
}

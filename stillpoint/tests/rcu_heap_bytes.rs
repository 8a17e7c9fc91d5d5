//! What the library knows of the memory that values own, compared with what the allocator counts.
#![cfg(not(loom))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use stillpoint::rcu::known_heap_bytes as known;

thread_local! {
    /// Bytes that this thread has allocated and not freed.
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: as for `System`.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.set(BYTES.get() + layout.size() as isize);
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        BYTES.set(BYTES.get() - layout.size() as isize);
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(memory, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Checks that the library knows what the value owns, up to a third.
fn check<T: Sync + 'static>(make: impl FnOnce() -> T) {
    let before = BYTES.get();
    let value = make();
    let owned = (BYTES.get() - before) as usize;
    let known = known(&value).expect("a type of the list");
    let name = std::any::type_name::<T>();
    assert!(known.abs_diff(owned) <= owned / 3, "{name}: {known} of {owned} bytes");
}

#[test]
fn heap_bytes_of_known_types_are_what_the_allocator_counts() {
    check(|| [1_u8; 1000]);
    check(|| "text".repeat(1000));
    check(|| Box::<str>::from("text".repeat(1000)));
    check(|| vec![1_u8; 1000]);
    check(|| Vec::<u64>::with_capacity(1000));
    check(|| Box::<[f64]>::from(vec![1.0; 1000]));
}

#[test]
fn heap_bytes_of_other_types_are_unknown() {
    struct Table(#[expect(dead_code, reason = "owned")] Vec<u8>);
    assert_eq!(known(&Table(vec![1])), None);
    assert_eq!(known::<dyn Send + Sync>(&String::new()), None);
    assert_eq!((known::<[String]>(&[]), known(&vec![String::new()])), (None, None));
    assert_eq!((known::<str>("text"), known(&7), known::<[u8]>(&[1])), (Some(0), Some(0), Some(0)));
}

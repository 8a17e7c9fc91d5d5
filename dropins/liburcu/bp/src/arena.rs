//! The memory of readers. A thread that ends gives its reader back.
//!
//! Nothing of it is freed, and some readers are part of the library. If these are in use and the kernel has no
//! memory, a new reader waits until there is memory or another thread ends: the inlined code cannot take an error.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use std::thread::yield_now;

use stillpoint_urcu_core::inlined::InlinedReader;
use stillpoint_urcu_core::report::report;

/// The number of readers in a chunk.
const READERS: usize = 63;

/// A chunk: four pages.
#[repr(C, align(128))]
struct Chunk {
    next: AtomicPtr<Chunk>,
    readers: UnsafeCell<[InlinedReader; READERS]>,
}

// SAFETY: readers are `Sync`; the cell only keeps the chunk in memory that can be written.
unsafe impl Sync for Chunk {}

static FIRST: Chunk = Chunk {
    next: AtomicPtr::new(ptr::null_mut()),
    readers: UnsafeCell::new([const { InlinedReader::unregistered() }; READERS]),
};

/// The key whose destructor gives readers back. Its number plus one; 0 before it exists.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Returns the word of a reader that says whether it has an owner: `alloc`.
fn owned(reader: &InlinedReader) -> &AtomicU64 {
    &reader.tail[0]
}

/// Returns a reader without an owner. Signals are blocked.
pub fn claim() -> &'static InlinedReader {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    loop {
        let mut chunk = &FIRST;
        loop {
            // SAFETY: readers are accessed by shared references only.
            for reader in unsafe { &*chunk.readers.get() } {
                // Acquire: the last owner's use; pairs with the Release in `release`.
                if owned(reader).load(Relaxed) == 0
                    && owned(reader).compare_exchange(0, 1, Acquire, Relaxed).is_ok()
                {
                    return reader;
                }
            }
            // Acquire: the chunk; pairs with the AcqRel in `grow`.
            // SAFETY: chunks are never freed.
            match unsafe { chunk.next.load(Acquire).as_ref() } {
                Some(next) => chunk = next,
                None => break,
            }
        }
        if !grow(chunk) {
            if !REPORTED.swap(true, Relaxed) {
                report(format_args!("liburcu-bp: no memory for another thread that reads; it waits"));
            }
            yield_now();
        }
    }
}

/// Appends a chunk to the last one. Returns `false` if there is no memory.
fn grow(last: &Chunk) -> bool {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory of zeros, which is a valid chunk.
    let chunk = unsafe { libc::mmap(ptr::null_mut(), size_of::<Chunk>(), protection, flags, -1, 0) };
    if chunk == libc::MAP_FAILED {
        return false;
    }
    // AcqRel: publishes the chunk; pairs with the Acquire in `claim`.
    if last.next.compare_exchange(ptr::null_mut(), chunk.cast(), AcqRel, Relaxed).is_err() {
        // SAFETY: no other thread has seen it.
        unsafe { libc::munmap(chunk, size_of::<Chunk>()) };
    }
    true
}

/// Gives a reader back, which grace periods no longer wait for.
pub fn release(reader: &InlinedReader) {
    reader.forget_owner();
    // Release: pairs with the Acquire in `claim`.
    owned(reader).store(0, Release);
}

/// Creates the key, when the library is loaded.
pub fn load() {
    let mut key = 0;
    // SAFETY: the place outlives the call.
    if unsafe { libc::pthread_key_create(&mut key, Some(thread_exit)) } == 0 {
        KEY.store(key + 1, Relaxed);
    }
}

/// Has the reader given back when the calling thread ends.
pub fn at_thread_exit(reader: &InlinedReader) {
    if KEY.load(Relaxed) == 0 {
        load();
    }
    let key = KEY.load(Relaxed);
    if key != 0 {
        // SAFETY: the key exists. Without memory for its value, the reader stays the thread's.
        unsafe { libc::pthread_setspecific(key - 1, ptr::from_ref(reader).cast()) };
    }
}

unsafe extern "C" fn thread_exit(_reader: *mut c_void) {
    crate::release();
}

/// Gives back the readers of the threads that the child of a fork has lost.
pub fn reset_in_child(own: Option<&InlinedReader>) {
    let mut next: *const Chunk = &FIRST;
    // SAFETY: the only thread; chunks are never freed, and readers are accessed by shared references only.
    while let Some(chunk) = unsafe { next.as_ref() } {
        // SAFETY: as above.
        for reader in unsafe { &*chunk.readers.get() } {
            if !own.is_some_and(|own| ptr::eq(own, reader)) {
                release(reader);
            }
        }
        next = chunk.next.load(Relaxed);
    }
}

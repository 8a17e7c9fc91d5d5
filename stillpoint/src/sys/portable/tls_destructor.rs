//! Runs a function when a thread ends. On Linux and FreeBSD, the keys of the C library do that instead: their destructors
//! come after those of thread-local variables, whose memory is still there.
//!
//! Each thread has a list of what it has armed, and [`Slot`] runs it when the thread ends. What is armed while the list
//! runs, runs in the next of [`ROUNDS`] rounds. After the last it does not run any more, as after
//! `PTHREAD_DESTRUCTOR_ITERATIONS` with the keys of a C library.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr;
use std::alloc::{GlobalAlloc, Layout, System};

#[cfg_attr(windows, path = "fiber_slot.rs")]
#[cfg_attr(not(windows), path = "variable_slot.rs")]
mod slot;

/// How often the list of a thread is run.
const ROUNDS: usize = 4;

/// A function that runs at the end of each thread that arms it.
#[derive(Debug)]
pub struct AtThreadExit {
    run: unsafe extern "C" fn(*mut c_void),
}

/// An element of the list, in memory of the system: a global allocator may arm too.
struct Armed {
    exit: *const AtThreadExit,
    pointer: Cell<*mut c_void>,
    next: *mut Armed,
}

impl AtThreadExit {
    /// `run` gets the pointer of [`arm`](Self::arm). It must not unwind.
    pub const fn new(run: unsafe extern "C" fn(*mut c_void)) -> Self {
        Self { run }
    }

    /// Has the function called with `pointer`, which is not null, when the calling thread ends. Replaces an earlier
    /// pointer of this thread. Returns `false` if there is no memory left.
    ///
    /// # Safety
    ///
    /// `self` is static. The function must be sound to call with `pointer` on this thread, whenever it ends.
    #[must_use]
    pub unsafe fn arm(&self, pointer: *mut c_void) -> bool {
        slot::change(|first| self.push_to(first, pointer))
    }

    /// Returns the pointer that is armed in the calling thread, or null.
    pub fn armed(&self) -> *mut c_void {
        let found = Cell::new(ptr::null_mut());
        slot::change(|first| {
            let mut at = first;
            // SAFETY: the elements of a thread's list live until it is run.
            while let Some(armed) = unsafe { at.as_ref() } {
                if ptr::eq(armed.exit, self) {
                    found.set(armed.pointer.get());
                }
                at = armed.next;
            }
            Some(first)
        });
        found.get()
    }

    /// Returns `true` if nothing that is armed now in the calling thread will run.
    pub fn is_over() -> bool {
        slot::is_over()
    }

    /// Does nothing: there is nothing to prepare.
    pub fn prepare(&self) {}

    /// Returns the first element of the list that begins with `first` when this is armed; `None` without memory.
    fn push_to(&self, first: *mut Armed, pointer: *mut c_void) -> Option<*mut Armed> {
        let mut at = first;
        // SAFETY: the elements of a thread's list live until it is run.
        while let Some(armed) = unsafe { at.as_ref() } {
            if ptr::eq(armed.exit, self) {
                armed.pointer.set(pointer);
                return Some(first);
            }
            at = armed.next;
        }
        // SAFETY: the layout has a size, and the memory is good for the element.
        unsafe {
            let fresh = System.alloc(Layout::new::<Armed>()).cast::<Armed>();
            if fresh.is_null() {
                return None;
            }
            fresh.write(Armed { exit: self, pointer: Cell::new(pointer), next: first });
            Some(fresh)
        }
    }
}

/// Runs a list, and frees it.
///
/// # Safety
///
/// It is the calling thread's, which does not have it any more.
unsafe fn run(mut at: *mut Armed) {
    while !at.is_null() {
        // SAFETY: `push_to` made the element, and it is freed here only; the rest is the contract of `arm`.
        unsafe {
            let Armed { exit, pointer, next } = at.read();
            System.dealloc(at.cast(), Layout::new::<Armed>());
            at = next;
            ((*exit).run)(pointer.get());
        }
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::thread;

    use super::*;

    static RUNS: AtomicUsize = AtomicUsize::new(0);

    /// Adds its argument, and arms the other function if that is odd.
    unsafe extern "C" fn exit(pointer: *mut c_void) {
        RUNS.fetch_add(pointer.addr(), SeqCst);
        if pointer.addr() % 2 == 1 {
            // SAFETY: the function takes any number.
            assert!(unsafe { SECOND.arm(ptr::without_provenance_mut(100)) });
        }
    }

    static FIRST: AtThreadExit = AtThreadExit::new(exit);
    static SECOND: AtThreadExit = AtThreadExit::new(exit);

    #[test]
    fn function_runs_once_with_the_last_pointer_and_again_if_it_is_armed_meanwhile() {
        let end = || {
            // SAFETY: the function takes any number.
            unsafe {
                assert!(FIRST.arm(ptr::without_provenance_mut(4)));
                assert!(SECOND.arm(ptr::without_provenance_mut(10)));
                assert!(FIRST.arm(ptr::without_provenance_mut(3)));
            }
        };
        thread::spawn(end).join().expect("no panic");
        assert_eq!(RUNS.load(SeqCst), 113);
    }
}

//! Runs a function when a thread ends, by a thread-local variable with a destructor.
//!
//! The standard library runs such destructors in an order of its own. Those that run later may arm the function again:
//! then it runs in the next of [`ROUNDS`] rounds, each of which is a variable. After the last round it does not run any
//! more, as after `PTHREAD_DESTRUCTOR_ITERATIONS` with the keys of a C library.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr;
use std::alloc::{GlobalAlloc, Layout, System};

/// A function that runs at the end of each thread that arms it.
#[derive(Debug)]
pub struct AtThreadExit {
    run: unsafe extern "C" fn(*mut c_void),
}

/// What is armed in a thread: a list, in memory of the system, because a global allocator may arm too.
struct Armed {
    exit: *const AtThreadExit,
    pointer: Cell<*mut c_void>,
    next: *mut Armed,
}

/// The functions that run in a round.
struct Round(Cell<*mut Armed>);

thread_local! {
    static FIRST: Round = const { Round(Cell::new(ptr::null_mut())) };
    static SECOND: Round = const { Round(Cell::new(ptr::null_mut())) };
    static THIRD: Round = const { Round(Cell::new(ptr::null_mut())) };
    static FOURTH: Round = const { Round(Cell::new(ptr::null_mut())) };
}

const ROUNDS: [&std::thread::LocalKey<Round>; 4] = [&FIRST, &SECOND, &THIRD, &FOURTH];

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
    /// The function must be sound to call with `pointer` on this thread, whenever it ends.
    #[must_use]
    pub unsafe fn arm(&self, pointer: *mut c_void) -> bool {
        let armed =
            |round: &'static std::thread::LocalKey<Round>| round.try_with(|round| round.arm(self, pointer));
        ROUNDS.into_iter().find_map(|round| armed(round).ok()).unwrap_or(true)
    }

    /// Does nothing: there is nothing to prepare.
    pub fn prepare(&self) {}
}

impl Round {
    fn arm(&self, exit: &AtThreadExit, pointer: *mut c_void) -> bool {
        let mut at = self.0.get();
        // SAFETY: the nodes of the list live until `drop` below.
        while let Some(armed) = unsafe { at.as_ref() } {
            if ptr::eq(armed.exit, exit) {
                armed.pointer.set(pointer);
                return true;
            }
            at = armed.next;
        }
        let fresh = Armed { exit, pointer: Cell::new(pointer), next: self.0.get() };
        // SAFETY: the layout has a size, and the memory is good for the node.
        unsafe {
            let node = System.alloc(Layout::new::<Armed>()).cast::<Armed>();
            if node.is_null() {
                return false;
            }
            node.write(fresh);
            self.0.set(node);
        }
        true
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        // A function that arms is in the next round by then.
        let mut at = self.0.replace(ptr::null_mut());
        while !at.is_null() {
            // SAFETY: `arm` made the node, and it is freed here only. The function is static; the rest is the contract
            // of `AtThreadExit::arm`.
            unsafe {
                let Armed { exit, pointer, next } = at.read();
                System.dealloc(at.cast(), Layout::new::<Armed>());
                at = next;
                ((*exit).run)(pointer.get());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::thread;

    use super::*;

    static EXIT: AtThreadExit = AtThreadExit::new(exit);
    static RUNS: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" fn exit(pointer: *mut c_void) {
        RUNS.fetch_add(pointer.addr(), SeqCst);
    }

    struct ArmsAgain;

    impl Drop for ArmsAgain {
        fn drop(&mut self) {
            // SAFETY: the function takes any pointer.
            assert!(unsafe { EXIT.arm(ptr::without_provenance_mut(100)) });
        }
    }

    thread_local!(static LATE: ArmsAgain = const { ArmsAgain });

    #[test]
    fn function_runs_once_for_each_time_that_it_is_armed_after_a_run() {
        let end = || {
            LATE.with(|_| ());
            // SAFETY: the function takes any pointer.
            (1..=2).for_each(|pointer| assert!(unsafe { EXIT.arm(ptr::without_provenance_mut(pointer)) }));
        };
        thread::spawn(end).join().expect("no panic");
        // Destructors run from the last to the first, or from the first to the last.
        assert!([102, 100].contains(&RUNS.load(SeqCst)), "{RUNS:?}");
    }
}

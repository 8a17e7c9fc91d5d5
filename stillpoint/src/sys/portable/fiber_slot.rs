//! The list of a thread, in a slot of fiber-local storage.
//!
//! Windows calls the slot's function before the destructors of thread-local variables, which on some targets are
//! freed then (`windows-gnu`). What such a destructor arms, the destructor of [`Late`] runs. What is armed later than that
//! does not run. That it is later, a slot of thread-local storage says, which nothing clears.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering::*};

use windows_sys::Win32::System::Threading::{
    FLS_OUT_OF_INDEXES, FlsAlloc, FlsFree, FlsGetValue, FlsSetValue, TLS_OUT_OF_INDEXES, TlsAlloc, TlsFree,
    TlsGetValue, TlsSetValue,
};

use super::{Armed, ROUNDS, run};

/// A slot that is allocated at its first use, and never freed: its number plus 1; 0 while there is none.
struct Slot(AtomicU64);

/// The list of the thread.
static LIST: Slot = Slot(AtomicU64::new(0));
/// Not null in threads whose list has run.
static OVER: Slot = Slot(AtomicU64::new(0));

/// Runs the list of a thread that has armed only when Windows had called the function of the slot.
struct Late;

thread_local! {
    static LATE: Late = const { Late };
}

impl Drop for Late {
    fn drop(&mut self) {
        // SAFETY: the slot exists, and the list is this thread's.
        unsafe { at_exit(LIST.number().map_or(ptr::null_mut(), |slot| FlsGetValue(slot))) };
    }
}

impl Slot {
    fn number(&self) -> Option<u32> {
        // Acquire, here and below: the slot exists; pairs with the Release below.
        let known = self.0.load(Acquire);
        (known != 0).then(|| (known - 1) as u32)
    }

    /// Returns its number. `allocate` returns `none` if it fails.
    fn get(&self, none: u32, allocate: impl Fn() -> u32, free: impl Fn(u32)) -> Option<u32> {
        if let Some(known) = self.number() {
            return Some(known);
        }
        let fresh = allocate();
        if fresh == none {
            return None;
        }
        match self.0.compare_exchange(0, u64::from(fresh) + 1, Release, Acquire) {
            Ok(_) => Some(fresh),
            Err(known) => {
                // Another thread was faster, and no other thread knows this slot.
                free(fresh);
                Some((known - 1) as u32)
            }
        }
    }
}

fn list() -> Option<u32> {
    // SAFETY: the function stays: libraries with this crate are not unloaded. A slot is freed that is used nowhere.
    LIST.get(FLS_OUT_OF_INDEXES, || unsafe { FlsAlloc(Some(at_exit)) }, |slot| _ = unsafe { FlsFree(slot) })
}

/// Replaces the list by the result of `f`. Returns `false` if that is `None`, or if there is no slot or memory.
pub fn change(f: impl Fn(*mut Armed) -> Option<*mut Armed>) -> bool {
    let Some(slot) = list() else { return false };
    // Fails in the destructor itself.
    let _ = LATE.try_with(|_| ());
    // SAFETY: the slot exists.
    let first = unsafe { FlsGetValue(slot) }.cast::<Armed>();
    // SAFETY: as above. A list of which the slot has a part already has changed in place.
    f(first).is_some_and(|changed| changed == first || unsafe { FlsSetValue(slot, changed.cast()) } != 0)
}

/// Returns `true` if no list of the thread will run.
pub fn is_over() -> bool {
    // SAFETY: the slot exists.
    OVER.number().is_some_and(|slot| !unsafe { TlsGetValue(slot) }.is_null())
}

unsafe extern "system" fn at_exit(armed: *const c_void) {
    let Some(slot) = list() else { return };
    let mut armed = armed.cast_mut().cast::<Armed>();
    for _ in 0..ROUNDS {
        // SAFETY: the slot exists, and the list, which it has no more, is the calling thread's.
        unsafe {
            FlsSetValue(slot, ptr::null());
            run(armed);
            armed = FlsGetValue(slot).cast();
        }
        if armed.is_null() {
            break;
        }
    }
    // SAFETY: a slot is freed that is used nowhere.
    let over = OVER.get(TLS_OUT_OF_INDEXES, || unsafe { TlsAlloc() }, |slot| _ = unsafe { TlsFree(slot) });
    if let Some(over) = over {
        // SAFETY: the slot exists.
        unsafe { TlsSetValue(over, ptr::without_provenance(1)) };
    }
}

//! The list of a thread, in a slot of fiber-local storage.
//!
//! Windows calls the slot's function before the destructors of thread-local variables, which on some targets are
//! freed then (`windows-gnu`). What is armed later than that does not run. So the slot then has [`OVER`] in the place of a
//! list.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU64, Ordering::*};

use windows_sys::Win32::System::Threading::{
    FLS_OUT_OF_INDEXES, FlsAlloc, FlsFree, FlsGetValue, FlsSetValue,
};

use super::{Armed, ROUNDS, run};

/// The functions of the thread have run.
const OVER: *mut Armed = core::ptr::without_provenance_mut(1);

/// The slot plus 1; 0 while there is none. It is never freed.
static SLOT: AtomicU64 = AtomicU64::new(0);

fn slot() -> Option<u32> {
    // Acquire, here and below: the slot exists; pairs with the Release below.
    let known = SLOT.load(Acquire);
    if known != 0 {
        return Some((known - 1) as u32);
    }
    // SAFETY: the function stays: libraries with this crate are not unloaded.
    let fresh = unsafe { FlsAlloc(Some(at_exit)) };
    if fresh == FLS_OUT_OF_INDEXES {
        return None;
    }
    match SLOT.compare_exchange(0, u64::from(fresh) + 1, Release, Acquire) {
        Ok(_) => Some(fresh),
        Err(known) => {
            // Another thread was faster. SAFETY: no other thread knows this slot.
            unsafe { FlsFree(fresh) };
            Some((known - 1) as u32)
        }
    }
}

/// Replaces the list by the result of `f`. Returns `false` if that is `None`, or if there is no slot or memory.
pub fn change(f: impl Fn(*mut Armed) -> Option<*mut Armed>) -> bool {
    let Some(slot) = slot() else { return false };
    // SAFETY: the slot exists.
    let first = unsafe { FlsGetValue(slot) }.cast::<Armed>();
    if first == OVER {
        return true;
    }
    // SAFETY: as above. A list of which the slot has a part already has changed in place.
    f(first).is_some_and(|changed| changed == first || unsafe { FlsSetValue(slot, changed.cast()) } != 0)
}

/// Returns `true` if no list of the thread will run.
pub fn is_over() -> bool {
    // SAFETY: the slot exists.
    slot().is_some_and(|slot| unsafe { FlsGetValue(slot) }.cast() == OVER)
}

unsafe extern "system" fn at_exit(list: *const c_void) {
    let Some(slot) = slot() else { return };
    let mut list = list.cast_mut().cast::<Armed>();
    if list == OVER {
        return;
    }
    for _ in 0..ROUNDS {
        // SAFETY: the slot exists, and the list, which it has no more, is the calling thread's.
        unsafe {
            FlsSetValue(slot, core::ptr::null());
            run(list);
            list = FlsGetValue(slot).cast();
        }
        if list.is_null() {
            break;
        }
    }
    // SAFETY: the slot exists. What was armed in the last round is lost.
    unsafe { FlsSetValue(slot, OVER.cast()) };
}

//! The process-wide fence.

use core::ffi::c_int;
use core::ptr::NonNull;

use stillpoint::fence::{self, Backend};
use stillpoint::rcu::foreign;

use crate::boundary;
use crate::rcu::Thread;

/// Chooses the backend. Returns its number.
#[unsafe(no_mangle)]
pub extern "C" fn sp_fence_init() -> c_int {
    boundary::catch(|| {
        Ok(match fence::report().backend() {
            Backend::Membarrier => 1,
            _ => 0,
        })
    })
}

/// The light fence of a thread that does not know that a compiler fence suffices.
///
/// # Safety
///
/// `thread` is the address of the calling thread's `sp_thread_v1_`.
#[cold]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_fence_light_slow_v1_(thread: NonNull<Thread>) {
    fence::light();
    // SAFETY: the caller's contract.
    unsafe { thread.as_ref() }.light_is_free.set(foreign::light_is_compiler_fence().into());
}

/// The heavy fence.
#[unsafe(no_mangle)]
pub extern "C" fn sp_fence_heavy() -> c_int {
    boundary::run(|| {
        fence::heavy();
        Ok(())
    })
}

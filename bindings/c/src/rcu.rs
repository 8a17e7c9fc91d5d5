//! Readers of the domain `stillpoint::rcu::Global`.
//!
//! `stillpoint.h` contains the fast paths, as inline functions: those of `Reader` in `readers/sections/reader.rs` of
//! the library. They use two things of it.
//!
//! - The thread-local variable `sp_thread_v1_`. C code passes its address here, where the library needs it, so Rust
//!   code never names the variable. A program that is not a shared library accesses it by a constant offset.
//! - The first three fields of the thread's `Reader`, of which the variable has the address. Before a thread
//!   registers, while it is idle, and where a light fence is more than a compiler fence, that is the address of a
//!   reader whose fields send both functions to their slow paths.
//!
//! The names contain the version of both layouts, so that a program does not link with another one.

use core::cell::Cell;
use core::ffi::c_int;
use core::mem::offset_of;
use core::ptr::NonNull;

use stillpoint::rcu::foreign::{self, ThreadWords};

use crate::boundary::{self, Error, misuse, report};

/// `struct sp_thread_` of `stillpoint.h`.
#[derive(Debug)]
#[repr(C)]
pub struct Thread {
    words: ThreadWords,
    /// 1 if a light fence is a compiler fence.
    pub light_is_free: Cell<u32>,
    _reserved: u32,
}

const _: () = {
    assert!(size_of::<ThreadWords>() == 16);
    assert!(offset_of!(Thread, light_is_free) == 16);
    assert!(size_of::<Thread>() == 24);
};

// In assembly, as a Rust library cannot export a thread-local variable. 24 bytes, of which the first 8 are the
// address of the reader that is no thread's.
core::arch::global_asm!(
    ".pushsection .tdata, \"awT\", @progbits",
    ".globl sp_thread_v1_",
    ".type sp_thread_v1_, @object",
    ".balign 8",
    "sp_thread_v1_:",
    ".quad {unregistered}",
    ".quad 0",
    ".quad 0",
    ".size sp_thread_v1_, 24",
    ".popsection",
    unregistered = sym foreign::UNREGISTERED,
);

/// Does `f` with the thread's words, which it may use to register the thread.
///
/// # Safety
///
/// `thread` is the address of the calling thread's `sp_thread_v1_`.
unsafe fn register(
    thread: NonNull<Thread>,
    function: &str,
    f: impl FnOnce(NonNull<ThreadWords>) -> Result<(), &'static str>,
) -> c_int {
    boundary::run(|| {
        f(thread.cast()).map_err(|why| {
            report(function, format_args!("cannot register the thread: {why}"));
            Error(libc::ENOMEM)
        })?;
        // SAFETY: the caller's contract.
        unsafe { thread.as_ref() }.light_is_free.set(foreign::light_is_compiler_fence().into());
        Ok(())
    })
}

/// Registers the calling thread.
///
/// # Safety
///
/// `thread` is the address of the calling thread's `sp_thread_v1_`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_rcu_register_v1_(thread: NonNull<Thread>) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { register(thread, "sp_rcu_register_thread", |words| foreign::register_outside(words)) }
}

/// The slow path of the beginning of a section.
///
/// # Safety
///
/// `thread` is the address of the calling thread's `sp_thread_v1_`.
#[cold]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_rcu_lock_slow_v1_(thread: NonNull<Thread>) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { register(thread, "sp_rcu_read_lock", |words| foreign::read_lock_slow(words)) }
}

/// Ends a section of any thread, and reports if there is none.
///
/// # Safety
///
/// If the calling thread is inside a section, `sp_rcu_read_lock` has begun it, and no reference that it protects is
/// used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_rcu_unlock_checked_v1_() -> c_int {
    boundary::run(|| {
        // SAFETY: the caller's contract.
        if unsafe { foreign::read_unlock() } {
            return Ok(());
        }
        Err(misuse("sp_rcu_read_unlock", "without a read-side critical section", libc::EPERM))
    })
}

/// The slow path after the end of a section.
///
/// # Safety
///
/// `sp_rcu_read_unlock` has just ended a section of the calling thread, and calls this.
#[cold]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sp_rcu_exited_v1_() -> c_int {
    boundary::run(|| {
        // SAFETY: the caller's contract.
        unsafe { foreign::exit_slow() };
        Ok(())
    })
}

/// Returns 1 inside a section.
#[unsafe(no_mangle)]
pub extern "C" fn sp_rcu_in_read_section() -> c_int {
    stillpoint::rcu::in_read_section().into()
}

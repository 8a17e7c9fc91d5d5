//! Regions that a signal handler interrupts at a chosen instruction.
//!
//! The processor traps after each instruction of a region (the trap flag of x86-64). The handler of `SIGTRAP` does at
//! one of these instructions what an asynchronous signal would do there.

use std::arch::asm;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};
use std::{io, mem, ptr};

use crate::deadline::deadline;

/// The bit of a processor's flags that makes it trap.
const TRAP: i64 = 1 << 8;

/// Serializes the tests: all use `SIGTRAP`.
static ONE: Mutex<()> = Mutex::new(());

thread_local! {
    /// The number of traps so far, those at which the handler is called, and the handler.
    static TRAPS: Cell<usize> = const { Cell::new(0) };
    static AT: Cell<[usize; 2]> = const { Cell::new([usize::MAX; 2]) };
    static HANDLER: Cell<fn()> = const { Cell::new(|| ()) };
}

extern "C" fn on_trap(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let traps = TRAPS.get();
    TRAPS.set(traps + 1);
    let at = AT.get();
    if at.contains(&traps) {
        HANDLER.get()();
    }
    if traps == at[1] {
        // SAFETY: the kernel passes the context of the interrupted thread.
        let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
        // The rest runs without traps.
        context.uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP;
    }
}

/// Begins a test, which ends when this is dropped.
pub fn begin() -> impl Sized {
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: a signal action is plain data, for which zero is a value.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = on_trap as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the action is initialized.
    let failed = unsafe { libc::sigaction(libc::SIGTRAP, &action, ptr::null_mut()) };
    assert_eq!(failed, 0, "{}", io::Error::last_os_error());
    (one, deadline())
}

/// Calls `region`, and `handler` after instruction number `at` of it, and once more after `again` others, unless that
/// is 0. Returns `false` if there are fewer instructions than `at`.
#[inline(never)]
pub fn interrupted(at: usize, again: usize, handler: fn(), region: fn()) -> bool {
    TRAPS.set(0);
    AT.set([at, at + again]);
    HANDLER.set(handler);
    // SAFETY: the traps are handled.
    unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    region();
    // SAFETY: restores the flag.
    unsafe { asm!("pushfq", "and qword ptr [rsp], ~0x100", "popfq") };
    AT.set([usize::MAX; 2]);
    TRAPS.get() > at
}

//! Which light fences are full fences. The processor traps after each instruction of one (the trap flag of x86-64), and
//! the handler of `SIGTRAP` looks at the next instruction.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::arch::asm;
use std::ffi::{c_int, c_void};
use std::{mem, ptr};

use super::{Backend, backend, init, light};
use support::backends;
use support::child;

/// Full fences that single-stepped threads have executed.
static FULL_FENCES: AtomicUsize = AtomicUsize::new(0);

extern "C" fn on_trap(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the context of the interrupted thread.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    let next = context.uc_mcontext.gregs[libc::REG_RIP as usize];
    // SAFETY: code follows the next instruction, whose bytes need no alignment.
    let bytes = unsafe { ptr::with_exposed_provenance::<[u8; 3]>(next as usize).read() };
    // `mfence`, or an instruction with a `lock` prefix.
    if bytes == [0x0f, 0xae, 0xf0] || bytes[0] == 0xf0 {
        FULL_FENCES.fetch_add(1, Relaxed);
    }
}

/// Returns `true` if the calling thread executes a full fence as a light one.
fn is_full_fence() -> bool {
    let before = FULL_FENCES.load(Relaxed);
    // SAFETY: the traps are handled.
    unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    light();
    // SAFETY: restores the flag.
    unsafe { asm!("pushfq", "and qword ptr [rsp], ~0x100", "popfq") };
    FULL_FENCES.load(Relaxed) != before
}

#[test]
fn light_is_a_full_fence_only_without_membarrier() {
    if child::variant().is_none() {
        let test = light_is_a_full_fence_only_without_membarrier;
        return backends!().iter().for_each(|backend| child::run(test, backend, Some(backend)));
    }
    // SAFETY: a signal action is plain data, for which zero is a value.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = on_trap as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, ptr::null_mut()), 0);
    }
    init();
    assert_eq!(is_full_fence(), backend() != Backend::Membarrier);
}

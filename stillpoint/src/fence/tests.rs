//! Which light fences are full fences, and that a heavy fence is one system call. The processor traps after each
//! instruction (the trap flag of x86-64), and the handler of `SIGTRAP` looks at the next one.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::arch::asm;
use std::ffi::{c_int, c_void};
use std::{mem, ptr};

use super::{Backend, heavy, light, report};
use support::backends;
use support::child;

/// Full fences that single-stepped threads have executed.
static FULL_FENCES: AtomicUsize = AtomicUsize::new(0);
/// The same of system calls, and of all instructions.
static SYSTEM_CALLS: AtomicUsize = AtomicUsize::new(0);
static INSTRUCTIONS: AtomicUsize = AtomicUsize::new(0);

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
    SYSTEM_CALLS.fetch_add((bytes[..2] == [0x0f, 0x05]).into(), Relaxed);
    INSTRUCTIONS.fetch_add(1, Relaxed);
}

/// Calls `f` in steps of an instruction. Returns how many full fences, system calls and instructions the calling
/// thread has executed.
fn single_step(f: fn()) -> [usize; 3] {
    // SAFETY: a signal action is plain data, for which zero is a value.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = on_trap as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, ptr::null_mut()), 0);
    }
    let counts = || [&FULL_FENCES, &SYSTEM_CALLS, &INSTRUCTIONS].map(|count| count.load(Relaxed));
    let before = counts();
    // SAFETY: the traps are handled.
    unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    f();
    // SAFETY: restores the flag.
    unsafe { asm!("pushfq", "and qword ptr [rsp], ~0x100", "popfq") };
    let after = counts();
    [0, 1, 2].map(|count| after[count] - before[count])
}

#[test]
fn heavy_is_one_system_call() {
    if child::variant().is_none() {
        return child::run(heavy_is_one_system_call, "membarrier", Some("membarrier"));
    }
    report();
    let [_, calls, instructions] = single_step(heavy);
    assert_eq!(calls, usize::from(report().backend() == Backend::Membarrier));
    // With optimization it is less than a hundred.
    assert!((10..if cfg!(debug_assertions) { 5000 } else { 100 }).contains(&instructions), "{instructions}");
}

#[test]
fn light_is_a_full_fence_only_without_membarrier() {
    if child::variant().is_none() {
        let test = light_is_a_full_fence_only_without_membarrier;
        return backends!().iter().for_each(|backend| child::run(test, backend, Some(backend)));
    }
    report();
    let [full_fences, ..] = single_step(light);
    assert_eq!(full_fences != 0, report().backend() != Backend::Membarrier);
}

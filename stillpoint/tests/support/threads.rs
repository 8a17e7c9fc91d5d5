//! Processes to which system calls are denied: they cannot start threads.

use std::env::consts::ARCH;
use std::thread;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// Makes every start of a thread fail from now on. Forks still work.
pub fn deny_threads() {
    let flag = libc::CLONE_THREAD as u64;
    let makes_thread = SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(flag), flag);
    let makes_thread = SeccompRule::new(vec![makes_thread.expect("a condition")]).expect("a rule");
    // A filter cannot see the flags of `clone3`. If that does not exist, the C library calls `clone`.
    deny(libc::ENOSYS, [(libc::SYS_clone3, vec![])]);
    deny(libc::EAGAIN, [(libc::SYS_clone, vec![makes_thread])]);
    assert!(thread::Builder::new().spawn(|| ()).is_err(), "the filter works");
}

/// Makes calls return an error in all threads from now on: every call without rules, or those that match one.
pub fn deny(errno: i32, calls: impl IntoIterator<Item = (i64, Vec<SeccompRule>)>) {
    let arch = ARCH.try_into().expect("syscall filters exist for this architecture");
    let denied = SeccompAction::Errno(errno as u32);
    let filter = SeccompFilter::new(calls.into_iter().collect(), SeccompAction::Allow, denied, arch);
    let program: BpfProgram = filter.expect("a filter").try_into().expect("the filter compiles");
    if let Err(error) = seccompiler::apply_filter_all_threads(&program) {
        panic!("this host takes no syscall filter, so nothing can be said about a denied call: {error}");
    }
}

//! Processes that cannot start threads.

use std::collections::BTreeMap;
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
    deny(libc::SYS_clone3, vec![], libc::ENOSYS);
    deny(libc::SYS_clone, vec![makes_thread], libc::EAGAIN);
    assert!(thread::Builder::new().spawn(|| ()).is_err(), "the filter works");
}

fn deny(call: i64, rules: Vec<SeccompRule>, errno: i32) {
    let arch = ARCH.try_into().expect("syscall filters exist for this architecture");
    let denied = SeccompAction::Errno(errno as u32);
    let filter = SeccompFilter::new(BTreeMap::from([(call, rules)]), SeccompAction::Allow, denied, arch);
    let program: BpfProgram = filter.expect("a filter").try_into().expect("the filter compiles");
    if let Err(error) = seccompiler::apply_filter_all_threads(&program) {
        panic!("this host takes no syscall filter, so threads cannot be denied: {error}");
    }
}

//! A process that a callback starts: it inherits the worker's signal mask, which blocks all signals.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use support::prelude::*;

/// What `rcu::call` warns of. If this changes, so must its documentation.
#[test]
fn process_started_in_a_callback_blocks_signals() {
    own!(Own);
    let (sender, receiver) = channel();
    Own.call(move || sender.send(Command::new("sleep").arg("600").spawn()).expect("the test listens"));
    let mut child = receiver.recv().expect("the callback runs").expect("the child starts");
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("a child");
    // SAFETY: no pointers, and the child has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGTERM) }, 0);
    // Only this signal ends it.
    child.kill().expect("the child runs");
    let ended_by = child.wait().expect("the child ends").signal();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).expect("a mask");
    let blocked = u64::from_str_radix(blocked.trim(), 16).expect("a number");
    assert_ne!(blocked & (1 << (libc::SIGTERM - 1)), 0, "{status}");
    assert_eq!(ended_by, Some(libc::SIGKILL));
}

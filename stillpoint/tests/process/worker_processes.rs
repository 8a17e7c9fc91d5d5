//! Processes that callbacks start: they inherit the worker's signal mask, which blocks all signals.

use std::fs;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus};

use support::prelude::*;

/// Starts `command` in a callback, sends it `SIGTERM` once it runs, and returns how it has ended.
fn terminated_in_a_callback(mut command: Command) -> ExitStatus {
    stillpoint::domain! { struct Own; }
    let (sender, receiver) = channel();
    Own.call(move || sender.send(command.spawn()).expect("the test listens"));
    let mut child = receiver.recv().expect("the callback runs").expect("the child starts");
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("a child");
    // SAFETY: no pointers, and the child has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGTERM) }, 0);
    if is_blocked(libc::SIGTERM, &status) {
        child.kill().expect("the child runs");
    }
    child.wait().expect("the child ends")
}

fn is_blocked(signal: i32, status: &str) -> bool {
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).expect("a mask");
    u64::from_str_radix(blocked.trim(), 16).expect("a number") & (1 << (signal - 1)) != 0
}

fn sleeper() -> Command {
    let mut command = Command::new("sleep");
    command.arg("600");
    command
}

/// What `rcu::call` warns of. If this changes, so must its documentation.
#[test]
fn process_started_in_a_callback_blocks_signals() {
    let _running = deadline();
    assert_eq!(terminated_in_a_callback(sleeper()).signal(), Some(libc::SIGKILL));
}

/// What `rcu::call` recommends.
#[test]
fn process_started_in_a_callback_may_unblock_signals() {
    let _running = deadline();
    let mut command = sleeper();
    let unblock = || {
        // SAFETY: a signal set is plain data, initialized by sigemptyset before use.
        let result = unsafe {
            let mut none: libc::sigset_t = mem::zeroed();
            libc::sigemptyset(&mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut())
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: the function makes async-signal-safe calls only.
    unsafe { command.pre_exec(unblock) };
    assert_eq!(terminated_in_a_callback(command).signal(), Some(libc::SIGTERM));
}

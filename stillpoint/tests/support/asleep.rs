//! Waits for threads to sleep. Where a thread cannot see whether others sleep, they have had time to.

use std::sync::mpsc;
use std::thread;

use crate::until::until;

/// Returns `true` if the thread with this id sleeps.
#[cfg(target_os = "linux")]
pub fn sleeps(tid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'))
}

/// Returns `true`, after more time than a thread takes to sleep, and less than makes it count as stalled.
#[cfg(not(target_os = "linux"))]
pub fn sleeps(_tid: i32) -> bool {
    thread::sleep(std::time::Duration::from_millis(20));
    true
}

/// Returns the id of the calling thread, for [`sleeps`].
pub fn tid() -> i32 {
    // SAFETY: a plain call.
    #[cfg(target_os = "linux")]
    return unsafe { libc::gettid() };
    #[cfg(not(target_os = "linux"))]
    0
}

/// Starts a thread in `scope` and waits until it sleeps in `body`. Miri has no `/proc`: there the thread gets many
/// turns.
pub fn asleep_in<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    body: impl FnOnce() -> T + Send + 'scope,
) -> thread::ScopedJoinHandle<'scope, T> {
    let (sender, receiver) = mpsc::channel();
    let thread = scope.spawn(move || {
        sender.send(tid()).expect("the caller listens");
        body()
    });
    let tid = receiver.recv().expect("the thread has started");
    let mut turns = 0;
    until(|| {
        turns += 1;
        if cfg!(miri) { turns == 1000 } else { sleeps(tid) || thread.is_finished() }
    });
    thread
}

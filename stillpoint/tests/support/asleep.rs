//! Waits for threads to sleep.

use std::sync::mpsc;
use std::{fs, thread};

use crate::until::until;

/// Returns `true` if the thread with this id sleeps.
pub fn sleeps(tid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'))
}

/// Returns the id of the calling thread.
pub fn tid() -> i32 {
    // SAFETY: a plain call.
    unsafe { libc::gettid() }
}

/// Starts a thread in `scope` and waits until it sleeps in `body`. Miri has no `/proc`: there the thread gets many turns.
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

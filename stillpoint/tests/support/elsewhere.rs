//! In the place of [`asleep`](super::asleep) where a thread cannot see whether others sleep: they have had time to.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Long enough for a thread that is about to sleep, and less than makes it count as stalled.
const TIME: Duration = Duration::from_millis(20);

/// Returns `true`, after some time.
pub fn sleeps(_tid: i32) -> bool {
    thread::sleep(TIME);
    true
}

/// Returns a number for [`sleeps`].
pub fn tid() -> i32 {
    0
}

/// Starts a thread in `scope` and waits until it has had the time to sleep in `body`.
pub fn asleep_in<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    body: impl FnOnce() -> T + Send + 'scope,
) -> thread::ScopedJoinHandle<'scope, T> {
    let (sender, receiver) = mpsc::channel();
    let thread = scope.spawn(move || {
        sender.send(()).expect("the caller listens");
        body()
    });
    receiver.recv().expect("the thread has started");
    thread::sleep(TIME);
    thread
}

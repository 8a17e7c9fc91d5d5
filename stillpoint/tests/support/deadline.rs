//! Ends tests that hang.

use std::io::{self, Write as _};
use std::process;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;

use crate::time_limit::TIME_LIMIT;

/// A running test, which ends when this is dropped.
pub struct Running {
    _ended: Sender<()>,
}

/// Ends the process with a message if the returned value is not dropped in time.
#[must_use = "the test counts as ended when this is dropped"]
pub fn deadline() -> Running {
    let test = thread::current().name().unwrap_or("a test").to_owned();
    let (ended, watched) = mpsc::channel();
    let (starts, started) = mpsc::channel();
    let limit = *TIME_LIMIT;
    thread::spawn(move || {
        starts.send(()).expect("the test waits");
        if watched.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            // Not `eprintln!`, whose output is captured until the test ends.
            let _ = writeln!(io::stderr(), "\n{test} has not ended after {limit:?}");
            process::exit(101);
        }
    });
    // So that it does not start while the test forks: the child could not start threads.
    started.recv().expect("the thread starts");
    Running { _ended: ended }
}

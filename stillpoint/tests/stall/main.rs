//! Stall reports. All tests share the stall hook of the process, and recognize their stalls by the domain.
#![cfg(not(loom))]
#![cfg_attr(
    stillpoint_portable,
    allow(dead_code, unused_imports, reason = "tests of what only Linux has are left out")
)]

// These compare the ids of threads with those of Linux.
#[cfg(target_os = "linux")]
mod qsbr;
#[cfg(target_os = "linux")]
mod rcu;
#[cfg(feature = "section-locations")]
mod sections;
mod srcu;

use std::sync::{Mutex, Once};
use std::thread::JoinHandle;

use stillpoint::rcu::{Stall, set_stall_hook, set_stall_timeout};
use support::asleep::tid;
use support::prelude::*;

/// The stall timeout of these tests.
const LIMIT: Duration = Duration::from_millis(10);

/// Returns the name of a thread that a report has: only Linux knows it by the id.
fn known(name: &str) -> Option<&str> {
    cfg!(not(stillpoint_portable)).then_some(name)
}

/// A function that the hook calls after it has recorded a stall of the named domain.
type Extra = (&'static str, fn(&Stall));

static EXTRAS: Mutex<Vec<Extra>> = Mutex::new(Vec::new());
static STALLS: Mutex<Vec<Stall>> = Mutex::new(Vec::new());

/// Sets the timeout and the hook of the process.
fn record_stalls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        set_stall_timeout(Some(LIMIT));
        set_stall_hook(Box::new(|stall| {
            STALLS.lock().expect("no panic under the lock").push(stall.clone());
            let extras = EXTRAS.lock().expect("no panic under the lock").clone();
            extras.iter().filter(|(domain, _)| *domain == stall.domain()).for_each(|(_, extra)| extra(stall));
        }));
    });
}

/// Waits for `count` stalls that are `wanted`, and returns them.
fn stalls_of(count: usize, wanted: impl Fn(&Stall) -> bool) -> Vec<Stall> {
    loop {
        let mut stalls = STALLS.lock().expect("no panic under the lock").clone();
        stalls.retain(&wanted);
        if stalls.len() >= count {
            return stalls;
        }
        thread::yield_now();
    }
}

/// A thread that is inside a section until [`leave`](Self::leave) is called.
struct StalledThread {
    id: u32,
    leave: Sender<()>,
    thread: JoinHandle<()>,
}

/// Starts a thread that begins a section by `enter`.
fn stall<G>(name: &str, enter: impl FnOnce() -> G + Send + 'static) -> StalledThread {
    let (entered, enters) = mpsc::channel();
    let (leave, leaves) = mpsc::channel();
    let body = move || {
        let guard = enter();
        entered.send(tid().unsigned_abs()).expect("the test listens");
        leaves.recv().expect("the test sends");
        drop(guard);
    };
    let thread = thread::Builder::new().name(name.to_owned()).spawn(body).expect("a thread");
    StalledThread { id: enters.recv().expect("the thread enters"), leave, thread }
}

impl StalledThread {
    fn leave(self) {
        self.leave.send(()).expect("the reader listens");
        self.thread.join().expect("no panic");
    }
}

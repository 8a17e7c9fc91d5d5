//! The items that `domain!` uses do not expose the state of a domain.
#![forbid(unsafe_code)]

use stillpoint::rcu::{Global, StaticDomain};

fn main() {
    let guard = stillpoint::rcu::enter();
    let _ = Global::shared().core;
    let _ = Global::shared().readers();
    Global::with_thread_state(|local| local.registration.reader().unwrap().leave());
    Global::with_thread_state(|local| local.has_handle.set(false));
    drop(guard);
}

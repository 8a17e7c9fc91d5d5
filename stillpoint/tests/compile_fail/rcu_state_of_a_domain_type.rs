//! The items that `domain!` uses do not expose the state of a domain.
#![forbid(unsafe_code)]

use stillpoint::rcu::{Global, StaticDomain};

fn main() {
    let guard = stillpoint::rcu::enter();
    let _ = Global::shared().core; //~ E0616 field `core` of struct `stillpoint::rcu::DomainState` is private
    let _ = Global::shared().readers(); //~ E0624 method `readers` is private
    Global::with_thread_state(|local| local.registration.reader().unwrap().leave());
    //~ E0616 field `registration` of struct `stillpoint::rcu::ThreadState` is private
    Global::with_thread_state(|local| local.has_handle.set(false));
    //~ E0616 field `has_handle` of struct `stillpoint::rcu::ThreadState` is private
    drop(guard);
}

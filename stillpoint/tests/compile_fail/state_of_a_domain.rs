//! Neither a bound that implies the protocol of domains nor the items that `domain!` uses expose the state of a
//! domain: a program could end a section under its guard.
#![forbid(unsafe_code)]

use stillpoint::Domain;
use stillpoint::rcu::{Global, StaticDomain};

fn main() {}

fn by_the_bound<D: Domain>(domain: &D) {
    let _ = domain.current_reader().unwrap().leave(); //~ E0624 method `current_reader` is private
    let _ = domain.engine(); //~ E0624 method `engine` is private
}

fn by_the_macro() {
    let _ = Global::shared().core; //~ E0616 field `core` of struct `stillpoint::rcu::DomainState` is private
    let _ = Global::shared().readers(); //~ E0624 method `readers` is private
    Global::with_thread_state(|local| local.registration.reader().unwrap().leave());
    //~ E0616 field `registration` of struct `stillpoint::rcu::ThreadState` is private
    Global::with_thread_state(|local| local.has_handle.set(false));
    //~ E0616 field `has_handle` of struct `stillpoint::rcu::ThreadState` is private
}

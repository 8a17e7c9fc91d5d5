//! The trait of the protocol of domains cannot be named outside the library.
#![forbid(unsafe_code)]

use stillpoint::rcu::{Global, RawDomain}; //~ E0432 unresolved import `stillpoint::rcu::RawDomain`

fn main() {
    let guard = stillpoint::rcu::enter();
    let _ = RawDomain::own(&Global).unwrap().leave();
    drop(guard);
}

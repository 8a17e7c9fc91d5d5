//! The trait that has the protocol of domains has no name outside of the library.
#![forbid(unsafe_code)]

use stillpoint::rcu::{Global, RawDomain};

fn main() {
    let guard = stillpoint::rcu::enter();
    let _ = RawDomain::own(&Global).unwrap().leave();
    drop(guard);
}

//! Safe code cannot define a domain whose sections protect nothing.
#![forbid(unsafe_code)]

use stillpoint::rcu::{Rcu, Sections, WORDS};

stillpoint::static_domain! {
    unsafe
    struct Unprotected;
    Sections, (), WORDS, //~ no rules expected `Sections`
    f => f(None)
}

fn main() {
    let value = Rcu::new_in(1, Unprotected);
    let seen = value.load(&());
    drop(value.replace(2).wait());
    assert_eq!(*seen, 1);
}
